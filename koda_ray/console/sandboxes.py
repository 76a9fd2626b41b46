"""``koda image``, ``koda sandbox``, ``koda process``: a person's own sandboxes on this machine, without a server.

They are rows in the database that the server uses too, so what is made here is seen there, and the other way round.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from koda_ray.config import Settings
from koda_ray.console.exits import Exit, Left, as_inside
from koda_ray.console.text import clean, duration, one_line, size
from koda_ray.errors import InvalidInput
from koda_ray.types import now

if TYPE_CHECKING:
    from koda_ray.sandbox.base import PreviewEndpoint
    from koda_ray.sandbox.standing import ImageState, ProcessState, SandboxStanding
    from koda_ray.sandbox.workshop import Workshop
    from koda_ray.state.boxes import SandboxRecord

__all__ = [
    "attach",
    "build_image",
    "create_image",
    "create_sandbox",
    "extend",
    "kill",
    "launch",
    "list_images",
    "list_processes",
    "list_sandboxes",
    "open_shell",
    "output",
    "print_json",
    "print_rows",
    "remove_image",
    "seconds",
    "show_desktop",
    "show_port",
    "show_until_interrupted",
    "stream",
    "terminate",
    "watch",
    "with_workshop",
]

T = TypeVar("T")
_USER = "local"
_SHELL = "shell"
_BEST_SHELL = "if command -v bash >/dev/null; then exec bash; else exec sh; fi"
_A_SHELL = "(a shell)"
_COMMAND_CHARS = 60
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}

_NO_IMAGES = """no images yet. An image is what sandboxes start from; make one of a folder:

    koda image create ./my-project
    koda sandbox create my-project
"""
_NO_SANDBOXES = """no sandboxes yet. Make one of an image or, without one, of the animation template, and go in:

    koda sandbox create my-project        (koda image list shows the images, koda image create FOLDER makes one)
    koda sandbox attach SANDBOX
"""
_NO_PROCESSES = """no processes yet. Start one in a sandbox, and follow what it says:

    koda process launch SANDBOX server -- npm start
    koda process follow SANDBOX server    (koda sandbox list shows the sandboxes)
