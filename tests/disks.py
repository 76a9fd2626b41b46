"""Small disks that can be filled, for tests of what happens then."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["small"]


@contextmanager
def small(folder: Path, size_mb: int) -> Iterator[Path]:
    """Mount a disk of ``size_mb`` MiB; skips where that is not allowed, fails where KODA_TEST_REQUIRE names mount."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        reason = f"no small disk can be mounted here: {mounted.stderr.strip()}"
        if "mount" in os.environ.get("KODA_TEST_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
