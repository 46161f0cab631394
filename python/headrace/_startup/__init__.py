"""The start of a process in which torch's loaders are Headrace's, as under ``headrace run``."""
