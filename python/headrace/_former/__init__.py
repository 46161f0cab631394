"""Former names of modules, so that old pickles load; nothing else imports them.

The package's ``__path__`` ends with this folder, so ``headrace.schedule`` is found in it.
"""
