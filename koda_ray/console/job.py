"""One whole job at the terminal: a server found or started, a session made or taken up, followed, and saved."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Generator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.status import Status

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.console.ask import AskPerson, Decider, Nobody, Yes
from koda_ray.console.exits import Exit, Left
from koda_ray.console.finals import chosen_final
from koda_ray.console.follow import LiveScreen, PlainScreen, Screen, follow
from koda_ray.console.live import ACCENT, LiveView
from koda_ray.console.save import check_folder, has_something, save, usual_folder
from koda_ray.console.server import OwnServer, running_url
from koda_ray.console.summary import print_end, print_saved
from koda_ray.console.view import View
from koda_ray.render.programs import check_programs
from koda_ray.serve import runfile
from koda_ray.types import NodeState, RenderOptions, SessionOptions, SessionPermissions, now

__all__ = ["Faces", "JobTarget", "NewJob", "create", "fetch", "require_server", "take_up", "with_server"]

_REPLAY_S = 10.0


@dataclass(frozen=True)
class NewJob:
    """What to make."""

    prompt: str
    style: str | None = None
    options: SessionOptions = field(default_factory=SessionOptions)
    render: RenderOptions | None = None
    assets: tuple[Path, ...] = ()
    permissions: SessionPermissions = field(default_factory=SessionPermissions)


@dataclass(frozen=True)
class JobTarget:
    """Where a job is done, and where what comes of it is saved.

    Args:
        server: The address to use; else the one that runs here.
        out: Where to save it; else its usual folder.
        may_start: Start a server where none runs.
        saves: Save what there is when it stops, which ``out`` does anyway.
    """

    server: str | None
    out: Path | None
    may_start: bool = True
    saves: bool = True


@dataclass(frozen=True)
class Faces:
    """How to show a job and who decides: ``live`` needs a terminal, `AskPerson` somebody at it."""

    console: Console
    live: bool
    decider: Decider

    @classmethod
    def of(cls, *, yes: bool, plain: bool = False, look: bool = False) -> Faces:
        """Choose by what stdin and stdout are.

        Args:
            yes: Decide by itself whatever is asked.
            plain: Write lines at a terminal, too.
            look: Ask nobody, whoever is there.
        """
        console = Console(highlight=False)
        live = console.is_terminal and not plain
        decider: Decider = Nobody()
        if yes:
            decider = Yes()
        elif not look and console.is_terminal and sys.stdin.isatty():
            decider = AskPerson(console)
        return cls(console, live, decider)

    def write(self, line: str) -> None:
        """Write a line that is no markup."""
        self.console.print(line, markup=False, soft_wrap=True)

    def status(self, words: str) -> Status:
        """Show what is going on for as long as a block runs; nothing where nobody looks."""
        console = self.console if self.live else Console(quiet=True)
        return Status(f"  {words}", console=console, spinner="dots", spinner_style=ACCENT)

    @contextmanager
    def screen(self, view: View, *, prompt: str, began: datetime, note: str = "") -> Generator[Screen]:
        """Show a view for as long as the block runs."""
        if not self.live:
            yield PlainScreen(self.write, began=began)
            return
        shown = LiveView(view, prompt=prompt, began=began)
        shown.note = note
        with LiveScreen(self.console, shown) as screen:
            yield screen


@contextmanager
def with_server(faces: Faces, server: str | None, *, keep: bool = False) -> Generator[tuple[str, bool]]:
    """Yield a server's address, and whether it is ours: then it ends with the block, and all that it started.

    Args:
        faces: Where to say that one is starting.
        server: The address to use; else the one that runs here, else one of our own.
        keep: Let one that was started here run on.
    """
    url = running_url(server)
    if url is not None:
        yield url, False
        return
    own = OwnServer(runfile.runfile_path().parent / "server.log", keep=keep)
    try:
        if faces.live:
            with faces.status("Starting koda") as status:
                url = own.start(waiting=lambda took: status.update(f"  Starting koda [dim]{took:.0f} s[/dim]"))
        else:
            sys.stderr.write("koda: starting a server\n")  # stdout may be read by a program
            url = own.start()
        yield url, not keep
    finally:
        if not keep:
            with _undisturbed(), faces.status("Ending koda"):
                own.stop()


def create(job: NewJob, faces: Faces, target: JobTarget) -> None:
    """Do a whole job: make a session, follow it, and save what comes of it.

    Raises:
        Left: It did not come to a video; with the status to end with.
        Missing: A program is not installed, and the server of our own would need it at the very end.
    """
    check_folder(target.out)
    if running_url(target.server) is None and (settings := Settings()).ray_address is None:
        check_programs(settings.chromium_path)
    with with_server(faces, target.server) as (url, own):
        followed = _Followed(faces, own=own)
        with followed.said_on_interrupt():
            asyncio.run(followed.create(url, job))
            asyncio.run(followed.end(url, target.out))


def take_up(session_id: str, faces: Faces, target: JobTarget, *, words: str | None = None, retry: bool = False) -> None:
    """Go on with a session: follow it, decide, and save what comes of it.

    Args:
        session_id: The session.
        faces: How to show it and who decides.
        target: Where it is done.
        words: Something to say to it first.
        retry: Try again what failed.

    Raises:
        Left: It did not come to a video, or no server runs and none may be started; with the status to end with.
    """
    saves = target.saves or target.out is not None
    if saves:
        check_folder(target.out)
    server = target.server if target.may_start else require_server(target.server)
    with with_server(faces, server) as (url, own):
        followed = _Followed(faces, own=own)
        with followed.said_on_interrupt():
            asyncio.run(followed.take_up(url, session_id, words=words, retry=retry))
            asyncio.run(followed.end(url, target.out, saves=saves))


def fetch(session_id: str, faces: Faces, target: JobTarget, *, final: str | None = None) -> None:
    """Save what a session has made so far and leave it as it is.

    Args:
        session_id: The session.
        faces: How to show it.
        target: Where it is done.
        final: Which of its final videos, by number or job; else what it shows.

    Raises:
        Left: There is nothing yet.
        NotFound: There is no such session, or no such final video.
    """
    check_folder(target.out)
    with with_server(faces, target.server) as (url, _):
        asyncio.run(_fetch(session_id, faces, url, target.out, final))


async def _fetch(session_id: str, faces: Faces, url: str, out: Path | None, final: str | None) -> None:
    async with KodaClient(url) as client:
        there = await client.session(session_id)
        chosen = None if final is None else await chosen_final(client, session_id, final)
        if chosen is None and not has_something(there.state):
            sys.stderr.write(
                f"koda: there is no video to save yet (the session's phase is {there.state.phase}); go on with: "
                f"koda resume {session_id}\n"
            )
            raise Left(Exit.REFUSED)
        view = await _replayed(client, session_id)
        saved = await save(client, view, out or usual_folder(session_id, there.state.prompt), final=chosen)
        print_saved(faces.console, view, saved)
        faces.console.print()


async def _replayed(client: KodaClient, session_id: str) -> View:
    """Read a session's whole story so far: the report tells its times, whoever saves and whenever."""
    view, last = View(session_id), (await client.session(session_id)).seq
    with suppress(TimeoutError):  # an event of a newer server cannot be read, and may be the last
        async with asyncio.timeout(_REPLAY_S), aclosing(client.follow(session_id)) as events:
            async for event in events:
                view.apply(event)
                if event.seq >= last:
                    break
    return view


