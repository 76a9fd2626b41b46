"""The gate: what is refused, what is only said, and how a final compares with its preview; contact sheets."""

from __future__ import annotations

import io
import itertools
import zipfile
from fractions import Fraction
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageDraw, ImageStat

from koda_ray.errors import EncodeFailed, QualityRejected
from koda_ray.render.compare import compare_videos
from koda_ray.render.decode import LISTED, look
from koda_ray.render.encode import unit_encoder
from koda_ray.render.facts import Checksums, probe_video
from koda_ray.render.ffmpeg import run
from koda_ray.render.kept import KeptFrames, KeptPictures
from koda_ray.render.mux import join_units, list_units
from koda_ray.render.pictures import frame_name
from koda_ray.render.quality import check_video, look_at_units
from koda_ray.render.sheet import kept_of, make_sheet, make_thumbnail, sheet_frames
from koda_ray.render.spec import RenderSpec, plan_units, unit_frames
from tests.render.conftest import small

pytestmark = pytest.mark.needs("ffmpeg")
BUNDLE = "a" * 64
GREY, WHITE, BLACK, RED, NOTHING = (90, 90, 90), (255, 255, 255), (0, 0, 0), (220, 20, 20), (0, 0, 0, 0)
Colour = tuple[int, ...]


def drawn(spec: RenderSpec, back: Colour, front: Colour | None, at: int = 0) -> bytes:
    """A picture of one colour, with a square in another."""
    canvas = Image.new("RGBA" if spec.alpha else "RGB", spec.picture, back)
    if front is not None:
        ImageDraw.Draw(canvas).rectangle((at % 100, 20, at % 100 + 40, 60), fill=front)
    buffer = io.BytesIO()
    canvas.save(buffer, "png" if spec.lossless else "jpeg", **({} if spec.lossless else {"quality": 95}))
    return buffer.getvalue()


async def film(
    spec: RenderSpec, folder: Path, frames: list[bytes], kept: list[KeptPictures] | None = None
) -> tuple[Path, Checksums]:
    """Encode and join pictures as a render does; return the file and its units' checksums. ``kept`` gets what was."""
    folder.mkdir(exist_ok=True)
    parts: list[tuple[Path, int]] = []
    for unit in plan_units(spec):
        wanted = KeptFrames() if kept is None else kept_of(spec, unit)
        image, target = ("png" if spec.lossless else "jpeg"), folder / f"unit-{unit.index}"
        encoder = unit_encoder(spec, unit.frame_count, target, image=image, kept=wanted)
        await encoder.start()
        for frame in range(unit.start, unit.stop):
            await encoder.write(frames[frame])
        parts.append((await encoder.finish(), unit.frame_count))
        if kept is not None:
            kept.append(encoder.kept())
        await encoder.close()
    video = folder / f"video.{'zip' if spec.format == 'png' else spec.format}"
    return video, await join_units(spec, parts, video)


def hashes(count: int) -> list[str]:
    return [str(frame) for frame in range(count)]


