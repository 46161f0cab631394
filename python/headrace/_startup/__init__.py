"""The start of a process in which Headrace's loaders replace torch's, as under ``headrace run``."""
