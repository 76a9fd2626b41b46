"""Units and videos from known pictures: exact frames, true colours, equal bytes."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
from collections.abc import AsyncGenerator
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Literal

import psutil
import pytest
from PIL import Image, ImageDraw

from koda_ray.errors import EncodeFailed, QualityRejected
from koda_ray.render import matroska, pipe
from koda_ray.render.encode import UnitEncoder
from koda_ray.render.facts import probe_video
from koda_ray.render.ffmpeg import run
from koda_ray.render.mux import join_units
from koda_ray.render.quality import check_video
from koda_ray.render.sheet import make_thumbnail, seeks_to, thumbnail_frame
from koda_ray.render.spec import RenderSpec
from tests.render.conftest import small

pytestmark = pytest.mark.needs("ffmpeg")
BUNDLE = "a" * 64
COLOURS = [(200, 30, 30), (30, 180, 60), (40, 60, 220), (240, 240, 240), (90, 90, 90)]


def picture(spec: RenderSpec, frame: int, image: Literal["png", "jpeg"] = "jpeg") -> bytes:
    """A flat colour for each ten frames, with a bar that says which frame it is."""
    canvas = Image.new("RGB", (spec.width, spec.height), COLOURS[frame // 10 % len(COLOURS)])
    ImageDraw.Draw(canvas).rectangle((frame * 2, 0, frame * 2 + 7, 15), fill=(255, 255, 0))
    buffer = BytesIO()
    canvas.save(buffer, image, quality=95)
    return buffer.getvalue()


async def encode(
    spec: RenderSpec, frames: range, target: Path, image: Literal["png", "jpeg"] = "jpeg", *, late_s: float = 0.0
) -> Path:
    encoder = UnitEncoder(spec, len(frames), target, image=image)
    try:
        await encoder.start()
        for frame in frames:
            if late_s and frame % 7 == 3:
                await asyncio.sleep(late_s)
            await encoder.write(picture(spec, frame, image))
        return await encoder.finish()
    finally:
        await encoder.close()


async def joined(spec: RenderSpec, folder: Path, cuts: tuple[int, ...]) -> Path:
    edges = (0, *cuts, spec.frame_count)
    units: list[tuple[Path, int]] = []
    for start, stop in itertools.pairwise(edges):
        path = await encode(spec, range(start, stop), folder / f"it's {start}.mp4")
        units.append((path, stop - start))
    video = folder / f"video.{spec.format}"
    await join_units(spec, units, video)
    return video


async def pixels(path: Path, frame: int, size: tuple[int, int]) -> Image.Image:
    arguments = ["-v", "error", "-i", str(path), "-vf", f"select=eq(n\\,{frame})", "-frames:v", "1"]
    data = await run("ffmpeg", [*arguments, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], timeout_s=60)
    return Image.frombytes("RGB", size, data)


@pytest.mark.parametrize("form", ["mp4", pytest.param("webm", marks=pytest.mark.full)])
async def test_a_joined_video_has_every_frame_at_its_time_and_in_its_colour(
    tmp_path: Path, form: Literal["mp4", "webm"]
) -> None:
    spec = small(BUNDLE, duration_s=4.1, format=form, crf=18)
    video = await joined(spec, tmp_path, (20, 40))
    facts = await check_video(spec, video, [str(frame) for frame in range(41)])
    assert len(facts.times_s) == 41
    assert facts.codec == {"mp4": "h264", "webm": "vp9"}[form]
    assert facts.colors == "bt709/tv"
    for frame in (0, 19, 20, 33, 39, 40):
        shown = await pixels(video, frame, (160, 90))
        expected = COLOURS[frame // 10 % len(COLOURS)]
        found = shown.getpixel((80, 60))
        assert isinstance(found, tuple)
        assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) <= 6, (frame, found, expected)
        marker = shown.getpixel((frame * 2 + 3, 7))
        assert isinstance(marker, tuple)
        assert marker[0] > 190
        assert marker[2] < 90


@pytest.mark.parametrize(
    ("image", "fields"),
    [
        ("png", {}),
        ("jpeg", {}),
        ("jpeg", {"bitrate_kbps": 500}),
        ("jpeg", {"format": "webm"}),
        ("png", {"format": "webm", "alpha": True}),
        ("png", {"format": "mov", "alpha": True}),
    ],
)
@pytest.mark.full
async def test_the_same_pictures_give_the_same_bytes_however_late_they_come(
    tmp_path: Path, image: Literal["png", "jpeg"], fields: dict[str, object]
) -> None:
    spec = small(BUNDLE, duration_s=2.0, fps=30, **fields)
    videos = await asyncio.gather(
        *(encode(spec, range(60), tmp_path / f"{late_s}.mp4", image, late_s=late_s) for late_s in (0.0, 0.02, 0.05))
    )
    assert len({hashlib.sha256(video.read_bytes()).hexdigest() for video in videos}) == 1


async def test_the_index_lies_before_the_frames(tmp_path: Path) -> None:
    data = (await joined(small(BUNDLE, duration_s=2.0), tmp_path, ())).read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")


async def test_one_frame_is_a_video_too(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=0.1)
    video = await joined(spec, tmp_path, ())
    assert len((await check_video(spec, video, ["a"])).times_s) == 1


async def test_the_thumbnail_is_the_middle_frame(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=4.0, crf=10)
    await make_thumbnail(spec, await joined(spec, tmp_path, (20,)), tmp_path / "thumbnail.jpg")
    thumbnail = Image.open(tmp_path / "thumbnail.jpg")
    assert thumbnail.size == (160, 90)
    found = thumbnail.convert("RGB").getpixel((120, 60))
    assert isinstance(found, tuple)
    assert max(abs(a - b) for a, b in zip(found, COLOURS[2], strict=True)) <= 10


@pytest.mark.parametrize(("form", "fps"), [("mp4", 10.0), ("mp4", 30000 / 1001), ("webm", 10.0), ("mov", 10.0)])
@pytest.mark.full
async def test_a_unit_has_the_thumbnail_that_its_video_has(tmp_path: Path, form: str, fps: float) -> None:
    spec = small(BUNDLE, duration_s=4.0, format=form, fps=fps)
    assert seeks_to(spec)
    middle = thumbnail_frame(spec)
    for number, cut in enumerate((middle, middle - 5, middle - 12)):
        folder = tmp_path / str(number)
        folder.mkdir()
        video = await joined(spec, folder, (cut,))
        await make_thumbnail(spec, video, folder / "one.jpg")
        await make_thumbnail(spec, folder / f"it's {cut}.mp4", folder / "other.jpg", first=cut)
        assert (folder / "one.jpg").read_bytes() == (folder / "other.jpg").read_bytes()


async def test_what_is_not_a_picture_ends_the_encoder_with_its_words(tmp_path: Path) -> None:
    encoder = UnitEncoder(small(BUNDLE), 10, tmp_path / "unit.mp4", image="jpeg")
    try:
        await encoder.start()
        with pytest.raises(EncodeFailed) as caught:
            await encoder.write(b"not a picture" * 100_000)
            await encoder.finish()
        assert caught.value.code == "ENCODE_FAILED"
        assert not caught.value.retryable
    finally:
        await encoder.close()


async def test_an_encoder_left_alone_is_ended(tmp_path: Path) -> None:
    encoder = UnitEncoder(small(BUNDLE), 10, tmp_path / "unit.mp4", image="jpeg")
    await encoder.start()
    await encoder.close()
    await encoder.close()


async def test_a_child_that_takes_too_long_is_killed() -> None:
    with pytest.raises(EncodeFailed, match=r"did not end in 0\.5 s") as caught:
        await run("ffmpeg", ["-v", "error", "-re", "-f", "lavfi", "-i", "color", "-f", "null", "-"], timeout_s=0.5)
    assert caught.value.retryable


async def test_what_goes_wrong_while_a_child_is_fed_is_what_is_raised() -> None:
    async def feed() -> AsyncGenerator[bytes]:
        yield matroska.header(32, 32, Fraction(10), "png")
        raise EncodeFailed("a unit is damaged")

    line = ["-v", "error", "-f", "matroska", "-i", "pipe:", "-f", "null", "-"]
    with pytest.raises(EncodeFailed, match="a unit is damaged"):
        await run("ffmpeg", line, timeout_s=60, feed=feed())


async def test_a_child_that_ends_before_it_is_fed_says_why() -> None:
    async def feed() -> AsyncGenerator[bytes]:
        while True:
            yield bytes(1 << 16)

    with pytest.raises(EncodeFailed, match="Invalid data"):
        await run(
            "ffmpeg", ["-v", "error", "-f", "matroska", "-i", "pipe:", "-f", "null", "-"], timeout_s=60, feed=feed()
        )


async def test_a_child_that_does_not_start_leaves_no_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def feed() -> AsyncGenerator[bytes]:
        yield b"never asked for"

    descriptors = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("koda_ray.render.ffmpeg.find_program", lambda name: str(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        await run("ffmpeg", [], timeout_s=60, feed=feed())
    encoder = UnitEncoder(small(BUNDLE), 1, tmp_path / "unit", image="png")
    with pytest.raises(FileNotFoundError):
        await encoder.start()
    await encoder.close()
    assert set(os.listdir("/proc/self/fd")) == descriptors


async def test_cancelling_kills_the_child() -> None:
    endless = ["-v", "error", "-re", "-f", "lavfi", "-i", "color", "-f", "null", "-"]
    task = asyncio.create_task(run("ffmpeg", endless, timeout_s=60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def made(spec: RenderSpec, path: Path, source: str) -> Path:
    arguments = ["-y", "-v", "error", "-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p", str(path)]
    await run("ffmpeg", arguments, timeout_s=60)
    return path


async def test_videos_that_are_not_what_was_asked_are_refused(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=2.0)
    moving = [str(frame) for frame in range(20)]
    good = await made(spec, tmp_path / "good.mp4", "testsrc=s=160x90:r=10:d=2")
    await check_video(spec, good, moving)
    with pytest.raises(QualityRejected, match="every frame is the same picture"):
        await check_video(spec, good, ["still"] * 20)
    await check_video(small(BUNDLE, duration_s=2.0, moves=False), good, ["still"] * 20)
    with pytest.raises(QualityRejected, match="20 frames and 20 were captured; 30"):
        await check_video(small(BUNDLE, duration_s=3.0), good, moving)
    with pytest.raises(QualityRejected, match="160x90; 320x180 was asked for"):
        await check_video(small(BUNDLE, duration_s=2.0, width=320, height=180), good, moving)
    black = await made(spec, tmp_path / "black.mp4", "color=black:s=160x90:r=10:d=2")
    with pytest.raises(QualityRejected, match="black throughout"):
        await check_video(spec, black, moving)
    slow = await made(spec, tmp_path / "slow.mp4", "testsrc=s=160x90:r=10:d=2,setpts=1.5*PTS")
    with pytest.raises(QualityRejected):
        await check_video(spec, slow, moving)


async def test_a_damaged_video_is_refused(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=2.0)
    video = await made(spec, tmp_path / "video.mp4", "testsrc=s=160x90:r=10:d=2")
    data = bytearray(video.read_bytes())
    start = data.index(b"mdat") + 200
    data[start : start + 1500] = bytes(1500)
    video.write_bytes(data)
    with pytest.raises((EncodeFailed, QualityRejected)):
        await check_video(spec, video, [str(frame) for frame in range(20)])
    video.write_bytes(b"nothing")
    with pytest.raises(EncodeFailed):
        await probe_video(video)


async def test_an_ffmpeg_that_takes_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe, "_STUCK_S", 0.5)
    spec = small(BUNDLE, width=640, height=360)
    encoder = UnitEncoder(spec, 400, tmp_path / "unit.mp4", image="png")
    await encoder.start()
    (ffmpeg,) = [child for child in psutil.Process().children() if child.name().startswith("ffmpeg")]
    try:
        ffmpeg.suspend()
        with pytest.raises(EncodeFailed, match="takes no pictures any more") as caught:
            for frame in range(400):
                await encoder.write(picture(spec, frame) * 4)  # more than a pipe holds
        assert caught.value.retryable
    finally:
        await encoder.close()
    assert not ffmpeg.is_running()


async def test_a_join_that_fails_says_why_and_nothing_else(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=2.0)
    whole = await encode(spec, range(10), tmp_path / "whole.mp4")
    torn = tmp_path / "torn.mp4"
    torn.write_bytes(whole.read_bytes()[:200])
    with pytest.raises(EncodeFailed, match="moov atom not found") as error:
        await join_units(spec, [(whole, 10), (torn, 10)], tmp_path / "video.mp4")
    assert "whitelist" not in error.value.message and "repeated" not in error.value.message
