"""A prompt taken apart as far as it can be before its subject is known: what subjects make their claims on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from koda_ray.roles.offline import lexicon
from koda_ray.roles.offline.figures import Datum, find_data, without_measures

__all__ = ["Hearing"]


@dataclass(frozen=True, kw_only=True)
class Hearing:
    """What is heard in a prompt."""

    text: str
    """The whole prompt, normalised."""
    bare: str
    """Its beginning without quoted texts, the format and the length."""
    quotes: tuple[str, ...] = ()
    picture: str | None = None
    """Where an uploaded picture lies in the project."""
    notes: list[str] = field(default_factory=list[str])
    """What was assumed, clamped or left out, in the order in which it came up."""

    def says(self, phrases: Iterable[str]) -> bool:
        """Return whether any of the phrases is said, outside of quotes."""
        return lexicon.contains(self.bare, phrases)

    @cached_property
    def figures(self) -> tuple[tuple[Datum, ...], int]:
        """Labelled figures, as many as a chart shows legibly, and how many there are beyond them."""
        return find_data(without_measures(self.bare))

    @cached_property
    def air(self) -> tuple[str, ...]:
        """The kinds of particles that are named, in reading order."""
        return tuple(kind for _, _, kind in lexicon.find_all(self.bare, lexicon.PARTICLES))
