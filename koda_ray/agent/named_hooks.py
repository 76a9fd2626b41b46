"""Hooks that a deployment names, for agents that it does not make itself: ``package.module:name``, in order.

Sessions run in processes of their own, on any node, so what they are hooked with has to be found by name there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias, cast

from koda_ray.agent.hooks import Hook
from koda_ray.errors import InvalidInput

__all__ = ["HookSource", "HookedSession", "NamedHooks"]


@dataclass(frozen=True, kw_only=True)
class HookedSession:
    """Whose agents are hooked."""

    session_id: str
    user_id: str
    project_id: str


HookSource: TypeAlias = Hook | Sequence[Hook] | Callable[[HookedSession], Hook | Sequence[Hook]]
"""What a name may stand for: a hook, several in order, or a function that makes them for a session."""


class NamedHooks:
    """Hooks found by their names.

    Args:
        names: ``package.module:name`` of each `HookSource`, in the order in which they are heard.

    Raises:
        InvalidInput: A name has another form, cannot be imported, or stands for something else.

    Example:
        # audit.py, on the PYTHONPATH of the server and of every node; KODA_HOOKS=audit:hooks
        def hooks(session: HookedSession) -> Hook:
            async def before_tool(call: ToolCall, given: dict[str, JsonValue]) -> Stop | None:
                return Stop("no shells here") if call.name == "sandbox_shell" else None

            return Hook(name="audit", before_tool=before_tool, on_failure="stop")
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._sources = [(name, _found(name)) for name in names]

    def of(self, session: HookedSession) -> tuple[Hook, ...]:
        """Return a session's hooks.

        Raises:
            InvalidInput: A function that should make them failed, or made something else.
        """
        found: list[Hook] = []
        for name, source in self._sources:
            made: object = source
            if not isinstance(source, Hook | Sequence):
                try:
                    made = source(session)
                except Exception as error:
                    raise InvalidInput(f"KODA_HOOKS: {name} failed with {type(error).__name__}: {error}") from error
            found += _hooks(name, made)
        return tuple(found)


def _found(name: str) -> HookSource:
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise InvalidInput(f"KODA_HOOKS names {name!r}; write package.module:name, with commas between several")
    try:
        source = getattr(import_module(module), attribute)
    except Exception as error:  # whatever a module does while it is imported
        raise InvalidInput(
            f"KODA_HOOKS: {name} cannot be imported ({type(error).__name__}: {error}); is it on the PYTHONPATH of the "
            "server, and of every node?"
        ) from error
    return cast("HookSource", source) if callable(source) else _hooks(name, source)


def _hooks(name: str, found: object) -> list[Hook]:
    each = list(cast("Sequence[object]", found)) if isinstance(found, list | tuple) else [found]
    if any(not isinstance(one, Hook) for one in each):
        raise InvalidInput(
            f"KODA_HOOKS: {name} gives {found!r:.100}; it has to be a koda_ray.agent.Hook, a list of them, or a "
            "function of a session that returns one or the other"
        )
    return cast("list[Hook]", each)
