"""Canvases over HTTP: what the page of connected nodes keeps, for whoever makes or reads it otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from koda_ray.client.transport import Transport, parse
from koda_ray.wire import CanvasEdge, CanvasList, CanvasNode, CanvasSight, CanvasSummary, CanvasView, PutCanvas

__all__ = ["OwnCanvases"]


class OwnCanvases(Transport):
    """The part of the client that keeps canvases."""

    async def canvases(self) -> CanvasList:
        """List your canvases, changed last first."""
        return await self._get("/v1/canvases", CanvasList)

    async def canvas(self, canvas_id: str) -> CanvasView:
        """Read one with all that is on it. Raises NotFound."""
        return await self._get(_canvas(canvas_id), CanvasView)

    async def put_canvas(
        self,
        canvas_id: str,
        *,
        name: str,
        nodes: Sequence[CanvasNode] = (),
        edges: Sequence[CanvasEdge] = (),
        view: CanvasSight | None = None,
        version: int | None = None,
    ) -> CanvasSummary:
        """Make a canvas, or change it as a whole. The same sent again is answered as before.

        Args:
            canvas_id: Its id, which you choose: letters, digits, ``_`` and ``-``.
            name: What it is called.
            nodes: Its nodes.
            edges: How they are connected.
            view: What is seen of it first.
            version: The version that you changed; None for a new one.

        Raises:
            Conflict: It was changed meanwhile, or there is one where none was meant.
            NotFound: It was deleted meanwhile.
            InvalidInput: It is too large.
            LimitReached: You have as many as one may have.
        """
        body = PutCanvas.model_construct(
            version=version, name=name, nodes=tuple(nodes), edges=tuple(edges), view=view
        ).model_dump(mode="json", by_alias=True, exclude_none=True)
        return parse(CanvasSummary, await self._send("PUT", _canvas(canvas_id), json=body))

    async def delete_canvas(self, canvas_id: str) -> None:
        """Delete one; its sessions stay. Raises NotFound."""
        await self._send("DELETE", _canvas(canvas_id))


def _canvas(canvas_id: str) -> str:
    return f"/v1/canvases/{quote(canvas_id, safe='')}"
