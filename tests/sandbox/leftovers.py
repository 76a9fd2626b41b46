"""What the sandboxes of one test have left on the machine: mounts, folders, control groups, processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from koda_ray.sandbox import cgroup
from koda_ray.sandbox.local import sandbox_user
from koda_ray.types import new_id

__all__ = ["Leftovers"]

_DEADLINE_S = 5.0


class Leftovers:
    """Hands out ids, and finds whatever belongs to them.

    Args:
        boxes: Where the test's sandboxes lie.
    """

    def __init__(self, boxes: Path) -> None:
        self._boxes = boxes
        self._ids: list[str] = []

    def new_id(self) -> str:
        """Make a sandbox's id and remember it."""
        self._ids.append(new_id("sbx"))
        return self._ids[-1]

    def find(self) -> list[str]:
        """Say what is left, once what is about to go is gone."""
        deadline = time.monotonic() + _DEADLINE_S
        while (left := self._look()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def processes(self, *ids: str) -> list[str]:
        """Say which processes the sandboxes (all, or those) have."""
        names = ids or tuple(self._ids)
        users = {user for name in names if (user := sandbox_user(name)) is not None}
        paths = tuple(f"{self._boxes}/{name}/".encode() for name in names)
        found: list[str] = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
                owner = Path(entry.path).stat().st_uid
            except OSError:
                continue
            walls = words[0] == b"bwrap" and any(word.startswith(paths) for word in words)
            if (walls or owner in users) and words != [b""]:
                found.append(f"process {entry.name}: {b' '.join(words).decode(errors='replace')[:200]}")
        return found

    def _look(self) -> list[str]:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        found = [line for line in mounts if line.split(" ")[1].startswith(str(self._boxes))]
        found += [str(path) for path in self._boxes.iterdir()] if self._boxes.exists() else []
        root = cgroup.find()
        for _, base in root.directories if root else ():
            found += [str(base / f"koda-{name}") for name in self._ids if (base / f"koda-{name}").exists()]
        return found + (self.processes() if self._ids else [])
