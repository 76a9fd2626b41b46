"""Tools from plain functions: the signature is the schema, the docstring is what the model reads."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast, overload

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, create_model

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.errors import InvalidInput
from koda_ray.state.records import SideEffect

__all__ = ["tool"]

_Function = Callable[..., Any]
_Preview: TypeAlias = Callable[[Any, ToolCall], Awaitable[str]]
_Files: TypeAlias = Callable[[Mapping[str, JsonValue], str], Mapping[str, str | None]]
_ANYTHING: TypeAdapter[object] = TypeAdapter(object)


@overload
def tool(function: _Function, /) -> Tool: ...


@overload
def tool(
    *,
    effect: SideEffect = "unsafe",
    keys: Sequence[str] | None = None,
    paths: Sequence[str] | None = None,
    preview: _Preview | None = None,
    files: _Files | None = None,
    name: str | None = None,
    timeout_s: float = 60.0,
) -> Callable[[_Function], Tool]: ...


def tool(
    function: _Function | None = None,
    /,
    *,
    effect: SideEffect = "unsafe",
    keys: Sequence[str] | None = None,
    paths: Sequence[str] | None = None,
    preview: _Preview | None = None,
    files: _Files | None = None,
    name: str | None = None,
    timeout_s: float = 60.0,
) -> Tool | Callable[[_Function], Tool]:
    """Make a tool of a function, plain or ``async``.

    Its parameters are what the model fills in, checked by their types; ``Annotated[int, Field(ge=0, description=...)]``
    says more. A parameter of type `ToolCall` is filled in for it: its ``id`` is the same however often the call is
    tried, which makes it the key of an idempotent one. What it returns, text or anything that JSON has, is the result.

    Args:
        function: When used without brackets.
        effect: What a crash in the middle of it means. ``unsafe``: it is not run again, and the model is told so;
            ``idempotent``: it is run again with the same call id; ``pure``: it changes nothing.
        keys: Its parameters that name all it reads or changes, such as a file's path. Calls that the model makes at
            once then run at once, where none is unsafe and no two are about the same; else one after the other.
        paths: Its parameters that hold paths, or name them deeper in what they hold, for the rules about paths; none
            for a function that has to do with no files. None for those whose names look like it: ``file_path``.
        preview: Awaited with the input, whose attributes are the parameters, and the call; returns what it would
            change, such as a diff, for whoever is asked to agree to it. It must change nothing: it may run more than
            once for one call, and the call may then be refused.
        files: Reads from an input and the result which files a call showed or wrote, whole, by path (None for one that
            it changed without saying to what): their newest content stays when old turns are shortened.
        name: What the model calls it; the function's own name when None.
        timeout_s: Longest time for one run. What is ``async`` ends with it; a plain function's thread cannot be ended,
            and the model is told that it may yet do all of its work.

    Raises:
        InvalidInput: It has no docstring, or a parameter no type that is known, or one that cannot be given by name, or
            no parameter that ``keys`` names, or nothing that ``paths`` names.
    """

    def make(given: _Function) -> Tool:
        made = _make(given, effect=effect, keys=keys, name=name or given.__name__, timeout_s=timeout_s)
        if unknown := set(paths or ()) - _names(made.input_model.model_json_schema()):
            raise InvalidInput(f"the tool {made.name!r} has no parameter {min(unknown)!r} to hold paths")
        return replace(made, paths=paths, preview=preview, files=files)

    return make if function is None else make(function)


def _make(function: _Function, *, effect: SideEffect, keys: Sequence[str] | None, name: str, timeout_s: float) -> Tool:
    description = inspect.getdoc(function)
    if not description:
        raise InvalidInput(f"the tool {name!r} has no docstring; the model reads it to know what the tool does")
    hints = _types(function, name)
    fields: dict[str, Any] = {}
    own: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidInput(f"the tool {name!r} takes {parameter}; a model fills in named parameters only")
        if parameter.name not in hints:
            raise InvalidInput(f"the parameter {parameter.name!r} of the tool {name!r} has no type")
        if hints[parameter.name] is ToolCall:
            own = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    if unknown := [key for key in keys or () if key not in fields]:
        raise InvalidInput(f"the tool {name!r} has no parameter {unknown[0]!r} to name what it works on")
    stops = inspect.iscoroutinefunction(function)
    model = create_model(f"{name}_input", __config__=ConfigDict(extra="forbid"), **fields)

    async def run(given: BaseModel, call: ToolCall) -> ToolOutcome:
        arguments = {field: getattr(given, field) for field in fields}
        if own is not None:
            arguments[own] = call
        if stops:
            found = await cast("Awaitable[object]", function(**arguments))
        else:
            found = await asyncio.to_thread(function, **arguments)
        return _outcome(found)

    return Tool(
        name=name,
        description=description,
        input_model=model,
        effect=effect,
        run=run,
        keys=None if keys is None else lambda given: _named(given, keys),
        timeout_s=timeout_s,
        stops=stops,
    )


def _names(schema: JsonValue) -> set[str]:
    """Return the names of all parts of an input."""
    found: set[str] = set()
    if isinstance(schema, dict):
        parts = schema.get("properties")
        found.update(parts if isinstance(parts, dict) else ())
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for each in inner:
        found |= _names(each)
    return found


def _named(given: BaseModel, keys: Sequence[str]) -> Collection[str]:
    """Return what some parameters name, one by one where they are lists."""
    found: list[str] = []
    for value in (getattr(given, key) for key in keys):
        several = isinstance(value, list | tuple | set | frozenset)
        found += map(str, cast("Sequence[object]", value) if several else [value])
    return found


def _types(function: _Function, name: str) -> dict[str, Any]:
    """Return the parameters' types; what it returns may be anything, and its type is not looked at."""
    annotations = {key: value for key, value in function.__annotations__.items() if key != "return"}
    holder = type(name, (), {"__annotations__": annotations})
    try:
        return typing.get_type_hints(holder, globalns=function.__globals__, include_extras=True)
    except NameError as error:
        raise InvalidInput(
            f"a type of the tool {name!r} is not known where it was written ({error}); import it at the top of the file"
        ) from None


def _outcome(found: object) -> ToolOutcome:
    if isinstance(found, ToolOutcome):
        return found
    if isinstance(found, str):
        return ToolOutcome(content=found)
    return ToolOutcome.json(_ANYTHING.dump_python(found, mode="json"))
