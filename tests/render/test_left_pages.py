"""A job's last pages: nobody waits until they are closed, and closed they are."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest

from koda_ray.render import local
from koda_ray.render.browser import Browser
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext, RenderResult
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small, until

pytestmark = pytest.mark.browser


async def pages_of(browser: Browser) -> int:
    told = await browser.connection.send("Target.getTargets")
    targets = told["targetInfos"]
    assert isinstance(targets, list)
    return sum(str(target["url"]).startswith("http") for target in targets)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[Browser]:
    """The browsers that were started."""
    started, launch = list[Browser](), Browser.launch

    async def noted(**how: object) -> Browser:
        started.append(await launch(**how))  # type: ignore[arg-type]
        return started[-1]

    monkeypatch.setattr(Browser, "launch", noted)
    return started


async def render(storage: Storage, executor: LocalExecutor, job_id: str, duration_s: float = 2.0) -> RenderResult:
    fresh = Storage(f"{storage.url}-{job_id}")
    spec = small(await put_page(fresh, "plain"), duration_s=duration_s)
    return await RenderJob(spec, JobContext(storage=fresh, executor=executor, job_id=job_id, user_id=USER)).run()


def alive(browsers: Sequence[Browser]) -> list[Browser]:
    return [browser for browser in browsers if browser.connection.why_over is None]


async def all_pages(browsers: Sequence[Browser]) -> list[int]:
    return [await pages_of(browser) for browser in browsers]


@pytest.mark.full
async def test_a_jobs_pages_are_closed_before_others_open(
    storage: Storage, used: list[Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_TIDY_S", 600.0)
    async with LocalExecutor(workers=2) as executor:
        first = await render(storage, executor, "job_1", 8.0)
        opened = alive(used)
        assert sum(await all_pages(opened)) == sum(not browser.is_tidy for browser in opened) > 0
        again = [await render(storage, executor, job_id, 8.0) for job_id in ("job_2", "job_3")]
        assert len(opened) == 2 and alive(used) == opened
        assert max(await all_pages(opened)) == 1
        assert {result.frame_hash for result in again} == {first.frame_hash}
    assert alive(used) == []


async def test_a_jobs_pages_are_closed_once_nobody_waits(
    storage: Storage, used: list[Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_TIDY_S", 0.1)
    async with LocalExecutor(workers=2) as executor:
        await render(storage, executor, "job_1")
        opened = alive(used)
        await until(lambda: all(browser.is_tidy for browser in opened))
        assert await all_pages(opened) == [0] * len(opened)
        await render(storage, executor, "job_2")
        assert alive(used) == opened


@pytest.mark.full
async def test_a_browser_that_ended_with_a_page_left_costs_no_attempt(
    storage: Storage, used: list[Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_TIDY_S", 600.0)
    async with LocalExecutor(workers=1) as executor:
        first = await render(storage, executor, "job_1")
        before = used[-1]
        os.kill(before.pid, signal.SIGKILL)
        await until(lambda: before.connection.why_over is not None)
        again = await render(storage, executor, "job_2")
        assert again.report["failures"] == [] and again.frame_hash == first.frame_hash
        assert used[-1] is not before
