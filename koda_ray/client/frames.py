"""Frames of videos over HTTP: of sessions and of pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import quote

import httpx

from koda_ray.client.transport import Transport

__all__ = ["VideoFrames"]


class VideoFrames(Transport):
    """The part of the client that looks into videos."""

    async def frame(self, session_id: str, job_id: str, frame: int, *, width_px: int = 640) -> bytes:
        """Get a frame of a session's finished video as a JPEG.

        Args:
            session_id: The session.
            job_id: The job that makes the video.
            frame: Which, from 0.
            width_px: 16 to 1920; the video's own where that is less.

        Raises:
            NotFound: There is no such job or frame, or none yet (VIDEO_NOT_READY).
            InvalidInput: It would take too much: VIDEO_TOO_LONG, or VIDEO_TOO_LARGE.
            LimitReached: As many pictures are being made for you as may be.
        """
        return await self._picture(f"{_job(session_id, job_id)}/frames/{frame}.jpg", w=width_px)

    async def sprite(self, session_id: str, job_id: str, *, count: int = 50, width_px: int = 160) -> bytes:
        """Get frames of a session's finished video in one JPEG, ten in a row, spread evenly. Raises as `frame` does.

        Args:
            session_id: The session.
            job_id: The job that made the video.
            count: How many, 1 to 100.
            width_px: Of each, 16 to 320; less where it would be higher than 640.
        """
        return await self._picture(f"{_job(session_id, job_id)}/sprite.jpg", count=count, w=width_px)

    async def page_render_frame(self, render_id: str, frame: int, *, width_px: int = 640) -> bytes:
        """Get a frame of a page's video as a JPEG. As `frame`."""
        return await self._picture(f"/v1/renders/{quote(render_id, safe='')}/frames/{frame}.jpg", w=width_px)

    async def page_render_sprite(self, render_id: str, *, count: int = 50, width_px: int = 160) -> bytes:
        """Get frames of a page's finished video in one JPEG. As `sprite`."""
        return await self._picture(f"/v1/renders/{quote(render_id, safe='')}/sprite.jpg", count=count, w=width_px)

    async def footage(self, job_id: str) -> AsyncGenerator[bytes]:
        """Yield a video while it is rendered: pieces of a fragmented mp4 without sound, to be played as they come.

        What comes ends early where the render does.

        Args:
            job_id: The job that makes it, a session's or a page's; of a finished one its video comes.

        Raises:
            NotFound: There is no such job.
            Conflict: NOT_WATCHABLE: it ended without a video, or makes something else than an mp4.
            LimitReached: As many streams of yours are open as may.
        """
        path = f"/v1/jobs/{quote(job_id, safe='')}/footage"
        try:
            async with self._streaming(path, params=None, headers={"Accept": "video/mp4"}, timeout_s=None) as response:
                async for piece in response.aiter_raw():
                    yield piece
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    async def _picture(self, path: str, **asked: int) -> bytes:
        return (await self._send("GET", path, params={name: str(value) for name, value in asked.items()})).content


def _job(session_id: str, job_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}/jobs/{quote(job_id, safe='')}"
