"""What sandboxes leave on a machine: at every depth of their folder, and by marks that do not go with their parents.

A process that was orphaned is nobody's child, a mount and a control group are in no folder of ours. So what is
counted is found by what it carries: the folder in its name, a sandbox's or a container's id, the user that only one
sandbox has.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from koda_ray.sandbox.preview import short_folder
from koda_ray.sandbox.users import sandbox_user

__all__ = ["Traces"]

_GROUPS = Path("/sys/fs/cgroup")
_DEADLINE_S = 5.0
_PAUSE_S = 0.05


class Traces:
    """Looks for what there is of some sandboxes.

    Args:
        root: The folder of them all.
        places: Other folders below which nothing may stay mounted, such as an engine's.
        held: Says what else there is, as an engine's containers, volumes and networks.

    Attributes:
        before: What there was when it was made, which does not count.
    """

    def __init__(self, root: Path, *, places: Iterable[Path] = (), held: Callable[[], set[str]] = set) -> None:
        self._root = root
        self._places = (root, *places)
        self._held = held
        self._marks = {str(root)}
        self._users: set[int] = set()
        self._short: set[Path] = set()
        self.before = self.found()

    def note(self, sandbox_id: str, *ids: str) -> None:
        """Look for a sandbox from now on, and for what an engine calls it."""
        self._marks |= {sandbox_id, *ids}
        self._short |= {short_folder(self._root / within / sandbox_id) for within in (".", "docker")}
        if (user := sandbox_user(sandbox_id)) is not None:
            self._users.add(user)

    def left(self) -> set[str]:
        """Say what is there that was not at the beginning, once what is about to go is gone."""
        deadline = time.monotonic() + _DEADLINE_S
        while (left := self.found() - self.before) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return left

    def found(self) -> set[str]:
        """Say what is there now."""
        return {*self._files(), *self._mounts(), *self._sockets(), *self._processes(), *self._groups(), *self._held()}

    def _files(self) -> Iterator[str]:
        for top in (self._root, *self._short):
            for where, folders, files in os.walk(top):
                for name in (*folders, *files):
                    path = os.path.join(where, name)
                    with suppress(OSError):
                        kind = "socket file" if stat.S_ISSOCK(os.lstat(path).st_mode) else "file"
                        yield f"{kind} {path}"
            if top != self._root and top.exists():
                yield f"folder {top}"

    def _mounts(self) -> Iterator[str]:
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            point = line.split()[4]
            if any(Path(point).is_relative_to(place) for place in self._places) or self._is_marked(point):
                yield f"mount {point}"

    def _sockets(self) -> Iterator[str]:
        """Find Unix sockets that somebody still has open, also those whose file is gone."""
        for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and (self._is_marked(fields[7]) or any(str(one) in fields[7] for one in self._short)):
                yield f"socket {fields[6]} {fields[7]}"

    def _processes(self) -> Iterator[str]:
        tree = {child.pid for child in psutil.Process().children(recursive=True)}
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            if pid == os.getpid():
                continue
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                group = Path(f"/proc/{pid}/cgroup").read_text()
                user = os.stat(f"/proc/{pid}").st_uid
                if pid in tree or user in self._users or self._is_marked(words) or self._is_marked(group):
                    yield f"process {pid}: {words[:200]}"

    def _groups(self) -> Iterator[str]:
        for where, folders, _ in os.walk(_GROUPS):
            yield from (f"control group {where}/{name}" for name in folders if self._is_marked(name))

    def _is_marked(self, text: str) -> bool:
        return any(mark in text for mark in self._marks)
