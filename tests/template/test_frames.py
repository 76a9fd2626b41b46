"""What a seek draws: the same picture however it is reached, and Theatre's keyframes really move it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from koda_ray.render.bundle import Bundle
from tests.template.conftest import APEX_S, Viewer, pixels

pytestmark = [pytest.mark.full, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def reds(picture: np.ndarray) -> np.ndarray:
    """(n, 2) row and column of the pixels of the demo's ball."""
    red, green, blue = (picture[..., i].astype(int) for i in range(3))
    found = np.argwhere((red > 150) & (red - green > 110) & (red - blue > 110))
    return found[found[:, 0] < 0.7 * picture.shape[0]]  # below is a line of that colour


@pytest.mark.full
async def test_a_frame_does_not_depend_on_how_it_is_reached(viewer: Viewer, demo: Bundle) -> None:
    async with viewer.open(demo) as visit:
        straight = await visit.picture(0, 1.2)
        again = await visit.picture(1.2)
        roundabout = await visit.picture(4.5, 0.3, 2.45, 1.2)
    async with viewer.open(demo) as visit:
        fresh = await visit.picture(1.2)
    assert straight == again == roundabout == fresh


async def test_the_demo_moves_and_ends_as_a_poster(viewer: Viewer, demo: Bundle) -> None:
    async with viewer.open(demo) as visit:
        pictures = [pixels(await visit.picture(t)) for t in (0.0, 0.95, 1.2, 1.45, 3.0, 4.9)]
    for one, other in itertools.pairwise(pictures):
        assert np.mean(one != other) > 0.005
    ball = reds(pictures[-1])
    height, width = pictures[-1].shape[:2]
    row, column = ball.mean(axis=0)
    assert column / width == pytest.approx((9.6 + 5.56) / 19.2, abs=0.02)
    assert row / height == pytest.approx((5.4 + 1.02) / 10.8, abs=0.02)


async def test_one_keyframe_moves_the_picture(viewer: Viewer, demo: Bundle, raised: Bundle) -> None:
    tops: list[int] = []
    others: list[bytes] = []
    for bundle in (demo, raised):
        async with viewer.open(bundle) as visit:
            tops.append(int(reds(pixels(await visit.picture(APEX_S)))[:, 0].min()))
            others.append(await visit.picture(2.7))
    assert tops[0] - tops[1] == pytest.approx(80 / 1080 * 360, abs=3)
    assert others[0] == others[1], "a keyframe at 1.17 s must not touch 2.7 s"


async def test_state_that_integrates_time_moves_by_one_frame_for_each_seek(viewer: Viewer, probe: Bundle) -> None:
    fps = 15
    async with viewer.open(probe, "export&case=solid") as visit:
        assert (await visit.probe())["integrated"] == 0
        for frame in range(10):
            await visit.seek(frame / fps)
        facts = await visit.probe()
        assert facts["integrated"] == pytest.approx(9 / fps)
        assert facts["elapsed"] == pytest.approx(9 / fps)
        await visit.seek(9 / fps)
        assert (await visit.probe())["integrated"] == pytest.approx(9 / fps), "the same frame again is no step"
        await visit.seek(4.0)
        facts = await visit.probe()
        assert facts["integrated"] == pytest.approx(9 / fps), "a jump simulates nothing"
        assert facts["elapsed"] == 4.0


@pytest.mark.full
async def test_the_same_sequence_of_seeks_gives_the_same_pictures(viewer: Viewer, probe: Bundle) -> None:
    runs: list[list[bytes]] = []
    for _ in range(2):
        # drei's Float begins at a random phase; a renderer seeds Math.random, so this does too
        async with viewer.open(probe, "export&case=solid", before="Math.random = () => 0.25") as visit:
            runs.append([await visit.picture(frame / 15) for frame in range(4)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4


async def test_a_frame_waits_for_what_it_shows(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "export&case=suspends") as visit:
        assert await visit.page.locator(".late").all_inner_texts() == ["first is here"]
        await visit.seek(1)
        assert await visit.page.locator(".late").all_inner_texts() == ["first is here", "second is here"]
        assert await visit.page.evaluate("document.querySelector('#picture').naturalWidth") == 64


@pytest.mark.parametrize("size", [(640, 360), (854, 480), (1920, 1080), (480, 480)])
async def test_a_canvas_has_as_many_pixels_as_it_covers(viewer: Viewer, probe: Bundle, size: tuple[int, int]) -> None:
    async with viewer.open(probe, "export&case=size", size=size) as visit:
        facts = await visit.probe()
    assert facts["design"] == [1920, 1080]
    assert facts["buffer"] == [size[0], min(size[1], round(size[0] * 9 / 16))]


@pytest.mark.full
async def test_the_picture_is_the_same_design_at_any_size(viewer: Viewer, demo: Bundle) -> None:
    shown: list[np.ndarray] = []
    for size in ((480, 270), (1920, 1080)):
        async with viewer.open(demo, size=size) as visit:
            shown.append(pixels(await visit.picture(4.9)).astype(float))
    reduced = shown[1].reshape(270, 4, 480, 4, 3).mean(axis=(1, 3))
    assert np.abs(reduced - shown[0]).mean() < 1.5


async def test_charts_and_icons_are_drawn(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "export&case=charts", size=(1920, 1080)) as visit:
        picture = pixels(await visit.picture(0))
    blue = np.all(np.abs(picture.astype(int) - (59, 130, 246)) < 12, axis=-1)
    heights = [int(blue[:, columns].sum(axis=0).max()) for columns in np.array_split(np.arange(800), 4)]
    assert [height / heights[-1] for height in heights] == pytest.approx([12 / 70, 30 / 70, 45 / 70, 1], rel=0.03)
    assert np.any(np.all(picture == (255, 0, 85), axis=-1))


async def test_a_bundle_is_small_and_says_where_its_lines_come_from(demo: Bundle) -> None:
    served = {path: data for path, data in demo.files.items() if not path.endswith(".map")}
    assert sum(map(len, served.values())) < 3_000_000
    maps = {path: json.loads(data) for path, data in demo.files.items() if path.endswith(".map")}
    sources = {Path(source).name for content in maps.values() for source in content["sources"]}
    assert {"MainScene.tsx", "Ball.tsx", "player.ts"} <= sources
