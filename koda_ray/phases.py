"""The phase machine: ``(state, command) -> (state, effects)``, pure.

Seven phases: idle, question, plan, executing, preview, complete, error. A command comes from a person (start, answer,
accept, ...) or from the agents (ask, propose, previewed, ...). Whatever must still be done stands in ``state.owes``
and so in the session's row: a process that dies leaves nothing owed that the row does not show. Time and ids come in
with the command, so the same commands give the same states.

    idle -> question | plan            question -> plan            plan -> executing | question | plan
    executing -> preview | error       preview -> complete | executing | preview
    complete -> executing | preview    error -> whatever it failed in; any -> error
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import JsonValue

from koda_ray.commands import (
    Accept,
    Answer,
    ApprovalMove,
    Ask,
    Cancel,
    CancelJob,
    Command,
    Deliver,
    Effect,
    Emit,
    Fail,
    Finished,
    MoveTodo,
    Previewed,
    Propose,
    Reject,
    ReleaseSandbox,
    Render,
    RequestChanges,
    Retry,
    Say,
    SetTodos,
    Start,
    StopWork,
    Think,
    Wrote,
)
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.types import (
    MAX_PROMPT_CHARS,
    MIN_SCENE_S,
    ErrorInfo,
    Execution,
    NodeState,
    Output,
    Owes,
    Phase,
    Plan,
    RenderOptions,
    Todo,
)

__all__ = ["Step", "apply", "check", "scene_bounds"]


Step = tuple[NodeState, tuple[Effect, ...]]


def apply(state: NodeState, command: Command, at: datetime) -> Step:
    """Move a state by one command.

    Args:
        state: Any valid state.
        command: What was said.
        at: When, aware, in UTC.

    Returns:
        The new state, and what its owner must do: Emit and ApprovalMove with the state's own transaction, the others
        after it.

    Raises:
        InvalidTransition: The phase does not take the command; the message says what it does take.
        InvalidInput: The command's value is empty, too long or unknown.
    """
    handler = cast("Callable[[NodeState, Any, datetime], Step]", _HANDLERS[type(command)])
    new, effects = handler(state, command, at)
    if new == state and not effects:
        return state, ()
    new = new.model_copy(update={"updated_at": at})
    if new.phase != state.phase or new.owes != state.owes:
        effects = (*effects, _announce(new))
    return new, effects


def scene_bounds(duration: float) -> tuple[int, int]:
    """Return how few and how many scenes a film of ``duration`` seconds may have."""
    if duration < 5:
        return 1, max(1, int(duration / MIN_SCENE_S))
    if duration < 15:
        return 3, min(7, int(duration / MIN_SCENE_S))
    return 5, 12 if duration <= 60 else max(12, int(duration / 5))


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
    must(state.owes in allowed[state.phase], f"owes {state.owes}")
    must(0 <= state.feedback_seen <= len(state.feedback), "feedback_seen is out of range")
    match state.phase:
        case "question":
            must(state.owes == "analyze" or state.question is not None, "has no question")
        case "plan":
            must(state.owes == "plan" or state.plan is not None, "has no plan")
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
    must(state.phase == "error" or state.error is None, "carries an error")
    return wrong


# --- handlers -------------------------------------------------------------------------------------------------------


def _announce(state: NodeState) -> Emit:
    dumped = cast("JsonValue", state.model_dump(mode="json", by_alias=True))
    return Emit("state_change", (("phase", state.phase), ("owes", state.owes), ("state", dumped)))


def _said(text: str) -> Emit:
    return Emit("message", (("role", "user"), ("content", text)))


def _refuse(state: NodeState, what: str, instead: str) -> InvalidTransition:
    under_way = f" while {state.owes} is under way" if state.owes else ""
    return InvalidTransition(
        f"cannot {what} in phase {state.phase}{under_way}; {instead}",
        context={"phase": state.phase, "owes": state.owes},
    )


def _text(value: str | None, what: str) -> str:
    text = (value or "").strip()
    if not text:
        raise InvalidInput(f"{what} is empty; say it in a few words", context={"field": what})
    if len(text) > MAX_PROMPT_CHARS:
        raise InvalidInput(
            f"{what} has {len(text)} characters; at most {MAX_PROMPT_CHARS} are taken, so shorten it",
            context={"field": what, "length": len(text)},
        )
    return text


def _start(state: NodeState, command: Start, at: datetime) -> Step:
    if state.phase != "idle" or state.owes is not None:
        raise _refuse(state, "start", "a session starts once; send a message instead")
    prompt = _text(command.prompt if command.prompt is not None else state.prompt, "prompt")
    return state.model_copy(update={"prompt": prompt, "owes": "analyze"}), (_said(prompt),)


def _answer(state: NodeState, command: Answer, at: datetime) -> Step:
    if state.phase != "question" or state.owes is not None or state.question is None:
        raise _refuse(state, "answer", "there is no open question")
    question = state.question
    words = (command.text or "").strip()
    known = {option.id: option for option in question.options}
    if command.option_id is not None and command.option_id not in known:
        names = ", ".join(known) or "none; answer with text"
        raise InvalidInput(
            f"no option {command.option_id!r}; the options are: {names}", context={"option_id": command.option_id}
        )
    if command.option_id is None:
        words = _text(command.text, "answer")
    label = known[command.option_id].label if command.option_id is not None else ""
    answer = ": ".join(part for part in (label, words) if part)
    update: dict[str, object] = {"answer": answer, "phase": "plan", "owes": "plan", "plan": None}
    if question.reason in ("style", "rejected"):
        update["style"] = command.option_id if command.option_id is not None and not words else answer
    move = ApprovalMove("question", "approved", (("optionId", command.option_id), ("text", words or None)))
    return state.model_copy(update=update), (move, _said(answer))


def _accept(state: NodeState, command: Accept, at: datetime) -> Step:
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
        return new, (ApprovalMove("plan", "approved"),)
    if state.phase == "preview" and state.owes is None:
        return _render_final(state, state.render or RenderOptions(), command.job_id)
    raise _refuse(state, "accept", "only a finished plan or preview can be accepted")


def _render_final(state: NodeState, options: RenderOptions, job_id: str) -> Step:
    if not job_id:
        raise InvalidInput("a final render needs a job id", context={"field": "job_id"})
    update: dict[str, object] = {
        "phase": "preview",
        "owes": "render_final",
        "render": options,
        "output": Output(job_id=job_id),
        "finished": state.output if state.phase == "complete" else None,
        "completed_at": None,
    }
    return state.model_copy(update=update), (ApprovalMove("preview", "approved"),)


def _reject(state: NodeState, command: Reject, at: datetime) -> Step:
    if state.phase == "plan" and state.owes is None:
        words = command.feedback.strip()
        update: dict[str, object] = {"phase": "question", "owes": "analyze", "plan": None, "question": None}
        effects: tuple[Effect, ...] = (ApprovalMove("plan", "rejected", (("feedback", words),)),)
        if words:
            words = _text(words, "feedback")
            update["feedback"] = (*state.feedback, words)
            update["feedback_seen"] = len(state.feedback) + 1
            effects = (*effects, _said(words))
        return state.model_copy(update=update), effects
    if state.phase in ("preview", "complete") and state.owes is None:
        return _iterate(state, _text(command.feedback, "feedback"))
    raise _refuse(state, "reject", "only a finished plan, preview or video can be rejected")


def _request_changes(state: NodeState, command: RequestChanges, at: datetime) -> Step:
    words = _text(command.feedback, "feedback")
    if state.phase == "plan" and state.owes is None:
        update = {"owes": "plan", "feedback": (*state.feedback, words), "feedback_seen": len(state.feedback) + 1}
        return state.model_copy(update=update), (ApprovalMove("plan", "rejected", (("feedback", words),)), _said(words))
    if state.phase in ("preview", "complete"):
        return _iterate(state, words)
    raise _refuse(state, "request changes", "there is no plan or preview to change; send a message instead")


def _iterate(state: NodeState, words: str) -> Step:
    """Go from preview or complete back to work, with feedback; a final render under way is given up."""
    effects: tuple[Effect, ...] = (_said(words),)
    if state.owes == "render_final" and state.output is not None:
        effects = (StopWork(), CancelJob(state.output.job_id), *effects)
    files = state.execution.files if state.execution else ()
    update: dict[str, object] = {
        "phase": "executing",
        "owes": "execute",
        "feedback": (*state.feedback, words),
        "execution": Execution(files=files),
        "output": None,
        "finished": None,
        "completed_at": None,
    }
    return state.model_copy(update=update), (ApprovalMove("preview", "rejected", (("feedback", words),)), *effects)


def _say(state: NodeState, command: Say, at: datetime) -> Step:
    words = _text(command.text, "message")
    if state.phase == "idle" and state.owes is None:
        return _start(state, Start(words), at)
    if state.owes in ("analyze", "plan", "execute"):
        return state.model_copy(update={"feedback": (*state.feedback, words)}), (_said(words),)
    match state.phase:
        case "question":
            return _answer(state, Answer(text=words), at)
        case "plan":
            return _request_changes(state, RequestChanges(words), at)
        case "error":
            return _say(_resume(state)[0], command, at)
        case _:
            return _iterate(state, words)


def _cancel(state: NodeState, command: Cancel, at: datetime) -> Step:
    stop: tuple[Effect, ...] = (StopWork(),)
    match state.owes:
        case None:
            raise _refuse(state, "cancel", "nothing is under way")
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
            return new, (*stop, *job, ApprovalMove("preview", "pending"))


def _reopened(state: NodeState, phase: Phase) -> tuple[Effect, ...]:
    kind = {"question": "question", "plan": "plan", "preview": "preview"}.get(phase)
    return (ApprovalMove(cast("Literal['question', 'plan', 'preview']", kind), "pending"),) if kind else ()


def _retry(state: NodeState, command: Retry, at: datetime) -> Step:
    if state.phase != "error" or state.error is None:
        raise _refuse(state, "retry", "nothing has failed")
    if not state.error.can_retry:
        raise _refuse(state, "retry", "trying the same again would fail again; send a message that changes the request")
    return _resume(state)


def _resume(state: NodeState) -> Step:
    """Leave the error phase for the one it came from, owing what was owed."""
    error = state.error
    if error is None:
        raise _refuse(state, "go on", "nothing has failed")
    update: dict[str, object] = {"phase": error.phase, "owes": error.owes, "error": None}
    return state.model_copy(update=update), ()


def _render(state: NodeState, command: Render, at: datetime) -> Step:
    if state.phase in ("preview", "complete") and state.owes is None:
        return _render_final(state, command.options, command.job_id)
    raise _refuse(state, "render", "a preview must be ready first")


def _ask(state: NodeState, command: Ask, at: datetime) -> Step:
    if state.owes not in ("analyze", "plan"):
        raise _refuse(state, "ask", "a question comes before the plan")
    if state.owes == "plan" and command.question.reason in ("style", "unclear"):
        raise InvalidInput(
            "the one question has been asked and answered; choose what fits the answer and propose a plan",
            context={"field": "reason"},
        )
    if state.feedback_seen < len(state.feedback):  # something was said meanwhile: it comes before the question
        return state, ()
    update: dict[str, object] = {"phase": "question", "owes": None, "question": command.question, "plan": None}
    return state.model_copy(update=update), (ApprovalMove("question", "pending"),)


def _propose(state: NodeState, command: Propose, at: datetime) -> Step:
    if state.owes not in ("analyze", "plan"):
        raise _refuse(state, "propose a plan", "a plan comes before the work")
    total = sum(scene.duration for scene in command.plan.scenes)
    if abs(total - command.plan.total_duration) > 0.01:
        raise InvalidInput(
            f"the scenes last {total:g} s together the plan says {command.plan.total_duration:g} s; make them equal",
            context={"field": "total_duration"},
        )
    _check_scenes(command.plan)
    update: dict[str, object] = {"phase": "plan", "owes": None, "plan": command.plan, "plan_accepted": False}
    update["style"] = state.style or command.plan.style
    if state.feedback_seen < len(state.feedback):  # something was said meanwhile: the plan must take it in
        return state.model_copy(update=update | {"owes": "plan"}), ()
    return state.model_copy(update=update), (ApprovalMove("plan", "pending"),)


def _check_scenes(plan: Plan) -> None:
    """Hold a plan against the rules for scenes; what it breaks is said with the way out."""
    duration = plan.total_duration
    least, most = scene_bounds(duration)
    if not least <= len(plan.scenes) <= most:
        raise InvalidInput(
            f"{len(plan.scenes)} scenes in {duration:g} s; a film of that length has {least} to {most}",
            context={"field": "scenes"},
        )
    short = next((s for s in plan.scenes if s.duration < min(MIN_SCENE_S, duration) - 1e-6), None)
    if short is not None:
        raise InvalidInput(
            f"scene {short.number} lasts {short.duration:g} s; a scene needs at least {MIN_SCENE_S:g} s to be seen",
            context={"field": "scenes"},
        )


def _working(state: NodeState, what: str) -> Execution:
    if state.phase != "executing" or state.execution is None:
        raise _refuse(state, what, "that belongs to phase executing")
    return state.execution


def _set_todos(state: NodeState, command: SetTodos, at: datetime) -> Step:
    execution = _working(state, "set todos")
    ids = [todo.id for todo in command.todos]
    if len(set(ids)) != len(ids):
        raise InvalidInput(f"todo ids must differ; got {ids}", context={"field": "todos"})
    done = {todo.id for todo in execution.todos if todo.status == "done"}
    todos = tuple(t.model_copy(update={"status": "done"}) if t.id in done else t for t in command.todos)
    new = state.model_copy(update={"execution": execution.model_copy(update={"todos": todos})})
    return new, tuple(_todo(t) for t in todos)


def _todo(todo: Todo) -> Emit:
    return Emit("todo_update", (("todoId", todo.id), ("label", todo.label), ("status", todo.status)))


def _move_todo(state: NodeState, command: MoveTodo, at: datetime) -> Step:
    execution = _working(state, "move a todo")
    if command.todo_id not in {todo.id for todo in execution.todos}:
        names = ", ".join(todo.id for todo in execution.todos) or "none"
        raise InvalidInput(f"no todo {command.todo_id!r}; the todos are: {names}", context={"todo_id": command.todo_id})
    moved = tuple(
        todo.model_copy(update={"status": command.status}) if todo.id == command.todo_id else todo
        for todo in execution.todos
    )
    if moved == execution.todos:
        return state, ()
    new = state.model_copy(update={"execution": execution.model_copy(update={"todos": moved})})
    return new, tuple(_todo(todo) for todo in moved if todo.id == command.todo_id)


def _think(state: NodeState, command: Think, at: datetime) -> Step:
    message = command.message.strip()[:100]
    emit = Emit("thinking", (("message", message),))
    if state.execution is None:
        return state, (emit,)
    return state.model_copy(update={"execution": state.execution.model_copy(update={"thinking": message})}), (emit,)


def _wrote(state: NodeState, command: Wrote, at: datetime) -> Step:
    execution = _working(state, "write files")
    files = tuple(sorted({*execution.files, *(path for path, _ in command.files)}))
    new = state.model_copy(update={"execution": execution.model_copy(update={"files": files})})
    return new, tuple(Emit("file_written", (("path", path), ("size", size))) for path, size in command.files)


def _deliver(state: NodeState, command: Deliver, at: datetime) -> Step:
    seen = max(state.feedback_seen, min(command.count, len(state.feedback)))
    return state.model_copy(update={"feedback_seen": seen}), ()


def _previewed(state: NodeState, command: Previewed, at: datetime) -> Step:
    execution = _working(state, "show a preview")
    preview = command.preview
    ready = Emit("preview_ready", (("url", preview.video_url), ("duration", preview.duration)))
    if state.feedback_seen < len(state.feedback):  # something was said meanwhile: show it, and go on working
        return state.model_copy(update={"preview": preview}), (ready,)
    done = tuple(todo.model_copy(update={"status": "done"}) for todo in execution.todos)
    changed = tuple(_todo(t) for t, before in zip(done, execution.todos, strict=True) if t != before)
    update: dict[str, object] = {
        "phase": "preview",
        "owes": None,
        "preview": preview,
        "output": None,
        "execution": execution.model_copy(update={"todos": done, "thinking": ""}),
    }
    return state.model_copy(update=update), (*changed, ready, ApprovalMove("preview", "pending"))


def _finished(state: NodeState, command: Finished, at: datetime) -> Step:
    if state.owes != "render_final" or state.output is None:
        raise _refuse(state, "finish", "no final render is under way")
    if command.output.job_id != state.output.job_id or command.output.video_url is None:
        raise InvalidInput(
            f"job {command.output.job_id} is not the render under way ({state.output.job_id}), or has no video",
            context={"job_id": command.output.job_id},
        )
    update: dict[str, object] = {"phase": "complete", "owes": None, "output": command.output, "completed_at": at}
    update["finished"] = None
    return state.model_copy(update=update), (ReleaseSandbox(linger=True),)


def _fail(state: NodeState, command: Fail, at: datetime) -> Step:
    if state.phase == "error":
        return state, ()
    error = ErrorInfo(
        message=command.message,
        code=command.code,
        can_retry=command.can_retry and state.owes is not None,
        details=command.details,
        phase=state.phase,
        owes=state.owes,
    )
    update: dict[str, object] = {"phase": "error", "owes": None, "error": error}
    job = (CancelJob(state.output.job_id),) if state.owes == "render_final" and state.output else ()
    emit = Emit("error", (("code", error.code), ("message", error.message), ("canRetry", error.can_retry)))
    return state.model_copy(update=update), (StopWork(), *job, emit, ReleaseSandbox(linger=False))


_HANDLERS: dict[type, object] = {
    Start: _start,
    Answer: _answer,
    Accept: _accept,
    Reject: _reject,
    RequestChanges: _request_changes,
    Say: _say,
    Cancel: _cancel,
    Retry: _retry,
    Render: _render,
    Ask: _ask,
    Propose: _propose,
    SetTodos: _set_todos,
    MoveTodo: _move_todo,
    Think: _think,
    Wrote: _wrote,
    Deliver: _deliver,
    Previewed: _previewed,
    Finished: _finished,
    Fail: _fail,
}
