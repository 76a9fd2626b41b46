"""Typer's groups and commands, where ours say more or take less: full sentences, missing quotes, options as values."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Any, cast, get_type_hints

from typer.core import TyperCommand, TyperGroup

__all__ = ["Listing", "OfPages", "Spoken", "spread"]

_SENTENCE_CHARS = 1000
_OF_SESSIONS = {
    "--resolution": "a page has --preset or --size",
    "--transparent": "a page has --alpha",
    "--server": "a page is rendered here",
}


class Listing(TyperGroup):
    """A group whose help has each command's first sentence, over two lines where one is too short."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands into a help page."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [
            (name, command.get_short_help_str(_SENTENCE_CHARS))
            for name, command in commands.items()
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Spoken(TyperCommand):
    """A command whose last argument is what a person says: who forgets the quotes is shown where they belong."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; the words that are left over belonged to the last of them."""
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if left:
            given = [str(ctx.params[str(each.name)]) for each in self.params if each.param_type_name == "argument"]
            said = shlex.join([*given[:-1], " ".join([given[-1], *left])])
            ctx.fail(f"Several words came where one text belongs; put it in quotes: {ctx.command_path} {said}")
        return left


class OfPages(TyperCommand):
    """A command on pages that is asked for a session's video too: it says which command makes that."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, unless they are those of the other command."""
        session = next((word for word in args if word.startswith("ses_") and not Path(word).exists()), None)
        named = {word.partition("=")[0] for word in args}
        option = next((each for each in _OF_SESSIONS if each in named), None)
        left = super().parse_args(ctx, args) if option is None else []
        if option is not None and session is None:
            ctx.fail(f"{option} is for sessions (koda final SESSION {option} ...); {_OF_SESSIONS[option]}")
        if option is not None or ctx.params["page"] == session:
            ctx.fail(
                f"{session} is a session, and {ctx.command_path} is for pages. A session's video: "
                f"koda final {session} [--resolution SIZE] [--fps N] [--format KIND]"
            )
        return left


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of its frozen values as options, and hands them on as those values.

    Args:
        command: A function; its parameters that are dataclasses have fields which Typer can read.
    """
    values: dict[str, type[Any]] = {}
    options: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        if not is_dataclass(each.annotation):
            options.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        values[each.name] = cast("type[Any]", each.annotation)
        kinds = get_type_hints(each.annotation, include_extras=True)
        options += [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=kinds[one.name])
            for one in fields(each.annotation)
        ]

    @wraps(command)
    def taken(**given: Any) -> None:
        made = {name: kind(**{one.name: given.pop(one.name) for one in fields(kind)}) for name, kind in values.items()}
        command(**given, **made)

    taken.__dict__["__signature__"] = inspect.Signature(options)
    return taken
