"""What an image's building makes: each step is run in a machine, and what its disk holds then is the image."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.sandbox.e2b_server.machine import Machine, TemplateImage

__all__ = ["BuildStep", "Failed", "build"]

_COPY = """
folder=$(mktemp -d) && tar -x -z -C "$folder" || exit 1
if [ -d "$folder/$1" ]; then mkdir -p "$2" && cp -a "$folder/$1/." "$2"; exit; fi
case $2 in */) mkdir -p "$2" ;; *) mkdir -p "${2%/*}" ;; esac
cp -a "$folder/$1" "$2"
"""


class Failed(Exception):
    """A step ended with a code other than zero."""


@dataclass(frozen=True, kw_only=True)
class BuildStep:
    """A command, or a copy of what an archive (tar, compressed by gzip) holds to a place."""

    command: str = ""
    archive: bytes = b""
    source: str = ""
    target: str = ""


async def build(base: TemplateImage, steps: Sequence[BuildStep], folder: Path) -> TemplateImage:
    """Build an image.

    Args:
        base: What it starts from.
        steps: What is done then, each as root.
        folder: Where a machine may lie for that time, and the image's disk afterwards.
    """
    machine = Machine(folder / "machine", replace(base, node_modules=None), "none")
    await machine.start()
    try:
        for step in steps:
            line = ["/bin/sh", "-c", step.command]
            if step.archive:
                line = ["/bin/sh", "-c", _COPY, "copy", step.source, step.target]
            await _run(machine, line, step.archive)
        await asyncio.to_thread(_keep, machine.folder, folder / "disk")
    finally:
        await machine.end()
    return TemplateImage(None, None, folder / "disk")


async def _run(machine: Machine, line: Sequence[str], data: bytes) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *machine.enter(), *line, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
    )  # fmt: skip
    said, _ = await process.communicate(data)
    if process.returncode != 0:
        raise Failed(f"{line[2][:80]!r} ended with code {process.returncode}: {said.decode()[-300:]}")


def _keep(machine: Path, disk: Path) -> None:
    for name in ("home", "opt"):
        shutil.copytree(machine / name, disk / name, symlinks=True)
