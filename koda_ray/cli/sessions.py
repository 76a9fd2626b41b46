"""Commands on sessions: from a prompt to a video, and everything that can be said to one on the way."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from koda_ray.cli.options import (
    Assets,
    FilmOptions,
    Json,
    Mode,
    Out,
    Plain,
    Point,
    Prompt,
    Server,
    Session,
    VideoOptions,
    Work,
    Yes,
    checked,
    permissions,
    render_options,
    run,
    tell,
)
from koda_ray.cli.shapes import Spoken, spread
from koda_ray.console.exits import Exit, Left
from koda_ray.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

    from koda_ray.client import KodaClient
    from koda_ray.console.job import NewJob
    from koda_ray.wire import ApprovalPage, CommandAccepted, HistoryView, VersionPage

__all__ = ["app"]

P = TypeVar("P", bound="BaseModel")
DEMO_PROMPT = "Create a bouncing ball animation, playful"
DEMO_OUT = Path("out/bouncing-ball")
app = typer.Typer()


@app.command(cls=Spoken)
@spread
def create(
    prompt: Prompt,
    *,
    yes: Yes = False,
    out: Out = None,
    film: FilmOptions,
    video: VideoOptions,
    asset: Assets = None,
    mode: Mode = None,
    plain: Plain = False,
    server: Server = None,
) -> None:
    """Make a video: the whole job, from the prompt to the saved files.

    Starts a server where none runs, and ends it with everything under it. With a running server, Ctrl-C only leaves.
    """
    from koda_ray.console import job

    wanted = _job(prompt, film, video, asset, mode)
    job.create(wanted, job.Faces.of(yes=yes, plain=plain), job.JobTarget(server, out))


@app.command(cls=Spoken)
@spread
def demo(
    prompt: Annotated[str, typer.Argument(help="What to make.")] = DEMO_PROMPT,
    *,
    out: Out = None,
    film: FilmOptions,
    video: VideoOptions,
    plain: Plain = False,
    server: Server = None,
) -> None:
    """Make a bouncing ball (or what you say), accepting everything."""
    from koda_ray.console import job

    wanted = _job(prompt, film, video)
    folder = out or (DEMO_OUT if prompt == DEMO_PROMPT else None)
    job.create(wanted, job.Faces.of(yes=True, plain=plain), job.JobTarget(server, folder))
    typer.echo("  In the browser, with all that you have made: koda open")


@app.command(cls=Spoken)
@spread
def new(
    prompt: Prompt,
    *,
    film: FilmOptions,
    video: VideoOptions,
    asset: Assets = None,
    mode: Mode = None,
    server: Server = None,
) -> None:
    """Make a session and print its id; the job goes on without you.

    Starts a server that stays where none runs (end it with: koda serve --stop).
    """
    from koda_ray.console import job

    wanted = _job(prompt, film, video, asset, mode)
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
    job.take_up(session, faces, job.JobTarget(server, out, may_start=False, saves=not look))


@app.command(cls=Spoken)
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
    job.take_up(session, faces, job.JobTarget(server, out), words=words, retry=True)


@app.command(cls=Spoken)
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
def accept(
    session: Session,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="What the tool call runs with, in place of what was proposed.")
    ] = None,
    server: Server = None,
) -> None:
    """Accept what a session waits with: its plan, its preview, or a tool call."""
    changed = _arguments(arguments)

    async def send(client: KodaClient) -> CommandAccepted:
        waits = (await client.session(session)).state.approval
        if waits is not None:
            return await client.approve(session, waits.approval_id, arguments=changed)
        if changed is not None:
            raise InvalidInput("--arguments are for a tool call, and none waits", code="INVALID_TRANSITION")
        return await client.accept(session)

    tell(session, server, send)


@app.command(cls=Spoken)
def reject(
    session: Session,
    feedback: Annotated[str | None, typer.Argument(help="Why.", show_default=False)] = None,
    server: Server = None,
) -> None:
    """Reject what a session waits with: its plan, its preview, or a tool call."""

    async def send(client: KodaClient) -> CommandAccepted:
        waits = (await client.session(session)).state.approval
        if waits is not None:
            return await client.refuse(session, waits.approval_id, reason=feedback)
        return await client.reject(session, feedback=feedback)

    tell(session, server, send)


@app.command()
def approvals(
    session: Session,
    pending: Annotated[bool, typer.Option("--pending", help="Only what still waits.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many, at most.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="PLACE", help="The page after this place.")] = None,
    json: Json = False,
    server: Server = None,
) -> None:
    """Show what a session asked of a person, newest first: tool calls with what they would change, plans, previews."""
    from koda_ray.console.summary import print_approvals

    def read(client: KodaClient) -> Awaitable[ApprovalPage]:
        return client.approvals(session, pending=pending, limit=limit, before=before)

    _show(session, server, read, print_approvals, json=json)


@app.command("permissions")
def set_permissions(
    session: Session,
    mode: Mode = None,
    rules: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='Rules as JSON, or @FILE: [{"decision": "deny", "path": "src/koda/*"}].'),
    ] = None,
    server: Server = None,
) -> None:
    """Say what a session's agents may do by themselves from now on; what is left out stays as it is."""
    wanted = permissions(mode, rules)

    async def send(client: KodaClient) -> CommandAccepted:
        now = (await client.session(session)).state.permissions
        kept = {
            "mode": now.mode if mode is None else wanted.mode,
            "rules": now.rules if rules is None else wanted.rules,
        }
        return await client.permissions(session, wanted.model_copy(update=kept))

    tell(session, server, send)


