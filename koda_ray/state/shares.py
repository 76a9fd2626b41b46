"""Links with which others see one video of a session, and what they say of it.

A link's token is its whole secret: of it only a hash is kept, as of a key, and it is told to none but who makes the
link. A share counts while its session is seen and its end has not come; its rows go with its session.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from koda_ray.errors import LimitReached

__all__ = [
    "ShareComment",
    "ShareRecord",
    "ShareStore",
    "too_many_comments",
    "too_many_shares",
]


@dataclass(frozen=True, kw_only=True)
class ShareRecord:
    """A link to one video.

    ``token_hash`` is the token's `koda_ray.state.rows.key_hash`, ``job_id`` made the video, ``label`` is what its owner
    calls it, ``commenting`` says whether who has it may comment, ``expires_at`` when it ends, None for never, and
    ``commented`` how many comments there are.
    """

    id: str
    session_id: str
    user_id: str
    token_hash: str
    job_id: str
    label: str
    commenting: bool
    expires_at: datetime | None
    created_at: datetime
    commented: int = 0


@dataclass(frozen=True, kw_only=True)
class ShareComment:
    """What somebody with a link said, who calls themselves ``name``; ``at_s`` is where in the video, in seconds."""

    id: str
    session_id: str
    share_id: str
    user_id: str
    name: str
    text: str
    at_s: float | None
    created_at: datetime


def too_many_shares(most: int) -> LimitReached:
    """Refuse another link of a session."""
    return LimitReached(
        f"this session has {most} links, as many as one may have: revoke one that nobody needs any more",
        context={"limit": most},
    )


def too_many_comments(most: int) -> LimitReached:
    """Refuse another comment on a video."""
    return LimitReached(f"there are {most} comments here, as many as there may be", context={"limit": most})


class ShareStore(Protocol):
    """The links of sessions. None of it wakes anybody, and none is an event."""

    async def create_share(self, share: ShareRecord, *, most: int) -> ShareRecord:
        """Insert a link; return what there is under its id, which may have been there before.

        Raises:
            NotFound: Its user has no such session.
            LimitReached: The session has ``most`` already. It holds however many are made at once.
        """
        ...

    async def shares(self, session_id: str) -> list[ShareRecord]:
        """Read a session's links, newest first, those that have ended among them."""
        ...

    async def share(self, session_id: str, share_id: str) -> ShareRecord:
        """Read one. NotFound where the session has no such link."""
        ...

    async def share_for(self, token: str, *, at: datetime) -> ShareRecord | None:
        """Return the link that a token is of; None where there is none, it has ended by then, or its session has."""
        ...

    async def shared_jobs(self, user_id: str, *, at: datetime) -> set[str]:
        """Return the jobs whose videos a user's links that have not ended by then show."""
        ...

    async def remove_share(self, session_id: str, share_id: str) -> None:
        """Remove a link with its comments. NotFound where the session has no such link."""
        ...

    async def add_comment(self, comment: ShareComment, *, most: int) -> ShareComment:
        """Insert a comment; return what there is under its id, which may have been there before.

        Raises:
            NotFound: The link is not there any more.
            LimitReached: It has ``most`` already. It holds however many come at once.
        """
        ...

    async def share_comment(self, session_id: str, comment_id: str) -> ShareComment | None:
        """Read a comment on one of a session's videos; None where there is none."""
        ...

    async def share_comments(self, session_id: str, share_id: str) -> list[ShareComment]:
        """Read what was said with a link, oldest first; nothing where there is none."""
        ...
