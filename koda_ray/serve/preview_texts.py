"""Replacing a word in a text that passes by, however long that is, without holding more of it than a part."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

__all__ = ["with_replaced"]


async def with_replaced(parts: AsyncIterator[bytes], old: bytes, new: bytes) -> AsyncGenerator[bytes]:
    """Give a text with a word replaced, wherever its parts begin and end.

    Args:
        parts: The text.
        old: The word, of at least one byte.
        new: What stands in its place.
    """
    kept = b""
    async for part in parts:
        *before, last = (kept + part).split(old)
        cut = max(0, len(last) - len(old) + 1)  # what is left may be how the word begins
        kept = last[cut:]
        if said := new.join([*before, last[:cut]]):
            yield said
    if kept:
        yield kept
