"""Units' files into the video's file: coded frames are copied, pictures become a GIF or a sequence, sound is added.

One pass over the units, whatever their number. Times are set from the grid, so that they are exact at any rate and
for any length. While frames are copied their checksums are written down, and the gate compares them with those of the
finished file: that costs reading it, where decoding both would cost two hundred times that.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from koda_ray.render.audio import DecodedSound, codec_options, input_options, mix_filter, total_samples
from koda_ray.render.decode import LISTED
from koda_ray.render.encode import BT709, timescale
from koda_ray.render.facts import CHECKSUM, NO_CHECKSUMS, Checksums, read_checksums
from koda_ray.render.ffmpeg import QUIETLY, UNDECODED, run
from koda_ray.render.formats import FORMATS
from koda_ray.render.pictures import feed_of, join_pictures
from koda_ray.render.programs import find_program, version_of
from koda_ray.render.spec import RenderSpec

__all__ = ["join_units", "list_units"]

_TELLS_TIME_BASE = 6
_TIMEOUT_S = 900.0


async def join_units(
    spec: RenderSpec, units: Sequence[tuple[Path, int]], target: Path, *, sounds: Sequence[DecodedSound] = ()
) -> Checksums:
    """Join units into the video.

    Args:
        spec: The video.
        units: Each unit's file and number of frames, in order.
        target: The video; files beside it with its name and other endings are used and left.
        sounds: The decoded tracks; where the spec has audio there is a sound track, also when none is heard.

    Returns:
        The checksums of the units' coded frames; none where the units are pictures.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: It failed.
    """
    if spec.format == "png":
        await join_pictures(units, target)
        return NO_CHECKSUMS
    if spec.format == "gif":
        await _make_gif(spec, units, target)
        return NO_CHECKSUMS
    listing, sums = target.with_suffix(LISTED), target.with_suffix(".sums")
    await asyncio.to_thread(list_units, spec, units, listing)
    # frames are copied as they are: units of one encoder have one header, and the gate decodes some of each
    inputs = ["-auto_convert", "0", *UNDECODED, "-i", str(listing)]
    outputs = ["-map", "0:v:0", "-c:v", "copy", "-bsf:v", f"setts={_times(spec)}", *_container(spec)]
    if spec.audio:
        for sound in sounds:
            inputs += input_options(sound)
        graph = mix_filter(sounds, first_input=1, samples=total_samples(spec))
        inputs += ["-filter_complex", graph]
        outputs += ["-map", "[mix]", *codec_options(spec)]
    checks = ["-map", "0:v:0", "-c", "copy", "-f", "framehash", "-hash", CHECKSUM, str(sums)]
    await run("ffmpeg", [*QUIETLY, *inputs, *outputs, str(target), *checks], timeout_s=_TIMEOUT_S)
    return read_checksums(await asyncio.to_thread(sums.read_text))


def list_units(spec: RenderSpec, units: Sequence[tuple[Path, int]], listing: Path) -> None:
    """Write down units so that FFmpeg reads them as one video, as soon as they are there and before they are joined.

    Args:
        spec: The video; its units are not pictures.
        units: Each unit's file and number of frames, in order.
        listing: The file to write; links to the units lie beside it, under names that FFmpeg takes from a list.
    """
    lines = ["ffconcat version 1.0"]
    for index, (path, frames) in enumerate(units):
        link = listing.with_name(f"{listing.stem}-{index:06d}")
        link.symlink_to(path.resolve())
        # the container's own duration leaves the last frame's out where frames are reordered
        lines += [f"file {link.name}", f"duration {spec.seconds(frames):.9f}"]
    listing.write_text("\n".join(lines) + "\n")


def _times(spec: RenderSpec) -> str:
    """Return the expressions that put packets on the grid: joined durations are whole microseconds, which add up.

    They count in the packets' own time base, which FFmpeg chooses: the units' in 5.1, which does not tell it here; in
    6.1 a frame, told as TB.
    """
    if _major() < _TELLS_TIME_BASE:
        frame = str(timescale(spec) * spec.fps.denominator // spec.fps.numerator)
        if spec.format == "webm":
            return f"ts=round(N*1000*{spec.fps.denominator}/{spec.fps.numerator})"  # webm counts in milliseconds
    else:
        frame = f"({spec.fps.denominator}/{spec.fps.numerator}/TB)"
        if spec.format == "webm":
            return f"ts=round(N*{frame})"
    # a last unit of one frame is decoded without delay, which would leave a gap in the order of decoding
    return f"pts=round(round(PTS/{frame})*{frame}):dts=round((N+round(STARTDTS/{frame}))*{frame})"


def _major() -> int:
    """Return FFmpeg's major version; a build without a number is taken for a new one."""
    found = re.match(r"ffmpeg version n?(\d+)\.", version_of(find_program("ffmpeg"), "-version"))
    return int(found[1]) if found else _TELLS_TIME_BASE


def _container(spec: RenderSpec) -> list[str]:
    options = ["-map_metadata", "-1", "-fflags", "+bitexact", "-r", str(spec.fps), "-f", FORMATS[spec.format].extension]
    if spec.format == "webm":
        return [*options, *(("-metadata:s:v:0", "alpha_mode=1") if spec.alpha else ())]
    if spec.format == "mov":
        for name, value in BT709.items():
            options += [f"-{name}", value]
    return [*options, "-movflags", "+faststart", "-video_track_timescale", str(timescale(spec))]


async def _make_gif(spec: RenderSpec, units: Sequence[tuple[Path, int]], target: Path) -> None:
    """Choose 256 colours by all pictures, then draw them with those: two readings, one picture at a time."""
    palette = target.with_suffix(".palette.png")
    pictures = ["-f", "matroska", "-i", "pipe:"]

    async def draw(arguments: list[str], file: Path) -> None:
        feed = feed_of(units, size=spec.picture, fps=spec.fps)
        line = [*QUIETLY, *pictures, *arguments, "-map_metadata", "-1", "-fflags", "+bitexact", "-flags:v", "+bitexact"]
        await run("ffmpeg", [*line, str(file)], timeout_s=_TIMEOUT_S, feed=feed)

    # one colour of the 256 says "transparent"; without transparency it still says "as before"
    await draw(["-vf", "palettegen=stats_mode=full", "-frames:v", "1", "-update", "1"], palette)
    threshold = ":alpha_threshold=128" if spec.alpha else ""
    graph = f"[0:v]fps={spec.fps}[v];[v][1:v]paletteuse=dither=sierra2_4a:diff_mode=rectangle{threshold}"
    frames = ["-frames:v", str(spec.frame_count), "-fps_mode", "passthrough", "-loop", "0", "-f", "gif"]
    await draw(["-i", str(palette), "-filter_complex", graph, *frames], target)
