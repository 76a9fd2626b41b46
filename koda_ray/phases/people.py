"""What a person says to a session: how it begins, what they answer, accept and want changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from koda_ray.commands import (
    Accept,
    Answer,
    ApprovalChange,
    CancelJob,
    Effect,
    Reject,
    Render,
    RequestChanges,
    Retry,
    Say,
    SetPermissions,
    Start,
    StopWork,
    TakeBack,
)
from koda_ray.errors import InvalidInput
from koda_ray.phases.interruptions import answer_budget, unstuck
from koda_ray.phases.parts import Transition, announce, asked, person_said, refuse, words_of
from koda_ray.types import Answered, Execution, NodeState, Output, RenderOptions, Unread

__all__ = [
    "accept",
    "answer",
    "reject",
    "render",
    "request_changes",
    "retry",
    "say",
    "set_permissions",
    "start",
    "take_back",
]


def start(state: NodeState, command: Start, at: datetime) -> Transition:
    """Begin."""
    if state.phase != "idle" or state.owes is not None:
        raise refuse(state, "start", "a session starts once; send a message instead")
    prompt = words_of(command.prompt if command.prompt is not None else state.prompt, "prompt")
    return state.model_copy(update={"prompt": prompt, "owes": "analyze"}), (person_said(prompt),)


def answer(state: NodeState, command: Answer, at: datetime) -> Transition:
    """Answer the open question."""
    if state.phase != "question" or state.owes is not None or state.question is None:
        raise refuse(state, "answer", "there is no open question")
    question = state.question
    if state.paused is not None:
        return answer_budget(state, state.paused, command, at)
    words = (command.text or "").strip()
    known = {option.id: option for option in question.options}
    if command.option_id is not None and command.option_id not in known:
        names = ", ".join(known) or "none; answer with text"
        raise InvalidInput(
            f"no option {command.option_id!r}; the options are: {names}",
            context={"field": "option_id", "option_id": command.option_id},
        )
    if command.option_id is None:
        words = words_of(command.text, "answer", field="text")
    elif question.needs_words(command.option_id) and not words:
        raise InvalidInput(
            f"option {command.option_id!r} stands for your own words, and there are none; say in text what you want",
            context={"field": "text"},
        )
    label = known[command.option_id].label if command.option_id is not None else None
    answer = ": ".join(part for part in (label, words) if part)
    if question.reason == "stuck":
        return unstuck(state, question, command.option_id, answer, at)
    changes = len(state.feedback)
    given = Answered(option_id=command.option_id, label=label, text=words or None, after_changes=changes)
    update: dict[str, object] = {"answer": answer, "answers": (*state.answers, given), "phase": "plan", "owes": "plan"}
    update["plan"] = None
    if question.reason in ("style", "rejected"):
        update["style"] = command.option_id if command.option_id is not None and not words else answer
    change = ApprovalChange("question", "approved", (("optionId", command.option_id), ("text", words or None)))
    return state.model_copy(update=update), (change, person_said(answer, asked=question.text))


def accept(state: NodeState, command: Accept, at: datetime) -> Transition:
    """Accept the plan, or the preview, which is rendered then."""
    if state.phase == "plan" and state.owes is None:
        new = state.model_copy(
            update={
                "phase": "executing",
                "owes": "execute",
                "plan_accepted": True,
                "execution": Execution(files=state.execution.files if state.execution else ()),
                "feedback_seen": len(state.feedback),
                "started_at": at,
            }
        )
        return new, (ApprovalChange("plan", "approved"),)
    if state.phase == "preview" and state.owes is None:
        return _render_final(state, state.render or RenderOptions(), command.job_id)
    raise refuse(state, "accept", "only a finished plan or preview can be accepted")


def render(state: NodeState, command: Render, at: datetime) -> Transition:
    """Render the preview with options of the person's choice."""
    if state.phase in ("preview", "complete") and state.owes is None:
        return _render_final(state, command.options, command.job_id)
    raise refuse(state, "render", "a preview must be ready first")


def _render_final(state: NodeState, options: RenderOptions, job_id: str) -> Transition:
    if not job_id:
        raise InvalidInput("a final render needs a job id", context={"field": "job_id"})
    update: dict[str, object] = {
        "phase": "preview",
        "owes": "render_final",
        "render": options,
        "output": Output(job_id=job_id),
        "finished": state.output if state.phase == "complete" else None,
        "completed_at": None,
        "closing": False,
    }
    return state.model_copy(update=update), (ApprovalChange("preview", "approved"),)


