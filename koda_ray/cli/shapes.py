"""Typer's groups and commands, where ours say more: what each command does in full, and words that lack quotes."""

from __future__ import annotations

import shlex
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["Listing", "Spoken"]

_SENTENCE_CHARS = 1000


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
