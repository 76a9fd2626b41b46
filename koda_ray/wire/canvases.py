"""Canvases: nodes that a person laid out and connected, as they go over HTTP."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from koda_ray.types import Model

__all__ = [
    "MAX_CANVASES",
    "MAX_CANVAS_BYTES",
    "CanvasEdge",
    "CanvasList",
    "CanvasNode",
    "CanvasPlace",
    "CanvasSight",
    "CanvasSummary",
    "CanvasView",
    "PutCanvas",
]

MAX_CANVASES = 100
"""How many canvases a user has at most."""
MAX_CANVAS_BYTES = 512 * 1024
"""How large one may be, as the server keeps it: JSON in ASCII."""
_NAME_CHARS = 80
_MOST_NODES = 2_000
_MOST_EDGES = 10_000
_LARGEST_VERSION = 2**53 - 1
_Number = Annotated[float, Field(allow_inf_nan=False)]
_NodeId = Annotated[str, Field(min_length=1, max_length=64)]


def _in_json(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise ValueError("it holds a number or a character that JSON has no word for") from None
    return value


class CanvasPlace(Model):
    """A place on a canvas, in pixels at full size, rightwards and downwards."""

    x: _Number
    y: _Number


class CanvasNode(Model):
    """A node: where it is, how wide it was made in pixels, and what it holds, which is its plugin's.

    ``data.plugin`` says which plugin that is, ``data.sessionId`` which session it shows, if it shows one.
    """

    id: _NodeId
    position: CanvasPlace
    width: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    data: Annotated[dict[str, JsonValue], AfterValidator(_in_json)]


class CanvasEdge(Model):
    """A connection: from what one node gives to what another takes."""

    source: _NodeId
    source_handle: _NodeId
    target: _NodeId
    target_handle: _NodeId


class CanvasSight(CanvasPlace):
    """What was seen of a canvas last: moved by so many pixels, and how large."""

    zoom: float = Field(gt=0, le=100)


class PutCanvas(Model):
    """What a canvas is to be. ``version`` is the one that was changed; a new canvas has none."""

    version: int | None = Field(
        default=None, ge=1, le=_LARGEST_VERSION, description="The version that you changed; left out for a new canvas"
    )
    name: str = Field(min_length=1, max_length=_NAME_CHARS)
    nodes: tuple[CanvasNode, ...] = Field(default=(), max_length=_MOST_NODES)
    edges: tuple[CanvasEdge, ...] = Field(default=(), max_length=_MOST_EDGES)
    view: CanvasSight | None = None


class CanvasSummary(Model):
    """What a list shows of a canvas; ``version`` grows with every change, ``sessionIds`` are the sessions on it."""

    id: str
    version: int
    name: str
    node_count: int
    session_ids: tuple[str, ...]
    created_at: datetime
    changed_at: datetime


class CanvasList(Model):
    """A user's canvases, changed last first."""

    canvases: tuple[CanvasSummary, ...]


class CanvasView(Model):
    """A canvas with all that is on it."""

    id: str
    version: int
    name: str
    nodes: tuple[CanvasNode, ...]
    edges: tuple[CanvasEdge, ...]
    view: CanvasSight | None
    created_at: datetime
    changed_at: datetime