def reject(state: NodeState, command: Reject, at: datetime) -> Transition:
    """Reject the plan, or what was made of it."""
    if state.phase == "plan" and state.owes is None:
        words = command.feedback.strip()
        update: dict[str, object] = {"phase": "question", "owes": "analyze", "plan": None, "question": None}
        effects: tuple[Effect, ...] = (ApprovalChange("plan", "rejected", (("feedback", words),)),)
        if words:
            words = words_of(words, "feedback")
            update["feedback"] = (*state.feedback, words)
            update["feedback_seen"] = len(state.feedback) + 1
            effects = (*effects, person_said(words))
        return state.model_copy(update=update), effects
    if state.phase in ("preview", "complete") and state.owes is None:
        return _iterate(state, *asked(state, command.feedback, (), "feedback"))
    raise refuse(state, "reject", "only a finished plan, preview or video can be rejected")


def request_changes(state: NodeState, command: RequestChanges, at: datetime) -> Transition:
    """Have the plan, or what was made of it, changed."""
    words, update = asked(state, command.feedback, command.notes, "feedback")
    if state.phase == "plan" and state.owes is None:
        update |= {"owes": "plan", "feedback_seen": len(state.feedback) + 1}
        return state.model_copy(update=update), (
            ApprovalChange("plan", "rejected", (("feedback", words),)),
            person_said(words),
        )
    if state.phase in ("preview", "complete"):
        return _iterate(state, words, update)
    raise refuse(state, "request changes", "there is no plan or preview to change; send a message instead")


def _iterate(state: NodeState, words: str, asked_for: Mapping[str, object]) -> Transition:
    """Go from preview or complete back to work, with what was asked for; a final render under way is given up."""
    effects: tuple[Effect, ...] = (person_said(words),)
    if state.owes == "render_final" and state.output is not None:
        effects = (StopWork(), CancelJob(state.output.job_id), *effects)
    files = state.execution.files if state.execution else ()
    update: dict[str, object] = {
        **asked_for,
        "phase": "executing",
        "owes": "execute",
        "execution": Execution(files=files),
        "output": None,
        "finished": None,
        "completed_at": None,
        "closing": False,
    }
    return state.model_copy(update=update), (ApprovalChange("preview", "rejected", (("feedback", words),)), *effects)


def say(state: NodeState, command: Say, at: datetime) -> Transition:
    """Say something, which means what it can mean where the session stands."""
    words, update = asked(state, command.text, command.notes, "message", field="text")
    works = state.owes in ("analyze", "plan", "execute") or state.approval is not None
    if command.waits is not None and state.phase != "error" and command.waits != works:
        raise refuse(state, "say that", "the agents have come to rest, or begun, meanwhile; say it again")
    if state.paused is not None:
        return answer(state, Answer(option_id=words if words in ("more", "again", "stop") else None), at)
    if state.phase == "idle" and state.owes is None and state.approval is None:
        return start(state, Start(words), at)
    if works:
        said = Unread(id=command.id, words=command.text.strip(), notes=command.notes, told=words, at=at)
        return state.model_copy(update={"unread": (*state.unread, said)}), ()
    match state.phase:
        case "question":
            return answer(state, Answer(text=words), at)
        case "plan":
            return request_changes(state, RequestChanges(command.text, command.notes), at)
        case "error":
            new, effects = say(_resume(state)[0], command, at)
            return _bound(new, command.id), effects  # the work is taken up because of it
        case _:
            return _iterate(state, words, update)


def _bound(state: NodeState, command_id: str) -> NodeState:
    unread = tuple(
        each.model_copy(update={"binding": True}) if each.id == command_id else each for each in state.unread
    )
    return state.model_copy(update={"unread": unread})


def take_back(state: NodeState, command: TakeBack, at: datetime) -> Transition:
    """Have not said something that the agents have not begun to heed."""
    said = next((each for each in state.unread if each.id == command.id and not each.binding), None)
    if said is None:
        instead = "it is worked on, was heeded, or was not said here; stop the work (cancel), go back to before it "
        raise refuse(state, f"take back message {command.id}", f"{instead}(rewind), or say what is to be different")
    return state.model_copy(update={"unread": tuple(each for each in state.unread if each is not said)}), ()


def retry(state: NodeState, command: Retry, at: datetime) -> Transition:
    """Take up what failed."""
    if state.phase != "error" or state.error is None:
        raise refuse(state, "retry", "nothing has failed")
    if not state.error.can_retry:
        raise refuse(state, "retry", "trying the same again would fail again; send a message that changes the request")
    return _resume(state)


def _resume(state: NodeState) -> Transition:
    """Leave the error phase for the one it came from, owing what was owed."""
    error = state.error
    if error is None:
        raise refuse(state, "go on", "nothing has failed")
    update: dict[str, object] = {"phase": error.phase, "owes": error.owes, "error": None}
    return state.model_copy(update=update), ()


def set_permissions(state: NodeState, command: SetPermissions, at: datetime) -> Transition:
    """Set what agents may do by themselves."""
    if command.permissions == state.permissions:
        return state, ()
    new = state.model_copy(update={"permissions": command.permissions})
    return new, (announce(new),)
