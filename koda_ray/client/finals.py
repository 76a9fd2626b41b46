"""Final videos of sessions over HTTP: listed, and deleted one by one."""

from __future__ import annotations

from urllib.parse import quote

from koda_ray.client.transport import Transport
from koda_ray.errors import NotFound
from koda_ray.wire import RenderList

__all__ = ["FinalVideos"]


class FinalVideos(Transport):
    """The part of the client that keeps what a session was rendered to in order."""

    async def finals(self, session_id: str, *, limit: int = 50, before: str | None = None) -> RenderList:
        """Read a page of the final videos that a session has, newest first; go on with ``before=page.next``.

        The id of each is the job that made it, which `download`, `share` and `compare` take.

        Raises:
            InvalidInput: ``before`` is not the ``next`` of another page.
        """
        params = {"session": session_id, "kind": "final", "status": "succeeded", "limit": str(limit)}
        return await self._get(
            "/v1/renders", RenderList, params=params | ({} if before is None else {"before": before})
        )

    async def delete_final(self, session_id: str, job_id: str) -> None:
        """Delete one final video; the session stays as it is, and links to the video show nothing any more.

        Raises:
            NotFound: The session has no such final video.
            Conflict: It is still being rendered: cancel it first (`cancel_job`).
        """
        try:
            await self._send("DELETE", f"/v1/sessions/{quote(session_id, safe='')}/finals/{quote(job_id, safe='')}")
        except NotFound as error:
            if "attempt" not in error.context:  # else the try before did it, and only its answer was lost
                raise
