"""A session's versions: each preview that was ever shown, numbered, with what was asked for it.

A commit that announces a preview makes one, in the same transaction, and keeps the state of that moment; so a session
can be put back to a version, or another be made of it, whatever has been said and put back since. What a person makes
of a version (a note, a star) is theirs alone: no event, no fence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from koda_ray.events import NewEvent
from koda_ray.pointing import as_written
from koda_ray.state.records import CheckpointRecord
from koda_ray.types import NodeState, Preview, new_id

__all__ = [
    "MAX_ASKED_CHARS",
    "VERSION",
    "VersionLabel",
    "VersionPosition",
    "VersionRecord",
    "VersionStore",
    "finished_in",
    "shown_in",
    "version_of",
]

VERSION = "ver_"
"""How a version's id begins."""
MAX_ASKED_CHARS = 1_000
_FINISHED = "complete"


@dataclass(frozen=True, kw_only=True)
class VersionRecord:
    """A preview that was shown.

    ``number`` counts a session's from 1, ``job_id`` made its video and ``final_job_id`` its newest final one, ``asked``
    is what was asked for since the one before, as its person wrote it, ``changes`` how many changes had been asked for
    by then, ``scenes`` what was planned (number, title and duration of each); ``rev`` and ``seq`` are its commit's,
    ``live`` is whether it counts now.
    """

    id: str
    session_id: str
    user_id: str
    number: int
    job_id: str
    final_job_id: str | None = None
    bundle: str
    checkpoint_id: str | None
    asked: str
    changes: int
    duration_s: float
    scenes: list[JsonValue] = field(default_factory=list[JsonValue])
    note: str = ""
    starred: bool = False
    created_at: datetime
    live: bool = True
    rev: int = field(default=0, compare=False)
    seq: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class VersionLabel:
    """What a person makes of a version; what is None stays."""

    note: str | None = None
    starred: bool | None = None


@dataclass(frozen=True, kw_only=True)
class VersionPosition:
    """Where in a session a version comes to stand: its number, its commit, and what had been asked for before."""

    number: int
    rev: int
    seq: int
    changes_before: int
    at: datetime


def shown_in(state: NodeState | None, events: Sequence[NewEvent]) -> Preview | None:
    """Return the preview that a commit of a state and these events shows; None where it shows none anew."""
    if state is None or not any(event.type == "preview_ready" for event in events):
        return None
    return state.preview


def finished_in(state: NodeState | None) -> tuple[str, str] | None:
    """Return the jobs of the preview and of the final video of a finished state; None of any other."""
    if state is None or state.phase != _FINISHED or state.preview is None or state.output is None:
        return None
    return state.preview.job_id, state.output.job_id


def version_of(state: NodeState, preview: Preview, position: VersionPosition) -> VersionRecord:
    """Say what version of a session a preview is."""
    return VersionRecord(
        id=new_id("ver"),
        session_id=state.session_id,
        user_id=state.user_id,
        number=position.number,
        job_id=preview.job_id,
        bundle=preview.bundle,
        checkpoint_id=preview.checkpoint_id,
        asked=_asked(state, position),
        changes=state.feedback_seen,
        duration_s=preview.duration,
        scenes=_scenes(state),
        created_at=position.at,
        rev=position.rev,
        seq=position.seq,
    )


def _asked(state: NodeState, position: VersionPosition) -> str:
    written = {each.change: as_written(each) for each in state.pointed}
    told = [written.get(number) or each for number, each in enumerate(state.feedback[: state.feedback_seen], 1)]
    if not told:
        return _cut(state.prompt)
    return _cut("\n".join(told[position.changes_before :] or told[-1:]))


def _scenes(state: NodeState) -> list[JsonValue]:
    planned = () if state.plan is None else state.plan.scenes
    return [{"number": each.number, "title": each.title, "duration": each.duration} for each in planned]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ASKED_CHARS else f"{text[: MAX_ASKED_CHARS - 1]}…"


class VersionStore(Protocol):
    """A session's versions, whether they count now or not. None of it wakes anybody."""

    async def versions(
        self, session_id: str, *, limit: int, before: int | None = None, job_id: str | None = None
    ) -> list[VersionRecord]:
        """Read versions, newest first.

        Args:
            session_id: Whose.
            limit: How many at most.
            before: Only those with a smaller number.
            job_id: Only the one whose video this job made.
        """
        ...

    async def version(self, session_id: str, version_id: str) -> VersionRecord:
        """Read one. NotFound where the session has no such version."""
        ...

    async def label_version(self, session_id: str, version_id: str, label: VersionLabel) -> VersionRecord:
        """Change what a person makes of a version, and return it. NotFound as above."""
        ...

    async def checkpoint(self, session_id: str, checkpoint_id: str) -> CheckpointRecord:
        """Read a checkpoint's pointer, whether it counts now or not. NotFound where the session has no such one."""
        ...
