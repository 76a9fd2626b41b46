"""A coroutine's work in a thread of its own, followed from a plain generator: what it tells, then how it ended.

Whoever follows from afar cannot tell long work from a worker that was lost without a word; so a worker that has nothing
to tell says that it is at work.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, cast

from koda_ray.errors import KodaError
from koda_ray.render.protocol import Captured, PageTried

__all__ = ["BEAT_S", "AtWork", "told"]

BEAT_S = 5.0
"""Seconds after which whoever has told nothing says that it is at work."""

_URGENT_NICE, _NICER = 5, 5
"""How nice urgent work is at least, and how much nicer background work: each gets a third of what the one before does,
who answers people first, where both want a processor. More would starve it wherever anything else runs, at 19 beside a
compiler seventyfold. A step is a factor of 1.25: sched(7).
"""
_TELL_EVERY_S = 0.5
_POLL_S = 0.1
_OVER = object()


@dataclass(frozen=True, slots=True)
class AtWork:
    """Nothing is new, and the worker is there; ``where`` is its place, as whoever follows it calls that."""

    where: str = ""


@contextlib.contextmanager
def _ended(said: queue.Queue[object]) -> Generator[None]:
    """Say when the block is over or cancelled, so that nobody has to find out by looking."""
    try:
        with contextlib.suppress(asyncio.CancelledError):
            yield
    finally:
        said.put(_OVER)


def _yield_to_others(*, background: bool) -> None:
    """Have this thread alone, and what it starts, be nicer: the process may do urgent work next."""
    nice = max(os.getpriority(os.PRIO_PROCESS, 0), _URGENT_NICE)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(nice + _NICER, 19) if background else nice)


def told(
    work: Callable[[Callable[[object], None]], Coroutine[Any, Any, object]],
    *,
    background: bool = False,
    where: str = "",
) -> Generator[object]:
    """Run a coroutine in a thread; yield what it tells, then what it returns or the KodaError that it raises.

    The first value is an `AtWork`, and so is one after every `BEAT_S` without another.

    Whoever iterates stays in its own thread, where cancelling arrives as an exception; the coroutine is then cancelled,
    and its processes are gone when that is done. Counts of frames are told twice a second at most.

    Args:
        work: Gets what it tells with; may tell anything but None.
        background: Whether the thread, and what it starts, has less of a claim on the processors.
        where: The place of this, which is told with every `AtWork`.

    Raises:
        Exception: A fault of ours, as the coroutine raised it.
    """
    # no SimpleQueue: held up past its timeout, it waits on with a time below 0, which is without end
    said: queue.Queue[object] = queue.Queue()
    loop = asyncio.new_event_loop()
    outcome: list[object] = []
    main: list[asyncio.Task[object]] = []
    over = threading.Event()
    faults: list[Exception] = []

    async def body() -> None:
        main.append(cast("asyncio.Task[object]", asyncio.current_task()))
        if over.is_set():  # cancelled before it began
            return
        try:
            outcome.append(await work(said.put))
        except KodaError as error:
            outcome.append(error)
        except Exception as error:  # a fault of ours: raised in the task itself, so that it is told
            faults.append(error)

    def thread() -> None:
        _yield_to_others(background=background)
        with _ended(said), asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(body())

    worker = threading.Thread(target=thread, name="render", daemon=True)
    worker.start()
    last = said_at = time.monotonic()
    frames: Captured | None = None
    try:
        yield AtWork(where)
        while True:
            value: object = None
            with contextlib.suppress(queue.Empty):
                value = said.get(timeout=_POLL_S)
            if value is _OVER:
                break
            if isinstance(value, Captured) and not isinstance(value, PageTried):
                frames = value
            elif value is not None:
                frames = None
                yield value
                said_at = time.monotonic()
            if frames is not None and time.monotonic() - last >= _TELL_EVERY_S:
                last = said_at = time.monotonic()
                yield frames
                frames = None
            elif time.monotonic() - said_at >= BEAT_S:
                said_at = time.monotonic()
                yield AtWork(where)
    finally:
        over.set()
        if worker.is_alive() and main:
            with contextlib.suppress(RuntimeError):  # it ended meanwhile
                loop.call_soon_threadsafe(main[0].cancel)
        worker.join()
    if faults:
        raise faults[0]
    if not outcome:
        raise RuntimeError("the render worker's thread ended without an outcome")
    yield outcome[0]
