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

from koda_ray.events import Envelope, NewEvent
from koda_ray.state.boxes import BoxStore, SandboxRecord
from koda_ray.state.canvases import CanvasStore
from koda_ray.state.census import CensusStore
from koda_ray.state.charges import AccountRecord, ChargedPart, ChargeEntry, ChargeRecord
from koda_ray.state.content import ContentStore
from koda_ray.state.discarding import DiscardingStore
from koda_ray.state.holdings import HoldingStore
from koda_ray.state.inbox import InboxStore
from koda_ray.state.lookout import Lookout, Newest
from koda_ray.state.notify import Notifier
from koda_ray.state.past import HistoryStore
from koda_ray.state.records import (
    PAGE_RENDERS,
    ApiKeyRecord,
    ApprovalRecord,
    AssetRecord,
    Batch,
    BeadRecord,
    CheckpointRecord,
    ChunkRecord,
    CommandRecord,
    JobRecord,
    JobStatus,
    LogRest,
    MessageRecord,
    OwedWork,
    RenderQuota,
    RendersSought,
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

    # users and projects
    async def ensure_user(self, user_id: str) -> None:
        """Make the user's row if it is not there."""
        ...

    async def ensure_project(self, user_id: str, project_id: str, name: str) -> None:
        """Make the row of the user's project if it is not there; other users have their own under the same id."""
        ...

    async def create_api_key(self, user_id: str, *, name: str = "") -> str:
        """Make a key for a user and return it; only its hash is kept, so it is shown this once."""
        ...

    async def user_for_key(self, key: str) -> str | None:
        """Return whose key it is; None for one that is unknown or revoked."""
        ...

    async def user_for_key_id(self, key_id: str) -> str | None:
        """Return whose key it is that an id names (`ApiKeyRecord`); None for one that is unknown or revoked."""
        ...

    async def has_api_keys(self, *, revoked: bool = False) -> bool:
        """Whether any key is of use; with ``revoked``, whether there ever was one."""
        ...

    async def api_keys(self) -> list[ApiKeyRecord]:
        """Read what is known of all keys, oldest first; never the keys."""
        ...

    async def revoke_api_key(self, key: str) -> bool:
        """Make a key useless, by itself or by its id; return whether it was of use before."""
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

    async def append_job_events(self, job_id: str, epoch: int, events: Sequence[NewEvent]) -> list[Envelope]:
        """Append to a job's own stream under the job's fence."""
        ...

    async def prune_events(self, before: datetime) -> int:
        """Remove EPHEMERAL events older than a time; return how many. The numbers of the others stay."""
        ...

    # jobs
    async def create_job(self, job: JobRecord, *, quota: RenderQuota | None = None) -> JobRecord:
        """Insert a job, or return the row that is there; ``quota`` as in `create_jobs`."""
        ...

    async def create_jobs(self, jobs: Sequence[JobRecord], *, quota: RenderQuota | None = None) -> list[JobRecord]:
        """Insert jobs of one user and project, all or none, or return the rows that are there, in the order given.

        Raises:
            NotFound: One of the rows that are there is another user's; nothing was inserted.
            Conflict: One of them was made for something else: what the given ``spec`` says is not in its own.
            LimitReached: With them, the user would have more than ``quota``, or has stored as much already; nothing
                was inserted. It holds however many are made at once.
        """
        ...

    async def get_job(self, job_id: str, *, user_id: str | None = None) -> JobRecord:
        """Read a job; NotFound as with sessions."""
        ...

    async def list_jobs(
        self,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        ids: Collection[str] | None = None,
        limit: int | None = None,
        before: tuple[datetime, str] | None = None,
    ) -> list[JobRecord]:
        """Read jobs, newest first: all, or ``limit`` at most of those after one in the list, its time and its id.

        Args:
            session_id: Of which session.
            user_id: Whose.
            ids: Of which ids; some hundreds of them at most.
            limit: How many at most.
            before: After which.
        """
        ...

    async def job_ids(
        self,
        user_id: str,
        *,
        among: Collection[str] | None = None,
        showing: str | None = None,
        unswept: bool = False,
    ) -> list[str]:
        """Read the ids of a user's jobs, in no order, and nothing else of them.

        Whoever goes through many jobs reads them by these.

        Args:
            user_id: Whose.
            among: Only those of these ids; some hundreds of them at most.
            showing: Only those that show what this job made: itself, and its copies in sessions made of its own.
            unswept: Only those whose video was not removed since, with the rest of what they made left (`VIDEO_SWEPT`).
        """
        ...

    async def copies(self, user_id: str) -> dict[str, list[str]]:
        """Read which of a user's jobs show what another one made: their ids in order, by that one's.

        Whoever asks that of many jobs asks this once. A job that made what is shown is not among them, and may be gone.
        """
        ...

    async def list_renders(
        self,
        user_id: str,
        sought: RendersSought = PAGE_RENDERS,
        *,
        limit: int = 50,
        before: tuple[datetime, str] | None = None,
    ) -> list[JobRecord]:
        """Read a user's renders, newest first; none of sessions that are discarded, or being deleted.

        Args:
            user_id: Whose.
            sought: Which of them.
            limit: How many at most.
            before: When the last one of the page before was made, and its id.
        """
        ...

    async def count_renders(self, user_id: str, *, id_prefix: str = "") -> dict[JobStatus, int]:
        """Count a user's page renders by state; only states that occur."""
        ...

    async def admit_job(self, job_id: str, *, most: int, lease_until: datetime) -> JobRecord | None:
        """Let a page render begin, if fewer than ``most`` are under way; one is looked at at a time.

        It is held until ``lease_until``, under the epoch that it has, so that whoever works on it can claim it. One
        that somebody works on stays as it is, and so does one for which there is no room.

        Returns:
            The row, if there was room for it; None if there was none, or somebody works on it.

        Raises:
            NotFound: There is no such job.
            Conflict: It is over.
        """
        ...

    async def claim_job(self, job_id: str, *, lease_until: datetime) -> JobRecord:
        """Take a job: bump its epoch and set status running; raises Conflict when it is over."""
        ...

    async def cancel_job(self, job_id: str, *, user_id: str) -> JobRecord:
        """Cancel a job and fence whoever works on it: its next write raises Fenced. One that is over stays as it is.

        A session's is fenced by that session, and ended only while the session owes nothing: it works on none then.

        Raises:
            NotFound: It is missing or another user's.
        """
        ...

    async def update_job(
        self,
        job: JobRecord,
        *,
        chunks: Sequence[ChunkRecord] = (),
        events: Sequence[NewEvent] = (),
        charges: Sequence[ChargeEntry] = (),
    ) -> None:
        """Write a job's row under its own epoch, with chunks, events of its own stream and charges.

        Raises:
            Fenced: The row has been claimed since.
            BudgetExceeded: A reservation does not fit; nothing was written.
        """
        ...

    async def note_stored(self, job: JobRecord, stored_bytes: int) -> None:
        """Note how much a job's files take; nothing happens where its row is another than this by now."""
        ...

    async def note_swept(self, job_ids: Collection[str]) -> None:
        """Note that the video of jobs was removed (`VIDEO_SWEPT`); nothing else of their rows is written.

        So what came to count for one of them meanwhile still does. Ids of which there is no job are passed over.

        Args:
            job_ids: Which; some hundreds of them at most.
        """
        ...

    async def delete_job(self, job_id: str, *, user_id: str, unless: Collection[JobStatus] = ()) -> bool:
        """Remove a job with its chunks and events; fences whoever works on it. Nothing happens when it is not there.

        A fork of its session that is under way either has its copy of the job by then, or gets none. Where a copy shows
        what the job made, what that takes counts for the copy from then on; so it is when a session is deleted.

        Args:
            job_id: Which.
            user_id: Whose.
            unless: In which states it stays as it is.

        Returns:
            Whether it was removed.
        """
        ...

    async def chunks(self, job_id: str, *, first: int = 0) -> list[ChunkRecord]:
        """Read a job's chunk rows by unit, from the first that is wanted on."""
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

    # assets
    async def add_asset(
        self, asset: AssetRecord, *, most: int | None = None, most_bytes: int | None = None, once: str = ""
    ) -> AssetRecord:
        """Insert an asset's row; its user and project are made with it.

        A picture that a session has from a note counts by its size alone.

        Where ``once`` is given, the asset's id ends so: one of its user that ends alike, and that they see, is returned
        in its place, and nothing is inserted. It holds however many are uploaded at once.

        Raises:
            LimitReached: With it, its user would have more than ``most``, or more bytes than ``most_bytes``; nothing
                was inserted. It holds however many are uploaded at once.
        """
        ...

    async def asset_alike(self, user_id: str, *, once: str) -> AssetRecord | None:
        """Return the asset that `add_asset` would in place of one whose id ends so, if there is one."""
        ...

    async def own_assets(self, user_id: str, *, limit: int = 50, before: str | None = None) -> list[AssetRecord]:
        """Read a user's files, newest first; ``before`` is the last id of the page before.

        None is the picture of a note, or of a session that its user does not see.
        """
        ...

    async def loose_assets(self, before: datetime, *, limit: int = 100) -> list[AssetRecord]:
        """Read everybody's assets that no session has and that were uploaded before a time, oldest first."""
        ...

    async def remove_asset(self, asset_id: str, *, user_id: str) -> AssetRecord:
        """Remove the row of an asset that no session has, and return it: its file is nobody's from then on.

        Raises:
            NotFound: It is not there, or another user's.
            Conflict: A session has it.
        """
        ...

    async def asset_keys(self, user_id: str) -> set[str]:
        """Read the storage keys that a user's assets name."""
        ...

    async def assets(self, *, user_id: str, session_id: str) -> list[AssetRecord]:
        """Read the files that a session is made with, oldest first; pictures of notes to it are none of them."""
        ...

    async def get_asset(self, asset_id: str, *, user_id: str) -> AssetRecord:
        """Read an asset's row; NotFound as with sessions."""
        ...
