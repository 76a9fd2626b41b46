"""Stills of a finished video: the thumbnail, and a contact sheet that shows at a glance what happens in it.

Their frames are kept, as large as they are shown, where they go by: by whoever encodes the units. To find a sheet's in
the finished video takes as long as joining and checking it together, and a thumbnail's half of that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from koda_ray.render.decode import OVER_GREY, look
from koda_ray.render.ffmpeg import QUIETLY, run
from koda_ray.render.kept import KeptFrames
from koda_ray.render.spec import RenderSpec, Unit, unit_frames

__all__ = [
    "TO_PICTURE",
    "cell_filter",
    "kept_of",
    "make_sheet",
    "make_thumbnail",
    "picture_filter",
    "seeks",
    "seeks_to",
    "sheet_frames",
    "thumbnail_filter",
    "thumbnail_frame",
]

_TIMEOUT_S = 600.0
_THUMBNAIL_LONG_SIDE_PX = 1280
_CELL_LONG_SIDE_PX = 320
_CELLS = 12
_GAP_PX = 8
_BACKGROUND = "0x14161a"
_CAPTION = (
    "drawtext=text='%{pts\\:hms}':font=monospace:fontsize=14:fontcolor=white:x=6:y=h-th-6:"
    "box=1:boxcolor=black@0.6:boxborderw=4"
)
_TO_JPEG = "in_color_matrix=bt709:out_color_matrix=bt601:out_range=pc"
TO_PICTURE = ("-frames:v", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact")
"""FFmpeg's arguments for one picture, before how good it is and where it goes."""
_JPEG = ["-f", "image2", "-update", "1"]


async def make_thumbnail(spec: RenderSpec, video: Path, target: Path, *, first: int = 0) -> None:
    """Save the middle frame as a JPEG, its long side at most 1280 pixels; what is transparent in it is grey.

    Args:
        spec: The video.
        video: Its file, or where `seeks_to` it, its unit that has the frame.
        target: The thumbnail.
        first: The frame of the video with which the file begins.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: It failed.
    """
    middle = thumbnail_frame(spec) - first
    filters = thumbnail_filter(spec)
    output = [*TO_PICTURE, "-q:v", "3", *_JPEG, str(target)]
    if not seeks_to(spec):
        await look(spec, video, [middle], filters, output)
        return
    inputs = ["-ss", f"{spec.seconds(middle):.6f}", "-i", str(video)]
    await run("ffmpeg", [*QUIETLY, *inputs, "-map", "0:v:0", "-vf", filters, *output], timeout_s=_TIMEOUT_S)


def thumbnail_frame(spec: RenderSpec) -> int:
    """Return which frame a video's thumbnail shows."""
    return spec.frame_count // 2


def seeks_to(spec: RenderSpec) -> bool:
    """Whether a frame of the video is sought by its time; of other formats all before it are decoded."""
    return spec.format not in ("gif", "png") and not spec.alpha


