"""Product cards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from koda_ray.roles.offline import lexicon
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.extract import find_price
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.stage import Ground, dust, set_stage
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import expression, said
from koda_ray.roles.offline.naming import named
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import Subject, own_brief

__all__ = ["Card", "Offer"]


@dataclass(frozen=True)
class Offer:
    """What is offered: its price as written (``$199``), or nothing."""

    price: str = ""


class Card(Subject):
    """A product card."""

    name = "card"
    rank = 90
    obvious = True
    length_s = 6.0
    zoom = 1.3
    heading_in = ""

    def claims(self, heard: Hearing) -> Iterable[int]:
        return () if expression("no_card").search(heard.bare) else super().claims(heard)

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        price, _ = find_price(heard.bare)
        return replace(named(brief, heard, otherwise=said("card.name")), own=Offer(price))

    def script(self, brief: Brief) -> Script:
        price = own_brief(brief, Offer).price
        facts = said("card.facts_and_price", price=price) if price else said("card.facts")
        return Script.told(self.name, heading=brief.heading, facts=facts)

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="ProductScene",
            ground=Ground(
                motifs=("blobs", "rings") if brief.style == "playful" else ("plain", "rings"), light=(0.4, 0.35)
            ),
        )
        _turn(film)
        about = brief.heading + " " + brief.prompt[:200]
        price = own_brief(brief, Offer).price
        film.values = {
            "product": {
                "name": brief.heading,
                "price": price or None,
                "tagline": brief.texts[0] if brief.texts else None,
                "action": brief.texts[1]
                if len(brief.texts) > 1
                else said("card.buy" if price else "card.look", language=brief.language),
                "image": brief.still,
                "emblem": next((emoji for _, _, emoji in lexicon.find_all(about, lexicon.PRODUCTS)), None),
                "corner": {"playful": 64, "smooth": 40, "cinematic": 20}[brief.style],
            }
        }
        dust(film, 36)
        return film


def _turn(film: Film) -> None:
    """Add the keys: the card arrives and turns, the product enters and floats, the facts come one after another."""
    brief, feel, score = film.brief, film.feel, film.score
    ending, total = film.timing.ending, film.timing.total
    arrive = min(film.timing.opening, 1.5) / max(1.0, brief.speed)
    score.add("Card", "scale", [(0, 0.82), (arrive, 1, feel.enter)])
    moves = (("turn", -38, -7, 6, 1.15), ("tilt", 14, 3, -2, 1.15), ("rise", -0.4, 0, 0.25, 1.0))
    for prop, start, come, late, at in moves:
        score.add(
            "Card",
            prop,
            [(0, start), (arrive * at, come, feel.enter), (ending, late, "easeInOutSine"), (total, 0, "easeInOutSine")],
        )
    step = max(0.2, feel.stagger_s * 2.4)
    at = arrive * 0.45
    score.add("Product", "enter", [(0, 0.35), (at, 0.4, "easeInOutSine"), (at + feel.enter_s, 1, feel.enter)])
    score.add("Product", "float", [(0, 0), (total, round(total / 3.2) or 1, "linear")])
    for i, prop in enumerate(("name", "price", "action")):
        begin = at + step * (i + 0.6)
        score.add("Facts", prop, [(0, 0), (begin, 0), (begin + feel.enter_s, 1, feel.enter)])
    sheen = max(arrive + 0.6, ending - 1.2)
    score.add("Facts", "sheen", [(0, 0), (sheen, 0), (min(total, sheen + 1.4), 1, "easeInOutSine")])
