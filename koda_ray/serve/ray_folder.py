"""The folder in which a local Ray keeps its sockets and logs, named after its server, so that it does not outlive it.

Ray wants a short path (a socket's address has room for 107 bytes), so it is below ``/tmp`` whatever TMPDIR says.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

from koda_ray.serve.runfile import start_of

__all__ = ["make", "remove", "sweep"]

_PARENT = Path("/tmp")
_NAME = re.compile(r"koda-ray-(\d+)-(\d+)")


def make() -> str:
    """Make this process's folder, for its owner only, and remove those of servers that were killed."""
    sweep()
    path = _PARENT / f"koda-ray-{os.getpid()}-{start_of(os.getpid())}"
    path.mkdir(mode=0o700)
    inner = path / "r"  # Ray opens its own folder to everybody
    inner.mkdir()
    return str(inner)


def remove(path: str) -> None:
    """Remove what `make` made; nothing happens when it is not there."""
    shutil.rmtree(Path(path).parent, ignore_errors=True)


def sweep() -> list[str]:
    """Remove our folders whose server lives no more; return their names."""
    gone: list[str] = []
    for path in _PARENT.iterdir():
        named = _NAME.fullmatch(path.name)
        with contextlib.suppress(OSError):
            if named and path.lstat().st_uid == os.getuid() and start_of(int(named[1])) != int(named[2]):
                shutil.rmtree(path, ignore_errors=True)
                gone.append(path.name)
    return gone
