"""What a video's file holds, told by FFmpeg as it reads it: sizes, times, and checksums of what is coded.

FFmpeg takes its packets down while it does something else with the file, or for their own sake, and says of each
stream what it is. So a file is looked at and measured in one reading, by one process.

Source: "framehash" of FFmpeg's formats' documentation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from koda_ray.errors import EncodeFailed, QualityRejected
from koda_ray.render.ffmpeg import TALKING, converse

__all__ = [
    "CHECKSUM",
    "NO_CHECKSUMS",
    "Checksums",
    "VideoFacts",
    "facts_output",
    "probe_video",
    "read_checksums",
    "read_facts",
]

CHECKSUM = "crc32"
"""FFmpeg's name for what coded frames are compared by."""
_TIMEOUT_S = 600.0
_TWO_PLACES = 0.0051
_HEADER = "#extradata "
_RANGES = ("tv", "pc")
_SPACES = ("bt", "smpte", "gbr", "fcc", "ycgco")
_DURATION = re.compile(r"^\[info\]   Duration: (\d+):(\d\d):(\d\d\.\d+)", re.MULTILINE)
_PICTURES = re.compile(
    r"^\[info\]   Stream #0:\d+[^\n]*?: Video: (?P<codec>\w+)[^\n]*?, \w+(?:\((?P<colors>[^)]*)\))?, "
    r"(?P<width>\d+)x(?P<height>\d+)(?:[^\n]*?, (?P<rate>[\d.]+)(?P<thousands>k?) fps)?",
    re.MULTILINE,
)


class Checksums(NamedTuple):
    """Of what is coded: each frame, in the order of the file, and what decoders are told before them, if anything."""

    frames: tuple[str, ...] = ()
    header: str = ""


NO_CHECKSUMS = Checksums()


@dataclass(frozen=True)
class VideoFacts:
    """What a file holds; seconds and pixels.

    ``times_s`` are the frames' presentation times, sorted; ``checksums`` are of its pictures; ``audio_s`` is the
    sound's end, None where there is none; ``rate`` is what the file says, to two places where its frames are not all
    equally long.
    """

    width: int
    height: int
    codec: str
    colors: str
    duration_s: float
    times_s: tuple[float, ...]
    rate: Fraction | None = None
    audio_s: float | None = None
    checksums: Checksums = NO_CHECKSUMS
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Packet:
    """A coded frame, of pictures or sound, in its stream's ticks."""

    shown: int
    lasts: int
    checksum: str


async def probe_video(path: Path) -> VideoFacts:
    """Read a video's facts, without decoding a frame.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: It cannot read the file.
        QualityRejected: There is no picture in it.
    """
    said = await converse("ffmpeg", [*TALKING, "-i", str(path), *facts_output("pipe:", 0)], timeout_s=_TIMEOUT_S)
    return read_facts(path, said.output.decode(), said.words)


def facts_output(target: str, number: int) -> list[str]:
    """Return FFmpeg's arguments of an output that takes down the packets of an input."""
    return ["-map", str(number), "-c", "copy", "-f", "framehash", "-hash", CHECKSUM, target]


def read_facts(path: Path, packets: str, words: str) -> VideoFacts:
    """Return what FFmpeg took down and said of a file.

    Args:
        path: The file.
        packets: What `facts_output` wrote.
        words: What FFmpeg said, `TALKING`.

    Raises:
        EncodeFailed: It said something else than is understood.
        QualityRejected: There is no picture in it.
    """
    kinds, ticks, headers = dict[int, str](), dict[int, Fraction](), dict[int, str]()
    streams: dict[int, list[_Packet]] = {}
    for line in packets.splitlines():
        if line.startswith("#media_type "):
            stream, kind = _told(line)
            kinds[stream] = kind
        elif line.startswith("#tb "):
            stream, tick = _told(line)
            ticks[stream] = Fraction(tick)
        elif line.startswith(_HEADER):
            headers |= _header(line)
        elif line[:1].isdecimal():
            stream, _, shown, lasts, _, checksum = line.split(",")[:6]
            streams.setdefault(int(stream), []).append(_Packet(int(shown), int(lasts), checksum.strip()))
    first = {kind: stream for stream, kind in reversed(kinds.items())}
    if "video" not in first:
        raise QualityRejected(f"{path.name} has no video stream")
    said = _PICTURES.search(words)
    if said is None:
        raise EncodeFailed(f"FFmpeg does not say what {path.name} holds: {words[-300:]}")
    frames, tick = streams.get(first["video"], []), ticks[first["video"]]
    return VideoFacts(
        width=int(said["width"]),
        height=int(said["height"]),
        codec=said["codec"],
        colors=_colors(said["colors"] or ""),
        duration_s=_duration_s(words),
        times_s=tuple(sorted(frame.shown * tick.numerator / tick.denominator for frame in frames)),
        rate=_rate(frames, tick, said),
        audio_s=_end_s(streams.get(first["audio"], []), ticks[first["audio"]]) if "audio" in first else None,
        checksums=Checksums(tuple(frame.checksum for frame in frames), headers.get(first["video"], "")),
    )


def read_checksums(packets: str) -> Checksums:
    """Return the checksums of what is coded, where FFmpeg took down one stream."""
    lines = packets.splitlines()
    frames = tuple(line.split(",")[5].strip() for line in lines if line[:1].isdecimal())
    header = next((_header(line)[0] for line in lines if line.startswith(_HEADER)), "")
    return Checksums(frames, header)


def _header(line: str) -> dict[int, str]:
    """Return the checksum of what decoders of a stream are told first, as "#extradata 0,  50, d0786239" says it."""
    stream, _, checksum = line.removeprefix(_HEADER).split(",")
    return {int(stream): checksum.strip()}


def _told(line: str) -> tuple[int, str]:
    """Return the stream that a line of the beginning is about, and what it says."""
    stream, _, value = line.partition(" ")[2].partition(":")
    return int(stream), value.strip()


def _duration_s(words: str) -> float:
    found = _DURATION.search(words)
    return float("nan") if found is None else int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])


def _colors(said: str) -> str:
    """Return a matrix and a range of what is said as "tv, bt709/unknown/bt709, progressive"."""
    parts = said.split(", ")
    space = next((part.partition("/")[0] for part in parts if part.startswith(_SPACES)), "unknown")
    return f"{space}/{next((part for part in parts if part in _RANGES), 'unknown')}"


def _rate(frames: Sequence[_Packet], tick: Fraction, said: re.Match[str]) -> Fraction | None:
    """Return the rate that is said, exactly where frames are so long; webm's are whole milliseconds."""
    if said["rate"] is None:
        return None
    rate = Fraction(said["rate"]) * (1000 if said["thousands"] else 1)
    lasts = {frame.lasts for frame in frames if frame.lasts > 0}
    exact = {1 / (each * tick) for each in lasts}
    return next(iter(exact)) if len(exact) == 1 and abs(next(iter(exact)) - rate) < _TWO_PLACES else rate


def _end_s(packets: Sequence[_Packet], tick: Fraction) -> float:
    return max((float((packet.shown + packet.lasts) * tick) for packet in packets), default=0.0)
