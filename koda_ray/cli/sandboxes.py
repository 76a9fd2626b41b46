"""Commands on images, sandboxes and processes: the sandbox service on this machine, without a server or agents."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from koda_ray.cli.options import Json
from koda_ray.cli.shapes import Listing

__all__ = ["image_app", "process_app", "sandbox_app"]


def _group(text: str) -> typer.Typer:
    return typer.Typer(help=text, cls=Listing, no_args_is_help=True, rich_markup_mode=None)


image_app = _group("What sandboxes start from: make, list and remove images.")
sandbox_app = _group("Isolated places to run code in: make, list, enter and end them.")
process_app = _group("Processes in sandboxes, each with a terminal: launch, follow, attach to and kill them.")

Image = Annotated[str, typer.Argument(metavar="IMAGE", help="An image's id or name (see: koda image list).")]
Sandbox = Annotated[str, typer.Argument(metavar="SANDBOX", help="A sandbox's id (see: koda sandbox list).")]
File = Annotated[str, typer.Argument(metavar="PATH", help="A file of it, relative to the project.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The process's name, unique in its sandbox.")]
Provider = Annotated[
    str | None, typer.Option(metavar="NAME", help="local, docker, e2b or modal; else what SANDBOX_PROVIDER says.")
]
Lifetime = typer.Option("--lifetime", metavar="TIME", help="When it ends if not extended: 30m, 8h; else in a day.")
Listen = Annotated[
    int, typer.Option("--listen", metavar="PORT", help="Where to show it on this machine; else any.", max=65_535)
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file where it is there already.")]
Forget = Annotated[bool, typer.Option("--forget", help="Also what is elsewhere, in a place that is no more.")]
All = Annotated[bool, typer.Option("--all", "-a", help="Those that are over, too.")]
Command = Annotated[
    list[str],
    typer.Argument(metavar="COMMAND...", help="One line for a shell, or a program and its arguments after --."),
]


@image_app.command("create")
def create_image(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder, or a Dockerfile (not with provider local).")],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What to call it; else the folder's name.")] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Make it anew, using nothing of an earlier build.")] = False,
    provider: Provider = None,
) -> None:
    """Make an image of a folder and print its id.

    Locally an image is a copy of the folder as it is, dependencies included. With Docker it is the image of all
    sandboxes with the folder as the project, built from the folder's Dockerfile where it has one. What a .dockerignore
    in it names stays out.
    """
    from koda_ray.console import sandboxes

    sandboxes.create_image(path, name=name, clean_build=clean, provider=provider)


@image_app.command("build")
def build_image(
    provider: Annotated[str, typer.Option(metavar="NAME", help="docker, e2b or modal.")] = "docker",
    base: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="An image of Debian; else Docker's is made by debootstrap.")
    ] = None,
    slim: Annotated[bool, typer.Option("--slim", help="Without Chromium, FFmpeg, fonts and bun: no pictures.")] = False,
    tag: Annotated[str | None, typer.Option(metavar="NAME", help="Docker: its name, else SANDBOX_IMAGE.")] = None,
    mirror: Annotated[str | None, typer.Option(metavar="URL", help="Docker: where debootstrap takes from.")] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Docker: make all anew, the base too, with Debian's updates.")
    ] = False,
) -> None:
    """Build the image that all sandboxes start from. Takes minutes the first time."""
    from koda_ray.console import sandboxes

    sandboxes.build_image(provider, base=base, slim=slim, tag=tag, mirror=mirror, clean=clean)


@image_app.command("list")
def list_images(json: Json = False) -> None:
    """List images, oldest first."""
    from koda_ray.console import sandboxes

    sandboxes.list_images(as_json=json)


@image_app.command("remove")
def remove_image(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE...", help="Ids or names.")], forget: Forget = False
) -> None:
    """Remove images; sandboxes that were made of them keep what they have."""
    from koda_ray.console import sandboxes

    sandboxes.remove_image(images, forget=forget)


@sandbox_app.command("create")
def create_sandbox(
    image: Annotated[
        str | None, typer.Argument(metavar="[IMAGE]", help="An image's id or name; else the animation template.")
    ] = None,
    network: Annotated[
        bool, typer.Option("--network", help="Let it reach the package registries (SANDBOX_EGRESS_HOSTS).")
    ] = False,
    provider: Provider = None,
    lifetime: Annotated[str | None, Lifetime] = None,
) -> None:
    """Make a sandbox and print its id."""
    from koda_ray.console import sandboxes

    sandboxes.create_sandbox(image, network=network, provider=provider, lifetime=lifetime)


@sandbox_app.command("list")
def list_sandboxes(everything: All = False, json: Json = False) -> None:
    """List sandboxes, oldest first."""
    from koda_ray.console import sandboxes

    sandboxes.list_sandboxes(everything=everything, as_json=json)


@sandbox_app.command("connect")
def connect(sandbox: Sandbox) -> None:
    """Go into a sandbox: a shell in it, which runs on when you leave with C-b d."""
    from koda_ray.console import sandboxes

    sandboxes.open_shell(sandbox)


@sandbox_app.command("attach")
def attach_sandbox(
    sandbox: Sandbox,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A process's name; else a shell.")] = None,
) -> None:
    """Go to a process's terminal, or to a shell; C-b d leaves, and it runs on."""
    from koda_ray.console import sandboxes

    if name is None:
        sandboxes.open_shell(sandbox)
    else:
        sandboxes.attach(sandbox, name)


