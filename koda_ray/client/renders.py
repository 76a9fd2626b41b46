"""Page renders over HTTP: a page goes up as a zip, a video comes down."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import httpx
from pydantic import JsonValue

from koda_ray import errors
from koda_ray.client.transport import Transport, parse
from koda_ray.events import Channel, Envelope
from koda_ray.types import new_id
from koda_ray.wire import BatchCreated, BatchView, PageOptions, RenderKind, RenderList, RenderStatus, RenderView

__all__ = ["PageRenders"]

_OVER = ("succeeded", "failed", "cancelled")


class PageRenders(Transport):
    """The part of the client that renders pages."""

    async def render_page(
        self, page: Path | str, options: PageOptions | None = None, *, key: str | None = None
    ) -> RenderView:
        """Have a page rendered. The same ``key`` has it rendered once, however often this is called.

        Args:
            page: A folder or zip of a built page; or the hash of a bundle that was uploaded before.
            options: How.
            key: Idempotency key.

        Raises:
            InvalidInput: The page or an option is not valid.
            NotFound: There is no such bundle.
            LimitReached: You have as many renders waiting and under way as you may.
        """
        return parse(RenderView, await self._page("/v1/renders", page, options or PageOptions(), key))

    async def render_batch(
        self,
        page: Path | str,
        rows: Sequence[Mapping[str, JsonValue]],
        options: PageOptions | None = None,
        *,
        key: str | None = None,
    ) -> BatchCreated:
        """Have a page rendered once for each row, which it finds as ``window.__kodaProps``: all rows or none.

        Args:
            page: As in `render_page`.
            rows: The data, 1 to 1,000 rows.
            options: How all of them are rendered.
            key: Idempotency key.

        Raises:
            InvalidInput: The page, an option or a row is not valid.
            NotFound: There is no such bundle.
            LimitReached: You have as many renders waiting and under way as you may.
        """
        given = [dict(row) for row in rows]
        return parse(BatchCreated, await self._page("/v1/renders/batches", page, options or PageOptions(), key, given))

    async def batch(self, batch_id: str) -> BatchView:
        """Read how far a batch is. Raises NotFound."""
        return await self._get(_batch(batch_id), BatchView)

    async def cancel_batch(self, batch_id: str) -> BatchView:
        """Cancel what a batch has not rendered yet. Raises NotFound."""
        return parse(BatchView, await self._send("POST", f"{_batch(batch_id)}/cancel"))

    async def _page(
        self,
        url: str,
        page: Path | str,
        options: PageOptions,
        key: str | None,
        rows: list[dict[str, JsonValue]] | None = None,
    ) -> httpx.Response:
        headers = {"Idempotency-Key": key or new_id("cmd")}
        chosen = options.model_dump(mode="json", exclude_none=True)
        if isinstance(page, str):
            sent: dict[str, JsonValue] = {"bundle": page, "options": chosen}
            if rows is not None:
                sent["rows"] = list[JsonValue](rows)
            return await self._send("POST", url, json=sent, headers=headers)
        data = await asyncio.to_thread(_zipped, page)
        files = {"file": (f"{page.stem}.zip", data, "application/zip")}
        form = {"options": json.dumps(chosen)}
        if rows is not None:
            form["rows"] = json.dumps(rows)
        return await self._send("POST", url, files=files, data=form, headers=headers)

    async def page_render(self, render_id: str) -> RenderView:
        """Read a render's state. Raises NotFound."""
        return await self._get(_render(render_id), RenderView)

    async def page_renders(
        self,
        *,
        limit: int = 50,
        before: str | None = None,
        status: Sequence[RenderStatus] = (),
        batch: str | None = None,
        session: str | None = None,
        kinds: Sequence[RenderKind] = (),
        text: str | None = None,
    ) -> RenderList:
        """Read a page of your renders, newest first; only those in one of the states, or of the batch, that is named.

        Page renders alone, unless a ``session`` is named, whose renders are listed then, or ``kinds`` are. With
        ``text`` only those with all its words in what they are called; a page may be short then, and have a ``next``.

        Raises:
            InvalidInput: ``before`` is not the ``next`` of another page.
        """
        params: dict[str, str | list[str]] = {"limit": str(limit)}
        if before is not None:
            params["before"] = before
        if status:
            params["status"] = list(status)
        if batch is not None:
            params["batch"] = batch
        if session is not None:
            params["session"] = session
        if kinds:
            params["kind"] = list(kinds)
        if text:
            params["text"] = text
        return await self._get("/v1/renders", RenderList, params=params)

    async def cancel_page_render(self, render_id: str) -> RenderView:
        """Cancel a render; one that is over stays as it is. Raises NotFound."""
        return parse(RenderView, await self._send("POST", f"{_render(render_id)}/cancel"))

    async def delete_page_render(self, render_id: str) -> None:
        """End a render, and remove its video, report and row. Raises NotFound."""
        try:
            await self._send("DELETE", _render(render_id))
        except errors.NotFound as error:
            if "attempt" not in error.context:  # else the try before did it, and only its answer was lost
                raise

    async def follow_page_render(
        self,
        render_id: str,
        *,
        after: int = 0,
        channels: Channel | Collection[Channel] | None = None,
        give_up_s: float = 60.0,
    ) -> AsyncGenerator[Envelope]:
        """Yield a render's events with ``seq > after`` until it is over, coming back after every broken connection.

        ``channels`` are as for a session.

        Raises:
            InvalidInput: There is no such channel.
            NotFound: There is no such render.
            Unreachable: No server answered for ``give_up_s`` seconds.
        """

        async def over() -> bool:
            return (await self.page_render(render_id)).status in _OVER

        path = f"{_render(render_id)}/events"
        async with aclosing(self._events(path, after, give_up_s, channels=channels, over=over)) as events:
            async for envelope in events:
                yield envelope

    async def download_page_render(
        self,
        render_id: str,
        target: Path,
        *,
        what: Literal["video", "thumbnail", "report"] = "video",
        on_bytes: Callable[[int, int], None] | None = None,
    ) -> int:
        """Save a render's video, still picture or report; return its size in bytes. Raises NotFound."""
        return await self._fetch(f"{_render(render_id)}/{what}", target, on_bytes=on_bytes)


def _render(render_id: str) -> str:
    return f"/v1/renders/{quote(render_id, safe='')}"


def _batch(batch_id: str) -> str:
    return f"/v1/renders/batches/{quote(batch_id, safe='')}"


def _zipped(page: Path) -> bytes:
    """Return a zip's bytes, or a folder as a zip; the server decides what of it is the page."""
    try:
        if not page.is_dir():
            return page.read_bytes()
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(page.rglob("*")):
                inside = path.relative_to(page)
                hidden = any(part.startswith(".") or part == "node_modules" for part in inside.parts)
                if path.is_file() and not path.is_symlink() and not hidden:
                    archive.write(path, inside.as_posix())
        return buffer.getvalue()
    except OSError as error:
        raise errors.InvalidInput(f"cannot read {page}: {error.strerror or error}") from error
