"""A hook that ends its process between what a tool did and its outcome, once for each tool that a folder names."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from koda_ray.agent import Hook
from koda_ray.agent.toolkit import ToolCall, ToolOutcome

__all__ = ["FOLDER", "hook"]

FOLDER = "KODA_TEST_DEADLY"
"""The environment's name of the folder; a file in it is a tool's name."""


async def _after_tool(call: ToolCall, outcome: ToolOutcome) -> None:
    try:
        (Path(os.environ[FOLDER]) / call.name).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


hook = Hook(name="deadly", after_tool=_after_tool)
