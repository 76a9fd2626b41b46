"""From an accepted plan to a preview: the todos, what each one calls, and changes that come in between."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from pydantic import JsonValue

from koda_ray.roles.offline.conflict import conflicts_in_change
from koda_ray.roles.offline.conversation import Call, Exchange, PolicyCalls, SeenSession, Turn
from koda_ray.roles.offline.extract import find_length
from koda_ray.roles.offline.failure import MAX_ATTEMPTS, error_words, failed_too_often, why
from koda_ray.roles.offline.find import find_impossible
from koda_ray.roles.offline.given import items, mapping, parsed
from koda_ray.roles.offline.language import choices, said
from koda_ray.roles.offline.plan import make_plan, notes_of
from koda_ray.roles.offline.question import refusal
from koda_ray.roles.offline.understand import ChangeRequest, Course
from koda_ray.types import Plan

__all__ = ["execute"]

_TODO = re.compile(r"v(\d+)-(setup|finish|change|preview|scene-(\d+))$")
_TASKS = {"setup": "initial_setup", "finish": "create_component", "change": "modify_existing"}


def execute(view: SeenSession, course: Course, past: Sequence[Exchange], stopped: int, calls: PolicyCalls) -> Turn:
    """Decide the next turn of the work.

    Args:
        view: The session's state.
        course: What was asked for.
        past: The calls of the conversation.
        stopped: The last assistant message that ended its turn; what failed before it counts no more.
        calls: Makes the turn's calls.
    """
    plan = view.plan or make_plan(course.brief)
    version = len(view.feedback)
    ours = [(id_, status) for id_, status in view.todos if _TODO.fullmatch(id_)]
    if failed_too_often(past, "set_todos", stopped):
        return Turn(said("failed.todos", why=why(past)))
    known = max(_versions_of(view, past), default=version - 1 if view.has_preview else version)
    if known < version:
        _take_feedback(view, plan, course.changes[known:], ours, calls)
        return calls.turn()
    if not ours:
        calls.add("set_todos", todos=_initial_todos(plan, version))
        calls.add("set_thinking", message=said("thinking.begin"))
        return calls.turn()
    finished, todo = _standing(past, [(id_, status) for id_, status in ours if status != "done"])
    for id_, status in finished:
        if status == "pending":
            calls.add("update_todo", todo_id=id_, status="active")
        calls.add("update_todo", todo_id=id_, status="done")
    if todo is None:
        return calls.turn() if finished else Turn(_farewell(course, plan, past))
    id_, status = todo
    failures = [e for e in _work_on(past, id_) if e.turn > stopped and e.failed]
    if failures and (view.phase == "error" or len(failures) >= MAX_ATTEMPTS):
        return Turn(_giving_up(id_, failures))
    if status == "pending":
        calls.add("update_todo", todo_id=id_, status="active")
    _work(id_, view, past, course, plan, calls)
    return calls.turn()


def _initial_todos(plan: Plan, version: int) -> list[JsonValue]:
    scenes = [
        {"id": f"v{version}-scene-{s.number}", "label": said("todo.scene", number=s.number, title=s.title)}
        for s in plan.scenes
    ]
    return [
        {"id": f"v{version}-setup", "label": said("todo.setup")},
        *cast("list[JsonValue]", scenes),
        {"id": f"v{version}-finish", "label": said("todo.finish")},
        {"id": f"v{version}-preview", "label": said("todo.preview")},
    ]


def _versions(todos: Iterable[str]) -> list[int]:
    """Return how many changes had been asked for when each todo was made."""
    return [int(match.group(1)) for todo in todos if (match := _TODO.fullmatch(todo))]


def _versions_of(view: SeenSession, past: Sequence[Exchange]) -> list[int]:
    """Return how many changes had been asked for whenever todos were made; the state forgets those of a preview."""
    lists = [e.call.input.get("todos") for e in past if e.call.name == "set_todos" and not e.failed]
    told = [str(mapping(todo).get("id", "")) for todos in lists for todo in items(todos)]
    return _versions([*(id_ for id_, _ in view.todos), *told])


_Todos = list[tuple[str, str]]


def _standing(past: Sequence[Exchange], pending: _Todos) -> tuple[_Todos, tuple[str, str] | None]:
    """Return the todos whose work is done, though they are not marked yet, and the one that comes next."""
    for place, (id_, _) in enumerate(pending):
        work = _work_on(past, id_)
        if not work or work[-1].result is None or work[-1].failed:
            return pending[:place], pending[place]
    return pending, None


def _work_on(past: Sequence[Exchange], todo: str) -> list[Exchange]:
    """Return the calls that did a todo: those of its kind after the list that first named it.

    Ids of calls are the loop's own and tell nothing, and what was active when is not in a shortened conversation.
    """
    named = [e.turn for e in past if e.call.name == "set_todos" and todo in json.dumps(e.call.input)]
    return [e for e in past if e.turn >= min(named, default=0) and _does(e.call, todo)]


def _does(call: Call, todo: str) -> bool:
    match = _TODO.fullmatch(todo)
    kind = match.group(2) if match else ""
    if kind == "preview":
        return call.name == "render_preview"
    if call.name != "generate_code":
        return False
    task = call.input.get("task")
    if match and match.group(3):
        return task == "create_scene" and call.input.get("scene") == int(match.group(3))
    return task == _TASKS.get(kind)


def _work(
    id_: str, view: SeenSession, past: Sequence[Exchange], course: Course, plan: Plan, calls: PolicyCalls
) -> None:
    """Add the calls that do a todo."""
    match = _TODO.fullmatch(id_)
    kind = match.group(2) if match else "preview"
    if match and match.group(3):
        _scene(plan, int(match.group(3)), calls)
        return
    calls.add("set_thinking", message=said(f"thinking.{kind}"))
    if kind == "preview":
        calls.add("render_preview")
        return
    brief = course.brief
    about = said(
        "todo.about", seconds=brief.duration_s, width=brief.width, height=brief.height, fps=brief.fps, style=plan.style
    )
    if kind == "setup":
        calls.add("generate_code", task=_TASKS[kind], description=about)
    elif kind == "finish":
        calls.add("generate_code", task=_TASKS[kind], name="Finish", description=about)
    else:
        changes = list(dict.fromkeys(_unhandled(view, past, id_))) or list(view.feedback[-1:])
        calls.add(
            "generate_code",
            task=_TASKS[kind],
            change="; ".join(changes)[:2000],
            files=cast("JsonValue", list(view.files)),
            description=about,
        )


def _scene(plan: Plan, number: int, calls: PolicyCalls) -> None:
    scene = next((s for s in plan.scenes if s.number == number), plan.scenes[-1])
    calls.add("set_thinking", message=said("thinking.scene", title=scene.title)[:50])
    calls.add(
        "generate_code",
        task="create_scene",
        scene=number,
        name=scene.title,
        description=f"{scene.description} {scene.animation_notes}",
    )


def _unhandled(view: SeenSession, past: Sequence[Exchange], id_: str) -> Iterator[str]:
    """Yield the change requests that a change todo answers: those after the previous change's."""
    version = _versions([id_])[0]
    earlier = [known for known in _versions_of(view, past) if known < version]
    yield from view.feedback[max(earlier, default=version - 1) : version]


