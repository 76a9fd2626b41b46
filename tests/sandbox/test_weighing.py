"""What a directory takes on disk: nothing is left out, and nothing is changed by looking."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from koda_ray.errors import QuotaExceeded
from koda_ray.sandbox.disk import remove_tree
from koda_ray.sandbox.reading import TreeReader


def chain(root: Path, *, folders: int, name: str) -> int:
    """Make folders in folders, deeper than a path can say; returns the deepest, opened."""
    here = os.open(root, os.O_DIRECTORY)
    for _ in range(folders):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    return here


def write(name: str, size: int, *, folder_fd: int) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=folder_fd)
    os.write(fd, bytes(size))
    os.fsync(fd)
    os.close(fd)


def test_no_path_is_too_long(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for side in ("left", "right"):
        (tree / side).mkdir(parents=True)
        deepest = chain(tree / side, folders=100, name="d" * 200)
        write("big", 1_000_000, folder_fd=deepest)
        os.close(deepest)
    open_before = len(os.listdir("/proc/self/fd"))
    size, entries = TreeReader(tree).usage()
    assert size > 2_000_000 and entries == 2 + 200 + 2
    assert len(os.listdir("/proc/self/fd")) == open_before
    remove_tree(tree)


def test_what_nests_without_end_is_refused_not_left_out(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    os.close(chain(tree, folders=2200, name="d" * 250))
    with pytest.raises(QuotaExceeded, match=r"lies too deep.* SANDBOX_DISK_MB sets; .* remove it"):
        TreeReader(tree).usage()
    remove_tree(tree)


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o200, 0o300, 0o400, 0o600])
def test_a_closed_folder_is_counted_and_stays_closed(tmp_path: Path, mode: int) -> None:
    """As root it is not closed at all; ``test_unprivileged`` runs this as somebody to whom it is."""
    tree = tmp_path / "tree"
    inner = tree / "closed" / "inner"
    inner.mkdir(parents=True)
    (inner / "big").write_bytes(bytes(1_000_000))
    (tree / "closed" / "small").write_bytes(bytes(5000))
    for folder in (inner, inner.parent):
        folder.chmod(mode)
    size, entries = TreeReader(tree).usage()
    assert 1_005_000 < size < 1_100_000 and entries == 4
    assert stat.S_IMODE((tree / "closed").stat().st_mode) == mode
    inner.parent.chmod(0o700)
    assert stat.S_IMODE(inner.stat().st_mode) == mode
    remove_tree(tree)
