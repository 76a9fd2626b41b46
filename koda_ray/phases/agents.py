"""What agents, and the render that they lead to, say to a session: questions, plans, todos, files, the result."""

from __future__ import annotations

from datetime import datetime

from koda_ray.commands import (
    ApprovalChange,
    Ask,
    Closed,
    Deliver,
    Emit,
    Finished,
    Heed,
    Previewed,
    Propose,
    ReleaseSandbox,
    SetTodos,
    SetTodoStatus,
    Think,
    Wrote,
)
from koda_ray.errors import InvalidInput
from koda_ray.phases.interruptions import stuck
from koda_ray.phases.parts import Transition, binding, person_said, refuse, was_spoken_to
from koda_ray.phases.plans import check_scenes
from koda_ray.types import Execution, NodeState, Pointed, Todo

__all__ = [
    "ask",
    "closed",
    "deliver",
    "finished",
    "heed",
    "previewed",
    "propose",
    "set_todo_status",
    "set_todos",
    "think",
    "wrote",
]


def ask(state: NodeState, command: Ask, at: datetime) -> Transition:
    """Put a question that comes before the plan, or say that the agents are stuck."""
    if command.question.reason == "stuck":
        return stuck(state, command)
    if state.owes not in ("analyze", "plan"):
        raise refuse(state, "ask", "a question comes before the plan")
    if state.owes == "plan" and command.question.reason in ("style", "unclear"):
        raise InvalidInput(
            "the one question has been asked and answered; choose what fits the answer and propose a plan",
            context={"field": "reason"},
        )
    if was_spoken_to(state):  # meanwhile: that comes before the question
        return binding(state), ()
    update: dict[str, object] = {"phase": "question", "owes": None, "question": command.question, "plan": None}
    return state.model_copy(update=update), (ApprovalChange("question", "pending"),)


def propose(state: NodeState, command: Propose, at: datetime) -> Transition:
    """Show a plan to the person."""
    if state.owes not in ("analyze", "plan"):
        raise refuse(state, "propose a plan", "a plan comes before the work")
    total = sum(scene.duration for scene in command.plan.scenes)
    if abs(total - command.plan.total_duration) > 0.01:
        raise InvalidInput(
            f"the scenes last {total:g} s together the plan says {command.plan.total_duration:g} s; make them equal",
            context={"field": "total_duration"},
        )
    check_scenes(command.plan)
    update: dict[str, object] = {"phase": "plan", "owes": None, "plan": command.plan, "plan_accepted": False}
    update["plan_edited"] = False
    update["style"] = state.style or command.plan.style
    if was_spoken_to(state):  # meanwhile: the plan must take it in
        return binding(state.model_copy(update=update | {"owes": "plan"})), ()
    return state.model_copy(update=update), (ApprovalChange("plan", "pending"),)


def _working(state: NodeState, what: str) -> Execution:
    if state.phase != "executing" or state.execution is None:
        raise refuse(state, what, "that belongs to phase executing")
    return state.execution


def set_todos(state: NodeState, command: SetTodos, at: datetime) -> Transition:
    """Make the list of things to do; what was done stays done."""
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


def set_todo_status(state: NodeState, command: SetTodoStatus, at: datetime) -> Transition:
    """Move one thing on the list."""
    execution = _working(state, "change a todo")
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


def think(state: NodeState, command: Think, at: datetime) -> Transition:
    """Say what is being done now."""
    message = command.message.strip()[:100]
    emit = Emit("thinking", (("message", message),))
    if state.execution is None:
        return state, (emit,)
    return state.model_copy(update={"execution": state.execution.model_copy(update={"thinking": message})}), (emit,)


def wrote(state: NodeState, command: Wrote, at: datetime) -> Transition:
    """Note files that were written."""
    execution = _working(state, "write files")
    files = tuple(sorted({*execution.files, *(path for path, _ in command.files)} - {*command.removed}))
    new = state.model_copy(update={"execution": execution.model_copy(update={"files": files})})
    return new, tuple(Emit("file_written", (("path", path), ("size", size))) for path, size in command.files)


def heed(state: NodeState, command: Heed, at: datetime) -> Transition:
    """Have the agents hear what was said while they worked."""
    said = next((each for each in state.unread if each.id == command.id), None)
    if said is None:
        raise refuse(state, f"heed {command.id}", "it was taken back, or heeded before")
    update: dict[str, object] = {
        "feedback": (*state.feedback, said.told),
        "unread": tuple(each for each in state.unread if each is not said),
    }
    if said.notes:
        pointed = Pointed(change=len(state.feedback) + 1, words=said.words, notes=said.notes)
        update["pointed"] = (*state.pointed, pointed)
    return state.model_copy(update=update), (person_said(said.told),)


def deliver(state: NodeState, command: Deliver, at: datetime) -> Transition:
    """Note how much of what the person said the agents have been told."""
    seen = max(state.feedback_seen, min(command.count, len(state.feedback)))
    return state.model_copy(update={"feedback_seen": seen}), ()


def previewed(state: NodeState, command: Previewed, at: datetime) -> Transition:
    """Show a preview, and rest where nothing is left to be done; the one that is shown already is no news."""
    execution = _working(state, "show a preview")
    preview = command.preview
    news = Emit("preview_ready", (("url", preview.video_url), ("duration", preview.duration)))
    ready = () if preview == state.preview else (news,)
    # something was said meanwhile, or another agent's call still waits for agreement: show it, and go on working
    if was_spoken_to(state) or state.approval is not None:
        return binding(state.model_copy(update={"preview": preview})), ready
    done = tuple(todo.model_copy(update={"status": "done"}) for todo in execution.todos)
    changed = tuple(_todo(t) for t, before in zip(done, execution.todos, strict=True) if t != before)
    update: dict[str, object] = {
        "phase": "preview",
        "owes": None,
        "preview": preview,
        "closing": True,
        "output": None,
        "execution": execution.model_copy(update={"todos": done, "thinking": ""}),
    }
    return state.model_copy(update=update), (*changed, *ready, ApprovalChange("preview", "pending"))


def closed(state: NodeState, command: Closed, at: datetime) -> Transition:
    """Note that nothing more is to be said about the preview."""
    return state.model_copy(update={"closing": False}), ()


def finished(state: NodeState, command: Finished, at: datetime) -> Transition:
    """End with the rendered video."""
    if state.owes != "render_final" or state.output is None:
        raise refuse(state, "finish", "no final render is under way")
    if command.output.job_id != state.output.job_id or command.output.video_url is None:
        raise InvalidInput(
            f"job {command.output.job_id} is not the render under way ({state.output.job_id}), or has no video",
            context={"job_id": command.output.job_id},
        )
    update: dict[str, object] = {"phase": "complete", "owes": None, "output": command.output, "completed_at": at}
    update["finished"] = None
    return state.model_copy(update=update), (ReleaseSandbox(linger=True),)
