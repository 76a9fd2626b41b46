"""What a job leaves in a folder: videos, a still picture, the project's source and a report.

Everything is fetched first and put in its place at the end, and what an earlier save left there goes: a folder holds
one state of one session, never a mixture. A finished video that the new state has none of (a change was asked for) is
not lost: it moves to ``earlier/``. A folder with such files of somebody else's is left alone.

Where another final video than the last is chosen, the preview and the source beside it are those of its version.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import get_args

from pydantic import JsonValue

from koda_ray.client import KodaClient
from koda_ray.console.text import slug
from koda_ray.console.view import View
from koda_ray.destinations import check_destination, not_written
from koda_ray.errors import InvalidInput, InvalidPath, NotFound
from koda_ray.types import FinalFormat, NodeState, Output, now
from koda_ray.wire import RenderSummary, VersionView

__all__ = ["Saved", "check_folder", "has_something", "report", "save", "usual_folder"]

OUT = Path("out")
_REPORT = "report.json"
_SOURCE = "source"
_EARLIER = "earlier"
_VIDEOS = tuple(f"video.{extension}" for extension in get_args(FinalFormat))
_PREVIEW = "preview.mp4"
_NAMES = (_REPORT, *_VIDEOS, _PREVIEW, "thumbnail.jpg", _SOURCE)
"""Everything that a save may write; the report first, because it says whose the rest is."""


@dataclass
class Saved:
    """What was written: bytes by name in ``folder``, and how many source files.

    ``jobs`` made the videos, by their names; ``duration_s`` is how long the final one is.
    """

    folder: Path
    jobs: dict[str, str] = field(default_factory=dict[str, str])
    duration_s: float | None = None
    files: dict[str, int] = field(default_factory=dict[str, int])
    source_files: int = 0


@dataclass(frozen=True)
class _Wanted:
    """What belongs together: the jobs of both videos, and whose files the source is; the newest where None is named."""

    final: str | None
    extension: str
    duration_s: float | None
    preview: str | None
    is_chosen: bool = False
    has_source: bool = True
    checkpoint: str | None = None

    @classmethod
    def now(cls, state: NodeState) -> _Wanted:
        """Say what a session shows."""
        output = state.output
        made = output if output is not None and output.video_url is not None else None
        return cls(
            final=None if made is None else made.job_id,
            extension=state.final_format,
            duration_s=None if made is None else made.duration,
            preview=None if state.preview is None else state.preview.job_id,
        )

    @classmethod
    def of(cls, final: RenderSummary, version: VersionView | None) -> _Wanted:
        """Say what stands beside a final video of a version; nothing where no version is of its page any more."""
        checkpoint = None if version is None else version.checkpoint_id
        return cls(
            final=final.id,
            extension=final.format or "mp4",
            duration_s=final.duration,
            preview=None if version is None else version.job_id,
            is_chosen=True,
            has_source=checkpoint is not None,
            checkpoint=checkpoint,
        )


def has_something(state: NodeState) -> bool:
    """Whether there is a video to save."""
    return state.preview is not None or (state.output is not None and state.output.video_url is not None)


def check_folder(out: Path | None) -> None:
    """Refuse a folder that a save could not be put in, before there is anything to save.

    Args:
        out: The folder; else the usual one's.

    Raises:
        InvalidInput: It takes no files.
    """
    folder = out or OUT
    check_destination(folder, what=f"the folder {str(folder)!r}")


def usual_folder(session_id: str, prompt: str) -> Path:
    """Return where a session is saved when nobody says where: ``out/`` and the prompt's first words.

    The folder of an earlier save of the same session is used again; one with something else in it is not: then a number
    is added.
    """
    name = slug(prompt)
    for number in count(1):
        folder = OUT / (name if number == 1 else f"{name}-{number}")
        if not folder.is_file() and (_first_of_ours(folder) is None or _session_in(folder) == session_id):
            return folder
    raise AssertionError


async def save(
    client: KodaClient,
    view: View,
    folder: Path,
    *,
    final: RenderSummary | None = None,
    on_bytes: Callable[[int, int], None] | None = None,
) -> Saved:
    """Save what a session has made so far.

    Args:
        client: The server.
        view: The session, with the times that the report tells.
        folder: Where to; made where it is not there.
        final: Which of its final videos; else the last.
        on_bytes: Called with the bytes of the video so far and in all.

    Raises:
        InvalidInput: The folder has files of these names that no save of ours left there.
        NotFound: The session is gone, or no video of it is kept any more, or not the final one that was named.
        StorageError: The folder cannot be written to; what was made is kept, and the message says how to get it.
    """
    state = (await client.session(view.session_id)).state
    wanted = _Wanted.now(state) if final is None else _Wanted.of(final, await _version_of(client, view, final))
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        _refuse_other_peoples(folder, view.session_id)
        fetched = await asyncio.to_thread(_folder_for_fetching, folder)
        try:
            saved = await _fetch(client, view, wanted, fetched, on_bytes)
            await _write_report(client, view, state if final is None else _of_final(state, final), saved)
            saved.folder = folder
            await asyncio.to_thread(_put_in_place, fetched, folder)
            return saved
        finally:
            shutil.rmtree(fetched, ignore_errors=True)
    except OSError as error:
        raise not_written(folder, error, way_out=_elsewhere(view.session_id)) from error


async def _fetch(
    client: KodaClient, view: View, wanted: _Wanted, folder: Path, on_bytes: Callable[[int, int], None] | None
) -> Saved:
    session_id, saved = view.session_id, Saved(folder, duration_s=wanted.duration_s)
    for name, job, tell in ((f"video.{wanted.extension}", wanted.final, on_bytes), (_PREVIEW, wanted.preview, None)):
        if job is not None:
            # a final is its person's to delete, and a preview goes some time after there is a final
            try:
                saved.files[name] = await client.download(session_id, folder / name, job=job, on_bytes=tell)
            except NotFound as error:
                if wanted.is_chosen and job == wanted.final:
                    raise NotFound(
                        f"final video {job} of session {session_id} is not kept any more, so nothing was saved; see "
                        f"what is with: koda finals {session_id}",
                        code="VIDEO_DELETED",
                    ) from error
            else:
                saved.jobs[name] = job
    if not saved.jobs:
        raise NotFound(
            f"no video of session {session_id} is kept any more; render it again with: koda final {session_id}",
            code="VIDEO_DELETED",
        )
    with suppress(NotFound):
        saved.files["thumbnail.jpg"] = await client.download(
            session_id, folder / "thumbnail.jpg", what="thumbnail", job=next(iter(saved.jobs.values()))
        )
    if wanted.has_source:
        saved.source_files = await _source(client, session_id, folder / _SOURCE, wanted.checkpoint)
    return saved


def _of_final(state: NodeState, final: RenderSummary) -> NodeState:
    """Return a session as it was finished with a final video that was chosen."""
    names = ("video_url", "thumbnail_url", "duration", "file_size", "format", "transparent", "fps")
    told = {name: getattr(final, name) for name in names}
    size = None if final.width is None else f"{final.width}x{final.height}"
    return state.model_copy(update={"output": Output(job_id=final.id, resolution=size, **told)})


async def _version_of(client: KodaClient, view: View, final: RenderSummary) -> VersionView | None:
    """Find the newest version that is the page of a final video."""
    before: int | None = None
    while True:
        page = await client.versions(view.session_id, limit=200, before=before)
        for version in page.versions:
            if version.bundle == final.bundle:
                return version
        if (before := page.next) is None:
            return None


async def _write_report(client: KodaClient, view: View, state: NodeState, saved: Saved) -> None:
    told = {**await report(client, view, state), "videos": dict(saved.jobs)}
    text = f"{json.dumps(told, indent=2, ensure_ascii=False)}\n"
    await asyncio.to_thread((saved.folder / _REPORT).write_text, text, encoding="utf-8")
    saved.files[_REPORT] = len(text.encode())


async def _source(client: KodaClient, session_id: str, target: Path, checkpoint: str | None) -> int:
    listing = await client.files(session_id, checkpoint=checkpoint)
    for file in listing.files:
        if any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in file.path.split("/")):
            raise InvalidPath(f"the server names a file outside the project: {file.path[:200]!r}; nothing was saved")
    for file in listing.files:
        path = target.joinpath(*file.path.split("/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(await client.read_file(session_id, file.path, checkpoint=checkpoint))
    return len(listing.files)


def _session_in(folder: Path) -> str | None:
    """Return the session whose save lies in a folder; None where it is no save of ours."""
    try:
        found = json.loads((folder / _REPORT).read_text(encoding="utf-8"))
        return str(found["session"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _first_of_ours(folder: Path) -> str | None:
    """Return a name that a save would write and that is there already."""
    return next((name for name in _NAMES if (folder / name).exists()), None)


def _refuse_other_peoples(folder: Path, session_id: str) -> None:
    found = _first_of_ours(folder)
    if found is not None and _session_in(folder) is None:
        raise InvalidInput(
            f"{folder} has a {found} that koda did not put there, so nothing was saved; {_elsewhere(session_id)}"
        )


def _elsewhere(session_id: str) -> str:
    return f"everything is kept, save it elsewhere with: koda save {session_id} --out FOLDER"


def _folder_for_fetching(folder: Path) -> Path:
    made = Path(tempfile.mkdtemp(prefix=".fetching-", dir=folder))  # in it, because a rename does not cross disks
    made.chmod(0o755)
    return made


def _put_in_place(fetched: Path, folder: Path) -> None:
    for name in _NAMES:
        old, new = folder / name, fetched / name
        if old.is_dir():
            old.replace(fetched / f"old-{name}")  # goes with the folder that it is in
        if new.exists():
            new.replace(old)
        elif old.exists() and name.startswith("video."):
            (folder / _EARLIER).mkdir(exist_ok=True)
            old.replace(folder / _EARLIER / name)
        else:
            old.unlink(missing_ok=True)


async def report(client: KodaClient, view: View, state: NodeState) -> dict[str, JsonValue]:
    """Tell what was made, how, and how long each part took; times in seconds."""
    jobs = (await client.jobs(view.session_id)).jobs
    end = now()
    worked: dict[str, float] = {}
    for span in view.spans:
        name = span.owes or f"waiting in {span.phase}"
        if span.owes is not None or span.ended is not None:
            worked[name] = round(worked.get(name, 0.0) + span.seconds(end), 2)
    first, previewed = view.spans[0].began if view.spans else state.created_at, _reached(view, "preview")
    completed = _reached(view, "complete")
    timings: dict[str, JsonValue] = {
        "toPreviewS": _between(first, previewed),
        "toVideoS": _between(first, completed),
        "byWorkS": dict[str, JsonValue](worked),
        "renders": [
            {"kind": bar.kind, "seconds": _between(bar.began, bar.ended), "frames": bar.frames_total, "size": bar.size}
            for bar in view.bars.values()
        ],
    }
    shown = state.model_dump(mode="json", exclude={"theatre_state", "execution", "sandbox_id", "sandbox_status"})
    return {
        "session": view.session_id,
        "prompt": state.prompt,
        "phase": state.phase,
        "createdAt": state.created_at.isoformat(),
        "timings": timings,
        "plan": shown.get("plan"),
        "question": shown.get("question"),
        "answer": state.answer,
        "style": state.style,
        "feedback": list(state.feedback),
        "options": shown.get("options"),
        "output": shown.get("output"),
        "error": shown.get("error"),
        "usage": dict(view.usage),
        "jobs": [job.model_dump(mode="json", exclude={"spec", "progress", "project_id"}) for job in jobs],
    }


def _reached(view: View, phase: str) -> datetime | None:
    return next((span.began for span in view.spans if span.phase == phase and span.owes is None), None)


def _between(began: datetime | None, ended: datetime | None) -> float | None:
    return None if began is None or ended is None else round((ended - began).total_seconds(), 2)
