"""The functions of ``headrace.functional``, which work on one image at a time."""
