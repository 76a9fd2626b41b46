"""Small pages that a clock moves, and what is read of them."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from PIL import Image

from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup

__all__ = ["FPS", "STYLE", "collect", "documents", "level", "opened", "value"]

FPS = 10
STYLE = """<!doctype html><style>
* { margin: 0 }
video, img, iframe, canvas { width: 64px; height: 48px; display: block; border: 0 }
</style>"""


async def opened(browser: Browser, html: str, **files: str | bytes) -> LoadedPage:
    content = {name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
    bundle = Bundle({"index.html": html.encode(), **content})
    page = await LoadedPage.open(browser, bundle, PageSetup(width=64, height=48))
    await page.wait_ready(20)
    return page


async def value(page: LoadedPage, expression: str) -> Any:
    return json.loads(str(await page.evaluate(f"JSON.stringify({expression})")))


async def level(page: LoadedPage) -> float:
    """How bright the middle of the picture is, of 255."""
    image = Image.open(io.BytesIO(await page.picture())).convert("L")
    return float(np.asarray(image)[16:32, 16:48].mean())


async def collect(page: LoadedPage) -> None:
    """Have the page's browser forget what nobody holds."""
    for _ in range(3):
        await page._session.send("HeapProfiler.collectGarbage")  # pyright: ignore[reportPrivateUsage]


async def documents(page: LoadedPage) -> int:
    """How many documents the page's process holds, those too that are shown nowhere."""
    await collect(page)
    return (await page._session.send("Memory.getDOMCounters"))["documents"]  # pyright: ignore[reportPrivateUsage]
