"""What an agent can do: tools by name, their schemas for the model, and their inputs checked.

A model's words are checked here and nowhere else. What does not fit goes back to the model as a result that it can
act on (the path in the schema, what was expected, what it sent); nothing has run by then.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import PydanticSerializationError

from koda_ray.errors import InvalidInput
from koda_ray.llm.base import INVALID_INPUT, ToolSpec, ToolUseBlock
from koda_ray.llm.inputs import flaw
from koda_ray.state.records import Batch, SideEffect

__all__ = ["Agreement", "BoundCall", "Tool", "ToolCall", "ToolOutcome", "Toolkit"]

_SHOWN_CHARS = 200
_MAX_ISSUES = 20


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """Who calls, and which time: ``id`` is the idempotency key, the same for every ``attempt`` (1 for the first).

    ``epoch`` is a fencing token: each activation of a session has a higher one. Whoever acts for a call from outside,
    and refuses a lower number than the highest that it has seen, does nothing for an activation that was replaced.
    ``agreed`` is the key of the `Agreement` that it wanted last, once a person has given it.
    """

    id: str
    attempt: int
    agent: str
    name: str
    session_id: str = ""
    user_id: str = ""
    epoch: int = 0
    agreed: str = ""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What a person has to agree to before a call that has begun goes on: it runs again then, and is told so.

    Args:
        key: Names it, the same whenever the call runs again.
        reason: Why a person is asked.
        shown: What it would change, such as a diff.
        done: What the call has done by then, in a sentence for the model: it reads this if the person refuses.
    """

    key: str
    reason: str
    shown: str
    done: str = ""


@dataclass(kw_only=True)
class ToolOutcome:
    """What a tool gave back.

    Args:
        content: JSON or plain text for the model.
        is_error: The tool did not do what was asked.
        retryable: Whether the model may try the same again; of errors only.
        suspend: The answer comes later, from a person: the call waits, across restarts, for ``AgentLoop.resolve``.
        wants: There is no answer yet: the call waits, across restarts, for a person's agreement.
        batch: Changes that are committed in the same transaction as this outcome.
    """

    content: str
    is_error: bool = False
    retryable: bool = True
    suspend: bool = False
    wants: Agreement | None = None
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
        keys: Names what a call reads or changes, such as files. Calls that follow each other in one message run at
            the same time where all are pure, or where none is unsafe and no two have a key in common; None for what
            may touch anything.
        run: Does it.
        timeout_s: Longest time for one run.
        asks: Its result is a person's answer, kept word for word when old turns are shortened.
        preview: Shows a person what a call would change, such as a diff, before they agree to it. It must change
            nothing: nothing is recorded before it, so a crash or a pause has it made again, for a call that may then
            be refused.
        paths: Names of the parameters that hold paths, at any depth, for the rules about paths; empty for a tool that
            has none, or looks at the rules itself. None for those whose names look like it (``file_path``, ``dest``).
        files: Reads from an input and a result which files the call showed or wrote, whole, by path (None for one that
            it changed without saying to what). Their newest content is kept when old turns are shortened.
        guarded: Whether modes that guard against changes look at it, where it is not pure; not so for what only tells
            the person something.
        tracks: Its success with a new input is progress on a list of things to do.
        stops: Whether ending its task ends its work; a plain function's thread goes on.
        changes: Whether its success with an input may have changed what other calls meet; when None, that of every
            tool may that is not pure.
    """

    name: str
    description: str
    input_model: type[BaseModel]
    effect: SideEffect
    run: Callable[[Any, ToolCall], Awaitable[ToolOutcome]]
    keys: Callable[[Any], Collection[str]] | None = None
    timeout_s: float = 60.0
    asks: bool = False
    preview: Callable[[Any, ToolCall], Awaitable[str]] | None = None
    paths: Collection[str] | None = None
    files: Callable[[Mapping[str, JsonValue], str], Mapping[str, str | None]] | None = None
    guarded: bool = True
    tracks: bool = False
    stops: bool = True
    changes: Callable[[Mapping[str, JsonValue]], bool] | None = None

    def may_run_beside(self, other: Tool) -> bool:
        """Whether calls of both may run at the same time, as far as the tools tell."""
        if "unsafe" in (self.effect, other.effect) or self.asks or other.asks:
            return False
        return self.effect == other.effect == "pure" or (self.keys is not None and other.keys is not None)


@dataclass(frozen=True, kw_only=True)
class BoundCall:
    """A tool with an input that fits it."""

    tool: Tool
    input: BaseModel

    @property
    def effective(self) -> dict[str, JsonValue]:
        """What the tool gets, as JSON: coerced, and with defaults."""
        return self.input.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)

    def written(self, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the input to write down: what the tool gets, or ``given`` where that cannot be read back as the same.

        Args:
            given: What was checked.
        """
        try:
            effective = self.effective
            return effective if self.tool.input_model.model_validate(effective) == self.input else given
        except (ValidationError, PydanticSerializationError):
            return given

    def may_run_beside(self, other: BoundCall) -> bool:
        """Whether it makes no difference which of two calls comes first."""
        ours, theirs = self.tool, other.tool
        if not ours.may_run_beside(theirs):
            return False
        if ours.effect == theirs.effect == "pure" or ours.keys is None or theirs.keys is None:
            return True
        return set(ours.keys(self.input)).isdisjoint(theirs.keys(other.input))


