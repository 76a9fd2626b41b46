"""A session's points, without what it was there: whether it could be put back to one, and how they are shown.

A past is all that was ever said in a session and may be large; whether there is a point is a few numbers. So whoever
only has to know asks each of a store by a question of its own, and is refused in the words that `past` refuses with.
Who lists points gets a page of them, each with a few words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol, cast

from pydantic import JsonValue

from koda_ray.errors import Conflict, NotFound
from koda_ray.state.past import UNDO, Span, counts
from koda_ray.state.versions import VERSION

__all__ = ["HEAD", "PointLookup", "no_point", "nothing_to_undo", "said_in", "see_point", "too_old"]

HEAD = "hed_"
"""How a head's id begins."""
_CHECKPOINT = "ckp_"
_SHOWN = 80
_WORDS_CHARS = 200
_WORD = re.compile(r"\S+")


class PointLookup(Protocol):
    """What a store says of one session's points."""

    def can_undo(self) -> bool:
        """Whether a rewind was not undone."""
        ...

    def has_head(self, head_id: str) -> bool:
        """Whether there is this head."""
        ...

    def has_version(self, version_id: str) -> bool:
        """Whether there is this version."""
        ...

    def rev_of(self, point: str) -> int | None:
        """Return the commit of a message or a checkpoint, counting now or not; None where there is no such point."""
        ...

    def next_rev(self, rev: int, *, checkpoints: bool) -> int | None:
        """Return the next commit that counts and has a message (or a checkpoint); None where there is none."""
        ...

    def has_state(self, rev: int) -> bool:
        """Whether a state that counts was kept at a commit or before."""
        ...


def see_point(points: PointLookup, session_id: str, point: str, *, spans: Sequence[Span], state_rev: int) -> None:
    """See that a session could be put back to a point.

    Args:
        points: What its store says.
        session_id: Which.
        point: A message, a checkpoint, a head, a version, or `UNDO`.
        spans: What counts of it now.
        state_rev: The commit that brought its present state.

    Raises:
        NotFound: There is no such point in what counts of it now.
        Conflict: The point is from before states were kept.
    """
    if point == UNDO:
        if not points.can_undo():
            raise nothing_to_undo(session_id)
        return
    if point.startswith(HEAD):
        if not points.has_head(point):
            raise no_point(session_id, point)
        return
    if point.startswith(VERSION):  # its state is kept with it
        if not points.has_version(point):
            raise no_point(session_id, point)
        return
    rev = points.rev_of(point)
    if rev is None or not counts(spans, rev):
        raise no_point(session_id, point, was=rev is not None)
    following = points.next_rev(rev, checkpoints=point.startswith(_CHECKPOINT))
    if following is not None and state_rev > following - 1 and not points.has_state(following - 1):
        raise too_old(session_id, point)


def said_in(content: JsonValue) -> str:
    """Return how a message begins, in one line: its words, and the names of the calls that it makes."""
    blocks = cast("list[dict[str, JsonValue]]", content)
    words = " ".join(islice((word[0] for said in _said(blocks) for word in _WORD.finditer(said)), _WORDS_CHARS))
    return words if len(words) <= _WORDS_CHARS else f"{words[: _WORDS_CHARS - 1]}…"


def _said(blocks: Sequence[dict[str, JsonValue]]) -> Iterator[str]:
    yield from (str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    yield from (f"{block.get('name')}()" for block in blocks if block.get("type") == "tool_use")
    yield from ("(result)" for block in blocks if block.get("type") == "tool_result")


def nothing_to_undo(session_id: str) -> NotFound:
    """Refuse to undo what was not done."""
    return NotFound(
        f"session {session_id} was not put back, or that was undone already: there is nothing to undo",
        code="NOTHING_TO_UNDO",
    )


def no_point(session_id: str, point: str, *, was: bool = False) -> NotFound:
    """Refuse a point that there is not; ``was`` says that it does not count now."""
    why = (
        "the session was put back to before it; undo that first, or go to one of its heads" if was else "no such point"
    )
    return NotFound(
        f"session {session_id} cannot go to {point[:_SHOWN]!r}: {why} (its messages, checkpoints and heads: "
        f"GET /v1/sessions/{session_id}/history, or koda history {session_id}; its versions: .../versions)",
        code="POINT_NOT_FOUND",
        context={"session_id": session_id, "point": point[:_SHOWN]},
    )


def too_old(session_id: str, point: str) -> Conflict:
    """Refuse a point whose state nobody knows."""
    return Conflict(
        f"what session {session_id} was at {point[:_SHOWN]!r} is not known: that was before states were kept; "
        "choose a later point",
        code="POINT_TOO_OLD",
    )
