"""Jobs that share: one set of units for two at once, a video made before, storage that is away for a while."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest

from koda_ray.errors import StorageError
from koda_ray.render import claims as claims_module
from koda_ray.render import gpu
from koda_ray.render.claims import Claims
from koda_ray.render.frames import Interposer
from koda_ray.render.gpu import choose_graphics
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.programs import find_browser
from koda_ray.render.protocol import CaptureTask, Hear, JobContext, RenderResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


class Counting(LocalExecutor):
    """Counts how often each unit is captured."""

    def __init__(self) -> None:
        super().__init__(workers=1)
        self.units: list[int] = []

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        self.units += [unit.index for unit in task.units]
        await super().capture(task, hear)


class Noting(LocalExecutor):
    """Notes, of each task, how many it is told to be under way."""

    def __init__(self) -> None:
        super().__init__(workers=2)
        self.at_once: list[int] = []

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        self.at_once.append(task.at_once)
        await super().capture(task, hear)


async def render(spec: RenderSpec, storage: Storage, executor: LocalExecutor, job_id: str) -> RenderResult:
    return await RenderJob(spec, JobContext(storage=storage, executor=executor, job_id=job_id, user_id=USER)).run()


async def test_a_task_hears_how_many_are_under_way_and_not_how_many_might_be(storage: Storage) -> None:
    bundle = await put_page(storage, "plain")
    async with Noting() as executor:
        await render(small(bundle, duration_s=2.0), storage, executor, "job_1")
        assert executor.at_once == [1]  # one page shows both units
        await render(small(bundle, duration_s=6.0, seed=2), storage, executor, "job_2")
        assert executor.at_once == [1, 2, 2]


@pytest.mark.full
async def test_two_jobs_at_once_capture_each_unit_once(storage: Storage) -> None:
    bundle = await put_page(storage, "plain")
    short, long = small(bundle, duration_s=5.0), small(bundle, duration_s=8.0)
    async with Counting() as one, Counting() as two:
        await asyncio.gather(one.warm(), two.warm())
        results = await asyncio.gather(render(short, storage, one, "job_1"), render(long, storage, two, "job_2"))
        assert sorted(one.units + two.units) == list(range(8))
        assert two.units  # the longer job; it takes all of them where it is the first to look
        alone = Storage(f"{storage.url}-alone")
        await put_page(alone, "plain")
        expected = await render(long, alone, one, "job_3")
    assert (results[0].frame_count, results[1].frame_count) == (50, 80)
    assert results[1].report["sha256"] == expected.report["sha256"]
    assert not [key for key in await storage.list(f"users/{USER}/films") if "/claims/" in key]


async def test_a_job_that_looked_and_then_waited_finds_what_another_made_meanwhile(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = await put_page(storage, "plain")
    async with Counting() as one, Counting() as two:
        looked, take, made = asyncio.Event(), Claims.take, asyncio.Event()

        async def late(self: Claims, units: Iterable[int]) -> set[int]:
            if self._job_id == "job_2":  # pyright: ignore[reportPrivateUsage]
                looked.set()
                await made.wait()
            return await take(self, units)

        monkeypatch.setattr(Claims, "take", late)
        second = asyncio.create_task(render(small(bundle, duration_s=4.0), storage, two, "job_2"))
        await asyncio.wait_for(looked.wait(), 60)
        await render(small(bundle, duration_s=3.0), storage, one, "job_1")
        made.set()
        assert (await second).frame_count == 40
        assert (one.units, two.units) == ([0, 1, 2], [3])


class Slow(Storage):
    """Storage whose every call takes as long as its own dice say, before it happens and after."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url)
        self._dice = random.Random(seed)

    async def _some_time(self) -> None:
        await asyncio.sleep(self._dice.choice((0, 0, 0.01, 0.05)))

    async def put(self, key: str, data: bytes, *, synced: bool = True) -> None:
        await self._some_time()
        await super().put(key, data, synced=synced)
        await self._some_time()

    async def list(self, prefix: str) -> list[str]:
        await self._some_time()
        keys = await super().list(prefix)
        await self._some_time()
        return keys


@pytest.mark.parametrize("seed", range(8))
async def test_however_slow_storage_is_one_job_has_each_unit(storage: Storage, seed: int) -> None:
    dice = random.Random(seed)
    slow = [RetryingStorage(Slow(storage.url, seed * 10 + n)) for n in range(4)]
    jobs = [Claims(each, user_id=USER, job_id=f"job_{n}", grid="b" * 64) for n, each in enumerate(slow)]
    wanted = [set(dice.sample(range(8), 5)) for _ in jobs]
    async with contextlib.AsyncExitStack() as stack:
        for job in jobs:
            await stack.enter_async_context(job)
        halves = [job.take(each) for job, units in zip(jobs, wanted, strict=True) for each in halved(units)]
        taken = await asyncio.gather(*halves)
    everything = [unit for units in taken for unit in units]
    assert sorted(everything) == sorted(set().union(*wanted))
    assert not await storage.list(f"users/{USER}/films")


def halved(units: set[int]) -> tuple[list[int], list[int]]:
    """As two workers of one job ask."""
    ordered = sorted(units)
    return ordered[::2], ordered[1::2]


