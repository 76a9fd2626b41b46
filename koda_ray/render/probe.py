"""Opens a built page, looks at a few of its moments, and reports what is wrong before anything is rendered.

This is what the agents correct themselves by: messages are the page's own, places are those of the original source.
"""

from __future__ import annotations

import asyncio
import hashlib

from koda_ray.errors import PageError, PageNotReady
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.memory import OUT_OF_MEMORY
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageFacts, PageSetup
from koda_ray.render.protocol import ProbeReport, ProbeTask
from koda_ray.render.spec import MAX_DURATION_S

__all__ = ["probe_page"]

_SAMPLES = 5
_FPS = 10
_DEFAULT_DURATION_S = 2.0
_MAX_STEPPED_S = 4.0
_LATE_ERRORS_S = 0.05


async def probe_page(task: ProbeTask, browser: Browser, bundle: Bundle) -> ProbeReport:
    """Look at a page.

    Args:
        task: Which, and for how long.
        browser: A running browser.
        bundle: The bundle that the task names.

    Raises:
        InvalidInput: The bundle has no such page.
        BrowserCrashed: The browser ended, which says nothing about the page.
    """
    page = await LoadedPage.open(
        browser,
        bundle,
        PageSetup(width=task.width, height=task.height, entry=task.entry, seed=task.seed, props=task.props),
    )
    facts: PageFacts | None = None
    pictures: set[str] = set()
    try:
        facts = await page.wait_ready(task.ready_timeout_s)
        duration_s = min(task.duration_s or facts.duration_s or _DEFAULT_DURATION_S, MAX_DURATION_S)
        if not facts.contract:
            # every frame in between is run, so a long page is looked at where it begins
            duration_s = min(duration_s, _MAX_STEPPED_S)
        last = max(1, round(duration_s * _FPS) - 1)
        for frame in sorted({round(last * sample / (_SAMPLES - 1)) for sample in range(_SAMPLES)}):
            await page.go(frame, _FPS)
            pictures.add(hashlib.sha256(await page.picture()).hexdigest())
        await asyncio.sleep(_LATE_ERRORS_S)  # rejections nobody handled are reported after the task that made them
    except PageNotReady as error:
        if facts is not None:
            page.problems.add("not_ready", error.message)
    except PageError as error:
        if error.code == OUT_OF_MEMORY or not page.problems.all:
            page.problems.add("exception", error.message)
    finally:
        await page.close()
    await page.problems.place()
    return ProbeReport(
        ready=facts is not None,
        problems=page.problems.all,
        duration_s=facts.duration_s if facts else None,
        fps=round(facts.fps) if facts and facts.fps else None,
        width=round(facts.width) if facts and facts.width else None,
        height=round(facts.height) if facts and facts.height else None,
        moves=len(pictures) > 1,
    )
