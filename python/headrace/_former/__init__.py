"""Modules' names of before, for pickles that say them; nothing else imports them.

The package's ``__path__`` ends with this folder, so that ``headrace.schedule`` is found in it.
"""
