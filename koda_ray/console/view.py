"""What a person should see of a session now, folded from its state and events. Pure: no terminal, no clock of its own.

The live view, the plain lines and the report are three ways to show this one thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, cast

from pydantic import JsonValue, ValidationError

from koda_ray.console.text import duration
from koda_ray.events import Envelope
from koda_ray.types import NodeState, Owes, Phase, Todo

__all__ = ["CODE_KEPT_CHARS", "Bar", "Code", "PhaseSpan", "View"]

CODE_KEPT_CHARS = 64 * 1024
"""How much of a file that is being written is kept for showing."""
_MESSAGES_KEPT = 50
_SAID_KEPT = 500


@dataclass
class Bar:
    """A render's progress; ``seconds_left`` as the renderer estimates it."""

    job_id: str
    kind: str
    percent: float = 0.0
    stage: str = "waiting"
    seconds_left: float | None = None
    frames_done: int | None = None
    frames_total: int | None = None
    began: datetime | None = None
    ended: datetime | None = None
    size: str = ""

    @property
    def done(self) -> bool:
        """Whether it has ended well."""
        return self.ended is not None


@dataclass
class Code:
    """A file that is being written: the end of its text, and how long it is by now."""

    path: str
    text: str = ""
    chars: int = 0
    cut_lines: int = 0

    def add(self, offset: int, delta: str) -> None:
        """Put a piece in its place; a writer that begins again starts at 0."""
        if offset == 0:
            self.text, self.chars, self.cut_lines = "", 0, 0
        self.text += delta
        self.chars = offset + len(delta)
        if len(self.text) > CODE_KEPT_CHARS:
            cut = len(self.text) - CODE_KEPT_CHARS // 2
            self.cut_lines += self.text.count("\n", 0, cut)
            self.text = self.text[cut:]


@dataclass(frozen=True)
class PhaseSpan:
    """A stretch of time in one phase; ``owes`` is the work of it, None while it waited for a person."""

    phase: Phase
    owes: Owes | None
    began: datetime
    ended: datetime | None = None

    def seconds(self, now: datetime) -> float:
        """How long it lasted, or has lasted."""
        return ((self.ended or now) - self.began).total_seconds()


