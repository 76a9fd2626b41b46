"""Which Ray all nodes have to run: the one that the hash-locked requirements name."""

from __future__ import annotations

import re
from importlib.metadata import version

from koda_ray.config import REPO_ROOT

__all__ = ["RAY_IN_TAG", "locked_ray"]

RAY_IN_TAG = re.compile(r"(?:ray|/ray:)(\d+\.\d+\.\d+)")
"""An image's tag names its Ray: ``koda-node:0.1.0-ray2.60.0``, or Ray's own ``rayproject/ray:2.60.0``."""


def locked_ray() -> str:
    """Return the version of Ray in ``requirements.lock``; the installed one where koda_ray came as a package."""
    lock = REPO_ROOT / "requirements.lock"
    found = re.search(r"^ray==([\w.]+)", lock.read_text(), re.MULTILINE) if lock.is_file() else None
    return found[1] if found else version("ray")