def sheet_frames(spec: RenderSpec, cells: int = _CELLS) -> tuple[int, ...]:
    """Return which frames a sheet shows: so many spread evenly, or all where there are fewer.

    Of a long video they are first frames of units: those are found and decoded without the others.
    """
    total = spec.frame_count
    count = min(cells, total)
    units = _units(spec)
    if units >= cells:
        return tuple((2 * cell + 1) * units // (2 * cells) * unit_frames(spec) for cell in range(cells))
    return tuple((2 * cell + 1) * total // (2 * count) for cell in range(count))


def seeks(spec: RenderSpec) -> bool:
    """Whether a sheet's frames are sought: quick in a joined video; in a list of units FFmpeg decodes those before."""
    return _units(spec) >= _CELLS and seeks_to(spec)


def kept_of(spec: RenderSpec, unit: Unit) -> KeptFrames:
    """Return which frames of a unit are kept; none of formats that are decoded for their pictures."""
    if spec.format not in ("mp4", "webm") or spec.alpha:
        return KeptFrames()
    cells = tuple(frame - unit.start for frame in sheet_frames(spec) if unit.start <= frame < unit.stop)
    middle = thumbnail_frame(spec)
    return KeptFrames(cells, middle - unit.start if unit.start <= middle < unit.stop else None)


def thumbnail_filter(spec: RenderSpec) -> str:
    """Return the filter that makes a frame of the video its thumbnail."""
    return picture_filter(spec, _within(spec, _THUMBNAIL_LONG_SIDE_PX))


def cell_filter(spec: RenderSpec) -> str:
    """Return the filter that makes a frame of the video a cell of its sheet."""
    return picture_filter(spec, _within(spec, _CELL_LONG_SIDE_PX))


async def make_sheet(spec: RenderSpec, video: Path, target: Path, *, cells: Sequence[bytes] = ()) -> None:
    """Save the contact sheet as a JPEG: up to 4x3 frames (6x2 of an upright video), each with its time.

    Args:
        spec: The video.
        video: Its file, or a list of its units; not read where there are ``cells``.
        target: The sheet.
        cells: What was kept of its frames, JPEGs in their order: all of them, or none.

    Raises:
        Missing: FFmpeg is not installed, or it cannot write text.
        EncodeFailed: It failed.
    """
    frames = sheet_frames(spec)
    columns = min(len(frames), 4 if spec.width >= spec.height else 6)
    rows = -(-len(frames) // columns)
    tile = f"tile={columns}x{rows}:padding={_GAP_PX}:margin={_GAP_PX}:color={_BACKGROUND}"
    shown = f"settb=AVTB,setpts={_time_of_cell(spec, frames)},{_CAPTION},{tile}"
    output = [*TO_PICTURE, "-q:v", "4", *_JPEG, str(target)]
    if cells:
        pictures = ["-f", "image2pipe", "-c:v", "mjpeg", "-i", "pipe:", "-fps_mode", "passthrough"]
        await run("ffmpeg", [*QUIETLY, *pictures, "-vf", shown, *output], timeout_s=_TIMEOUT_S, feed=_each(cells))
        return
    if not seeks(spec):
        await look(spec, video, frames, f"{cell_filter(spec)},{shown}", output)
        return
    inputs: list[str] = []
    chains: list[str] = []
    for cell, frame in enumerate(frames):
        inputs += ["-threads", "1", "-ss", f"{spec.seconds(frame):.6f}", "-i", str(video)]
        chains.append(f"[{cell}:v:0]trim=end_frame=1,{cell_filter(spec)}[c{cell}]")
    joined = "".join(f"[c{cell}]" for cell in range(len(frames)))
    graph = f"{';'.join(chains)};{joined}concat=n={len(frames)}:v=1:a=0,{shown}"
    await run("ffmpeg", [*QUIETLY, *inputs, "-filter_complex", graph, *output], timeout_s=_TIMEOUT_S)


def picture_filter(spec: RenderSpec, ratio: float) -> str:
    """Return the filter that makes a frame a JPEG's picture, this many times as large; what is transparent is grey."""
    width, height = spec.picture
    size = f"scale={max(2, round(width * ratio / 2) * 2)}:{max(2, round(height * ratio / 2) * 2)}"
    scaled = f"{size},{OVER_GREY},scale={_TO_JPEG}" if spec.alpha else f"{size}:{_TO_JPEG}"
    return f"{scaled},format=yuvj420p"


def _units(spec: RenderSpec) -> int:
    return -(-spec.frame_count // unit_frames(spec))


def _within(spec: RenderSpec, long_side_px: int) -> float:
    return min(1.0, long_side_px / max(spec.picture))


async def _each(cells: Sequence[bytes]) -> AsyncGenerator[bytes]:
    for cell in cells:
        yield cell


def _time_of_cell(spec: RenderSpec, frames: Sequence[int]) -> str:
    """Return the expression of a cell's time in the video, by the cell's number."""
    times = "".join(f"eq(N,{cell})*{spec.seconds(frame):.6f}+" for cell, frame in enumerate(frames))
    return f"'({times}0)/TB'"
