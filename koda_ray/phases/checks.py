"""What holds of every state that the phase machine reaches."""

from __future__ import annotations

from koda_ray.types import NodeState, Owes, Phase

__all__ = ["check"]


def check(state: NodeState) -> list[str]:
    """List what is wrong with a state; empty for every state that `apply` can reach."""
    wrong: list[str] = []

    def must(holds: bool, what: str) -> None:
        if not holds:
            wrong.append(f"{state.phase}: {what}")

    allowed: dict[Phase, tuple[Owes | None, ...]] = {
        "idle": (None, "analyze"),
        "question": (None, "analyze"),
        "plan": (None, "plan"),
        "executing": ("execute",),
        "preview": (None, "render_final"),
        "complete": (None,),
        "error": (None,),
    }
    asked = state.approval is not None
    must(state.owes is None if asked else state.owes in allowed[state.phase], f"owes {state.owes}")
    must(asked or not state.approvals_next, "has calls that wait behind none")
    waits = state.approval.owes if state.approval is not None else None
    must(not asked or (waits is not None and waits in allowed[state.phase]), f"waits for no work, {waits}")
    must(0 <= state.feedback_seen <= len(state.feedback), "feedback_seen is out of range")
    match state.phase:
        case "question":
            must(asked or state.owes == "analyze" or state.question is not None, "has no question")
        case "plan":
            must(asked or state.owes == "plan" or state.plan is not None, "has no plan")
            must(not state.plan_accepted, "is accepted already")
        case "executing":
            must(state.plan is not None and state.plan_accepted, "has no accepted plan")
            must(state.execution is not None, "has no execution")
        case "preview":
            must(state.preview is not None, "has no preview")
            rendering = state.output is not None and state.output.video_url is None
            must(rendering == (state.owes == "render_final"), "output and owed render disagree")
        case "complete":
            must(state.output is not None and state.output.video_url is not None, "has no video")
        case "error":
            must(state.error is not None, "has no error")
        case "idle":
            must(state.owes is None or bool(state.prompt.strip()), "owes an analysis of nothing")
    must(not state.closing or (state.phase == "preview" and state.owes is None), "has last words to come")
    must(state.phase == "error" or state.error is None, "carries an error")
    must(state.stopped is None or state.owes is None, "was stopped and owes work")
    must(state.paused is None or (state.phase == "question" and state.owes is None), "is paused and owes work")
    return wrong
