"""What can be said to a session, and what its owner must then do; the words of `koda_ray.phases`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from koda_ray.types import (
    Budget,
    NodeState,
    Note,
    Output,
    Owes,
    PendingCall,
    Plan,
    Preview,
    Question,
    RenderOptions,
    Resource,
    SceneEdit,
    SessionPermissions,
    Todo,
    TodoStatus,
)

__all__ = [
    "Accept",
    "Allow",
    "Answer",
    "ApprovalChange",
    "Approve",
    "Ask",
    "AskAgreement",
    "Cancel",
    "CancelJob",
    "Closed",
    "Command",
    "Deliver",
    "EditPlan",
    "Effect",
    "Emit",
    "Fail",
    "Finished",
    "Heed",
    "Pause",
    "Previewed",
    "Propose",
    "PutBack",
    "Refuse",
    "Reject",
    "ReleaseSandbox",
    "Render",
    "RequestChanges",
    "Retry",
    "Rewind",
    "Say",
    "SetPermissions",
    "SetTodoStatus",
    "SetTodos",
    "Start",
    "StopWork",
    "TakeBack",
    "Think",
    "Wrote",
]

# --- what a person says -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """Begin with the prompt that the state already holds, or with a new one."""

    prompt: str | None = None


@dataclass(frozen=True)
class Answer:
    """Answer the question with one of its options, in own words, or with both."""

    option_id: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class Accept:
    """Accept the plan or the preview; ``job_id`` names the final render that accepting a preview begins."""

    job_id: str = ""


@dataclass(frozen=True)
class Reject:
    """Reject the plan (back to a question), or the preview or the finished video (needs feedback)."""

    feedback: str = ""


@dataclass(frozen=True)
class EditPlan:
    """Change the proposed plan's scenes: what is left of them, in the order in which they come, as each is to be."""

    scenes: tuple[SceneEdit, ...]


@dataclass(frozen=True)
class RequestChanges:
    """Ask for a different plan, or for changes to what was made; in words, or by pointing at it."""

    feedback: str
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Say:
    """Say something, or point at it; what it means depends on the phase.

    Attributes:
        text: The words.
        notes: What is pointed at.
        id: Of the command that says it.
        waits: Only where it waits to be heard by agents at work (or, false, only where it does not); either when None.
    """

    text: str
    notes: tuple[Note, ...] = ()
    id: str = ""
    waits: bool | None = None


@dataclass(frozen=True)
class TakeBack:
    """Have not said what a command said, while the agents have not begun to heed it."""

    id: str


@dataclass(frozen=True)
class Cancel:
    """Stop the work under way and go back to the last thing a person can act on.

    Attributes:
        owes: Only where this is what is under way; anything where it is None.
        job_id: Only where this is the final video that is being rendered; any where it is empty.
    """

    owes: Owes | None = None
    job_id: str = ""


@dataclass(frozen=True)
class Retry:
    """Take up again what failed."""


@dataclass(frozen=True)
class Render:
    """Render the accepted animation with these settings."""

    options: RenderOptions
    job_id: str


@dataclass(frozen=True)
class Approve:
    """Agree to the tool call that waits, as proposed or with other arguments."""

    approval_id: str
    arguments: dict[str, JsonValue] | None = None


@dataclass(frozen=True)
class Refuse:
    """Refuse the tool call that waits."""

    approval_id: str
    reason: str = ""


@dataclass(frozen=True)
class SetPermissions:
    """Say what the agents may do by themselves from now on."""

    permissions: SessionPermissions


@dataclass(frozen=True)
class Rewind:
    """Put the session back to a point of its past; whoever knows that past makes it a `PutBack`."""

    point: str


@dataclass(frozen=True)
class PutBack:
    """Be what ``past`` was, at rest."""

    past: NodeState


@dataclass(frozen=True)
class Allow:
    """Set how much may be used in all; work that waits for more goes on where this is more.

    A limit that ``budget`` says is None is taken away; one of which it says nothing stays.
    """

    budget: Budget


# --- what the agents and the renderer say ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """Put the one question to the person; with reason ``stuck``, ask in the middle of the work how to go on."""

    question: Question


@dataclass(frozen=True)
class AskAgreement:
    """Have the work wait until a person agrees to a tool call; ``call.owes`` is filled in."""

    call: PendingCall


@dataclass(frozen=True)
class Propose:
    """Put a plan to the person."""

    plan: Plan


@dataclass(frozen=True)
class SetTodos:
    """Replace the todo list; todos that are done and named again stay done."""

    todos: tuple[Todo, ...]


@dataclass(frozen=True)
class SetTodoStatus:
    """Change a todo's status."""

    todo_id: str
    status: TodoStatus


@dataclass(frozen=True)
class Think:
    """Say what is going on, in a few words."""

    message: str


@dataclass(frozen=True)
class Wrote:
    """Files were written into the project, ``total_bytes`` by path, and others that were written before removed."""

    files: tuple[tuple[str, int], ...]
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Heed:
    """The agents hear what a command said while they worked: it is in their history from this commit on."""

    id: str


@dataclass(frozen=True)
class Deliver:
    """The agents have been told the first ``count`` feedbacks."""

    count: int


@dataclass(frozen=True)
class Previewed:
    """A preview is stored and verified."""

    preview: Preview


@dataclass(frozen=True)
class Closed:
    """The agents have said their last words about a preview, or will not say any."""


@dataclass(frozen=True)
class Finished:
    """The final video is stored and verified."""

    output: Output


@dataclass(frozen=True)
class Fail:
    """The work could not be done."""

    message: str
    code: str
    can_retry: bool = True
    details: str | None = None


@dataclass(frozen=True)
class Pause:
    """What comes next does not fit a limit; ``raise_to`` is the one that an agreeing answer sets, None for none."""

    question: Question
    resource: Resource
    account: str
    limit: int
    raise_to: int | None = None


Command = (
    Start | Answer | Accept | Reject | RequestChanges | EditPlan | Say | Cancel | Retry | Render | PutBack
    | Approve | Refuse | SetPermissions | Allow | TakeBack
    | Ask | AskAgreement | Propose | SetTodos | SetTodoStatus | Think | Wrote | Heed | Deliver | Previewed | Closed
    | Finished | Fail | Pause
)  # fmt: skip


# --- what the owner of the state must do ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Emit:
    """Announce an event, in the transaction that stores the state."""

    type: Literal["state_change", "todo_update", "thinking", "message", "file_written", "preview_ready", "error"]
    data: tuple[tuple[str, JsonValue], ...]


@dataclass(frozen=True)
class ApprovalChange:
    """Open, answer or supersede the pending approval of a kind."""

    kind: Literal["question", "plan", "preview"]
    status: Literal["pending", "approved", "rejected", "superseded"]
    answer: tuple[tuple[str, JsonValue], ...] = ()


@dataclass(frozen=True)
class StopWork:
    """End the running work; it is no longer owed."""


@dataclass(frozen=True)
class CancelJob:
    """End a render job and every process under it."""

    job_id: str


@dataclass(frozen=True)
class ReleaseSandbox:
    """Checkpoint and destroy the sandbox, at once or after the linger time."""

    linger: bool


Effect = Emit | ApprovalChange | StopWork | CancelJob | ReleaseSandbox
