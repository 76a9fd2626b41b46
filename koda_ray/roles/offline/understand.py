"""Everything a person has said so far, as one course of briefs: what was asked for first, then after each change.

Policy and code generator both take the session's own data, and this is the one place where it is made into briefs. So
what a plan promises, what a change request is said to do and what the files show cannot differ, and nothing of it has
to be read back out of a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from koda_ray.roles.offline.answer import apply_answer, apply_options
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.feedback import apply_feedback
from koda_ray.roles.offline.parse import parse_prompt
from koda_ray.roles.offline.pointed import apply_pointed, spoken
from koda_ray.types import Answered, Plan, Pointed

__all__ = ["ChangeRequest", "Course", "Said", "parse_brief", "understand"]


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a person has said: their prompt, its settings and uploads, their answers, their changes, oldest first.

    ``pointed`` is what those changes were made of that pointed at something.
    """

    prompt: str
    answers: tuple[Answered, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    feedback: tuple[str, ...] = ()
    pointed: tuple[Pointed, ...] = ()
    assets: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class ChangeRequest:
    """A change request: its words, the brief after it, and what it did in words; nothing where no rule knew it.

    ``left`` says what it asked of a part of the film that this cannot have.
    """

    words: str
    brief: Brief
    done: tuple[str, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Course:
    """The brief before any change, and each change with what was answered after it."""

    opening: Brief
    changes: tuple[ChangeRequest, ...] = ()

    @property
    def brief(self) -> Brief:
        """The brief as it stands now."""
        return self.changes[-1].brief if self.changes else self.opening

    def until(self, count: int) -> Course:
        """Return the course up to and with the first ``count`` changes."""
        return Course(self.opening, self.changes[:count])

    def agreed(self, plan: Plan) -> Brief:
        """Return the brief as it stands, its length and size those of the plan unless a change altered them."""
        briefs = (self.opening, *(change.brief for change in self.changes))
        now = briefs[-1]
        lengths = {brief.duration_s for brief in briefs}
        sizes = {(brief.width, brief.height) for brief in briefs}
        return replace(
            now,
            duration_s=now.duration_s if len(lengths) > 1 else plan.total_duration,
            width=now.width if len(sizes) > 1 else plan.width,
            height=now.height if len(sizes) > 1 else plan.height,
            fps=plan.fps,
        )


def understand(said: Said) -> Course:
    """Read everything that was said, and apply each answer and each change once, in the order in which they came."""
    opening = apply_options(parse_prompt(said.prompt, assets=said.assets), said.options)
    if said.answers and opening.style_heard == "unknown":
        opening = replace(opening, style_heard="inferred")
    brief = opening = _answered(opening, said.answers, 0)
    changes: list[ChangeRequest] = []
    pointed = {each.change: each for each in said.pointed}
    for number, words in enumerate(said.feedback, 1):
        if (at := pointed.get(number)) is not None:
            words, applied = spoken(at), apply_pointed(brief, at)
            brief, done, left = applied.brief, applied.done, applied.left
        else:
            (brief, done), left = apply_feedback(brief, words), ()
        brief = _answered(brief, said.answers, number)
        changes.append(ChangeRequest(words, brief, done, left))
    return Course(opening, tuple(changes))


def _answered(brief: Brief, answers: Sequence[Answered], changes: int) -> Brief:
    """Apply the answers that were given after so many changes."""
    for answer in answers:
        if answer.after_changes == changes:
            brief = apply_answer(brief, answer)
    return brief


def parse_brief(
    prompt: str,
    *,
    answers: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    feedback: Sequence[str] = (),
    assets: Sequence[Mapping[str, str]] = (),
) -> Brief:
    """Read everything a person has said so far.

    Args:
        prompt: The first request.
        answers: What was answered before any change, in a person's own words.
        options: ``duration`` in seconds, ``aspect`` such as ``9:16``, ``fps``; they win over the prompt.
        feedback: Change requests, oldest first.
        assets: Uploaded files as ``{"id", "name", "mediaType", "path"}``.

    Returns:
        The brief with every change applied in order.
    """
    given = tuple(Answered(text=words) for words in answers)
    said = Said(prompt=prompt, answers=given, options=options or {}, feedback=tuple(feedback), assets=assets)
    return understand(said).brief
