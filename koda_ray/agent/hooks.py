"""What others have to say before and after each model call and each tool call: to look on, to change it, or to stop.

Hooks run in their order, each with what the one before made of it, and each with a time limit. What goes wrong in one
is reported as an event and does what the hook itself says: nothing, or an end to the run. A stop leaves a whole
history: the next run goes on from there. What they are handed is their own copy: only what they return changes
anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar, cast

from pydantic import JsonValue, TypeAdapter

from koda_ray.agent.toolkit import ToolCall, ToolOutcome
from koda_ray.agent.transcript import merged
from koda_ray.errors import Cancelled, Fenced
from koda_ray.events import NewEvent
from koda_ray.llm.base import Completed, ModelRequest
from koda_ray.logs import get_logger
from koda_ray.state.records import Batch

__all__ = ["Hook", "Hooks", "Stop"]

_MAX_WORDS = 300
_log = get_logger(__name__)
_INPUT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
T = TypeVar("T")


@dataclass(frozen=True)
class Stop:
    """End the run here, and say why."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Hook:
    """Something that is called at some of four places. What returns None only looked on.

    Args:
        name: For events and people.
        before_model: Gets the request; may return another.
        after_model: Gets the request and the finished message; may return another message. It is stored either way.
        before_tool: Gets a call and its input as the tool will get it, before it is asked whether it is allowed; may
            return another input, or an outcome in its place. It is not called again for a call that a crash cut off,
            but for one that a person lets run with other arguments: what it says against those, the person is told.
        after_tool: Gets the call and its outcome before that is stored; may return another outcome.
        timeout_s: Longest time for one call of it.
        on_failure: Whether the run goes on when it raises, takes too long, or returns what it may not.
    """

    name: str
    before_model: Callable[[ModelRequest], Awaitable[ModelRequest | Stop | None]] | None = None
    after_model: Callable[[ModelRequest, Completed], Awaitable[Completed | Stop | None]] | None = None
    before_tool: (
        Callable[[ToolCall, dict[str, JsonValue]], Awaitable[dict[str, JsonValue] | ToolOutcome | Stop | None]] | None
    ) = None
    after_tool: Callable[[ToolCall, ToolOutcome], Awaitable[ToolOutcome | Stop | None]] | None = None
    timeout_s: float = 5.0
    on_failure: Literal["ignore", "stop"] = "ignore"


class Hooks:
    """An agent's hooks, in order.

    Args:
        hooks: They.
        report: Stores the event of one that failed.
    """

    def __init__(self, hooks: Sequence[Hook], report: Callable[[NewEvent], Awaitable[None]]) -> None:
        self._hooks = tuple(hooks)
        self._report = report

    @property
    def guards(self) -> frozenset[str]:
        """Names of those that are heard before a tool runs."""
        return frozenset(hook.name for hook in self._hooks if hook.before_tool is not None)

    async def before_model(self, request: ModelRequest) -> ModelRequest | Stop:
        """Return the request to make, or why none is made."""
        for hook in self._hooks:
            if (call := hook.before_model) is not None:
                found = await self._call(hook, "before_model", partial(call, _apart(request)), _is_request)
                if isinstance(found, Stop):
                    return found
                request = request if found is None else found
        return request

    async def after_model(self, request: ModelRequest, completed: Completed) -> tuple[Completed, Stop | None]:
        """Return the message to keep, and whether to end with it."""
        for hook in self._hooks:
            if (call := hook.after_model) is not None:
                given = partial(call, _apart(request), _apart(completed))
                found = await self._call(hook, "after_model", given, _is_completed)
                if isinstance(found, Stop):
                    return completed, found
                completed = completed if found is None else _apart(found)
        return completed, None

    async def before_tool(
        self, call: ToolCall, given: dict[str, JsonValue]
    ) -> dict[str, JsonValue] | ToolOutcome | Stop:
        """Return the input to run with, an outcome in place of running, or why the run ends here."""
        for hook in self._hooks:
            if (before := hook.before_tool) is not None:
                found = await self._call(hook, "before_tool", partial(before, call, _apart(given)), _is_input)
                if isinstance(found, Stop | ToolOutcome):
                    return found
                given = given if found is None else _apart(found)
        return given

    async def after_tool(self, call: ToolCall, outcome: ToolOutcome) -> tuple[ToolOutcome, Stop | None]:
        """Return the outcome to store, and whether to end with it; what the tool wants stored with it stays."""
        for hook in self._hooks:
            if (after := hook.after_tool) is not None:
                given = partial(after, call, replace(outcome, batch=None))
                found = await self._call(hook, "after_tool", given, _is_outcome)
                if isinstance(found, Stop):
                    return outcome, found
                if found is not None:
                    batch = outcome.batch if found.batch is None else merged(outcome.batch or Batch(), found.batch)
                    outcome = replace(found, batch=batch)
        return outcome, None

    async def _call(
        self, hook: Hook, place: str, work: Callable[[], Awaitable[T | Stop | None]], check: Callable[[object], str]
    ) -> T | Stop | None:
        """Hear one hook; what it raises before there is anything to await is its failure like any other.

        Args:
            hook: It.
            place: Where it is heard.
            work: Calls it.
            check: Says what it may return here, where it returned something else; empty where all is well.
        """
        limit = asyncio.timeout(hook.timeout_s)
        try:
            async with limit:
                found = await work()
            if found is not None and not isinstance(found, Stop) and (wanted := check(found)):
                raise TypeError(f"it returned {found!r:.100}; return None, a Stop or {wanted}")
            return found
        except (Fenced, Cancelled):
            raise
        except TimeoutError as error:
            words = f"took longer than {hook.timeout_s:g} s" if limit.expired() else f"failed: {error}"
        except Exception as error:
            _log.exception("hook_failed", hook=hook.name, place=place)
            words = f"failed: {type(error).__name__}: {error}"
        message = f"the hook {hook.name} ({place}) {words}"[:_MAX_WORDS]
        data: dict[str, JsonValue] = {"hook": hook.name, "place": place, "message": message, "then": hook.on_failure}
        await self._report(NewEvent(type="hook_failed", data=data))
        return Stop(message) if hook.on_failure == "stop" else None


def _is_request(found: object) -> str:
    return "" if isinstance(found, ModelRequest) else "a ModelRequest"


def _is_completed(found: object) -> str:
    return "" if isinstance(found, Completed) else "a Completed"


def _is_outcome(found: object) -> str:
    well = isinstance(found, ToolOutcome) and isinstance(cast("object", found.content), str)
    return "" if well else "a ToolOutcome whose content is text"


def _is_input(found: object) -> str:
    if not isinstance(found, dict):
        return _is_outcome(found) and "a dict or a ToolOutcome whose content is text"
    _INPUT.validate_python(found)
    return ""


def _apart(value: T) -> T:
    """Copy what holds other things, at any depth; what cannot be changed is shared."""
    made: Any = value
    if isinstance(value, dict):
        made = {key: _apart(each) for key, each in cast("dict[Any, Any]", value).items()}
    elif isinstance(value, list):
        made = [_apart(each) for each in cast("list[Any]", value)]
    elif isinstance(value, tuple):
        made = tuple(_apart(each) for each in cast("tuple[Any, ...]", value))
    elif is_dataclass(value) and not isinstance(value, type):
        made = replace(value, **{field.name: _apart(getattr(value, field.name)) for field in fields(value)})
    return cast("T", made)
