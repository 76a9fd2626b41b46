"""What the database keeps, and the one way to change it.

The database is the session; an actor is only its cache. Every change is one `Batch`, committed in one transaction
that begins with ``UPDATE sessions ... WHERE id = ? AND epoch = ?``: an activation that a newer one has replaced
matches no row, gets `Fenced`, and has changed nothing. Events are numbered in the same transaction, so a state and
the events that announce it are seen together or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from koda_ray.events import Envelope
from koda_ray.state.accounts import AccountStore
from koda_ray.state.boxes import BoxStore, SandboxRecord
from koda_ray.state.canvases import CanvasStore
from koda_ray.state.census import CensusStore
from koda_ray.state.charges import AccountRecord, ChargedPart, ChargeRecord
from koda_ray.state.content import ContentStore
from koda_ray.state.discarding import DiscardingStore
from koda_ray.state.holdings import HoldingStore
from koda_ray.state.inbox import InboxStore
from koda_ray.state.jobs import JobStore
from koda_ray.state.lookout import Lookout, Newest
from koda_ray.state.notify import Notifier
from koda_ray.state.past import HistoryStore
from koda_ray.state.records import (
    ApprovalRecord,
    Batch,
    BeadRecord,
    CheckpointRecord,
    CommandRecord,
    LogRest,
    MessageRecord,
    OwedWork,
    SessionLabel,
    SessionQuota,
    SessionRecord,
    ToolCallRecord,
    ToolCallStatus,
)
from koda_ray.state.shares import ShareStore
from koda_ray.state.tiers import OperatedStore, QueryStore
from koda_ray.state.versions import VersionStore
from koda_ray.types import NodeState

__all__ = ["Store"]


class Store(
    HistoryStore,
    VersionStore,
    ShareStore,
    CanvasStore,
    DiscardingStore,
    InboxStore,
    JobStore,
    AccountStore,
    QueryStore,
    OperatedStore,
    CensusStore,
    BoxStore,
    ContentStore,
    HoldingStore,
    Protocol,
):
    """The database, as the rest of koda_ray sees it. Every method is safe to call from any process that opened it."""

    @property
    def notifier(self) -> Notifier:
        """Who is woken at once by this process's commits."""
        ...

    @property
    def lookout(self) -> Lookout:
        """Who looks for commits of other processes, and wakes `stream.follow`."""
        ...

    async def open(self) -> None:
        """Connect and bring the schema up to date."""
        ...

    async def close(self) -> None:
        """Release every connection; may be called twice."""
        ...

    # sessions: reads never activate
    async def create_session(
        self,
        state: NodeState,
        *,
        key: str,
        body: dict[str, JsonValue],
        quota: SessionQuota | None = None,
        copies: Mapping[str, str] | None = None,
    ) -> tuple[SessionRecord, bool]:
        """Insert a session with its first ``state_change`` event, and give it the assets that its state names.

        All in one transaction: whoever finds the row and what it owes finds its files too.

        Args:
            state: What it begins with.
            key: The idempotency key.
            body: What was asked for.
            quota: What its user may have.
            copies: The ids of all its assets, where each is to be a new row of the file of another one, by that one's
                id: of an asset that no session has, or one of the same group of takes.

        Returns:
            The row, and whether this call made it. The same ``key`` of the same user with the same body returns the
            first row; with another body it raises Conflict.

        Raises:
            NotFound: One of the assets is not there or another user's; nothing was made.
            Conflict: The key, or one of the assets, belongs to another session (where it is copied, to one that is no
                take of the same group), or what the key made was deleted; nothing was made.
            LimitReached: With it, the user would have more than ``quota``, or has stored as much already; nothing was
                made. It holds however many are made at once.
        """
        ...

    async def quota_used(self, user_id: str) -> SessionQuota:
        """Count what a user has of all that `SessionQuota` limits."""
        ...

    async def admit_session(self, session_id: str, *, user_id: str, most: int, until: datetime) -> None:
        """Count a session among those that are awake until then, for whoever is about to wake it; one that is, is.

        Raises:
            NotFound: There is no such session of this user.
            LimitReached: ``most`` of the user's sessions are awake (see `SessionQuota`). It holds however many are
                woken at once.
        """
        ...

    async def get_session(self, session_id: str, *, user_id: str | None = None) -> SessionRecord:
        """Read a row; NotFound when it is missing, closed by delete, or another user's.

        A discarded one is not there for its user either; without one, whoever works for it reads it.
        """
        ...

    async def list_sessions(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: str | None = None,
        pinned: bool | None = None,
        group: str | None = None,
        discarded: bool = False,
    ) -> list[SessionRecord]:
        """Read a user's sessions, newest first; ``before`` is the last id of the page before.

        With ``pinned``, only those that are, or only those that are not; with ``group``, only those that were made
        with it: they are found by it, however many came after them. With ``discarded``, those too.
        """
        ...

    async def session_names(self, user_id: str, session_ids: Collection[str]) -> dict[str, str]:
        """Say what those of some sessions are called that a user has, by id: by their title, or by their prompt.

        Lists that are asked for again and again need no more of them, and their states are large.
        """
        ...

    async def label_session(self, session_id: str, *, user_id: str, label: SessionLabel) -> SessionRecord:
        """Change how a session stands in its user's lists, and nothing else of it; return the row. NotFound as above.

        There is no fence: whoever holds the session has nothing to do with it.
        """
        ...

    async def activate(
        self, session_id: str, *, host: str, lease_until: datetime, activation: int | None = None
    ) -> SessionRecord:
        """Take the session: bump its epoch, set its lease, and return the new row with status active.

        Raises:
            NotFound: There is no such session.
            Fenced: It is sought under another ``activation`` by now (see `InboxStore.supersede`).
        """
        ...

    async def commit(self, session_id: str, epoch: int, batch: Batch) -> list[Envelope]:
        """Apply a batch under the fence.

        A command that was applied before (same key, name and body) changes nothing again.

        Returns:
            The batch's events as numbered; for a repeated command, those that it led to the first time.

        Raises:
            Fenced: ``epoch`` is no longer the session's, or a job of the batch has been claimed since it was read
                (a queued job that is claimed is left alone; use `cancel_job` to cancel one that may be running).
            NotFound: The session is gone.
            Conflict: the command's key was used for another body.
            BudgetExceeded: One of the charges is a reservation that does not fit; nothing was written.
        """
        ...

    async def release(self, session_id: str, epoch: int) -> None:
        """Give the lease up (status suspended); a no-op when fenced."""
        ...

    async def close_session(self, session_id: str, *, user_id: str) -> SessionRecord:
        """Begin to delete a session: nobody sees or activates it any more, and whoever held it is fenced.

        Its rows stay until `delete_session`, so that whoever goes on after a crash knows what else has to go. May be
        called again until then.

        Raises:
            NotFound: There is no such session of this user.
        """
        ...

    async def closed_sessions(self, *, limit: int = 100) -> list[SessionRecord]:
        """Read sessions whose deletion has begun and not ended, oldest first."""
        ...

    async def delete_session(self, session_id: str, *, user_id: str) -> None:
        """Remove a session and all its rows; fences its activation by removing the row. Idempotent for its owner."""
        ...

    async def owed(
        self, now: datetime, *, limit: int = 100, after: tuple[datetime, str] | None = None
    ) -> list[OwedWork]:
        """List sessions (``owes`` not null, or a command waits) and jobs (queued or running) that nobody holds.

        A session's jobs are its own to finish: only page renders are listed. Users take turns: first
        come those who have the fewest under way, each with the job that waits longest; then their second ones.

        Args:
            now: Leases that end before it have run out.
            limit: How many of each kind.
            after: After which session the list begins, by ``updated_at`` and id; it goes on with the first ones.
        """
        ...

    async def close_unused(self, before: datetime, *, limit: int = 100) -> list[SessionRecord]:
        """Begin to delete sessions that were last used before a time, as `close_session`, oldest first.

        Only those that owe nothing, that nobody holds, that are asked nothing and are not pinned. Whoever comes to
        use one meanwhile was first, or finds it no more.
        """
        ...

    async def find_command(self, session_id: str, key: str) -> CommandRecord | None:
        """Read the command that a key was used for."""
        ...

    # a session's parts
    async def messages(self, session_id: str, *, agent: str | None = None) -> list[MessageRecord]:
        """Read messages in order."""
        ...

    async def tool_calls(self, session_id: str, *, status: Sequence[ToolCallStatus] = ()) -> list[ToolCallRecord]:
        """Read the ledger in order of start, all statuses when none is named."""
        ...

    async def approvals(self, session_id: str, *, pending: bool = False) -> list[ApprovalRecord]:
        """Read approvals in order."""
        ...

    async def approvals_page(
        self, session_id: str, *, pending: bool = False, limit: int, before: tuple[datetime, str] | None = None
    ) -> tuple[list[ApprovalRecord], bool]:
        """Read a page of approvals, newest first, which may be short: each has what it was about.

        Args:
            session_id: Whose.
            pending: Only those that wait.
            limit: How many at most.
            before: Only those after this one in the list: its time and its id.

        Returns:
            The page, and whether there is another.
        """
        ...

    async def beads(self, session_id: str) -> list[BeadRecord]:
        """Read beads by position."""
        ...

    async def latest_checkpoint(self, session_id: str) -> CheckpointRecord | None:
        """Read the newest checkpoint's pointer."""
        ...

    async def sandboxes(self, *, session_id: str | None = None, live: bool = True) -> list[SandboxRecord]:
        """Read sandbox rows, of one session or of all, those without a session among them."""
        ...

    async def sandbox_destroyed(self, sandbox_id: str, *, why: str = "") -> None:
        """Record that a sandbox is gone, and its processes with it.

        There is no fence, because that is true whoever found it out.

        Args:
            sandbox_id: Which.
            why: Why it ended, in words; empty where somebody terminated it. What was said first stays.
        """
        ...

    # events
    async def events(
        self, stream_id: str, *, after: int = 0, limit: int = 500, lasting: bool = False
    ) -> list[Envelope]:
        """Read events with ``seq > after`` in order, or only those not EPHEMERAL; returns at once, also with none."""
        ...

    async def newest(self, stream_ids: Collection[str]) -> dict[str, Newest]:
        """Read the newest numbers of streams, of sessions and jobs alike; those that are not there are left out."""
        ...

    async def log_rest(self, stream_id: str, after: int) -> LogRest:
        """Say what there is of a stream after a number; all zero but ``whole_from`` where there is no such stream."""
        ...

    async def prune_events(self, before: datetime) -> int:
        """Remove EPHEMERAL events older than a time; return how many. The numbers of the others stay."""
        ...

    # what work costs
    async def charges(self, work_id: str) -> list[ChargeRecord]:
        """Read what one session's or job's work costs, oldest first."""
        ...

    async def charged(self, work_id: str, *, limit: int = 500) -> list[ChargedPart]:
        """Sum up what one session's or job's work has cost, where it has, by kind, agent and model, in this order.

        What it takes does not grow with the number of charges, but for the database.
        """
        ...

    async def accounts(self, user_id: str, ids: Sequence[str] = ()) -> list[AccountRecord]:
        """Read a user's accounts, or those named; one that nothing was charged to is not there."""
        ...

    async def close_charges(self, before: datetime) -> int:
        """End open charges that nobody has touched since a time: those of processes that are gone; return how many.

        What they have used is settled; what has used nothing is refunded.
        """
        ...