async def test_damage_in_any_coded_frame_is_seen_without_decoding_it(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=3.0)
    video, sums = await film(spec, tmp_path / "a", [drawn(spec, GREY, RED, frame * 3) for frame in range(30)])
    assert len(sums.frames) == 30
    assert (await check_video(spec, video, hashes(30), checksums=sums)).warnings == ()
    whole = video.read_bytes()
    place = whole.index(b"mdat") + 4
    for offset in (300, (len(whole) - place) // 2, len(whole) - place - 10):
        data = bytearray(whole)
        data[place + offset] ^= 0x10
        video.write_bytes(data)
        with pytest.raises(QualityRejected, match="not those of its units"):
            await check_video(spec, video, hashes(30), checksums=sums)


async def test_a_cut_at_a_units_end_is_no_key_frame_whatever_the_rate(tmp_path: Path) -> None:
    """x264 takes whole frames of a second for the least between two, and a unit of 29.97 has one more."""
    spec = small(BUNDLE, duration_s=4.0, fps=Fraction(30000, 1001), effort="draft")
    step = unit_frames(spec)
    frames = [drawn(spec, WHITE if frame % step == step - 1 else (40, 40, 40), RED, frame) for frame in range(120)]
    video, _ = await film(spec, tmp_path / "a", frames)
    seen = await look(
        spec, video, range(0, 120, step), "scale=1:1:out_range=pc,format=gray", ["-f", "rawvideo", "pipe:"]
    )
    assert len(seen) == 4 and max(seen) < 100, list(seen)


async def test_without_checksums_a_short_video_is_decoded_whole(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=0.2, fps=60)
    video, _ = await film(spec, tmp_path / "a", [drawn(spec, GREY, RED, frame * 3) for frame in range(12)])
    assert (await check_video(spec, video, hashes(12))).warnings == ()
    data = bytearray(video.read_bytes())
    cut = len(data) // 5
    data[-cut:] = bytes(cut)
    video.write_bytes(data)
    with pytest.raises(EncodeFailed):
        await check_video(spec, video, hashes(12))


@pytest.mark.parametrize("fps", [Fraction(10), Fraction(30000, 1001), Fraction(1)])
async def test_units_that_are_looked_at_before_they_are_joined_show_what_the_video_does(
    tmp_path: Path, fps: Fraction
) -> None:
    spec = small(BUNDLE, duration_s=5.2, fps=fps)
    frames = [drawn(spec, (frame * 3 % 250, 80, 120), RED, frame * 7) for frame in range(spec.frame_count)]
    video, sums = await film(spec, tmp_path / "a", frames)
    parts = [(tmp_path / "a" / f"unit-{unit.index}", unit.frame_count) for unit in plan_units(spec)]
    listing = tmp_path / f"looked{LISTED}"
    list_units(spec, parts, listing)
    looks = await look_at_units(spec, listing, len(parts))
    firsts = range(0, spec.frame_count, unit_frames(spec))
    small_one = "scale=96:54:in_color_matrix=bt709:flags=area,format=rgba"
    raw = ["-f", "rawvideo", "pipe:"]
    shown = await look(spec, video, firsts, small_one, raw)
    assert b"".join(looks) == shown
    assert len(set(looks)) == len(parts)
    size = len(looks[0])
    # from the middle on, and with gaps
    for some in (firsts[2:], list(firsts[3:]), [firsts[1], firsts[4]], firsts[1::2]):
        wanted = [looks[frame // unit_frames(spec)] for frame in some]
        found = await look(spec, video, some, small_one, raw)
        assert [found[at : at + size] for at in range(0, len(found), size)] == wanted

    async def seen() -> list[bytes]:
        return looks

    facts = await check_video(spec, video, hashes(spec.frame_count), checksums=sums, looks=seen())
    assert facts.checksums == sums
    data = bytearray(video.read_bytes())
    data[data.index(b"avcC") + 7] ^= 1  # the level that its header says
    video.write_bytes(data)
    with pytest.raises(QualityRejected, match="header is not that of its units"):
        await check_video(spec, video, hashes(spec.frame_count), checksums=sums, looks=seen())


async def test_a_unit_that_cannot_be_decoded_is_no_part_of_a_video(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=2.0)
    video, sums = await film(spec, tmp_path / "a", [drawn(spec, GREY, RED, frame * 3) for frame in range(20)])
    unit = tmp_path / "a" / "unit-1"
    data = bytearray(unit.read_bytes())
    place = data.index(b"mdat") + 4
    data[place + 700 : place + 900] = bytes(200)  # behind what says how it was encoded
    unit.write_bytes(data)
    listing = tmp_path / f"looked{LISTED}"
    list_units(spec, [(tmp_path / "a" / f"unit-{index}", 10) for index in range(2)], listing)
    with pytest.raises(EncodeFailed):
        await check_video(spec, video, hashes(20), checksums=sums, looks=look_at_units(spec, listing, 2))


@pytest.mark.full
async def test_a_beginning_that_is_blank_is_said_and_a_long_one_refused(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=3.0)
    for blank in (0, 3, 4, 5, 12):
        frames = [drawn(spec, GREY, None if frame < blank else RED, frame * 3) for frame in range(30)]
        video, sums = await film(spec, tmp_path / str(blank), frames)
        if blank >= 5:
            with pytest.raises(QualityRejected, match=r"first 0\.50 s are blank"):
                await check_video(spec, video, hashes(30), checksums=sums)
            still = small(BUNDLE, duration_s=3.0, moves=False)
            assert (await check_video(still, video, hashes(30), checksums=sums)).warnings == ()
        else:
            told = (f"the first {blank} frames (0.{blank}0 s) are blank",) if blank else ()
            assert (await check_video(spec, video, hashes(30), checksums=sums)).warnings == told


async def test_colours_that_change_everywhere_at_once_are_not_blank(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=3.0)
    frames = [drawn(spec, (frame * 8, 80, 200), None) for frame in range(30)]
    video, sums = await film(spec, tmp_path / "a", frames)
    assert (await check_video(spec, video, hashes(30), checksums=sums)).warnings == ()


@pytest.mark.full
async def test_black_where_units_begin_is_not_black_throughout(tmp_path: Path) -> None:
    """The gate looks at the first frame of each unit, and at more before it refuses."""
    spec = small(BUNDLE, duration_s=4.0, moves=False)
    frames = [drawn(spec, BLACK, RED if frame % 10 in range(3, 8) else None, frame) for frame in range(40)]
    video, sums = await film(spec, tmp_path / "a", frames)
    await check_video(spec, video, hashes(40), checksums=sums)
    video, sums = await film(spec, tmp_path / "b", [drawn(spec, BLACK, None)] * 40)
    with pytest.raises(QualityRejected, match="black throughout"):
        await check_video(spec, video, hashes(40), checksums=sums)
    blue = [drawn(spec, BLACK, (0, 0, 255), frame) for frame in range(40)]  # a grey level of 18
    video, sums = await film(spec, tmp_path / "c", blue)
    await check_video(spec, video, hashes(40), checksums=sums)


@pytest.mark.full
async def test_black_on_nothing_is_a_picture_and_nothing_is_not(tmp_path: Path) -> None:
    for form in ("webm", "mov", "gif", "png"):
        spec = small(BUNDLE, duration_s=1.5, format=form, alpha=True)
        frames = [drawn(spec, NOTHING, (0, 0, 0, 255), frame) for frame in range(15)]
        video, sums = await film(spec, tmp_path / form, frames)
        await check_video(spec, video, hashes(15), checksums=sums)
        video, sums = await film(spec, tmp_path / f"{form}-empty", [drawn(spec, NOTHING, None)] * 15)
        with pytest.raises(QualityRejected, match="transparent throughout"):
            await check_video(spec, video, hashes(15), checksums=sums)


async def test_a_picture_that_stands_for_long_is_said(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=5.0)
    frames = [drawn(spec, GREY, RED, min(frame, 15) * 3) for frame in range(50)]
    video, sums = await film(spec, tmp_path / "a", frames)
    seen = [str(min(frame, 15)) for frame in range(50)]
    facts = await check_video(spec, video, seen, checksums=sums)
    assert facts.warnings == ("the picture stands still for 3.5 s of 5.0 s",)


async def test_a_rate_or_a_sound_that_was_not_asked_for_is_refused(tmp_path: Path) -> None:
    asked = small(BUNDLE, duration_s=2.0)
    video = tmp_path / "video.mp4"
    source = ["-y", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=160x90:r=10:d=2"]
    sound = ["-f", "lavfi", "-i", "sine=d=2", "-pix_fmt", "yuv420p", str(video)]
    await run("ffmpeg", [*source, *sound], timeout_s=60)
    assert (await probe_video(video)).audio_s == pytest.approx(2.0, abs=0.03)
    with pytest.raises(QualityRejected, match="has a sound track"):
        await check_video(asked, video, hashes(20))
    late = "settb=1/1000,setpts=N*100+if(eq(N\\,19)\\,50\\,0)"
    arguments = ["-vf", late, "-fps_mode", "passthrough", "-enc_time_base", "1:1000", "-pix_fmt", "yuv420p", "-bf", "0"]
    await run("ffmpeg", [*source, *arguments, str(video)], timeout_s=60)
    with pytest.raises(QualityRejected, match=r"frame 19 lies at 1\.95"):
        await check_video(asked, video, hashes(20))


async def test_a_picture_sequence_with_a_hole_or_another_size_is_refused(tmp_path: Path) -> None:
    spec = small(BUNDLE, duration_s=1.0, format="png")
    video, _ = await film(spec, tmp_path / "a", [drawn(spec, GREY, RED, frame) for frame in range(10)])
    assert (await check_video(spec, video, hashes(10))).codec == "png"
    with zipfile.ZipFile(video) as archive:
        pictures = {name: archive.read(name) for name in archive.namelist()}
    small_one = drawn(small(BUNDLE, format="png", width=32, height=32), GREY, RED)
    for change, words in (
        ({frame_name(4): None}, "does not hold"),
        ({frame_name(9): None}, "has 9 frames"),
        ({frame_name(4): small_one}, "2 sizes"),
    ):
        with zipfile.ZipFile(video, "w") as archive:
            for name, data in (pictures | change).items():
                if data is not None:
                    archive.writestr(name, data)
        with pytest.raises(QualityRejected, match=words):
            await check_video(spec, video, hashes(10))


@pytest.mark.parametrize("form", ["mp4", "webm", pytest.param("mov", marks=pytest.mark.full)])
async def test_of_each_unit_the_first_frame_is_looked_at(tmp_path: Path, form: str) -> None:
    spec = small(BUNDLE, duration_s=2.5, format=form)
    frames = [drawn(spec, (frame * 10, frame * 10, frame * 10), None) for frame in range(25)]
    video, _ = await film(spec, tmp_path / "a", frames)
    firsts = range(0, spec.frame_count, unit_frames(spec))
    seen = await look(spec, video, firsts, "scale=1:1:out_range=pc,format=gray", ["-f", "rawvideo", "pipe:"])
    assert len(seen) == 3
    assert all(abs(level - wanted) < 6 for level, wanted in zip(seen, (0, 100, 200), strict=True)), list(seen)


@pytest.mark.full
async def test_a_webm_is_compared_with_its_preview_where_both_are_at_one_time(tmp_path: Path) -> None:
    preview = small(BUNDLE, duration_s=4.0)
    final = small(BUNDLE, duration_s=4.0, format="webm")
    frames = [drawn(preview, (frame * 6, 80, 240 - frame * 6), None) for frame in range(40)]
    one, _ = await film(preview, tmp_path / "preview", frames)
    other, _ = await film(final, tmp_path / "final", frames)
    found = await compare_videos(final, other, one)
    assert min(found.psnr_db) > 35


@pytest.mark.full
async def test_a_final_is_compared_with_its_preview(tmp_path: Path) -> None:
    preview = small(BUNDLE, duration_s=4.0, width=160, height=90, crf=28)
    final = small(BUNDLE, duration_s=4.0, width=320, height=180, fps=20, crf=18)

    def frames(spec: RenderSpec, back: Colour = GREY, *, at: int = 0) -> list[bytes]:
        pictures: list[bytes] = []
        for frame in range(spec.frame_count):
            canvas = Image.new("RGB", spec.picture, back)
            width, height = spec.picture
            left = width * (frame / spec.fps + at) / 6
            ImageDraw.Draw(canvas).rectangle((left, height / 4, left + width / 4, height * 3 / 4), fill=WHITE)
            buffer = io.BytesIO()
            canvas.save(buffer, "jpeg", quality=95)
            pictures.append(buffer.getvalue())
        return pictures

    small_one, _ = await film(preview, tmp_path / "preview", frames(preview))
    same, _ = await film(final, tmp_path / "same", frames(final))
    found = await compare_videos(final, same, small_one)
    assert found.times_s == (0.0, 1.0, 2.0, 3.0)
    assert found.mean_db > 24
    assert abs(found.luminance - found.reference_luminance) < 2
    assert found.warnings == []
    other, _ = await film(final, tmp_path / "other", frames(final, at=2))
    assert "is not the preview's" in (await compare_videos(final, other, small_one)).warnings[0]
    darker, _ = await film(final, tmp_path / "darker", frames(final, (50, 50, 50)))
    assert "mean level of light" in (await compare_videos(final, darker, small_one)).warnings[-1]


@pytest.mark.parametrize(
    ("form", "duration_s"), [("mp4", 0.5), ("mp4", 12.0), ("mp4", 16.0), ("webm", 3.0), ("png", 3.0)]
)
@pytest.mark.full
async def test_the_contact_sheet_shows_frames_in_order(tmp_path: Path, form: str, duration_s: float) -> None:
    spec = small(BUNDLE, duration_s=duration_s, format=form)
    total = spec.frame_count
    frames = [drawn(spec, (round(250 * frame / total), 60, 60), WHITE) for frame in range(total)]
    kept: list[KeptPictures] = []
    video, _ = await film(spec, tmp_path / "a", frames, kept)
    await make_sheet(spec, video, tmp_path / "sheet.jpg")
    await make_thumbnail(spec, video, tmp_path / "thumbnail.jpg")
    sheet = Image.open(tmp_path / "sheet.jpg").convert("RGB")
    cells = min(12, total)
    columns, rows = (4, 3) if cells == 12 else (4, 2)
    assert sheet.size == (8 + columns * 168, 8 + rows * 98)
    small_ones = [cell for unit in kept for cell in unit.cells]
    thumbnails = [unit.thumbnail for unit in kept if unit.thumbnail is not None]
    assert (len(small_ones), len(thumbnails)) == ((0, 0) if form == "png" else (cells, 1))
    if small_ones:  # the same frames with the same times, and the video is neither read nor other for it
        plain, _ = await film(spec, tmp_path / "plain", frames)
        assert plain.read_bytes() == video.read_bytes()
        await make_sheet(spec, tmp_path / "none", tmp_path / "kept.jpg", cells=small_ones)
        (tmp_path / "kept-thumbnail.jpg").write_bytes(thumbnails[0])
        for made, other in (("sheet", "kept"), ("thumbnail", "kept-thumbnail")):
            with Image.open(tmp_path / f"{made}.jpg") as one, Image.open(tmp_path / f"{other}.jpg") as two:
                assert one.size == two.size
                off = ImageStat.Stat(ImageChops.difference(one.convert("RGB"), two.convert("RGB")))
            assert max(off.mean) < 2
            assert max(high for _, high in off.extrema) < 80
    reds: list[int] = []
    for cell, (row, column) in enumerate(itertools.islice(itertools.product(range(rows), range(columns)), cells)):
        found = sheet.getpixel((8 + column * 168 + 120, 8 + row * 98 + 20))
        assert isinstance(found, tuple)
        reds.append(found[0])
        assert abs(found[0] - 250 * sheet_frames(spec)[cell] / total) < 14, cell
    assert reds == sorted(reds)
    middle = Image.open(tmp_path / "thumbnail.jpg").convert("RGB").getpixel((150, 10))
    assert isinstance(middle, tuple)
    assert abs(middle[0] - 250 * (total // 2) / total) < 10
