"""What people make for themselves has a lease while it is being made; what is left of a maker that died is found by it.

The row comes first, then what it is about, then the row that says so. Whoever makes it renews the row's lease. A lease
that is over says that nobody is at it any more: then what there is of it is removed, and the row with it. A maker that
was only held up (a debugger, a machine that slept) finds its row ended, and takes back what it made.

A sandbox that is ready has an end as well. Whoever comes upon one that is past it ends it; where nobody comes, the
janitor does, at whichever provider it is, also one that the server makes none at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta

from koda_ray.errors import KodaError, StorageError
from koda_ray.sandbox.providers import Providers
from koda_ray.state.boxes import ImageRecord, SandboxRecord
from koda_ray.state.store import Store
from koda_ray.types import now

__all__ = ["LEASE", "NEVER_FINISHED", "being_made", "clear_own", "clear_unfinished", "is_unfinished"]

LEASE = timedelta(seconds=60)
"""How long a row waits for a maker of which nothing is heard."""
NEVER_FINISHED = "whoever made it did not finish"
"""Why a sandbox is gone whose lease was over."""
_RENEWALS = 3


@asynccontextmanager
async def being_made(renew: Callable[[datetime], Awaitable[object]]) -> AsyncGenerator[None]:
    """Keep an intent's lease for the time of the block; once it is over, nothing is written any more.

    Args:
        renew: Writes the row with a lease until then.
    """
    done = asyncio.Event()

    async def keep() -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LEASE.total_seconds() / _RENEWALS):
                    await done.wait()
                return
            with suppress(StorageError):  # tried again before the lease is over
                await renew(now() + LEASE)

    keeping = asyncio.create_task(keep(), name="lease")
    try:
        yield
    finally:
        done.set()  # not cancelled: a write that is on its way must be over before the next
        await asyncio.wait({keeping})


def is_unfinished(row: SandboxRecord | ImageRecord) -> bool:
    """Whether somebody began to make this and is not at it any more."""
    return row.status == "creating" and (row.expires_at or row.created_at + LEASE) < now()


async def clear_unfinished(store: Store, providers: Providers, *, user_id: str | None = None) -> list[str]:
    """Remove what is left half made here; what is in another place is left to whoever is there.

    Args:
        store: Its rows.
        providers: Who made it.
        user_id: Whose; everybody's when None.

    Returns:
        The ids of what is gone.
    """
    return await _clear(store, providers, user_id, is_unfinished)


async def clear_own(store: Store, providers: Providers) -> list[str]:
    """Remove what people made for themselves here that is left half made, and their sandboxes whose time is over.

    Args:
        store: Its rows.
        providers: Who made it.

    Returns:
        The ids of what is gone.
    """
    return await _clear(store, providers, None, lambda row: is_unfinished(row) or _is_over(row))


def _is_over(row: SandboxRecord | ImageRecord) -> bool:
    return isinstance(row, SandboxRecord) and row.expired_at(now())


async def _clear(
    store: Store,
    providers: Providers,
    user_id: str | None,
    is_to_go: Callable[[SandboxRecord | ImageRecord], bool],
) -> list[str]:
    gone: list[str] = []
    for row in (*await store.own_sandboxes(user_id=user_id), *await store.images(user_id=user_id)):
        if is_to_go(row):
            with suppress(KodaError):  # its provider cannot be asked now: the next time, then
                # looked at again: the ones before it took their time, and its person may have prolonged it meanwhile
                if is_to_go(await _as_it_is(store, row)) and await _cleared(store, providers, row):
                    gone.append(row.id)
    return gone


async def _as_it_is(store: Store, row: SandboxRecord | ImageRecord) -> SandboxRecord | ImageRecord:
    if isinstance(row, SandboxRecord):
        return await store.get_sandbox(row.id, user_id=row.user_id)
    return await store.get_image(row.id, user_id=row.user_id)


async def _cleared(store: Store, providers: Providers, row: SandboxRecord | ImageRecord) -> bool:
    provider = await providers.at(row)
    if provider is None:
        return False
    if isinstance(row, SandboxRecord):
        await provider.destroy(row.id)
        await store.sandbox_destroyed(row.id, why=row.time_over if _is_over(row) else NEVER_FINISHED)
    else:
        await (await providers.images(row.provider)).clear(row.id)
        await store.put_image(replace(row, status="removed"))
    return True
