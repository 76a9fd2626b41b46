"""One line for each thing that happens, where there is no terminal to draw on: logs, pipes, CI."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from koda_ray.console.text import clean, duration, one_line, plural, size, time_left
from koda_ray.console.view import View
from koda_ray.events import Envelope
from koda_ray.types import NodeState

__all__ = ["PlainLines", "phase_words"]

_STEP_PERCENT = 10
_WIDTH = 160
_LEFT_OUT = {"swept": "they are older than what is kept", "slow": "what reads this is too slow"}
_MARKS = {"done": "x", "active": ">", "pending": " "}


class PlainLines:
    """Writes lines.

    Args:
        write: Takes one line without its end.
        began: When the job did: every line begins with the seconds since then.
    """

    def __init__(self, write: Callable[[str], None], *, began: datetime) -> None:
        self._write = write
        self._began = began
        self._percent: dict[str, int] = {}

    def show(self, view: View, event: Envelope) -> None:
        """Write what an event says, if it is worth a line. ``view`` has taken the event in already."""
        said = self._said(view, event)
        if said is not None:
            kind, words = said
            seconds = (event.at - self._began).total_seconds()
            self._write(f"{seconds:7.1f}  {one_line(kind, 9):<9} {one_line(words, _WIDTH)}")

    def _said(self, view: View, event: Envelope) -> tuple[str, str] | None:
        data = event.data
        match event.type:
            case "state_change" if view.state is not None:
                return "phase", phase_words(view.state)
            case "todo_update" if (todo := view.todos.get(str(data.get("todoId")))) is not None:
                return "todo", f"[{_MARKS[todo.status]}] {todo.label}"
            case "thinking" if view.thinking:
                return "agents", view.thinking
            case "message":
                return str(data.get("role") or "message"), str(data.get("content"))
            case "file_written":
                path = str(data.get("path"))
                return "wrote", f"{path} ({size(view.files.get(path, 0))})"
            case "render_start" | "render_progress" | "render_complete":
                return self._render(view, event)
            case "preview_ready":
                return "preview", f"ready: {data.get('url')}"
            case "rewound":
                return "rewound", f"back to {data.get('point')}; koda rewind {view.session_id} --undo undoes it"
            case "forked":
                return "forked", f"of {data.get('sessionId')}"
            case "command_refused":
                return "refused", f"{data.get('command')}: {data.get('message')}"
            case "command_delayed":
                return "waits", f"{data.get('command')}, and is tried again: {data.get('message')}"
            case "budget_warning":
                return "budget", str(data.get("message"))
            case "resync" if data.get("leftOut"):
                why = _LEFT_OUT.get(str(data.get("reason")), "they are gone")
                return "log", f"{data['leftOut']} events of progress are left out: {why}"
            case "error":
                return "error", f"{data.get('code')}: {data.get('message')}"
            case _:
                return None

    def _render(self, view: View, event: Envelope) -> tuple[str, str] | None:
        job_id = event.data.get("jobId")
        bar = view.bars.get(job_id) if isinstance(job_id, str) else None
        if bar is None:
            return None
        if event.type == "render_start":
            return "render", f"{bar.kind} {bar.size}, {plural(bar.frames_total or 0, 'frame')}"
        if event.type == "render_complete":
            took = (event.at - bar.began).total_seconds() if bar.began else 0.0
            return "render", f"{bar.kind} done in {duration(took)}"
        step = int(bar.percent // _STEP_PERCENT)
        if step <= self._percent.get(bar.job_id, -1):
            return None
        self._percent[bar.job_id] = step
        told = f"{bar.kind} {bar.percent:.0f} % {bar.stage}"
        return "render", ", ".join(filter(None, (told, time_left(bar.seconds_left, bar.percent))))


def phase_words(state: NodeState) -> str:
    """Say where a session is, and what it waits for."""
    if state.owes is not None:
        doing = {
            "analyze": "reading the prompt",
            "plan": "planning",
            "execute": "making it",
            "render_final": "rendering the video",
        }[state.owes]
        return f"{state.phase}: {doing}"
    if state.approval is not None:
        return f"{state.phase}: waits for you to agree to {state.approval.name} ({state.approval.reason})"
    match state.phase:
        case "question":
            question = state.question
            options = ", ".join(option.id for option in question.options) if question else ""
            return f"question: {question.text if question else ''}" + (f" [{options}]" if options else "")
        case "plan" if state.plan is not None:
            scenes = "; ".join(f"{scene.number} {scene.title} {scene.duration:g} s" for scene in state.plan.scenes)
            return f"plan: {state.plan.total_duration:g} s, {plural(len(state.plan.scenes), 'scene')}: {clean(scenes)}"
        case "preview":
            return "preview: waits to be accepted"
        case "complete":
            return "complete"
        case "error":
            return f"error: {state.error.message if state.error else ''}"
        case _:
            return f"{state.phase}: waits"
