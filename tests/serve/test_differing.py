"""How much of two checkpoints' files is told apart line by line for one answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from koda_ray.serve.differing import files_that_differ, told_apart
from koda_ray.state import checkpoint
from koda_ray.state.checkpoint import CheckpointTree, Manifest
from koda_ray.state.storage import Storage
from tests.state import records


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "storage"))


async def saved(storage: Storage, files: dict[str, bytes]) -> Manifest:
    manifest, _ = await checkpoint.save(storage, CheckpointTree(files=files), state=records.state(), event_seq=0)
    return manifest


async def differences(
    storage: Storage, before: dict[str, bytes], after: dict[str, bytes]
) -> dict[str, tuple[int, int] | None]:
    """Return how many lines of each file came and went; None of files that are only named."""
    old, new = await saved(storage, before), await saved(storage, after)
    told = await told_apart(storage, old, new, files_that_differ(old, new))
    return {each.path: None if each.diff is None else (each.added, each.removed) for each in told}


def text(lines: int, word: str = "line") -> bytes:
    return "".join(f"{word} {number}\n" for number in range(lines)).encode()


async def test_a_file_of_more_than_a_thousand_lines_is_only_named(storage: Storage) -> None:
    before = {"most": text(1_000), "more": text(1_001), "grown": text(999)}
    after = {"most": text(1_000, "row"), "more": text(9), "grown": text(999) + text(2, "row")}
    assert await differences(storage, before, after) == {"grown": None, "more": None, "most": (1_000, 1_000)}


async def test_of_many_files_those_are_told_apart_for_which_there_are_lines(storage: Storage) -> None:
    names = [f"{number:02}" for number in range(24)]
    before = {name: text(900, f"before {name}") for name in names}
    after = {name: text(900, f"after {name}") for name in names}
    found = await differences(storage, before | {"short": b""}, after | {"short": b"x\n" * 100})
    assert [name for name, lines in found.items() if lines is not None] == [*names[:11], "short"]
    assert found["00"] == (900, 900) and found["short"] == (100, 0)


async def test_of_many_files_those_are_told_apart_for_which_there_are_bytes(storage: Storage) -> None:
    long = b"x" * (100 * 1024)
    found = await differences(storage, {}, {f"{number:02}": long for number in range(60)} | {"short": b"x"})
    assert [name for name, lines in found.items() if lines is not None] == [f"{number:02}" for number in range(40)] + [
        "short"
    ]
