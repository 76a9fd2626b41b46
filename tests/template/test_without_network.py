"""Nothing comes from a network: fonts, text in 3D, light. And nothing in a bundle is Theatre's editor."""

from __future__ import annotations

import numpy as np
import pytest

from koda_ray.config import Settings
from koda_ray.render.bundle import Bundle
from tests.template.conftest import ORIGIN, Viewer, Visit, pixels

pytestmark = [pytest.mark.full, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def fonts_of(visit: Visit, selector: str) -> dict[str, bool]:
    """The families that the browser drew an element with, and whether each came from the page."""
    session = await visit.page.context.new_cdp_session(visit.page)
    await session.send("DOM.enable")
    await session.send("CSS.enable")
    root = (await session.send("DOM.getDocument"))["root"]["nodeId"]
    found = (await session.send("DOM.querySelector", {"nodeId": root, "selector": selector}))["nodeId"]
    used = (await session.send("CSS.getPlatformFontsForNode", {"nodeId": found}))["fonts"]
    return {font["familyName"]: font["isCustomFont"] for font in used}


@pytest.mark.parametrize("case", ["words", "solid"])
@pytest.mark.full
async def test_a_render_without_network_equals_one_with(viewer: Viewer, probe: Bundle, case: str) -> None:
    pictures: list[bytes] = []
    for has_network in (True, False):
        query, seeded = f"export&case={case}", "Math.random = () => 0.25"
        async with viewer.open(probe, query, before=seeded, has_network=has_network) as visit:
            pictures.append(await visit.picture(0, 0.1))
            assert visit.refused == []
            assert all(url.startswith((ORIGIN, "blob:" + ORIGIN, "data:")) for url in visit.requests)
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize(
    ("selector", "family"),
    [
        ("#latin", "Sora"),
        ("#japanese", "Noto Sans JP"),
        ("#korean", "Noto Sans KR"),
        ("#chinese", "Noto Sans SC"),
        ("#emoji", "Noto Color Emoji"),
    ],
)
async def test_every_script_is_drawn_with_bundled_fonts(
    viewer: Viewer, probe: Bundle, selector: str, family: str
) -> None:
    async with viewer.open(probe, "export&case=words") as visit:
        used = await fonts_of(visit, selector)
        assert any(name.startswith(family) for name in used), used
        assert all(used.values()), f"drawn with a font of this machine: {used}"


async def test_emoji_have_colours_and_characters_differ(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "export&case=words", size=(1920, 1080)) as visit:
        emoji = pixels(await visit.page.locator("#emoji").screenshot()).astype(int)
        japanese = pixels(await visit.page.locator("#japanese").screenshot())
    assert np.mean(np.ptp(emoji, axis=-1) > 80) > 0.01
    glyphs = [japanese[:, 120 * i : 120 * (i + 1)] for i in range(5)]
    for i, one in enumerate(glyphs):
        for other in glyphs[i + 1 :]:
            assert np.mean(one != other) > 0.02, "two characters look alike: missing glyphs"


async def test_text_in_3d_is_drawn_in_every_script(viewer: Viewer, probe: Bundle) -> None:
    async with viewer.open(probe, "export&case=solid", before="Math.random = () => 0.25") as visit:
        picture = pixels(await visit.picture(0)).astype(int)
    right = picture[:, 330:]
    yellow = (right[..., 0] > 180) & (right[..., 1] > 140) & (right[..., 2] < 90)
    assert yellow[120:230].sum() > 150, "the Latin text is missing"
    white = np.all(right[200:245] > 200, axis=-1)
    assert white.sum() > 100, "the Japanese text is missing"


async def test_only_the_faces_that_the_text_needs_are_in_a_bundle(demo: Bundle, probe: Bundle) -> None:
    assert not [path for path in demo.files if "noto-" in path]
    carried = [path for path in probe.files if "noto-" in path]
    assert 5 <= len(carried) <= 20
    assert sum(len(probe.files[path]) for path in carried) < 3_000_000


async def test_no_bundle_holds_the_editor(demo: Bundle, probe: Bundle) -> None:
    mark = b"theatrejs-studio-root"
    editor = Settings().node_modules_path / "@theatre" / "studio" / "dist" / "index.js"
    assert mark in editor.read_bytes(), "the editor has another mark now; this test would not see it"
    for bundle in (demo, probe):
        assert not [path for path, data in bundle.files.items() if mark in data]
        assert not [path for path in bundle.files if "studio" in path.lower()]
