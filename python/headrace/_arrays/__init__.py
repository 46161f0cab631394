"""Images that are arrays of pixels already: where they lie, and in what order of axes."""
