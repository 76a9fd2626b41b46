"""A subject is one module and its scene: nothing else names it, and adding one touches nothing else."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from pathlib import Path

import pytest

from koda_ray.roles import offline
from koda_ray.roles.offline import parse_brief
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.palette import PALETTES, SCENIC
from koda_ray.roles.offline.subjects import all_subjects
from koda_ray.types import Plan
from tests.roles.offline.added import MODULE, made, shown, with_subject

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
        assert "film" in {name for base in kind.__mro__[:-2] for name in vars(base)}, subject.name
        script = subject.script(Brief(prompt="", subject=subject.name))
        assert script.opening.title and script.ending.title
        assert all(beat.title and beat.description and beat.notes for beat in script.middle), subject.name


def test_no_language_stands_in_a_subject() -> None:
    """Neither letters beyond ASCII, nor sentences, nor expressions that look for words: those are a language's file."""
    named = {palette.name for palettes in (*PALETTES.values(), SCENIC) for palette in palettes}
    wrong: list[str] = []
    for path in (ROOT / "subjects").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documented:
                continue
            text = node.value
            beyond = [sign for sign in text if not sign.isascii() and unicodedata.category(sign)[0] in "LS"]
            prose = "<" not in text and text not in named and re.search(r"[A-Za-z]{2,} [a-z]{2,}", text)
            listens = re.search(r"[a-z]{3,}", re.sub(r"\\.", "", text)) if "\\" in text else None
            if set(beyond) - set("→¥$€£") or prose or listens:
                wrong.append(f"{path.name}:{node.lineno} {text!r}")
    assert wrong == []
