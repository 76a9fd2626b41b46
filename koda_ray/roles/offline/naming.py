"""What is made for somebody: logos and product cards carry a name."""

from __future__ import annotations

from dataclasses import replace

from koda_ray.roles.offline import lexicon
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.extract import find_name, find_price
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import said

__all__ = ["named"]


def named(brief: Brief, heard: Hearing, *, otherwise: str) -> Brief:
    """Give a brief the name that is said or quoted, or another one, and the particles that are no part of the name."""
    _, unpriced = find_price(heard.bare)
    found = find_name(unpriced)
    name = found or (heard.quotes[0] if heard.quotes else "")
    if not name:
        name = otherwise
        heard.notes.append(said("naming.missing", name=name))
    beside = lexicon.find_all(heard.bare.replace(name, " "), lexicon.PARTICLES)
    texts = heard.quotes if found else heard.quotes[1:]
    return replace(brief, heading=name, texts=texts, particles=bool(beside))
