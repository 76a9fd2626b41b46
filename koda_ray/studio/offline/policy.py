"""What the orchestrator does next: a pure function from the session's state and the conversation to one turn.

It keeps nothing between calls, so a session can be stopped anywhere and go on in another process: todos that are done
stay done, and a call whose result is in the conversation is not made again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from koda_ray.llm.base import Message
from koda_ray.studio.offline.answer import ANSWERS, with_own_words
from koda_ray.studio.offline.brief import Brief, Impossible
from koda_ray.studio.offline.conflict import conflicts_in_change
from koda_ray.studio.offline.extract import find_length
from koda_ray.studio.offline.find import find_impossible
from koda_ray.studio.offline.language import choices, said
from koda_ray.studio.offline.plan import describe_plan, make_plan, notes_of
from koda_ray.studio.offline.understand import ChangeRequest, Course, Said, answers_of, understand
from koda_ray.types import MAX_DURATION_S, Plan

__all__ = ["Call", "SeenSession", "Turn", "next_turn", "read_state"]

_MAX_ATTEMPTS = 3
_STATE = re.compile(r"<state>\s*(\{.*\})\s*</state>", re.S)
_SESSION = re.compile(r"<session>\s*(\{.*\})\s*</session>", re.S)


@dataclass(frozen=True)
class Call:
    """A tool to run."""

    id: str
    name: str
    input: dict[str, JsonValue]


@dataclass(frozen=True)
class Turn:
    """One assistant message: words, and the tools it wants run in order; no tools ends the turn."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SeenSession:
    """The session's state as the policy reads it; see `read_state`."""

    prompt: str
    style: str | None
    answer: str | None
    plan: Plan | None
    plan_accepted: bool
    todos: tuple[tuple[str, str], ...]
    feedback: tuple[str, ...]
    assets: tuple[dict[str, str], ...]
    has_preview: bool
    phase: str
    options: dict[str, object]
    files: tuple[str, ...]


def read_state(messages: Sequence[Message], system: Sequence[str] = ()) -> SeenSession:
    """Read the ``<session>`` block and the newest ``<state>`` block; what they lack is taken as not there yet.

    Without a block the conversation's first words are the prompt, so that the director also answers a bare request.
    """
    raw: dict[str, object] = {}
    first_words = ""
    for message in messages:
        if message.role != "user":
            continue
        for block in message.content:
            if block["type"] != "text":
                continue
            found = _STATE.search(block["text"])
            if found:
                raw = _object(found.group(1))
            elif not first_words:
                first_words = block["text"]
    about = _SESSION.search(system[-1]) if system else None
    known = _object(about.group(1)) if about else {}
    raw = known | raw | {"feedback": [*_list(known.get("feedback")), *_list(raw.get("feedback"))]}
    plan = raw.get("plan")
    todos = [_mapping(t) for t in _list(raw.get("todos"))]
    return SeenSession(
        prompt=str(raw.get("prompt") or first_words),
        style=_text(raw.get("style")),
        answer=_text(raw.get("answer")),
        plan=Plan.model_validate(plan) if isinstance(plan, dict) else None,
        plan_accepted=bool(raw.get("planAccepted")),
        todos=tuple((str(t.get("id", "")), str(t.get("status", "pending"))) for t in todos),
        feedback=tuple(str(f) for f in _list(raw.get("feedback"))),
        assets=tuple({k: str(v) for k, v in _mapping(a).items()} for a in _list(raw.get("assets"))),
        has_preview=bool(raw.get("hasPreview")),
        phase=str(raw.get("phase") or ""),
        options=dict(_mapping(raw.get("options"))),
        files=tuple(str(f) for f in _list(raw.get("files"))),
    )


def _object(text: str) -> dict[str, object]:
    try:
        value: object = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


@dataclass(frozen=True)
class _Exchange:
    """A tool call and what came back; ``result`` is None while it has none. ``turn`` counts assistant messages."""

    call: Call
    result: str | None
    failed: bool
    turn: int