"""
_AT_ONCE_S = 0.3
_NONE_RUNS = "no process runs now; those that have ended: koda process list --all\n\n"


def create_image(path: Path, *, name: str | None, clean_build: bool, provider: str | None) -> None:
    """Make an image and print its id."""

    async def work(workshop: Workshop) -> str:
        made = await workshop.create_image(path, name=name, clean=clean_build, provider=provider)
        return made.id

    typer.echo(with_workshop(work))


def build_image(
    provider: str, *, base: str | None, slim: bool, tag: str | None, mirror: str | None, clean: bool
) -> None:
    """Build the image that all sandboxes of a provider start from, and print what it is called.

    Raises:
        InvalidInput: There is no such image to build, or an option that is none of the provider's.
        KodaError: It could not be built.
    """
    from koda_ray.logs import warnings_to_stderr
    from koda_ray.sandbox.scratch import clear_left

    warnings_to_stderr()
    settings = Settings()
    if provider != "docker" and (tag, mirror, clean) != (None, None, False):
        raise InvalidInput(
            f"--tag, --mirror and --clean are for Docker: {provider} names and makes its image by its own settings"
        )
    clear_left()
    match provider:
        case "docker":
            from koda_ray.sandbox.image import make_image

            image = make_image(settings, base=base, tag=tag, mirror=mirror, slim=slim, clean=clean)
            typer.echo(f"{tag or settings.sandbox_image}: {size(image.size_bytes)}, {image.id}")
        case "e2b":
            from koda_ray.sandbox import e2b_template
            from koda_ray.sandbox.image_context import ImageContext

            with ImageContext.of(settings, slim=slim) as context:
                made = asyncio.run(
                    e2b_template.build_template(
                        settings,
                        context,
                        base=base or e2b_template.BASE,
                        tell=lambda line: typer.echo(line.rstrip(), err=True),
                    )
                )
            typer.echo(f"{settings.e2b_template}: {made}")
        case "modal":
            from koda_ray.sandbox import modal_image
            from koda_ray.sandbox.image_context import ImageContext

            with ImageContext.of(settings, slim=slim) as context:
                made = asyncio.run(modal_image.build_image(settings, context, base=base or modal_image.BASE))
            typer.echo(f"MODAL_IMAGE={made}")
        case _:
            raise InvalidInput(f"there is no image to build for provider {provider[:40]!r}: name docker, e2b or modal")


def list_images(*, as_json: bool) -> None:
    """Print images, oldest first."""
    found = with_workshop(lambda workshop: workshop.images())
    if as_json:
        print_json("images", map(_image, found))
        return
    rows = [
        (one.record.id, one.record.name, one.record.provider, _where(one), size(one.record.size_bytes),
         _age(one.record.created_at), one.record.source)
        for one in found
    ]  # fmt: skip
    print_rows(("image", "name", "provider", "state", "size", "age", "from"), rows, _NO_IMAGES)


def remove_image(images: Sequence[str], *, forget: bool) -> None:
    """Remove images."""

    async def work(workshop: Workshop) -> None:
        for image in images:
            typer.echo((await workshop.remove_image(image, forget=forget)).id)

    with_workshop(work)


def create_sandbox(image: str | None, *, network: bool, provider: str | None, lifetime: str | None) -> None:
    """Make a sandbox and print its id."""
    lifetime_s = None if lifetime is None else seconds(lifetime)

    async def work(workshop: Workshop) -> str:
        made = await workshop.create_sandbox(image, network=network, provider=provider, lifetime_s=lifetime_s)
        return made.id

    typer.echo(with_workshop(work))


def extend(sandbox: str, lifetime: str) -> None:
    """Have a sandbox live on, and print when it ends."""
    lifetime_s = seconds(lifetime)
    row = with_workshop(lambda workshop: workshop.extend(sandbox, lifetime_s))
    if row.expires_at is None:
        typer.echo("it has no end")
        return
    longer = (row.expires_at - now()).total_seconds() > lifetime_s
    typer.echo(f"it lives longer already: it ends in {_end(row)}" if longer else f"it ends in {_end(row)}")


def list_sandboxes(*, everything: bool, as_json: bool) -> None:
    """Print sandboxes, oldest first."""

    async def work(workshop: Workshop) -> tuple[list[SandboxStanding], dict[str, str]]:
        images = {one.record.id: one.record.name for one in await workshop.images()}
        return await workshop.sandboxes(everything=everything), images

    found, images = with_workshop(work)
    if as_json:
        print_json("sandboxes", map(_sandbox, found))
        return
    rows = [
        (one.record.id, _image_name(one.record.image_id, images), one.record.provider, _how(one),
         "yes" if one.record.network else "no", _age(one.record.created_at),
         "" if one.state in ("gone", "terminated") else _end(one.record))
        for one in found
    ]  # fmt: skip
    print_rows(("sandbox", "image", "provider", "state", "network", "age", "ends in"), rows, _NO_SANDBOXES)


def watch(sandbox: str, path: str) -> None:
    """Print which files change, until interrupted or the sandbox ends."""

    async def work(workshop: Workshop) -> None:
        async with aclosing(workshop.watch(sandbox, path)) as batches:
            async for batch in batches:
                if not batch:
                    typer.echo("nothing is missed from here on; Ctrl-C ends it", err=True)
                for change in batch:
                    typer.echo(f"{change.kind}\t{clean(change.path)}")

    with_workshop(work)


def show_port(sandbox: str, port: int, *, listen: int) -> None:
    """Show what answers on a port of a sandbox on this machine, until interrupted; print where."""
    show_until_interrupted(lambda workshop: workshop.reach(sandbox, port), listen=listen)


def show_desktop(sandbox: str, *, listen: int) -> None:
    """Show the desktop that a sandbox streams on this machine, until interrupted; print where."""
    from koda_ray.sandbox.desktop import desktop_page, find_desktop

    show_until_interrupted(lambda workshop: find_desktop(workshop, sandbox), listen=listen, page=desktop_page)


def show_until_interrupted(
    find: Callable[[Workshop], Awaitable[PreviewEndpoint]],
    *,
    listen: int,
    first: Callable[[Workshop], Awaitable[None]] | None = None,
    page: Callable[[str], str] = str,
) -> None:
    """Show a page of a sandbox on this machine, and print where.

    Args:
        find: Says where it answers.
        listen: A port of this machine; any when 0.
        first: What is done before.
        page: Says which address to print, from that of ``/``.
    """
    from koda_ray.console.ports import show

    async def work(workshop: Workshop) -> None:
        if first is not None:
            await first(workshop)
        await show(lambda: find(workshop), port=listen, told=lambda url: typer.echo(f"{page(url)}  (Ctrl-C ends it)"))

    with_workshop(work)


def terminate(sandboxes: Sequence[str], *, forget: bool) -> None:
    """End sandboxes."""

    async def work(workshop: Workshop) -> None:
        for sandbox in sandboxes:
            await workshop.terminate(sandbox, forget=forget)
            typer.echo(sandbox)

    with_workshop(work)


def launch(sandbox: str, name: str, command: str) -> None:
    """Start a process in the background; raises Left where it failed at once, as a program that is not there does."""

    async def work(workshop: Workshop) -> ProcessState:
        await workshop.launch(sandbox, name, command)
        await asyncio.sleep(_AT_ONCE_S)
        return await workshop.process(sandbox, name)

    found = with_workshop(work)
    if found.state == "running":
        typer.echo(f"{name} runs; see it: koda process attach {sandbox} {name}")
        return
    code = found.record.exit_code
    how = "was killed" if code is None else f"ended with code {code}"
    typer.echo(f"{name} {how} already; read what it wrote: koda process output {sandbox} {name}", err=code != 0)
    if code != 0:
        raise Left(Exit.FAILED)


def stream(sandbox: str, name: str, command: str | None) -> None:
    """Print what a process writes until it ends, and end as it does; Ctrl-C leaves it running.

    Args:
        sandbox: Where.
        name: The process's.
        command: What to start; None for one that is there.

    Raises:
        Left: With its exit code, where that is not 0; with Exit.KILLED, it was killed.
        KeyboardInterrupt: Ctrl-C.
    """

    async def work(workshop: Workshop) -> int | None:
        code: int | None = None
        write = typer.get_binary_stream("stdout")
        pieces = (
            workshop.follow(sandbox, name) if command is None else workshop.launch_and_follow(sandbox, name, command)
        )
        async for piece in pieces:
            write.write(piece.data)
            write.flush()
            code = piece.exit_code
        return code

    try:
        with as_inside():
            code = with_workshop(work)
    except KeyboardInterrupt:
        typer.echo(f"\n{name} runs on; end it: koda process kill {sandbox} {name}", err=True)
        raise
    if code is None:
        typer.echo(f"{name} was killed", err=True)
        raise Left(Exit.KILLED)
    if code != 0:
        typer.echo(f"{name} ended with code {code}", err=True)
        raise Left(code)


def list_processes(sandbox: str | None, *, everything: bool, as_json: bool) -> None:
    """Print processes by sandbox and name."""
    found = with_workshop(lambda workshop: workshop.processes(sandbox, everything=everything))
    if as_json:
        print_json("processes", map(_process, found))
        return
    rows = [
        (one.record.sandbox_id, one.record.name, one.state, one_line(one.record.command, _COMMAND_CHARS),
         f"{_age(one.record.created_at)} ago", "" if one.record.exit_code is None else str(one.record.exit_code))
        for one in found
    ]  # fmt: skip
    empty = _NO_PROCESSES if everything else f"{_NONE_RUNS}{_NO_PROCESSES}"
    print_rows(("sandbox", "process", "state", "command", "started", "exit code"), rows, empty)


def output(sandbox: str, name: str) -> None:
    """Print the end of what a process wrote."""
    from koda_ray.sandbox.tmux import MAX_OUTPUT_BYTES

    data = with_workshop(lambda workshop: workshop.output(sandbox, name, max_bytes=MAX_OUTPUT_BYTES))
    typer.get_binary_stream("stdout").write(data)


def kill(sandbox: str, names: Sequence[str]) -> None:
    """End processes."""

    async def work(workshop: Workshop) -> None:
        for name in names:
            await workshop.kill(sandbox, name)
            typer.echo(name)

    with_workshop(work)


def attach(sandbox: str, name: str) -> None:
    """Give this terminal to a process until it is left, or the process ends."""
    from koda_ray.console.terminal import lend, size_of_screen, term_of_screen

    async def work(workshop: Workshop) -> ProcessState | None:
        rows, columns = size_of_screen()
        terminal = await workshop.attach(sandbox, name, rows=rows, columns=columns, term=term_of_screen())
        await lend(terminal)
        return next(
            (one for one in await workshop.processes(sandbox, everything=True) if one.record.name == name), None
        )

    left = with_workshop(work)
    if left is None:
        typer.echo(f"{name} was killed")
    elif left.state == "running":
        typer.echo(f"{name} runs on; come back: koda sandbox attach {sandbox} {name}")
    else:
        typer.echo(f"{name} {_process_words(left)}")


def open_shell(sandbox: str) -> None:
    """Go into a sandbox: attach to its shell, started where none runs."""
    from koda_ray.console.terminal import check_screen

    check_screen()

    async def work(workshop: Workshop) -> None:
        there = {one.record.name for one in await workshop.processes(sandbox)}
        if _SHELL not in there:
            await workshop.launch(sandbox, _SHELL, _BEST_SHELL, shown=_A_SHELL)

    with_workshop(work)
    attach(sandbox, _SHELL)


def with_workshop(work: Callable[[Workshop], Awaitable[T]]) -> T:
    """Do something with this person's images, sandboxes and processes."""
    from koda_ray.config import Settings
    from koda_ray.logs import warnings_to_stderr
    from koda_ray.sandbox.providers import Providers
    from koda_ray.sandbox.workshop import Workshop
    from koda_ray.state.stores import store_from

    warnings_to_stderr()

    async def run() -> T:
        settings = Settings.model_validate({})
        store = store_from(settings, processes="one")
        providers = Providers(settings, store, told=lambda line: typer.echo(line, err=True))
        await store.open()
        try:
            return await work(Workshop(store, providers, user_id=_USER))
        finally:
            await providers.close()
            await store.close()

    return asyncio.run(run())


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Print a table to a person, ``empty`` in place of one without rows; to a program, fields with tabs between."""
    console = Console(highlight=False)
    if not console.is_terminal:
        for row in rows:  # for programs: fields apart by tabs
            console.file.write("\t".join(map(clean, row)) + "\n")
        return
    if not rows:
        typer.echo(empty.rstrip())
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    for word in head:
        table.add_column(word, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(clean(word)) for word in row))
    console.print(table)


def print_json(name: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows under a name."""
    typer.echo(json.dumps({name: list(rows)}, indent=2))


