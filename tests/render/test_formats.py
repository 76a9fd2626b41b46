"""Every format through the whole of a render: what a player reads of it, and whether its pictures are the page's."""

from __future__ import annotations

import io
import json
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from koda_ray.errors import EncodeFailed, InvalidInput
from koda_ray.render.ffmpeg import run
from koda_ray.render.formats import FORMATS
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.mux import join_units
from koda_ray.render.pictures import PictureUnit, join_pictures
from koda_ray.render.protocol import JobContext, RenderResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage
from koda_ray.video_formats import VideoFormat
from tests import disks
from tests.render.conftest import USER, put_page, small

pytestmark = [pytest.mark.browser, pytest.mark.needs("ffmpeg"), pytest.mark.asyncio(loop_scope="module")]

# a red square that moves 2 px a frame at 10 fps on nothing, half of it half transparent
PAGE = """<!doctype html><style>body{margin:0}i{position:absolute;top:20px;width:40px;height:40px}
#a{background:#d02020}#b{background:rgba(32,32,208,.5);top:60px;height:20px}</style><i id=a></i><i id=b></i><script>
const move = () => { a.style.left = b.style.left = performance.now() / 50 + 'px'; requestAnimationFrame(move); };
requestAnimationFrame(move);</script>"""


async def render(spec: RenderSpec, storage: Storage, executor: LocalExecutor, job_id: str = "job_1") -> RenderResult:
    return await RenderJob(spec, JobContext(storage=storage, executor=executor, job_id=job_id, user_id=USER)).run()


async def probe(path: Path) -> dict[str, Any]:
    arguments = ["-v", "error", "-show_streams", "-show_format", "-show_packets", "-of", "json", str(path)]
    return json.loads(await run("ffprobe", arguments, timeout_s=60))


async def frame(path: Path, number: int, *decoder: str) -> Image.Image:
    """Decode one frame as RGBA."""
    arguments = ["-v", "error", *decoder, "-i", str(path), "-vf", f"select=eq(n\\,{number})", "-frames:v", "1"]
    data = await run("ffmpeg", [*arguments, "-pix_fmt", "rgba", "-c:v", "png", "-f", "image2pipe", "-"], timeout_s=60)
    return Image.open(io.BytesIO(data)).convert("RGBA")


def near(found: object, wanted: tuple[int, int, int, int], slack: int = 12) -> bool:
    assert isinstance(found, tuple)
    return all(abs(a - b) <= slack for a, b in zip(found, wanted, strict=True))


async def file_of(storage: Storage, result: RenderResult) -> Path:
    path = storage.local_path(result.video_key)
    assert path is not None
    return path


@pytest.mark.parametrize(
    ("form", "codec", "pixels"),
    [
        ("mp4", "h264", "yuv420p"),
        # the transparent ones stand for them
        pytest.param("webm", "vp9", "yuv420p", marks=pytest.mark.full),
        pytest.param("mov", "prores", "yuv444p", marks=pytest.mark.full),
        pytest.param("gif", "gif", "bgra", marks=pytest.mark.full),
    ],
)
async def test_a_format_has_every_frame_at_its_time(
    storage: Storage, local: LocalExecutor, form: VideoFormat, codec: str, pixels: str
) -> None:
    spec = small(await put_page(storage, PAGE), duration_s=2.3, format=form, crf=10)
    result = await render(spec, storage, local)
    assert result.video_key.endswith(f"/video.{FORMATS[form].extension}")
    path = await file_of(storage, result)
    found = await probe(path)
    (stream,) = found["streams"]
    assert stream["codec_name"] == codec
    assert stream["pix_fmt"].startswith(pixels)
    assert Fraction(stream["avg_frame_rate"]) == 10
    assert len(found["packets"]) == 23
    for number in (0, 9, 10, 22):
        shown = await frame(path, number)
        assert near(shown.getpixel((2 * number + 20, 40)), (208, 32, 32, 255)), number
        assert near(shown.getpixel((2 * number + 44, 40)), (255, 255, 255, 255)), number
    assert (await storage.get(result.thumbnail_key)).startswith(b"\xff\xd8")


@pytest.mark.parametrize(
    ("form", "pixels", "decoder"),
    [
        ("webm", "yuv420p", ("-c:v", "libvpx-vp9")),
        ("mov", "yuva444p", ()),
        ("gif", "bgra", ()),
    ],
)
async def test_what_a_page_leaves_transparent_stays_so(
    storage: Storage, local: LocalExecutor, form: VideoFormat, pixels: str, decoder: tuple[str, ...]
) -> None:
    spec = small(await put_page(storage, PAGE), duration_s=2.3, format=form, crf=10, alpha=True)
    path = await file_of(storage, await render(spec, storage, local))
    (stream,) = (await probe(path))["streams"]
    assert stream["pix_fmt"].startswith(pixels)
    if form == "webm":
        assert stream["tags"]["ALPHA_MODE"] == "1"
    for number in (0, 10, 22):  # 10 and 20 begin units
        shown = await frame(path, number, *decoder)
        corner, red, blue = (shown.getpixel(at) for at in ((150, 80), (2 * number + 20, 40), (2 * number + 20, 70)))
        assert isinstance(corner, tuple)
        assert corner[3] <= 3, number
        assert near(red, (208, 32, 32, 255)), number
        if form != "gif":  # where a pixel is there or not
            assert near(blue, (32, 32, 208, 128)), number


