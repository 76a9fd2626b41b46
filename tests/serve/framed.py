"""A preview as a browser shows it: in the frame of a page of ours."""

from __future__ import annotations

from playwright.async_api import Frame, Page

__all__ = ["framed"]


async def framed(page: Page, address: str) -> Frame:
    """Open a preview; return the frame of the page that is shown."""
    await page.goto(address)
    found = await (await page.wait_for_selector("iframe")).content_frame()
    assert found is not None
    return found
