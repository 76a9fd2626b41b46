"""The rows that the database keeps, and what one commit changes of them.

The ``trace`` of a row is the span that asked for its work, as ``traceparent`` (`koda_ray.tracing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from koda_ray.commands import Command as PhaseCommand
from koda_ray.events import NewEvent
from koda_ray.state.boxes import SandboxRecord
from koda_ray.state.charges import ChargeEntry
from koda_ray.types import AssetPurpose, NodeState, Owes

__all__ = [
    "OWED_STATUSES",
    "PAGE_RENDERS",
    "VIDEO_SWEPT",
    "ApiKeyRecord",
    "ApprovalKind",
    "ApprovalRecord",
    "AssetRecord",
    "Batch",
    "BeadRecord",
    "CheckpointRecord",
    "ChunkRecord",
    "CommandRecord",
    "JobKind",
    "JobRecord",
    "JobStatus",
    "LogRest",
    "MessageRecord",
    "OwedWork",
    "ProjectRecord",
    "RenderQuota",
    "RendersSought",
    "SessionLabel",
    "SessionQuota",
    "SessionRecord",
    "SideEffect",
    "ToolCallRecord",
    "ToolCallStatus",
    "WholeSession",
    "copies_of",
    "maker_of",
    "stored_units",
]

SideEffect = Literal["pure", "idempotent", "unsafe"]
ToolCallStatus = Literal["waiting", "approved", "started", "succeeded", "failed", "interrupted"]
JobKind = Literal["preview", "final", "render"]
JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
OWED_STATUSES: tuple[JobStatus, ...] = ("queued", "running")
"""A job in one of these still has to be worked on."""
ApprovalKind = Literal["question", "plan", "preview", "tool_call", "budget"]


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """A session's row.

    ``seq`` is the number of its newest event, ``rev`` of its newest commit, ``host`` names the process that holds the
    lease, ``activation`` is the number of the name under which that process is sought. ``title`` and ``pinned`` are
    what its user makes of it in lists (`SessionLabel`): no event tells of them, and going back leaves them.
    ``delete_at`` is when a discarded session is deleted (`koda_ray.state.discarding`); None for any other.
    """

    id: str
    node_id: str
    user_id: str
    project_id: str
    state: NodeState
    owes: Owes | None
    status: Literal["active", "suspended", "closed"]
    epoch: int
    seq: int
    host: str | None
    lease_until: datetime | None
    last_activity: datetime
    created_at: datetime
    updated_at: datetime
    title: str | None = None
    pinned: bool = False
    delete_at: datetime | None = None
    activation: int = 0
    trace: str | None = field(default=None, compare=False)
    rev: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class SessionLabel:
    """What changes of how a session stands in its user's lists; what is None stays, and an empty title is none."""

    title: str | None = None
    pinned: bool | None = None


