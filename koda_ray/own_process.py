"""Processes of ours: they run a module of this package, found as it is found here, wherever they stand."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["own_environment"]

_PACKAGES = Path(__file__).absolute().parents[1]


def own_environment(kept: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that runs a module of this package.

    What this process finds modules in it has as well, but for what depends on where one stands.

    Args:
        kept: What else it has; nothing of this process's own comes with it by itself.
    """
    return {**kept, "PYTHONPATH": os.pathsep.join([str(_PACKAGES), *filter(os.path.isabs, sys.path)])}
