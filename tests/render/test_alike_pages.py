"""Any two pages whose evidence is equal show the same: looked for in pages out of a grammar (`changed_pages`).

Each page is shown as the engine shows it, and its changes too, which are also looked at without being drawn, as what is
to be taken over is. Wherever evidence is equal up to a frame, all pictures up to there are equal to the last bit. That
says nothing where evidence is never equal. So it is counted how often it is where it is due: of a page that is loaded
again, of changes that nobody sees, and of what comes before a change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.render.browser import Browser
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from tests.render.changed_pages import FRAMES, Act, bundle_of, changes, first_difference, pages
from tests.tiers import examples

IS_QUICK = examples(100) < 100
PAGES, CHANGES = (3, 1) if IS_QUICK else (36, 3)  # changes that may be seen; beside them one that is not


@dataclass(frozen=True)
class Shown:
    """What a page was drawn from up to each frame, why nothing is said of it, and its pictures where it was drawn."""

    evidence: tuple[str | None, ...]
    why: str
    pictures: tuple[bytes, ...]


async def show(browser: Browser, acts: Sequence[Act], *, dry: bool = False) -> Shown:
    setup = PageSetup(width=160, height=90, witness="dry" if dry else "drawn")
    page = await LoadedPage.open(browser, bundle_of(acts), setup)
    evidence, pictures, why = list[str | None](), list[bytes](), ""
    try:
        await page.wait_ready(60)
        for frame in range(FRAMES):
            await page.go(frame, 10)
            if dry:
                await page.unpainted()
            else:
                pictures.append(await page.picture())
            found = await page.witnessed()
            evidence.append(page.evidence(found))
            why = found.why
    finally:
        await page.close()
    return Shown(tuple(evidence), why, tuple(pictures))


def alike(one: Shown, other: Shown) -> int:
    """For how many frames two pages are told to look the same: a unit's evidence is of all up to its last frame."""
    return max((n + 1 for n in range(FRAMES) if one.evidence[n] and one.evidence[n] == other.evidence[n]), default=0)


def known(shown: Shown) -> int:
    return sum(one is not None for one in shown.evidence)


async def compare(
    browser: Browser, acts: Sequence[Act], changed: Sequence[Sequence[Act]], unseen: Sequence[Act]
) -> Counter[str]:
    """Hold a page against what it is changed to; return how often which of both was alike."""
    found: Counter[str] = Counter()
    first, again = await show(browser, acts), await show(browser, acts, dry=True)
    if not known(first):  # it is like nothing
        return found
    found["due"] += 1
    found["told"] += first.evidence == again.evidence
    for one in (*changed, unseen):
        drawn, dry = await show(browser, one), await show(browser, one, dry=True)
        for seen in (drawn, dry):
            same = alike(first, seen)
            assert drawn.pictures[:same] == first.pictures[:same], f"{same} frames are told to look the same"
        same, differs = alike(first, dry), FRAMES if one is unseen else first_difference(acts, one)
        found["due"] += 1
        found["told"] += same >= min(known(first), differs)
        found["unseen"] += one is unseen and same == FRAMES
        found["whole"] += one is not unseen and same == FRAMES and drawn.pictures == first.pictures
        found["begun"] += 0 < same < FRAMES
        found["other"] += drawn.pictures != first.pictures
    return found


@pytest.mark.browser
def test_pages_that_are_told_to_look_the_same_do() -> None:
    found: Counter[str] = Counter()
    with asyncio.Runner() as runner:
        browser = runner.run(Browser.launch())

        @settings(max_examples=PAGES, derandomize=IS_QUICK)
        @given(data=st.data())
        def look(data: st.DataObject) -> None:
            acts = data.draw(pages())
            changed = [data.draw(changes(acts, seen=True)) for _ in range(CHANGES)]
            unseen = data.draw(changes(acts, seen=False))
            found.update(runner.run(compare(browser, acts, changed, unseen)))

        try:
            look()
        finally:
            runner.run(browser.close())
    # where a picture comes late, a page's document is noted once more, and it is not told to be like itself
    assert found["unseen"] and found["told"] >= found["due"] * (0.5 if IS_QUICK else 0.9), found
    assert IS_QUICK or all(found[what] for what in ("whole", "begun", "other")), found
