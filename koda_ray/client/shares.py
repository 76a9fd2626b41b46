"""Links to videos over HTTP: for who makes them, and for who has one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from koda_ray.client.transport import Transport
from koda_ray.wire import MakeComment, MakeShare, ShareCommentView, ShareCreated, ShareDetail, SharedVideo, ShareList

__all__ = ["SharedLinks"]


class SharedLinks(Transport):
    """The part of the client that shows videos to others."""

    async def share(
        self,
        session_id: str,
        *,
        job: str | None = None,
        label: str = "",
        comments: bool = False,
        lasts_s: int | None = None,
        key: str | None = None,
    ) -> ShareCreated:
        """Make a link with which anybody sees one video. The same ``key`` makes it once; its token is told with it.

        Args:
            session_id: Whose video.
            job: The job that made it (`VersionView.job_id`); else what the session shows.
            label: What you call the link.
            comments: Whether who has it may comment.
            lasts_s: After how many seconds it ends; never where it is None.
            key: Idempotency key.

        Raises:
            Conflict: The key was used for another link.
            NotFound: There is no such session, or no such video of it yet (VIDEO_NOT_READY).
            LimitReached: The session has as many links as one may have.
        """
        body = MakeShare.model_construct(job=job, label=label, comments=comments, lasts_s=lasts_s)
        return await self._post(_shares(session_id), body, ShareCreated, key=key)

    async def shares(self, session_id: str) -> ShareList:
        """List a session's links, newest first."""
        return await self._get(_shares(session_id), ShareList)

    async def share_comments(self, session_id: str, share_id: str) -> ShareDetail:
        """Read what was said with a link, oldest first. Raises NotFound."""
        return await self._get(f"{_shares(session_id)}/{quote(share_id, safe='')}", ShareDetail)

    async def revoke_share(self, session_id: str, share_id: str) -> None:
        """End a link at once, and remove it with its comments. Raises NotFound."""
        await self._send("DELETE", f"{_shares(session_id)}/{quote(share_id, safe='')}")

    async def shared(self, token: str) -> SharedVideo:
        """Read what a link shows. Raises NotFound where it was revoked, has ended or never was."""
        return await self._get(_shared(token), SharedVideo)

    async def download_shared(self, token: str, target: Path) -> int:
        """Save the video that a link shows; return its size in bytes. Raises NotFound as above."""
        return await self._fetch(f"{_shared(token)}/video", target)

    async def comment(
        self, token: str, text: str, *, name: str = "", at: float | None = None, key: str | None = None
    ) -> ShareCommentView:
        """Say something of what a link shows; ``at`` is where in the video, in seconds. The same ``key`` says it once.

        Raises:
            Conflict: The key was used for another comment.
            NotFound: As above.
            KodaError: COMMENTS_CLOSED, its owner takes none.
            LimitReached: There are as many comments as there may be, or too many came within a minute.
        """
        body = MakeComment.model_construct(text=text, name=name, at=at)
        return await self._post(f"{_shared(token)}/comments", body, ShareCommentView, key=key)


def _shares(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}/shares"


def _shared(token: str) -> str:
    return f"/v1/shares/{quote(token, safe='')}"
