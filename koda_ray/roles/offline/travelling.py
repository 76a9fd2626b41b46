"""What a text names that the director can draw, and how it moves: more than one subject wants to know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from koda_ray.roles.offline import lexicon
from koda_ray.roles.offline.language import expression

__all__ = ["MOTIONS", "Motion", "Traveller", "find_hero"]

Motion = Literal["cross", "rise", "fall", "bounce", "spin", "float"]

MOTIONS: tuple[tuple[str, Motion], ...] = (
    ("hero_bounces", "bounce"),
    ("hero_spins", "spin"),
    ("hero_rises", "rise"),
    ("hero_falls", "fall"),
    ("hero_floats", "float"),
)
"""The expressions by which it is heard how something moves, in the order in which they count."""


@dataclass(frozen=True)
class Traveller:
    """What is shown, a drawing's name or an emoji, and how it moves."""

    look: str = "balloon"
    motion: Motion = "float"


def find_hero(text: str) -> Traveller | None:
    """Return what is named that the director can draw, and how it moves."""
    heroes = lexicon.find_all(text, lexicon.HEROES)
    moving: Motion | None = next((motion for words, motion in MOTIONS if expression(words).search(text)), None)
    crossing = bool(expression("hero_crosses").search(text))
    if heroes:
        look = heroes[0][2]
    else:
        emoji = re.search(r"[\U0001F300-\U0001FAFF\u2600-\u27BF]\ufe0f?", text)
        if emoji is None or not (crossing or moving):
            return None
        look = emoji.group(0)
    if moving:
        return Traveller(look, moving)
    if look in {"rocket", "balloon", "hot-air-balloon"} and not crossing:
        return Traveller(look, "rise")
    if crossing or look in {"paper-plane", "boat"}:
        return Traveller(look, "cross")
    return Traveller(look, "float")
