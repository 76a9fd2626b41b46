"""Commands on sessions: from a prompt to a video, and everything that can be said to one on the way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from koda_ray.cli.options import (
    Aspect,
    Assets,
    Container,
    Duration,
    Fps,
    Json,
    Out,
    Plain,
    Prompt,
    Server,
    Session,
    Size,
    Style,
    Work,
    Yes,
    checked,
    render_options,
    run,
    tell,
)
from koda_ray.console.exits import Exit, Left

if TYPE_CHECKING:
    from koda_ray.client import KodaClient
    from koda_ray.console.job import NewJob
    from koda_ray.wire import CommandAccepted

__all__ = ["app"]

DEMO_PROMPT = "Create a bouncing ball animation, playful"
DEMO_OUT = Path("out/bouncing-ball")
app = typer.Typer()


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
        typer.echo(run(_new(url, wanted)))


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

    tell(session, server, send)


@app.command()
def accept(session: Session, server: Server = None) -> None:
    """Accept a session's plan or preview."""
    tell(session, server, lambda client: client.accept(session))


@app.command()
def reject(
    session: Session,
    feedback: Annotated[str | None, typer.Argument(help="Why.", show_default=False)] = None,
    server: Server = None,
) -> None:
    """Reject a session's plan or preview."""
    tell(session, server, lambda client: client.reject(session, feedback=feedback))


@app.command()
def say(session: Session, text: Annotated[str, typer.Argument(help="What to say.")], server: Server = None) -> None:
    """Say something to a session: what should be different, or what it should know."""
    tell(session, server, lambda client: client.say(session, text))


@app.command()
def cancel(session: Work, server: Server = None) -> None:
    """Stop what a session is doing, or a render."""
    if session.startswith("job_"):
        from koda_ray.client import KodaClient
        from koda_ray.console.job import require_server

        async def work() -> None:
            async with KodaClient(require_server(server)) as client:
                typer.echo((await client.cancel_page_render(session)).status)

        run(work())
        return
    tell(session, server, lambda client: client.cancel(session))


@app.command()
def retry(session: Session, server: Server = None) -> None:
    """Try again what failed."""
    tell(session, server, lambda client: client.retry(session))


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

        page = run(read_sessions(limit=limit, before=before))
    else:
        page = run(read(url))
    if json:
        typer.echo(page.model_dump_json(indent=2))
    else:
        print_sessions(Console(highlight=False), page)


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

        found, files, jobs = run(read_session(session)), None, None
    else:
        found, files, jobs = run(read(url))
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

    run(work())
    typer.echo(f"deleted {session}")


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
    options = checked(SessionOptions, {name: value for name, value in given.items() if value is not None})
    wishes = resolution is not None or container is not None or fps is not None
    render = render_options(resolution or "1080p", fps or 60, container or "mp4") if wishes else None
    for path in assets or []:
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {str(path)!r}", param_hint="--asset")
    return NewJob(text, style, options, render, tuple(assets or ()))


async def _new(url: str, job: NewJob) -> str:
    from koda_ray.client import KodaClient

    async with KodaClient(url) as client:
        ids = tuple([(await client.upload(path)).id for path in job.assets])
        made = await client.create(job.prompt, style=job.style, options=job.options, render=job.render, asset_ids=ids)
        return made.session_id
