"""What a finished job leaves in a folder: videos, a still picture, the project's source and a report.

Everything appears whole or not at all, so a job that is saved again over an older one never mixes the two.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from koda_ray.client import KodaClient
from koda_ray.console.view import View
from koda_ray.errors import InvalidPath, NotFound
from koda_ray.types import NodeState, now

__all__ = ["Saved", "report", "save"]


@dataclass
class Saved:
    """What was written: bytes by name in ``folder``, and how many source files."""

    folder: Path
    files: dict[str, int] = field(default_factory=dict[str, int])
    source_files: int = 0
    missing: list[str] = field(default_factory=list[str])


async def save(
    client: KodaClient, view: View, folder: Path, *, on_bytes: Callable[[int, int], None] | None = None
) -> Saved:
    """Save what a session has made so far.

    Args:
        client: The server.
        view: The session, with the times that the report tells.
        folder: Where to; made where it is not there.
        on_bytes: Called with the bytes of the video so far and in all.

    Raises:
        NotFound: The session is gone.
        OSError: The folder cannot be written to.
    """
    state = (await client.session(view.session_id)).state
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    saved = Saved(folder)
    if state.output is not None and state.output.video_url is not None:
        extension = "webm" if state.render is not None and state.render.format == "webm" else "mp4"
        name = f"video.{extension}"
        saved.files[name] = await client.download(view.session_id, folder / name, kind="final", on_bytes=on_bytes)
    else:
        saved.missing.append("video")
    if state.preview is not None:
        saved.files["preview.mp4"] = await client.download(view.session_id, folder / "preview.mp4", kind="preview")
    try:
        saved.files["thumbnail.jpg"] = await client.download(
            view.session_id, folder / "thumbnail.jpg", what="thumbnail"
        )
    except NotFound:
        saved.missing.append("thumbnail")
    saved.source_files = await _source(client, view.session_id, folder / "source")
    text = json.dumps(await report(client, view, state), indent=2, ensure_ascii=False)
    await asyncio.to_thread((folder / "report.json").write_text, f"{text}\n", encoding="utf-8")
    saved.files["report.json"] = len(text.encode()) + 1
    return saved


async def _source(client: KodaClient, session_id: str, target: Path) -> int:
    listing = await client.files(session_id)
    if not listing.files:
        return 0
    files: dict[str, bytes] = {}
    for file in listing.files:
        if any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in file.path.split("/")):
            raise InvalidPath(f"the server names a file outside the project: {file.path[:200]!r}; no source was saved")
        files[file.path] = await client.read_file(session_id, file.path)
    await asyncio.to_thread(_replace_folder, target, files)
    return len(files)


def _replace_folder(target: Path, files: Mapping[str, bytes]) -> None:
    temp = Path(tempfile.mkdtemp(prefix=".source-", dir=target.parent))
    try:
        temp.chmod(0o755)
        for name, data in files.items():
            path = temp.joinpath(*name.split("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        shutil.rmtree(target, ignore_errors=True)
        temp.replace(target)
    finally:
        shutil.rmtree(temp, ignore_errors=True)


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
