"""Everything a person has said so far, as one course of briefs: what was asked for first, then after each change.

Policy and code generator both take the session's own data, and this is the one place where it is made into briefs. So
what a plan promises, what a change request is said to do and what the files show cannot differ, and nothing of it has
to be read back out of a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from koda_ray.studio.offline.answer import ANSWERS, apply_answer, apply_options, own_words_of
from koda_ray.studio.offline.brief import Brief
from koda_ray.studio.offline.feedback import apply_feedback
from koda_ray.studio.offline.parse import parse_prompt
from koda_ray.types import Plan

__all__ = ["ChangeRequest", "Course", "Said", "answers_of", "parse_brief", "understand"]


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a person has said: their prompt, its settings and uploads, their answers, their changes, oldest first."""

    prompt: str
    answers: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    feedback: tuple[str, ...] = ()
    assets: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class ChangeRequest:
    """A change request: its words, the brief after it, and what it did in words; nothing where no rule knew it."""

    words: str
    brief: Brief
    done: tuple[str, ...]


@dataclass(frozen=True)
class Course:
    """The brief before any change, and each change."""

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


def answers_of(
    style: str | None, answer: str | None, *, plan: Plan | None = None, earlier: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return what was answered, each once.

    Args:
        style: The style as the session keeps it: what a person said, or what the first plan called it.
        answer: The last answer as the session keeps it.
        plan: The plan, where there is one; it keeps an earlier answer's own words.
        earlier: The answers of the conversation, where that is at hand; the last one is ``answer`` again.
    """
    answers = [*earlier] or ([answer] if answer else [])
    style = style or (plan.style if plan else None)
    if style is not None and style != answer:
        ours = (plan is not None and style == plan.style) or (answer is not None and answer in style)
        answers.insert(0, _style_of(style) if ours else style)
    kept = own_words_of(plan.style) if plan else ""
    if kept and not any(kept in words for words in answers):
        answers.insert(0, kept)
    return tuple(dict.fromkeys(words.strip() for words in answers))


def _style_of(line: str) -> str:
    """Return the style that a plan names; what follows it is said to people, and was read where they said it."""
    return next((id_ for id_, (label, _) in ANSWERS.items() if line.startswith(label)), line)


def understand(said: Said) -> Course:
    """Read everything that was said, and apply each change once, in order."""
    brief = apply_options(parse_prompt(said.prompt, assets=said.assets), said.options)
    for words in said.answers:
        brief = apply_answer(brief, words)
    if said.answers and brief.style_heard == "unknown":
        brief = replace(brief, style_heard="inferred")
    opening = brief
    changes: list[ChangeRequest] = []
    for words in said.feedback:
        brief, done = apply_feedback(brief, words)
        changes.append(ChangeRequest(words, brief, done))
    return Course(opening, tuple(changes))


def parse_brief(
    prompt: str,
    *,
    style: str | None = None,
    answer: str | None = None,
    options: Mapping[str, object] | None = None,
    feedback: Sequence[str] = (),
    assets: Sequence[Mapping[str, str]] = (),
) -> Brief:
    """Read everything a person has said so far.

    Args:
        prompt: The first request.
        style: A style's id or free words for it, as the session keeps them.
        answer: The answer to the question, an option's id or free text.
        options: ``duration`` in seconds, ``aspect`` such as ``9:16``, ``fps``; they win over the prompt.
        feedback: Change requests, oldest first.
        assets: Uploaded files as ``{"id", "name", "mediaType", "path"}``.

    Returns:
        The brief with every change applied in order.
    """
    answers = answers_of(style, answer)
    said = Said(prompt=prompt, answers=answers, options=options or {}, feedback=tuple(feedback), assets=assets)
    return understand(said).brief
