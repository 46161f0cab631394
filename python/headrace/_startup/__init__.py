"""What a process begins with whose program is to have Headrace's loaders."""
