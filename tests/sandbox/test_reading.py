"""What is read of a project is bounded while it is read, whatever its disk says that the files take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.errors import QuotaExceeded
from koda_ray.sandbox import reading
from koda_ray.sandbox.fitting import left_out
from koda_ray.sandbox.reading import TreeReader

KB = 1024
SIZES = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 100), max_size=12)


@given(SIZES, SIZES, st.integers(0, 400))
def test_what_is_left_out_is_the_largest_and_no_more_than_must_be(
    sizes: dict[str, int], kept: dict[str, int], most: int
) -> None:
    out = left_out(sizes, kept, most_bytes=most)
    gains = {path: size - kept.get(path, 0) for path, size in sizes.items()}
    left = sum(sizes.values()) - sum(gains[path] for path in out)
    assert left <= most or all(gains[path] <= 0 for path in sizes.keys() - out)
    if out:
        smallest = min(gains[path] for path in out)
        assert left + smallest > most and all(gains[path] <= smallest for path in sizes.keys() - out)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "App.tsx").write_bytes(b"app")
    return root


def sparse(path: Path, size: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.truncate(path, size)


def test_files_of_holes_are_left_out_of_a_snapshot_and_all_else_is_in_it(project: Path) -> None:
    for number in range(40):
        sparse(project / f"public/{number:02}.bin", 250 * KB)
    os.link(project / "public/00.bin", project / "public/again.bin")
    sizes: list[int] = []
    taken = TreeReader(project, most_bytes=600 * KB).snapshot(found=lambda _, data: sizes.append(len(data)))
    assert sum(sizes) <= 600 * KB and len(sizes) == 3
    assert "src/App.tsx" in taken.stamps
    assert len(taken.skipped) == 39 and set(taken.skipped.values()) == {"large"}


def test_what_was_saved_of_a_file_that_does_not_fit_any_more_stays_and_counts(project: Path) -> None:
    reader = TreeReader(project, most_bytes=600 * KB)
    for name in ("one", "two"):
        sparse(project / name, 250 * KB)
    first = reader.snapshot()
    os.truncate(project / "one", 400 * KB)
    (project / "src" / "App.tsx").write_bytes(b"changed")
    then = reader.snapshot(first.stamps)
    assert then.skipped == {"one": "large"} and then.stamps["one"].size_bytes == 250 * KB
    assert "src/App.tsx" in then.changed and "one" not in then.changed
    sparse(project / "three", 200 * KB)
    assert reader.snapshot(then.stamps).skipped == {"one": "large", "three": "large"}


def test_a_file_that_grows_while_others_are_read_is_left_out(project: Path) -> None:
    for name in ("one", "two"):
        sparse(project / "public" / name, 100 * KB)
    read: dict[str, int] = {}

    def grow(path: str, data: bytes) -> None:
        read[path] = len(data)
        for name in {"public/one", "public/two"} - read.keys():
            os.truncate(project / name, 10_000 * KB)

    taken = TreeReader(project, most_bytes=300 * KB).snapshot(found=grow)
    assert sum(read.values()) <= 300 * KB
    assert set(taken.skipped.values()) == {"large"} and "src/App.tsx" in taken.stamps


def test_one_read_has_an_end_for_all_its_files_together(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_READ_BYTES", 256 * KB)
    for number in range(3):
        sparse(project / f"{number}", 100 * KB)
    reader = TreeReader(project)
    with pytest.raises(QuotaExceeded, match=r"'2' .* have 307200 bytes, more than the 262144 .* read fewer at a time"):
        reader.read_files(["0", "1", "2"])
    with pytest.raises(QuotaExceeded):
        reader.read_files(["0"], before_bytes=200 * KB)
    assert sum(map(len, reader.read_files(["0", "1", "0", "./1"]).values())) == 200 * KB


def test_a_name_that_cannot_be_written_is_listed_as_one_that_can(project: Path) -> None:
    (project / os.fsdecode(b"a\xff")).write_bytes(b"x")
    assert [entry.path for entry in TreeReader(project).list_files(".", recursive=False)] == ["a\ufffd", "src"]
