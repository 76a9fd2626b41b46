"""TypeScript as text: literals the way a person would write them, and kit files with their blanks filled in."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import cast

__all__ = ["Raw", "fill", "imported", "kit", "literal"]

_KIT = resources.files("koda_ray.roles.offline") / "kit"
_WIDTH = 110
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_IMPORT = re.compile(r"from '(\.[^']+)'")
_BLANK = re.compile(r"__([A-Z][A-Z_]*)__")


class Raw(str):
    """TypeScript that stands as it is: an identifier, an expression."""

    __slots__ = ()


def literal(value: object, *, indent: int = 0) -> str:
    """Return a value as a TypeScript literal: single quotes, plain keys, one line where it fits.

    Args:
        value: Raw, str, bool, int, float, None (``undefined``), mappings and sequences of these. A mapping's None
            values are left out.
        indent: Columns that the literal's further lines are indented by.

    Raises:
        TypeError: It is, or holds, something else.
    """
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{round(float(value), 4):g}" if abs(value) < 1e6 else repr(float(value)).removesuffix(".0")
    pad = " " * (indent + 2)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        items = [
            f"{key if _IDENTIFIER.fullmatch(key) else _quoted(key)}: {literal(item, indent=indent + 2)}"
            for key, item in entries.items()
            if item is not None
        ]
        flat = "{ " + ", ".join(items) + " }" if items else "{}"
        open_, close = "{", "}"
    elif isinstance(value, list | tuple):
        items = [literal(item, indent=indent + 2) for item in cast("Sequence[object]", value)]
        flat = "[" + ", ".join(items) + "]"
        open_, close = "[", "]"
    else:
        raise TypeError(f"no TypeScript literal for {type(value).__name__}")
    if "\n" not in flat and len(flat) + indent <= _WIDTH:
        return flat
    return f"{open_}\n" + "".join(f"{pad}{item},\n" for item in items) + " " * indent + close


def _quoted(text: str) -> str:
    out = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    out = out.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return "'" + out.encode("utf-8", "replace").decode("utf-8") + "'"


@cache
def kit(path: str) -> str:
    """Return a kit file's text, such as ``components/Ball.tsx``."""
    return (_KIT / path).read_text(encoding="utf-8")


def fill(path: str, **values: object) -> str:
    """Return a kit file with its blanks (``__BALLS__``) filled with literals.

    Raises:
        KeyError: A blank has no value, or a value no blank: a kit file and its film do not fit.
    """
    text = kit(path)
    blanks = set(_BLANK.findall(text))
    names = {name.upper(): value for name, value in values.items()}
    if blanks != set(names):
        raise KeyError(f"{path} has the blanks {sorted(blanks)}, and was given {sorted(names)}")
    return _BLANK.sub(lambda m: literal(names[m.group(1)]), text)


def imported(files: Mapping[str, str]) -> dict[str, str]:
    """Return the kit's files that a project's files import, and those that they import themselves.

    What they import beyond the kit is the template's.
    """
    found: dict[str, str] = {}
    waiting = list(files.items())
    for path, text in waiting:
        for target in _IMPORT.findall(text):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)).removeprefix("src/")
            part = next((f"{name}.{end}" for end in ("tsx", "ts") if _in_kit(f"{name}.{end}")), None)
            if part is not None and f"src/{part}" not in files and f"src/{part}" not in found:
                found[f"src/{part}"] = kit(part)
                waiting.append((f"src/{part}", kit(part)))
    return found


@cache
def _in_kit(path: str) -> bool:
    return (_KIT / path).is_file()
