"""Reads what Vite, its bundlers and TypeScript print when they refuse, as file, line, column and message.

A model corrects what it can find: the tools differ in how they say where (columns from 0 or from 1, a file only, or the
name of an import only), so all of it is brought to one form, with lines and columns from 1. Projects that were begun
elsewhere bring older tools along: up to 7, Vite has esbuild and Rollup where it has Rolldown and Lightning CSS now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from koda_ray.hearsay import plain, whole

__all__ = ["BuildProblem", "export_position", "import_position", "parse_build", "parse_types"]

_MAX_PROBLEMS = 20
_MAX_MESSAGE_CHARS = 1500
_MAX_FILE_CHARS = 1024
_MAX_READ_CHARS = 4 * _MAX_MESSAGE_CHARS
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STACK = re.compile(r"^[ \t]++at .*$", re.MULTILINE)
# what is printed is a stranger's, and long: possessive ("*+"), so that no line is read again for each of its tags
_TAG = r"(?:\[[^\]\n]+\]:? ?)*+"
_ROLLDOWN = re.compile(
    r"^[ \t]*+\[[^\]\n]+\] (?P<message>[^\n]+)\n"
    r"[ \t]*+\u256d\u2500\[ (?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+) \]$",
    re.MULTILINE,
)
_PLUGIN = re.compile(
    r"^\[plugin [^\]\n]+\] (?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+)\n(?:RolldownError: )?(?P<message>[^\n]+)$",
    re.MULTILINE,
)
_IMPORT = re.compile(r"Could not resolve '(?P<name>[^'\n]+)' in ")
_EXPORT = re.compile(r"\"(?P<name>[^\"\n]+)\" is not exported by \"")
_CLAUSE = re.compile(r"\b(?:im|ex)port\b[^;'\"]*+")
_CONFIG = re.compile(r"^failed to load config from (?P<file>[^\n]+)$", re.MULTILINE)
_SUMMARY = re.compile(
    r"^(?:Error: )?Build failed with \d+ errors?:$|^ *errors: \[Getter/Setter\]$|^}$|^ +\d+: <unknown>$"
)
_ESBUILD = re.compile(r"^(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): ERROR: (?P<message>.+)$", re.MULTILINE)
_ROLLUP = re.compile(
    rf"^{_TAG}(?P<file>[^\s(][^\n(]*?) \((?P<line>\d+):(?P<column>\d+)\): (?P<message>.+)$", re.MULTILINE
)
_POSTCSS = re.compile(
    rf"^{_TAG}(?:[\w-]+: )?(?P<file>/[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$", re.MULTILINE
)
_UNRESOLVED = re.compile(
    rf"^(?:Error: )?{_TAG}"
    r"(?P<message>(?:Roll(?:down|up) failed to resolve import|Could not resolve|Failed to resolve(?: import)?) "
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
    """One reason why a project does not build; ``file`` relative to the project, line and column from 1.

    Where a module or a name of one was not found, that is in ``missing_import`` or ``missing_export``: line and column
    are then those of what a bundler made of the source, where it says any.
    """

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    missing_import: str | None = None
    missing_export: str | None = None


def parse_build(output: str) -> tuple[BuildProblem, ...]:
    """Read the output of a failed ``vite build``.

    Returns:
        At least one problem: where nothing is recognised, the last lines as they are.
    """
    whole_text = _STACK.sub("", _ANSI.sub("", output)).replace("\r", "")
    start = whole_text.find("error during build:")
    text = whole_text[start:] if start >= 0 else whole_text
    if (lacking := _NO_TOOL.search(text)) is not None:
        return (BuildProblem(message=f"the project has no {lacking['name']}; add it to what the sandbox starts from"),)
    found = [_problem(match, first_column=1) for match in _ROLLDOWN.finditer(text)]
    found += [_problem(match, first_column=0) for match in _PLUGIN.finditer(text)]
    found = found or [_problem(match, first_column=0) for match in _ESBUILD.finditer(text)]
    found = found or [_problem(match, first_column=0) for match in _ROLLUP.finditer(text)]
    found = found or [_problem(match, first_column=0) for match in _UNRESOLVED.finditer(text)]
    found = found or [_problem(match, first_column=1) for match in _POSTCSS.finditer(text)]
    return _distinct(found) or (_unplaced(text, _CONFIG.search(whole_text)),)


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


def export_position(source: str, name: str) -> tuple[int, int] | None:
    """Find where a source imports a name, or passes it on: line and column from 1."""
    for clause in _CLAUSE.finditer(source):
        if (found := re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", clause[0])) is not None:
            before = source[: clause.start() + found.start()]
            return before.count("\n") + 1, len(before) - before.rfind("\n")
    return None


def _problem(match: re.Match[str], *, first_column: int) -> BuildProblem:
    groups = match.groupdict()
    return BuildProblem(
        message=_message(groups["message"]),
        file=_relative(groups["file"]),
        line=whole(groups.get("line")),
        column=_column(groups.get("column"), first=first_column),
        missing_import=groups.get("name") or _named(_IMPORT, groups["message"]),
        missing_export=_named(_EXPORT, groups["message"]),
    )


def _unplaced(text: str, config: re.Match[str] | None) -> BuildProblem:
    lines = [line for line in text.removeprefix("error during build:").strip().splitlines() if line.strip()]
    lines = [line for line in lines if not _SUMMARY.match(line)]
    where = _FILE.search(text) or config
    place = where.groupdict() if where else {}
    kept = [line for line in lines if not line.startswith("file: ")]
    return BuildProblem(
        message=_message("\n".join(kept[:12]) or "the build failed without saying why"),
        file=_relative(where["file"]) if where else None,
        line=whole(place.get("line")),
        column=_column(place.get("column"), first=0),
    )


def _named(said: re.Pattern[str], message: str) -> str | None:
    found = said.match(message)
    return found["name"] if found else None


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
