"""A built page, read from its folder, as the program itself never needs to: it gets zips, or files by their names."""

from __future__ import annotations

from pathlib import Path

from koda_ray.render.bundle import Bundle

__all__ = ["read_folder"]


def read_folder(root: Path) -> Bundle:
    """Read a built page from a folder (a ``dist/``); links are not followed."""
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    assert "index.html" in files, f"{root} is no built page"
    return Bundle(files)
