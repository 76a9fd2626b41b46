"""A page rendered at the terminal: how far it is while it goes on, and what came of it.

On a terminal a bar for each video that is under way; elsewhere a line every ten percent; for a program nothing but one
JSON document at the end. Ctrl-C and SIGTERM end every process; what was finished is kept, and the same command goes on.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from koda_ray.console.exits import Exit, Left
from koda_ray.console.live import ACCENT
from koda_ray.console.text import clean, duration, one_line, plural, size, time_left
from koda_ray.errors import KodaError
from koda_ray.render import protocol
from koda_ray.render.api import SUFFIXES, Options, Rendered, RowDone, render, render_rows
from koda_ray.render.rows import Row, read_props
from koda_ray.video_formats import VideoFormat

__all__ = ["Face", "PageJob", "render_page", "usual_out"]

_STEP_PERCENT = 10
_ENDINGS = {format: suffix for suffix, format in SUFFIXES.items()}
_NAME, _BAR, _SAID = 32, 30, 49
"""Columns of a wide terminal: a name and a bar at most, and what is said of it; a narrow one halves the first two."""
T = TypeVar("T")


@dataclass(frozen=True)
class PageJob:
    """A page, what is wanted of its video or videos, and how many browsers at once make them."""

    page: Path
    options: Options
    workers: int | None = None


@dataclass
class Face:
    """How a render is shown.

    Args:
        plain: Lines, also on a terminal.
        json: One JSON document at the end and nothing else.
        console: Where lines and bars go.
        began: When, by this machine's monotonic clock.
    """

    plain: bool = False
    json: bool = False
    console: Console = field(default_factory=lambda: Console(highlight=False))
    began: float = field(default_factory=time.monotonic)

    @property
    def live(self) -> bool:
        """Whether bars are drawn."""
        return self.console.is_terminal and not self.plain and not self.json

    def line(self, words: str, *, style: str | None = None) -> None:
        """Write a line that is no markup, unless a program listens."""
        if not self.json:
            self.console.print(clean(words), markup=False, soft_wrap=True, style=style)

    def timed(self, kind: str, words: str) -> None:
        """Write a line with the seconds since the beginning, as logs want it."""
        self.line(f"{time.monotonic() - self.began:7.1f}  {kind:<9} {one_line(words, 160)}")

    def document(self, data: object) -> None:
        """Write what a program reads."""
        sys.stdout.write(f"{json.dumps(data, indent=2, ensure_ascii=False)}\n")


def render_page(job: PageJob, out: str | None, *, props: str | None, face: Face) -> None:
    """Render a page, or one video for each row of its data, and show it.

    Args:
        job: The page, and what is wanted of it.
        out: The video's name; for a batch, with fields of the row in braces.
        props: The data's file.
        face: How it is shown.

    Raises:
        KodaError: As `koda_ray.render.api.render`.
        Left: It was interrupted, or a row failed.
    """
    data = None if props is None else read_props(props)
    batch = isinstance(data, list)
    name = out or usual_out(job.page, job.options.get("format", "mp4"), batch=batch)
    if batch:
        _render_batch(job, name, cast("list[Row]", data), face)
        return
    if data is not None:
        job = replace(job, options={**job.options, "props": data})
    _render_one(job, Path(name), face)


def usual_out(path: Path, format: VideoFormat, *, batch: bool) -> str:
    """Return what a video is called when nobody says: after its page, in the current folder."""
    whole = path.absolute()
    if whole.stem in ("dist", "build", "index") and whole.parent.name:
        whole = whole.parent
        whole = whole.parent if whole.name in ("dist", "build") else whole
    stem = (whole.stem or "video").replace("{", "").replace("}", "")
    return f"{stem}{'-{index}' if batch else ''}{_ENDINGS[format]}"


def _render_one(job: PageJob, out: Path, face: Face) -> None:
    """Render one video, show it, and say what came of it.

    Raises:
        KodaError: As `koda_ray.render.api.render`.
        Left: It was interrupted.
    """
    with _stoppable(), _Screen(face) as screen:

        async def work() -> Rendered:
            async def tell(progress: protocol.Progress) -> None:
                screen.progress(out.name, progress)

            return await render(job.page, out, workers=job.workers, on_progress=tell, **job.options)

        made = _run(work())
        screen.over(out.name)
    if face.json:
        face.document(made.to_json())
        return
    face.line(f"{'✔ ' if face.live else ''}{_words(made)}", style="green" if face.live else None)
    for note in _notes(made):
        face.line(f"  {note}")


def _render_batch(job: PageJob, out: str, rows: list[Row], face: Face) -> None:
    """Render one video for each row, and say at the end which there are.

    Raises:
        KodaError: As `koda_ray.render.api.render_rows`, where nothing could begin.
        Left: It was interrupted, or a row failed.
    """
    with _stoppable(), _Screen(face, total=len(rows)) as screen:

        def over(done: RowDone) -> None:
            screen.over(f"row {done.index}")
            if done.error is not None:
                face.line(f"✖ row {done.index}, {done.path}: {done.error.message}", style="red" if face.live else None)
            elif done.rendered is not None and not face.live:
                face.timed("video", _words(done.rendered))

        async def work() -> list[RowDone]:
            async def tell(index: int, progress: protocol.Progress) -> None:
                screen.progress(f"row {index}", progress)

            return await render_rows(
                job.page, out, rows, workers=job.workers, on_progress=tell, on_done=over, **job.options
            )

        done = _run(work())
    failed = [one for one in done if one.error is not None]
    if face.json:
        face.document(
            {"videos": [_row_json(one) for one in done], "done": len(done) - len(failed), "failed": len(failed)}
        )
    else:
        took = duration(time.monotonic() - face.began)
        face.line(f"{plural(len(done) - len(failed), 'video')} of {len(done)} in {took}")
        if failed:
            face.line(f"{plural(len(failed), 'row')} failed: {', '.join(str(one.index) for one in failed)}")
    if failed:
        raise Left(Exit.FAILED)


class _Screen:
    """Bars or lines for the videos that are under way; a context manager."""

    def __init__(self, face: Face, *, total: int = 1) -> None:
        self._face = face
        self._bars: dict[str, TaskID] = {}
        self._step = -1
        self._total = total
        self._drawn: Progress | None = None
        room = max(12, face.console.width - _SAID)
        self._name = min(_NAME, room // 2)
        if face.live:
            self._drawn = Progress(
                TextColumn("  {task.description}"),
                BarColumn(bar_width=min(_BAR, room - self._name), complete_style=ACCENT, finished_style="green"),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[said]}", style="dim"),
                console=face.console,
                transient=True,
            )

    def __enter__(self) -> _Screen:
        if self._drawn is not None:
            self._drawn.start()
            if self._total > 1:
                self._bars[""] = self._drawn.add_task("all rows", total=self._total, said=f"0 of {self._total}")
            else:
                self._bars[""] = self._drawn.add_task(one_line("reading the page", self._name), total=None, said="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def progress(self, name: str, progress: protocol.Progress) -> None:
        """Show how far a video is."""
        said = progress.stage
        if progress.frames_per_s is not None and progress.stage == "capturing":
            said += f" · {progress.frames_per_s:.1f} frames/s"
        if told := time_left(progress.seconds_left, progress.percent):
            said += f" · {told}"
        if self._drawn is not None:
            if self._total == 1 and "" in self._bars:
                self._drawn.remove_task(self._bars.pop(""))
            if name not in self._bars:
                self._bars[name] = self._drawn.add_task(one_line(name, self._name), total=100, said="")
            self._drawn.update(self._bars[name], completed=progress.percent, said=said)
            return
        step = int(progress.percent // _STEP_PERCENT)
        if step > self._step and self._total == 1:  # of a batch there is a line for each video
            self._step = step
            frames = f"{progress.frames_done} of {plural(progress.frames_total, 'frame')}"
            self._face.timed("render", f"{progress.percent:.0f} % {said.replace(' · ', ', ')} ({frames})")

    def over(self, name: str) -> None:
        """Take a video's bar away."""
        if self._drawn is None:
            return
        if (bar := self._bars.pop(name, None)) is not None:
            self._drawn.remove_task(bar)
        if self._total > 1:
            self._drawn.advance(self._bars[""])
            finished = self._drawn.tasks[0].completed
            self._drawn.update(self._bars[""], said=f"{finished:.0f} of {self._total}")


