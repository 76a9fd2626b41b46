"""What a person's command means for the agents: whether it ends their work, and what they hear of it."""

from __future__ import annotations

import json

from pydantic import JsonValue

from koda_ray import phases
from koda_ray.commands import Accept, Answer, Cancel, Command, Reject, RequestChanges, Retry, Say, Start
from koda_ray.pointing import in_words
from koda_ray.roles.orchestrator import opening
from koda_ray.types import NodeState

__all__ = ["answer_of", "heard_words", "stops"]


def stops(command: Command, state: NodeState) -> bool:
    """Whether a person ends the work: says so, or answers so when asked whether it should go on."""
    match command:
        case Cancel():
            return True
        case Answer(option_id=phases.STOP):
            return state.paused is not None or phases.is_stuck(state)
        case Say(text=text):
            return state.paused is not None and text.strip() == phases.STOP
        case _:
            return False


def answer_of(command: Command, state: NodeState) -> dict[str, JsonValue] | None:
    """What a waiting question or plan gives back to the agents; of a plan that was edited, what became of it."""
    match command:
        case Answer(option_id=option_id, text=text):
            return {"status": "answered", "optionId": option_id, "text": text}
        case Accept() if (edited := _edited(state)) is not None:
            return {"status": "accepted", "plan": edited}
        case Accept():
            return {"status": "accepted"}
        case Reject(feedback=feedback):
            return {"status": "rejected", "feedback": feedback}
        case RequestChanges(feedback=feedback, notes=notes):
            return {"status": "changes", "feedback": in_words(feedback, notes, state.plan)}
        case Say(text=words, notes=notes):
            text = in_words(words, notes, state.plan)
            return {"status": "answered", "optionId": None, "text": text, "feedback": text}
        case _:
            return None


def heard_words(command: Command, state: NodeState) -> str | None:
    """What the agents hear of a command when nothing waits for it; None when it does not concern them."""
    match command:
        case Start(prompt=prompt):
            return opening(state.model_copy(update={"prompt": prompt or state.prompt}))
        case Answer(option_id=phases.STOP) if state.question is not None and state.question.reason == "stuck":
            return None
        case Answer(option_id=option_id, text=text):
            return text or f"My answer: {option_id}"
        case Accept() if state.phase == "plan":
            edited = _edited(state)
            if edited is None:
                return "I accept the plan."
            return f"I accept the plan as I changed it: {json.dumps(edited, ensure_ascii=False)}"
        case Reject(feedback=feedback):
            return feedback or "I reject this plan. Ask me again."
        case RequestChanges(feedback=text, notes=notes) | Say(text=text, notes=notes):
            return in_words(text, notes, state.plan)
        case Retry() if state.error is not None and state.error.owes != "render_final":
            details = f"\n{state.error.details}" if state.error.details else ""
            return f"That failed ({state.error.code}): {state.error.message}{details}\nTry again."
        case _:
            return None


def _edited(state: NodeState) -> JsonValue:
    """Return the plan that a person made of the proposed one; None where that is as it was."""
    if not state.plan_edited or state.plan is None:
        return None
    return state.plan.model_dump(mode="json", by_alias=True)
