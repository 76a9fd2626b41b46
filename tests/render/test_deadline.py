"""A page that gets no processor has time, and one that loops has not: both on a processor that others have taken."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Generator

import pytest
import pytest_asyncio

from koda_ray.errors import PageError
from koda_ray.processes import family, threads
from koda_ray.render import deadline as deadline_module
from koda_ray.render import page as page_module
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.deadline import Deadline
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup

pytestmark = pytest.mark.browser
FPS = 10
NICE = 5
OTHERS = 3
"""With so many others, who are not nice, a tenth of one processor is left."""
WORKS = "for (let i = 0, x = 0; i < 5e7; i++) x = (x + i) | 0;"
"""A seventh of a second of a processor or so, whatever the clock says."""


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


@contextlib.contextmanager
def starved(browser: Browser) -> Generator[None]:
    """Leave the browser a tenth of one processor."""
    processor = {min(os.sched_getaffinity(0))}
    for process in family([browser.pid]):
        for thread in threads(process):
            os.sched_setaffinity(thread, processor)
            os.setpriority(os.PRIO_PROCESS, thread, NICE)
    loop = f"import os; os.sched_setaffinity(0, {processor})\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(OTHERS)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


async def opened(browser: Browser, seek: str) -> LoadedPage:
    html = f"""<!doctype html><p>here<script>
      window.__koda = {{ ready: Promise.resolve(), seek: async (t) => {{ if (t) {{ {seek} }} }} }};</script>"""
    bundle = Bundle({"index.html": html.encode()})
    page = await LoadedPage.open(browser, bundle, PageSetup(width=160, height=90))
    await page.wait_ready(60)
    await page.go(0, FPS)
    return page


async def test_a_frame_without_a_processor_is_waited_for(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "FRAME_TIMEOUT_S", 1.0)
    monkeypatch.setattr(deadline_module, "_MOST", 1000)
    page = await opened(browser, WORKS)
    with starved(browser):
        for frame in range(1, 60):
            began = time.monotonic()
            await page.go(frame, FPS)
            assert await page.picture()
            if time.monotonic() - began > page_module.FRAME_TIMEOUT_S:
                return
    pytest.fail("no frame was starved, and this shows nothing")


async def test_a_loop_without_a_processor_is_a_loop(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "FRAME_TIMEOUT_S", 0.5)
    page = await opened(browser, "for (;;);")
    with starved(browser), pytest.raises(PageError, match="endless loop") as caught:
        await page.go(1, FPS)
    assert caught.value.code == "SEEK_FAILED"
    assert re.search(r"in 0\.5 s \(of \d+ s, the rest without a processor\)", caught.value.message), (
        caught.value.message
    )


async def test_an_answer_that_came_while_we_had_no_time_is_taken(browser: Browser) -> None:
    page = await opened(browser, "")

    async def ask() -> object:
        async with Deadline(browser.pid, 0.5):
            return await page.evaluate("6 * 7")

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)  # it has asked
    time.sleep(1.0)  # noqa: ASYNC251 - the loop stands still
    assert await asking == 42
