"""``koda sandbox files|read|write|rm|run``: files of a person's own sandboxes, and commands to their end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from koda_ray.console.exits import Left, as_inside
from koda_ray.console.sandboxes import print_json, print_rows, seconds, with_workshop
from koda_ray.console.text import size

if TYPE_CHECKING:
    from koda_ray.sandbox.base import CommandResult, FileEntry
    from koda_ray.sandbox.workshop import Workshop

__all__ = ["list_files", "read_file", "remove_files", "run", "write_file"]

_NO_FILES = """no files here yet. Write one:

    koda sandbox write SANDBOX main.py ./main.py
"""
_CUT = "it wrote more than is kept: the middle of it is left out (koda process launch --follow shows everything)"


def list_files(sandbox: str, path: str, *, as_json: bool) -> None:
    """Print what is in a folder, by path."""

    async def work(workshop: Workshop) -> list[FileEntry]:
        return await (await workshop.connect(sandbox)).list_files(path)

    found = with_workshop(work)
    if as_json:
        print_json("files", ({"path": one.path, "type": one.type, "sizeBytes": one.size_bytes} for one in found))
        return
    rows = [(one.path, one.type, size(one.size_bytes) if one.type == "file" else "") for one in found]
    print_rows(("path", "type", "size"), rows, _NO_FILES)


def read_file(sandbox: str, path: str) -> None:
    """Print a file, byte for byte."""

    async def work(workshop: Workshop) -> bytes:
        return await (await workshop.connect(sandbox)).read_file(path)

    data = with_workshop(work)
    typer.get_binary_stream("stdout").write(data)


def write_file(sandbox: str, path: str, file: Path | None) -> None:
    """Write a file of a sandbox: from one of this machine, or from stdin where there is none or it is ``-``."""
    data = typer.get_binary_stream("stdin").read() if file is None or str(file) == "-" else file.read_bytes()

    async def work(workshop: Workshop) -> None:
        await (await workshop.connect(sandbox)).write_files({path: data})

    with_workshop(work)


def remove_files(sandbox: str, paths: Sequence[str]) -> None:
    """Remove files, and folders with all in them."""

    async def work(workshop: Workshop) -> None:
        box = await workshop.connect(sandbox)
        for path in paths:
            await box.remove(path)

    with_workshop(work)


def run(sandbox: str, command: str, *, timeout: str, cwd: str) -> None:
    """Run a command to its end, print what it wrote, and end as it did; see ``exits``.

    Raises:
        Left: With the command's exit code, where that is not 0.
    """
    timeout_s = seconds(timeout)

    async def work(workshop: Workshop) -> CommandResult:
        return await workshop.run(sandbox, command, timeout_s=timeout_s, cwd=cwd)

    with as_inside():
        ended = with_workshop(work)
    for stream, text in ((sys.stdout, ended.stdout), (sys.stderr, ended.stderr)):
        stream.flush()
        stream.buffer.write(text.encode())
        stream.buffer.flush()
    if ended.truncated:
        typer.echo(_CUT, err=True)
    if ended.exit_code != 0:
        raise Left(ended.exit_code)