@app.command(cls=Spoken)
def say(
    session: Session,
    text: Annotated[str, typer.Argument(help="What to say.")],
    json: Json = False,
    server: Server = None,
) -> None:
    """Say something to a session: what should be different, or what it should know."""
    tell(session, server, lambda client: client.say(session, text), json=json)


@app.command()
def unsay(
    session: Session,
    message: Annotated[str | None, typer.Argument(help="Which (its command's id); else the last.")] = None,
    server: Server = None,
) -> None:
    """Take back what was said last to agents at work, while they have not begun to heed it."""

    async def send(client: KodaClient) -> CommandAccepted:
        if message is not None:
            return await client.take_back(session, message)
        unread = (await client.session(session)).state.unread
        if not unread:
            raise Conflict(
                f"nothing waits to be heeded; stop the work with: koda cancel {session}, "
                "or give the command's id, as koda say --json shows it"
            )
        return await client.take_back(session, unread[-1].id)

    tell(session, server, send)


@app.command()
def cancel(session: Work, server: Server = None) -> None:
    """Stop what a session is doing, a render, or what a batch has not rendered yet."""
    if session.startswith(("job_", "bat_")):
        from koda_ray.client import KodaClient
        from koda_ray.console.job import require_server

        async def work() -> None:
            async with KodaClient(require_server(server)) as client:
                if session.startswith("job_"):
                    typer.echo((await client.cancel_page_render(session)).status)
                else:
                    batch = await client.cancel_batch(session)
                    typer.echo(f"{batch.cancelled} cancelled, {batch.succeeded} succeeded, {batch.failed} failed")

        run(work())
        return
    tell(session, server, lambda client: client.cancel(session))


@app.command()
def retry(session: Session, server: Server = None) -> None:
    """Try again what failed."""
    tell(session, server, lambda client: client.retry(session))


@app.command()
def history(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="PLACE", help="The page after this place.")] = None,
    json: Json = False,
    server: Server = None,
) -> None:
    """List where a session can go back to (koda rewind), or another begin (koda fork), newest first."""
    from koda_ray.console.summary import print_history

    def read(client: KodaClient) -> Awaitable[HistoryView]:
        return client.history(session, limit=limit, before=before)

    _show(session, server, read, print_history, json=json)


@app.command()
def versions(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 50,
    before: Annotated[int | None, typer.Option(min=0, metavar="NUMBER", help="Those before this one.")] = None,
    json: Json = False,
    server: Server = None,
) -> None:
    """List the previews that a session has shown, newest first: koda rewind and koda fork go to each of them."""
    from koda_ray.console.summary import print_versions

    def read(client: KodaClient) -> Awaitable[VersionPage]:
        return client.versions(session, limit=limit, before=before)

    _show(session, server, read, print_versions, json=json)


@app.command()
def events(
    session: Work,
    after: Annotated[int, typer.Option(min=0, help="Only events with a greater number.")] = 0,
    channel: Annotated[
        list[str] | None, typer.Option(help="Only progress, control or monitor; repeatable.", show_default=False)
    ] = None,
    server: Server = None,
) -> None:
    """Print what happened and happens, one JSON object a line, to a session (until it is deleted) or a render."""
    from koda_ray.client import KodaClient
    from koda_ray.console.job import require_server
    from koda_ray.events import channels_named

    wanted = channels_named(channel or None)

    async def work() -> None:
        async with KodaClient(require_server(server)) as client:
            follows = client.follow_page_render if session.startswith("job_") else client.follow
            async with aclosing(follows(session, after=after, channels=wanted)) as told:
                async for event in told:
                    typer.echo(event.model_dump_json())

    run(work())


@app.command()
def rewind(
    session: Session,
    point: Point = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo that it was put back.")] = False,
    server: Server = None,
) -> None:
    """Put a session back to an earlier point: messages, files, plan, todos and video. Stops what is under way."""
    if undo == (point is not None):
        raise typer.BadParameter("say where to (see: koda history), or --undo", param_hint="POINT")
    tell(session, server, lambda client: client.rewind(session, point, undo=undo))


