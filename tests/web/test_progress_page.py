"""How far a render is: known as soon as its page is looked at, in the studio and on a canvas, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, expect

from koda_ray.client import KodaClient
from koda_ray.events import NewEvent
from koda_ray.render.ffmpeg import run
from koda_ray.state.keys import unit_key
from koda_ray.state.records import ChunkRecord, JobRecord
from koda_ray.types import now
from tests.serve.test_jobs import under_way
from tests.serve.test_sessions import until
from tests.serve.world import World
from tests.web.axes import examine
from tests.web.looking import looking
from tests.web.test_queue import rendering

pytestmark = [pytest.mark.full, pytest.mark.needs("web"), pytest.mark.browser]


async def picture_units(folder: Path, *, seconds: int) -> list[bytes]:
    """Encode a small moving picture of 30 frames a second as units of a second each."""
    made: list[bytes] = []
    for at in range(seconds):
        source = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=30:duration=60", "-ss", str(at), "-frames:v", "30"]
        file = folder / f"unit-{at}.mp4"
        await run("ffmpeg", ["-v", "error", *source, "-c:v", "libx264", "-pix_fmt", "yuv420p", str(file)], timeout_s=60)
        made.append(file.read_bytes())
    return made


@dataclass
class Rendered:
    """A session's render whose units are stored by hand."""

    koda: World
    job: JobRecord
    units: Sequence[bytes]

    async def stand(self, seconds: int) -> None:
        """Have so many seconds of it be there, and say so."""
        for at, data in enumerate(self.units[:seconds]):
            key = unit_key(self.job.user_id, f"{at:064x}")
            await self.koda.storage.put(key, data)
            chunk = ChunkRecord(
                job_id=self.job.id, user_id=self.job.user_id, unit=at, start=at * 30, stop=at * 30 + 30, key=key,
                status="done", attempts=1, total_bytes=len(data), wall_ms=1, worker="here", created_at=now(),
            )  # fmt: skip
            await self.koda.directory.tell(self.job, chunks=[chunk])
        told = {**self.job.progress, "watchableS": float(seconds)}
        event = NewEvent(type="render_progress", data={"jobId": self.job.id, **told})
        await self.koda.directory.tell(replace(self.job, progress=told, updated_at=now()), event)


async def test_a_reload_knows_how_far_a_render_is_and_follows_it(koda: World, browser: Browser) -> None:
    async with KodaClient(koda.url) as client:
        job = await client.job(await rendering(koda, client))
        async with looking(browser, f"{koda.url}/s/{job.session_id}") as page:
            work = page.get_by_role("region", name="Rendering the video")
            for _ in range(2):
                await expect(page.get_by_role("heading", name="Rendering the video")).to_be_visible()
                await expect(work.get_by_text("1 of 75 frames")).to_be_visible()
                await expect(work.get_by_text("Taking frames · about 5 s left")).to_be_visible()
                bar = page.get_by_role("progressbar", name="Rendering")
                await expect(bar).to_have_attribute("aria-valuenow", "10")
                await page.reload()
            await page.goto(f"{koda.url}/c")
            await page.wait_for_url("**/c/*")
            await page.goto(f"{page.url}?put={job.session_id}")
            node = page.locator(".react-flow__node")
            for _ in range(2):
                await expect(node.get_by_text("Taking frames · about 5 s left")).to_be_visible()
                await page.reload()
            await page.goto(f"{koda.url}/s/{job.session_id}")
            await expect(work.get_by_text("1 of 75 frames")).to_be_visible()
            assert koda.directory.rendering is not None
            koda.directory.rendering.set()
            await expect(page.get_by_role("heading", name="It is finished")).to_be_visible()


@pytest.mark.parametrize("status", ["queued", "running"])
async def test_a_reload_says_that_a_render_waits(
    koda: World, browser: Browser, status: Literal["queued", "running"]
) -> None:
    async with KodaClient(koda.url) as client:
        job = await koda.store.get_job(await rendering(koda, client), user_id="local")
        waits = {"percent": 0.0, "stage": "waiting", "waitedS": 3.0} if status == "running" else {}
        told = replace(job, status=status, progress=waits, updated_at=now())
        await koda.directory.tell(told)
        words = "Waits for a machine" if status == "running" else "Waits for its turn"
        async with looking(browser, f"{koda.url}/s/{job.session_id}") as page:
            work = page.get_by_role("region", name="Rendering the video")
            for _ in range(2):
                await expect(work.get_by_text(words)).to_be_visible()
                await page.reload()
            await expect(work.get_by_text(words)).to_be_visible()
            await examine(page)
            await page.get_by_role("button", name="Stop").click()
            await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible()
            await expect(page.get_by_role("progressbar")).to_have_count(0)


async def test_a_video_is_watched_as_it_is_rendered(koda: World, browser: Browser, tmp_path: Path) -> None:
    async with KodaClient(koda.url) as client:
        job = await koda.store.get_job(await rendering(koda, client), user_id="local")
        rendered = Rendered(koda, job, await picture_units(tmp_path, seconds=5))
        async with looking(browser, f"{koda.url}/s/{job.session_id}") as page:
            watch = page.get_by_role("button", name="Watch it as it is rendered")
            work = page.get_by_role("region", name="Rendering the video")
            await expect(work.get_by_text("1 of 75 frames")).to_be_visible()
            await expect(watch).to_have_count(0)
            await rendered.stand(2)
            await watch.click()
            video = page.get_by_label("The video as it is rendered")
            await page.wait_for_function("() => document.querySelector('video').currentTime > 1.5")
            await expect(page.get_by_text("As it is rendered: more is coming")).to_be_visible()
            shown = await video.evaluate("v => [v.videoWidth, v.videoHeight, v.muted, v.currentTime <= 2.1]")
            assert shown == [320, 180, True, True]
            await examine(page)
            await page.get_by_role("button", name="Pause").click()
            await rendered.stand(5)
            assert await video.evaluate("v => v.paused")
            await page.get_by_role("button", name="Play", exact=True).click()
            await page.wait_for_function("() => document.querySelector('video').ended")
            assert await video.evaluate("v => v.currentTime") == pytest.approx(5.0, abs=0.1)
            await expect(video).to_be_visible()  # its last frame, until the file is there
            assert koda.directory.rendering is not None
            koda.directory.rendering.set()
            await expect(page.get_by_role("heading", name="It is finished")).to_be_visible()
            await expect(page.get_by_label("The finished video")).to_be_visible()
            await expect(video).to_have_count(0)


async def test_a_first_preview_is_watched_as_it_is_rendered_by_itself(
    koda: World, browser: Browser, tmp_path: Path
) -> None:
    async with KodaClient(koda.url) as client:
        koda.directory.asks, koda.directory.rendering = False, asyncio.Event()
        session_id = (await client.create("A ball")).session_id
        await until(client, session_id, "plan")
        await client.accept(session_id)
        job = await koda.store.get_job((await under_way(client, session_id, "preview")).id, user_id="local")
        async with looking(browser, f"{koda.url}/s/{session_id}") as page:
            await Rendered(koda, job, await picture_units(tmp_path, seconds=2)).stand(2)
            await page.wait_for_function("() => document.querySelector('video')?.currentTime > 0.5")
            await page.get_by_role("button", name="Back to the scenes").click()
            await expect(page.get_by_label("The video as it is rendered")).to_have_count(0)
            await page.get_by_role("button", name="Watch it as it is rendered").click()
            await page.wait_for_function("() => document.querySelector('video')?.currentTime > 0.5")
            koda.directory.rendering.set()
            await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible()
            await expect(page.get_by_label("The preview")).to_be_visible()
