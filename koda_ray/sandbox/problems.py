"""Reads what Vite, esbuild, Rollup and TypeScript print when they refuse, as file, line, column and message.

A model corrects what it can find: the tools differ in how they say where (columns from 0 or from 1, a file only, or the
name of an import only), so all of it is brought to one form, with lines and columns from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from koda_ray.hearsay import plain, whole

__all__ = ["BuildProblem", "import_position", "parse_build", "parse_types"]

_MAX_PROBLEMS = 20
_MAX_MESSAGE_CHARS = 1500
_MAX_FILE_CHARS = 1024
_MAX_READ_CHARS = 4 * _MAX_MESSAGE_CHARS
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STACK = re.compile(r"^[ \t]++at .*$", re.MULTILINE)
# what is printed is a stranger's, and long: possessive ("*+"), so that no line is read again for each of its tags
_TAG = r"(?:\[[^\]\n]+\]:? ?)*+"
_ESBUILD = re.compile(r"^(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): ERROR: (?P<message>.+)$", re.MULTILINE)
_ROLLUP = re.compile(
    rf"^{_TAG}(?P<file>[^\s(][^\n(]*?) \((?P<line>\d+):(?P<column>\d+)\): (?P<message>.+)$", re.MULTILINE
)
_POSTCSS = re.compile(
    rf"^{_TAG}(?:[\w-]+: )?(?P<file>/[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$", re.MULTILINE
)
_UNRESOLVED = re.compile(
    rf"^{_TAG}(?P<message>(?:Rollup failed to resolve import|Could not resolve|Failed to resolve(?: import)?) "
    r'"?(?P<name>[^"\s]+)"? from "?(?P<file>[^"\n]+?)"?\.?)$',
    re.MULTILINE,
)
_NO_TOOL = re.compile(r"Cannot find module '\S*?node_modules/(?P<name>vite|typescript)/\S+'")
_FILE = re.compile(r"^file: (?P<file>[^\n]+?)(?::(?P<line>\d+):(?P<column>\d+))?$", re.MULTILINE)
_TSC = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+),(?P<column>\d+)\): error (?P<message>TS\d+: .+)$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True)
class BuildProblem:
    """One reason why a project does not build; ``file`` relative to the project, line and column from 1."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    missing_import: str | None = None


def parse_build(output: str) -> tuple[BuildProblem, ...]:
    """Read the output of a failed ``vite build``.

    Returns:
        At least one problem: where nothing is recognised, the last lines as they are.
    """
    text = _STACK.sub("", _ANSI.sub("", output)).replace("\r", "")
    start = text.find("error during build:")
    text = text[start:] if start >= 0 else text
    if (lacking := _NO_TOOL.search(text)) is not None:
        return (BuildProblem(message=f"the project has no {lacking['name']}; add it to what the sandbox starts from"),)
    found = [_problem(match, first_column=0) for match in _ESBUILD.finditer(text)]
    found = found or [_problem(match, first_column=0) for match in _ROLLUP.finditer(text)]
    found = found or [_problem(match, first_column=0) for match in _UNRESOLVED.finditer(text)]
    found = found or [_problem(match, first_column=1) for match in _POSTCSS.finditer(text)]
    return _distinct(found) or (_unplaced(text),)


def parse_types(output: str) -> tuple[BuildProblem, ...]:
    """Read the output of ``tsc --noEmit --pretty false``; empty when it found nothing."""
    return _distinct(_problem(match, first_column=1) for match in _TSC.finditer(output))


def import_position(source: str, name: str) -> tuple[int, int] | None:
    """Find where a source names an import: line and column from 1, of the name's quotation mark."""
    for number, line in enumerate(source.splitlines(), 1):
        for quote in "'\"`":
            at = line.find(f"{quote}{name}{quote}")
            if at >= 0:
                return number, at + 1
    return None


def _problem(match: re.Match[str], *, first_column: int) -> BuildProblem:
    groups = match.groupdict()
    return BuildProblem(
        message=_message(groups["message"]),
        file=_relative(groups["file"]),
        line=whole(groups.get("line")),
        column=_column(groups.get("column"), first=first_column),
        missing_import=groups.get("name"),
    )


def _unplaced(text: str) -> BuildProblem:
    lines = [line for line in text.removeprefix("error during build:").strip().splitlines() if line.strip()]
    where = _FILE.search(text)
    kept = [line for line in lines if not line.startswith("file: ")]
    return BuildProblem(
        message=_message("\n".join(kept[:12]) or "the build failed without saying why"),
        file=_relative(where["file"]) if where else None,
        line=whole(where["line"]) if where else None,
        column=_column(where["column"], first=0) if where else None,
    )


def _column(digits: str | None, *, first: int) -> int | None:
    column = whole(digits)
    return None if column is None else column + 1 - first


def _relative(file: str) -> str:
    named = file.strip().removeprefix("file://").partition("?")[0].lstrip("\0")  # so Rollup marks what is no file
    path = plain(named, _MAX_FILE_CHARS)
    head, mark, tail = path.partition("/project/")
    return tail if mark and head.startswith("/") else path


def _message(text: str) -> str:
    text = re.sub(r"/\S*?/project/", "", plain(text.strip(), _MAX_READ_CHARS))
    return text if len(text) <= _MAX_MESSAGE_CHARS else f"{text[:_MAX_MESSAGE_CHARS]}..."


def _distinct(problems: Iterable[BuildProblem]) -> tuple[BuildProblem, ...]:
    return tuple(dict.fromkeys(problems))[:_MAX_PROBLEMS]
