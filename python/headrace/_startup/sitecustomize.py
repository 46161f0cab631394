"""What Python runs first in a program started by ``headrace run``, and in the program's children.

Python's ``site`` imports the first module of this name on ``sys.path``. ``headrace run`` puts this
folder there through the environment; ddtrace and OpenTelemetry begin programs in the same way.
Afterwards this module imports the other module of this name, of the user or of the system.
"""

import os
import sys


def begin():  # type: ignore[no-untyped-def]
    folder = os.path.dirname(os.path.abspath(__file__))
    # The program's sys.path becomes what it would be otherwise. PYTHONPATH stays, for the processes
    # that the program starts.
    sys.path[:] = [place for place in sys.path if place != folder]
    # Other Pythons, such as those of scripts that the program starts, are left alone.
    if os.environ.get("HEADRACE_RUN") == sys.prefix:
        try:
            from headrace._startup import hook
        except ImportError as failure:
            sys.stderr.write("headrace run: torch's own loaders run: " + str(failure) + "\n")
        else:
            hook.arrange(table=True)
    own = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as failure:
        if getattr(failure, "name", "sitecustomize") != "sitecustomize":
            raise
    finally:
        if own is not None:  # there is no other; the import of this one expects to find it
            sys.modules.setdefault("sitecustomize", own)


if __name__ == "sitecustomize":
    begin()  # type: ignore[no-untyped-call]
