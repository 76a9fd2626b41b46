"""What people have asked of a session and its process has not taken yet: rows, so that no process is needed to ask.

A command is recorded here first, in a transaction that holds the session's row, and answered. Then its process is
sought, and takes what waits in the order in which it was recorded: the transaction that applies a command also takes
it out of here, so none is lost and none is applied twice, wherever anybody is killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

from pydantic import JsonValue

from koda_ray.errors import Fenced, LimitReached
from koda_ray.state.records import CommandRecord, SessionRecord, WholeSession
from koda_ray.types import NodeState, now

__all__ = [
    "MAX_WAITING",
    "MAX_WAITING_BYTES",
    "InboxStore",
    "Judge",
    "check_waiting",
    "final_jobs",
    "final_video_s",
    "is_awake",
    "new_video_s",
    "owed_after",
    "superseded",
]

MAX_WAITING = 100
"""How many commands of one session wait at most: a person who gets no answer is not to fill the database."""
MAX_WAITING_BYTES = 8 * 1024 * 1024
"""How much of them waits at most, as JSON: whoever records another one reads them all, holding the session's row."""

_UNKNOWN_S = 60.0
"""What a video counts as whose length nobody knows yet, as one of a page does."""

Judge: TypeAlias = Callable[[SessionRecord, Sequence[CommandRecord]], dict[str, JsonValue]]
"""From a session's row and what waits before a command, oldest first, to the command's result; raises its refusal."""


class InboxStore(Protocol):
    """Commands that wait for their session, who holds it, and under which name its process is sought."""

    async def receive(
        self,
        command: CommandRecord,
        judge: Judge,
        *,
        pictures: Collection[str] = (),
        most_awake: int | None = None,
        most_video_s: float | None = None,
    ) -> tuple[CommandRecord, bool]:
        """Record a command, whether its session has a process or not.

        What waits has its session woken, so who sleeps is counted among those that are awake in this transaction. So is
        the video that a command has rendered, among those that wait or are under way.

        Args:
            command: What is asked; its result is what ``judge`` gives.
            judge: Pure. It sees the row as it is in the transaction that records the command.
            pictures: Uploads that its notes name: pictures of notes that no session has are this one's from then on.
            most_awake: How many of the user's sessions may be awake (see `SessionQuota`), this one with them.
            most_video_s: How many seconds of video of the user may wait or be under way (see `RenderQuota`), where this
                command has a final one rendered that what waits before it had not.

        Returns:
            The command that there is under this key, from now or before, and whether it still waits.

        Raises:
            NotFound: There is no such session of this user.
            Conflict: The key was used for another command.
            LimitReached: `MAX_WAITING` commands wait already, or, with this one, more than `MAX_WAITING_BYTES`; or the
                session sleeps, and as many of the user's as may be are awake; or it has a video rendered, and so much
                waits already. That holds however many are asked at once, but for what ``judge`` cannot tell: what a
                session owes once it went back. A video that is asked for behind such a command is not refused, and
                counts from when the session owes it.
            KodaError: What ``judge`` raised. Nothing was recorded, as with the others.
        """
        ...

    async def inbox(self, session_id: str) -> list[CommandRecord]:
        """Read the commands that wait, in the order in which they were recorded."""
        ...

    async def whole_session(self, session_id: str, *, user_id: str) -> WholeSession:
        """Read a user's session with all that is shown of it, at one go; NotFound as `Store.get_session`.

        Its row is read first: what its process takes meanwhile is told by an event of later, and not there twice.
        """
        ...

    async def renew(self, session_id: str, epoch: int, *, lease_until: datetime) -> bool:
        """Hold a session until then, under the fence; no commit of the session's, and no event tells of it.

        Returns:
            Whether a command waits for it.

        Raises:
            Fenced: ``epoch`` is no longer the session's.
            NotFound: The session is gone.
        """
        ...

    async def supersede(self, session_id: str, activation: int, *, at: datetime) -> bool:
        """Have a session's process sought under the next name, since the one under this does not answer.

        Whoever has the session is fenced. Nothing happens where its lease holds at ``at``, or nobody has it, or another
        was first: of all that try this with one number, one succeeds, and all find the same next name.

        Returns:
            Whether this call did it.
        """
        ...


def final_jobs(state: NodeState) -> set[str]:
    """Return the jobs that made the final videos that a state names."""
    finals = (state.output, state.finished)
    return {made.job_id for made in finals if made is not None and made.video_url is not None}


def owed_after(owes: str | None, result: Mapping[str, JsonValue]) -> JsonValue:
    """Say what a session owes once a command is taken, as its result tells; one that tells nothing leaves it."""
    return result.get("owes", owes)


def final_video_s(preview_s: float | None) -> float:
    """Return how long the final video is of a preview of some length, or of one that nobody knows."""
    return _UNKNOWN_S if preview_s is None else preview_s


def new_video_s(row: SessionRecord, waiting: Sequence[CommandRecord], result: Mapping[str, JsonValue]) -> float:
    """Return how long the final video is that a command has a session owe, which what waits before it does not; or 0.

    Args:
        row: The session, as it is before anything of what waits is taken.
        waiting: What waits before the command, oldest first.
        result: What the command leads to.
    """
    before = owed_after(row.owes, waiting[-1].result) if waiting else row.owes
    if before == "render_final" or result.get("owes") != "render_final":
        return 0.0
    return final_video_s(None if row.state.preview is None else row.state.preview.duration)


def is_awake(owes: str | None, lease_until: datetime | None) -> bool:
    """Whether a session has a process, a place for one, or owes work; what it is asked does not stand in its row."""
    return owes is not None or (lease_until is not None and lease_until > now())


def superseded(session_id: str, *, activation: int, current: int) -> Fenced:
    """Refuse the session to a process that is sought under its name no longer."""
    return Fenced(
        f"session {session_id} is sought under its activation {current}, and this process is {activation}: it was "
        "given up and must stop",
        context={"id": session_id, "activation": activation, "current": current},
    )


def check_waiting(command: CommandRecord, waiting: Sequence[CommandRecord]) -> None:
    """See that a command may wait behind others of its session.

    Raises:
        LimitReached: So many wait, or so much of them.
    """
    later = "they are taken in their order once it is there; come back then"
    if len(waiting) >= MAX_WAITING:
        raise LimitReached(
            f"{MAX_WAITING} commands wait already for session {command.session_id}, whose process is out of reach: "
            f"{later}",
            context={"limit": MAX_WAITING},
        )
    if sum(len(json.dumps(each.body)) for each in (command, *waiting)) > MAX_WAITING_BYTES:
        raise LimitReached(
            f"what waits for session {command.session_id}, whose process is out of reach, would be more than "
            f"{MAX_WAITING_BYTES:,} bytes with this: {later}",
            context={"limitBytes": MAX_WAITING_BYTES},
        )
