"""Pages that mean ill in the full browser, which has no frames of ours: part of what the shell is tried with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from koda_ray.render.browser import Browser
from tests.render import test_hostile as hostile
from tests.render.conftest import FULL

pytestmark = [
    pytest.mark.full,
    pytest.mark.browser,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not FULL.exists(), reason="the full Chromium is not installed"),
]

HARMLESS = (
    "goes elsewhere",
    "opens the browser's pages",
    "opens a program",
    "downloads",
    "closes itself",
    "goes full screen",
    "has another size",
    "zooms",
    "opens dialogs",
    "stops for a debugger",
    "talks to a worker without end",
    "has its own globals",
)
ENDS = ("refreshes", "goes elsewhere at once", "goes back", "becomes blank", "asks before it is left", "nests too deep")
HANGS = ("waits without end", "shows nothing", "has a worker that loops later")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch(chromium_path=FULL) as running:
        yield running


@pytest.mark.parametrize("how", HARMLESS)
async def test_what_a_page_tries_changes_nothing(browser: Browser, how: str) -> None:
    await hostile.test_what_a_page_tries_changes_nothing(browser, how)


async def test_windows_that_a_page_opens_are_closed(browser: Browser) -> None:
    await hostile.test_windows_that_a_page_opens_are_closed(browser)


async def test_whatever_a_page_asks_of_a_person_is_refused_at_once(browser: Browser) -> None:
    await hostile.test_whatever_a_page_asks_of_a_person_is_refused_at_once(browser)


async def test_nothing_outside_the_bundle_is_reached_by_any_way(browser: Browser) -> None:
    await hostile.test_nothing_outside_the_bundle_is_reached_by_any_way(browser)


@pytest.mark.parametrize("how", ENDS)
async def test_a_page_that_goes_too_far_ends_its_own_render(browser: Browser, how: str) -> None:
    await hostile.test_a_page_that_goes_too_far_ends_its_own_render(browser, how)


@pytest.mark.parametrize("how", HANGS)
async def test_a_page_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    async with await Browser.launch(chromium_path=FULL) as spoilt:
        await hostile.test_a_page_that_hangs_is_ended(spoilt, monkeypatch, how)