def _exchanges(messages: Sequence[Message]) -> list[_Exchange]:
    results: dict[str, tuple[str, bool]] = {}
    for message in messages:
        for block in message.content:
            if block["type"] == "tool_result":
                results[block["tool_use_id"]] = (block["content"], block["is_error"])
    done: list[_Exchange] = []
    for turn, message in enumerate(m for m in messages if m.role == "assistant"):
        for block in message.content:
            if block["type"] == "tool_use":
                content, failed = results.get(block["id"], (None, False))
                call = Call(block["id"], block["name"], block["input"])
                done.append(_Exchange(call, content, failed, turn))
    return done


def _last_stop(messages: Sequence[Message]) -> int:
    """Return the number of the last assistant message that ended its turn, or -1."""
    last = -1
    for turn, message in enumerate(m for m in messages if m.role == "assistant"):
        if all(block["type"] != "tool_use" for block in message.content):
            last = turn
    return last


class _Calls:
    """Makes calls whose ids depend on the conversation's length and the call's place: unique and repeatable."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._turn = len(messages)
        self._made: list[Call] = []

    def add(self, tool: str, /, **values: JsonValue) -> None:
        """Add a call."""
        digest = hashlib.sha256(f"{self._turn}:{len(self._made)}:{tool}".encode()).hexdigest()[:8]
        self._made.append(Call(f"toolu_{tool}_{self._turn}_{digest}", tool, dict(values)))

    def turn(self, text: str = "") -> Turn:
        return Turn(text, tuple(self._made))


def next_turn(messages: Sequence[Message], system: Sequence[str] = ()) -> Turn:
    """Decide the next assistant message of the orchestrator.

    Args:
        messages: The conversation; the last user message holds a ``<state>`` block.
        system: The instructions; the last part may be a ``<session>`` block.

    Returns:
        Tools to run, or words alone where nothing is left to do.
    """
    view = read_state(messages, system)
    past = _exchanges(messages)
    calls = _Calls(messages)
    approvals = [e for e in past if e.call.name == "request_approval" and e.result is not None]
    latest = _object(approvals[-1].result or "") if approvals else {}
    about_plan = bool(approvals) and approvals[-1].call.input.get("type") == "plan"
    course, words = _understood(view, approvals)
    accepted = view.plan_accepted or (about_plan and latest.get("status") == "accepted")
    if not accepted:
        if _stuck(past, "request_approval", _last_stop(messages)):
            return Turn(said("failed.request", why=_why(past)))
        return _before_execution(view, course.brief, words, latest, about_plan, bool(approvals), calls)
    return _execute(view, course, past, _last_stop(messages), calls)


def _understood(view: SeenSession, approvals: Sequence[_Exchange]) -> tuple[Course, str]:
    """Return the course of everything said, and the free words of the last answer that had some."""
    results = [_object(exchange.result or "") for exchange in approvals]
    earlier = [
        words
        for result in results
        if result.get("status") == "answered"
        for words in (_text(result.get("optionId")), _text(result.get("text")))
        if words
    ]
    answers = answers_of(view.style, view.answer, plan=view.plan, earlier=earlier)
    known = {*ANSWERS, *(label.casefold() for label, _ in ANSWERS.values())}
    free = [a for a in answers if a.casefold() not in known and not re.fullmatch(r"[a-z]+(-\d+)?", a)]
    said_so_far = Said(
        prompt=view.prompt, answers=answers, options=view.options, feedback=view.feedback, assets=view.assets
    )
    return understand(said_so_far), free[-1] if free else ""


def _stuck(past: Sequence[_Exchange], name: str, since: int) -> bool:
    failures = [e for e in past if e.call.name == name and e.turn > since][-_MAX_ATTEMPTS:]
    return len(failures) == _MAX_ATTEMPTS and all(e.failed for e in failures)


def _why(past: Sequence[_Exchange]) -> str:
    failed = [e for e in past if e.failed]
    return _error_words(failed[-1].result or "") if failed else said("failed.no_reason")


def _error_words(content: str) -> str:
    value = _object(content)
    inner = _mapping(value.get("error")) or value
    message = _text(inner.get("message")) or _text(value.get("error")) or content
    return re.sub(r"\s+", " ", message).strip()[:400]


def _refusal(why: Impossible) -> str:
    return said(f"question.{why}", minutes=MAX_DURATION_S / 60)


def _options(rows: Sequence[tuple[str, str, str]]) -> list[JsonValue]:
    return [{"id": id_, "label": label, "description": about} for id_, label, about in rows]


def _before_execution(
    view: SeenSession,
    brief: Brief,
    words: str,
    latest: Mapping[str, object],
    about_plan: bool,
    asked: bool,
    calls: _Calls,
) -> Turn:
    if about_plan and latest.get("status") == "rejected":
        calls.add("set_thinking", message=said("thinking.rejected"))
        calls.add(
            "request_approval",
            type="question",
            reason="rejected",
            content=said("question.rejected"),
            options=_options(choices("styles")),
        )
        return calls.turn()
    if brief.impossible is not None:
        calls.add("set_thinking", message=said("thinking.impossible"))
        calls.add(
            "request_approval",
            type="question",
            reason="impossible",
            content=_refusal(brief.impossible),
            options=_options([*choices(f"instead.{brief.impossible}"), ("other", *ANSWERS["other"])]),
        )
        return calls.turn()
    if brief.style_heard == "unknown" and not asked and not view.answer and not view.style:
        calls.add("set_thinking", message=said("thinking.style"))
        calls.add(
            "request_approval",
            type="question",
            reason="style",
            content=said("question.style"),
            options=_options(choices("styles")),
        )
        return calls.turn()
    changes = view.feedback[-1] if view.feedback else ""
    conflict = " ".join(c.reading for c in conflicts_in_change(changes))
    if conflict and latest.get("status") == "changes":
        calls.add("send_message", content=conflict)
    plan = make_plan(brief)
    plan = plan.model_copy(update={"style": with_own_words(plan.style, words)})
    count = len(plan.scenes)
    calls.add("set_thinking", message=said("thinking.plan", count=count) if count > 1 else said("thinking.plan_one"))
    calls.add(
        "request_approval",
        type="plan",
        content=describe_plan(plan),
        plan=cast("JsonValue", plan.model_dump(mode="json", by_alias=True)),
    )
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


_TODO = re.compile(r"v(\d+)-(setup|finish|change|preview|scene-(\d+))$")


def _execute(view: SeenSession, course: Course, past: Sequence[_Exchange], stopped: int, calls: _Calls) -> Turn:
    brief = course.brief
    plan = view.plan or make_plan(brief)
    version = len(view.feedback)
    ours = [(id_, status) for id_, status in view.todos if _TODO.fullmatch(id_)]
    known = max((int(_TODO.fullmatch(id_).group(1)) for id_, _ in ours), default=-1)  # type: ignore[union-attr]
    if _stuck(past, "set_todos", stopped):
        return Turn(said("failed.todos", why=_why(past)))
    if not ours:
        calls.add("set_todos", todos=_initial_todos(plan, version))
        calls.add("set_thinking", message=said("thinking.begin"))
        return calls.turn()
    if known < version:
        return _take_feedback(view, course, known, version, ours, calls)
    todo = next(((id_, status) for id_, status in ours if status != "done"), None)
    finished: list[tuple[str, str]] = []
    pending = [t for t in ours if t[1] != "done"]
    for id_, _status in pending:
        last = _last_of(past, id_)
        if last is None or last.result is None or last.failed:
            todo = (id_, _status)
            break
        finished.append((id_, _status))
    else:
        todo = None
    for id_, status in finished:
        if status == "pending":
            calls.add("update_todo", todo_id=id_, status="active")
        calls.add("update_todo", todo_id=id_, status="done")
    if todo is None:
        return calls.turn() if finished else Turn(_farewell(brief, plan))
    id_, status = todo
    attempts = [e for e in _work_on(past, id_) if e.turn > stopped and e.failed]
    if attempts and (view.phase == "error" or len(attempts) >= _MAX_ATTEMPTS):
        reason = _error_words(attempts[-1].result or "")
        what = said("failed.preview" if id_.endswith("preview") else "failed.code")
        tries = said("failed.once") if len(attempts) == 1 else said("failed.times", count=len(attempts))
        return Turn(said("failed.work", what=what, tries=tries, reason=reason))
    if status == "pending":
        calls.add("update_todo", todo_id=id_, status="active")
    _work(id_, view, brief, plan, calls)
    return calls.turn()


def _last_of(past: Sequence[_Exchange], todo: str) -> _Exchange | None:
    mine = _work_on(past, todo)
    return mine[-1] if mine else None


def _work_on(past: Sequence[_Exchange], todo: str) -> list[_Exchange]:
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
    return task == {"setup": "initial_setup", "finish": "create_component", "change": "modify_existing"}.get(kind)


def _work(id_: str, view: SeenSession, brief: Brief, plan: Plan, calls: _Calls) -> None:
    """Add the calls that do a todo."""
    match = _TODO.fullmatch(id_)
    kind = match.group(2) if match else "preview"
    about = said(
        "todo.about", seconds=brief.duration_s, width=brief.width, height=brief.height, fps=brief.fps, style=plan.style
    )
    if kind == "setup":
        calls.add("set_thinking", message=said("thinking.setup"))
        calls.add("generate_code", task="initial_setup", description=about)
    elif kind == "finish":
        calls.add("set_thinking", message=said("thinking.finish"))
        calls.add("generate_code", task="create_component", name="Finish", description=about)
    elif kind == "change":
        calls.add("set_thinking", message=said("thinking.change"))
        changes = list(dict.fromkeys(_unhandled(view, id_))) or list(view.feedback[-1:])
        calls.add(
            "generate_code",
            task="modify_existing",
            change="; ".join(changes)[:2000],
            files=cast("JsonValue", list(view.files)),
            description=about,
        )
    elif kind == "preview":
        calls.add("set_thinking", message=said("thinking.preview"))
        calls.add("render_preview")
    else:
        number = int(match.group(3)) if match else 1
        scene = next((s for s in plan.scenes if s.number == number), plan.scenes[-1])
        calls.add("set_thinking", message=said("thinking.scene", title=scene.title)[:50])
        calls.add(
            "generate_code",
            task="create_scene",
            scene=number,
            name=scene.title,
            description=f"{scene.description} {scene.animation_notes}",
        )


def _unhandled(view: SeenSession, id_: str) -> Iterator[str]:
    """Yield the change requests that a change todo answers: those after the previous change's."""
    match = _TODO.fullmatch(id_)
    version = int(match.group(1)) if match else len(view.feedback)
    earlier = [int(m.group(1)) for t, _ in view.todos if (m := _TODO.fullmatch(t)) and int(m.group(1)) < version]
    yield from view.feedback[max(earlier, default=version - 1) : version]


