"""What happens in a film, beat by beat, in words a person can approve.

A beat names the motion and the curves that the code will really use; the plan cuts them to the film's length.
"""

from __future__ import annotations

from dataclasses import dataclass

from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.motion import FEELS
from koda_ray.studio.offline.subject import subject_of

__all__ = ["Beat", "Script", "script_for"]


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


def script_for(brief: Brief) -> Script:
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
