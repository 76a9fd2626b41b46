"""What an agent can do: tools by name, their schemas for the model, and their inputs checked.

A model's words are checked here and nowhere else. What does not fit goes back to the model as a result that it can
act on (the path in the schema, what was expected, what it sent); nothing has run by then.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, JsonValue, ValidationError

from koda_ray.errors import InvalidInput
from koda_ray.llm.base import INVALID_INPUT, ToolSpec
from koda_ray.state.store import Batch, Effect

__all__ = ["BoundCall", "Tool", "ToolCall", "ToolOutcome", "Toolkit"]

_SHOWN_CHARS = 200
_MAX_ISSUES = 20


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """Who calls, and which time: ``id`` is the idempotency key, the same for every ``attempt`` (1 for the first)."""

    id: str
    attempt: int
    agent: str
    name: str
    session_id: str = ""
    user_id: str = ""


@dataclass(kw_only=True)
class ToolOutcome:
    """What a tool gave back.

    Args:
        content: JSON or plain text for the model.
        is_error: The tool did not do what was asked.
        retryable: Whether the model may try the same again; of errors only.
        suspend: The answer comes later, from a person: the call waits, across restarts, for ``AgentLoop.resolve``.
        batch: Changes that are committed in the same transaction as this outcome.
    """

    content: str
    is_error: bool = False
    retryable: bool = True
    suspend: bool = False
    batch: Batch | None = None

    @classmethod
    def json(cls, value: JsonValue, *, batch: Batch | None = None) -> Self:
        """Make a successful outcome from a JSON value."""
        return cls(content=json.dumps(value, ensure_ascii=False, separators=(",", ":")), batch=batch)

    @classmethod
    def failure(
        cls, code: str, message: str, *, retryable: bool = True, details: Mapping[str, JsonValue] | None = None
    ) -> Self:
        """Make an error outcome: ``{"error": {"code", "message", "retryable", ...details}}``."""
        error: dict[str, JsonValue] = {"code": code, "message": message, "retryable": retryable, **(details or {})}
        return cls(content=json.dumps({"error": error}, ensure_ascii=False), is_error=True, retryable=retryable)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One thing an agent can do.

    Args:
        name: What the model calls it.
        description: What it does and when to use it, for the model.
        input_model: The input's shape; ``run`` gets an instance of exactly this class.
        effect: ``pure`` may run again at any time, ``idempotent`` again with the call's id as its key, ``unsafe`` not.
        run: Does it.
        timeout_s: Longest time for one run.
        asks: Its result is a person's answer, kept word for word when old turns are shortened.
    """

    name: str
    description: str
    input_model: type[BaseModel]
    effect: Effect
    run: Callable[[Any, ToolCall], Awaitable[ToolOutcome]]
    timeout_s: float = 60.0
    asks: bool = False


@dataclass(frozen=True, kw_only=True)
class BoundCall:
    """A tool with an input that fits it."""

    tool: Tool
    input: BaseModel


class Toolkit:
    """The tools of one agent, by name and by alias.

    Args:
        tools: Each name once; the order is the model's, and part of what prompt caches match.
        aliases: Other names for them, such as those of another specification. Models are shown the real ones only.
    """

    def __init__(self, tools: Iterable[Tool], *, aliases: Mapping[str, str] | None = None) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise InvalidInput(f"two tools are named {tool.name!r}; each name belongs to one tool")
            self._tools[tool.name] = tool
        self._aliases = dict(aliases or {})
        for alias, name in self._aliases.items():
            if name not in self._tools or alias in self._tools:
                raise InvalidInput(
                    f"alias {alias!r} -> {name!r} must be a new name for one of {', '.join(self._tools)}"
                )
        self._specs = tuple(
            ToolSpec(name=t.name, description=t.description, input_schema=_schema(t.input_model))
            for t in self._tools.values()
        )

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is shown them."""
        return self._specs

    @property
    def asking(self) -> frozenset[str]:
        """Names (and aliases) of the tools whose results are a person's words."""
        names = {name for name, tool in self._tools.items() if tool.asks}
        return frozenset(names | {alias for alias, name in self._aliases.items() if name in names})

    def get(self, name: str) -> Tool | None:
        """Find a tool by its name or an alias."""
        return self._tools.get(self._aliases.get(name, name))

    def effect(self, name: str) -> Effect:
        """Say what running ``name`` may change; a tool that is not here changes nothing."""
        tool = self.get(name)
        return "pure" if tool is None else tool.effect

    def bind(self, name: str, given: Mapping[str, JsonValue]) -> BoundCall | ToolOutcome:
        """Check a call.

        Returns:
            The tool with its input, or the error that the model gets in place of a result.
        """
        tool = self.get(name)
        if tool is None:
            return ToolOutcome.failure(
                "UNKNOWN_TOOL", f"There is no tool {name[:_SHOWN_CHARS]!r}. Tools: {', '.join(self._tools)}."
            )
        if set(given) == {INVALID_INPUT}:
            raw = str(given[INVALID_INPUT])
            return ToolOutcome.failure(
                "INVALID_JSON",
                f"The input of {name} was not a JSON object ({len(raw)} characters, ending {raw[-_SHOWN_CHARS:]!r}). "
                "Nothing was run. Send the whole call again; if it was cut off, send less in one call.",
            )
        try:
            return BoundCall(tool=tool, input=tool.input_model.model_validate(given))
        except ValidationError as error:
            return _rejection(name, error)


def _rejection(name: str, error: ValidationError) -> ToolOutcome:
    found = error.errors(include_url=False, include_context=False)
    # a list whose only item is wrong is also reported as too short: the deeper one says it all
    inner = [issue["loc"] for issue in found]
    issues: list[JsonValue] = [
        {
            "path": ".".join(str(part) for part in issue["loc"]) or "(input)",
            "problem": issue["msg"],
            "got": repr(issue["input"])[:_SHOWN_CHARS],
        }
        for issue in found
        if not any(len(loc) > len(issue["loc"]) and loc[: len(issue["loc"])] == issue["loc"] for loc in inner)
    ]
    del issues[_MAX_ISSUES:]
    first = issues[0] if issues and isinstance(issues[0], dict) else {"path": "(input)", "problem": "invalid"}
    return ToolOutcome.failure(
        "INVALID_INPUT",
        f"The input of {name} does not fit its schema at {first['path']}: {first['problem']}. "
        "Nothing was run. Correct the named fields and call again.",
        details={"issues": issues},
    )


def _schema(model: type[BaseModel]) -> dict[str, JsonValue]:
    schema = model.model_json_schema()
    schema.pop("title", None)
    return schema