def _image(one: ImageState) -> dict[str, object]:
    record = one.record
    return {
        "id": record.id,
        "name": record.name,
        "provider": record.provider,
        "host": record.host,
        "state": one.state,
        "source": record.source,
        "sizeBytes": record.size_bytes,
        "createdAt": record.created_at.isoformat(),
    }


def _sandbox(one: SandboxStanding) -> dict[str, object]:
    record = one.record
    return {
        "id": record.id,
        "imageId": record.image_id,
        "provider": record.provider,
        "host": record.host,
        "state": one.state,
        "network": record.network,
        "createdAt": record.created_at.isoformat(),
        "expiresAt": None if record.expires_at is None else record.expires_at.isoformat(),
        "unusedS": record.unused_s,
        "ended": record.ended or None,
    }


def _process(one: ProcessState) -> dict[str, object]:
    record = one.record
    return {
        "sandboxId": record.sandbox_id,
        "name": record.name,
        "command": record.command,
        "state": one.state,
        "exitCode": record.exit_code,
        "createdAt": record.created_at.isoformat(),
        "endedAt": None if record.ended_at is None else record.ended_at.isoformat(),
    }


def _how(one: SandboxStanding) -> str:
    return f"{one.state}: {one.record.ended}" if one.record.ended else _where(one)


def _where(one: ImageState | SandboxStanding) -> str:
    if one.state != "elsewhere":
        return one.state
    return f"in {one.record.host}" if one.record.host else "elsewhere"


def _image_name(image_id: str | None, names: Mapping[str, str]) -> str:
    if image_id is None:
        return "(template)"
    return names.get(image_id, f"{image_id} (removed)")


def _process_words(one: ProcessState) -> str:
    return f"ended with code {one.record.exit_code}" if one.state == "ended" else one.state


def _age(at: datetime) -> str:
    return duration((now() - at).total_seconds())


def _end(row: SandboxRecord) -> str:
    left = "" if row.expires_at is None else duration((row.expires_at - now()).total_seconds())
    return left if row.unused_s is None else f"{left}, or {duration(row.unused_s)} unused"


def seconds(text: str) -> float:
    """Read a length of time as people write one, in seconds: ``90``, ``90s``, ``30m``, ``2h``, ``1d``.

    Raises:
        InvalidInput: INVALID_INPUT, it is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip())
    if found is None:
        raise InvalidInput(f"{text[:40]!r} is no length of time; write 90s, 30m, 2h or 1d")
    return float(found[1]) * _UNITS_S[found[2]]
