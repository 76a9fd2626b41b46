"""Who decides when a session waits for a person: the person at the terminal, ``--yes``, or nobody."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from pydantic import JsonValue
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

from koda_ray.console.live import ACCENT, plan_table
from koda_ray.console.text import clean, duration
from koda_ray.phases import STOP
from koda_ray.types import NodeState, Option, Question
from koda_ray.wire import ApprovalView

__all__ = ["AskPerson", "Decider", "Decision", "Nobody", "Yes"]

_ANY = "Choose what suits the prompt best"
_SHOWN_LINES = 60


@dataclass(frozen=True)
class Decision:
    """What to say to the session; ``leave`` says nothing and stops following."""

    action: Literal[
        "answer", "accept", "reject", "changes", "message", "retry", "preview", "leave", "approve", "refuse"
    ]
    option_id: str | None = None
    text: str | None = None
    arguments: Mapping[str, JsonValue] | None = None


class Decider(Protocol):
    """Somebody who is asked when a session waits."""

    def decide(self, state: NodeState) -> Decision | None:
        """Return what to say; None where nobody is there to ask."""
        ...

    def agree(self, call: ApprovalView) -> Decision | None:
        """Return what to say to a tool call that waits for agreement; None where nobody is there to ask."""
        ...


class Nobody:
    """Leaves every decision to somebody else."""

    def decide(self, state: NodeState) -> Decision | None:
        """Return nothing."""
        return None

    def agree(self, call: ApprovalView) -> Decision | None:
        """Return nothing."""
        return None


class Yes:
    """Takes the first option, every plan and every preview; never more of a budget."""

    def decide(self, state: NodeState) -> Decision | None:
        """Go on, unless there is nothing to go on with."""
        match state.phase:
            case "question" if state.paused is not None:
                return Decision("leave")  # agreeing to everything is not agreeing to every bill
            case "question" if state.question is not None and state.question.reason == "stuck":
                return Decision("answer", option_id=STOP)  # going on alone would only cost more
            case "question" if state.question is not None:
                options = [each for each in state.question.options if not state.question.needs_words(each.id)]
                return Decision("answer", option_id=options[0].id) if options else Decision("answer", text=_ANY)
            case "plan" | "preview":
                return Decision("accept")
            case _:
                return None

    def agree(self, call: ApprovalView) -> Decision | None:
        """Let it run."""
        return Decision("approve")


class AskPerson:
    """Asks the person at the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def decide(self, state: NodeState) -> Decision | None:
        """Show what there is to decide and read the answer; raises KeyboardInterrupt where that is the answer."""
        match state.phase:
            case "question" if state.question is not None:
                return self._question(state.question)
            case "plan" if state.plan is not None:
                self._console.print()
                self._console.print(Padding(plan_table(state.plan, min(96, self._console.width - 4)), (0, 2)))
                return self._choose("Make this?", accept="make it", change="change the plan", reject="ask me again")
            case "preview" if state.preview is not None:
                self._console.print(
                    f"\n  [green]✔[/green] The preview is ready: {duration(state.preview.duration)} of video."
                )
                return self._choose("Render it?", accept="render the video", change="change something", preview=True)
            case "error" if state.error is not None:
                self._console.print(f"\n  [red]✖[/red] {escape(clean(state.error.message))}")
                return self._failed(can_retry=state.error.can_retry)
            case "idle":
                self._console.print("\n  Stopped.")
                return self._words("message")
            case _:
                return None

    def agree(self, call: ApprovalView) -> Decision | None:
        """Show what a tool call would do, and read whether it may."""
        about = call.payload
        self._console.print(f"\n  [bold]{escape(clean(str(about.get('name'))))}[/bold] [dim]wants to run:[/dim]")
        given = json.dumps(about.get("proposed"), ensure_ascii=False, indent=2)
        self._console.print(Padding(Syntax(clean(given), "json", background_color="default"), (0, 4)))
        if shown := str(about.get("shown") or ""):
            lines = clean(shown).splitlines()
            rest = [f"... {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
            diff = "\n".join([*lines[:_SHOWN_LINES], *rest])
            self._console.print(Padding(Syntax(diff, "diff", background_color="default"), (0, 4)))
        self._console.print(
            f"\n  [bold {ACCENT}]?[/] [bold]Let it?[/bold] [dim]({clean(str(about.get('reason')))})[/dim]"
        )
        keys = ("enter", "let it run"), ("e", "change what it runs with"), ("r", "refuse"), ("q", "leave it for later")
        self._console.print("    " + "   ".join(f"[bold]{key}[/bold] [dim]{what}[/dim]" for key, what in keys))
        while True:
            said = self._read(default="")
            match said.lower():
                case "" | "y" | "yes":
                    return Decision("approve")
                case "e":
                    return Decision("approve", arguments=self._arguments())
                case "r" | "n" | "no":
                    self._console.print("    [dim]why? (enter for no reason)[/dim]")
                    return Decision("refuse", text=self._read(default="") or None)
                case "q":
                    return Decision("leave")
                case _ if len(said) > 3:
                    return Decision("refuse", text=said)
                case _:
                    self._console.print("    [yellow]enter, one of the letters, or why not[/yellow]")

    def _arguments(self) -> dict[str, JsonValue]:
        self._console.print("    [dim]what it runs with, as one line of JSON[/dim]")
        while True:
            try:
                read: object = json.loads(self._read(default=""))
            except ValueError as error:
                self._console.print(f"    [yellow]that is no JSON: {escape(str(error))}[/yellow]")
                continue
            if isinstance(read, dict):
                return cast("dict[str, JsonValue]", read)
            self._console.print('    [yellow]an object is needed, such as {"path": "a"}[/yellow]')

    def _question(self, question: Question) -> Decision:
        self._console.print(f"\n  [bold {ACCENT}]?[/] [bold]{escape(clean(question.text))}[/bold]\n")
        self._console.print(_options(question.options))
        if question.custom_input:
            self._console.print("    [dim]or say it in your own words[/dim]")
        while True:
            said = self._read(default="1" if question.options else "")
            if said.isdecimal() and 1 <= int(said) <= len(question.options):
                return self._chosen(question, question.options[int(said) - 1])
            if (named := _named(said, question.options)) is not None:
                return self._chosen(question, named)
            if said and not said.isdecimal() and question.custom_input:
                return Decision("answer", text=said)
            self._console.print(f"    [yellow]a number from 1 to {len(question.options)}[/yellow]")

    def _chosen(self, question: Question, option: Option) -> Decision:
        if not question.needs_words(option.id):
            return Decision("answer", option_id=option.id)
        self._console.print("    [dim]in your own words[/dim]")
        while not (said := self._read(default="")):
            self._console.print("    [yellow]a few words are needed[/yellow]")
        return Decision("answer", text=said)

    def _choose(self, what: str, *, accept: str, change: str, reject: str = "", preview: bool = False) -> Decision:
        keys = [f"[bold]enter[/bold] [dim]{accept}[/dim]", f"[bold]c[/bold] [dim]{change}[/dim]"]
        keys += [f"[bold]r[/bold] [dim]{reject}[/dim]"] if reject else []
        keys += ["[bold]o[/bold] [dim]see it live[/dim]"] if preview else []
        keys += ["[bold]q[/bold] [dim]leave it for later[/dim]"]
        self._console.print(f"\n  [bold {ACCENT}]?[/] [bold]{what}[/bold]")
        self._console.print("    " + "   ".join(keys))
        while True:
            said = self._read(default="")
            match said.lower():
                case "" | "y" | "yes" | "a" | "accept":
                    return Decision("accept")
                case "c":
                    return self._words("changes")
                case "r" if reject:
                    return Decision("reject")
                case "o" if preview:
                    return Decision("preview")
                case "q":
                    return Decision("leave")
                case _ if len(said) > 3:
                    return Decision("changes", text=said)
                case _:
                    self._console.print(
                        "    [yellow]enter, or one of the letters, or what should be different[/yellow]"
                    )

    def _failed(self, *, can_retry: bool) -> Decision:
        keys = (["[bold]enter[/bold] try again"] if can_retry else []) + ["or say what should be different"]
        self._console.print("\n  " + "  ·  ".join([*keys, "[bold]q[/bold] leave it"]))
        while True:
            said = self._read(default="")
            if said.lower() == "q":
                return Decision("leave")
            if said:
                return Decision("message", text=said)
            if can_retry:
                return Decision("retry")

    def _words(self, action: Literal["changes", "message"]) -> Decision:
        self._console.print("    [dim]what should be different?[/dim]")
        while not (said := self._read(default="")):
            pass
        return Decision(action, text=said)

    def _read(self, *, default: str) -> str:
        self._console.print(f"  [{ACCENT}]›[/] ", end="")
        try:
            with _interruptible():
                said = self._console.input().strip()
        except (EOFError, OSError):  # nobody is there any more
            raise KeyboardInterrupt from None
        return said or default


@contextmanager
def _interruptible() -> Generator[None]:
    """Let Ctrl-C end a blocking read: asyncio's own handler would only note it until the read is over.

    Nothing but the read stands in such a block: an interrupt amid a print leaves the console mute.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if _is_cancelled():  # it came a moment before
            raise KeyboardInterrupt
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return False
    return task is not None and task.cancelling() > 0


def _options(options: tuple[Option, ...]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(width=5, justify="right", style=f"bold {ACCENT}")
    table.add_column(style="bold")
    table.add_column(style="dim")
    for place, option in enumerate(options, start=1):
        table.add_row(str(place), escape(clean(option.label)), escape(clean(option.description or "")))
    return table


def _named(said: str, options: tuple[Option, ...]) -> Option | None:
    return next((option for option in options if said.lower() in (option.id.lower(), option.label.lower())), None)
