"""A read-only root for bubblewrap, put together from its folders."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["root_without"]


def root_without(*left_out: str) -> list[str]:
    """Return bubblewrap's arguments for what lies in the root, without some of it.

    Not ``--ro-bind / /``: that takes what other tests have mounted below /tmp along, and fails where one of those is
    unmounted meanwhile.
    """
    arguments: list[str] = []
    for path in sorted(Path("/").iterdir()):
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.name not in left_out:
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments
