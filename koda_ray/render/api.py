"""Rendering any web page to a video from Python, in this process: no server, no Ray, no agents.

    from koda_ray.render.api import render_sync

    render_sync("dist", "video.mp4", fps=60, preset="1080p")

What was finished is kept in the storage that the settings name (``KODA_DATA_DIR``), so a second call after an
interruption goes on where the first was, and an unchanged page is not captured again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Self, TypedDict, Unpack, cast

from pydantic import JsonValue

from koda_ray.config import Settings
from koda_ray.destinations import check_destination
from koda_ray.errors import InvalidInput, KodaError
from koda_ray.render.bundle import store_bundle
from koda_ray.render.job import RenderJob
from koda_ray.render.memory import MemoryLimit
from koda_ray.render.options import JobOptions, PageContract, check_options, make_spec, needs_page
from koda_ray.render.page_probe import page_contract
from koda_ray.render.protocol import JobContext, Progress, RenderResult
from koda_ray.render.rows import Row, name_rows
from koda_ray.render.sounds import read_sounds
from koda_ray.render.sources import Page, read_page
from koda_ray.render.spec import Effort, RenderSpec
from koda_ray.render.verify import verify_sample
from koda_ray.state.keys import render_prefix
from koda_ray.state.storage import Storage
from koda_ray.types import new_id
from koda_ray.video_formats import VideoFormat

__all__ = [
    "SUFFIXES",
    "Options",
    "Rendered",
    "Renderer",
    "RowDone",
    "format_of",
    "render",
    "render_rows",
    "render_sync",
]

SUFFIXES: dict[str, VideoFormat] = {".mp4": "mp4", ".webm": "webm", ".mov": "mov", ".gif": "gif", ".zip": "png"}
"""Formats by a file's ending; PNG pictures come in a zip."""

_USER = "local"
_ANY_BUNDLE = "0" * 64


class Options(TypedDict, total=False):
    """How a page is rendered; everything may be left out.

    ``duration`` in seconds, else the page's own. ``fps`` is a number or text such as ``"30000/1001"``; ``size`` the
    page's viewport in CSS pixels; both else the preset's, else the page's, else 30 and 1920x1080. ``scale`` is device
    pixels per CSS pixel. ``preset`` is one of `koda_ray.render.presets.PRESET_NAMES`. ``format`` is mp4, webm, mov, gif
    or png, else by the output's ending. ``audio`` are lines as `koda_ray.render.sounds.read_sounds` takes. ``props`` is
    what the page finds as ``window.__kodaProps``. ``trim`` cuts what is longer than the preset's platform takes.
    ``verify`` renders a sample a second time and compares. ``lenient`` goes on where the page throws. ``report`` is a
    folder for the report (JSON and HTML), the contact sheet and the still picture; of a batch, one below it for each.
    """

    duration: float
    fps: Fraction | float | str
    size: tuple[int, int]
    scale: float
    preset: str
    format: VideoFormat
    alpha: bool
    crf: int
    bitrate_kbps: int
    effort: Effort
    seed: int
    entry: str
    props: JsonValue
    audio: Sequence[str]
    trim: bool
    verify: bool
    lenient: bool
    ready_timeout_s: float
    report: str | Path


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A finished and verified video on disk.

    ``seconds`` is what it took. ``frame_hash`` is a digest over all pictures as they were captured: equal hashes, equal
    pictures. ``verified_frames`` is how many were rendered a second time and were equal. ``units_adopted`` of
    ``units_reused`` were made for another bundle, and had asked for what is the same in both. ``still`` says that every
    frame is the same picture, ``warnings`` what the page asked for and did not get. ``report`` is the job's, as JSON.
    """

    path: Path
    format: VideoFormat
    duration_s: float
    frame_count: int
    width: int
    height: int
    fps: float
    size_bytes: int
    frame_hash: str
    seconds: float
    job_id: str
    units: int
    units_reused: int
    units_adopted: int = 0
    replayed: bool
    still: bool = False
    warnings: tuple[str, ...] = ()
    verified_frames: int
    report: dict[str, JsonValue]

    def to_json(self) -> dict[str, JsonValue]:
        """Return what programs want to know, in the wire's names; without the report."""
        return {
            "path": str(self.path),
            "format": self.format,
            "durationS": self.duration_s,
            "frames": self.frame_count,
            "width": self.width,
            "height": self.height,
            "fps": self.fps,
            "sizeBytes": self.size_bytes,
            "frameHash": self.frame_hash,
            "seconds": round(self.seconds, 3),
            "jobId": self.job_id,
            "units": self.units,
            "unitsReused": self.units_reused,
            "unitsAdopted": self.units_adopted,
            "replayed": self.replayed,
            "still": self.still,
            "warnings": list(self.warnings),
            "verifiedFrames": self.verified_frames,
        }


@dataclass(frozen=True, kw_only=True)
class RowDone:
    """One row of a batch: its video, or why there is none. ``index`` counts from 1."""

    index: int
    row: Row
    path: Path
    rendered: Rendered | None = None
    error: KodaError | None = None


class Renderer:
    """Renders pages in this process with browsers that stay warm; an async context manager.

    Args:
        workers: How many browsers at once; when None what the settings say, else a third more than there are
            processors where memory has room for them.
        settings: Where storage and browser are, and what browsers may use; the environment's when None.

    Raises:
        InvalidInput: ``workers`` is below one, or a setting has a value that is none of its own.
    """

    def __init__(self, *, workers: int | None = None, settings: Settings | None = None) -> None:
        from koda_ray.render.local import LocalExecutor

        settings = settings or Settings.model_validate({})
        if workers is not None and workers < 1:
            raise InvalidInput(f"workers {workers}: give 1 or more")
        self.storage = Storage.from_settings(settings)
        self._executor = LocalExecutor(
            workers=workers or settings.render_workers,
            chromium_path=settings.chromium_path,
            memory=MemoryLimit(settings.render_memory_mb),
            graphics=settings.render_graphics,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._executor.close()

    @property
    def workers(self) -> int:
        """How many browsers work at once."""
        return self._executor.slots.now

    async def render(
        self,
        page: Page,
        out: Path,
        options: JobOptions,
        *,
        verify: bool = False,
        report: Path | None = None,
        on_progress: Callable[[Progress], Awaitable[None]] | None = None,
    ) -> Rendered:
        """Render a page to a file, which appears whole or not at all.

        Args:
            page: The page.
            out: The file.
            options: What is wanted of the video.
            verify: Render a sample a second time and compare.
            report: A folder for report, contact sheet and still picture.
            on_progress: Hears how far it is.

        Raises:
            KodaError: As `render`.
        """
        started = time.perf_counter()
        _check_out(out)
        bundle = await store_bundle(self.storage, _USER, page.bundle)
        check_options(options, bundle=bundle, entry=page.entry)
        contract = PageContract()
        if needs_page(options):
            contract = await page_contract(
                options, bundle=bundle, entry=page.entry, storage=self.storage, executor=self._executor, user_id=_USER
            )
        spec = make_spec(options, bundle=bundle, entry=page.entry, page=contract)
        job_id = new_id("job")
        job = RenderJob(
            spec,
            JobContext(storage=self.storage, executor=self._executor, job_id=job_id, user_id=_USER),
            on_progress=on_progress,
        )
        result = await job.run()
        compared = 0
        if verify:
            compared = await verify_sample(
                result, spec=spec, storage=self.storage, executor=self._executor, user_id=_USER
            )
        await self.storage.get_file(result.video_key, out)
        if report is not None:
            prefix = render_prefix(_USER, job_id)
            for key in await self.storage.list(prefix):
                if key != result.video_key:
                    await self.storage.get_file(key, report / key.removeprefix(prefix).lstrip("/"))
        return _rendered(result, spec, out, job_id, time.perf_counter() - started, compared)


async def render(
    path: str | Path,
    out: str | Path,
    *,
    workers: int | None = None,
    on_progress: Callable[[Progress], Awaitable[None]] | None = None,
    **options: Unpack[Options],
) -> Rendered:
    """Render a web page to a video file.

    Args:
        path: A folder with an index.html, a zip, a built Vite project, or an .html file.
        out: The video; its ending says the format where none is given. Replaced where it is there.
        workers: How many browsers at once; when None ``KODA_RENDER_WORKERS``, else a third more than there are
            processors where memory has room for them.
        on_progress: Hears how far it is, a few times a second.
        **options: See `Options`.

    Raises:
        InvalidInput: A value is out of range, or nobody says how long the video is.
        NotFound: There is no such file.
        Missing: Browser, FFmpeg or isolation is not there.
        PageError: The page threw.
        PageNotReady: The page did not become ready.
        RenderError: Rendering failed, or what came out was refused (QualityRejected).
        StorageError: Storage failed.

    Example:
        done = await render("dist", "reel.mp4", preset="instagram-reels", audio=["music.mp3@1.5,fade-out=2"])
        print(done.path, done.frame_count)
    """
    target = Path(out)
    page, wanted = await asyncio.to_thread(_prepare, Path(path), target, options)
    async with Renderer(workers=workers) as renderer:
        return await renderer.render(
            page,
            target,
            wanted,
            verify=options.get("verify", False),
            report=Path(options["report"]) if "report" in options else None,
            on_progress=on_progress,
        )


def render_sync(
    path: str | Path, out: str | Path, *, workers: int | None = None, **options: Unpack[Options]
) -> Rendered:
    """Render a web page to a video file; `render` without async. Not for use inside a running event loop."""
    return asyncio.run(render(path, out, workers=workers, **options))


async def render_rows(
    path: str | Path,
    out: str,
    rows: Sequence[Row],
    *,
    workers: int | None = None,
    on_progress: Callable[[int, Progress], Awaitable[None]] | None = None,
    on_done: Callable[[RowDone], None] | None = None,
    **options: Unpack[Options],
) -> list[RowDone]:
    """Render one video for each row, which the page finds as ``window.__kodaProps``; browsers stay warm between them.

    A row that fails ends none of the others.

    Args:
        path: As in `render`.
        out: A name with fields of the row in braces, such as ``"card-{name}.mp4"``; ``{index}`` counts from 1.
        rows: The data.
        workers: As in `render`.
        on_progress: Hears how far a row is, by its index.
        on_done: Hears of each row as soon as it is over.
        **options: See `Options`; ``props`` are the rows.

    Returns:
        What became of each row, in order.

    Raises:
        InvalidInput: A value is out of range, a row lacks a field that ``out`` names, or two rows would have one name.
        NotFound: There is no such file.
    """
    names = name_rows(out, rows)
    page, wanted = await asyncio.to_thread(_prepare, Path(path), names[0], options)

    async def one(index: int) -> RowDone:
        row, target = rows[index - 1], names[index - 1]
        told: Callable[[Progress], Awaitable[None]] | None = None
        if on_progress is not None:
            hear = on_progress

            async def tell(progress: Progress) -> None:
                await hear(index, progress)

            told = tell
        try:
            own = replace(wanted, props=json.dumps(row))
            async with gate:
                made = await renderer.render(
                    page,
                    target,
                    own,
                    verify=options.get("verify", False),
                    report=Path(options["report"], target.stem) if "report" in options else None,
                    on_progress=told,
                )
            done = RowDone(index=index, row=row, path=target, rendered=made)
        except KodaError as error:
            done = RowDone(index=index, row=row, path=target, error=error)
        if on_done is not None:
            on_done(done)
        return done

    async with Renderer(workers=workers) as renderer:
        # one more than there are browsers: a video is joined while the next one's frames are taken
        gate = asyncio.Semaphore(renderer.workers + 1)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(index)) for index in range(1, len(rows) + 1)]
    return [task.result() for task in tasks]


