"""Images that a program's own dataset opens: recorded in Python, made by the engine."""
