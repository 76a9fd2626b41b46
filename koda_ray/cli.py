"""The command line, ``koda``: everything the API does, and the whole job in one command.

Commands import what they need when they run: ``koda --help`` must not pay for a server, a database or Ray. What they
print and how they end is in `koda_ray.console`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast, get_args

import typer

from koda_ray.console import keys
from koda_ray.console.exits import EXITS, Exit, Left, reported

if TYPE_CHECKING:
    from koda_ray.client import KodaClient
    from koda_ray.console.job import NewJob
    from koda_ray.types import NodeState, RenderOptions
    from koda_ray.wire import CommandAccepted

__all__ = ["app", "main"]

DEMO_PROMPT = "Create a bouncing ball animation, playful"
DEMO_OUT = Path("out/bouncing-ball")
Resolution = Literal["720p", "1080p", "4k"]
Format = Literal["mp4", "webm"]
T = TypeVar("T")

app = typer.Typer(
    name="koda",
    help="A sentence becomes a finished animation.",
    epilog=EXITS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(keys.app, name="keys")

Prompt = Annotated[str, typer.Argument(help="What to make; - reads it from stdin.", show_default=False)]
Session = Annotated[str, typer.Argument(metavar="ID", help="A session's id (see: koda list).", show_default=False)]
Work = Annotated[str, typer.Argument(metavar="ID", help="A session's or a render's id (see: koda list, koda renders).")]
Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="The server to use; else KODA_SERVER, else the one that runs here."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Accept everything: first option, plan, preview.")]
Plain = Annotated[bool, typer.Option("--plain", help="One line for each event, also on a terminal.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FOLDER", help="Where to save it; else out/ and the prompt's first words."),
]
Style = Annotated[str | None, typer.Option(metavar="TEXT", help="The style, so that it need not be asked.")]
Duration = Annotated[float | None, typer.Option(metavar="SECONDS", help="How long the video should be.")]
Aspect = Annotated[str | None, typer.Option(metavar="W:H", help="Shape of the picture: 16:9, 9:16, 1:1 or 4:5.")]
Fps = Annotated[int | None, typer.Option(metavar="N", help="Frames a second: 30 or 60.")]
Size = Annotated[str | None, typer.Option("--resolution", metavar="SIZE", help="720p, 1080p or 4k.")]
Container = Annotated[str | None, typer.Option("--format", metavar="KIND", help="mp4 or webm.")]
Assets = Annotated[list[Path] | None, typer.Option("--asset", metavar="FILE", help="A picture or sound; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def create(
    prompt: Prompt,
    yes: Yes = False,
    out: Out = None,
    style: Style = None,
    duration: Duration = None,
    aspect: Aspect = None,
    fps: Fps = None,
    resolution: Size = None,
    format: Container = None,
    asset: Assets = None,
    plain: Plain = False,
    server: Server = None,
) -> None:
    """Make a video: the whole job, from the prompt to the saved files.

    Starts a server where none runs, and ends it with everything under it. With a running server, Ctrl-C only leaves.
    """
    from koda_ray.console import job

    wanted = _job(prompt, style, duration, aspect, fps, resolution, format, asset)
    job.create(wanted, job.Faces.of(yes=yes, plain=plain), server=server, out=out)


@app.command()
def demo(
    prompt: Annotated[str, typer.Argument(help="What to make.")] = DEMO_PROMPT,
    out: Out = None,
    style: Style = None,
    duration: Duration = None,
    aspect: Aspect = None,
    fps: Fps = None,
    resolution: Size = None,
    format: Container = None,
    plain: Plain = False,
    server: Server = None,
) -> None:
    """Make a bouncing ball (or what you say), accepting everything."""
    from koda_ray.console import job

    wanted = _job(prompt, style, duration, aspect, fps, resolution, format, None)
    folder = out or (DEMO_OUT if prompt == DEMO_PROMPT else None)
    job.create(wanted, job.Faces.of(yes=True, plain=plain), server=server, out=folder)


@app.command()
def new(
    prompt: Prompt,
    style: Style = None,
    duration: Duration = None,
    aspect: Aspect = None,
    fps: Fps = None,
    resolution: Size = None,
    format: Container = None,
    asset: Assets = None,
    server: Server = None,
) -> None:
    """Make a session and print its id; the job goes on without you.

    Starts a server that stays where none runs (end it with: koda serve --stop).
    """
    from koda_ray.console import job

    wanted = _job(prompt, style, duration, aspect, fps, resolution, format, asset)
    with job.with_server(job.Faces.of(yes=False, plain=not sys.stdout.isatty()), server, keep=True) as (url, _):
        typer.echo(_run(_new(url, wanted)))


@app.command()
def watch(
    session: Session,
    yes: Yes = False,
    look: Annotated[bool, typer.Option("--look", help="Only look: ask nothing; save only to --out.")] = False,
    out: Out = None,
    plain: Plain = False,
    server: Server = None,
) -> None:
    """Follow a session, answer what it asks, and save what it made. Ctrl-C leaves; the job goes on."""
    from koda_ray.console import job

    faces = job.Faces.of(yes=yes, plain=plain, look=look)
    job.take_up(session, faces, server=server, out=out, may_start=False, saves=not look)


@app.command()
def resume(
    session: Session,
    words: Annotated[str | None, typer.Argument(help="Something to say to it first.", show_default=False)] = None,
    yes: Yes = False,
    out: Out = None,
    plain: Plain = False,
    server: Server = None,
) -> None:
    """Go on with a session, trying again what failed, and save what it made. Starts a server where none runs."""
    from koda_ray.console import job

    faces = job.Faces.of(yes=yes, plain=plain)
    job.take_up(session, faces, server=server, out=out, words=words, retry=True)


@app.command()
def answer(
    session: Session,
    text: Annotated[str, typer.Argument(help="An option's id, or your own words.")],
    server: Server = None,
) -> None:
    """Answer a session's question."""

    async def send(client: KodaClient) -> CommandAccepted:
        question = (await client.session(session)).state.question
        known = {option.id for option in question.options} if question else set[str]()
        if text in known:
            return await client.answer(session, option_id=text)
        return await client.answer(session, text=text)

    _tell(session, server, send)


