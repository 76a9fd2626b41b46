"""A title: quoted texts, and what a prompt says that shall be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from koda_ray.roles.offline import extract
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.stage import MANNERS, Ground, dust, set_stage
from koda_ray.roles.offline.find import names_nothing
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import expression, said
from koda_ray.roles.offline.palette import Palette
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import LAST, Subject
from koda_ray.roles.offline.travelling import find_hero

__all__ = ["Title"]


class Title(Subject):
    """A title and a line below it."""

    name = "title"
    style = "cinematic"
    length_s = 6.0
    zoom = 1.12
    letterboxed = True
    lettered = True
    heading_in = "Title"
    tagged = True
    dark_words = True

    def claims(self, heard: Hearing) -> Iterator[int]:
        named = heard.says(self.words)
        if heard.quotes and expression("title_called").search(heard.bare):
            yield 100
        if heard.quotes and not named and heard.air and heard.air[0] != "dust":
            yield 150
        if heard.quotes and (named or not find_hero(heard.bare)):
            yield 170
        if named and expression("title_written").search(heard.bare):
            yield 210
        if names_nothing(heard.text):
            yield LAST + 10

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        if min(self.claims(heard)) > LAST:
            heard.notes.append(said("title.nothing"))
            return replace(brief, heading=said("title.coming"))
        heading = heard.quotes[0] if heard.quotes else _heading(heard.bare)
        return replace(brief, heading=(heading or said("title.untitled"))[:160], texts=heard.quotes[1:])

    def script(self, brief: Brief) -> Script:
        dust = said("title.dust", kind=brief.particle_kind.capitalize()) if brief.particles else ""
        return Script.told(self.name, heading=brief.heading, dust=dust)

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="TitleScene",
            ground=Ground(light=(0.5, 0.5)),
        )
        film.many_letter_colours = brief.style == "playful" and not any(p == "ink" for p, _ in brief.repaint)
        _reveal(film)
        film.values = {
            "title": {
                "text": brief.heading,
                "subtitle": brief.texts[0] if brief.texts else None,
                "manner": MANNERS[brief.style],
                "fill": 0.8,
                "rule": True if brief.style == "smooth" else None,
            }
        }
        dust(film, 40)
        return film


def _heading(text: str) -> str:
    says = expression("title_says").search(text)
    words = says.group(1) if says else extract.strip_directives(text)
    words = expression("title_trailing").sub("", words).strip(" .,;:-")
    return extract.clean_phrase(words)[:90]


def _reveal(film: Film) -> None:
    """Add the keys: the letters come in, the camera moves as the style does, the line below follows."""
    brief, feel, total, score = film.brief, film.feel, film.timing.total, film.score
    ending = film.timing.ending
    length = min(ending - 0.1, feel.enter_s * 1.1 + min(1.8, len(brief.heading) * 0.05 * (feel.stagger_s / 0.1)))
    length = max(0.5, min(length, total * 0.55))
    score.add("Title", "reveal", [(0, 0.14), (length, 1.0, "linear" if brief.style != "cinematic" else "easeOutSine")])
    if brief.style == "cinematic":
        score.add("Title", "tracking", [(0, 0.0), (total, 0.045, "easeOutCubic")])
        score.add("Title", "push", [(0, -0.03), (total, 0.06, "easeInOutSine")])
        sweep = min(total - 0.6, max(length + 0.3, ending))
        score.add("Title", "glint", [(0, 0.0), (max(length, sweep - 1.8), 0.0), (sweep, 1.0, "easeInOutSine")])
    elif brief.style == "smooth":
        score.add("Title", "push", [(0, 0.0), (total, 0.025, "easeInOutSine")])
    else:
        beat, period = length + 0.2, 1.7 / brief.speed
        waves = max(0, int((total - beat - 0.6) / period))
        if waves:
            end = beat + 0.5 + waves * 1.7 / brief.speed
            score.add("Title", "wave", [(0, 0), (beat + 0.5, 0), (end, waves, "linear")])
        if beat + 0.7 < total:
            pushes = [(0, 0), (beat, 0), (beat + 0.22, 0.05, "easeOutCubic"), (beat + 0.7, 0.0, "easeOutBack")]
            score.add("Title", "push", pushes)
    below = min(total - 0.3, length * 0.8 + feel.enter_s)
    score.add("Title", "sub", [(0, 0), (length * 0.8, 0), (below, 1, feel.enter)])