def _take_feedback(
    view: SeenSession, course: Course, known: int, version: int, ours: Sequence[tuple[str, str]], calls: _Calls
) -> Turn:
    """Answer new change requests: say how they are read, keep unfinished steps, add the change and a preview."""
    for change in course.changes[known:]:
        calls.add("send_message", content=_reading(change))
    labels = {
        t["id"]: t["label"]
        for t in cast("list[dict[str, str]]", _initial_todos(view.plan or make_plan(course.brief), 0))
    }
    kept: list[JsonValue] = []
    for id_, status in ours:
        kind = id_.split("-", 1)[1]
        if status != "done" and kind not in ("preview", "change"):
            kept.append({"id": id_, "label": labels.get(f"v0-{kind}", kind)})
    last = view.feedback[-1].strip()
    label = last if len(last) <= 60 else last[:57] + "…"
    kept.append({"id": f"v{version}-change", "label": said("todo.change", words=label)})
    kept.append({"id": f"v{version}-preview", "label": said("todo.preview_again")})
    calls.add("set_todos", todos=kept)
    return calls.turn()


def _reading(change: ChangeRequest) -> str:
    """Say what a change request will do: how a contradiction is read, what was understood, or what was not."""
    length = find_length(change.words)
    if (why := find_impossible(change.words, length.seconds if length else None)) is not None:
        options = ", ".join(said("reading.quoted", words=label) for _, label, _ in choices(f"instead.{why}"))
        return said("reading.impossible", reason=_refusal(why).rsplit(". ", 1)[0], options=options)
    conflict = " ".join(c.reading for c in conflicts_in_change(change.words))
    if conflict:
        return said("reading.conflict", conflict=conflict)
    if change.done:
        return said("reading.changing", changes=", ".join(change.done))
    return said("reading.unknown", words=change.words[:120], vocabulary=said("vocabulary"))


def _farewell(brief: Brief, plan: Plan) -> str:
    notes = "".join(f" {note}" for note in notes_of(brief))
    return said("farewell", seconds=brief.duration_s, style=plan.style.lower(), notes=notes)
