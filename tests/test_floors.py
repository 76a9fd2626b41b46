"""The shape of the code: floors, names, versions. What a person would otherwise have to notice in review."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import koda_ray
from koda_ray.config import REPO_ROOT

_PYPROJECT = tomllib.loads((REPO_ROOT / "pyproject.toml").read_text())
# Run by another program, inside a sandbox: not modules of ours.
_GUESTS = ("koda_ray/sandbox/guest", "koda_ray/state/migrations", "koda_ray/__main__.py")
_MODULES = sorted(
    ".".join(path.relative_to(REPO_ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (REPO_ROOT / "koda_ray").rglob("*.py")
    if not str(path.relative_to(REPO_ROOT)).startswith(_GUESTS)
)


def test_imports_go_downwards_only() -> None:
    program = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [str(program), "--no-cache"], cwd=REPO_ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


_ONE_NAME = {
    "Answer": "a person's command, and its body on the wire, whose name is API; what a scripted model, or person, says",
    "Approve": "a person's command, and its body on the wire, whose name is API",
    "Refuse": "a person's command, and its body on the wire, whose name is API",
    "Reject": "a person's command, and its body on the wire, whose name is API",
    "Rewind": "a person's command, and its body on the wire, whose name is API",
    "Call": "what a model does: the offline director's, and a scripted one's",
    "Desk": "where an agent is tried by itself: the loop's, and the offline director's",
    "Disk": "what outlives a process: a folder of the store's, and of tests of the loop what was committed",
    "Json": "what is sent and stored as JSON: a column's type, and any object in tests",
    "Message": "a turn of a conversation; on the wire, whose names are API, a person's words; a frame of a sandbox's",
    "Say": "an agent's command, and what a scripted model writes",
    "Script": "what is played: the offline director's, and a model's in tests",
    "Step": "one thing after another: the ledger's, and a scripted model's",
    "Think": "an agent's command, and what a scripted model writes",
    "World": "what stands around what is tried: the tools' effects, a provider of sandboxes, a server's parts",
    "Usage": "what a model call used; on the wire, whose names are API, what all of somebody's calls did",
}
"""Names that several modules have for what is theirs, and why; everywhere else a name is one idea."""


_ONE_FUNCTION = {
    "build": "a command and what it does; a sandbox's project, E2B's template, and a server's application are built",
    "build_image": "a command; what builds one with Docker's engine, and what Modal builds",
    "create": "a command's work; the rows of a session are created",
    "follow": "a command's work; a stream of events is followed",
    "main": "where a program begins",
    "make": "a folder for Ray, a control group: said after its module's name",
    "output": "a command; what a process wrote, as its keeper has it",
    "read_file": "a command; a file of a checkpoint",
    "remove": "said after its module's name: a folder, a control group, a server's file; a command",
    "render": "what a person's command does to a session; a page to a video: a public door",
    "run": "said after its module's name: a program, a server, an examination; a command",
    "save": "a command's work; a checkpoint is saved",
    "screenshot": "a command; what takes one inside a sandbox",
    "start": "said after its module's name: what a person's command does, FFmpeg, a process that is kept",
    "watch": "a command; what tells a sandbox's changes",
}
"""Names of functions that several packages have, and why; within a package, who shares one does the same."""


@dataclass(frozen=True)
class _Read:
    """What is looked at of a file; its tree, a hundred times as large, is not kept.

    Args:
        docstring: The module's.
        public: Names of its functions and classes that others may use.
        functions: Those of them that are functions.
        types: Its classes and type aliases.
        sizes: Of each function, those within others too: its whole name, how much it takes, and its lines.
    """

    docstring: str | None
    public: frozenset[str]
    functions: frozenset[str]
    types: frozenset[str]
    sizes: tuple[tuple[str, int, int], ...]


@cache
def _read(path: Path) -> _Read:
    """Parse a file, once for all tests."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = ".".join(path.relative_to(REPO_ROOT).with_suffix("").parts).removesuffix(".__init__")
    public = [node for node in tree.body if _is_public(node)]
    return _Read(
        docstring=ast.get_docstring(tree),
        public=frozenset(node.name for node in public),
        functions=frozenset(node.name for node in public if not isinstance(node, ast.ClassDef)),
        types=frozenset(named for node in tree.body if (named := _type_named(node)) is not None),
        sizes=tuple((name, *_size(function)) for name, function in _functions(tree, module)),
    )


