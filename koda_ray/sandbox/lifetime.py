"""Keeps a sandbox that its provider would end by itself: its lifetime is renewed while somebody uses it, not longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from koda_ray.errors import InvalidInput, KodaError, SandboxNotFound

__all__ = ["MAX_LIFETIME_S", "Lifetime", "checked_lifetime"]

MAX_LIFETIME_S = 86_400.0
"""The longest that a sandbox can be told to live: what providers allow at most."""

_DUE = 2 / 3
"""The part of the lifetime that must be left; with less, the next use renews it."""
_CANCEL_S = 0.5


class Lifetime:
    """The rest of a sandbox's life.

    A use renews it when a third of it is over, and as often as that while the use goes on. Without uses it runs out.

    Args:
        lifetime_s: How long it is, counted from each renewal.
        renew: Asks the provider for a whole lifetime from now on; raises SandboxNotFound when it is too late.
    """

    def __init__(self, lifetime_s: float, renew: Callable[[], Awaitable[None]]) -> None:
        self._lifetime_s = lifetime_s
        self._renew = renew
        self._ends_at = time.monotonic() + lifetime_s
        self._users = 0
        self._held = False
        self._keeping: asyncio.Task[None] | None = None
        self._renewing = asyncio.Lock()

    @property
    def left_s(self) -> float:
        """What is left of it, by this machine's clock; not above zero when it is over."""
        return self._ends_at - time.monotonic()

    def extended(self, lifetime_s: float) -> None:
        """Say that the provider lets it live for this long from now on, where that is longer."""
        self._ends_at = max(self._ends_at, time.monotonic() + lifetime_s)

    def end(self) -> None:
        """Take it for over: the next use must ask the provider first."""
        self._ends_at = time.monotonic()

    @asynccontextmanager
    async def used(self) -> AsyncGenerator[None]:
        """Hold it open for the time of the block.

        Raises:
            SandboxNotFound: SANDBOX_NOT_FOUND, it was over and could not be renewed.
            SandboxError: It is over, and the provider could not be asked.
        """
        await self._renew_if_due()
        self._users += 1
        self._look_after()
        try:
            yield
        finally:
            self._users -= 1
            await self._rest()

    def hold(self) -> None:
        """Hold it open until ``let_go``, for what goes on without calls; may be said twice."""
        self._held = True
        self._look_after()

    async def let_go(self) -> None:
        """Say that nothing goes on any more; uses still hold it open."""
        self._held = False
        await self._rest()

    def _look_after(self) -> None:
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name="sandbox-lifetime")

    async def _rest(self) -> None:
        if self._users == 0 and not self._held and self._keeping is not None:
            keeping, self._keeping = self._keeping, None
            while not keeping.done():  # a provider's client may lose a cancellation, and wait on
                keeping.cancel()
                await asyncio.wait({keeping}, timeout=_CANCEL_S)

    async def _keep(self) -> None:
        while self._keeping is asyncio.current_task():
            await asyncio.sleep(self._lifetime_s * (1 - _DUE))
            with suppress(KodaError):  # whoever uses it finds out
                await self._renew_if_due()

    async def _renew_if_due(self) -> None:
        async with self._renewing:
            if self.left_s > self._lifetime_s * _DUE:
                return
            began = time.monotonic()
            try:
                await self._renew()
            except SandboxNotFound:
                raise
            except KodaError as error:
                if self.left_s <= 0:
                    raise
                from koda_ray.logs import get_logger  # imported by the first who has something to say

                get_logger(__name__).warning(
                    "a sandbox's lifetime could not be renewed; it is tried again", left_s=self.left_s, code=error.code
                )
            else:
                self._ends_at = began + self._lifetime_s


def checked_lifetime(lifetime_s: float) -> float:
    """Check how long a sandbox is to live.

    Raises:
        InvalidInput: INVALID_INPUT, less than a second or more than a day.
    """
    if not 1 <= lifetime_s <= MAX_LIFETIME_S:
        raise InvalidInput(
            f"a sandbox cannot be told to live for {lifetime_s:g} s; give 1 to {MAX_LIFETIME_S:g}, and again before "
            "that is over"
        )
    return lifetime_s
