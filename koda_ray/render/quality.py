"""The gate before a video is announced: what FFmpeg left is measured, not believed.

Exit code 0 is not success. The file's frames are counted, their times checked, their bytes compared with the units'
by checksum, and some of them looked at. What is certainly not what was asked is refused with what was seen; what may
be meant so is a warning in the report.
"""

from __future__ import annotations

import asyncio
import math
import zipfile
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from koda_ray.errors import EncodeFailed, QualityRejected
from koda_ray.render.audio import SAMPLE_RATE, total_samples
from koda_ray.render.decode import look_and_hear
from koda_ray.render.facts import NO_CHECKSUMS, Checksums, VideoFacts, facts_output, probe_video, read_facts
from koda_ray.render.ffmpeg import Conversed
from koda_ray.render.pictures import frame_name
from koda_ray.render.spec import AUDIO_FORMATS, RenderSpec, unit_frames

__all__ = ["check_video", "look_at_units"]

_SAMPLES_PER_S = 4
_LOOK_WIDTH, _LOOK_HEIGHT = 96, 54
_BLACK_LEVEL = 24
_SEEN_ALPHA = 8
_UNIFORM_SPREAD = 8
_BLANK_START_S = 0.5
_LONG_STILL_S = 2.0
_WEBM_RATE_SLACK = 0.0051
"""Its frames are a millisecond more or less, and a rate is told with two places; their times are checked one by one."""
_DURATION_SLACK_S = 0.0051
"""A file's length is told in hundredths of a second."""
_ROUNDING_S = {"webm": 0.0011, "gif": 0.0101}
_CODEC_FRAME_S = {"mp4": 1024 / SAMPLE_RATE, "webm": 0.0265, "mov": 1 / SAMPLE_RATE}
"""How much longer than it is a sound may seem in a container: AAC's and Opus's last frame, Opus with its lead-in."""