async def test_a_claim_that_is_written_late_yields_to_one_that_was_read_before(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, put = asyncio.Event(), Storage.put

    async def late(self: Storage, key: str, data: bytes, *, synced: bool = True) -> None:
        if "job_early" in key:
            await held.wait()
        await put(self, key, data, synced=synced)

    monkeypatch.setattr(Storage, "put", late)
    async with (
        Claims(RetryingStorage(storage), user_id=USER, job_id="job_early", grid="c" * 64) as early,
        Claims(RetryingStorage(storage), user_id=USER, job_id="job_late", grid="c" * 64) as after,
    ):
        first = asyncio.create_task(early.take([0]))
        await asyncio.sleep(0)  # it has begun, with the earlier time
        assert await after.take([0]) == {0}
        held.set()
        assert await first == set()


async def test_a_claim_that_is_being_renewed_when_its_job_ends_is_not_left(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "RENEW_S", 0.02)
    monkeypatch.setattr(claims_module, "_LAST_S", 60.0)
    for _ in range(20):
        async with Claims(RetryingStorage(storage), user_id=USER, job_id="job_1", grid="d" * 64) as claims:
            await claims.take([0])
            await asyncio.sleep(0.02)
        assert not await storage.list(f"users/{USER}/films")


@pytest.mark.browser
async def test_executors_that_start_at_once_draw_alike_even_where_one_could_not_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [(0.2, Interposer(None, "nothing came in time")), (0.0, Interposer(b"a library"))]

    async def look(*_: object) -> Interposer:
        wait_s, found = answers.pop(0)
        await asyncio.sleep(wait_s)
        return found

    monkeypatch.setattr(gpu, "_chosen", {})
    monkeypatch.setattr(gpu, "find_interposer", look)
    binary = find_browser().path
    one, two = await asyncio.gather(choose_graphics(binary, "software"), choose_graphics(binary, "software"))
    assert one == two == await choose_graphics(binary, "software")


async def test_what_a_dead_job_claimed_is_taken_over(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    at = time.time()
    monkeypatch.setattr(claims_module, "now", lambda: datetime.fromtimestamp(at, UTC))
    dead = Claims(RetryingStorage(storage), user_id=USER, job_id="job_dead", grid="a" * 64)
    assert await dead.take([0, 1, 2]) == {0, 1, 2}  # and it never renews them
    async with Claims(RetryingStorage(storage), user_id=USER, job_id="job_live", grid="a" * 64) as live:
        assert await live.take([1, 2, 3]) == {3}
        at += claims_module.STALE_S - 1
        assert set(await live.others()) == {0, 1, 2}
        at += 2
        assert await live.others() == {}
        assert await live.take([1, 2]) == {1, 2}
    await storage.delete_prefix(f"users/{USER}/films")


async def test_a_video_made_before_is_there_at_once(storage: Storage) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=3.0)
    async with Counting() as executor:
        first = await render(spec, storage, executor, "job_1")
        executor.units.clear()
        second = await render(spec, storage, executor, "job_2")
        assert executor.units == []
        assert second.report["madeBefore"] == "job_1"
        assert second.video_key != first.video_key
        assert await storage.get(second.video_key) == await storage.get(first.video_key)
        assert await storage.get(second.thumbnail_key) == await storage.get(first.thumbnail_key)
        # a video that has gone since is joined again, from units that are still there
        await storage.delete(first.video_key)
        third = await render(spec, storage, executor, "job_3")
        assert executor.units == []
        assert await storage.get(third.video_key) == await storage.get(second.video_key)


@pytest.mark.parametrize(
    "left", [*(pytest.param(name, marks=pytest.mark.full) for name in ("nothing", "thumbnail.jpg")), "video.mp4"]
)
async def test_a_video_that_is_deleted_while_it_is_given_again_is_made_anew(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    spec, listed = small(await put_page(storage, "plain"), duration_s=1.0), Storage.list
    async with Counting() as executor:
        first = await render(spec, storage, executor, "job_1")
        video, old = await storage.get(first.video_key), first.video_key.rpartition("/")[0]

        async def late(self: Storage, prefix: str = "") -> list[str]:
            if prefix == old:  # its report has been read
                for key in await listed(self, prefix):
                    if not key.endswith(left):
                        await self.delete(key)
            return await listed(self, prefix)

        monkeypatch.setattr(Storage, "list", late)
        second = await render(spec, storage, executor, "job_2")
    assert "madeBefore" not in second.report and second.size_bytes == first.size_bytes
    assert await storage.get(second.video_key) == video and await storage.exists(second.thumbnail_key)


class Away(Storage):
    """Storage that is down for so many calls of each kind, of all that it is asked for."""

    down_for = 0
    refused: ClassVar[Counter[str]] = Counter()

    def _away(self, operation: str, key: str) -> None:
        if Away.refused[operation] < Away.down_for:
            Away.refused[operation] += 1
            raise StorageError(f"storage {operation} of {key!r} failed: Connection refused", retryable=True)

    async def put(self, key: str, data: bytes, *, synced: bool = True) -> None:
        self._away("put", key)
        await super().put(key, data, synced=synced)

    async def get(self, key: str) -> bytes:
        self._away(f"get {key.rpartition('/')[2]}", key)
        return await super().get(key)

    async def put_file(self, key: str, path: Path) -> None:
        self._away("put_file", key)
        await super().put_file(key, path)

    async def get_file(self, key: str, path: Path) -> None:
        self._away("get_file", key)
        await super().get_file(key, path)

    def local_path(self, key: str) -> Path | None:
        """As a bucket: what is joined is fetched."""
        return None


@pytest.mark.full
async def test_storage_that_is_down_for_a_while_costs_a_while(storage: Storage) -> None:
    away = Away(storage.url)
    spec = small(await put_page(storage, "plain"), duration_s=2.0)
    async with Counting() as executor:
        Away.refused.clear()
        Away.down_for = 4  # more often than a unit or a join is tried
        result = await render(spec, away, executor, "job_1")
    assert {"put", "get bundle", "put_file", "get_file"} <= Away.refused.keys()
    assert set(Away.refused.values()) == {Away.down_for}
    assert result.report["failures"] == []
    assert json.loads(await storage.get(f"users/{USER}/renders/job_1/report.json"))["frames"] == 20
