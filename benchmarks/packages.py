"""npm packages that only benchmarks need: installed once, without their scripts, into a cache of this machine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from koda_ray.config import REPO_ROOT

__all__ = ["cache_folder", "install"]

_TIMEOUT_S = 600


def cache_folder() -> Path:
    """Return where peers and pages' libraries are kept."""
    named = os.environ.get("KODA_DATA_DIR")
    return (Path(named).absolute() if named else REPO_ROOT / ".koda") / "peers"


async def install(name: str, packages: Sequence[str]) -> Path:
    """Install packages, unless just these are there.

    Args:
        name: The folder in the cache.
        packages: Names with exact versions.

    Returns:
        Their ``node_modules``.
    """
    folder = cache_folder() / name
    stamp = folder / "installed.json"
    if not (stamp.exists() and json.loads(stamp.read_text()) == list(packages)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"name": f"koda-benchmark-{name}", "private": True}))
        print(f"installing {', '.join(packages)}", flush=True)
        process = await asyncio.create_subprocess_exec(
            *("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", *packages),
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(_TIMEOUT_S):
            said, _ = await process.communicate()
        if process.returncode:
            raise SystemExit(f"npm could not install {', '.join(packages)}: {said.decode(errors='replace')[-2000:]}")
        stamp.write_text(json.dumps(list(packages)))
    return folder / "node_modules"