@app.command()
def accept(session: Session, server: Server = None) -> None:
    """Accept a session's plan or preview."""
    _tell(session, server, lambda client: client.accept(session))


@app.command()
def reject(
    session: Session,
    feedback: Annotated[str | None, typer.Argument(help="Why.", show_default=False)] = None,
    server: Server = None,
) -> None:
    """Reject a session's plan or preview."""
    _tell(session, server, lambda client: client.reject(session, feedback=feedback))


@app.command()
def say(session: Session, text: Annotated[str, typer.Argument(help="What to say.")], server: Server = None) -> None:
    """Say something to a session: what should be different, or what it should know."""
    _tell(session, server, lambda client: client.say(session, text))


@app.command()
def cancel(session: Work, server: Server = None) -> None:
    """Stop what a session is doing, or a render."""
    if session.startswith("job_"):
        from koda_ray.client import KodaClient
        from koda_ray.console.job import require_server

        async def work() -> None:
            async with KodaClient(require_server(server)) as client:
                typer.echo((await client.cancel_page_render(session)).status)

        _run(work())
        return
    _tell(session, server, lambda client: client.cancel(session))


@app.command()
def retry(session: Session, server: Server = None) -> None:
    """Try again what failed."""
    _tell(session, server, lambda client: client.retry(session))


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
    effort: Annotated[str, typer.Option(metavar="KIND", help="fast, or small for a smaller file.")] = "fast",
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
    workers: Annotated[int | None, typer.Option(metavar="N", help="Browsers at once; else the processors.")] = None,
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
        options = _render_options(resolution or "1080p", int(fps or 60), format or "mp4")
        _tell(what, server, lambda client: client.render(what, options))
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


@app.command()
def save(session: Session, out: Out = None, server: Server = None) -> None:
    """Save the video that a session has made, or its preview, without going on. Starts a server where none runs."""
    from koda_ray.console import job

    job.fetch(session, job.Faces.of(yes=False), server=server, out=out)


@app.command("list")
def list_sessions(
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="ID", help="The page after this session.")] = None,
    json: Json = False,
    server: Server = None,
) -> None:
    """List sessions, newest first. Works without a server too."""
    from rich.console import Console

    from koda_ray.client import KodaClient
    from koda_ray.console.server import running_url
    from koda_ray.console.summary import print_sessions

    async def read(url: str) -> Any:
        async with KodaClient(url) as client:
            return await client.sessions(limit=limit, before=before)

    url = running_url(server)
    if url is None:
        from koda_ray.console.offline import read_sessions

        page = _run(read_sessions(limit=limit, before=before))
    else:
        page = _run(read(url))
    if json:
        typer.echo(page.model_dump_json(indent=2))
    else:
        print_sessions(Console(highlight=False), page)


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


