"""The next frame's scripts run while a frame is painted, and no picture differs for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from hypothesis import given, settings

from koda_ray.errors import PageError
from koda_ray.render import capture
from koda_ray.render import page as page_module
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.local import LocalExecutor
from koda_ray.render.memory import helper_threads
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.spec import CaptureMode
from koda_ray.state.storage import Storage
from tests.render.changed_pages import Act, bundle_of, pages
from tests.render.conftest import put_page, small
from tests.render.test_job import render
from tests.tiers import examples

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
FPS, FRAMES = 10, 10
FILES = {
    "red.svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><circle r="20" fill="red"/></svg>',
    "words.txt": b"words that were fetched",
    "inner.html": b"<p>inside",
    "scene.js": b"const p = document.createElement('p'); p.className = 'on'; p.append('x'); document.body.append(p);",
    "late.js": b"box.style.animation = 'k 1s'",
    "w.js": b"onmessage = ({ data }) => postMessage(data * 2);",
}
SEEK = "<script>window.__koda = {{ ready: 0, seek: {} }};</script>"
MOVES = SEEK.format("async (t) => { box.style.left = `${t * 80}px` }")
BOX = "<div id=box style='position: absolute; width: 20px; height: 20px; background: green'></div>"
DEEP = "<canvas id=deep width=8 height=8 style='display: block'></canvas><script>deep.getContext('webgl')</script>"
LARGE = "<style>#box { width: 300px; height: 300px; filter: blur(30px) }</style>"
FOLLOWED, ALONE = (
    dict(line.replace("MOVES", MOVES).split(": ", 1) for line in part.strip().splitlines())
    for part in Path(__file__).with_name("ahead_pages.txt").read_text().split("---")
)
"""Pages whose next frame may be begun early, and those where it may not, by what they do."""


@dataclass(frozen=True)
class Shown:
    """A page's pictures, what it was drawn from, and how often it was ahead."""

    pictures: tuple[bytes, ...]
    evidence: str | None
    ahead: int


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with await Browser.launch() as running:
        yield running


class Eager(LoadedPage):
    """Is ahead from its first frames on, of which nobody knows yet whether they change."""

    async def go(
        self, frame: int, fps: Fraction | float, *, mode: CaptureMode = "seek", followed: bool = False
    ) -> None:
        self._changes = self._changes or followed
        await super().go(frame, fps, mode=mode, followed=followed)


async def shown(browser: Browser, bundle: Bundle, *, followed: bool, size: tuple[int, int] = (160, 90)) -> Shown:
    setup = PageSetup(width=size[0], height=size[1], witness="drawn", ahead=followed)
    page = await Eager.open(browser, bundle, setup)
    pictures, ahead = list[bytes](), 0
    try:
        await page.wait_ready(60)
        for frame in range(FRAMES):
            await page.go(frame, FPS, followed=followed and frame + 1 < FRAMES)
            pictures.append(await page.picture())
            ahead += page.is_ahead
        return Shown(tuple(pictures), page.evidence(await page.witnessed()), ahead)
    finally:
        await page.close()


def bundle(body: str) -> Bundle:
    html = f"<!doctype html><body style='margin: 0; background: white'>{DEEP}{BOX}{body}"
    return Bundle({"index.html": html.encode(), **FILES})


@pytest.mark.parametrize("size", [(160, 90), pytest.param((800, 600), marks=pytest.mark.full)], ids=["small", "large"])
@pytest.mark.parametrize("what", FOLLOWED)
async def test_what_is_begun_early_is_shown_when_it_is_due(browser: Browser, what: str, size: tuple[int, int]) -> None:
    """A large one is painted for long, and most of what a page has begun is done by then."""
    page = bundle(FOLLOWED[what] + (LARGE if size > (160, 90) else ""))
    plain = await shown(browser, page, followed=False, size=size)
    ahead = await shown(browser, page, followed=True, size=size)
    assert len(set(plain.pictures)) > 1 and not plain.ahead
    assert [one == other for one, other in zip(plain.pictures, ahead.pictures, strict=True)] == [True] * FRAMES
    assert ahead.evidence == plain.evidence or "comes" in what
    assert ahead.ahead >= 3


