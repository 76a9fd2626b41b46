"""What every store says when it refuses: the same words, classes and codes, wherever the rows lie."""

from __future__ import annotations

from typing import Protocol

from koda_ray.errors import Conflict, Fenced, KodaError, LimitReached, NotFound
from koda_ray.state.records import RenderQuota, SessionQuota

__all__ = [
    "Repeated",
    "attached",
    "belongs",
    "check_renders",
    "check_sessions",
    "check_stored",
    "no_such",
    "of_another",
    "replaced",
    "too_many",
    "too_many_assets",
    "too_many_awake",
    "too_many_renders",
    "used_for_another",
    "was_deleted",
]

_SHOWN = 80


class _Part(Protocol):
    """A record of a session."""

    @property
    def id(self) -> str: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def user_id(self) -> str: ...


class Repeated(Exception):
    """A commit's command was applied before, and led to these events."""

    def __init__(self, first_seq: int, last_seq: int) -> None:
        super().__init__(first_seq, last_seq)
        self.first_seq = first_seq
        self.last_seq = last_seq


def no_such(kind: str, item_id: str) -> NotFound:
    """Name what is not there for this user; another user's reads the same."""
    return NotFound(f"no {kind} {item_id[:_SHOWN]!r}", context={"id": item_id[:_SHOWN]})


def replaced(kind: str, item_id: str, *, epoch: int, current: int | None) -> KodaError:
    """Say why the fence of a row let nothing pass: a newer epoch, or (None) no row any more."""
    if current is None:
        return no_such(kind, item_id)
    return Fenced(
        f"{kind} {item_id} is at epoch {current}, this activation at {epoch}: it was replaced and must stop",
        context={"id": item_id, "epoch": epoch, "current": current},
    )


def used_for_another(what: str, key: str) -> Conflict:
    """Refuse an idempotency key that stands for something else."""
    return Conflict(f"idempotency key {key!r} was used for another {what}; use a new key")


def was_deleted(key: str) -> Conflict:
    """Refuse an idempotency key that stands for a session which its user sees no more."""
    return Conflict(f"what idempotency key {key!r} made was deleted; restore it, or use a new key")


def too_many(what: str, *, most: int, setting: str, way_out: str) -> LimitReached:
    """Refuse what would be more than a user may have at once."""
    return LimitReached(
        f"this would be more than {most:,} {what}, and no more may be yours: {way_out}, or have {setting} raised",
        context={"limit": most},
    )


def too_many_awake(most: int) -> LimitReached:
    """Refuse to wake or make another session."""
    return too_many(
        "sessions that are awake",
        most=most,
        setting="KODA_USER_SESSIONS",
        way_out="wait until one sleeps (a while after its work is done), cancel or delete one",
    )


def check_sessions(quota: SessionQuota, after: SessionQuota) -> None:
    """Refuse a session that is more than a user may have.

    Args:
        quota: What the user may have.
        after: What there is with it; what of it nobody limits may be left out.

    Raises:
        LimitReached: What of it is too much.
    """
    if quota.sessions is not None and (after.sessions or 0) + quota.more > quota.sessions:
        raise too_many(
            "sessions",
            most=quota.sessions,
            setting="KODA_MAX_SESSIONS_PER_USER",
            way_out="delete one that you need no more (`koda delete`)",
        )
    if quota.awake is not None and (after.awake or 0) + quota.more > quota.awake:
        raise too_many_awake(quota.awake)
    if quota.stored_bytes is not None:
        check_stored(after.stored_bytes or 0, quota.stored_bytes)


def too_many_renders(most: int) -> LimitReached:
    """Refuse to queue more renders."""
    return too_many(
        "renders waiting or under way",
        most=most,
        setting="KODA_USER_RENDERS",
        way_out="wait until some are over, or cancel some",
    )


def check_renders(quota: RenderQuota, after: RenderQuota) -> None:
    """Refuse renders that take more than a user may have.

    Args:
        quota: What the user may have.
        after: What is taken with them.

    Raises:
        LimitReached: What of it is too much.
    """
    if quota.renders is not None and (after.renders or 0) > quota.renders:
        raise too_many_renders(quota.renders)
    if quota.video_s is not None and (after.video_s or 0.0) > quota.video_s:
        raise too_many(
            "seconds of video waiting or under way",
            most=int(quota.video_s),
            setting="KODA_USER_RENDER_S",
            way_out="wait until some are over, or cancel some",
        )
    if quota.stored_bytes is not None:
        check_stored(after.stored_bytes or 0, quota.stored_bytes)


def check_stored(size: int, most_bytes: int) -> None:
    """Refuse to begin more for who has stored as much as one may.

    Raises:
        LimitReached: They have.
    """
    if size >= most_bytes:
        raise too_many(
            "MB of videos, rendered parts, pages, uploaded files and what sessions keep",
            most=most_bytes >> 20,
            setting="KODA_USER_STORED_MB",
            way_out="delete renders, sessions or files",
        )


def too_many_assets(*, most: int, most_bytes: int, size: int) -> LimitReached:
    """Refuse to keep another uploaded file."""
    if size > most_bytes:
        return too_many(
            "MB of uploaded files",
            most=most_bytes >> 20,
            setting="KODA_USER_ASSET_MB",
            way_out="delete some (`koda asset remove`), or sessions that have some",
        )
    return too_many(
        "uploaded files",
        most=most,
        setting="KODA_USER_ASSETS",
        way_out="delete some (`koda asset remove`), or sessions that have some",
    )


def of_another(asset_id: str) -> Conflict:
    """Refuse to give a session what another one works with: its files would change under that."""
    return Conflict(f"asset {asset_id} belongs to another session; upload the file again")


def attached(asset_id: str, session_id: str) -> Conflict:
    """Refuse to remove a file that a session works with."""
    return Conflict(
        f"asset {asset_id} belongs to session {session_id} and goes with it; delete the session to be rid of both",
        context={"session": session_id},
    )


def belongs(item: _Part, session_id: str, user_id: str) -> None:
    """Refuse a record of another session or user in a commit: a mistake of the caller's."""
    if (item.session_id, item.user_id) != (session_id, user_id):
        raise ValueError(
            f"{type(item).__name__} {item.id} of session {item.session_id} and user {item.user_id} "
            f"in a commit to session {session_id} of user {user_id}"
        )
