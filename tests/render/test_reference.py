"""The picture itself: small pages of what people render must look as they did when somebody looked at them.

``python -m tests.render.test_reference [NAME...]`` renews the pictures, of all pages or of those named, and writes a
contact sheet: look at it before they are committed.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image

from koda_ray.render.browser import Browser
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from tests.render.reference.compare import Difference, contact_sheet, difference, side_by_side
from tests.render.reference.scenes import FPS, GONE, PAGES, SCENES, ReferenceScene

pytestmark = [pytest.mark.full, pytest.mark.browser, pytest.mark.needs("ffmpeg", "node")]

PICTURES = Path(__file__).parent / "reference" / "pictures"
MAX_BYTES = 600_000
WAYS_DB = 60.0
_FLAT_BYTES = 9_000
_READY_S = 60.0

every_scene = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browsers() -> AsyncIterator[tuple[Browser, Browser]]:
    async with await Browser.launch() as one, await Browser.launch() as other:
        yield one, other


async def opened(browser: Browser, scene: ReferenceScene, *, gone: bool = False) -> LoadedPage:
    width, height = scene.size
    options = {"scale": scene.scale, "props": scene.props, "transparent": scene.alpha}
    bundle = await asyncio.to_thread(scene.bundle, gone=gone)
    page = await LoadedPage.open(browser, bundle, PageSetup(width=width, height=height, **options))  # type: ignore[arg-type]
    await page.wait_ready(_READY_S)
    return page


async def taken(browser: Browser, scene: ReferenceScene, frames: Sequence[int], *, gone: bool = False) -> list[bytes]:
    """Go straight to each frame: a page that is sought by its contract is a new one for each."""
    pictures: list[bytes] = []
    page: LoadedPage | None = None
    try:
        for frame in frames:
            if page is not None and page.contract:
                await page.close()
                page = None
            page = page or await opened(browser, scene, gone=gone)
            await page.go(frame, FPS)
            pictures.append(await page.picture())
            assert not page.problems.all, page.problems.all
    finally:
        if page is not None:
            await page.close()
    return pictures


async def played(browser: Browser, scene: ReferenceScene, last: int) -> list[bytes]:
    """Paint every frame in turn, as a video is made."""
    page = await opened(browser, scene)
    pictures: list[bytes] = []
    try:
        for frame in range(last + 1):
            await page.go(frame, FPS)
            pictures.append(await page.picture())
    finally:
        await page.close()
    return pictures


def read(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def reference_of(scene: ReferenceScene, frame: int) -> Image.Image:
    found = sorted(PICTURES.glob(f"{scene.name}-{frame}.*"))
    assert len(found) == 1, f"{scene.name} has {len(found)} pictures of frame {frame}: renew them, see CONTRIBUTING.md"
    with Image.open(found[0]) as image:
        return image.copy()


@every_scene
@pytest.mark.asyncio(loop_scope="module")
async def test_a_page_looks_as_it_should(
    scene: ReferenceScene, browsers: tuple[Browser, Browser], tmp_path: Path
) -> None:
    one, other = browsers
    last = scene.frames[-1]

    async def straight() -> tuple[list[bytes], list[bytes]]:  # a browser makes the frames of one page at a time
        return await taken(one, scene, [*scene.frames, last + 1]), await taken(one, scene, scene.frames, gone=True)

    ((*actual, after), without), all_of_them = await asyncio.gather(straight(), played(other, scene, last))
    for frame, data in zip(scene.frames, actual, strict=True):
        reference = reference_of(scene, frame)
        seen = difference(read(data), reference)
        if not seen.same:
            path = tmp_path / f"{scene.name}-{frame}.png"
            side_by_side(read(data), reference, path)
            pytest.fail(f"{scene.name}, frame {frame}: {seen}; look at {path}, or renew it (see CONTRIBUTING.md)")
        # how a browser smooths an edge may depend on what it drew before, which nobody sees
        assert difference(read(data), read(all_of_them[frame])).overall_db >= WAYS_DB, f"{scene.name}, frame {frame}"
    reference = reference_of(scene, last)
    passes = [
        difference(read(data), reference_of(scene, at)).same for at, data in zip(scene.frames, without, strict=True)
    ]
    assert not all(passes), f"{scene.name} without its {GONE} line passes"
    assert not difference(read(after), reference).same, f"{scene.name}: frame {last + 1} passes for frame {last}"


def test_each_reference_refuses_the_others() -> None:
    for scene in SCENES:
        for one, other in itertools.combinations(scene.frames, 2):
            assert not difference(reference_of(scene, one), reference_of(scene, other)).same, scene.name
    firsts = [(scene.name, reference_of(scene, scene.frames[0])) for scene in SCENES]
    for (name, one), (other_name, other) in itertools.combinations(firsts, 2):
        assert not difference(one, other).same, (name, other_name)


def test_a_small_thing_that_moved_or_changed_its_colour_is_refused() -> None:
    def dot(x: int, colour: tuple[int, int, int]) -> Image.Image:
        pixels = np.full((180, 320, 3), 120, dtype=np.uint8)
        pixels[60:70, x : x + 10] = colour
        return Image.fromarray(pixels)

    still = dot(100, (255, 255, 255))
    assert difference(still, still) == Difference(99.0, 99.0, (0, 0))
    assert not difference(still, dot(104, (255, 255, 255))).same
    assert not difference(still, dot(100, (255, 120, 120))).same
    assert not difference(still, still.resize((160, 90))).same
    seen = difference(still, Image.new("RGB", (320, 180), (120, 120, 120)))
    assert not seen.same and abs(seen.at[0] - 96) <= 8 and abs(seen.at[1] - 56) <= 8
    softer = still.resize((319, 180)).resize((320, 180))  # another way to smooth an edge
    assert difference(still, softer).same


def test_the_set_is_whole_and_small() -> None:
    names = {f"{scene.name}-{frame}" for scene in SCENES for frame in scene.frames}
    assert names == {path.stem for path in PICTURES.iterdir()}
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) <= MAX_BYTES
    assert {scene.name for scene in SCENES} == {path.name.split(".")[0] for path in PAGES.iterdir()}
    for scene in SCENES:
        assert sum(path.read_text().count(GONE) for path in PAGES.glob(f"{scene.name}.*")) == 1, scene.name


def save(scene: ReferenceScene, frame: int, picture: Image.Image) -> None:
    """Keep a picture: as it is where that is small, otherwise as a JPEG of whole colours."""
    for old in PICTURES.glob(f"{scene.name}-{frame}.*"):
        old.unlink()
    path = PICTURES / f"{scene.name}-{frame}.webp"
    kept = picture if scene.alpha else picture.convert("RGB")
    kept.save(path, lossless=True, quality=100, method=6)
    if path.stat().st_size > _FLAT_BYTES and not scene.alpha:
        path.unlink()
        kept.save(path.with_suffix(".jpg"), quality=90, subsampling=0, optimize=True)


async def renew(names: Sequence[str], sheet: Path) -> None:
    """Write the references of some pages, and a sheet of them all."""
    async with await Browser.launch() as browser:
        for scene in SCENES:
            if not names or scene.name in names:
                for frame, data in zip(scene.frames, await taken(browser, scene, scene.frames), strict=True):
                    save(scene, frame, read(data))
    sheet.parent.mkdir(exist_ok=True)
    every = [(scene, frame) for scene in SCENES for frame in scene.frames]
    contact_sheet([(f"{scene.name} {frame}", reference_of(scene, frame)) for scene, frame in every], sheet)


if __name__ == "__main__":
    out = Path("out/reference.png")
    asyncio.run(renew(sys.argv[1:], out))
    print(f"look at {out}")  # noqa: T201
