"""What happens in a film, beat by beat, in words a person can approve.

A beat names the motion and the curves that the code will really use; the plan cuts them to the film's length.
"""

from __future__ import annotations

from dataclasses import dataclass

from koda_ray.roles.offline.language import beats

__all__ = ["Beat", "Script"]


@dataclass(frozen=True)
class Beat:
    """One moment: a title, what is seen, how it moves."""

    title: str
    description: str
    notes: str


@dataclass(frozen=True)
class Script:
    """A film's beats: how it opens, what carries it (as many as the length takes, in order), how it ends."""

    opening: Beat
    middle: tuple[Beat, ...]
    ending: Beat

    @classmethod
    def told(cls, name: str, **blanks: object) -> Script:
        """Return the script of that name in the languages' files, its blanks filled in."""
        parts = beats(name, **blanks)
        (opening,), (ending,) = parts["opening"], parts["ending"]
        return cls(Beat(*opening), tuple(Beat(*beat) for beat in parts["middle"]), Beat(*ending))