@dataclass(frozen=True, kw_only=True)
class CommandRecord:
    """What a person asked of a session; ``key`` is the idempotency key, unique in the session."""

    id: str
    session_id: str
    user_id: str
    key: str
    name: str
    body: dict[str, JsonValue]
    result: dict[str, JsonValue]
    trace: str | None = field(default=None, compare=False)
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class WholeSession:
    """A session with what its row does not say.

    ``waiting`` is what it is asked and has not taken, oldest first; ``lost`` are the jobs of final videos in
    its state that were deleted.
    """

    row: SessionRecord
    waiting: tuple[CommandRecord, ...] = ()
    lost: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class MessageRecord:
    """One message of an agent's history; ``content`` is the list of blocks, ``position`` its order in the agent's.

    The store sets ``rev``, the number of the commit that brought it, and ``seq``, the newest event before that.
    """

    id: str
    session_id: str
    user_id: str
    agent: str
    position: int
    role: Literal["user", "assistant"]
    content: list[JsonValue]
    created_at: datetime
    rev: int = field(default=0, compare=False)
    seq: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class ToolCallRecord:
    """A tool call's place in the ledger: START is stored before the tool runs, the outcome with its message."""

    id: str
    session_id: str
    user_id: str
    message_id: str
    name: str
    input: dict[str, JsonValue]
    effect: SideEffect
    status: ToolCallStatus
    attempt: int
    result: JsonValue
    started_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ApprovalRecord:
    """Something that waits for a person, and what the person said."""

    id: str
    session_id: str
    user_id: str
    kind: ApprovalKind
    payload: dict[str, JsonValue]
    status: Literal["pending", "approved", "rejected", "superseded"]
    call_id: str | None = None
    answer: dict[str, JsonValue] | None = None
    created_at: datetime
    resolved_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class BeadRecord:
    """A unit of work; a todo is a bead of type task (pending, active, done = open, in_progress, closed)."""

    id: str
    session_id: str
    user_id: str
    type: Literal["task", "bug", "epic"]
    title: str
    status: Literal["open", "in_progress", "closed"]
    position: int
    depends_on: list[str] = field(default_factory=list[str])
    data: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    created_at: datetime
    closed_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """The pointer to a manifest that was stored before this row was; ``rev`` and ``seq`` as a message's.

    What it names is ``held`` (`koda_ray.state.holdings`), but for those from before that was counted.
    """

    id: str
    session_id: str
    user_id: str
    manifest_key: str
    trigger: str
    event_seq: int
    file_count: int
    total_bytes: int
    created_at: datetime
    held: bool = field(default=False, compare=False)
    rev: int = field(default=0, compare=False)
    seq: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """A render job's row; ``spec``, ``progress`` and ``result`` are the render floor's own JSON.

    ``video_s`` is how long its video is, in seconds, as far as is known; ``stored_bytes`` how much that takes: nothing
    in a copy, whose session was made of another one, while the job that made the video is there.
    """

    id: str
    user_id: str
    project_id: str
    session_id: str | None
    kind: JobKind
    spec: dict[str, JsonValue]
    status: JobStatus
    epoch: int = 0
    lease_until: datetime | None = None
    progress: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    result: dict[str, JsonValue] | None = None
    error: dict[str, JsonValue] | None = None
    video_s: float = 0.0
    stored_bytes: int = 0
    trace: str | None = field(default=None, compare=False)
    created_at: datetime
    updated_at: datetime


VIDEO_SWEPT = "videoSwept"
"""What is true in a job's result once its video was removed, and the rest of it stays."""


@dataclass(frozen=True, kw_only=True)
class RendersSought:
    """Which of a user's renders somebody looks for: page renders, where nothing is said.

    Attributes:
        kinds: Page renders (``render``), or those that sessions made; empty for all.
        session_id: Only this session's.
        statuses: Only those in one of these; empty for all.
        id_prefix: Only those whose id begins so.
        since: Only those that changed then or later.
        until: Only those that have not changed since.
    """

    kinds: tuple[JobKind, ...] = ("render",)
    session_id: str | None = None
    statuses: tuple[JobStatus, ...] = ()
    id_prefix: str = ""
    since: datetime | None = None
    until: datetime | None = None


PAGE_RENDERS = RendersSought()


@dataclass(frozen=True, kw_only=True)
class RenderQuota:
    """What a user may have of page renders, counted by the write that would make another; None for any number.

    Attributes:
        renders: How many wait or are under way.
        video_s: How long the videos are together that wait or are under way, also those of sessions, in seconds.
        stored_bytes: How much all that the user has stored takes already (`HoldingStore.stored_bytes`).
    """

    renders: int | None = None
    video_s: float | None = None
    stored_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class SessionQuota:
    """What a user may have of sessions, counted by the write that makes another; None for any number.

    Attributes:
        sessions: How many there are, asleep or awake; those whose deletion has begun do not count.
        awake: How many of them have a process, or will have one: they owe work, or are asked something.
        stored_bytes: How much all that the user has stored takes, before another begins.
        more: How many are to be made right after this one, for which there has to be room too.
    """

    sessions: int | None = None
    awake: int | None = None
    stored_bytes: int | None = None
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class ChunkRecord:
    """One stored unit of a job's frame grid; frames are ``[start, stop)``."""

    job_id: str
    user_id: str
    unit: int
    start: int
    stop: int
    key: str
    status: Literal["done", "failed"]
    attempts: int
    total_bytes: int
    wall_ms: int
    worker: str
    error: str | None = None
    created_at: datetime


