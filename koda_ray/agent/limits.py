"""What bounds one run of an agent, and why a run ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Limits", "LoopOutcome"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one run; a new run starts the counts anew.

    Args:
        turns: Answers of the model.
        tool_calls: Calls that are run or refused.
        model_attempts: Tries of one model call whose stream breaks.
        call_attempts: Starts of one tool call that ends its process each time.
        same_failures: Failures of one call with one input, nothing having changed in between.
        parallel_pure: Pure calls of one message that run at the same time.
        first_wait_s: Wait before the second try of a model call; it doubles from there.
        max_tokens: Longest answer.
    """

    turns: int = 60
    tool_calls: int = 300
    model_attempts: int = 3
    call_attempts: int = 3
    same_failures: int = 3
    parallel_pure: int = 4
    first_wait_s: float = 0.5
    max_tokens: int = 32_000


@dataclass(frozen=True, kw_only=True)
class LoopOutcome:
    """Why a run ended.

    ``end_turn``: the model has said its last word, in ``text``. ``suspended``: the call ``suspended_call_id`` waits
    for a person. ``stuck`` and ``limit``: ``text`` says for a person what went round in circles or ran out; the
    history is whole, and another run goes on.
    """

    kind: Literal["end_turn", "suspended", "stuck", "limit"]
    text: str = ""
    suspended_call_id: str | None = None
