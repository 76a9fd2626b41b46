"""Zips that somebody sent: whatever they say of themselves, nothing of them is outside of their folder."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.archives import ProjectFiles, pack, packed_bytes, read_project, unpack, unpacked_on_disk

LINK, FILE = 0o120777, 0o100644


def zip_of(entries: list[tuple[str, int, str]]) -> bytes:
    """Zip names with their modes, and what they hold or lead to."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of names that are there twice
        for name, mode, text in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, text)
    return data.getvalue()


def unpacked(entries: list[tuple[str, int, str]], root: Path) -> Path:
    """Unpack them into a folder two below the root."""
    (root / "sent.zip").write_bytes(zip_of(entries))
    folder = root / "below" / "folder"
    folder.mkdir(parents=True)
    unpack(root / "sent.zip", folder)
    return folder


def test_links_to_what_is_in_it_are_as_they_were(tmp_path: Path) -> None:
    folder = unpacked(
        [
            ("node_modules/.bin/hello", LINK, "../hello/bin/cli.js"),
            ("node_modules/hello/bin/cli.js", 0o100755, "cli"),
            ("packages", LINK, "node_modules"),
            ("through", LINK, "packages/hello/../.bin/hello"),
            ("nowhere", LINK, "not/there"),
        ],
        tmp_path,
    )
    assert os.readlink(folder / "node_modules/.bin/hello") == "../hello/bin/cli.js"
    assert (folder / "through").read_text() == (folder / "node_modules/.bin/hello").read_text() == "cli"
    assert not (folder / "nowhere").exists()


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([("l", LINK, "/etc/passwd")], "'l' to '/etc/passwd', which leads out.*relative path"),
        ([("l", LINK, "../out")], "leads out"),
        ([("a/l", LINK, "../../out")], "leads out"),
        ([("a/up", LINK, ".."), ("l", LINK, "a/up/../out")], "leads out"),
        ([("deep/er/top", LINK, "../.."), ("l", LINK, "deep/er/top/../../out")], "leads out"),
        ([("a", LINK, "b"), ("b", LINK, "a")], "circle"),
        ([("l", LINK, "l")], "circle"),
        ([("l", LINK, "")], "is none"),
        ([("l", LINK, "a\0b")], "is none"),
        ([("l", LINK, "x" * 5000)], "is none"),
        ([("a", FILE, "1"), ("a", LINK, "b")], "'a' that it is both"),
        ([("a", LINK, "b"), ("a", FILE, "1")], "'a' that it is both"),
        ([("a", LINK, "b"), ("b/x", FILE, "1"), ("a/c", FILE, "through")], "'a' that it is both"),
        ([("a", LINK, "b"), ("b/x", FILE, "1"), ("a/c", LINK, "x")], "'a' that it is both"),
        ([("a", FILE, "1"), ("a/l", LINK, "x")], "'a' that it is both"),
    ],
)
def test_links_that_are_refused(tmp_path: Path, entries: list[tuple[str, int, str]], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        unpacked(entries, tmp_path)


_PARTS = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=5).map("/".join)
_ENTRIES = st.lists(st.tuples(_PARTS, st.sampled_from([LINK, FILE]), _PARTS), max_size=6)


@given(_ENTRIES)
def test_whatever_is_taken_stays_inside(entries: list[tuple[str, int, str]]) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made).resolve()
        try:
            folder = unpacked(entries, root)
        except InvalidInput:
            folder = root / "below" / "folder"
        for path in folder.rglob("*"):
            assert Path(os.path.realpath(path)).is_relative_to(folder), (path, os.readlink(path))
        assert {path.name for path in root.iterdir()} == {"below", "sent.zip"}
        assert [path.name for path in (root / "below").iterdir()] == ["folder"]


_NAMES = st.lists(st.sampled_from(["a", "b", "ü x"]), min_size=1, max_size=3).map("/".join)


@given(st.dictionaries(_NAMES, st.tuples(st.binary(max_size=40), st.sampled_from([0o644, 0o755, 0o600]))))
def test_a_project_that_is_packed_is_read_as_it_was(given_files: dict[str, tuple[bytes, int]]) -> None:
    names = {p: one for p, one in given_files.items() if not any(other.startswith(f"{p}/") for other in given_files)}
    project = ProjectFiles(
        files={path: data for path, (data, _) in names.items()},
        modes={path: mode for path, (_, mode) in names.items()},
        folders=("empty", "e/mpty"),
    )
    made, again = io.BytesIO(), io.BytesIO()
    pack(project, made)
    pack(project, again)
    assert made.getvalue() == again.getvalue()
    assert len(made.getvalue()) <= packed_bytes(project)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "packed.zip")
        path.write_bytes(made.getvalue())
        read = read_project(path)
    assert dict(read.files) == dict(project.files)
    assert {path: read.modes[path] for path in names} == dict(project.modes)
    assert sorted(read.folders) == ["e/mpty", "empty"]


def test_what_does_not_shrink_takes_no_more_room_packed_than_is_said() -> None:
    files, made = {"noise": os.urandom(3 << 20), "none": b""}, io.BytesIO()
    project = ProjectFiles(files=files, modes={"m" * 200: 0o700})
    pack(project, made)
    assert 3 << 20 < len(made.getvalue()) <= packed_bytes(project)


def test_each_file_and_each_folder_of_a_zip_takes_a_block_of_the_disk(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 100)
    entries = [(f"{deep}/{number}", FILE, "x") for number in range(10)]
    sent, folder = tmp_path / "sent.zip", tmp_path / "folder"
    sent.write_bytes(zip_of([*entries, ("large", FILE, "x" * 10_000), ("link", LINK, "large")]))
    folder.mkdir()
    unpack(sent, folder)
    made = sum(4096 + (-(-path.lstat().st_size // 4096) * 4096 if path.is_file() else 0) for path in folder.rglob("*"))
    assert 120 * 4096 < made <= unpacked_on_disk(sent) < 2 * made


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([("l", LINK, "a")], "the link 'l'"),
        ([("a", FILE, "1"), ("a", FILE, "2")], "'a' that it is both"),
        ([("a", FILE, "1"), ("a/", 0o040755, "")], "'a' that it is both"),
        ([("/etc/x", FILE, "1")], "leads out"),
        ([("a/../../x", FILE, "1")], "leads out"),
        ([("a\\..\\x", FILE, "1")], "leads out"),
    ],
)
def test_a_project_that_is_refused(tmp_path: Path, entries: list[tuple[str, int, str]], words: str) -> None:
    (tmp_path / "sent.zip").write_bytes(zip_of(entries))
    with pytest.raises(InvalidInput, match=words):
        read_project(tmp_path / "sent.zip")


def test_a_project_is_not_larger_than_memory_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koda_ray.sandbox.archives.MAX_PROJECT_BYTES", 1 << 20)
    (tmp_path / "sent.zip").write_bytes(zip_of([("a", FILE, "x" * (1 << 19)), ("b", FILE, "x" * (1 << 19))]))
    assert len(read_project(tmp_path / "sent.zip").files) == 2
    (tmp_path / "sent.zip").write_bytes(zip_of([("a", FILE, "x" * (1 << 19)), ("b", FILE, "x" * (1 + (1 << 19)))]))
    with pytest.raises(InvalidInput, match="more than 1 MB"):
        read_project(tmp_path / "sent.zip")
    (tmp_path / "sent.zip").write_bytes(b"PK\x05\x06")
    with pytest.raises(InvalidInput, match="not a zip"):
        read_project(tmp_path / "sent.zip")
