"""Storage that is away for a moment costs a render a moment: each call is made again by itself, for half a minute.

What renders does so through a `RetryingStorage`, so that no call has to remember it. What answers a request uses a
plain `Storage`, for nobody should wait so long for that. Tasks carry the plain one as well: they may be read by another
version of us, and whoever does their work makes it retry there.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from koda_ray.errors import StorageError
from koda_ray.state.storage import Storage

__all__ = ["RetryingStorage"]

_RETRY_S = 30.0
"""How long after its first time a call is made again."""
_WAIT_S, _WAIT_MAX_S = 0.1, 2.0
P = ParamSpec("P")
T = TypeVar("T")


def _retried(
    method: Callable[Concatenate[Storage, P], Awaitable[T]],
) -> Callable[Concatenate[RetryingStorage, P], Coroutine[Any, Any, T]]:
    """Make a method that calls the storage's own of that name, and again while storage cannot be reached."""

    @functools.wraps(method)
    async def made(self: RetryingStorage, /, *given: P.args, **named: P.kwargs) -> T:
        call = cast("Callable[P, Awaitable[T]]", getattr(self.once, method.__name__))
        end, wait_s = time.monotonic() + _RETRY_S, _WAIT_S
        while True:
            try:
                return await call(*given, **named)
            except StorageError as error:
                if not _may_pass(error) or time.monotonic() >= end:
                    raise
            await asyncio.sleep(wait_s)
            wait_s = min(_WAIT_MAX_S, wait_s * 2)

    return made


def _may_pass(error: StorageError) -> bool:
    return error.retryable and error.code != "DISK_FULL"


class RetryingStorage:
    """What renders need of a `Storage`, method by method; each raises StorageError only once it was retried in vain.

    All of these can be made again from the beginning: they take bytes and files, no streams and nothing that is gone
    when it was read once. What will not pass, such as a full disk, is raised at once.

    Args:
        once: The storage itself, for a call that is made once: where waiting helps nobody.
    """

    def __init__(self, once: Storage) -> None:
        self.once = once

    def local_path(self, key: str) -> Path | None:
        """As `Storage.local_path`, which calls nobody."""
        return self.once.local_path(key)

    put = _retried(Storage.put)
    put_file = _retried(Storage.put_file)
    get = _retried(Storage.get)
    get_file = _retried(Storage.get_file)
    copy = _retried(Storage.copy)
    touch = _retried(Storage.touch)
    delete = _retried(Storage.delete)
    exists = _retried(Storage.exists)
    size = _retried(Storage.size)
    look = _retried(Storage.look)
    look_below = _retried(Storage.look_below)
    list = _retried(Storage.list)
    await_turn = _retried(Storage.await_turn)
