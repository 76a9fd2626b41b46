"""Work that is stopped, or that waits in its middle: for agreement to a call, for money, for somebody who knows how.

Where work waits, what was owed stands in what it waits for, so that it goes on from there.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, cast

from pydantic import JsonValue

from koda_ray.budgets import limit_name, limits_of, with_limit
from koda_ray.commands import (
    Allow,
    Answer,
    ApprovalChange,
    Approve,
    Ask,
    AskAgreement,
    Cancel,
    CancelJob,
    Effect,
    Emit,
    Fail,
    Pause,
    PutBack,
    Refuse,
    ReleaseSandbox,
    StopWork,
)
from koda_ray.errors import InvalidInput
from koda_ray.phases.parts import Transition, announce, person_said, refuse
from koda_ray.types import Budget, ErrorInfo, Execution, NodeState, Paused, PendingCall, Phase, Question

__all__ = [
    "NOTHING_OWED",
    "STOP",
    "allow",
    "answer_budget",
    "ask_agreement",
    "at_rest",
    "cancel",
    "decide",
    "fail",
    "is_stuck",
    "pause",
    "pending_calls",
    "put_back",
    "stuck",
    "unstuck",
]


NOTHING_OWED = "NOTHING_OWED"
"""The code with which a question of agents is refused that would interrupt no work: it can be put once some is owed."""
STOP = "stop"
"""The option of a question from agents that are stuck which leaves the work as it is."""


def pending_calls(state: NodeState) -> tuple[PendingCall, ...]:
    """List the tool calls that wait for a person's agreement."""
    return () if state.approval is None else (state.approval, *state.approvals_next)


def at_rest(state: NodeState) -> bool:
    """Whether no work is owed, none waits for a person's agreement, and none for more to spend."""
    return state.owes is None and state.approval is None and state.paused is None


def is_stuck(state: NodeState) -> bool:
    """Whether agents that do not get on by themselves ask how to."""
    return state.phase == "question" and state.question is not None and state.question.reason == "stuck"


def stuck(state: NodeState, command: Ask) -> Transition:
    """Ask the person how to go on, in the middle of the work."""
    if state.owes not in ("analyze", "plan", "execute"):
        raise refuse(state, "ask how to go on", "agents work only while work is owed")
    question = command.question.model_copy(update={"phase": state.phase, "owes": state.owes})
    update: dict[str, object] = {"phase": "question", "owes": None, "question": question}
    return state.model_copy(update=update), (ApprovalChange("question", "pending"),)


def unstuck(state: NodeState, question: Question, option_id: str | None, answer: str, at: datetime) -> Transition:
    """Go back to the work that was stuck, with what the person says to it; or leave it."""
    change = ApprovalChange("question", "approved", (("optionId", option_id), ("text", answer)))
    back = state.model_copy(update={"phase": question.phase, "owes": question.owes, "question": None})
    if option_id == STOP:
        left, effects = cancel(back, Cancel(), at)
        return left, (change, *effects)
    return back, (change, person_said(answer, asked=question.text))


def pause(state: NodeState, command: Pause, at: datetime) -> Transition:
    """Ask the person whether more may be used, in the middle of the work."""
    if state.owes is None:
        raise refuse(state, "pause", "nothing is under way")
    paused = Paused(
        phase=state.phase,
        owes=state.owes,
        resource=command.resource,
        account=command.account,
        limit=command.limit,
        raise_to=command.raise_to,
        question=state.question,
    )
    update: dict[str, object] = {"phase": "question", "owes": None, "question": command.question, "paused": paused}
    return state.model_copy(update=update), (ApprovalChange("question", "pending"), ReleaseSandbox(linger=False))


def _unpaused(state: NodeState, paused: Paused) -> NodeState:
    """Owe again what was owed before the question whether more may be used."""
    update = {"phase": paused.phase, "owes": paused.owes, "question": paused.question, "paused": None}
    return state.model_copy(update=update)


