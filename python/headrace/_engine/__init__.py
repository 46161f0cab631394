"""The shared library, called through ctypes, and the checks of users' values for it."""