def maker_of(result: Mapping[str, JsonValue] | None) -> str | None:
    """Return which job made the video that a job's result names; None where it names none."""
    key = (result or {}).get("videoKey")
    return (key.rpartition("/")[0].rpartition("/")[2] or None) if isinstance(key, str) else None


def copies_of(results: Iterable[tuple[str, Mapping[str, JsonValue] | None]]) -> dict[str, list[str]]:
    """Return which jobs show what another one made, by that one, out of ids of jobs and their results."""
    found = dict[str, list[str]]()
    for job_id, result in results:
        if (made := maker_of(result)) not in (None, job_id):
            found.setdefault(made, []).append(job_id)
    return found


def stored_units(chunks: Iterable[ChunkRecord]) -> dict[str, int]:
    """Return the sizes of the rendered parts that are stored, in bytes, by key."""
    return {chunk.key: chunk.total_bytes for chunk in chunks if chunk.status == "done"}


@dataclass(frozen=True, kw_only=True)
class AssetRecord:
    """A file that a person uploaded; ``purpose`` says what for."""

    id: str
    user_id: str
    project_id: str
    session_id: str | None
    name: str
    media_type: str
    size_bytes: int
    sha256: str
    key: str
    created_at: datetime
    purpose: AssetPurpose = "file"

    @property
    def project_path(self) -> str:
        """Where it lies in its project: its id keeps two files of one name apart."""
        suffix = self.name.rsplit(".", 1)[-1].lower() if "." in self.name else "bin"
        return f"public/assets/{self.id}.{suffix}"


@dataclass(frozen=True, kw_only=True)
class ProjectRecord:
    """What a user's work lies in; ``id`` is the name that they gave it, which another user may give theirs, too."""

    id: str
    user_id: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class ApiKeyRecord:
    """What is known of a key; ``id`` names it without being of use as one."""

    id: str
    user_id: str
    name: str
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class OwedWork:
    """A session or job whose row owes work and whose lease has run out; ``updated_at`` is when the row last changed."""

    kind: Literal["session", "job"]
    id: str
    user_id: str
    epoch: int
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class LogRest:
    """What there is of a stream after some number.

    ``newest`` is its newest number; ``kept`` events are there, ``lasting`` of them not EPHEMERAL; from ``whole_from``
    on none is missing.
    """

    newest: int
    kept: int
    lasting: int
    whole_from: int


@dataclass(kw_only=True)
class Batch:
    """Changes to one session that happen together or not at all.

    Records are upserted by id. ``command`` is inserted once per ``(session, key)``, and waits no longer; ``refused`` is
    the key of one that waited and is not taken. ``phase_commands`` are those that
    the session turns into ``state`` at the moment of the commit, so that nothing said meanwhile is lost; a store
    does not look at them. ``charges`` are entered in order, and their warnings follow the events.
    """

    phase_commands: list[PhaseCommand] = field(default_factory=list[PhaseCommand])
    state: NodeState | None = None
    status: Literal["active", "suspended", "closed"] | None = None
    touch: bool = False
    events: list[NewEvent] = field(default_factory=list[NewEvent])
    command: CommandRecord | None = None
    refused: str | None = None
    messages: list[MessageRecord] = field(default_factory=list[MessageRecord])
    tool_calls: list[ToolCallRecord] = field(default_factory=list[ToolCallRecord])
    approvals: list[ApprovalRecord] = field(default_factory=list[ApprovalRecord])
    beads: list[BeadRecord] = field(default_factory=list[BeadRecord])
    checkpoint: CheckpointRecord | None = None
    sandboxes: list[SandboxRecord] = field(default_factory=list[SandboxRecord])
    jobs: list[JobRecord] = field(default_factory=list[JobRecord])
    chunks: list[ChunkRecord] = field(default_factory=list[ChunkRecord])
    charges: list[ChargeEntry] = field(default_factory=list[ChargeEntry])