@sandbox_app.command("extend")
def extend(
    sandbox: Sandbox,
    lifetime: Annotated[str, typer.Argument(metavar="TIME", help="At least how long from now on: 90s, 30m, 8h, 1d.")],
) -> None:
    """Have a sandbox live on, and print when it ends."""
    from koda_ray.console import sandboxes

    sandboxes.extend(sandbox, lifetime)


@sandbox_app.command("url")
def url(
    sandbox: Sandbox,
    port: Annotated[int, typer.Argument(metavar="PORT", help="Where a process of it listens.", min=1, max=65_535)],
    listen: Listen = 0,
) -> None:
    """Show what a process serves on an address of this machine, until Ctrl-C."""
    from koda_ray.console import sandboxes

    sandboxes.show_port(sandbox, port, listen=listen)


@sandbox_app.command("desktop")
def desktop(sandbox: Sandbox, listen: Listen = 0) -> None:
    """Show the desktop that it streams on port 6080 on an address of this machine, until Ctrl-C.

    Its image has to have one, as E2B's desktop template does, and one of its processes streams it there (noVNC).
    """
    from koda_ray.console import sandboxes

    sandboxes.show_desktop(sandbox, listen=listen)


@sandbox_app.command("watch")
def watch(
    sandbox: Sandbox,
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A folder of it, with all below it.")] = ".",
) -> None:
    """Print which files change, until Ctrl-C or the sandbox's end."""
    from koda_ray.console import sandboxes

    sandboxes.watch(sandbox, path)


@sandbox_app.command("files")
def list_files(
    sandbox: Sandbox,
    path: Annotated[str, typer.Argument(metavar="[PATH]", help="A folder of it; else the project.")] = ".",
    json: Json = False,
) -> None:
    """List the files in a folder."""
    from koda_ray.console import sandbox_files

    sandbox_files.list_files(sandbox, path, as_json=json)


@sandbox_app.command("read")
def read_file(sandbox: Sandbox, path: File) -> None:
    """Print a file, byte for byte."""
    from koda_ray.console import sandbox_files

    sandbox_files.read_file(sandbox, path)


@sandbox_app.command("write")
def write_file(
    sandbox: Sandbox,
    path: File,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="A file of this machine; - or nothing reads stdin.",
            exists=True, dir_okay=False, allow_dash=True,
        ),
    ] = None,
) -> None:  # fmt: skip
    """Write a file, and make the folders above it."""
    from koda_ray.console import sandbox_files

    sandbox_files.write_file(sandbox, path, file)


@sandbox_app.command("rm")
def remove_files(
    sandbox: Sandbox, paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files or folders of it.")]
) -> None:
    """Remove files, and folders with all in them; what is not there is no error."""
    from koda_ray.console import sandbox_files

    sandbox_files.remove_files(sandbox, paths)


@sandbox_app.command("run")
def run(
    sandbox: Sandbox,
    command: Command,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="When it is ended: 90s, 10m; an hour at most.")] = "30s",
    cwd: Annotated[str, typer.Option(metavar="DIR", help="A folder of the project, where it runs.")] = ".",
) -> None:
    """Run a command to its end, print what it wrote, and end with its status. It has no terminal; Ctrl-C ends it.

    The status is 124 where its time was over, 137 where it passed a limit, 125 where it could not be run.
    """
    from koda_ray.console import sandbox_files

    sandbox_files.run(sandbox, _line(command), timeout=timeout, cwd=cwd)


