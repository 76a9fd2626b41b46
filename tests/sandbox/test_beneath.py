"""Opening beneath a directory, by the kernel's own call and by the walk that stands in for it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.sandbox import beneath
from koda_ray.sandbox.beneath import Escapes, open_beneath, opened_beneath, path_of


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    project = tmp_path / "project"
    (project / "src" / "deep").mkdir(parents=True)
    (project / "src" / "a.ts").write_text("a")
    (project / "src" / "deep" / "b.ts").write_text("b")
    (tmp_path / "secret").write_text("secret")
    (project / "src" / "out").symlink_to(tmp_path / "secret")
    (project / "src" / "up").symlink_to("../../secret")
    (project / "src" / "dir").symlink_to(tmp_path)
    (project / "src" / "in").symlink_to("deep")
    (project / "src" / "loop").symlink_to("loop")
    fd = os.open(project, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture(params=["kernel", "walk"])
def opens(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "walk":
        monkeypatch.setattr(beneath, "_SYS_OPENAT2", 100_000)  # a number that no kernel has: ENOSYS, as before 5.6
    return str(request.param)


def test_what_lies_inside_opens(root: int, opens: str) -> None:
    for path, text in (("src/a.ts", b"a"), ("src/deep/b.ts", b"b")):
        with opened_beneath(root, path, os.O_RDONLY) as fd:
            assert os.read(fd, 10) == text
            assert path_of(fd, root) == path
    with opened_beneath(root, ".", os.O_PATH | os.O_DIRECTORY) as fd:
        assert path_of(fd, root) == "."


@pytest.mark.parametrize(
    "path", ["src/out", "src/up", "src/dir/secret", "src/dir", "..", "../secret", "src/../../secret"]
)
def test_what_leads_out_does_not(root: int, opens: str, path: str) -> None:
    for flags in (os.O_RDONLY, os.O_PATH):
        with pytest.raises(Escapes):
            open_beneath(root, path, flags)


def test_a_link_inside_is_followed_where_the_kernel_can(root: int, opens: str) -> None:
    if opens == "kernel":
        with opened_beneath(root, "src/in/b.ts", os.O_RDONLY) as fd:
            assert path_of(fd, root) == "src/deep/b.ts"
    else:
        with pytest.raises(Escapes):
            open_beneath(root, "src/in/b.ts", os.O_RDONLY)


def test_what_is_not_there(root: int, opens: str) -> None:
    with pytest.raises(FileNotFoundError):
        open_beneath(root, "src/none", os.O_RDONLY)
    with pytest.raises(NotADirectoryError):
        open_beneath(root, "src/a.ts/x", os.O_RDONLY)
    with pytest.raises(OSError):
        open_beneath(root, "src/loop", os.O_RDONLY)


def test_a_removed_file_has_no_path(root: int, tmp_path: Path, opens: str) -> None:
    with opened_beneath(root, "src/a.ts", os.O_RDONLY) as fd:
        (tmp_path / "project" / "src" / "a.ts").rename(tmp_path / "elsewhere")
        assert path_of(fd, root) is None


def test_a_directory_that_turns_into_a_link_at_any_moment(root: int, tmp_path: Path, opens: str) -> None:
    source = tmp_path / "project" / "src"
    (source / "deep" / "secret").write_text("mine")
    (source / "evil").symlink_to(tmp_path)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(source / "deep", source / "away")
            os.rename(source / "evil", source / "deep")
            os.rename(source / "deep", source / "evil")
            os.rename(source / "away", source / "deep")

    swapping = threading.Thread(target=swap)
    swapping.start()
    outcomes: set[str] = set()
    end = time.monotonic() + 0.5
    deadline = end + 60
    try:
        while time.monotonic() < end or ("mine" not in outcomes and time.monotonic() < deadline):
            try:
                with opened_beneath(root, "src/deep/secret", os.O_RDONLY) as fd:
                    outcomes.add(os.read(fd, 20).decode())
            except OSError as error:
                outcomes.add(type(error).__name__)
    finally:
        stop.set()
        swapping.join()
    assert "secret" not in outcomes and "mine" in outcomes, outcomes
