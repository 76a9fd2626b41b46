"""Hold one of a store's locks while something is done: wait for it, renew its lease, give it up.

A lock is a row with a lease, so it outlives nobody: where its holder dies, the next one has it after the lease. A
holder that was stopped for longer than that (a debugger, a swapped-out machine) may wake up when another holds it;
`HeldLock.check` tells it so, and its lock's ``epoch`` tells whoever it asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from koda_ray.errors import Fenced, StorageError, Unavailable
from koda_ray.state.tiers import LockRecord, OperatedStore
from koda_ray.types import now

__all__ = ["HeldLock", "holding", "locked"]

_PAUSE_MIN_S, _PAUSE_MAX_S = 0.01, 0.25
_RENEWALS = 3


class HeldLock:
    """A lock that is held; ``lost`` is set when it is so no longer."""

    def __init__(self, record: LockRecord) -> None:
        self.record = record
        self.lost = asyncio.Event()

    def check(self) -> None:
        """Make sure of it before something that must not happen twice; raises Fenced."""
        if self.lost.is_set() or now() >= self.record.lease_until:
            raise Fenced(f"lock {self.record.name!r} is held by {self.record.holder!r} no longer: it must stop")


@asynccontextmanager
async def locked(
    store: OperatedStore, name: str, *, holder: str, lease_s: float = 15.0, timeout_s: float = 30.0
) -> AsyncGenerator[HeldLock]:
    """Hold a lock in the block.

    Args:
        store: Where the lock is; everybody who names it there is kept out.
        name: Of the lock.
        holder: Who asks, for people to read.
        lease_s: How long it stays taken when its holder dies.
        timeout_s: How long to wait for it.

    Raises:
        Unavailable: Somebody else had it all the time.
    """
    lease = timedelta(seconds=lease_s)
    record = await _take(store, name, holder, lease, timeout_s)
    async with holding(store, record, lease_s=lease_s) as held:
        yield held


@asynccontextmanager
async def holding(store: OperatedStore, record: LockRecord, *, lease_s: float) -> AsyncGenerator[HeldLock]:
    """Hold a lock that was taken for as long as the block runs, then give it up."""
    lease, held = timedelta(seconds=lease_s), HeldLock(record)
    renewing = asyncio.create_task(_renew(store, held, lease))
    try:
        yield held
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
        await store.release_lock(held.record)


async def _take(store: OperatedStore, name: str, holder: str, lease: timedelta, timeout_s: float) -> LockRecord:
    deadline, pause = time.monotonic() + timeout_s, _PAUSE_MIN_S
    while (record := await store.take_lock(name, holder=holder, lease_until=now() + lease)) is None:
        if time.monotonic() >= deadline:
            raise Unavailable(f"lock {name!r} was not free for {timeout_s:g} s: whoever has it is still at work")
        await asyncio.sleep(pause)
        pause = min(2 * pause, _PAUSE_MAX_S)
    return record


async def _renew(store: OperatedStore, held: HeldLock, lease: timedelta) -> None:
    while True:
        await asyncio.sleep(lease.total_seconds() / _RENEWALS)
        try:
            held.record = await store.renew_lock(held.record, lease_until=now() + lease)
        except Fenced:
            held.lost.set()
            return
        except StorageError:
            if now() >= held.record.lease_until:
                held.lost.set()
                return
