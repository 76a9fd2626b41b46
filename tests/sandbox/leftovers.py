"""What the sandboxes of one test have left on the machine: mounts, folders, control groups, processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from koda_ray.sandbox import cgroup, strays
from koda_ray.sandbox.egress.process import PROGRAM
from koda_ray.sandbox.users import sandbox_user
from koda_ray.types import new_id

__all__ = ["DockerLeftovers", "Leftovers"]

HOLDER = strays.HOLDER.encode()
_HELPERS = {HOLDER, strays.DOORWAY.encode()}
_DEADLINE_S = 60.0


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

    def note(self, sandbox_id: str) -> None:
        """Remember one that was made elsewhere."""
        self._ids.append(sandbox_id)

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
        folders = [self._boxes, *self._boxes.glob("dep_*")]
        paths = tuple(
            f"{folder}/{below}{name}/".encode() for folder in folders for name in names for below in ("", "docker/")
        )
        found: list[str] = []
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
                owner = Path(entry.path).stat().st_uid
            except OSError:
                continue
            ours = words[0] == b"bwrap" or not _HELPERS.isdisjoint(words)
            walls = ours and any(word.startswith(paths) for word in words)
            if (walls or owner in users) and words != [b""]:
                found.append(f"process {entry.name}: {b' '.join(words).decode(errors='replace')[:300]}")
        return found

    def holders(self) -> list[int]:
        """Find who holds what is kept in the sandboxes."""
        return [int(line.split()[1].rstrip(":")) for line in self.processes() if HOLDER.decode() in line]

    def proxies(self) -> list[str]:
        """Find the egress proxies of the sandboxes."""
        return [line for line in self.processes() if PROGRAM in line]

    def _folders(self) -> list[Path]:
        """What lies where sandboxes do: below the root, and below the folder of each deployment."""
        below = [*self._boxes.glob("*"), *self._boxes.glob("dep_*/*"), *self._boxes.glob("dep_*/images/*")]
        kept = ("installation", "images", "docker")
        return [path for path in below if path.name not in kept and not path.name.startswith("dep_")]

    def _look(self) -> list[str]:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        found = [line for line in mounts if line.split(" ")[1].startswith(str(self._boxes))]
        found += [str(path) for path in self._folders()]
        root = cgroup.find()
        for _, base in root.directories if root else ():
            found += [str(base / f"koda-{name}") for name in self._ids if (base / f"koda-{name}").exists()]
        return found + (self.processes() if self._ids else [])


class DockerLeftovers(Leftovers):
    """Hands out ids, and finds the containers, volumes, networks and folders of them.

    Args:
        boxes: Where the test's sandboxes lie.
        address: The engine's.
    """

    def __init__(self, boxes: Path, address: str) -> None:
        super().__init__(boxes)
        self._address = address
        self._before = set(self._at_engine())

    def _look(self) -> list[str]:
        found = [line for line in self._at_engine() if line not in self._before]
        found += [str(path) for path in self._boxes.glob("**/docker/sbx_*")]
        return found + (self.processes() if self._ids else [])

    def _at_engine(self) -> list[str]:
        import docker

        client = docker.APIClient(base_url=self._address, version="auto")
        try:
            found = [f"container {row['Names']}" for row in client.containers(all=True)]
            found += [f"volume {row['Name']}" for row in client.volumes()["Volumes"] or ()]
            networks = [str(row["Name"]) for row in client.networks()]
            found += [f"network {name}" for name in networks if name not in ("host", "none")]
        finally:
            client.close()
        return found
