"""Canvases: how a person laid out and connected nodes, which belongs to them and to no session.

Each has a version, which grows by one with every change. Whoever changes one says which version that was made of: what
somebody else, or another browser, made of it meanwhile is not written over. What a canvas holds is the page's; of it
only what a list of canvases shows is known here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from koda_ray.errors import Conflict, LimitReached
from koda_ray.state.refusals import no_such

__all__ = ["CanvasHead", "CanvasRecord", "CanvasStore", "put_over", "too_many_canvases"]


@dataclass(frozen=True, kw_only=True)
class CanvasHead:
    """What a list shows of a canvas: ``node_count`` nodes, ``session_ids`` of the sessions that they show.

    ``version`` counts its changes from 1, ``changed_at`` is when the last one came here.
    """

    user_id: str
    id: str
    version: int
    name: str
    node_count: int
    session_ids: list[JsonValue]
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, kw_only=True)
class CanvasRecord(CanvasHead):
    """A canvas with what it holds: ``layout`` is its nodes, edges and view, as JSON."""

    layout: JsonValue


def put_over(there: CanvasRecord | None, given: CanvasRecord, *, expected: int | None) -> CanvasRecord:
    """Return what a canvas becomes, or what it is already where the same was put before and its answer was lost.

    Raises:
        NotFound: There is none, though a version of it is expected.
        Conflict: It is at another version than ``expected``.
    """
    if there is None:
        if expected is not None:
            raise no_such("canvas", given.id)
        return replace(given, version=1)
    if there.version == (expected or 0) + 1 and (there.name, there.layout) == (given.name, given.layout):
        return there
    if there.version == expected:
        return replace(given, version=there.version + 1, created_at=there.created_at)
    context = {"id": given.id, "version": there.version}
    if expected is None:
        raise Conflict(
            f"there is a canvas {given.id!r}, at version {there.version}: say which version you changed",
            context=context,
        )
    raise Conflict(
        f"canvas {given.id!r} was changed meanwhile: it is at version {there.version}, and you changed {expected}",
        context=context,
    )


def too_many_canvases(most: int) -> LimitReached:
    """Refuse another canvas of a person's."""
    return LimitReached(
        f"you have {most} canvases, as many as one may have: delete one that you do not need any more",
        context={"limit": most},
    )


class CanvasStore(Protocol):
    """The canvases of users. None of it wakes anybody, and none is an event."""

    async def put_canvas(self, canvas: CanvasRecord, *, expected: int | None, most: int) -> CanvasHead:
        """Insert a canvas, or change it; its ``version`` and ``created_at`` are the store's to say.

        What is put twice, since its answer was lost, is put once: a canvas that holds the same at the next version is
        the answer.

        Args:
            canvas: What it is to be.
            expected: The version that was changed; None for a new one.
            most: How many its user may have. It holds however many are made at once.

        Raises:
            NotFound: Its user has no such canvas, though a version of it is expected.
            Conflict: It is at another version, or there is one where none is expected.
            LimitReached: Its user has ``most`` already.
        """
        ...

    async def canvases(self, user_id: str) -> list[CanvasHead]:
        """Read what lists show of a user's canvases, changed last first."""
        ...

    async def canvas(self, user_id: str, canvas_id: str) -> CanvasRecord:
        """Read one. NotFound where the user has no such canvas."""
        ...

    async def remove_canvas(self, user_id: str, canvas_id: str) -> None:
        """Remove one. NotFound where the user has no such canvas."""
        ...
