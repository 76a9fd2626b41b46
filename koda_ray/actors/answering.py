"""Waiting for an actor's answer only while somebody is there to give it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["Lost", "answer_or_lost"]

_LOOK_S = 1.0
T = TypeVar("T")


class Lost(Exception):
    """Whoever was asked is gone: another is to be sought."""


async def answer_or_lost(answer: Awaitable[T], is_lost: Callable[[], Awaitable[bool]]) -> T:
    """Await what an actor answers, for as long as it takes.

    Args:
        answer: What Ray gave for the call.
        is_lost: Asked again and again meanwhile.

    Raises:
        Lost: ``is_lost`` says so.
    """
    waiting = asyncio.ensure_future(_awaited(answer))
    waiting.add_done_callback(lambda over: over.cancelled() or over.exception())  # nobody may be left to hear it
    looking: asyncio.Future[bool] | None = None
    try:
        while not (await asyncio.wait({waiting}, timeout=_LOOK_S))[0]:
            looking = asyncio.ensure_future(is_lost())
            await asyncio.wait({waiting, looking}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() and looking.result():
                raise Lost
        return waiting.result()
    finally:
        waiting.cancel()
        if looking is not None:
            looking.cancel()


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