def answer_budget(state: NodeState, paused: Paused, command: Answer, at: datetime) -> Transition:
    """Go on with more, or stop, as if the work had been cancelled where it was."""
    options = state.question.options if state.question is not None else ()
    known = {option.id: option.label for option in options}
    if command.option_id not in known:
        raise InvalidInput(
            f"whether more may be used is answered with one of: {', '.join(known)}", context={"field": "option_id"}
        )
    back = _unpaused(state, paused)
    if command.option_id == "more" and paused.raise_to is not None:
        budget = with_limit(state.budget or Budget(), paused.resource, paused.raise_to)
        back = back.model_copy(update={"budget": budget})
    change = ApprovalChange("question", "approved", (("optionId", command.option_id), ("text", None)))
    if command.option_id == "stop":
        back, effects = cancel(back, Cancel(), at)
        return back, (change, *effects)
    return back, (change,)


def allow(state: NodeState, command: Allow, at: datetime) -> Transition:
    """Set a budget, and go on where it answers the question about it."""
    said = command.budget.model_fields_set
    budget = (state.budget or Budget()).model_copy(update={name: getattr(command.budget, name) for name in said})
    new = state.model_copy(update={"budget": budget})
    paused = state.paused
    if paused is None or paused.account != state.session_id:
        return new, ()
    limit = limits_of(command.budget).get(paused.resource)
    if limit_name(paused.resource) not in said or (limit is not None and limit <= paused.limit):
        return new, ()
    answer: JsonValue = cast("JsonValue", command.budget.model_dump(mode="json", by_alias=True, exclude_unset=True))
    change = ApprovalChange("question", "approved", (("optionId", "more"), ("budget", answer)))
    return _unpaused(new, paused), (change,)


def ask_agreement(state: NodeState, command: AskAgreement, at: datetime) -> Transition:
    """Have the work wait until the person has decided about a call."""
    if state.approval is not None:  # of another agent: one is decided after the other
        call = command.call.model_copy(update={"owes": state.approval.owes})
        return state.model_copy(update={"approvals_next": (*state.approvals_next, call)}), ()
    if state.owes not in ("analyze", "plan", "execute"):
        error = refuse(state, "ask for agreement", "agents work only while work is owed")
        error.code = NOTHING_OWED
        raise error
    call = command.call.model_copy(update={"owes": state.owes})
    return state.model_copy(update={"owes": None, "approval": call}), ()


def decide(state: NodeState, command: Approve | Refuse, at: datetime) -> Transition:
    """Take a decision about a call that waits, and go on after the last."""
    waits = pending_calls(state)
    left = tuple(call for call in waits if call.approval_id != command.approval_id)
    if len(left) == len(waits):
        word = "approve" if isinstance(command, Approve) else "refuse"
        names = ", ".join(call.approval_id for call in waits)
        instead = f"the call that waits is {names}" if waits else "no tool call waits for agreement"
        raise refuse(state, f"{word} {command.approval_id}", instead)
    if not left:
        return _decided(state), ()
    new = state.model_copy(update={"approval": left[0], "approvals_next": left[1:]})
    return new, (announce(new),)


def _decided(state: NodeState) -> NodeState:
    """Go on with what was owed before tool calls had to wait."""
    assert state.approval is not None
    return state.model_copy(update={"owes": state.approval.owes, "approval": None, "approvals_next": ()})