def test_the_name_of_a_function_is_one_idea() -> None:
    homes: dict[str, set[str]] = {}
    for name in _MODULES:
        package = (name.split(".")[1:-1] or ["(lowest)"])[0]
        for found in _read(_path(name)).functions:
            homes.setdefault(found, set()).add(package)
    shared = {found: packages for found, packages in homes.items() if len(packages) > 1}
    assert shared.keys() == _ONE_FUNCTION.keys(), {
        f: packages for f, packages in shared.items() if f not in _ONE_FUNCTION
    } or f"none any more: {_ONE_FUNCTION.keys() - shared.keys()}"


def _shared() -> list[str]:
    """The modules that others may take names from: what a test module defines is its own."""
    return [
        *_MODULES,
        *(
            ".".join(path.relative_to(REPO_ROOT).with_suffix("").parts).removesuffix(".__init__")
            for folder in ("benchmarks", "tests")
            for path in sorted((REPO_ROOT / folder).rglob("*.py"))
            if not path.name.startswith("test_")
        ),
    ]


def test_the_name_of_a_class_is_one_idea() -> None:
    homes: dict[str, set[str]] = {}
    for name in _shared():
        for found in _read(_path(name)).types:
            if not found.startswith("_"):
                homes.setdefault(found, set()).add(name)
    shared = {found: modules for found, modules in homes.items() if len(modules) > 1}
    assert shared.keys() == _ONE_NAME.keys(), {f: m for f, m in shared.items() if f not in _ONE_NAME} or "none any more"


_MOST_TAKEN, _MOST_LINES = 6, 60
_WIDE = {
    "koda_ray.agent.alone.Agent.__init__": "a public door, by keywords after the name",
    "koda_ray.agent.functions.tool": "a public door, by keywords: what a tool is, beside the function",
    "koda_ray.client.sessions.KodaClient.create": "a public door, by keywords: the body of a request",
    "koda_ray.cli.renders.render": "a command: each is a group of its options",
    "koda_ray.cli.sessions.create": "a command: each is one of its options, or a group of them",
    "koda_ray.client.renders.PageRenders.page_renders": "a query: each is one of its parameters, as the API names them",
    "koda_ray.client.sessions.KodaClient.sessions": "a query: each is one of its parameters, as the API names them",
}
"""Functions that take more than six things, and why; ``self`` and ``**options`` are not counted."""
_LONG = {
    "koda_ray.actors.session.Session.__init__": "makes all parts of a session, whole, in one place",
    "koda_ray.seccomp.filter_program": "one program, instruction by instruction",
}
"""Functions of more than a page beside their docstring, and why."""


def test_no_function_takes_more_than_six_things_or_is_longer_than_a_page() -> None:
    wide: dict[str, int] = {}
    long: dict[str, int] = {}
    for path in sorted([*(REPO_ROOT / "koda_ray").rglob("*.py"), *(REPO_ROOT / "benchmarks").rglob("*.py")]):
        if path.is_relative_to(REPO_ROOT / "koda_ray/state/migrations"):
            continue  # tables, one after the other
        for name, taken, lines in _read(path).sizes:
            if taken > _MOST_TAKEN:
                wide[name] = taken
            if lines > _MOST_LINES:
                long[name] = lines
    assert wide.keys() == _WIDE.keys(), {name: wide[name] for name in wide.keys() - _WIDE.keys()} or "narrower by now"
    assert long.keys() == _LONG.keys(), {name: long[name] for name in long.keys() - _LONG.keys()} or "shorter by now"


