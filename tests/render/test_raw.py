"""Raw frames from a real browser: exact, its own process's alone, and JPEG where they cannot be."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from PIL import Image as Picture

from koda_ray.errors import BrowserCrashed
from koda_ray.render import gpu
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.capture import image_of
from koda_ray.render.gpu import choose_graphics
from koda_ray.render.graphics import Graphics, software_graphics
from koda_ray.render.interposing import find_interposer
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.pipe import Pipe
from koda_ray.render.programs import find_browser
from koda_ray.render.protocol import JobContext
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, put_page, small

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
_raw = pytest.mark.needs("interposer")

WIDTH, HEIGHT = 70, 48  # more than vectors hold, and less than two of them
COLOURS = """<!doctype html><style>body{margin:0}</style><canvas width=70 height=48></canvas><script>
const context = document.querySelector("canvas").getContext("2d"), data = context.createImageData(70, 48);
let seed = 7;
for (let i = 0; i < data.data.length; i++) {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  data.data[i] = i % 4 === 3 ? 255 : seed >> 16 & 255;
}
context.putImageData(data, 0, 0);
window.jpeg = document.querySelector("canvas").toDataURL("image/jpeg", 1);
</script>"""
WEIGHTS = {"y": (5983, 20127, 2032), "u": (-3298, -11094, 14392), "v": (14392, -13073, -1319)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def graphics() -> Graphics:
    return await choose_graphics(find_browser().path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(graphics: Graphics) -> AsyncIterator[Browser]:
    async with await Browser.launch(graphics=graphics) as running:
        yield running


async def opened(browser: Browser, html: str = COLOURS) -> LoadedPage:
    page = await LoadedPage.open(browser, Bundle({"index.html": html.encode()}), PageSetup(width=WIDTH, height=HEIGHT))
    await page.wait_ready(30)
    await page.go(0, 10)
    return page


def planes(png: bytes) -> bytes:
    """BT.709 in studio range from whole numbers, chroma from the four pixels that it is for."""
    picture = Picture.open(io.BytesIO(png)).convert("RGB")
    pixels = [[picture.getpixel((x, y)) for x in range(WIDTH)] for y in range(HEIGHT)]

    def weighed(name: str, colour: list[int], shift: int, base: int) -> int:
        return (sum(map(int.__mul__, WEIGHTS[name], colour)) + (base << shift) + (1 << shift - 1)) >> shift

    luma = [weighed("y", list(pixel), 15, 16) for row in pixels for pixel in row]  # type: ignore[arg-type]
    chroma = [
        weighed(name, [sum(four) for four in zip(*_square(pixels, x, y), strict=True)], 17, 128)
        for name in "uv"
        for y in range(0, HEIGHT, 2)
        for x in range(0, WIDTH, 2)
    ]
    return bytes(luma + chroma)


def _square(pixels: list[list[object]], x: int, y: int) -> list[tuple[int, ...]]:
    return [pixels[y][x], pixels[y][x + 1], pixels[y + 1][x], pixels[y + 1][x + 1]]  # type: ignore[list-item]


@_raw
async def test_a_raw_frame_is_what_is_painted(browser: Browser) -> None:
    page = await opened(browser)
    png = await page.picture(image="png")
    raw = await page.picture(image="raw")
    assert raw == planes(png)
    assert await page.picture(image="raw") is raw  # what stands is told to be the same
    # another kind of picture of the same frame is that kind
    assert (await page.picture(image="jpeg"))[:2] == b"\xff\xd8"
    assert await page.picture(image="png") == png
    # a page's own JPEG is a JPEG, at the quality that asks for a raw frame too
    assert str(await page.evaluate("window.jpeg")).startswith("data:image/jpeg;base64,/9j/")
    await page.close()


@_raw
async def test_only_the_browser_s_own_process_has_it(graphics: Graphics) -> None:
    before = set(psutil.Process().children(recursive=True))
    descriptors = set(os.listdir("/proc/self/fd"))
    async with await Browser.launch(graphics=graphics) as browser:
        page = await opened(browser)
        names: dict[str, tuple[bool, bool, bool]] = {}
        for process in set(psutil.Process().children(recursive=True)) - before:
            line = " ".join(process.cmdline())
            maps = Path(f"/proc/{process.pid}/maps").read_text()
            environ = Path(f"/proc/{process.pid}/environ").read_text()
            held = [os.readlink(link) for link in Path(f"/proc/{process.pid}/fd").iterdir() if link.is_symlink()]
            if line.startswith(str(find_browser().path)):
                kind = line.partition("--type=")[2].partition(" ")[0]
                names[kind] = ("koda-frames.so" in maps, "koda-frames" in " ".join(held), "LD_PRELOAD=/" in environ)
        await page.close()
    assert {"", "zygote", "renderer"} <= set(names)
    assert names.pop("")[:2] == (True, False)
    assert set(names.values()) == {(False, False, False)}
    assert set(os.listdir("/proc/self/fd")) == descriptors


@_raw
async def test_lossless_odd_and_enormous_pictures_are_not_raw(graphics: Graphics) -> None:
    even, odd = small("a" * 64), small("a" * 64, format="gif", width=161)
    assert (image_of(even, graphics), image_of(even, software_graphics())) == ("raw", "jpeg")
    assert image_of(odd, graphics) != "raw"
    assert image_of(small("a" * 64, width=7680, height=7680), graphics) == "jpeg"
    assert image_of(small("a" * 64, format="mov"), graphics) == "png"


@_raw
async def test_a_video_says_what_its_frames_were(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small(await put_page(storage, "plain"))

    async def rendered(folder: str) -> tuple[str, str, str]:
        to = Storage(f"{storage.url}-{folder}")
        await put_page(to, "plain")
        async with LocalExecutor(workers=1, graphics="software") as executor:
            result = await RenderJob(
                spec, JobContext(storage=to, executor=executor, job_id="job_1", user_id=USER)
            ).run()
        said = result.report["environment"]
        assert isinstance(said, dict)
        return result.frame_hash, str(said["graphics"]), str(said["fingerprint"])

    raw = await rendered("raw")
    monkeypatch.setenv("PATH", _without_compiler(storage))
    monkeypatch.setattr(gpu, "_chosen", {})  # as another process would choose
    jpeg = await rendered("jpeg")
    assert "raw frames" in raw[1] and "JPEG frames (no C compiler: apt-get install gcc" in jpeg[1]
    assert raw[0] != jpeg[0] and raw[2] != jpeg[2]  # one video never has both


def _without_compiler(storage: Storage) -> str:
    """A folder of links to the programs that rendering runs, and no compiler."""
    folder = Path(storage.url + "-bin")
    folder.mkdir()
    for name in ("ffmpeg", "ffprobe", "bwrap", "setpriv", "fc-list", "test", "true", "unshare"):
        if (program := shutil.which(name)) is not None:
            (folder / name).symlink_to(program)
    return str(folder)


async def test_what_cannot_be_compiled_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'frames.c:1: fatal error: jpeglib.h: No such file or directory' >&2; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with monkeypatch.context() as poor:
        poor.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        found = await find_interposer(find_browser().path, software_graphics())
        assert found.library is None
        assert "libjpeg62-turbo-dev" in found.why and "jpeglib.h: No such file" in found.why
    assert not list((tmp_path / f"koda-interposer-{os.geteuid()}").iterdir())
    assert (await find_interposer(tmp_path / "none", software_graphics())).library is None


@_raw
async def test_a_browser_with_an_encoder_of_its_own_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a library that takes nobody's place, as in a browser that does not link libjpeg
    monkeypatch.setattr("koda_ray.render.interposing.interposer_source", lambda: b"int koda;\n")
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    for parent in tmp_path.parents[:2]:
        await asyncio.to_thread(parent.chmod, 0o755)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(2):  # the second time it is remembered
        found = await find_interposer(find_browser().path, software_graphics())
        assert (found.library, found.why) == (None, "the browser's JPEG encoder is its own")
    (kept,) = (tmp_path / f"koda-interposer-{os.geteuid()}").iterdir()
    assert kept.suffix == ".refused"
    async with await Browser.launch() as plain:
        page = await opened(plain)
        with pytest.raises(BrowserCrashed, match="gave no raw picture of frame 0"):
            await page.picture(image="raw")


async def test_a_pipe_takes_megabytes_slowly_or_says_that_nobody_reads() -> None:
    pipe = Pipe()
    data = os.urandom(5 << 20)
    seen = bytearray()

    def read() -> None:
        while part := os.read(reader, 100_000):
            seen.extend(part)

    reader = os.dup(pipe.reader)
    pipe.started()
    reading = asyncio.create_task(asyncio.to_thread(read))
    await pipe.write(data)
    await pipe.write(b"end")
    pipe.close()
    await reading
    os.close(reader)
    assert bytes(seen) == data + b"end"
    with pytest.raises(ConnectionResetError):
        await pipe.write(b"more")

    pipe = Pipe()
    writing = asyncio.create_task(pipe.write(data))
    await asyncio.sleep(0)
    pipe.started()  # the only reader goes
    with pytest.raises(BrokenPipeError):
        await writing
    pipe.close()
    pipe.close()


@_raw
async def test_frames_of_a_fast_page_are_each_its_own(browser: Browser) -> None:
    html = """<!doctype html><style>body{margin:0}</style><body></body><script>
      const draw = (t) => {
        document.body.style.background = `rgb(${Math.round(t / 100) * 20} 0 0)`;
        requestAnimationFrame(draw);
      };
      requestAnimationFrame(draw);
    </script>"""
    page = await opened(browser, html)
    levels: list[int] = []
    for frame in range(6):
        if frame:
            await page.go(frame, Fraction(10))
        levels.append((await page.picture(image="raw"))[0])
    await page.close()
    assert levels == sorted(set(levels)) and len(levels) == 6