def cancel(state: NodeState, command: Cancel, at: datetime) -> Transition:
    """Stop what is under way, and go back to what a person can act on."""
    stop: tuple[Effect, ...] = (StopWork(),)
    rendered = state.output.job_id if state.output is not None else ""
    if command.owes not in (None, state.owes) or command.job_id not in ("", rendered):
        raise refuse(state, "cancel that render", "it is not what is under way any more")
    if state.paused is not None:
        return answer_budget(state, state.paused, Answer(option_id="stop"), at)
    if state.approval is not None:
        state = _decided(state)
    elif state.phase == "question" and state.question is not None and state.question.reason == "stuck":
        return unstuck(state, state.question, STOP, "", at)
    owes = state.owes
    if owes is None:
        raise refuse(state, "cancel", "nothing is under way")
    state = state.model_copy(update={"stopped": owes})
    match owes:
        case "analyze" if state.phase == "question":
            # the plan was rejected and the new question never came: begin again from the prompt
            return state.model_copy(update={"phase": "idle", "owes": None, "question": None}), stop
        case "analyze":
            return state.model_copy(update={"owes": None}), stop
        case "plan":
            back: dict[str, object] = {"owes": None}
            if state.plan is None:
                back["phase"] = "question" if state.question is not None else "idle"
            return state.model_copy(update=back), (*stop, *_reopened(state, cast("Phase", back.get("phase", "plan"))))
        case "execute":
            todos = state.execution.todos if state.execution else ()
            quiet = tuple(t if t.status != "active" else t.model_copy(update={"status": "pending"}) for t in todos)
            execution = (state.execution or Execution()).model_copy(update={"todos": quiet, "thinking": ""})
            update: dict[str, object] = {"owes": None, "execution": execution, "feedback_seen": len(state.feedback)}
            update |= {"phase": "preview"} if state.preview is not None else {"phase": "plan", "plan_accepted": False}
            phase: Phase = "preview" if state.preview is not None else "plan"
            return state.model_copy(update=update), (*stop, *_reopened(state, phase))
        case "render_final":
            job = (CancelJob(state.output.job_id),) if state.output else ()
            if state.finished is not None:  # the video that was there is still the video
                kept = {"owes": None, "phase": "complete", "output": state.finished, "finished": None}
                return state.model_copy(update=kept), (*stop, *job, ReleaseSandbox(linger=True))
            new = state.model_copy(update={"owes": None, "output": None})
            return new, (*stop, *job, ApprovalChange("preview", "pending"))


def _reopened(state: NodeState, phase: Phase) -> tuple[Effect, ...]:
    kind = {"question": "question", "plan": "plan", "preview": "preview"}.get(phase)
    return (ApprovalChange(cast("Literal['question', 'plan', 'preview']", kind), "pending"),) if kind else ()


def put_back(state: NodeState, command: PutBack, at: datetime) -> Transition:
    """Become what the session was at a point of its past, at rest."""
    effects: tuple[Effect, ...] = (StopWork(),) if state.owes is not None else ()
    if state.owes == "render_final" and state.output is not None:
        effects = (*effects, CancelJob(state.output.job_id))
    past = command.past
    if past.paused is not None:
        past = _unpaused(past, past.paused)
    if past.owes is not None or past.approval is not None:  # what was under way then is not taken up by itself
        past, _ = cancel(past, Cancel(), at)
    # what holds for the session is not of that time: its sandbox, what may be done and what may be used
    kept = ("sandbox_id", "sandbox_status", "permissions", "budget")
    here: dict[str, object] = {name: getattr(state, name) for name in kept}
    here["stopped"] = command.past.stopped  # going back stops nothing of then
    here["unread"] = tuple(each.model_copy(update={"binding": False}) for each in past.unread)  # nobody works
    return past.model_copy(update={**here, "closing": False}), effects


def fail(state: NodeState, command: Fail, at: datetime) -> Transition:
    """Enter the error phase with what went wrong, and where to take it up."""
    if state.phase == "error":
        return state, ()
    if state.paused is not None:  # what failed is the work, not the question
        state = _unpaused(state, state.paused)
    if state.approval is not None:
        state = _decided(state)
    error = ErrorInfo(
        message=command.message,
        code=command.code,
        can_retry=command.can_retry and state.owes is not None,
        details=command.details,
        phase=state.phase,
        owes=state.owes,
    )
    update: dict[str, object] = {"phase": "error", "owes": None, "error": error, "closing": False}
    job = (CancelJob(state.output.job_id),) if state.owes == "render_final" and state.output else ()
    emit = Emit("error", (("code", error.code), ("message", error.message), ("canRetry", error.can_retry)))
    return state.model_copy(update=update), (StopWork(), *job, emit, ReleaseSandbox(linger=False))