@app.command()
def fork(session: Session, point: Point = None, server: Server = None) -> None:
    """Make another session at a point of this one, else where it is now, and print its id."""
    from koda_ray.client import KodaClient
    from koda_ray.console.job import require_server

    async def work() -> str:
        async with KodaClient(require_server(server)) as client:
            return (await client.fork(session, at=point)).session_id

    typer.echo(run(work()))


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
        from koda_ray.console.database import read_sessions

        page = run(read_sessions(limit=limit, before=before))
    else:
        page = run(read(url))
    if json:
        typer.echo(page.model_dump_json(indent=2))
    else:
        print_sessions(Console(highlight=False), page)


@app.command()
def label(
    session: Session,
    title: Annotated[str | None, typer.Option(help="What it is called in lists; empty for its prompt again.")] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--unpin", help="Keep it, and show it before the others.", show_default=False)
    ] = None,
    server: Server = None,
) -> None:
    """Give a session a title, or pin it."""
    from koda_ray.client import KodaClient
    from koda_ray.console.job import require_server

    if title is None and pin is None:
        raise typer.BadParameter("say --title TITLE, --pin or --unpin")

    async def work() -> None:
        async with KodaClient(require_server(server)) as client:
            await client.label(session, title=title, pinned=pin)

    run(work())


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
        from koda_ray.console.database import read_session

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
    undo_s: Annotated[
        int,
        typer.Option("--undo", min=0, max=3600, metavar="SECONDS", help="Keep a session so long for: koda restore."),
    ] = 0,
    server: Server = None,
) -> None:
    """Delete a session, or a render: a page's, or one final video of a session (see: koda finals)."""
    if undo_s and session.startswith("job_"):
        raise typer.BadParameter("a render is deleted at once", param_hint="--undo")
    if not yes and sys.stdin.isatty() and not typer.confirm(f"Delete {session} with its files and videos?"):
        raise Left(Exit.INTERRUPTED)
    from koda_ray.client import KodaClient
    from koda_ray.console.finals import delete_job
    from koda_ray.console.job import require_server

    async def work() -> None:
        async with KodaClient(require_server(server)) as client:
            if session.startswith("job_"):
                await delete_job(client, session)
            else:
                await client.delete(session, undo_s=undo_s)

    run(work())
    typer.echo(f"deleted {session}" + (f"; within {undo_s} s: koda restore {session}" if undo_s else ""))


@app.command()
def restore(session: Session, server: Server = None) -> None:
    """Have a session back that was deleted in the browser, or with --undo, a short time ago."""
    from koda_ray.client import KodaClient
    from koda_ray.console.job import require_server

    async def work() -> None:
        async with KodaClient(require_server(server)) as client:
            await client.restore(session)

    run(work())


def _show(
    session: str,
    server: str | None,
    read: Callable[[KodaClient], Awaitable[P]],
    show: Callable[[Console, str, P], None],
    *,
    json: bool,
) -> None:
    """Read a page of a session's from the server that runs, and print it: for a person, or as JSON."""
    from rich.console import Console

    from koda_ray.client import KodaClient
    from koda_ray.console.job import require_server

    async def work() -> P:
        async with KodaClient(require_server(server)) as client:
            return await read(client)

    page = run(work())
    if json:
        typer.echo(page.model_dump_json(indent=2))
    else:
        show(Console(highlight=False), session, page)


def _arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    import json

    try:
        read: object = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no JSON: {error}", param_hint="--arguments") from None
    if not isinstance(read, dict):
        raise typer.BadParameter(f"{text!r} is no JSON object", param_hint="--arguments")
    return cast("dict[str, Any]", read)


def _job(
    prompt: str,
    film: FilmOptions,
    video: VideoOptions,
    assets: list[Path] | None = None,
    mode: str | None = None,
) -> NewJob:
    from koda_ray.console.job import NewJob
    from koda_ray.types import SessionOptions

    text = sys.stdin.read() if prompt == "-" else prompt
    if not text.strip():  # said before a server is started for it
        raise typer.BadParameter("the prompt is empty; say something like 'a bouncing ball'", param_hint="prompt")
    given = {"duration": film.duration, "aspect": film.aspect, "fps": video.fps}
    options = checked(SessionOptions, {name: value for name, value in given.items() if value is not None})
    render = render_options(video) if video.given else None
    for path in assets or []:
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {str(path)!r}", param_hint="--asset")
    return NewJob(text, film.style, options, render, tuple(assets or ()), permissions(mode))


async def _new(url: str, job: NewJob) -> str:
    from koda_ray.client import KodaClient

    async with KodaClient(url) as client:
        ids = tuple([(await client.upload(path)).id for path in job.assets])
        made = await client.create(
            job.prompt,
            style=job.style,
            options=job.options,
            render=job.render,
            asset_ids=ids,
            permissions=job.permissions,
        )
        return made.session_id