def _take_feedback(
    view: SeenSession, plan: Plan, changes: Sequence[ChangeRequest], ours: _Todos, calls: PolicyCalls
) -> None:
    """Answer new change requests: say how they are read, keep unfinished steps, add the change and a preview."""
    for change in changes:
        calls.add("send_message", content=_reading(change))
    labels = {t["id"]: t["label"] for t in cast("list[dict[str, str]]", _initial_todos(plan, 0))}
    kept: list[JsonValue] = []
    for id_, status in ours:
        kind = id_.split("-", 1)[1]
        if status != "done" and kind not in ("preview", "change"):
            kept.append({"id": id_, "label": labels.get(f"v0-{kind}", kind)})
    version, last = len(view.feedback), (changes[-1].words if changes else view.feedback[-1]).strip()
    label = last if len(last) <= 60 else last[:57] + "…"
    is_left = changes and all(change.left and not change.done for change in changes)
    kept.append({"id": f"v{version}-change", "label": said("todo.leave" if is_left else "todo.change", words=label)})
    kept.append({"id": f"v{version}-preview", "label": said("todo.preview_again")})
    calls.add("set_todos", todos=kept)


def _reading(change: ChangeRequest) -> str:
    """Say what a change request will do: how a contradiction is read, what was understood, or what was not."""
    length = find_length(change.words)
    if (reason := find_impossible(change.words, length.seconds if length else None)) is not None:
        options = ", ".join(said("reading.quoted", words=label) for _, label, _ in choices(f"instead.{reason}"))
        return said("reading.impossible", reason=refusal(reason), options=options)
    conflict = " ".join(c.reading for c in conflicts_in_change(change.words))
    if conflict:
        return " ".join((said("reading.conflict", conflict=conflict), *change.left))
    if change.done or change.left:
        done = [said("reading.changing", changes=", ".join(change.done))] if change.done else []
        return " ".join((*done, *change.left))
    return said("reading.unknown", words=change.words[:120], vocabulary=said("vocabulary"))


def _giving_up(todo: str, failures: Sequence[Exchange]) -> str:
    what = said("failed.preview" if todo.endswith("preview") else "failed.code")
    tries = said("failed.once") if len(failures) == 1 else said("failed.times", count=len(failures))
    return said("failed.work", what=what, tries=tries, reason=error_words(failures[-1].result or ""))


def _farewell(course: Course, plan: Plan, past: Sequence[Exchange]) -> str:
    shown = next((e.result for e in reversed(past) if e.call.name == "render_preview" and not e.failed), None)
    if parsed(shown or "").get("status") == "unchanged":
        return said("same")
    notes = "".join(f" {note}" for note in notes_of(course.brief))
    return said("farewell", seconds=course.brief.duration_s, style=plan.style.lower(), notes=notes)
