"""The versions of a session's film over HTTP: listed, labelled, played, and held against each other."""

from __future__ import annotations

from urllib.parse import quote

from koda_ray.client.transport import Transport, parse
from koda_ray.wire import (
    ComparedView,
    DifferenceCurve,
    LabelVersion,
    PreviewLink,
    VersionDiff,
    VersionPage,
    VersionView,
)

__all__ = ["ShownVersions"]


class ShownVersions(Transport):
    """The part of the client that is about what a session has shown."""

    async def versions(self, session_id: str, *, limit: int = 50, before: int | None = None) -> VersionPage:
        """Read a page of the previews that a session has shown, newest first; go on with ``before=page.next``.

        The id of each is a point, for `rewind` and `fork`.
        """
        params = {"limit": str(limit)} | ({} if before is None else {"before": str(before)})
        return await self._get(f"{_session(session_id)}/versions", VersionPage, params=params)

    async def label_version(
        self, session_id: str, version_id: str, *, note: str | None = None, starred: bool | None = None
    ) -> VersionView:
        """Give a version a note, or a star; what is left out stays, and an empty note is none."""
        body = LabelVersion.model_construct(note=note, starred=starred)
        sent = body.model_dump(mode="json", by_alias=True, exclude_none=True)
        path = _version(session_id, version_id)
        return parse(VersionView, await self._send("PATCH", path, json=sent))

    async def open_version(self, session_id: str, version_id: str) -> PreviewLink:
        """Return where a version's built page is seen for an hour. Nothing is started for it, and nobody woken.

        Raises:
            NotFound: There is no such version, or its page is not kept any more (PAGE_NOT_KEPT).
        """
        path = f"{_version(session_id, version_id)}/player"
        return await self._post(path, None, PreviewLink)

    async def compare(self, session_id: str, a: str, b: str) -> ComparedView:
        """Read what there is to see of two versions, or videos by their jobs; of another session, what it shows now.

        Raises:
            NotFound: There is no such version, job or session, or it shows nothing yet.
        """
        return await self._get(f"{_session(session_id)}/compare", ComparedView, params={"a": a, "b": b})

    async def differences(self, session_id: str, a: str, b: str) -> DifferenceCurve:
        """Read by how much two versions differ, frame by frame; which takes a while the first time.

        Raises:
            NotFound: As `compare` does.
            InvalidInput: A final is transparent, or longer than two minutes (NOT_COMPARED).
        """
        path = f"{_session(session_id)}/compare/differences"
        return await self._get(path, DifferenceCurve, params={"a": a, "b": b})

    async def version_diff(self, session_id: str, version_id: str, *, against: str | None = None) -> VersionDiff:
        """Read how a version's files differ from another's; from those of the one before when none is named."""
        path = f"{_version(session_id, version_id)}/diff"
        return await self._get(path, VersionDiff, params={} if against is None else {"against": against})


def _session(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


def _version(session_id: str, version_id: str) -> str:
    return f"{_session(session_id)}/versions/{quote(version_id, safe='')}"
