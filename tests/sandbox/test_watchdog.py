"""A watchdog that cannot count has nobody unwatched."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from koda_ray.errors import SandboxNotFound
from koda_ray.sandbox import watchdog
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.watchdog import Watchdog


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_MEMORY_PERIOD_S", 0.01)
    monkeypatch.setattr(watchdog, "_DISK_PERIOD_S", 0.01)


async def passed(*, filled: object = None, watch_memory: bool = False) -> tuple[str, str]:
    """The first limit that is said to be passed, and how."""
    said: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def exceeded(limit: str, words: str) -> None:
        await said.put((limit, words))

    dog = Watchdog(
        ResourceLimits(), watch_memory=watch_memory, disks=[], filled=filled,  # type: ignore[arg-type]
        pids=lambda: [os.getpid()], exceeded=exceeded,
    )  # fmt: skip
    dog.wake()
    try:
        async with asyncio.timeout(60):
            return await said.get()
    finally:
        await dog.close()


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "Too many open files"), SandboxNotFound("the sandbox is gone"), ValueError("odd")]
)
async def test_a_disk_that_cannot_be_counted_counts_as_full(error: Exception) -> None:
    looks = 0

    def fails() -> tuple[int, int]:
        nonlocal looks
        looks += 1
        raise error

    limit, words = await passed(filled=fails)
    assert limit == "disk" and str(error) in words and "SANDBOX_DISK_MB" in words
    assert looks >= 3


async def test_memory_that_cannot_be_counted_counts_as_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(watchdog, "memory_bytes", fails)
    limit, words = await passed(watch_memory=True)
    assert limit == "memory" and "Too many open files" in words and "SANDBOX_MEMORY_MB" in words


async def test_one_look_that_fails_ends_nothing() -> None:
    looks = iter([OSError(errno.EMFILE, "Too many open files"), None])

    def fails_once() -> tuple[int, int]:
        if (error := next(looks, None)) is not None:
            raise error
        return 2 << 30, 1

    assert (await passed(filled=fails_once))[1].startswith("2048 MB are used, 1024 MB are allowed")