def require_server(server: str | None) -> str:
    """Return the address of a server that runs.

    Raises:
        Left: None does.
    """
    url = running_url(server)
    if url is None:
        sys.stderr.write(
            "koda: no server runs here; start one with: koda serve --background (or: koda resume ID, which starts one "
            "for as long as it takes)\n"
        )
        raise Left(Exit.NO_SERVER)
    return url


class _Followed:
    """A session while somebody watches."""

    def __init__(self, faces: Faces, *, own: bool) -> None:
        self._faces = faces
        self._own = own
        self._view: View | None = None
        self._state: NodeState | None = None
        self._began = now()
        self._joined_late = False

    async def create(self, url: str, job: NewJob) -> None:
        """Make a session and follow it."""
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
            self._view = view = View(made.session_id)
            if not self._faces.live:
                self._faces.write(f"koda: session {made.session_id}")
            with self._faces.screen(view, prompt=job.prompt, began=self._began, note=self._note()) as screen:
                self._state = await follow(client, view, screen, self._faces.decider)

    async def take_up(self, url: str, session_id: str, *, words: str | None, retry: bool) -> None:
        """Follow a session that is there, from its present state on."""
        async with KodaClient(url) as client:
            now_there = await client.session(session_id)
            self._joined_late = True
            if words is not None:
                await client.say(session_id, words)
            elif retry and now_there.state.phase == "error":
                await client.retry(session_id)
            said = words is not None or (retry and now_there.state.phase == "error")
            self._view = view = View(session_id)
            view.seed(now_there.state, now_there.seq, now_there.updated_at)
            if said and view.state is not None:  # what it waited for has been said: the events tell what comes of it
                view.state = view.state.model_copy(update={"owes": "analyze"})
            elif view.state is not None and view.state.phase == "complete":
                self._state = view.state
                return
            prompt, began = now_there.state.prompt, now_there.created_at
            with self._faces.screen(view, prompt=prompt, began=began, note=self._note()) as screen:
                if not self._faces.live:
                    self._faces.write(f"koda: session {session_id}, {now_there.state.phase}")
                self._state = await follow(client, view, screen, self._faces.decider)

    async def end(self, url: str, out: Path | None, *, saves: bool = True) -> None:
        """Save what there is and say how it ended.

        Args:
            url: The server's.
            out: The folder; the usual one when None.
            saves: Whether anything is saved.

        Raises:
            Left: It ended otherwise than with a video; with the status that says how.
        """
        view, state = self._view, self._state
        assert view is not None and state is not None
        if saves and has_something(state):
            async with KodaClient(url) as client:
                whole = await _replayed(client, view.session_id) if self._joined_late else view
                saved = await save(client, whole, out or usual_folder(view.session_id, state.prompt))
            print_saved(self._faces.console, whole, saved)
        status = print_end(self._faces.console, view, state, own_server=self._own)
        if status is not Exit.DONE:
            raise Left(status)

    @contextmanager
    def said_on_interrupt(self) -> Generator[None]:
        """On Ctrl-C, say what happens to the job and how to come back.

        Raises:
            Left: With Exit.INTERRUPTED, in place of the interrupt.
        """
        try:
            yield
        except KeyboardInterrupt:
            if self._view is not None:
                session_id = self._view.session_id
                back = f"koda resume {session_id}" if self._own else f"koda watch {session_id}"
                told = "Stopped; everything so far is kept." if self._own else "Detached; the job goes on."
                # not wrapped: whoever copies the line gets the command whole
                self._faces.console.print(f"\n  {told} Come back with: [bold]{back}[/bold]", soft_wrap=True)
            raise Left(Exit.INTERRUPTED) from None

    def _note(self) -> str:
        return "Ctrl-C stops" if self._own else "Ctrl-C leaves, the job goes on"


@contextmanager
def _undisturbed() -> Generator[None]:
    """Ignore Ctrl-C: what was started must be ended."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
