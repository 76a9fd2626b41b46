"""A page in a real browser, as its tests look at it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page

__all__ = ["SHOWN", "begin", "looking"]

SHOWN = """video => {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const context = canvas.getContext('2d');
    context.drawImage(video, 0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data[1];
}"""
"""How light the frame is that a video shows, from 0 to 255."""


@asynccontextmanager
async def looking(browser: Browser, url: str) -> AsyncIterator[Page]:
    """Open a page; what its console complains of fails the test."""
    context = await browser.new_context()
    complaints: list[str] = []
    page = await context.new_page()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
    try:
        await page.goto(url)
        yield page
        assert complaints == []
    finally:
        await context.close()


async def begin(page: Page, prompt: str) -> str:
    """Ask for an animation; return the session's id."""
    await page.get_by_role("textbox", name="What should move").fill(prompt)
    await page.get_by_role("button", name="Make it").click()
    await page.wait_for_url("**/s/*")
    return page.url.rpartition("/")[2]