@contextmanager
def _stoppable() -> Generator[None]:
    """Say, once the screen is free, what an interrupt leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("koda: stopped; what is finished is kept. The same command again goes on where this was.\n")
        raise Left(Exit.INTERRUPTED) from None


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; Ctrl-C and SIGTERM cancel the work and wait until its processes are gone."""

    async def body() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _terminated, task, told)
        return await work

    told: list[bool] = []
    # a shell's background jobs begin with SIGINT ignored, and a script that interrupts one means it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return asyncio.run(body())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except BaseExceptionGroup as group:  # of a batch: the first is as good as any
        raise group.exceptions[0] from None
    finally:
        signal.signal(signal.SIGINT, before)


def _terminated(task: asyncio.Task[Any], told: list[bool]) -> None:
    if not told:
        told.append(True)
        task.cancel()


def _words(made: Rendered) -> str:
    return (
        f"{made.path}: {duration(made.duration_s)}, {made.width}x{made.height}, {made.fps:.5g} frames/s, "
        f"{size(made.size_bytes)}, made in {duration(made.seconds)}"
    )


def _notes(made: Rendered) -> list[str]:
    notes: list[str] = []
    if made.units_reused:
        before = f", {made.units_adopted} of them from the page as it was before a change"
        adopted = before if made.units_adopted else ""
        notes.append(f"{made.units_reused} of {plural(made.units, 'part')} were there already from before{adopted}")
    if taken_over := made.report.get("unitsTakenOver"):
        notes.append(f"{taken_over} of those were found to look as in the page before")
    if made.replayed:
        notes.append("the page does not restore its state when it is sought: every part was played from the beginning")
    if made.still:
        notes.append("every frame is the same picture: does the page animate?")
    notes += [f"the page: {warning}" for warning in made.warnings]
    if made.verified_frames:
        notes.append(f"{plural(made.verified_frames, 'frame')} were rendered a second time and came out equal")
    return notes


def _row_json(done: RowDone) -> dict[str, object]:
    if done.rendered is not None:
        return {"index": done.index, "status": "done", **done.rendered.to_json()}
    error = done.error or KodaError("not rendered")
    return {
        "index": done.index,
        "status": "failed",
        "path": str(done.path),
        "error": {"code": error.code, "message": error.message},
    }
