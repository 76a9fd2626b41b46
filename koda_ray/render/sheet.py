"""Stills of a finished video: the thumbnail, and a contact sheet that shows at a glance what happens in it."""

from __future__ import annotations

from pathlib import Path

from koda_ray.render.decode import OVER_GREY, look
from koda_ray.render.ffmpeg import QUIETLY, run
from koda_ray.render.spec import RenderSpec, plan_units

__all__ = ["TO_PICTURE", "make_sheet", "make_thumbnail", "picture_filter", "seeks", "sheet_frames"]

_TIMEOUT_S = 600.0
_THUMBNAIL_LONG_SIDE_PX = 1280
_CELL_LONG_SIDE_PX = 320
_CELLS = 12
_LONG_CELL = 8
"""Frames of a cell from which it does not matter which of its middle ones is shown."""
_GAP_PX = 8
_BACKGROUND = "0x14161a"
_OWN_TIME = "%{pts\\:hms}"
_TO_JPEG = "in_color_matrix=bt709:out_color_matrix=bt601:out_range=pc"
TO_PICTURE = ("-frames:v", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact")
"""FFmpeg's arguments for one picture, before how good it is and where it goes."""
_JPEG = ["-f", "image2", "-update", "1"]


async def make_thumbnail(spec: RenderSpec, video: Path, target: Path) -> None:
    """Save the middle frame as a JPEG, its long side at most 1280 pixels; what is transparent in it is grey.

    Raises:
        Missing: FFmpeg is not installed.
        EncodeFailed: It failed.
    """
    middle = spec.frame_count // 2
    filters = picture_filter(spec, _within(spec, _THUMBNAIL_LONG_SIDE_PX))
    output = [*TO_PICTURE, "-q:v", "3", *_JPEG, str(target)]
    if spec.format in ("gif", "png") or spec.alpha:
        await look(spec, video, [middle], filters, output)
        return
    inputs = ["-ss", f"{spec.seconds(middle):.6f}", "-i", str(video)]
    await run("ffmpeg", [*QUIETLY, *inputs, "-map", "0:v:0", "-vf", filters, *output], timeout_s=_TIMEOUT_S)


def sheet_frames(spec: RenderSpec, cells: int = _CELLS) -> tuple[int, ...]:
    """Return which frames a sheet shows: so many spread evenly, or all where there are fewer.

    Of a long video they are first frames of units: those are found and decoded without the others.
    """
    total = spec.frame_count
    count = min(cells, total)
    starts = [unit.start for unit in plan_units(spec)]
    if len(starts) >= cells:
        return tuple(starts[(2 * cell + 1) * len(starts) // (2 * cells)] for cell in range(cells))
    return tuple((2 * cell + 1) * total // (2 * count) for cell in range(count))


def seeks(spec: RenderSpec) -> bool:
    """Whether a sheet's frames are sought: quick in a joined video; in a list of units FFmpeg decodes those before."""
    return len(plan_units(spec)) >= _CELLS and spec.format not in ("gif", "png") and not spec.alpha


async def make_sheet(spec: RenderSpec, video: Path, target: Path) -> None:
    """Save the contact sheet as a JPEG: up to 4x3 frames (6x2 of an upright video), each with its time.

    Raises:
        Missing: FFmpeg is not installed, or it cannot write text.
        EncodeFailed: It failed.
    """
    frames = sheet_frames(spec)
    columns = min(len(frames), 4 if spec.width >= spec.height else 6)
    rows = -(-len(frames) // columns)
    tile = f"tile={columns}x{rows}:padding={_GAP_PX}:margin={_GAP_PX}:color={_BACKGROUND}"
    scaled = picture_filter(spec, _within(spec, _CELL_LONG_SIDE_PX))
    output = [*TO_PICTURE, "-q:v", "4", *_JPEG, str(target)]
    if not seeks(spec):
        captioned = f"{scaled},{_caption(_OWN_TIME)},{tile}"
        if spec.format == "mp4" and spec.frame_count >= _CELLS * _LONG_CELL:
            # half the work: frames that no other needs are not decoded, and the next one that is will do
            line = [*QUIETLY, "-skip_frame", "noref", "-i", str(video), "-map", "0:v:0", "-fps_mode", "passthrough"]
            await run("ffmpeg", [*line, "-vf", f"{_next_of_cell(spec)},{captioned}", *output], timeout_s=_TIMEOUT_S)
        else:
            await look(spec, video, frames, captioned, output)
        return
    inputs: list[str] = []
    cells: list[str] = []
    for cell, frame in enumerate(frames):
        inputs += ["-threads", "1", "-ss", f"{spec.seconds(frame):.6f}", "-i", str(video)]
        cells.append(f"[{cell}:v:0]trim=end_frame=1,{scaled},{_caption(_clock(spec.seconds(frame)))}[c{cell}]")
    joined = "".join(f"[c{cell}]" for cell in range(len(frames)))
    graph = f"{';'.join(cells)};{joined}concat=n={len(frames)}:v=1:a=0,{tile}"
    await run("ffmpeg", [*QUIETLY, *inputs, "-filter_complex", graph, *output], timeout_s=_TIMEOUT_S)


def picture_filter(spec: RenderSpec, ratio: float) -> str:
    """Return the filter that makes a frame a JPEG's picture, this many times as large; what is transparent is grey."""
    width, height = spec.picture
    size = f"scale={max(2, round(width * ratio / 2) * 2)}:{max(2, round(height * ratio / 2) * 2)}"
    scaled = f"{size},{OVER_GREY},scale={_TO_JPEG}" if spec.alpha else f"{size}:{_TO_JPEG}"
    return f"{scaled},format=yuvj420p"


def _within(spec: RenderSpec, long_side_px: int) -> float:
    return min(1.0, long_side_px / max(spec.picture))


def _next_of_cell(spec: RenderSpec) -> str:
    """Return the filter that takes the first frame it sees after the middle of each cell."""
    cell = f"floor({{}}*{_CELLS / spec.seconds(spec.frame_count):.9f}+0.5)"
    seen = cell.format("prev_selected_t")
    return f"select='gt({cell.format('t')},if(isnan(prev_selected_t),0,{seen}))'"


def _caption(text: str) -> str:
    return (
        f"drawtext=text='{text}':font=monospace:fontsize=14:fontcolor=white:x=6:y=h-th-6:"
        "box=1:boxcolor=black@0.6:boxborderw=4"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes) // 60:02d}\\:{int(minutes) % 60:02d}\\:{rest:06.3f}"
