"""Whose turn it is where several processes run tests: many beside each other, or one alone.

A lock that tests share, and that a test has for itself which must be alone: it takes up the machine, or measures time
that others would take from it. Who wants it for itself is let in before those who come later. Source: flock(2).
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import leaks

__all__ = ["taken"]

_FILES = (Path(__file__), Path(leaks.__file__))


@contextmanager
def taken(*, alone: bool) -> Iterator[None]:
    """Wait for one's turn, and have it for the block; at once where there are no others."""
    if not leaks.is_one_of_several():
        yield
        return
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    door, room = (file.open() for file in _FILES)
    with door, room:
        fcntl.flock(door, kind)
        fcntl.flock(room, kind)
        fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(room, fcntl.LOCK_UN)  # by name: what was forked off meanwhile may have it open