@app.command()
def show(session: Session, json: Json = False, server: Server = None) -> None:
    """Show a session: where it is, what was decided, what was made. Works without a server too."""
    from rich.console import Console

    from koda_ray.client import KodaClient
    from koda_ray.console.server import running_url
    from koda_ray.console.summary import print_session

    async def read(url: str) -> Any:
        async with KodaClient(url) as client:
            return await client.session(session), await client.files(session), await client.jobs(session)

    url = running_url(server)
    if url is None:
        from koda_ray.console.offline import read_session

        found, files, jobs = _run(read_session(session)), None, None
    else:
        found, files, jobs = _run(read(url))
    if json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_session(Console(highlight=False), found, files, jobs)


@app.command()
def delete(
    session: Work,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    server: Server = None,
) -> None:
    """Delete a session or a render with everything in it."""
    if not yes and sys.stdin.isatty() and not typer.confirm(f"Delete {session} with its files and videos?"):
        raise Left(Exit.INTERRUPTED)
    from koda_ray.client import KodaClient
    from koda_ray.console.job import require_server

    async def work() -> None:
        async with KodaClient(require_server(server)) as client:
            await (client.delete_page_render if session.startswith("job_") else client.delete)(session)

    _run(work())
    typer.echo(f"deleted {session}")


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


@app.command()
def doctor(json: Json = False) -> None:
    """Say whether the main job could run here, and how to get what is missing."""
    from koda_ray.doctor import run

    if run(json=json) != 0:
        raise Left(Exit.FAILED)


def main() -> None:
    """Run the command line."""
    with reported():
        app(prog_name="koda")


def _job(
    prompt: str,
    style: str | None,
    duration: float | None,
    aspect: str | None,
    fps: int | None,
    resolution: str | None,
    container: str | None,
    assets: list[Path] | None,
) -> NewJob:
    from koda_ray.console.job import NewJob
    from koda_ray.types import SessionOptions

    text = sys.stdin.read() if prompt == "-" else prompt
    given = {"duration": duration, "aspect": aspect, "fps": fps}
    options = _checked(SessionOptions, {name: value for name, value in given.items() if value is not None})
    wishes = resolution is not None or container is not None or fps is not None
    render = _render_options(resolution or "1080p", fps or 60, container or "mp4") if wishes else None
    for path in assets or []:
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {str(path)!r}", param_hint="--asset")
    return NewJob(text, style, options, render, tuple(assets or ()))


def _render_options(resolution: str, fps: int, container: str) -> RenderOptions:
    from koda_ray.types import RenderOptions

    for name, value, allowed in (("--resolution", resolution, Resolution), ("--format", container, Format)):
        if value not in get_args(allowed):
            raise typer.BadParameter(f"{value!r} is none of {', '.join(get_args(allowed))}", param_hint=name)
    if fps not in (30, 60):
        raise typer.BadParameter(f"{fps} is neither 30 nor 60", param_hint="--fps")
    return _checked(RenderOptions, {"resolution": resolution, "fps": fps, "format": container})


def _checked(model: type[T], values: dict[str, Any]) -> T:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(model).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(
            f"{first['input']!r}: {first['msg']}", param_hint=f"--{str(first['loc'][0]).replace('_', '-')}"
        ) from None


async def _new(url: str, job: NewJob) -> str:
    from koda_ray.client import KodaClient

    async with KodaClient(url) as client:
        ids = tuple([(await client.upload(path)).id for path in job.assets])
        made = await client.create(job.prompt, style=job.style, options=job.options, render=job.render, asset_ids=ids)
        return made.session_id


def _tell(session: str, server: str | None, send: Callable[[KodaClient], Awaitable[CommandAccepted]]) -> None:
    """Send one command to the server that runs, and say what comes of it and how to get it."""
    from koda_ray.client import KodaClient
    from koda_ray.console.job import require_server
    from koda_ray.console.plain import phase_words
    from koda_ray.console.summary import one_command

    async def work() -> NodeState:
        async with KodaClient(require_server(server)) as client:
            await send(client)
            return (await client.session(session)).state

    state = _run(work())
    typer.echo(phase_words(state))
    if (way := one_command(session, state)) is not None:
        typer.echo(f"go on with: {way}")
    else:
        typer.echo(f"follow it and get the files with: koda watch {session}")


def _run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(work)


if __name__ == "__main__":
    main()
