"""Small disks that can be filled, for tests of what happens then."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import services

__all__ = ["small"]


@contextmanager
def small(folder: Path, size_mb: float) -> Iterator[Path]:
    """Mount a disk of ``size_mb`` MiB; skips or fails as the service ``mount`` does where that is not allowed."""
    services.need("mount")
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={int(size_mb * 1024)}k", "tmpfs", str(folder)]
    subprocess.run(command, capture_output=True, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
