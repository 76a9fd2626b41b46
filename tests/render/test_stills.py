"""Frames of stored videos as pictures: the right one, as large as it was asked for, whatever the format."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from koda_ray.errors import EncodeFailed, InvalidInput
from koda_ray.render import stills
from koda_ray.render.sheet import sheet_frames
from koda_ray.render.spec import RenderSpec
from koda_ray.render.stills import frame_of_video, make_sprite
from tests.render.conftest import small
from tests.render.test_quality import BUNDLE, NOTHING, WHITE, drawn, film

pytestmark = pytest.mark.needs("ffmpeg")

FORMATS: list[dict[str, object]] = [
    {"format": "mp4"},
    {"format": "webm"},
    {"format": "mov"},
    {"format": "gif"},
    {"format": "png"},
    {"format": "webm", "alpha": True},
    {"format": "mov", "alpha": True},
]
QUICK: list[dict[str, object]] = [
    {"format": "mp4"},
    {"format": "gif"},
    {"format": "png"},
    {"format": "webm", "alpha": True},
]
"""Of which each is decoded in a way of its own."""


def shades(spec: RenderSpec) -> list[bytes]:
    """Pictures that are the redder the later they come; the left of a transparent one is not there."""
    total = spec.frame_count
    return [
        drawn(spec, (round(240 * frame / total), 60, 60, 255), NOTHING if spec.alpha else WHITE)
        for frame in range(total)
    ]


def red(picture: bytes, at: tuple[float, float]) -> int:
    """How red a picture is at a place, of its width and height."""
    shown = Image.open(io.BytesIO(picture)).convert("RGB")
    found = shown.getpixel((int(at[0] * shown.width), int(at[1] * shown.height)))
    assert isinstance(found, tuple)
    return found[0]


@pytest.mark.parametrize(
    "fields", [fields if fields in QUICK else pytest.param(fields, marks=pytest.mark.full) for fields in FORMATS]
)
async def test_a_frame_is_the_one_that_was_asked_for(tmp_path: Path, fields: dict[str, object]) -> None:
    spec = small(BUNDLE, duration_s=2.3, crf=10, **fields)
    video, _ = await film(spec, tmp_path / "a", shades(spec))
    for frame in (0, 1, 9, 10, 17, 22):
        wanted = 240 * frame / spec.frame_count
        picture = await frame_of_video(spec, video, frame, width=80)
        assert Image.open(io.BytesIO(picture)).size == (80, 44)
        assert abs(red(picture, (0.8, 0.2)) - wanted) < 6, frame
        if spec.alpha:  # what is transparent is grey
            assert abs(red(picture, (0.1, 0.4)) - 128) < 12, frame
    large = await frame_of_video(spec, video, 3, width=1920)
    assert Image.open(io.BytesIO(large)).size == spec.picture, "nothing is made larger than it is"


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        pytest.param({"format": "mp4"}, 12, marks=pytest.mark.full),
        ({"format": "mp4"}, 3),
        ({"format": "webm"}, 4),
        pytest.param({"format": "mov"}, 3, marks=pytest.mark.full),
        ({"format": "gif"}, 12),
        ({"format": "png"}, 5),
    ],
)
async def test_a_sprite_has_its_frames_in_order_and_evenly(
    tmp_path: Path, fields: dict[str, object], count: int
) -> None:
    spec = small(BUNDLE, duration_s=4.0, crf=10, **fields)
    video, _ = await film(spec, tmp_path / "a", shades(spec))
    picture = await make_sprite(spec, video, count=count, width=64)
    columns, rows = min(count, 10), -(-count // 10)
    assert Image.open(io.BytesIO(picture)).size == (columns * 64, rows * 36)
    for cell, frame in enumerate(sheet_frames(spec, count)):
        at = (cell % 10 + 0.8) / columns, (cell // 10 + 0.2) / rows
        assert abs(red(picture, at) - 240 * frame / spec.frame_count) < 8, cell
    assert abs(sheet_frames(spec, count)[-1] / spec.frame_count - (count - 0.5) / count) <= 1 / count


async def test_a_sprite_has_no_more_frames_than_there_are_and_none_that_is_very_high(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=0.4, width=64, height=320)
    video, _ = await film(spec, tmp_path / "a", shades(spec))
    picture = await make_sprite(spec, video, count=50, width=320)
    assert Image.open(io.BytesIO(picture)).size == (4 * 64, 320)
    tall = small(BUNDLE, duration_s=0.1, width=320, height=1600)
    video, _ = await film(tall, tmp_path / "b", shades(tall))
    assert Image.open(io.BytesIO(await make_sprite(tall, video, count=1, width=320))).size == (128, 640)


async def test_a_frame_that_is_not_in_the_file_is_no_empty_picture(tmp_path: Path) -> None:
    spec = small(BUNDLE)
    video, _ = await film(spec, tmp_path / "a", shades(spec))
    with pytest.raises(EncodeFailed, match="frame 30 is not in the file"):
        await frame_of_video(spec, video, 30, width=80)
    (tmp_path / "none").write_bytes(b"nothing that can be seen")
    with pytest.raises(EncodeFailed):
        await frame_of_video(small(BUNDLE, format="gif"), tmp_path / "none", 0, width=80)


async def test_a_long_video_is_not_decoded_as_a_whole(tmp_path: Path) -> None:
    """It is refused before the file is looked at, which is not there."""
    none = tmp_path / "none"
    for fields in ({"format": "gif"}, {"format": "webm", "alpha": True}):
        long = small(BUNDLE, duration_s=61.0, **fields)
        with pytest.raises(InvalidInput, match=r"lasts 61 s, .* up to 60 s; download the video"):
            await frame_of_video(long, none, 0, width=80)
        with pytest.raises(InvalidInput, match="lasts 61 s"):
            await make_sprite(long, none, count=10, width=80)
    with pytest.raises(InvalidInput, match="this mov lasts 61 s"):
        await make_sprite(small(BUNDLE, duration_s=61.0, format="mov"), none, count=10, width=80)
    with pytest.raises(InvalidInput, match="61 frames or fewer can be seen of it"):
        await make_sprite(small(BUNDLE, duration_s=61.0), none, count=90, width=80)


async def test_what_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = small(BUNDLE)
    video, _ = await film(spec, tmp_path / "a", shades(spec))
    monkeypatch.setattr(stills, "_TIMEOUT_S", 0.0)
    with pytest.raises(EncodeFailed, match="given up"):
        await make_sprite(spec, video, count=3, width=80)
    with pytest.raises(EncodeFailed, match="given up"):
        await frame_of_video(spec, video, 3, width=80)