def _size(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """How many things a function takes, and of how many lines it is beside its docstring."""
    given = function.args
    taken = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
    return len([one for one in taken if one not in ("self", "cls")]), lines


def _functions(tree: ast.AST, within: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions, those in classes and in other functions too, by their whole name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        name = f"{within}.{node.name}" if named else within  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, node
        yield from _functions(node, name)


def _type_named(node: ast.stmt) -> str | None:
    """The name of a class or of a type alias; an alias for a parameter of a command or a route is none."""
    if isinstance(node, ast.ClassDef):
        return node.name
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    if not isinstance(target, ast.Name) or not re.fullmatch(r"[A-Z]\w*[a-z]\w*", target.id):
        return None
    value = node.value  # type: ignore[attr-defined]
    plain = isinstance(value, ast.Subscript | ast.BinOp | ast.Name)
    return target.id if plain and not ast.unparse(value).startswith("Annotated[") else None


def _path(name: str) -> Path:
    folder = REPO_ROOT / name.replace(".", "/")
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("koda_ray"):
            raise
        pytest.skip(f"needs the optional package {error.name}")


def _is_public(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        # a decorated function is registered somewhere: a route, a command of the CLI
        return not node.name.startswith("_") and not node.decorator_list
    return isinstance(node, ast.ClassDef) and not node.name.startswith("_")


def test_exported_members() -> None:
    assert [wrong for name in _MODULES for wrong in _wrongly_exported(_load(name))] == []


def _wrongly_exported(module: ModuleType) -> list[str]:
    name, public = module.__name__, _read(Path(str(module.__file__))).public
    exported = getattr(module, "__all__", None)
    if exported is None:
        return [f"{name} defines {sorted(public)} and has no __all__"] if public else []
    wrong = [f"{name}.__all__ names {entry}, which is not there" for entry in exported if not hasattr(module, entry)]
    if len(exported) != len(set(exported)):
        wrong.append(f"{name}.__all__ names something twice")
    missing = sorted(public - set(exported))
    if missing:
        wrong.append(f"{name}: {missing} are public and not in __all__; other names begin with an underscore")
    return wrong


def test_every_module_says_what_it_is() -> None:
    paths = {name: _path(name) for name in _MODULES}
    assert [name for name, path in paths.items() if not _read(path).docstring and path.read_text().strip()] == []


def test_one_version() -> None:
    project = _PYPROJECT["project"]
    assert koda_ray.__version__ == project["version"]
    assert f"## [{project['version']}]" in (REPO_ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    "lock",
    [f"requirements{which}.lock" for which in ("", "-dev", "-launcher", "-node", "-uv")],
)
def test_locks_hold_hashes_and_no_address(lock: str) -> None:
    text = (REPO_ROOT / lock).read_text()
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    entries = text.replace("\\\n", " ").strip().splitlines()
    assert entries and all("==" in entry and "--hash=sha256:" in entry for entry in entries)


def test_the_locks_agree_and_hold_every_dependency() -> None:
    plain, dev = (_versions(name) for name in ("requirements.lock", "requirements-dev.lock"))
    assert plain.items() <= dev.items()
    project = _PYPROJECT["project"]
    extras = project["optional-dependencies"]
    assert {_name(entry) for entry in (*project["dependencies"], *extras["s3"])} <= set(plain)
    assert {_name(entry) for entry in extras["dev"]} <= set(dev)
    launcher = _versions("requirements-launcher.lock")
    assert {_name(entry) for entry in extras["launcher"]} <= set(launcher)
    assert not launcher.keys() & plain.keys() and all(dev.get(name, held) == held for name, held in launcher.items())


def test_the_lock_lacks_nothing() -> None:
    """It is installed as it stands, without anything that is only needed by something in it."""
    installed = {canonicalize_name(each.name): each for each in distributions()}
    lacking = [
        f"{each.name} needs {requirement}"
        for each in installed.values()
        for requirement in map(Requirement, each.requires or ())
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if (found := installed.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(found.version, prereleases=True)
    ]
    assert lacking == []


def _versions(lock: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in (REPO_ROOT / lock).read_text().splitlines():
        if line[:1].isalnum():
            name, _, version = line.removesuffix(" \\").partition("==")
            found.setdefault(name, set()).add(version)
    return {name: frozenset(versions) for name, versions in found.items()}


def _name(requirement: str) -> str:
    return requirement.partition("[")[0].partition(">")[0].strip().lower()
