"""The files of `cluster/`, and copies of them with something changed."""

from __future__ import annotations

import re
from pathlib import Path

from koda_ray.config import REPO_ROOT
from koda_ray.deploy import Checked, check_file

__all__ = ["FOLDER", "SHIPPED", "changed", "checked_with"]

FOLDER = REPO_ROOT / "cluster"
SHIPPED = sorted(path.name for path in FOLDER.glob("*.yaml"))


def changed(name: str, old: str, new: str, folder: Path) -> tuple[Path, int]:
    """Copy a shipped file with one text in the place of another, and return the copy and the first line of that."""
    text = (FOLDER / name).read_text()
    found = list(re.finditer(re.escape(old), text))
    assert found, f"{name} has no {old!r} any more"
    path = folder / name
    path.write_text(text.replace(old, new))
    return path, text[: found[0].start()].count("\n") + 1


def checked_with(name: str, old: str, new: str, folder: Path) -> tuple[Checked, int]:
    """Check a shipped file with something changed; return what was found, and where it was changed first."""
    path, line = changed(name, old, new, folder)
    return check_file(path), line
