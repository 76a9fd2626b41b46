"""Paths in the inputs of calls, and the patterns that rules have of them: pure functions.

Every way to write a path is the same path here: ``.`` and ``..`` are taken out, and what lies below a root is named
from there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import cast

from pydantic import BaseModel, RootModel

__all__ = ["fits_path", "paths_in"]

_LOOKS = re.compile(
    r"path|file|folder|directory|directories|dir(?!ect)|^dest|^(?:src|source|target)s?$|^cwd$", re.IGNORECASE
)
_SEGMENT = "\0"


def paths_in(given: object, names: Collection[str] | None = None, *, keys: bool = True) -> list[str]:
    """Find the paths in an input.

    Under a name that holds paths these are the texts, those in lists too, and the keys of a mapping; what a mapping's
    values are is said by their own names, at any depth.

    Args:
        given: The input, as JSON or as a tool gets it.
        names: Those that hold paths; None for those that look like it, such as ``file_path`` and ``destination``.
        keys: Whether a mapping's keys are looked at. JSON does not tell mappings from objects with parts.

    Returns:
        The paths, normalised.
    """
    return [_normal(path) for path in _found(given, names, keys=keys, named=False) if path]


def fits_path(pattern: str, path: str, root: str | None = None) -> bool:
    """Whether a pattern covers a path, or a folder that it is in.

    ``*`` stands for any text, slashes too, and ``**/`` for no folder, one or several.

    Args:
        pattern: It, absolute or relative to ``root``.
        path: The path, normalised.
        root: Absolute path that paths are relative to; None compares them as they are written.
    """
    pattern = _normal(pattern)
    path = _as_in(pattern, path, root)
    if pattern in (".", "/"):  # all that is below it
        return path.startswith("/") if pattern == "/" else path.split("/")[0] not in ("", "..")
    wanted = _marked(pattern).replace(f"{_SEGMENT}**/", "*")  # any text that ends where a name begins
    return any(fnmatchcase(_marked(path), each) for each in (wanted, f"{wanted}/*"))


def _found(given: object, names: Collection[str] | None, *, keys: bool, named: bool) -> Iterator[str]:
    if isinstance(given, Enum) and not isinstance(given, str):
        given = given.value
    if isinstance(given, str | PurePath):
        if named:
            yield str(given)
    elif isinstance(given, Mapping):
        for name, value in cast("Mapping[object, object]", given).items():
            if named and keys:
                yield str(name)
            yield from _found(value, names, keys=keys, named=_holds_paths(str(name), names))
    elif isinstance(given, list | tuple | set | frozenset):
        for value in cast("Collection[object]", given):
            yield from _found(value, names, keys=keys, named=named)
    elif isinstance(given, RootModel):
        yield from _found(cast("RootModel[object]", given).root, names, keys=keys, named=named)
    else:
        for called, value in _parts(given):
            yield from _found(value, names, keys=keys, named=any(_holds_paths(name, names) for name in called))


def _parts(given: object) -> Iterator[tuple[list[str], object]]:
    """Yield the parts of an object, each with what it is called here and by the model."""
    if isinstance(given, BaseModel):
        known = type(given).model_fields
        for name, value in given:
            yield [name, *filter(None, [known[name].alias if name in known else None])], value
    elif is_dataclass(given):
        for field in fields(given):
            yield [field.name], getattr(given, field.name)


def _holds_paths(name: str, names: Collection[str] | None) -> bool:
    return name in names if names is not None else _LOOKS.search(name) is not None


def _normal(path: str) -> str:
    normal = posixpath.normpath(path.replace("\\", "/"))
    return f"/{normal.lstrip('/')}" if normal.startswith("/") else normal  # two slashes are one


def _as_in(pattern: str, path: str, root: str | None) -> str:
    """Write a normalised path as a pattern does: absolute, or relative to the root where it lies below it."""
    if root is None:
        return path
    root = _normal(root)
    whole = _normal("/" + posixpath.join(root, path))
    if pattern.startswith("/"):
        return whole
    return posixpath.relpath(whole, root) if whole == root or whole.startswith(f"{root.rstrip('/')}/") else path


def _marked(path: str) -> str:
    """Mark where each name of a path begins."""
    return _SEGMENT + path.replace("/", f"/{_SEGMENT}")