@dataclass
class View:
    """A session as a person sees it.

    ``warning`` says which limit is nearly used up; ``cost_usd`` what models cost, as far as that is known.
    ``messages`` are (role, text), oldest first, and ``said`` the same with their events' numbers, also where the
    session was put back to before them; ``files`` are bytes by path; ``corrections`` counts builds and pages
    that failed and went back to the agents.
    """

    session_id: str
    state: NodeState | None = None
    seq: int = 0
    thinking: str = ""
    todos: dict[str, Todo] = field(default_factory=dict[str, Todo])
    messages: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    said: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    files: dict[str, int] = field(default_factory=dict[str, int])
    code: Code | None = None
    bars: dict[str, Bar] = field(default_factory=dict[str, Bar])
    spans: list[PhaseSpan] = field(default_factory=list[PhaseSpan])
    usage: dict[str, int] = field(default_factory=dict[str, int])
    cost_usd: float = 0.0
    warning: str = ""
    error: str | None = None
    _is_stale: bool = field(default=False, repr=False)

    @property
    def waits_for_person(self) -> bool:
        """Whether nothing goes on until somebody says something."""
        return self.state is not None and self.state.owes is None

    def seed(self, state: NodeState, seq: int, at: datetime) -> None:
        """Begin from a state that was read rather than followed."""
        self.seq = seq
        self._state(state, at)
        if state.execution is not None:
            self.todos = {todo.id: todo for todo in state.execution.todos}
            self.thinking = state.execution.thinking

    def apply(self, event: Envelope) -> None:
        """Take one more event in; kinds that are not shown change nothing."""
        self.seq = event.seq
        data = event.data
        match event.type:
            case "state_change":
                self._state_change(data, event.at)
            case "todo_update":
                self._todo(data)
            case "thinking":
                self.thinking = _text(data, "message")
            case "message":
                self.said.append((event.seq, _text(data, "role"), _text(data, "content")))
                del self.said[:-_SAID_KEPT]
                self.messages.append(self.said[-1][1:])
                del self.messages[:-_MESSAGES_KEPT]
            case "rewound":
                self._rewound(data)
            case "code_chunk":
                self._chunk(data)
            case "resync":
                self.code = None  # a part of it is left out, and the file is written when it is whole
            case "file_written":
                self.files[_text(data, "path")] = int(_number(data, "size") or 0)
                if self.code is not None and self.code.path == data.get("path"):
                    self.code = None
            case "render_start" | "render_progress" | "render_complete":
                self._render(event)
            case "usage":
                for name, value in data.items():
                    if isinstance(value, int) and not isinstance(value, bool):
                        self.usage[name] = self.usage.get(name, 0) + value
                self.cost_usd += _number(data, "costUsd") or 0.0
            case "budget_warning":
                self.warning = _text(data, "message")
            case "error":
                self.error = _text(data, "message")
            case _:
                pass

    def bar(self, kind: Literal["preview", "final"]) -> Bar | None:
        """Return the newest render of a kind."""
        return next((bar for bar in reversed(self.bars.values()) if bar.kind == kind), None)

    def _rewound(self, data: Mapping[str, JsonValue]) -> None:
        """Be what it was then: the state that follows says the rest."""
        spans = cast("list[list[int]]", data.get("history") or [])
        then = [words for seq, *words in self.said if any(span[0] <= seq < span[1] for span in spans)]
        self.messages = [(role, text) for role, text in then][-_MESSAGES_KEPT:]
        self.thinking, self.code, self.error, self.bars = "", None, None, {}
        self._is_stale = True

    def _state_change(self, data: Mapping[str, JsonValue], at: datetime) -> None:
        try:
            state = NodeState.model_validate(data.get("state"), extra="ignore")
        except ValidationError:
            return  # of a newer server; the next one may be readable
        self._state(state, at)
        if self._is_stale:
            self._is_stale = False
            written = state.execution.files if state.execution else ()
            self.todos = {todo.id: todo for todo in state.execution.todos} if state.execution else {}
            self.files = {path: size for path, size in self.files.items() if path in written}

    def _state(self, state: NodeState, at: datetime) -> None:
        if self.state is None or (self.state.phase, self.state.owes) != (state.phase, state.owes):
            if self.spans:
                last = self.spans[-1]
                self.spans[-1] = PhaseSpan(last.phase, last.owes, last.began, at)
            self.spans.append(PhaseSpan(state.phase, state.owes, at))
            if state.phase == "executing" and (self.state is None or self.state.phase != "executing"):
                self.todos = {}
        if self.state is not None and self.state.budget != state.budget:
            self.warning = ""
        if state.owes is None:
            self.thinking, self.code = "", None
        if state.phase != "error":
            self.error = None
        self.state = state

    def _todo(self, data: Mapping[str, JsonValue]) -> None:
        todo_id, status = _text(data, "todoId"), _text(data, "status")
        known = self.todos.get(todo_id)
        label = _text(data, "label") or (known.label if known else todo_id)
        if status in ("pending", "active", "done"):
            self.todos[todo_id] = Todo(id=todo_id, label=label, status=status)

    def _chunk(self, data: Mapping[str, JsonValue]) -> None:
        path = _text(data, "path")
        if self.code is None or self.code.path != path:
            self.code = Code(path)
        self.code.add(int(_number(data, "offset") or 0), _text(data, "delta"))

    def _render(self, event: Envelope) -> None:
        data = event.data
        job_id = _text(data, "jobId")
        bar = self.bars.get(job_id)
        if bar is None:
            bar = self.bars[job_id] = Bar(job_id, _text(data, "quality") or "render", began=event.at)
        match event.type:
            case "render_start":
                bar.frames_total = _whole(data, "frames")
                width, height, fps = (_whole(data, name) for name in ("width", "height", "fps"))
                if width and height:
                    bar.size = f"{width}x{height}" + (f" {fps} fps" if fps else "")
            case "render_progress":
                bar.percent = max(0.0, min(100.0, _number(data, "percent") or 0.0))
                waited_s = _number(data, "waitedS")
                bar.stage = _text(data, "stage") if waited_s is None else f"waiting for a machine, {duration(waited_s)}"
                bar.seconds_left = _number(data, "secondsLeft")
                bar.frames_done = _whole(data, "framesDone")
                bar.frames_total = _whole(data, "framesTotal") or bar.frames_total
            case _:
                bar.percent, bar.stage, bar.seconds_left, bar.ended = 100.0, "done", None, event.at


def _text(data: Mapping[str, JsonValue], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _number(data: Mapping[str, JsonValue], name: str) -> float | None:
    value = data.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(data: Mapping[str, JsonValue], name: str) -> int | None:
    value = _number(data, name)
    return None if value is None else int(value)
