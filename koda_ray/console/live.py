"""The live view: one screen that says where the job is, what the agents are doing, and how long it will take.

It draws a `View`, under what was asked for and how long ago. Whatever does not fit the terminal's height is left out,
the least telling part first: the plan, then code, down to a few lines and to none, then todos that are done.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pygments.token import Error
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.style import Style
from rich.syntax import ANSI_DARK, ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text

from koda_ray.console.text import clean, duration, one_line, plural, size, time_left
from koda_ray.console.view import Bar, Code, View
from koda_ray.types import NodeState, Phase, Plan, Todo

__all__ = ["ACCENT", "LiveView", "phase_line", "plan_table"]

ACCENT = "bright_magenta"
_STEPS: tuple[tuple[Phase, str], ...] = (
    ("question", "question"),
    ("plan", "plan"),
    ("executing", "making it"),
    ("preview", "preview"),
    ("complete", "video"),
)
_WORK = {
    "analyze": "Reading the prompt",
    "plan": "Planning the scenes",
    "execute": "Setting up the project",
    "render_final": "Rendering the video",
}
_LANGUAGES = {"tsx": "tsx", "ts": "typescript", "jsx": "jsx", "js": "javascript", "json": "json", "css": "css"}
# half a file is full of syntax errors: they are not worth colour
_THEME = ANSISyntaxTheme({**ANSI_DARK, Error: Style()})
_MAX_WIDTH = 100
_CODE_ROWS = 12


class LiveView:
    """A rich renderable of a view; the same object is drawn again and again.

    Args:
        view: What to show; changed by whoever follows the events.
        prompt: What was asked for.
        began: When the job did.

    Attributes:
        note: What is said beside the session's id.
    """

    def __init__(self, view: View, *, prompt: str, began: datetime) -> None:
        self.view = view
        self.prompt = prompt
        self.began = began
        self.note = ""
        self._spinner = Spinner("dots", style=ACCENT)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw as much as fits."""
        width = min(options.max_width, _MAX_WIDTH)
        rows = (options.height or console.size.height) - 1
        yield self._draw(width, rows, datetime.now(self.began.tzinfo))

    def _draw(self, width: int, rows: int, now: datetime) -> RenderableType:
        view, state = self.view, self.view.state
        head = self._head(width, now)
        used = len(head) + 1
        bars = [_bar(bar, width, now) for bar in view.bars.values() if _shown(bar, view)]
        used += len(bars) + (1 if bars else 0)
        used += 2  # the line that says what is going on
        todos = list(view.todos.values())
        parts: list[RenderableType] = [*head, ""]
        left = rows - used
        plan = state.plan if state is not None else None
        wanted = len(todos) + 1 + (_CODE_ROWS + 2 if view.code is not None else 0)
        if plan is not None and left - wanted >= len(plan.scenes) + 2:
            parts += [Padding(plan_table(plan, width - 2), (0, 0, 0, 2)), ""]
            left -= len(plan.scenes) + 2
        if todos:
            shown = _fitting(todos, max(3, left - 2))
            parts += [*(_todo(todo, width) for todo in shown), ""]
            left -= len(shown) + 1
        parts.append(self._now(width))
        code_rows = min(_CODE_ROWS, left - 3)
        if view.code is not None and code_rows >= 3:
            parts.append(_code(view.code, width, code_rows))
        if bars:
            parts += ["", *bars]
        return Group(*parts)

    def _head(self, width: int, now: datetime) -> list[RenderableType]:
        elapsed = duration((now - self.began).total_seconds())
        title = Text.assemble(("  koda  ", f"bold {ACCENT}"), (one_line(self.prompt, max(10, width - 22)), "bold"))
        grid = Table.grid(expand=False)
        grid.add_column(width=width - 10, no_wrap=True)
        grid.add_column(width=9, justify="right", style="dim", no_wrap=True)
        grid.add_row(title, elapsed)
        below = Text.assemble(("        ", ""), (self.view.session_id, "dim"))
        if self.note:
            below.append(f"  ·  {self.note}", style="dim")
        if self.view.cost_usd:
            below.append(f"  ·  ${self.view.cost_usd:,.2f}", style="dim")
        if self.view.warning:
            below.append(f"  ·  {one_line(self.view.warning, 50)}", style="yellow")
        below.truncate(width)
        return [grid, below, "", phase_line(self.view.state)]

    def _now(self, width: int) -> RenderableType:
        view, state = self.view, self.view.state
        if state is None:
            text = Text("Starting", style="dim")
        elif state.phase == "error":
            return Text.assemble(("  ✖ ", "bold red"), (one_line(view.error or _error(state), width - 6), "red"))
        elif state.owes is None:
            return Text(f"  {_waiting(state)}", style="dim" if state.phase == "complete" else "yellow")
        else:
            text = Text(one_line(view.thinking or _WORK.get(state.owes, "Working"), width - 6))
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row(" ", self._spinner, text)
        return line