async def test_pictures_come_in_a_zip_and_serve_a_gif_too(storage: Storage, local: LocalExecutor) -> None:
    bundle = await put_page(storage, PAGE)
    spec = small(bundle, duration_s=2.3, format="png", alpha=True)
    result = await render(spec, storage, local)
    assert result.video_key.endswith("/video.zip")
    with zipfile.ZipFile(await file_of(storage, result)) as archive:
        assert archive.namelist() == [f"frame-{number:06d}.png" for number in range(23)]
        for number in (0, 10, 22):
            shown = Image.open(io.BytesIO(archive.read(f"frame-{number:06d}.png"))).convert("RGBA")
            assert shown.size == (160, 90)
            assert shown.getpixel((2 * number + 20, 40)) == (208, 32, 32, 255)
            assert near(shown.getpixel((2 * number + 20, 70)), (32, 32, 208, 128), 2)
            assert shown.getpixel((150, 80)) == (0, 0, 0, 0)
    gif = await render(small(bundle, duration_s=2.3, format="gif", alpha=True), storage, local, "job_2")
    assert gif.report["unitsReused"] == 3
    assert gif.frame_hash == result.frame_hash
    for made in (result, gif):  # what is transparent is grey in a JPEG
        still = Image.open(io.BytesIO(await storage.get(made.thumbnail_key)))
        assert near((*still.getpixel((150, 80)), 255), (128, 128, 128, 255))  # type: ignore[misc]
        assert near((*still.getpixel((42, 40)), 255), (208, 32, 32, 255), 24)  # type: ignore[misc]


async def test_a_picture_that_stands_is_kept_once_and_shown_often(storage: Storage, local: LocalExecutor) -> None:
    bundle = await put_page(
        storage, "<!doctype html><body style='margin:0;background:#2a6'><script>setTimeout(() => "
        "{ document.body.style.background = '#a26'; }, 1450)</script>"
    )  # fmt: skip
    names: dict[str, int] = {}
    for form, job in (("png", "job_1"), ("gif", "job_2")):
        result = await render(small(bundle, duration_s=2.0, format=form), storage, local, job)
        path = await file_of(storage, result)
        if form == "png":
            with zipfile.ZipFile(path) as archive:
                names = {name: archive.getinfo(name).CRC for name in archive.namelist()}
            assert [len(set(list(names.values())[part])) for part in (slice(15), slice(15, 20), slice(20))] == [1, 1, 2]
        else:
            assert len((await probe(path))["packets"]) == 20
            assert near((await frame(path, 14)).getpixel((80, 45)), (0x22, 0xAA, 0x66, 255))
            assert near((await frame(path, 15)).getpixel((80, 45)), (0xAA, 0x22, 0x66, 255))
    units = [key for key in await storage.list(f"users/{USER}/units") if key.endswith("/video")]
    assert [len(zipfile.ZipFile(io.BytesIO(await storage.get(key))).namelist()) for key in units].count(1) == 1


@pytest.mark.parametrize(
    ("form", "fps"),
    [
        ("mp4", "23.976"),
        ("mp4", "29.97"),
        ("mp4", "59.94"),
        ("mp4", "12.5"),
        ("webm", "23.976"),
        ("webm", "59.94"),
        ("mov", "29.97"),
    ],
)
@pytest.mark.full
async def test_rates_of_broadcast_are_exact(
    storage: Storage, local: LocalExecutor, form: VideoFormat, fps: str
) -> None:
    spec = small(await put_page(storage, PAGE), duration_s=2.1, format=form, fps=fps, width=32, height=32)
    path = await file_of(storage, await render(spec, storage, local))
    found = await probe(path)
    (stream,) = found["streams"]
    # FFmpeg reads webm's duration of a frame as a fraction of numbers up to 30000
    near_enough = Fraction(1, 100_000) if (form, fps) == ("webm", "59.94") else 0
    assert abs(Fraction(stream["avg_frame_rate"]) - spec.fps) <= near_enough
    assert abs(Fraction(stream["r_frame_rate"]) - spec.fps) <= near_enough
    unit = Fraction(stream["time_base"])
    times = sorted(packet["pts"] * unit for packet in found["packets"])
    assert len(times) == spec.frame_count
    slack = Fraction(1, 2000) if form == "webm" else 0
    assert all(abs(time - number / spec.fps) <= slack for number, time in enumerate(times))
    decoded = [packet["dts"] for packet in found["packets"]]
    assert decoded == sorted(set(decoded))
    assert (stream["color_space"], stream["color_primaries"], stream["color_transfer"]) == ("bt709",) * 3
    if form != "webm":
        data = path.read_bytes()
        assert data.index(b"moov") < data.index(b"mdat")


