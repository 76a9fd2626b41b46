"""One thing that is wrong with a cluster's file: where, what, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Defect"]


@dataclass(frozen=True)
class Defect:
    """A rule that a file breaks.

    Args:
        rule: The rule's name: stable, one word or two with a dash.
        what: What is wrong, with the value seen.
        remedy: What to write instead.
        line: Where, from 1; None where no line of the file is to blame.
        advice: The cluster works with it, but worse than it could.
    """

    rule: str
    what: str
    remedy: str
    line: int | None = None
    advice: bool = False
