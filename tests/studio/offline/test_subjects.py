"""A subject is one module and its scene: nothing else names it, and adding one touches nothing else."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from koda_ray.studio import offline
from koda_ray.studio.offline import parse_brief
from koda_ray.studio.offline.subjects import all_subjects
from koda_ray.types import Plan
from tests.studio.offline.added import MODULE, made, shown, with_subject

ROOT = Path(str(offline.__file__)).parent
OTHER_THINGS = {("project.py", "bars")}
"""The film bars of the kit's Finish."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_subject(tmp_path_factory.mktemp("added"))


def test_a_subject_of_twenty_lines_gets_a_plan_and_a_film(folder: Path) -> None:
    body = next(node for node in ast.parse(shown()[MODULE]).body if isinstance(node, ast.ClassDef))
    assert body.end_lineno is not None and body.end_lineno - body.lineno < 20
    pulse = made(folder, "a heartbeat, playful, in red")
    assert pulse["subject"] == "pulse"
    plan = Plan.model_validate(pulse["plan"])
    assert plan.total_duration == 6
    assert [scene.title for scene in plan.scenes] == ["Wake", "Beat", "Rest"]
    files = pulse["files"]
    assert "px(320)" in files["src/scenes/PulseScene.tsx"]
    assert "<PulseScene />" in files["src/scenes/MainScene.tsx"]
    assert "Dot" in json.loads(files["src/theatre/state.json"])["sheetsById"]["Main"]["sequence"]["tracksByObject"]


def test_a_new_subject_takes_the_changes_that_all_take(folder: Path) -> None:
    before = made(folder, "herzschlag, smooth")["files"]
    after = made(folder, "herzschlag, smooth", "make it red", "bigger", "vertical")["files"]
    changed = {path for path, text in after.items() if before[path] != text}
    assert changed == {"src/theme.ts", "src/scenes/PulseScene.tsx", "src/theatre/project.ts"}


def test_a_new_subject_leaves_the_others_as_they_are(folder: Path) -> None:
    prompt = "three balls bouncing, playful"
    assert made(folder, prompt)["subject"] == parse_brief(prompt).subject == "ball"


def test_no_other_module_names_a_subject() -> None:
    """Neither as a string nor by importing its module."""
    names = {subject.name for subject in all_subjects()}
    wrong: list[str] = []
    for path in ROOT.rglob("*.py"):
        if path.parent.name == "subjects":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in names and (path.name, node.value) not in OTHER_THINGS:
                wrong.append(f"{path.name}:{node.lineno} {node.value}")
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{offline.__name__}.subjects."):
                wrong.append(f"{path.name}:{node.lineno} {node.module}")
    assert wrong == []


def test_every_subject_says_what_it_has_to() -> None:
    for subject in all_subjects():
        kind = type(subject)
        assert kind.__doc__, subject.name
        assert {"film", "script"} <= {name for base in kind.__mro__[:-2] for name in vars(base)}, subject.name


def test_no_function_is_longer_than_a_page() -> None:
    long: list[str] = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                long += [f"{path.name} {node.name} {lines}"] if lines > 60 else []
    assert long == []
