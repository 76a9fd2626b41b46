"""Processes of which there is one for each session, and that are therefore to be small.

Most of their memory is code, so whatever not every session needs is imported where it is used: SDKs, Alembic, a
database's dialect. `Frugal` is about the rest: what Ray would load on our behalf, and what malloc keeps.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from typing import Any, Self, cast

__all__ = ["Frugal", "give_back"]

_MODULES = cast("dict[str, object]", sys.modules)
_UNUSED = ("pydantic.v1", "starlette")
"""2 MB that Ray imports so that it can send FastAPI's fields and states, if they are there to be imported."""
_M_TRIM_THRESHOLD, _M_TOP_PAD = -1, -2
_KEPT_BYTES = 64 * 1024
_SPARE_BYTES = 16 * 1024
_LIBC = "libc.so.6"


class Frugal:
    """The base of a Ray actor's class; a subclass calls ``super().__init__()`` before anything else.

    Ray makes the object, then reads the arguments, which is when it looks for what it can send, and then calls
    ``__init__``: in between, what we never send cannot be imported. Afterwards everything can.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Hide what Ray is not to load, unless this is its handle on the class, in a process that calls the actor."""
        if not hasattr(cls, "remote"):
            for name in _UNUSED:
                _MODULES.setdefault(name, None)
        return super().__new__(cls)

    def __init__(self) -> None:
        for name in _UNUSED:
            if _MODULES.get(name, self) is None:
                del _MODULES[name]
        # each thread has its own part of the heap, whose end stays with the process up to a threshold, and that grows
        # with whatever was freed once; malloc_trim does not look there. Source: mallopt(3)
        with contextlib.suppress(OSError, AttributeError):  # another C library
            libc = ctypes.CDLL(_LIBC)
            libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
            libc.mallopt(_M_TOP_PAD, _SPARE_BYTES)


def give_back() -> None:
    """Return to the system what importing, starting and working took and freed again (glibc keeps it otherwise)."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(_LIBC).malloc_trim(0)
