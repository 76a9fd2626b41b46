"""A lifetime that is renewed while somebody uses it, and runs out when nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from koda_ray.errors import SandboxError, SandboxNotFound
from koda_ray.sandbox.lifetime import Lifetime

LIFE_S = 0.6


class Provider:
    """Renews, or fails to."""

    def __init__(self) -> None:
        self.renewals = 0
        self.error: Exception | None = None

    async def renew(self) -> None:
        self.renewals += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def provider() -> Provider:
    return Provider()


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.005)


async def used(lifetime: Lifetime, work: Callable[[], Awaitable[None]]) -> None:
    async with lifetime.used():
        await work()


async def test_a_use_renews_it_only_when_it_is_due(provider: Provider) -> None:
    lifetime = Lifetime(60, provider.renew)
    for _ in range(5):
        async with lifetime.used():
            pass
    assert provider.renewals == 0
    lifetime.end()
    async with lifetime.used():
        assert lifetime.left_s > 59
    assert provider.renewals == 1


async def test_a_long_use_renews_it_again_and_again(provider: Provider) -> None:
    lifetime = Lifetime(LIFE_S, provider.renew)
    async with lifetime.used():
        await until(lambda: provider.renewals >= 4 and lifetime.left_s > 0)
    seen = provider.renewals
    await until(lambda: lifetime.left_s <= 0)
    assert provider.renewals == seen


async def test_what_is_held_is_renewed_until_it_is_let_go(provider: Provider) -> None:
    lifetime = Lifetime(LIFE_S, provider.renew)
    lifetime.hold()
    lifetime.hold()
    async with lifetime.used():
        pass
    await until(lambda: provider.renewals >= 3)
    await lifetime.let_go()
    await lifetime.let_go()
    seen = provider.renewals
    await until(lambda: lifetime.left_s <= 0)
    assert provider.renewals == seen


async def test_uses_side_by_side_renew_it_once(provider: Provider) -> None:
    lifetime = Lifetime(60, provider.renew)
    lifetime.end()

    async def work() -> None:
        await asyncio.sleep(0)

    await asyncio.gather(*(used(lifetime, work) for _ in range(10)))
    assert provider.renewals == 1


async def test_one_that_is_gone_is_not_found(provider: Provider) -> None:
    lifetime = Lifetime(60, provider.renew)
    lifetime.end()
    provider.error = SandboxNotFound("gone")
    with pytest.raises(SandboxNotFound):
        async with lifetime.used():
            raise AssertionError("it was used all the same")


async def test_a_provider_that_is_down_is_asked_again_while_there_is_time(provider: Provider) -> None:
    lifetime = Lifetime(4 * LIFE_S, provider.renew)  # a busy machine may come to it later, but not too late
    provider.error = SandboxError("down")
    with capture_logs() as logs:
        async with lifetime.used():
            await until(lambda: provider.renewals >= 1)
            provider.error = None
            await until(lambda: provider.renewals >= 3)
    assert {entry["log_level"] for entry in logs} == {"warning"}
    provider.error = SandboxError("down")
    await until(lambda: lifetime.left_s <= 0)
    with pytest.raises(SandboxError, match="down"):
        async with lifetime.used():
            raise AssertionError("it was used all the same")


async def test_a_renewal_that_loses_its_cancellation_holds_nobody_up() -> None:
    """As a client does that is at its own time limit just then."""
    renewing = asyncio.Event()

    async def renew() -> None:
        renewing.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    lifetime = Lifetime(LIFE_S, renew)
    async with asyncio.timeout(60):
        async with lifetime.used():
            await renewing.wait()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "sandbox-lifetime"]
