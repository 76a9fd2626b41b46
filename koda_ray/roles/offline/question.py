"""The questions that come before a plan, and the plan that is put to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from pydantic import JsonValue

from koda_ray.roles.offline.answer import ANSWERS
from koda_ray.roles.offline.brief import Brief, Impossible
from koda_ray.roles.offline.conversation import PolicyCalls
from koda_ray.roles.offline.language import choices, said
from koda_ray.roles.offline.plan import describe_plan, make_plan
from koda_ray.types import MAX_DURATION_S, OWN_WORDS, Answered

__all__ = ["ask_instead", "ask_style", "propose_plan", "refusal"]

_Rows = Sequence[tuple[str, str, str]]


def _ask(calls: PolicyCalls, reason: str, content: str, rows: _Rows) -> None:
    options: list[JsonValue] = [{"id": id_, "label": label, "description": about} for id_, label, about in rows]
    calls.add("set_thinking", message=said(f"thinking.{reason}"))
    calls.add("request_approval", type="question", reason=reason, content=content, options=options)


def ask_style(calls: PolicyCalls, reason: Literal["style", "rejected"]) -> None:
    """Ask for a style: since none was named, or since a plan was rejected."""
    _ask(calls, reason, said(f"question.{reason}"), choices("styles"))


def ask_instead(calls: PolicyCalls, impossible: Impossible) -> None:
    """Say what cannot be made, and ask what shall be made instead."""
    rows = [*choices(f"instead.{impossible}"), (OWN_WORDS, *ANSWERS[OWN_WORDS])]
    _ask(calls, "impossible", said(f"question.{impossible}", refusal=refusal(impossible)), rows)


def refusal(impossible: Impossible) -> str:
    """Say why something cannot be made."""
    return said(f"refusal.{impossible}", minutes=MAX_DURATION_S / 60)


def propose_plan(calls: PolicyCalls, brief: Brief, answers: Sequence[Answered]) -> None:
    """Put a plan to the person, with what they answered in their own words."""
    plan = make_plan(brief)
    words = "; ".join(answered.text for answered in answers if answered.text)
    if words:
        plan = plan.model_copy(update={"style": said("plan.in_own_words", style=plan.style, words=words[-300:])})
    count = len(plan.scenes)
    calls.add("set_thinking", message=said("thinking.plan", count=count) if count > 1 else said("thinking.plan_one"))
    calls.add(
        "request_approval",
        type="plan",
        content=describe_plan(plan),
        plan=cast("JsonValue", plan.model_dump(mode="json", by_alias=True)),
    )