class Toolkit:
    """The tools of one agent, by name.

    Args:
        tools: Each name once; the order is the model's, and part of what prompt caches match.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise InvalidInput(f"two tools are named {tool.name!r}; each name belongs to one tool")
            self._tools[tool.name] = tool
        self._specs = tuple(
            ToolSpec(name=t.name, description=t.description, input_schema=_schema(t.input_model))
            for t in self._tools.values()
        )

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is shown them."""
        return self._specs

    @property
    def answered_by_people(self) -> frozenset[str]:
        """Names of the tools whose results are a person's words."""
        return frozenset(name for name, tool in self._tools.items() if tool.asks)

    def files_of(self, call: ToolUseBlock, result: str) -> Mapping[str, str | None]:
        """Say which files a call that succeeded showed or wrote; what its tool cannot read shows nothing."""
        tool = self.get(call["name"])
        if tool is None or tool.files is None:
            return {}
        try:
            return tool.files(call["input"], result)
        except (LookupError, TypeError, ValueError):  # a result that was cut, or of an older version of the tool
            return {}

    def get(self, name: str) -> Tool | None:
        """Find a tool by its name."""
        return self._tools.get(name)

    def effect(self, name: str) -> SideEffect:
        """Say what running ``name`` may change; a tool that is not here changes nothing."""
        tool = self.get(name)
        return "pure" if tool is None else tool.effect

    def changes(self, name: str, given: Mapping[str, JsonValue]) -> bool:
        """Say whether a call that succeeded may have changed what other calls meet."""
        tool = self.get(name)
        if tool is None or tool.changes is None:
            return self.effect(name) != "pure"
        return tool.changes(given)

    def stops(self, name: str) -> bool:
        """Say whether ending a tool's task ends its work; a tool that is not here has none."""
        tool = self.get(name)
        return tool is None or tool.stops

    def tracks(self, name: str) -> bool:
        """Say whether a tool moves things on a list of things to do."""
        tool = self.get(name)
        return tool is not None and tool.tracks

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
            return _unreadable(name, str(given[INVALID_INPUT]))
        try:
            return BoundCall(tool=tool, input=tool.input_model.model_validate(given))
        except ValidationError as error:
            return _rejection(name, error)


def _unreadable(name: str, raw: str) -> ToolOutcome:
    path, problem = flaw(raw)
    return ToolOutcome.failure(
        "INVALID_JSON",
        f"The input of {name} was not a JSON object: at {path}: {problem} ({len(raw)} characters, ending "
        f"{raw[-_SHOWN_CHARS:]!r}). Nothing was run. Send the whole call again; if it was cut off, send less in one "
        "call.",
        details={"issues": [{"path": path, "problem": problem, "got": repr(raw[-_SHOWN_CHARS:])}]},
    )


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
