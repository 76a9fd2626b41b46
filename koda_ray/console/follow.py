"""Following a session from here to its end: events in, the screen drawn, decisions out.

The session does not need us: whoever stops following loses nothing, and comes back with ``koda watch``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, aclosing, contextmanager
from datetime import datetime
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from koda_ray.client import KodaClient
from koda_ray.console.ask import Decider, Decision
from koda_ray.console.live import LiveView
from koda_ray.console.plain import PlainLines
from koda_ray.console.text import clean
from koda_ray.console.view import View
from koda_ray.errors import Conflict, InvalidInput, InvalidTransition
from koda_ray.events import Envelope
from koda_ray.types import NodeState
from koda_ray.wire import ApprovalView

__all__ = ["LiveScreen", "PlainScreen", "Screen", "follow"]

_FRAMES_PER_S = 8


class Screen(Protocol):
    """Where a view is shown."""

    def update(self, view: View, event: Envelope) -> None:
        """Show what an event changed; the view has taken it in."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Make room for a question, for as long as the block runs."""
        ...

    def say(self, line: str) -> None:
        """Tell the person something that is no event."""
        ...


class LiveScreen:
    """Draws the live view on a terminal; use it as a context manager."""

    def __init__(self, console: Console, shown: LiveView) -> None:
        self._console = console
        self._shown = shown
        self._live = self._new()

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, view: View, event: Envelope) -> None:
        """Keep what the agents say above the view, which itself is drawn several times a second anyway."""
        if event.type == "message" and event.data.get("role") == "assistant" and view.messages:
            self._live.console.print(Padding(Text(clean(view.messages[-1][1])), (0, 2, 1, 2)))

    @contextmanager
    def aside(self) -> Generator[None]:
        """Take the view away, and bring it back below what was said."""
        self._live.stop()
        try:
            yield
        finally:
            self._console.print()
            self._live = self._new()
            self._live.start()

    def say(self, line: str) -> None:
        """Print above the view."""
        self._live.console.print(f"  {line}")

    def _new(self) -> Live:
        return Live(
            self._shown,
            console=self._console,
            refresh_per_second=_FRAMES_PER_S,
            transient=True,
            vertical_overflow="crop",
            redirect_stdout=False,
            redirect_stderr=False,
        )


class PlainScreen:
    """Writes lines."""

    def __init__(self, write: Callable[[str], None], *, began: datetime) -> None:
        self._write = write
        self._lines = PlainLines(write, began=began)

    def update(self, view: View, event: Envelope) -> None:
        """Write the event's line, if it has one."""
        self._lines.show(view, event)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Nothing is in the way of a question."""
        yield

    def say(self, line: str) -> None:
        """Write a line."""
        self._write(line)


async def follow(client: KodaClient, view: View, screen: Screen, decider: Decider) -> NodeState:
    """Follow a session until it is complete, or waits for somebody whom ``decider`` does not speak for.

    Args:
        client: The server.
        view: What is known so far: it says the session, and where in its log to go on.
        screen: Where it is shown.
        decider: Asked each time the session waits.

    Returns:
        The state that it stopped at: complete, failed, or waiting.

    Raises:
        NotFound: The session is gone.
        Unreachable: No server answers any more.
    """
    if view.waits_for_person and not await _go_on(client, view, screen, decider):
        return _state(view)
    async with aclosing(client.follow(view.session_id, after=view.seq)) as events:
        async for event in events:
            view.apply(event)
            screen.update(view, event)
            if event.type == "resync" and event.data.get("reason") == "ahead":  # the server has an older past now
                there = await client.session(view.session_id)
                view.seed(there.state, event.seq, event.at)
            if event.type == "state_change" and view.waits_for_person and await _is_current(client, view):  # noqa: SIM102
                if not await _go_on(client, view, screen, decider):
                    return _state(view)
    return _state(view)


async def _is_current(client: KodaClient, view: View) -> bool:
    """Whether it still waits: somebody else may have decided, or this is the past that is being replayed."""
    now, then = (await client.session(view.session_id)).state, _state(view)
    return (now.phase, now.owes) == (then.phase, then.owes)


async def _go_on(client: KodaClient, view: View, screen: Screen, decider: Decider) -> bool:
    """Have it decided and say so; False where there is nothing to say."""
    while True:
        state = _state(view)
        asked = await _asked(client, state)
        with screen.aside():
            decision = decider.agree(asked) if asked is not None else decider.decide(state)
        if decision is None or decision.action == "leave":
            return False
        if decision.action == "preview":
            link = await client.preview(view.session_id)
            screen.say(f"The page runs at {link.url}")
            continue
        try:
            await _say(client, view, decision)
        except InvalidInput as error:
            screen.say(error.message)
            if not isinstance(error, InvalidTransition):
                continue  # what was typed does not fit: it waits on
        except Conflict as error:
            screen.say(error.message)  # somebody else was faster; what comes next is in the events
        return True


async def _asked(client: KodaClient, state: NodeState) -> ApprovalView | None:
    """Read what a tool call that waits for agreement would do."""
    if state.approval is None:
        return None
    page = await client.approvals(state.session_id, pending=True)
    return next((each for each in page.approvals if each.id == state.approval.approval_id), None)


async def _say(client: KodaClient, view: View, decision: Decision) -> None:
    session_id, text = view.session_id, decision.text or ""
    key = f"console-{_state(view).phase}-{view.seq}"  # the same waiting is never answered twice
    match decision.action:
        case "answer":
            await client.answer(session_id, option_id=decision.option_id, text=decision.text, key=key)
        case "accept":
            await client.accept(session_id, key=key)
        case "reject":
            await client.reject(session_id, feedback=decision.text, key=key)
        case "changes":
            await client.changes(session_id, text, key=key)
        case "message":
            await client.say(session_id, text, key=key)
        case "approve":
            await client.approve(session_id, _waiting(view), arguments=decision.arguments, key=key)
        case "refuse":
            await client.refuse(session_id, _waiting(view), reason=decision.text, key=key)
        case _:
            await client.retry(session_id, key=key)


def _waiting(view: View) -> str:
    approval = _state(view).approval
    return approval.approval_id if approval is not None else ""


def _state(view: View) -> NodeState:
    assert view.state is not None
    return view.state
