"""Turns for each sandbox: who asks while one is made, closed or looked at, and what closing leaves."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from koda_ray.sandbox.held import Held


class _Box:
    """Something that is made, lives and is closed, each when the test says so."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.answers.set()
        self.closable = asyncio.Event()
        self.closable.set()
        self.asked = self.closing = self.closed = False

    async def is_alive(self) -> bool:
        self.asked = True
        await self.answers.wait()
        return True

    async def close(self) -> None:
        self.closing = True
        await self.closable.wait()
        self.closed = True


class _Boxes:
    """A provider of nothing else."""

    def __init__(self) -> None:
        self.held = Held[_Box]()
        self.made: list[_Box] = []
        self.prepared = asyncio.Event()

    async def create(self) -> _Box:
        async with self.held.turn("a"):
            box = self._open()
            await self.prepared.wait()
            return box

    async def connect(self, name: str = "a") -> _Box:
        return await self.held.connected(name, self._find)

    async def close(self) -> None:
        await self.held.close(_Box.close)

    async def _find(self, name: str) -> _Box:
        return await self.held.alive(name) or self._open(name)

    def _open(self, name: str = "a") -> _Box:
        box = _Box()
        self.made.append(box)
        self.held.put(name, box)
        return box


async def _let_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_that_is_not_ready_is_given_to_nobody() -> None:
    boxes = _Boxes()
    making = asyncio.create_task(boxes.create())
    await _let_run()
    asking = asyncio.create_task(boxes.connect())
    await _let_run()
    assert boxes.made and not asking.done()
    boxes.prepared.set()
    assert await asking is await making


async def test_one_that_is_being_made_is_closed_once_it_is() -> None:
    boxes = _Boxes()
    making = asyncio.create_task(boxes.create())
    await _let_run()
    closing = asyncio.create_task(boxes.close())
    await _let_run()
    assert not closing.done() and not boxes.made[0].closing
    boxes.prepared.set()
    await closing
    assert (await making).closed
    assert await boxes.connect() is not await making


async def test_whoever_asks_while_one_is_closed_has_it_opened_anew_then() -> None:
    boxes = _Boxes()
    first = await boxes.connect()
    first.closable.clear()
    closing = asyncio.create_task(boxes.close())
    await _let_run()
    asking = asyncio.create_task(boxes.connect())
    await _let_run()
    assert first.closing and not asking.done() and len(boxes.made) == 1
    first.closable.set()
    second = await asking
    await closing
    assert second is not first and not second.closing


async def test_one_that_is_closed_while_it_is_looked_at_is_given_to_nobody() -> None:
    boxes = _Boxes()
    first = await boxes.connect()
    first.answers.clear()
    asking = asyncio.create_task(boxes.connect())
    await _let_run()
    assert first.asked
    await boxes.close()
    first.answers.set()
    assert first.closed and await asking is boxes.made[1]


async def test_one_that_fails_to_close_keeps_no_other_open() -> None:
    boxes = _Boxes()
    opened = [await boxes.connect(name) for name in "abc"]

    async def close(box: _Box) -> None:
        if box is opened[0]:
            raise OSError("no")
        await box.close()

    with pytest.raises(OSError, match="no"):
        await boxes.held.close(close)
    assert [box.closed for box in opened] == [False, True, True]
    await boxes.close()


async def test_what_has_begun_to_close_is_closed_though_the_closing_is_cancelled() -> None:
    boxes = _Boxes()
    making = asyncio.create_task(boxes.create())
    other = await boxes.connect("b")
    other.closable.clear()
    closing = asyncio.create_task(boxes.close())
    await _let_run()
    closing.cancel()
    await _let_run()
    assert other.closing and not closing.done()
    other.closable.set()
    with suppress(asyncio.CancelledError):
        await closing
    assert closing.cancelled() and other.closed
    boxes.prepared.set()
    assert await boxes.connect() is await making, "it had not begun, and is there for the next who closes"
    await boxes.close()
    assert (await making).closed
