"""``koda sandbox snapshot|restore|build|screenshot|preview``: the project of a person's own sandbox as a whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from koda_ray.console.exits import Exit, Left
from koda_ray.console.sandboxes import show_until_interrupted, with_workshop
from koda_ray.console.text import clean, size
from koda_ray.console.values import read_size
from koda_ray.errors import InvalidInput

if TYPE_CHECKING:
    from koda_ray.sandbox.archives import ProjectFiles
    from koda_ray.sandbox.base import PreviewEndpoint, Skip
    from koda_ray.sandbox.build import BuildProblem, BuildResult
    from koda_ray.sandbox.screenshot import Screenshot
    from koda_ray.sandbox.workshop import Workshop

__all__ = ["build", "preview", "restore", "screenshot", "snapshot"]

_MOST_SHOWN = 20


def snapshot(sandbox: str, out: Path, *, force: bool) -> None:
    """Write a project's files to a zip, and say what is not in it; one that is there is replaced only by force."""
    from koda_ray.sandbox.archives import pack
    from koda_ray.sandbox.own_project import export_project

    async def work(workshop: Workshop) -> tuple[ProjectFiles, dict[str, Skip]]:
        return await export_project(workshop, sandbox)

    _check_free(out, force=force)
    project, left_out = with_workshop(work)
    written = _write(out, lambda file: pack(project, file), force=force)
    typer.echo(f"{out}: {len(project.files)} files, {size(written)}")
    for path, why in sorted(left_out.items())[:_MOST_SHOWN]:
        typer.echo(f"left out: {clean(path)} ({why})", err=True)
    if len(left_out) > _MOST_SHOWN:
        typer.echo(f"left out: {len(left_out) - _MOST_SHOWN} more", err=True)


def restore(sandbox: str, file: Path) -> None:
    """Make a project's files those of a zip."""
    from koda_ray.sandbox.archives import read_project
    from koda_ray.sandbox.own_project import import_project

    project = read_project(file)

    async def work(workshop: Workshop) -> None:
        await import_project(workshop, sandbox, project)

    with_workshop(work)
    typer.echo(f"{len(project.files)} files are as in {file}")


def build(sandbox: str, out: Path | None, *, types: bool, force: bool) -> None:
    """Build a project; ``out`` is as for `snapshot`. Raises Left where it does not build, after saying why."""
    from koda_ray.sandbox.archives import ProjectFiles, pack
    from koda_ray.sandbox.build import build as built

    async def work(workshop: Workshop) -> BuildResult:
        return await built(await workshop.connect(sandbox), types=types)

    if out is not None:
        _check_free(out, force=force)
    done = with_workshop(work)
    for problem in done.problems:
        typer.echo(_words(problem), err=True)
    if not done.ok:
        raise Left(Exit.FAILED)
    total = size(sum(map(len, done.files.values())))
    typer.echo(f"built in {done.duration_s:.1f} s: {len(done.files)} files, {total}")
    if out is not None:
        _write(out, lambda file: pack(ProjectFiles(files=done.files), file), force=force)
        typer.echo(str(out))


def screenshot(sandbox: str, out: Path, *, at_s: float, size: str, force: bool) -> None:
    """Write a picture of a project's page at a time; ``out`` is as for `snapshot`."""
    from koda_ray.actors.stills import still_clock
    from koda_ray.sandbox.screenshot import screenshot as taken

    asked = read_size(size)
    assert asked is not None  # there is a text
    width_px, height_px = asked

    async def work(workshop: Workshop) -> Screenshot:
        box = await workshop.connect(sandbox)
        return await taken(box, at_s, clock=still_clock(), width_px=width_px, height_px=height_px)

    _check_free(out, force=force)
    made = with_workshop(work)
    _write(out, lambda file: file.write(made.png), force=force)
    length = "" if made.duration_s is None else f" of {made.duration_s:g} s"
    typer.echo(f"{out}: {width_px}x{height_px} at {at_s:g} s{length}")


def preview(sandbox: str, *, listen: int) -> None:
    """Show a project's page on this machine until interrupted."""
    from koda_ray.sandbox.own_project import find_preview, start_preview

    async def find(workshop: Workshop) -> PreviewEndpoint:
        return await find_preview(workshop, sandbox)

    async def start(workshop: Workshop) -> None:
        await start_preview(workshop, sandbox)

    show_until_interrupted(find, listen=listen, first=start)


def _check_free(out: Path, *, force: bool) -> None:
    """Refuse a file that is there before any work is done for it."""
    if not force and os.path.lexists(out):
        raise InvalidInput(f"{out} is there already; name another file, or replace it with --force")


def _write(out: Path, write: Callable[[IO[bytes]], object], *, force: bool) -> int:
    """Write a file whole or not at all; returns its size in bytes."""
    partial = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        with partial.open("xb") as file:
            write(file)
        _check_free(out, force=force)
        os.replace(partial, out)
        return out.stat().st_size
    except OSError as error:
        raise InvalidInput(f"cannot write {out} ({error.strerror}); name another file") from error
    finally:
        partial.unlink(missing_ok=True)


def _words(problem: BuildProblem) -> str:
    place = ":".join(str(part) for part in (problem.file, problem.line, problem.column) if part is not None)
    return clean(f"{place}: {problem.message}" if place else problem.message)
