"""A finalizer whose call an exception may end at any place."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Finalize = weakref.finalize[..., Any]
else:
    _Finalize = weakref.finalize


class Finalizer(_Finalize):
    """Calls a function once: by hand, when its object is freed, or at exit.

    ``weakref.finalize`` is dead as soon as it is called. An exception that a signal handler raises
    then, such as KeyboardInterrupt, would leave what the function frees open for ever. This one is
    dead only after the function has returned, so the next call, or the end of the object, does what
    is left. The function has to bear a second call.
    """

    __slots__ = ()

    def __call__(self, _: Any = None) -> Any:
        # The object is gone when the garbage collector calls; then nothing can call again.
        if (found := self.peek()) is not None:
            _, function, arguments, words = found
            returned = function(*arguments, **words)
            self.detach()
            return returned
        return super().__call__(_)
