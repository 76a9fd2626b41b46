"""The languages' files: whole, read without error, and nothing in them that nobody asks for."""

from __future__ import annotations

import ast
import re
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koda_ray.roles import offline
from koda_ray.roles.offline.brief import SIZES, STYLES
from koda_ray.roles.offline.colour import HEX
from koda_ray.roles.offline.extract import find_price, find_quotes, number_of
from koda_ray.roles.offline.figures import find_data
from koda_ray.roles.offline.find import language_of
from koda_ray.roles.offline.language import alternatives, choices, expression, said
from koda_ray.roles.offline.lexicon import COLOURS, HEROES, PARTICLES
from koda_ray.roles.offline.subjects import all_subjects
from koda_ray.roles.offline.summary import phrases_of

ROOT = Path(str(offline.__file__)).parent
FILES = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "languages").glob("*.toml")}
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py"))


def _keys(section: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def test_what_is_said_is_asked_for() -> None:
    """By its whole key, or by one whose last part is filled in: ``conflict.{key}``."""
    keys = list(_keys(FILES["en"]["prose"]))
    parents = {key.rpartition(".")[0] for key in keys}
    unused = [
        key
        for key in keys
        if f'"{key}"' not in SOURCE
        and f'f"{key.split(".")[0]}.{{' not in SOURCE
        and f'choices("{key.rpartition(".")[0]}")' not in SOURCE
    ]
    assert unused == []
    asked = re.findall(r'\bsaid\(\s*"([^"]+)"', SOURCE) + re.findall(r'\bchoices\("([^"]+)"', SOURCE)
    assert asked and [key for key in asked if key not in keys and key not in parents] == []


def test_expressions_are_regular_and_asked_for() -> None:
    names = {name for file in FILES.values() for name in file.get("expressions", {})}
    assert {name for name in names if f'"{name}"' not in SOURCE and f"'{name}'" not in SOURCE} == set()
    asked = re.findall(r"""\b(?:expression|alternatives)\(["'](\w+)["']""", SOURCE)
    assert asked and set(asked) <= names
    for name in names:
        try:
            re.compile(alternatives(name))
        except re.error as error:
            pytest.fail(f"{name}: {error}")
    assert expression("longer").search("もっと長く") and expression("longer").search("make it LONGER")


def test_no_letter_of_a_language_stands_in_the_code() -> None:
    """Letters and signs beyond ASCII, those that are typography apart, are in a language's file."""
    told: set[tuple[str, str]] = set()
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documented:
                told |= {(path.name, sign) for sign in node.value if not sign.isascii()}
    assert [one for one in told if unicodedata.category(one[1])[0] in "LS" and one[1] not in "→−×"] == []


def test_numerals_marks_and_signs_are_heard_in_whichever_language_they_are_written() -> None:
    assert [number_of(word) for word in ("二十三", "十", "三十", "twelve", "4,5", "fig")] == [23, 10, 30, 12, 4.5, None]
    assert [language_of(text) for text in ("猫が走る", "红色小球", "우주 로켓", "a rocket")] == ["ja", "zh", "ko", "en"]
    assert find_price("199€ headphones")[0] == "199€" and find_price("20 dollars")[0] == "$20"
    assert find_price("製品 1200円")[0] == "1200円"
    assert find_quotes("「朝」と『夜』, „Tag“ und « nuit »")[0] == ("朝", "夜", "Tag", "nuit")
    data, _ = find_data("北 12万、南 3億; East ₹9, West 40 percent")
    assert [(datum.label, datum.value, datum.unit) for datum in data] == [
        ("北", 12, "万"), ("南", 3, "億"), ("East", 9, "₹"), ("West", 40, "%"),
    ]  # fmt: skip
    assert phrases_of("猫が公園を歩き、犬が海へ走る。")[0] == ("猫が公園を歩き、", "犬が海へ走る。")


@pytest.mark.parametrize("language", sorted(FILES))
def test_a_language_speaks_of_what_there_is(language: str) -> None:
    file, english = FILES[language], FILES["en"]
    assert set(file) <= set(english)
    assert set(_keys(file.get("prose", {}))) <= set(_keys(english["prose"]))
    assert set(file.get("subjects", {})) <= {subject.name for subject in all_subjects()}
    assert set(file.get("solids", {})) <= set(english["solids"])
    assert set(file.get("formats", {})) <= set(SIZES)
    assert set(file.get("styles", {})) | set(file.get("clues", {})) <= set(STYLES)
    for name in ("opposites", "competing", "air"):
        assert set(file.get(name, {})) <= set(english[name]), name
    assert set(file.get("script", {})) in (set(), {"letter", "spaced"})
    assert all(HEX.fullmatch(value) for value in file.get("colours", {}).values())


def test_a_word_is_found_in_whichever_language_it_is_said() -> None:
    assert COLOURS["red"] == COLOURS["赤"] == COLOURS["红色"]
    assert PARTICLES["fireworks"] == PARTICLES["feuerwerk"] == PARTICLES["烟花"]
    assert HEROES["rocket"] == HEROES["rockets"] == HEROES["ロケット"] == HEROES["火箭"]
    assert said("plan.again", title="Spin") == "Spin again"
    assert said("countdown.finale", language="ja") == "スタート"
    assert said("countdown.finale", language="ko") == said("countdown.finale", language="en") == "Go!"
    assert [id_ for id_, _, _ in choices("styles")] == [*STYLES, "other"]
