"""Lists of steps, one scene each where there are enough."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.extract import CJK_NUM, NUM, clean_phrase, number_of, strip_directives
from koda_ray.roles.offline.film import Film, Timing
from koda_ray.roles.offline.films.stage import MANNERS, Ground, air, heading_of, set_stage
from koda_ray.roles.offline.find import only_directs
from koda_ray.roles.offline.hearing import Hearing
from koda_ray.roles.offline.language import alternatives, expression, rows, said
from koda_ray.roles.offline.palette import Palette, ink_on
from koda_ray.roles.offline.script import Script
from koda_ray.roles.offline.subject import Subject, own_brief, settle_duration

__all__ = ["Listed", "Steps"]

_MOST = 8
_LINE = re.compile(rf"^\s*(?:\d{{1,2}}[.):]|[-*•・]|{alternatives('step_mark')})\s*(.+)$", re.I | re.M)
_INLINE = re.compile(r"(?:^|\s)\(?\d{1,2}[.)]\s+([^\d(][^()]*?)(?=(?:[,;]?\s+\(?\d{1,2}[.)]\s)|$)")
_COLON = re.compile(r"[:：]\s*([^:：]{3,400})$")
_BETWEEN = re.compile(rf"[,;、，→>]|->|\s(?:{alternatives('step_and')})\s")
_COUNT = re.compile(rf"\b({NUM})\s+(?:\w+\s+){{0,2}}?(?:{alternatives('step_named')})\b", re.I)
_COUNT_CJK = re.compile(rf"({CJK_NUM})\s*(?:{alternatives('step_counter')})")


@dataclass(frozen=True)
class Listed:
    """The steps, and the small lines above them (``Q1``); numbers where there are none."""

    steps: tuple[str, ...] = ()
    kickers: tuple[str, ...] = ()


class Steps(Subject):
    """A list of steps."""

    name = "steps"
    rank = 110
    obvious = True
    zoom = 1.08
    heading_in = "Heading"
    place = (0.05, 0.24, 0.95, 0.95)
    long = True
    beat_each = True

    def fill(self, brief: Brief, heard: Hearing) -> Brief:
        quotes, notes = heard.quotes, heard.notes
        heading = quotes[0] if quotes else ""
        steps, count, dropped = _find_steps(brief.prompt if len(brief.prompt) < 2000 else heard.bare)
        steps = tuple(step for step in steps if not only_directs(step))
        if not steps and len(quotes) > 1:
            steps, heading = quotes[:_MOST], ""
        if dropped:
            notes.append(said("steps.dropped", dropped=dropped, most=len(steps)))
        quarterly = expression("steps_quarterly").search(heard.bare) is not None
        if not steps:
            number = max(1, min(_MOST, count or (4 if quarterly else 3)))
            names = rows("steps.names")
            steps = tuple(names[min(number, len(names)) - 1][:number])
            notes.append(said("steps.unnamed"))
        quarters = range(1, len(steps) + 1) if quarterly and len(steps) <= 4 else ()
        kickers = tuple(said("steps.quarter", number=number) for number in quarters)
        return replace(brief, own=Listed(steps, kickers), heading=heading or _topic(heard.bare), texts=quotes[1:])

    def seconds(self, brief: Brief) -> float:
        return 1.0 + 1.6 * (2 + max(1, len(own_brief(brief, Listed).steps)))

    def changed(self, brief: Brief, text: str) -> tuple[Brief, str] | None:
        steps, count, _ = _find_steps(text)
        before = own_brief(brief, Listed)
        if steps:
            kickers = before.kickers if len(before.kickers) == len(steps) else ()
            return settle_duration(replace(brief, own=Listed(steps, kickers))), said("steps.changed", count=len(steps))
        if count and 1 <= count <= _MOST and count != len(before.steps):
            names = (*before.steps, *rows("steps.further")[0])[:count]
            return settle_duration(replace(brief, own=Listed(names))), said("steps.counted", count=count)
        return None

    def script(self, brief: Brief) -> Script:
        steps = own_brief(brief, Listed).steps or tuple(rows("steps.names")[0])
        heading = brief.heading or said("steps.heading")
        each = [
            Script.told(self.name, heading=heading, step=step, number=number, count=len(steps))
            for number, step in enumerate(steps, 1)
        ]
        return Script(each[0].opening, tuple(told.middle[0] for told in each), each[0].ending)

    def left(self, film: Film) -> list[tuple[str, str]]:
        return [heading_of(film)]

    def film(self, brief: Brief, timing: Timing, palette: Palette) -> Film:
        film = set_stage(
            brief,
            timing,
            palette,
            scene="StepsScene",
            ground=Ground(motifs=("blobs", "dots") if brief.style == "playful" else ("plain",), light=(0.3, 0.25)),
        )
        _walk(film, len(own_brief(brief, Listed).steps))
        film.values = {
            "heading": brief.heading,
            "size": {},
            "steps": _cards(film),
            "corner": {"playful": 44, "smooth": 28, "cinematic": 10}[brief.style],
            "manner": MANNERS[brief.style],
        }
        if brief.particles or brief.style == "cinematic":
            air(film, count=36, opacity=0.7, kind=brief.particle_kind if brief.particles else "dust")
        return film


def _walk(film: Film, count: int) -> None:
    """Add the keys of the heading, of each step as its turn comes, and of the path through them."""
    feel, timing, pace = film.feel, film.timing, max(1.0, film.brief.speed)
    film.score.add("Heading", "reveal", [(0, 0.4), (min(timing.opening * 0.7, 1.0) / pace, 1, feel.enter)])
    first = timing.opening * 0.62 / pace
    last = max(first + 0.3 * count, timing.ending - 0.2)
    slot = (last - first) / count / pace
    enter = min(feel.enter_s, slot * 0.9)
    path: list[tuple[float, float, str]] = [(0, 0.0, "linear"), (first, 0.0, "linear")]
    for i in range(count):
        name = f"Step {i + 1}"
        at = first + i * slot
        film.score.add(name, "enter", [(0, 0), (at, 0), (at + enter, 1, feel.enter)])
        keys: list[tuple[float, float, str]] = [(0, 0, "linear"), (at, 1, "hold")]
        if i < count - 1:
            keys += [(at + slot, 1, "linear"), (at + slot + min(0.5, slot * 0.5), 0, feel.move)]
        film.score.add(name, "active", keys)
        path.append((at + enter, (i + 1) / count, feel.move))
    clean = [key for i, key in enumerate(path) if i == 0 or key[0] > path[i - 1][0] + 0.002]
    film.score.add("Path", "draw", [key for key in clean if key[0] <= timing.total])


def _cards(film: Film) -> list[dict[str, object]]:
    brief, palette, listed = film.brief, film.palette, own_brief(film.brief, Listed)
    bright = [c for c in palette.colours if c != "#FFFFFF"] or list(palette.colours)
    cards: list[dict[str, object]] = []
    for i, label in enumerate(listed.steps):
        colour = palette.accent if brief.style != "playful" or brief.accent else bright[i % len(bright)]
        cards.append(
            {
                "name": f"Step {i + 1}",
                "label": label,
                "kicker": listed.kickers[i] if listed.kickers else f"{i + 1:02d}",
                "color": colour,
                "ink": ink_on(palette, colour),
            }
        )
    return cards


def _find_steps(text: str) -> tuple[tuple[str, ...], int | None, int]:
    """Read the steps of a list.

    Returns:
        The named steps (empty where none are named), how many were asked for (None where not said), and how many
        named steps were left out.
    """
    counted = _COUNT.search(text) or _COUNT_CJK.search(text)
    count = number_of(counted.group(1)) if counted else None
    lines = [match.strip(" .;,") for match in _LINE.findall(text)]
    if len(lines) < 2:
        lines = [match.strip(" .;,") for match in _INLINE.findall(text)]
    if len(lines) < 2:
        colon = _COLON.search(text.strip().rstrip("."))
        if colon:
            parts = _BETWEEN.split(colon.group(1))
            lines = [part for part in (expression("step_and_before").sub("", p.strip(" .")) for p in parts) if part]
    if len(lines) < 2:
        lines = []
    steps = tuple(line[:1].upper() + line[1:48] for line in lines)
    return steps[:_MOST], None if count is None else int(count), max(0, len(steps) - _MOST)


def _topic(text: str) -> str:
    """Return what a list is about: "the roadmap of our app in three steps: ..." gives "Roadmap of our app"."""
    before = re.split(r"[:：\n]", strip_directives(text))[0]
    before = re.sub(rf"(?:{alternatives('steps_topic_end')})|[,;].*$", "", before, flags=re.I)
    before = re.sub(rf"^{alternatives('article')}", "", before.strip(" .,-"), flags=re.I)
    before = clean_phrase(before)[:48]
    return before[:1].upper() + before[1:]
