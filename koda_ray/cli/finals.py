"""Commands on a session's final videos: rendered, listed and saved. One of them is deleted as every render is."""

from __future__ import annotations

from typing import Annotated

import typer

from koda_ray.cli.options import Json, Out, Server, Session, VideoOptions, render_options, run, tell
from koda_ray.cli.shapes import spread

__all__ = ["app"]

app = typer.Typer()


@app.command()
@spread
def final(session: Session, video: VideoOptions, server: Server = None) -> None:
    """Render a session's video: its preview, or once more in another size, frame rate or format."""
    options = render_options(video)
    tell(session, server, lambda client: client.render(session, options))


@app.command()
def finals(session: Session, json: Json = False, server: Server = None) -> None:
    """List what a session was rendered to, newest first: koda save and koda delete take each of them."""
    from rich.console import Console

    from koda_ray.client import KodaClient
    from koda_ray.console.finals import all_finals, print_finals
    from koda_ray.console.job import require_server
    from koda_ray.wire import RenderList

    async def work() -> RenderList:
        async with KodaClient(require_server(server)) as client:
            return await all_finals(client, session)

    found = run(work())
    if json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_finals(Console(highlight=False), session, found)


@app.command()
def save(
    session: Session,
    chosen: Annotated[
        str | None,
        typer.Option("--final", metavar="WHICH", help="Another final video than the last, by number or job."),
    ] = None,
    out: Out = None,
    server: Server = None,
) -> None:
    """Save the video that a session has made, or its preview, without going on. Starts a server where none runs.

    With --final (see: koda finals) it is another of its videos, with the source that it was made of.
    """
    from koda_ray.console import job

    job.fetch(session, job.Faces.of(yes=False), job.JobTarget(server, out), final=chosen)
