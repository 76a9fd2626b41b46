"""A test's other process: a module that is run to its end."""

from __future__ import annotations

import asyncio
import sys

from koda_ray.config import REPO_ROOT

__all__ = ["run_module"]


async def run_module(module: str, *words: str, within_s: float = 240) -> str:
    """Run a module in a process of its own, and return what it wrote; a failure is the test's."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words),
        cwd=REPO_ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        told, _ = await asyncio.wait_for(child.communicate(), within_s)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, told.decode()[-3000:]
    return told.decode()
