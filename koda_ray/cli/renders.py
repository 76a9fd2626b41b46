"""Commands on pages: render one here and now, and list what a server renders."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from koda_ray.cli.options import FaceOptions, Json, Server
from koda_ray.cli.page_options import EncodingOptions, InputOptions, PictureOptions, WorkOptions
from koda_ray.cli.shapes import OfPages, spread

if TYPE_CHECKING:
    from koda_ray.render.api import Options

__all__ = ["app"]

app = typer.Typer()


@app.command(cls=OfPages)
@spread
def render(
    page: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A folder with an index.html, a zip, a built Vite project, or an .html file.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The video: .mp4 .webm .mov .gif .zip; a batch: card-{name}.mp4."
        ),
    ] = None,
    picture: PictureOptions,
    encoding: EncodingOptions,
    given: InputOptions,
    work: WorkOptions,
    shown: FaceOptions,
) -> None:
    """Render a page to a video, here and now, without a server.

    Ctrl-C ends everything; what is finished is kept in KODA_DATA_DIR, and the same command goes on where it was.
    """
    from koda_ray.console import values
    from koda_ray.console.page_job import Face, PageJob, render_page
    from koda_ray.logs import warnings_to_stderr

    warnings_to_stderr()
    named = {
        **asdict(picture),
        "size": values.read_size(picture.size),
        "format": values.read_format(encoding.format),
        "crf": encoding.crf,
        "bitrate_kbps": values.read_bitrate(encoding.bitrate),
        "effort": values.read_effort(encoding.effort),
        "audio": encoding.audio,
        "seed": given.seed,
        "entry": given.entry,
        "lenient": given.lenient,
        "verify": work.verify,
        "report": work.report,
    }
    options = cast("Options", {name: value for name, value in named.items() if value is not None})
    job = PageJob(Path(page), options, workers=work.workers)
    render_page(job, out, props=given.props, face=Face(plain=shown.plain, json=shown.json))


@app.command("renders")
def list_renders(
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="PLACE", help="The page after this place.")] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="queued, running, succeeded, failed or cancelled; repeatable."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Only those with all these words in their page's file, row and data."),
    ] = None,
    json: Json = False,
    server: Server = None,
) -> None:
    """List the pages that a server renders or has rendered, newest first. Works without a server too."""
    from koda_ray.console import render_list
    from koda_ray.wire import RenderStatus

    for name in status or ():
        if name not in get_args(RenderStatus):
            raise typer.BadParameter(f"{name!r} is none of {', '.join(get_args(RenderStatus))}", param_hint="--status")
    wanted = cast("list[RenderStatus]", status or [])
    render_list.list_renders(limit=limit, before=before, status=wanted, text=text, json=json, server=server)
