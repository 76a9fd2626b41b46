"""What bounds one run of an agent, and why a run ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from koda_ray.agent.stuck import StuckLimits
from koda_ray.budgets import Exceeded

__all__ = ["Limits", "LoopOutcome"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one run; a new run starts the counts anew, but for what is a circle: that a person's words start anew.

    Args:
        turns: Answers of the model.
        tool_calls: Calls that are run or refused.
        model_attempts: Tries of one model call whose stream breaks.
        call_attempts: Deaths of the process while one tool call runs; then it is given up where it changes nothing,
            and else a person is asked. Being stopped in good order is none.
        stuck: How often the same may happen before it is a circle.
        parallel: Calls of one message that run at the same time, where none is unsafe; see `koda_ray.agent.Tool`.
        first_wait_s: Wait before the second try of a model call; it doubles from there.
        max_tokens: Longest answer.
        context_tokens: Longest prompt: from there on old turns are summed up. Where a provider takes less, it says so,
            and then that counts.
    """

    turns: int = 60
    tool_calls: int = 300
    model_attempts: int = 3
    call_attempts: int = 3
    stuck: StuckLimits = field(default_factory=StuckLimits)
    parallel: int = 4
    first_wait_s: float = 0.5
    max_tokens: int = 32_000
    context_tokens: int = 120_000


@dataclass(frozen=True, kw_only=True)
class LoopOutcome:
    """Why a run ended.

    ``end_turn``: the model has said its last word, in ``text``. ``suspended``: the call ``suspended_call_id`` waits
    for a person. ``stuck``, ``limit`` and ``stopped``: ``text`` says for a person what went round in circles, ran out,
    or why a hook ended it; the history is whole, and another run goes on. An `Agent` that is stuck or at its limit has
    asked its person how, and goes on when something was said to it. ``paused``: what comes next does not fit a budget,
    in ``exceeded``; nothing of it was begun, and a run after the limit was raised begins it.
    """

    kind: Literal["end_turn", "suspended", "stuck", "limit", "stopped", "paused"]
    text: str = ""
    suspended_call_id: str | None = None
    exceeded: Exceeded | None = None
