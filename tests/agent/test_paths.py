"""Paths of calls, and patterns of them: every way to write a path is the same one, and patterns stay cheap."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
from pydantic import BaseModel, RootModel

from koda_ray.agent.paths import fits_path, paths_in

ROOT = "/home/user/project"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/.env", ".env"),
        ("**/.env", "a/b/.env"),
        ("secrets/**/*.pem", "secrets/a.pem"),
        ("secrets/**/*.pem", "secrets/x/y/a.pem"),
        ("secrets/**", "secrets/a"),
        ("secrets", "secrets"),
        ("secrets", "secrets/a/b"),
        ("secrets/", "secrets/a"),
        ("./secrets/*", "secrets/a"),
        ("src/*/deep", "src/a/deep/er"),
        ("**/keys", "a/keys/b"),
        (".", "a/b"),
        ("/", "/etc"),
        ("/etc", "/etc/passwd"),
        ("*", "a/b"),
        ("**", "a/b"),
        ("[ab]/?", "a/c"),
    ],
)
def test_a_pattern_covers_a_path(pattern: str, path: str) -> None:
    assert fits_path(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/.env", "a.env"),
        ("**/.env", ".envrc"),
        ("secrets", "secrets2"),
        ("secrets", "x/secrets"),
        ("secrets/**/key", "secretskey"),
        ("secrets/**/key", "secrets/monkey"),
        (".", "../a"),
        (".", "/a"),
        ("/", "a"),
        ("src/*", "/src/a"),
    ],
)
def test_a_pattern_does_not_cover_what_only_resembles_it(pattern: str, path: str) -> None:
    assert not fits_path(pattern, path)


@pytest.mark.parametrize("root", [ROOT, f"{ROOT}/"])
def test_paths_below_a_root_are_named_from_there(root: str) -> None:
    assert fits_path("secrets", f"{ROOT}/secrets/key", root)
    assert fits_path(f"{ROOT}/secrets", "secrets/key", root)
    assert fits_path("home", "/home", "/")
    assert not fits_path("secrets", "/secrets/key", root)


@pytest.mark.parametrize(
    "written",
    ["./secrets/key", "secrets/../secrets/key", "secrets/key/", "secrets//key", "secrets\\key", "x/../secrets/./key"],
)
def test_every_way_to_write_a_path_is_the_same_one(written: str) -> None:
    assert paths_in({"path": written}) == ["secrets/key"]
    assert paths_in({"path": f"//{written}"}) == ["/secrets/key"]


def test_paths_are_found_in_whatever_a_tool_gets() -> None:
    class Kind(Enum):
        KEY = "a"

    @dataclass
    class Pair:
        source: Path
        note: str

    class Names(RootModel[list[str]]):
        pass

    class Given(BaseModel):
        files: dict[str, str]
        pair: Pair
        kind_of_file: Kind
        out_dirs: Names
        dest: tuple[str, ...]
        nothing: str | None = None
        folder: str | None = None

    given = Given(
        files={"b": "text"},
        pair=Pair(Path("c"), "note"),
        kind_of_file=Kind.KEY,
        out_dirs=Names(["d"]),
        dest=("e", ""),
    )
    assert paths_in(given) == ["b", "c", "a", "d", "e"]
    assert paths_in(given.model_dump(mode="json"), keys=False) == ["c", "a", "d", "e"]
    assert paths_in(given, ["note"]) == ["note"]
    assert paths_in(given, []) == []


def test_patterns_with_many_ways_to_fit_are_answered() -> None:
    # tried one by one these would take years
    assert not fits_path("**/a/" * 100 + "b", "a/" * 500)
    assert not fits_path("*a" * 250 + "b", "a" * 1000)
