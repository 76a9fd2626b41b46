"""Commands on pages: render one here and now, and list what a server renders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from koda_ray.cli.options import (
    Json,
    Plain,
    Server,
    render_options,
    tell,
)

__all__ = ["app"]

app = typer.Typer()


@app.command()
def render(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PATH|ID",
            help="A folder with an index.html, a zip, a built Vite project, an .html file; or a session's id.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The video: .mp4 .webm .mov .gif .zip; a batch: card-{name}.mp4."
        ),
    ] = None,
    fps: Annotated[str | None, typer.Option(metavar="N", help="Frames a second: 30, 29.97, 30000/1001.")] = None,
    size: Annotated[str | None, typer.Option(metavar="WxH", help="The page's viewport, such as 1920x1080.")] = None,
    scale: Annotated[float | None, typer.Option(metavar="N", help="Pixels per CSS pixel: 2 makes 4K of 1080p.")] = None,
    duration: Annotated[float | None, typer.Option(metavar="SECONDS", help="Else what the page says.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="preview, final, 720p, 1080p, 4k, youtube, youtube-shorts, instagram-reels, tiktok, twitter or x.",
        ),
    ] = None,
    format: Annotated[
        str | None, typer.Option(metavar="KIND", help="mp4, webm, mov, gif or png (a zip of pictures).")
    ] = None,
    crf: Annotated[
        int | None, typer.Option(metavar="N", help="Quality, 0 (lossless) to 51; 18 where not given.")
    ] = None,
    bitrate: Annotated[str | None, typer.Option(metavar="RATE", help="Instead of --crf: 8M, 800k.")] = None,
    effort: Annotated[
        str, typer.Option(metavar="KIND", help="fast; small for a smaller file, draft for less time.")
    ] = "fast",
    alpha: Annotated[bool, typer.Option("--alpha", help="Keep what is transparent (webm, mov, gif, png).")] = False,
    audio: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE[@START]", help="Sound; also ,volume=0.5,fade-in=1,fade-out=2,trim=3,length=5. Repeatable."
        ),
    ] = None,
    props: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Data for the page (window.__kodaProps); a list, .csv or .jsonl makes a video per row."
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Browsers at once; else 4 for 3 processors.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the page's random numbers.")] = 1,
    entry: Annotated[str | None, typer.Option(metavar="FILE", help="The page, where it is not index.html.")] = None,
    trim: Annotated[bool, typer.Option("--trim", help="Cut what is longer than the preset's platform takes.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Render a sample a second time and compare.")] = False,
    lenient: Annotated[bool, typer.Option("--lenient", help="Go on where the page throws.")] = False,
    report: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Save the report, the contact sheet and a still picture too.")
    ] = None,
    resolution: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of a session: 720p, 1080p or 4k.", show_default=False)
    ] = None,
    plain: Plain = False,
    json: Json = False,
    server: Server = None,
) -> None:
    """Render a page to a video, here and now, without a server; or a session's video again.

    Ctrl-C ends everything; what is finished is kept in KODA_DATA_DIR, and the same command goes on where it was.
    """
    given = {
        "--out": out,
        "--size": size,
        "--scale": scale,
        "--duration": duration,
        "--preset": preset,
        "--crf": crf,
        "--bitrate": bitrate,
        "--audio": audio,
        "--props": props,
        "--workers": workers,
        "--entry": entry,
        "--report": report,
    }
    if what.startswith("ses_") and not Path(what).exists():
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            raise typer.BadParameter("is for pages; a session takes --resolution, --fps and --format", param_hint=wrong)
        if fps is not None and fps not in ("30", "60"):
            raise typer.BadParameter(f"{fps} is neither 30 nor 60", param_hint="--fps")
        options = render_options(resolution or "1080p", int(fps or 60), format or "mp4")
        tell(what, server, lambda client: client.render(what, options))
        return
    for name, value in (("--resolution", resolution), ("--server", server)):
        if value is not None:
            raise typer.BadParameter(
                f"is for sessions, and {what!r} is a page: use --preset or --size", param_hint=name
            )
    from koda_ray.console import pages

    wishes = {
        "fps": fps,
        "size": pages.read_size(size),
        "scale": scale,
        "duration": duration,
        "preset": preset,
        "format": pages.read_format(format),
        "crf": crf,
        "bitrate_kbps": pages.read_bitrate(bitrate),
        "effort": pages.read_effort(effort),
        "alpha": alpha,
        "audio": audio,
        "seed": seed,
        "entry": entry,
        "trim": trim,
        "verify": verify,
        "lenient": lenient,
        "report": report,
    }
    pages.render_page(Path(what), out, wishes, props=props, workers=workers, plain=plain, json=json)


@app.command("renders")
def list_renders(
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="PLACE", help="The page after this place.")] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="queued, running, succeeded, failed or cancelled; repeatable."),
    ] = None,
    json: Json = False,
    server: Server = None,
) -> None:
    """List the pages that a server renders or has rendered, newest first. Works without a server too."""
    from koda_ray.console import renders
    from koda_ray.wire import RenderStatus

    for name in status or ():
        if name not in get_args(RenderStatus):
            raise typer.BadParameter(f"{name!r} is none of {', '.join(get_args(RenderStatus))}", param_hint="--status")
    wanted = cast("list[RenderStatus]", status or [])
    renders.list_renders(limit=limit, before=before, status=wanted, json=json, server=server)
