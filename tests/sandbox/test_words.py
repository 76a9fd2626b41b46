"""What a sandbox's errors say: each tells what to do, whoever puts its words together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import koda_ray.sandbox
from koda_ray import errors
from koda_ray.errors import KodaError

ROOT = Path(koda_ray.sandbox.__file__).parent
KINDS = {name for name in errors.__all__ if issubclass(getattr(errors, name), KodaError)}
TRANSLATED = {"inside.py"}
"""Where words are put into an error of another place, which says what to do."""
VERBS = (
    "add|apt-get|begin|build|change|choose|close|connect|create|destroy|do|end|free|give|have|install|kill|launch|leave|"
    "let|link|list|look|make|mend|name|pip|put|raise|read|remove|render|run|see|send|set|start|stop|take|terminate|try|unset|use|"
    "wait|write|zip"
)
MARK = "\0"
"""Stands for a value in an error's words."""
WAY = re.compile(rf"(?:^|[;:,.){MARK}] |\b(?:or|and) )(?:(?:{VERBS})\b|`(?:koda|modal|docker) )", re.IGNORECASE)
DEEPEST = 4

Function = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=256)
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


class Place:
    """Where an expression is, which says what its names and calls may come to."""

    def __init__(self, path: Path, inside: ast.AST) -> None:
        self.path = path
        self.inside = inside

    def silent(self, node: ast.expr, depth: int = 0) -> set[str]:
        """Return those of an expression's words that do not tell what to do; a mark where nobody knows them."""
        match node:
            case ast.Constant(value=str(words)):
                return set() if WAY.search(words) else {words}
            case ast.JoinedStr(values=parts):
                literal = "".join(str(part.value) if isinstance(part, ast.Constant) else MARK for part in parts)
                values = [self.silent(part.value, depth) for part in parts if isinstance(part, ast.FormattedValue)]
                return set() if WAY.search(literal) or not all(values) else {literal}.union(*values[-1:]) - {MARK}
            case ast.IfExp(body=left, orelse=right):
                return self.silent(left, depth) | self.silent(right, depth)
            case ast.Dict(values=values):
                return {words for value in values for words in self.silent(value, depth)}
            case ast.Subscript(value=table):
                return self.silent(table, depth)
            case ast.Await(value=call):
                return self.silent(call, depth)
            case ast.Call(func=ast.Attribute(attr="get", value=table), args=[_, other]):
                return self.silent(table, depth) | self.silent(other, depth)
            case ast.Name(id=name) if depth < DEEPEST:
                return self._each([*self._assigned(name), *self._given(name)], depth)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name)) if (
                depth < DEEPEST
            ):
                return self._each(list(self._returned(name)), depth)
            case _:
                return {MARK}

    def _each(self, found: list[tuple[Place, ast.expr]], depth: int) -> set[str]:
        return {words for place, node in found for words in place.silent(node, depth + 1)} if found else {MARK}

    def _assigned(self, name: str) -> Iterator[tuple[Place, ast.expr]]:
        """What a name is set to, here or in the module."""
        for node in (*ast.walk(self.inside), *ast.iter_child_nodes(parsed(self.path))):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    yield self, node.value

    def _given(self, name: str) -> Iterator[tuple[Place, ast.expr]]:
        """What the package's calls of this function give for one of its arguments."""
        if not isinstance(self.inside, Function):
            return
        arguments = self.inside.args
        order = [one.arg for one in arguments.args if one.arg not in ("self", "cls")]
        if name not in order and name not in {one.arg for one in arguments.kwonlyargs}:
            return
        for place, call in called().get(self.inside.name, ()):
            by_name = [word.value for word in call.keywords if word.arg == name]
            by_place = [value for one, value in zip(order, call.args, strict=False) if one == name]
            yield from ((place, value) for value in by_name or by_place)

    def _returned(self, name: str) -> Iterator[tuple[Place, ast.expr]]:
        """What a function of the module returns."""
        for function in ast.walk(parsed(self.path)):
            if isinstance(function, Function) and function.name == name:
                for node in ast.walk(function):
                    if isinstance(node, ast.Return) and node.value is not None:
                        yield Place(self.path, function), node.value


@lru_cache(maxsize=256)
def calls(path: Path) -> tuple[tuple[Place, ast.Call], ...]:
    """The calls of a module, each with the function that it is in."""
    found: dict[ast.Call, ast.AST] = {}
    for function in ast.walk(parsed(path)):  # outer ones first: the innermost stays
        if isinstance(function, ast.Module | Function):
            found |= {call: function for call in ast.walk(function) if isinstance(call, ast.Call)}
    return tuple((Place(path, inside), call) for call, inside in found.items())


@lru_cache(maxsize=1)
def called() -> dict[str, list[tuple[Place, ast.Call]]]:
    """The package's calls, by the name of what is called."""
    found: dict[str, list[tuple[Place, ast.Call]]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for place, call in calls(path):
            name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            found.setdefault(name, []).append((place, call))
    return found


def without_way(path: Path) -> list[str]:
    return [
        f"{path.name}:{call.lineno}: {words.replace(MARK, '{}')}"
        for place, call in calls(path)
        if isinstance(call.func, ast.Name) and call.func.id in KINDS and call.args
        for words in sorted(place.silent(call.args[0]))
    ]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_says_what_to_do(path: Path) -> None:
    if path.name not in TRANSLATED:
        assert without_way(path) == []


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("raise SandboxError(f'{name!r} is full; remove a file')", 0),
        ("raise SandboxError(f'{name!r} is full; it holds {count}')", 1),
        ("raise SandboxError(f'{name!r} cannot be written: {error}')", 1),
        ("raise SandboxError(str(error))", 1),
        ("way = 'try again' if busy else 'it is broken'\nraise SandboxError(f'it ended; {way}')", 2),
        ("def made(why):\n  return SandboxError(f'no: {why}')\nmade('it is so; wait')\nmade('it is so')", 2),
        ("def way():\n  return 'wait'\nraise SandboxError(f'no; {way()}')", 0),
    ],
)
def test_words_that_tell_nothing_are_found(
    text: str, silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module.py").write_text(text)
    monkeypatch.setattr("tests.sandbox.test_words.ROOT", tmp_path)
    called.cache_clear()
    try:
        assert len(without_way(tmp_path / "module.py")) == silent
    finally:
        called.cache_clear()