def phase_line(state: NodeState | None) -> Text:
    """Draw the steps: done or left out, under way, to come, and the one that failed."""
    at: Phase = "idle" if state is None else state.phase
    asked = state.question if state is not None else None
    if state is not None and state.paused is not None:  # this question is not one of the steps
        at, asked = state.paused.phase, state.paused.question
    if state is not None and at == "error" and state.error is not None:
        at = state.error.phase
    order = ["idle", *(phase for phase, _ in _STEPS)]
    here = order.index(at) if at in order else 0
    rendering = state is not None and state.owes == "render_final"
    line = Text("  ", no_wrap=True, overflow="ellipsis")
    for place, (phase, name) in enumerate(_STEPS, start=1):
        if place > 1:
            line.append(" ── ", style="dim")
        skipped = phase == "question" and state is not None and asked is None and here > 1
        if state is not None and state.phase == "error" and phase == at:
            line.append(f"✖ {name}", style="bold red")
        elif at == "complete" or place < here or (rendering and phase == "preview"):
            line.append(f"{'·' if skipped else '✔'} {name}", style="dim" if skipped else "green")
        elif place == here or (rendering and phase == "complete") or (here == 0 and place == 1 and _begun(state)):
            line.append(f"● {name}", style=f"bold {ACCENT}")
        else:
            line.append(f"○ {name}", style="dim")
    return line


def _begun(state: NodeState | None) -> bool:
    return state is not None and state.owes is not None


def plan_table(plan: Plan, width: int) -> Table:
    """Draw a plan: how long, how large and in which style, and its scenes with their share of the time."""
    aspect = f"{plan.width}x{plan.height}"
    title = (
        f"{duration(plan.total_duration)} · {plural(len(plan.scenes), 'scene')} · {one_line(plan.style, 30)} · {aspect}"
    )
    table = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=None,
        show_header=False,
        padding=(0, 1, 0, 0),
        width=width,
    )
    table.add_column(justify="right", style="dim", width=3)
    table.add_column(width=min(26, max(12, width // 3)), no_wrap=True)
    table.add_column(justify="right", style="cyan", width=7, no_wrap=True)
    table.add_column(no_wrap=True, ratio=1, overflow="ellipsis", style="dim")
    for scene in plan.scenes:
        table.add_row(
            str(scene.number), clean(scene.title), duration(scene.duration), one_line(scene.description, width)
        )
    return table


def _fitting(todos: list[Todo], rows: int) -> list[Todo]:
    """Keep what is under way and to come; of what is done, the latest."""
    if len(todos) <= rows:
        return todos
    first = next((place for place, todo in enumerate(todos) if todo.status != "done"), len(todos))
    start = max(0, min(first - 1, len(todos) - rows))
    return todos[start : start + rows]


def _todo(todo: Todo, width: int) -> Text:
    mark, style = {"done": ("✔", "green"), "active": ("●", f"bold {ACCENT}"), "pending": ("○", "dim")}[todo.status]
    label_style = {"done": "dim", "active": "bold", "pending": ""}[todo.status]
    return Text.assemble((f"  {mark} ", style), (one_line(todo.label, width - 6), label_style))


def _code(code: Code, width: int, rows: int) -> RenderableType:
    lines = clean(code.text).split("\n")
    shown = lines[-rows:]
    first = code.cut_lines + len(lines) - len(shown) + 1
    language = _LANGUAGES.get(code.path.rpartition(".")[2], "text")
    body = Syntax(
        "\n".join(shown),
        language,
        theme=_THEME,
        line_numbers=True,
        start_line=first,
        word_wrap=False,
        background_color="default",
        code_width=width - 14,
    )
    title = f"{escape(one_line(code.path, width - 20))} [dim]{size(code.chars)}[/dim]"
    return Padding(
        Panel(body, title=title, title_align="left", border_style="dim", width=width - 2, height=rows + 2), (0, 0, 0, 2)
    )


def _shown(bar: Bar, view: View) -> bool:
    newest: Literal["preview", "final"]
    for newest in ("preview", "final"):
        if view.bar(newest) is bar:
            return True
    return not bar.done


def _bar(bar: Bar, width: int, now: datetime) -> RenderableType:
    if bar.done:
        took = duration((bar.ended - bar.began).total_seconds()) if bar.ended and bar.began else ""
        said = Text.assemble(("✔ ", "green"), (f"{bar.size}  {took}", "dim"))
    else:
        said = Text(" · ".join(filter(None, (bar.stage, time_left(bar.seconds_left, bar.percent)))), style="dim")
    grid = Table.grid(padding=(0, 1, 0, 0))
    room = max(10, min(40, width - 50))
    grid.add_column(width=10, no_wrap=True)
    grid.add_column(width=room)
    grid.add_column(width=5, justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    colour = "green" if bar.done else ACCENT
    drawn = ProgressBar(total=100, completed=bar.percent, width=room, complete_style=colour, finished_style="green")
    grid.add_row(Text(f"  {bar.kind}"), drawn, f"{bar.percent:.0f} %", said)
    return grid


def _waiting(state: NodeState) -> str:
    if state.approval is not None:
        return f"Waiting for you to agree to {state.approval.name}."
    return {
        "idle": "Stopped. Say something to go on.",
        "question": "Waiting for your answer.",
        "plan": "Waiting for you to accept the plan.",
        "preview": "Waiting for you to accept the preview.",
        "complete": "Done.",
    }.get(state.phase, "Waiting for you.")


def _error(state: NodeState) -> str:
    return state.error.message if state.error is not None else "something went wrong"
