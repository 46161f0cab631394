"""Images that are arrays of pixels already."""