def _read_sequence(spec: RenderSpec, path: Path) -> VideoFacts:
    """Read a picture sequence's facts; its times are those of its numbers."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            sizes = {archive.open(name).read(24)[16:] for name in names}  # a PNG's width and height
    except (zipfile.BadZipFile, OSError) as error:
        raise EncodeFailed(f"{path.name} cannot be read: {error}") from error
    if names != [frame_name(frame) for frame in range(len(names))] or not names:
        raise QualityRejected(f"{path.name} does not hold {frame_name(0)}, {frame_name(1)} and so on")
    if len(sizes) != 1:
        raise QualityRejected(f"{path.name} has pictures of {len(sizes)} sizes")
    (size,) = sizes
    return VideoFacts(
        width=int.from_bytes(size[:4], "big"),
        height=int.from_bytes(size[4:], "big"),
        codec="png",
        colors="rgb/pc",
        duration_s=spec.seconds(len(names)),
        times_s=tuple(spec.seconds(frame) for frame in range(len(names))),
    )


async def look_at_units(spec: RenderSpec, listing: Path, count: int) -> list[bytes]:
    """Return the first frame of each unit as a small RGBA picture: they tell nearly always.

    Args:
        spec: The video, an mp4.
        listing: The list of its units (`koda_ray.render.mux.list_units`), each once, however often it comes; they are
            decoded as one video, as they are in the joined one.
        count: How many are listed.

    Raises:
        EncodeFailed: They cannot be decoded so.
    """
    return await _looks(spec, listing, _firsts(spec)[:count])


async def check_video(
    spec: RenderSpec,
    path: Path,
    frame_hashes: Sequence[str],
    *,
    checksums: Checksums = NO_CHECKSUMS,
    looks: Awaitable[Sequence[bytes]] | None = None,
) -> VideoFacts:
    """Refuse a finished video that is not what was asked.

    Args:
        spec: What was asked.
        path: The video.
        frame_hashes: Of the captured pictures, in order.
        checksums: Of the units' coded frames, as `koda_ray.render.mux.join_units` returned them. With them, only some
            frames are decoded; without them, all are, because damage is seen no other way.
        looks: What `look_at_units` sees of the units of an mp4, where the file's frames and their header are those, by
            these checksums: a decoder is given the same. Without them it is seen in the file.

    Returns:
        What it is, with warnings of what may not be meant so.

    Raises:
        QualityRejected: The message says what is wrong and what was seen.
        EncodeFailed: The file cannot be read or decoded.
    """
    sparingly = bool(checksums.frames) or spec.format == "png"
    seen: list[bytes] | EncodeFailed
    if spec.format == "png":
        facts, seen = _read_sequence(spec, path), await _looks(spec, path, _firsts(spec))
    elif looks is not None:
        facts, seen = await probe_video(path), await _seen_of(looks)
    elif sparingly and spec.format != "gif":
        facts, seen = await _facts_and_looks(spec, path, _firsts(spec))
    else:
        facts, seen = await _facts_and_looks(spec, path, _often(spec))
    # what the facts say is told first
    _check_frames(spec, facts, len(frame_hashes))
    _check_times(spec, facts)
    _check_sound(spec, facts)
    if checksums.frames and checksums.frames != facts.checksums.frames:
        raise QualityRejected("the video's coded frames are not those of its units: its file is damaged")
    if looks is not None and checksums.header != facts.checksums.header:  # of other formats the container may change it
        raise QualityRejected("the video's header is not that of its units: its frames would be decoded otherwise")
    if spec.moves and spec.frame_count > 1 and len(set(frame_hashes)) == 1:
        raise QualityRejected("every frame is the same picture, and the plan moves: the page does not animate")
    if isinstance(seen, EncodeFailed):
        raise seen
    warnings = await _look_at(spec, path, seen, sparingly=sparingly)
    still_s = spec.seconds(max(len(list(run)) for _, run in groupby(frame_hashes)))
    if spec.moves and still_s > max(_LONG_STILL_S, spec.seconds(spec.frame_count) / 2):
        warnings.append(f"the picture stands still for {still_s:.1f} s of {spec.seconds(spec.frame_count):.1f} s")
    return replace(facts, warnings=tuple(warnings))


def _check_frames(spec: RenderSpec, facts: VideoFacts, captured: int) -> None:
    wanted = spec.frame_count
    if len(facts.times_s) != wanted or captured != wanted:
        raise QualityRejected(
            f"the video has {len(facts.times_s)} frames and {captured} were captured; {wanted} were asked for"
        )
    if (facts.width, facts.height) != spec.picture:
        asked = "x".join(map(str, spec.picture))
        raise QualityRejected(f"the video is {facts.width}x{facts.height}; {asked} was asked for")


def _check_times(spec: RenderSpec, facts: VideoFacts) -> None:
    wanted, step = spec.frame_count, spec.seconds(1)
    slack = _ROUNDING_S.get(spec.format, step / 100)
    for index, time_s in enumerate(facts.times_s):
        if abs(time_s - facts.times_s[0] - index * step) > slack:
            raise QualityRejected(f"frame {index} lies at {time_s:.4f} s; {index * step:.4f} s was asked for")
    # webm says how long a frame lasts, and FFmpeg makes a fraction of small numbers of that
    off = 0 if facts.rate is None else abs(facts.rate - spec.fps)
    if spec.format in AUDIO_FORMATS and wanted > 1 and off > (_WEBM_RATE_SLACK if spec.format == "webm" else 0):
        raise QualityRejected(f"the video says that it has {facts.rate} frames per second; {spec.fps} were asked for")
    slack = _DURATION_SLACK_S + max(step, _CODEC_FRAME_S.get(spec.format, 0.0) if spec.audio else 0.0, slack)
    if not abs(facts.duration_s - wanted * step) <= slack:
        raise QualityRejected(f"the video lasts {facts.duration_s:.3f} s; {wanted * step:.3f} s was asked for")


def _check_sound(spec: RenderSpec, facts: VideoFacts) -> None:
    if not spec.audio:
        if facts.audio_s is not None:
            raise QualityRejected("the video has a sound track, and none was asked for")
        return
    wanted = total_samples(spec) / SAMPLE_RATE
    if facts.audio_s is None:
        raise QualityRejected("the video has no sound track, and the spec names audio")
    if abs(facts.audio_s - wanted) > _CODEC_FRAME_S[spec.format] + 0.001:
        raise QualityRejected(f"the sound lasts {facts.audio_s:.4f} s; {wanted:.4f} s was asked for")


async def _seen_of(looks: Awaitable[Sequence[bytes]]) -> list[bytes] | EncodeFailed:
    try:
        return [*await looks]
    except EncodeFailed as error:
        return error


async def _facts_and_looks(
    spec: RenderSpec, path: Path, frames: range
) -> tuple[VideoFacts, list[bytes] | EncodeFailed]:
    """Read the facts, and look at frames in the same reading; what cannot be decoded has facts all the same."""
    packets = path.with_suffix(".packets")
    try:
        said = await _look(spec, path, frames, more=facts_output(str(packets), 1))
        facts = read_facts(path, await asyncio.to_thread(packets.read_text), said.words)
    except EncodeFailed as error:
        return await probe_video(path), error
    return facts, _cut(said.output)


def _firsts(spec: RenderSpec) -> range:
    """Return the first frame of each unit."""
    return range(0, spec.frame_count, unit_frames(spec))


def _often(spec: RenderSpec) -> range:
    """Return some frames of each second, and not only those with which units begin: so all are decoded."""
    step = min(round(spec.fps / _SAMPLES_PER_S), spec.frame_count - 1)
    return range(0, spec.frame_count, max(1, step))


async def _look_at(spec: RenderSpec, path: Path, seen: Sequence[bytes], *, sparingly: bool) -> list[str]:
    """Refuse what shows nothing, and return what is odd about the beginning; more is decoded where little tells."""
    if sparingly and (all(map(_is_uniform, seen)) or _is_black(spec, seen)):
        seen = await _looks(spec, path, _often(spec))
    if _is_black(spec, seen):
        if spec.alpha:
            raise QualityRejected("the video is transparent throughout, or black")
        brightest = max((_brightest(spec, frame) for frame in seen), default=0)
        raise QualityRejected(f"the video is black throughout (brightest level seen: {brightest} of 255)")
    if not spec.moves or not _is_uniform(seen[0]) or all(map(_is_uniform, seen)):
        return []
    # something is shown later and nothing at first
    beginning = await _looks(spec, path, range(min(spec.frame_count, math.ceil(_BLANK_START_S * spec.fps))))
    blank = next((index for index, frame in enumerate(beginning) if not _is_uniform(frame)), None)
    if blank is None:
        raise QualityRejected(
            f"the first {spec.seconds(len(beginning)):.2f} s are blank, and the plan moves: show something from the "
            "first frame on"
        )
    return [f"the first {blank} frames ({spec.seconds(blank):.2f} s) are blank"]


async def _looks(spec: RenderSpec, path: Path, frames: Sequence[int]) -> list[bytes]:
    """Return frames as small RGBA pictures."""
    return _cut((await _look(spec, path, frames)).output)


async def _look(spec: RenderSpec, path: Path, frames: Sequence[int], more: Sequence[str] = ()) -> Conversed:
    filters = f"scale={_LOOK_WIDTH}:{_LOOK_HEIGHT}:in_color_matrix=bt709:flags=area,format=rgba"
    return await look_and_hear(spec, path, frames, filters, ["-f", "rawvideo", "pipe:"], more=more)


def _cut(pixels: bytes) -> list[bytes]:
    size = _LOOK_WIDTH * _LOOK_HEIGHT * 4
    return [pixels[start : start + size] for start in range(0, len(pixels), size)]


def _brightest(spec: RenderSpec, frame: bytes) -> int:
    """Return the highest level of a colour that is seen; with transparency, the highest there is or none."""
    if spec.alpha:
        return 255 if max(frame[3::4]) >= _SEEN_ALPHA else 0
    return max(max(frame[channel::4]) for channel in range(3))


def _is_black(spec: RenderSpec, frames: Sequence[bytes]) -> bool:
    return all(_brightest(spec, frame) < _BLACK_LEVEL for frame in frames)


def _is_uniform(frame: bytes) -> bool:
    channels = [frame[channel::4] for channel in range(4)]
    return all(max(channel) - min(channel) <= _UNIFORM_SPREAD for channel in channels)
