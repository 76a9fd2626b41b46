"""What the README tells people to type exists."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest
import typer.main

from koda_ray.cli import app
from koda_ray.client import Koda, KodaClient
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.serve import routes

_README = (REPO_ROOT / "README.md").read_text()
_CONTRIBUTING = (REPO_ROOT / "CONTRIBUTING.md").read_text()
_LAUNCHER = {"setup": {"--dev"}, "test": {"-m", "-x"}}
_ELSEWHERE = {"KODA_DATA_DIR", "KODA_SERVER", "KODA_TEST_REQUIRE"}


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def _commands() -> list[str]:
    lines = [line for text in (_README, _CONTRIBUTING) for block in _blocks(text, "sh") for line in block.splitlines()]
    inline = re.findall(r"`(\./koda [^`]+)`", _README)
    return [command for command in (*lines, *inline) if command.startswith("./koda ")]


@pytest.mark.parametrize("command", _commands())
def test_each_command_exists_with_its_options(command: str) -> None:
    _, name, *words = shlex.split(command, comments=True)
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    if name in _LAUNCHER:
        assert options <= _LAUNCHER[name]
        return
    commands = typer.main.get_group(app).commands
    assert name in commands, f"{name} is not a command of the CLI"
    assert options <= {text for parameter in commands[name].params for text in parameter.opts}


def test_there_are_commands_to_check() -> None:
    assert len(_commands()) > 10
    assert {"./koda demo", "./koda test"} <= {command.split("#")[0].strip() for command in _commands()}


def test_each_address_is_an_operation_of_the_api() -> None:
    paths = {
        re.sub(r"\{[^}]+\}", "*", str(getattr(route, "path", "")))
        for module in pkgutil.iter_modules(routes.__path__, f"{routes.__name__}.")
        for route in importlib.import_module(module.name).router.routes
    }
    shell = "\n".join(_blocks(_README, "sh"))
    named = {re.sub(r"\$\w+", "*", found) for found in re.findall(r"localhost:8420(/v1/[\w/$]+)", shell)}
    assert named and named <= paths


def test_each_line_of_python_names_something_that_is_there() -> None:
    (code,) = _blocks(_README, "python")
    tree = ast.parse(code)
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "koda"
    }
    assert {"create", "follow", "download"} <= used
    assert all(hasattr(KodaClient, name) and hasattr(Koda, name) for name in used)


def test_each_variable_is_a_setting() -> None:
    known = {str(field.validation_alias) for field in Settings.model_fields.values()} | _ELSEWHERE
    named = set(re.findall(r"`((?:[A-Z0-9]+_)+[A-Z0-9]+)`", _README))
    assert named and named <= known


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_each_link_and_path_leads_somewhere(page: str) -> None:
    text = (REPO_ROOT / page).read_text()
    linked = {target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}
    named = set(re.findall(r"`((?:koda_ray|tests|sandbox_image|benchmarks|\.ci)/[\w./]+)`", text))
    within = {f"koda_ray/{path}" for path in re.findall(r"`((?:actors|render|serve|studio|state)/\w+\.py)`", text)}
    lost = sorted(path for path in linked | named | within if not Path(REPO_ROOT, path).exists())
    assert lost == []
