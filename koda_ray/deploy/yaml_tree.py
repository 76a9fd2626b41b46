"""YAML with the line of each value, so that what is wrong can be pointed at.

PyYAML's own parser, which is Ray's too: what it reads is what `ray up` will read. It takes the last of two equal keys
without a word; here that is an error, since the first was meant by somebody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import yaml

from koda_ray.errors import InvalidInput

__all__ = ["Keys", "Tree", "read_trees"]

Keys = tuple[str | int, ...]
"""The way to a value: keys of mappings and places in lists, from the document's root."""


class Tree:
    """A value of a document, with what lies below it and the lines of all; one that is not there is a value too.

    Args:
        value: Mappings, lists, texts, numbers, booleans; None where nothing stands.
        lines: The line of each way from the root, counted from 1.
        keys: The way to this value.
    """

    def __init__(self, value: object, lines: Mapping[Keys, int], keys: Keys = ()) -> None:
        self.value = value
        self.keys = keys
        self._lines = lines

    def at(self, *keys: str | int) -> Tree:
        """Return what lies at the end of this way, there or not."""
        value = self.value
        for key in keys:
            match value:
                case dict():
                    value = cast("dict[object, object]", value).get(key)
                case list() if isinstance(key, int) and -1 < key < len(cast("list[object]", value)):
                    value = cast("list[object]", value)[key]
                case _:
                    value = None
        return Tree(value, self._lines, (*self.keys, *keys))

    def __bool__(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    @property
    def line(self) -> int:
        """The line of the value, or of the nearest above it that is there."""
        return self.line_of(())

    def line_of(self, keys: Keys) -> int:
        """The line of what lies below, or of the nearest above it that is there."""
        way = (*self.keys, *keys)
        while way not in self._lines and way:
            way = way[:-1]
        return self._lines.get(way, 1)

    @property
    def text(self) -> str | None:
        """A scalar as YAML's reader would write it; None for anything else."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return str(self.value) if isinstance(self.value, str | int | float) else None

    @property
    def number(self) -> float | None:
        """A number, also one in quotes; None for anything else."""
        try:
            return float(self.text or "")
        except ValueError:
            return None

    def fields(self) -> dict[str, Tree]:
        """The values of a mapping by key; nothing for anything else."""
        value: object = self.value
        return {str(key): self.at(key) for key in cast("dict[str, object]", value)} if isinstance(value, dict) else {}

    def items(self) -> list[Tree]:
        """The values of a list; nothing for anything else."""
        value: object = self.value
        return [self.at(place) for place in range(len(cast("list[object]", value)))] if isinstance(value, list) else []

    def scalars(self) -> Iterator[Tree]:
        """All texts, numbers and booleans below."""
        if isinstance(self.value, dict | list):
            for below in (*self.fields().values(), *self.items()):
                yield from below.scalars()
        elif self:
            yield self


def read_trees(text: str, *, first_line: int = 1) -> list[Tree]:
    """Read the documents of a YAML text.

    Args:
        text: The text.
        first_line: The line on which it begins, where it stands inside another file.

    Raises:
        InvalidInput: It is no YAML, or has a key twice; the context has the ``line``.
    """
    loader = yaml.SafeLoader(text)
    trees: list[Tree] = []
    try:
        while loader.check_node():
            node = cast("yaml.Node", loader.get_node())
            _refuse_repeated(node, first_line)
            value = cast("Any", loader).construct_document(node)
            lines: dict[Keys, int] = {}
            _note_lines(node, (), first_line, lines)
            if value is not None:
                trees.append(Tree(value, lines))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + (mark.line if mark is not None else 0)
        raise InvalidInput(f"no YAML: {error.problem or error.context}", context={"line": line}) from None
    except yaml.YAMLError as error:
        raise InvalidInput(f"no YAML: {error}", context={"line": first_line}) from None
    finally:
        cast("Any", loader).dispose()
    return trees


def _refuse_repeated(node: yaml.Node, first_line: int) -> None:
    if isinstance(node, yaml.SequenceNode):
        for below in cast("list[yaml.Node]", node.value):
            _refuse_repeated(below, first_line)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, below in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            name = str(cast("Any", key).value)
            if name in seen and name != "<<":
                line = first_line + key.start_mark.line
                raise InvalidInput(f"{name!r} stands here twice, and only the last is read", context={"line": line})
            seen.add(name)
            _refuse_repeated(below, first_line)


def _note_lines(node: yaml.Node, keys: Keys, first_line: int, lines: dict[Keys, int]) -> None:
    """Note where values stand: those of a mapping where their key does. What was merged in is in the node by now."""
    lines.setdefault(keys, first_line + node.start_mark.line)
    if isinstance(node, yaml.SequenceNode):
        for place, below in enumerate(cast("list[yaml.Node]", node.value)):
            _note_lines(below, (*keys, place), first_line, lines)
    if isinstance(node, yaml.MappingNode):
        for key, below in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            way = (*keys, cast("str", cast("Any", key).value))
            lines[way] = first_line + key.start_mark.line
            _note_lines(below, way, first_line, lines)
