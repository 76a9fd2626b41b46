"""The plan a person approves: scenes that add up to the film's length exactly.

Lengths are counted in hundredths of a second, as integers, so that the sum is the total and not nearly the total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from koda_ray.roles.offline.answer import ANSWERS
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.language import said
from koda_ray.roles.offline.motion import FEELS
from koda_ray.roles.offline.script import Beat, Script
from koda_ray.roles.offline.subject import subject_of
from koda_ray.types import MIN_SCENE_S, Plan, Scene

__all__ = ["describe_plan", "make_plan", "notes_of", "scene_count", "scene_limits", "split_seconds", "style_line"]

_TICKS = 100
"""Ticks of a second: the resolution of scene lengths."""


def scene_limits(duration_s: float) -> tuple[int, int]:
    """Return the fewest and most scenes a film of this length may have.

    Source: the scene rules (1 to floor(d / 1.5) below 5 s; 3-7 for 5-15 s; 5-12 for 15-60 s; 10-15 beyond).
    """
    most = max(1, math.floor(duration_s / MIN_SCENE_S + 1e-9))
    if duration_s < 5:
        return 1, most
    if duration_s < 15:
        return 3, min(7, most)
    if duration_s == 15:
        return 5, min(7, most)
    return (5, min(12, most)) if duration_s <= 60 else (10, 15)


def scene_count(brief: Brief) -> int:
    """Return how many scenes suit the film within `scene_limits`."""
    low, high = scene_limits(brief.duration_s)
    each = subject_of(brief).beat_each
    wanted = 2 + len(_script_of(brief).middle) if each else round(1.5 + brief.duration_s / 3.4)
    if brief.duration_s < 5:
        wanted = min(wanted, 3)
    return max(low, min(high, wanted))


def split_seconds(total_s: float, weights: Sequence[float]) -> tuple[float, ...]:
    """Split a length by weights: every part at least `MIN_SCENE_S`, and the parts' sum exactly ``total_s``.

    Args:
        total_s: Seconds, at least ``MIN_SCENE_S`` for each weight; hundredths count.
        weights: One positive weight a part.
    """
    ticks, least = round(total_s * _TICKS), round(MIN_SCENE_S * _TICKS)
    free = ticks - least * len(weights)
    whole = sum(weights)
    parts = [least + math.floor(free * weight / whole) for weight in weights]
    parts = [part - part % 5 if part - part % 5 >= least else part for part in parts]
    parts[-1] += ticks - sum(parts)
    return tuple(part / _TICKS for part in parts)


def _beats(brief: Brief, number: int) -> list[Beat]:
    script = _script_of(brief)
    if number == 1:
        middle = script.middle[0]
        return [Beat(middle.title, f"{script.opening.description} {middle.description}", middle.notes)]
    if number == 2:
        return [
            Beat(
                script.opening.title,
                f"{script.opening.description} {script.middle[0].description}",
                script.opening.notes,
            ),
            script.ending,
        ]
    wanted = number - 2
    middles: list[Beat] = []
    if wanted < len(script.middle) and subject_of(brief).beat_each:
        per = math.ceil(len(script.middle) / wanted)
        for i in range(wanted):
            group = script.middle[i * len(script.middle) // wanted : (i + 1) * len(script.middle) // wanted]
            title = " / ".join(b.title for b in group)
            middles.append(Beat(title, " ".join(b.description for b in group), group[0].notes) if per > 1 else group[0])
    else:
        for i in range(wanted):
            beat = script.middle[i % len(script.middle)]
            again = i // len(script.middle)
            middles.append(
                beat if not again else Beat(said("plan.again", title=beat.title), beat.description, beat.notes)
            )
    return [script.opening, *middles, script.ending]


def style_line(brief: Brief) -> str:
    """Return the style as the plan names it."""
    label = ANSWERS[brief.style][0]
    return (
        label
        if brief.easing is None or brief.easing == brief.style
        else said("plan.style", label=label, easing=brief.easing)
    )


def notes_of(brief: Brief) -> tuple[str, ...]:
    """Return everything that was assumed or changed, with what follows from the length as it stands now."""
    note = subject_of(brief).note(brief)
    return (*brief.notes, note) if note else brief.notes


def make_plan(brief: Brief) -> Plan:
    """Make the plan of a brief.

    Returns:
        A plan whose scenes are at least 1.5 s each and add up to its total exactly.
    """
    number = scene_count(brief)
    beats = _beats(brief, number)
    weights = [1.0] * number
    if number >= 3:
        weights[0], weights[-1] = subject_of(brief).ends
    durations = split_seconds(brief.duration_s, weights)
    total = round(sum(round(d * _TICKS) for d in durations) / _TICKS, 2)
    scenes = tuple(
        Scene(
            number=i + 1,
            title=beat.title[:80],
            duration=duration,
            description=beat.description,
            animation_notes=beat.notes,
        )
        for i, (beat, duration) in enumerate(zip(beats, durations, strict=True))
    )
    return Plan(
        scenes=scenes,
        total_duration=total,
        style=style_line(brief),
        fps=brief.fps,
        width=brief.width,
        height=brief.height,
        notes=" ".join(notes_of(brief)),
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{seconds % 60:04.1f}".replace(".0", "")


def describe_plan(plan: Plan) -> str:
    """Return the plan as text for a person."""
    lines = [
        said("plan.title", seconds=plan.total_duration, width=plan.width, height=plan.height, style=plan.style),
        "",
    ]
    start = 0.0
    for scene in plan.scenes:
        stop = start + scene.duration
        lines += [
            said("plan.scene", number=scene.number, title=scene.title, start=_clock(start), stop=_clock(stop)),
            said("plan.happens", description=scene.description),
            said("plan.animation", notes=scene.animation_notes),
            "",
        ]
        start = stop
    if plan.notes:
        lines += [plan.notes, ""]
    return "\n".join(lines).strip()


def _script_of(brief: Brief) -> Script:
    """Return the script of the brief's subject, with the style's curves named in its notes."""
    script = subject_of(brief).script(brief)
    feel = FEELS[brief.easing or brief.style]

    def named(beat: Beat) -> Beat:
        notes = (
            beat.notes.replace("{enter}", feel.enter)
            .replace("{move}", feel.move)
            .replace("{leave}", feel.leave)
            .replace("{settle}", feel.settle)
            .replace("{stagger}", f"{feel.stagger_s:g} s")
            .replace("cinematicOut", "cubic-bezier(0.08, 0.82, 0.17, 1)")
        )
        return Beat(beat.title, beat.description, notes)

    return Script(named(script.opening), tuple(named(b) for b in script.middle), named(script.ending))