@pytest.mark.parametrize("what", ALONE)
async def test_what_moves_beside_the_pages_frames_is_waited_for(browser: Browser, what: str) -> None:
    plain = await shown(browser, bundle(ALONE[what]), followed=False)
    ahead = await shown(browser, bundle(ALONE[what]), followed=True)
    assert [one == other for one, other in zip(plain.pictures, ahead.pictures, strict=True)] == [True] * FRAMES
    assert ahead.ahead <= 1, "it is known once it was done"


@pytest.mark.full
async def test_no_page_looks_otherwise_because_it_is_ahead(browser: Browser) -> None:
    loop, ahead = asyncio.get_running_loop(), 0

    @settings(max_examples=examples(100))
    @given(pages())
    def look(acts: Sequence[Act]) -> None:
        nonlocal ahead
        files = bundle_of(acts).files
        page = Bundle({**files, "index.html": files["index.html"].replace(b"<body>", b"<body>" + DEEP.encode(), 1)})
        plain, again, early = (
            asyncio.run_coroutine_threadsafe(shown(browser, page, followed=followed), loop).result()
            for followed in (False, False, True)
        )
        if plain.pictures == again.pictures:  # what a <use> shows moves by itself
            assert plain.pictures == early.pictures
            ahead += early.ahead

    await asyncio.to_thread(look)
    assert ahead > 100


async def test_a_frame_that_throws_is_named_also_where_it_was_begun_early(browser: Browser) -> None:
    throws = bundle(
        SEEK.format("async (t) => { box.style.left = `${t * 80}px`; if (t === 0.6) throw new Error('no more') }")
    )
    with pytest.raises(PageError, match=r"frame 6: .*no more"):
        await shown(browser, throws, followed=True)


@pytest.mark.skipif(not helper_threads(1), reason="nobody is ahead where each page has one processor")
async def test_an_error_that_nobody_waits_for_is_told_at_its_frame_too(storage: Storage) -> None:
    throws = MOVES + "<script>setTimeout(() => { throw new Error('not at all') }, 450)</script>"
    spec = small(await put_page(storage, bundle(throws)), duration_s=2.0)
    async with LocalExecutor(workers=1) as executor:
        with pytest.raises(PageError, match=r"frame 5: .*not at all"):
            await render(spec, storage, executor)


async def test_a_frame_that_loops_is_ended_also_where_it_was_begun_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "FRAME_TIMEOUT_S", 1.0)
    loops = bundle(SEEK.format("async (t) => { box.style.left = `${t * 80}px`; while (t === 0.6); }"))
    async with await Browser.launch() as spoilt:
        with pytest.raises(PageError, match=r"frame [56] .*endless loop"):
            await shown(spoilt, loops, followed=True)
        assert spoilt.spoilt


class Losing(LoadedPage):
    """A compositor that is too busy gives no picture: here once, when the page is a frame further by then."""

    lost = 0

    def _post_frame(
        self, *, screenshot: dict[str, object] | None = None, invisible: bool = False
    ) -> asyncio.Future[dict[str, Any]]:
        answer = super()._post_frame(screenshot=screenshot, invisible=invisible)
        if self._follower_ms is None or Losing.lost:
            return answer
        Losing.lost += 1
        return asyncio.ensure_future(_without_picture(answer))


async def _without_picture(answer: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
    return {"hasDamage": (await answer)["hasDamage"]}


@pytest.mark.skipif(not helper_threads(1), reason="nobody is ahead where each page has one processor")
async def test_a_picture_that_is_missing_is_taken_of_a_new_page(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with LocalExecutor(workers=1) as executor:
        spec = small(await put_page(storage, bundle(MOVES)), duration_s=2.0)
        whole = await render(spec, storage, executor)
        assert not whole.report["failures"]
        monkeypatch.setattr(capture, "LoadedPage", Losing)
        other = Storage(str(tmp_path / "other"))
        await put_page(other, bundle(MOVES))
        again = await render(spec, other, executor)
    assert again.frame_hash == whole.frame_hash
    assert Losing.lost and any("went on to the next" in str(why) for why in cast("list[str]", again.report["failures"]))
