"""The shared library, called through ctypes, and users' values on their way to it."""