@pytest.mark.parametrize("form", ["mp4", "png"])
async def test_a_page_is_drawn_at_the_scale_of_the_picture(
    storage: Storage, local: LocalExecutor, form: VideoFormat
) -> None:
    """Columns of one device pixel: a picture that was drawn small and made larger would not show them."""
    page = """<!doctype html><style>body{margin:0}</style><canvas id=c style="width:160px;height:90px"></canvas><script>
    c.width = 160 * devicePixelRatio; c.height = 90 * devicePixelRatio; const g = c.getContext('2d');
    g.fillStyle = '#fff'; g.fillRect(0, 0, 999, 999); g.fillStyle = '#000';
    for (let x = 0; x < c.width; x += 2) g.fillRect(x, 0, 1, 999);
    const f = t => { g.fillStyle = '#f00'; g.fillRect(0, t / 10, 40, 2); requestAnimationFrame(f); }; f(0);
    </script>"""
    spec = small(await put_page(storage, page), format=form, scale={"png": 2.5, "mp4": 2}[form], crf=4)
    result = await render(spec, storage, local)
    assert (result.width, result.height) == {"png": (400, 225), "mp4": (320, 180)}[form]
    path = await file_of(storage, result)
    if form == "png":
        with zipfile.ZipFile(path) as archive:
            shown = Image.open(io.BytesIO(archive.read("frame-000009.png"))).convert("L")
    else:
        shown = (await frame(path, 9)).convert("L")
    row = [shown.getpixel((x, 170)) for x in range(100, 110)]
    assert all(isinstance(level, int) and (level < 40 if x % 2 == 0 else level > 215) for x, level in enumerate(row)), (
        row
    )


@pytest.mark.full
async def test_a_bitrate_is_kept(storage: Storage, local: LocalExecutor) -> None:
    noise = """<!doctype html><style>body{margin:0}</style><canvas id=c width=320 height=180></canvas><script>
    const g = c.getContext('2d'), image = g.createImageData(320, 180);
    const draw = () => { for (let i = 0; i < image.data.length; i++)
      image.data[i] = i % 4 == 3 ? 255 : Math.random() * 256;
      g.putImageData(image, 0, 0); requestAnimationFrame(draw); }; draw();</script>"""
    bundle = await put_page(storage, noise)
    for form in ("mp4", "webm"):
        spec = small(bundle, duration_s=3.0, width=320, height=180, fps=24, format=form, bitrate_kbps=4000)
        result = await render(spec, storage, local, f"job_{form}")
        assert 0.7 < result.size_bytes * 8 / 3 / 4_000_000 < 1.15, (form, result.size_bytes)


@pytest.mark.parametrize("form", ["mp4", "webm"])
@pytest.mark.full
async def test_less_effort_is_a_larger_file(storage: Storage, local: LocalExecutor, form: VideoFormat) -> None:
    bundle = await put_page(storage, "plain")
    done: dict[str, RenderResult] = {}
    for effort in ("small", "fast", "draft"):
        spec = small(bundle, duration_s=1.0, crf=18, width=320, height=180, fps=24, effort=effort, format=form)
        done[effort] = await render(spec, storage, local, f"job_{effort}")
    assert done["small"].size_bytes < done["fast"].size_bytes < done["draft"].size_bytes
    assert done["small"].frame_hash == done["fast"].frame_hash
    # a draft's frames are smaller where they travel as JPEG
    raw = all(str(one.report["environment"]).count("raw frames") for one in done.values())
    assert (done["draft"].frame_hash == done["fast"].frame_hash) == raw


async def test_pictures_on_a_full_disk_say_so_and_damaged_ones_too(tmp_path: Path) -> None:
    noise = io.BytesIO()
    Image.effect_noise((200, 200), 100).save(noise, "png")
    with disks.small(tmp_path / "tiny", 1 / 8) as folder:
        unit = PictureUnit(folder / "unit")
        await unit.start()
        with pytest.raises(EncodeFailed, match="disk is full") as caught:
            for _ in range(9):
                await unit.write(bytes(bytearray(noise.getvalue())))
        assert caught.value.code == "DISK_FULL"
        await unit.close()
        whole = PictureUnit(tmp_path / "unit")
        await whole.start()
        for _ in range(5):
            await whole.write(bytes(bytearray(noise.getvalue())))
        path = await whole.finish()
        with pytest.raises(EncodeFailed, match="disk is full"):
            await join_pictures([(path, 5)], folder / "video.zip")
    path.write_bytes(path.read_bytes()[:-100])
    for form in ("png", "gif"):
        spec = small("a" * 64, width=200, height=200, duration_s=0.5, format=form)
        with pytest.raises(EncodeFailed, match="pictures of unit cannot be read"):
            await join_units(spec, [(path, 5)], tmp_path / f"video.{form}")
    with pytest.raises(EncodeFailed, match="is not a PNG"):
        wrong = PictureUnit(tmp_path / "wrong")
        await wrong.start()
        try:
            await wrong.write(b"GIF89a")
        finally:
            await wrong.close()


async def test_a_gif_is_no_faster_than_browsers_show_it() -> None:
    with pytest.raises(InvalidInput, match="give at most 50"):
        small("a" * 64, format="gif", fps=60)