def _prepare(path: Path, out: Path, options: Options) -> tuple[Page, JobOptions]:
    """Put together what is wanted, and read what is on disk: a value that no page could make right is told first."""
    known = Options.__annotations__
    for name in options:
        if name not in known:
            raise InvalidInput(f"there is no option {name!r}: give some of {', '.join(known)}")
    wanted = JobOptions(
        duration_s=options.get("duration"),
        size=options.get("size"),
        fps=options.get("fps"),
        scale=options.get("scale"),
        preset=options.get("preset"),
        format=format_of(out, options.get("format")),
        alpha=options.get("alpha", False),
        crf=options.get("crf"),
        bitrate_kbps=options.get("bitrate_kbps"),
        effort=options.get("effort", "fast"),
        seed=options.get("seed", 1),
        props=json.dumps(options.get("props", {})),
        trim=options.get("trim", False),
        strict=not options.get("lenient", False),
        ready_timeout_s=options.get("ready_timeout_s") or Settings.model_validate({}).page_ready_timeout_s,
    )
    check_options(wanted, bundle=_ANY_BUNDLE)
    page = read_page(path, entry=options.get("entry"))
    tracks, files = read_sounds(options.get("audio", ()), page.bundle.files)
    return page.with_files(files), replace(wanted, audio=tracks)


def format_of(out: Path, given: VideoFormat | None) -> VideoFormat:
    """Return the format of a file by its ending.

    Raises:
        InvalidInput: The ending is none that is known, or another than the given format's.
    """
    by_name = SUFFIXES.get(out.suffix.lower())
    if given is None and by_name is None:
        raise InvalidInput(f"output {str(out)!r}: let it end with {', '.join(SUFFIXES)}, or say the format")
    if given is not None and by_name is not None and given != by_name:
        raise InvalidInput(f"output {str(out)!r} is named as {by_name}, and the format is {given}: leave one out")
    return given or by_name or "mp4"


def _check_out(out: Path) -> None:
    """Refuse what could not be written before anything is rendered for it."""
    if out.is_dir():
        raise InvalidInput(f"output {str(out)!r} is a folder: name a file in it")
    check_destination(out.parent, what=f"output {str(out)!r}")


def _rendered(
    result: RenderResult, spec: RenderSpec, out: Path, job_id: str, seconds: float, compared: int
) -> Rendered:
    report = result.report
    units = cast("list[dict[str, int]]", report["units"])
    return Rendered(
        path=out,
        format=spec.format,
        duration_s=result.duration_s,
        frame_count=result.frame_count,
        width=spec.picture[0],
        height=spec.picture[1],
        fps=spec.rate,
        size_bytes=result.size_bytes,
        frame_hash=result.frame_hash,
        seconds=seconds,
        job_id=job_id,
        units=len(units),
        units_reused=len(units) if report.get("madeBefore") else cast("int", report["unitsReused"]),
        units_adopted=0 if report.get("madeBefore") else cast("int", report.get("unitsAdopted", 0)),
        replayed=report["replayed"] is True,
        verified_frames=compared,
        still=report.get("still") is True,
        warnings=tuple(cast("list[str]", report["pageWarnings"])),
        report=report,
    )
