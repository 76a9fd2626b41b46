"""Commands on this machine: run the server, and say whether the main job could run."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from koda_ray.cli.options import Json, Server
from koda_ray.console.exits import Exit, Left

__all__ = ["app"]

app = typer.Typer()


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Where to listen; anything but loopback needs KODA_API_KEYS.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The API's port; 0 for any.")] = None,
    preview_port: Annotated[int | None, typer.Option(help="The live preview's port; 0 for any.")] = None,
    background: Annotated[bool, typer.Option("--background", help="Return once it answers; it stays.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the server that runs here.")] = False,
) -> None:
    """Run the server: the API, the live preview, and Ray underneath."""
    from koda_ray.console import server
    from koda_ray.serve import runfile

    if stop:
        pid = server.stop_running()
        typer.echo("no server runs here" if pid is None else f"stopped the server (process {pid})")
        return
    running = server.running_url()
    if running is not None and "KODA_SERVER" not in os.environ:
        typer.echo(f"a server runs already: {running} (end it with: koda serve --stop)")
        raise Left(Exit.REFUSED if not background else Exit.DONE)
    settings = {"KODA_HOST": host, "KODA_PORT": port, "KODA_PREVIEW_PORT": preview_port}
    os.environ.update({name: str(value) for name, value in settings.items() if value is not None})
    if background:
        own = server.OwnServer(runfile.runfile_path().parent / "server.log", keep=True)
        typer.echo(f"{own.start()} (process {own.pid}; end it with: koda serve --stop)")
        return
    os.execv(sys.executable, [sys.executable, "-P", "-m", "koda_ray.serve"])


@app.command("open")
def open_page(server: Server = None) -> None:
    """Open koda in the browser. Starts a server where none runs; it stays."""
    import webbrowser

    from koda_ray.console.server import OwnServer, running_url
    from koda_ray.serve import runfile

    url = running_url(server) or OwnServer(runfile.runfile_path().parent / "server.log", keep=True).start()
    typer.echo(url)
    webbrowser.open(url)


@app.command()
def doctor(
    json: Json = False,
    measure: Annotated[bool, typer.Option("--measure", help="also measure what draws WebGL here; takes 20 s")] = False,
) -> None:
    """Say whether the main job could run here, and how to get what is missing."""
    from koda_ray import doctor as checks
    from koda_ray.logs import warnings_to_stderr

    warnings_to_stderr()
    if checks.run(json=json, measure=measure) != 0:
        raise Left(Exit.FAILED)