@sandbox_app.command("snapshot")
def snapshot(
    sandbox: Sandbox,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The zip to write.", dir_okay=False)],
    force: Force = False,
) -> None:
    """Take all files of its project out as a zip, without what is built or installed."""
    from koda_ray.console import sandbox_project

    sandbox_project.snapshot(sandbox, out, force=force)


@sandbox_app.command("restore")
def restore(
    sandbox: Sandbox,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The zip.", exists=True, dir_okay=False)],
) -> None:
    """Make the files of its project those of a zip; others are removed."""
    from koda_ray.console import sandbox_project

    sandbox_project.restore(sandbox, file)


@sandbox_app.command("build")
def build(
    sandbox: Sandbox,
    out: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The zip to write the bundle to.", dir_okay=False)
    ] = None,
    types: Annotated[bool, typer.Option("--types", help="Check types first.")] = False,
    force: Force = False,
) -> None:
    """Build its project with Vite, and say what is wrong with it or take the bundle out."""
    from koda_ray.console import sandbox_project

    sandbox_project.build(sandbox, out, types=types, force=force)


@sandbox_app.command("screenshot")
def screenshot(
    sandbox: Sandbox,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The PNG to write.", dir_okay=False)],
    at: Annotated[float, typer.Option("--at", metavar="SECONDS", help="Which moment of the page.")] = 0.0,
    size: Annotated[str, typer.Option("--size", metavar="WxH", help="The page's size in pixels.")] = "1920x1080",
    force: Force = False,
) -> None:
    """Take a picture of its page at a time: the very frame that a render would show."""
    from koda_ray.console import sandbox_project

    sandbox_project.screenshot(sandbox, out, at_s=at, size=size, force=force)


@sandbox_app.command("preview")
def preview(sandbox: Sandbox, listen: Listen = 0) -> None:
    """Show its page as it changes on an address of this machine, until Ctrl-C; its dev server runs on."""
    from koda_ray.console import sandbox_project

    sandbox_project.preview(sandbox, listen=listen)


@sandbox_app.command("terminate")
def terminate(
    sandbox: Annotated[list[str], typer.Argument(metavar="SANDBOX...", help="Ids (see: koda sandbox list).")],
    forget: Forget = False,
) -> None:
    """End sandboxes with all their processes and files."""
    from koda_ray.console import sandboxes

    sandboxes.terminate(sandbox, forget=forget)


@process_app.command("launch")
def launch(
    sandbox: Sandbox,
    name: Name,
    command: Command,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print what it writes, and end as it does.")] = False,
) -> None:
    """Start a process in the background. Ctrl-C on one that is followed leaves it running."""
    from koda_ray.console import sandboxes

    line = _line(command)
    if follow:
        sandboxes.stream(sandbox, name, line)
    else:
        sandboxes.launch(sandbox, name, line)


@process_app.command("follow")
def follow_process(sandbox: Sandbox, name: Name) -> None:
    """Print what a process wrote and writes until it ends."""
    from koda_ray.console import sandboxes

    sandboxes.stream(sandbox, name, None)


@process_app.command("output")
def output(sandbox: Sandbox, name: Name) -> None:
    """Print the end of what a process wrote (192 KiB), and return at once."""
    from koda_ray.console import sandboxes

    sandboxes.output(sandbox, name)


@process_app.command("list")
def list_processes(
    sandbox: Annotated[str | None, typer.Argument(metavar="[SANDBOX]", help="Only this one's.")] = None,
    everything: All = False,
    json: Json = False,
) -> None:
    """List the processes that run."""
    from koda_ray.console import sandboxes

    sandboxes.list_processes(sandbox, everything=everything, as_json=json)


@process_app.command("attach")
def attach_process(sandbox: Sandbox, name: Name) -> None:
    """Go to a process's terminal; C-b d leaves, and it runs on."""
    from koda_ray.console import sandboxes

    sandboxes.attach(sandbox, name)


@process_app.command("kill")
def kill(
    sandbox: Sandbox, names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The processes' names.")]
) -> None:
    """End processes with all that they started, and forget what they wrote."""
    from koda_ray.console import sandboxes

    sandboxes.kill(sandbox, names)


def _line(command: list[str]) -> str:
    return command[0] if len(command) == 1 else shlex.join(command)
