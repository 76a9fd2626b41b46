"""The command line as a person meets it: a process of its own, real HTTP, real files, a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

import pytest

from koda_ray.cli import main
from koda_ray.client import KodaClient
from koda_ray.console.exits import Exit
from tests.serve.test_sessions import until
from tests.serve.world import CODE, VIDEO, World, free_port, world

PROMPT = "Create a bouncing ball animation, playful"
KODA = [sys.executable, "-m", "koda_ray"]


@dataclass
class Ran:
    status: int
    out: str
    err: str


@dataclass
class Shell:
    """Runs ``koda`` in a folder, against a server."""

    folder: Path
    url: str

    def environment(self) -> dict[str, str]:
        data = {"DATABASE_PATH": str(self.folder / "koda.db"), "STORAGE_PATH": str(self.folder / "storage")}
        return {**os.environ, **data, "KODA_SERVER": self.url, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}

    async def __call__(self, *words: str, stdin: str = "", **environment: str) -> Ran:
        return await asyncio.to_thread(self._run, words, stdin, {**self.environment(), **environment})

    def _run(self, words: tuple[str, ...], stdin: str, environment: dict[str, str]) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["koda", *words])
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            patch.chdir(self.folder)
            for name, value in environment.items():
                patch.setenv(name, value)
            try:
                main()
                status = 0
            except SystemExit as ended:
                status = int(ended.code or 0)
        return Ran(status, out.getvalue(), err.getvalue())


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as found:
        yield found


@pytest.fixture
def shell(koda: World, tmp_path: Path) -> Shell:
    return Shell(tmp_path, koda.url)


@pytest.fixture
async def client(koda: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(koda.url) as found:
        yield found


# --- the whole job --------------------------------------------------------------------------------------------------


async def test_create_yes_makes_and_saves_everything(shell: Shell) -> None:
    ran = await shell("create", PROMPT, "--yes", "--out", "made", "--resolution", "720p", "--fps", "30")
    assert ran.status == Exit.DONE, ran.err
    made = shell.folder / "made"
    assert (made / "video.mp4").read_bytes() == VIDEO["final"]
    assert (made / "preview.mp4").read_bytes() == VIDEO["preview"]
    assert (made / "thumbnail.jpg").stat().st_size > 0
    assert (made / "source/src/scenes/S1.tsx").read_text() == CODE
    report = json.loads((made / "report.json").read_text())
    assert report["prompt"] == PROMPT and report["phase"] == "complete"
    assert report["timings"]["toVideoS"] > 0 and set(report["timings"]["byWorkS"]) >= {
        "plan",
        "execute",
        "render_final",
    }
    assert report["output"]["resolution"] == "720p"
    lines = ran.out.splitlines()
    assert any(re.match(r"\s+\d+\.\d  todo      \[x\] Set up the project", line) for line in lines)
    assert any("render    final 100 %" in line for line in lines)
    assert "\x1b" not in ran.out


async def test_the_folder_is_named_by_the_prompt(shell: Shell) -> None:
    assert (await shell("demo", "Count down from 5")).status == Exit.DONE
    assert (shell.folder / "out/count-down-from-5/video.mp4").exists()


async def test_without_a_terminal_nobody_is_asked(shell: Shell, client: KodaClient) -> None:
    ran = await shell("create", PROMPT)
    assert ran.status == Exit.WAITING
    assert "question: Which style do you want? [playful, minimal]" in ran.out
    session_id = (await client.sessions()).sessions[0].id
    assert f"koda watch {session_id}" in ran.out


async def test_one_step_at_a_time(koda: World, shell: Shell, client: KodaClient) -> None:
    session_id = (await shell("new", "-", stdin=PROMPT)).out.strip()
    assert (await client.session(session_id)).state.prompt == PROMPT

    await until(client, session_id, "question")
    assert (await shell("answer", session_id, "minimal")).status == 0
    await until(client, session_id, "plan")
    assert (await client.session(session_id)).state.style == "minimal"
    assert (await shell("reject", session_id, "not what I meant")).status == 0
    await until(client, session_id, "plan")
    assert (await shell("accept", session_id)).status == 0
    await until(client, session_id, "preview")
    assert (await shell("say", session_id, "make the ball red")).status == 0
    await until(client, session_id, "preview")
    assert (await client.session(session_id)).state.feedback[-1] == "make the ball red"
    assert (await shell("render", session_id, "--resolution", "4k", "--format", "webm")).status == 0
    await until(client, session_id, "complete")
    shown = await shell("show", session_id)
    assert "complete" in shown.out and "make the ball red" in shown.out and "Drop in" in shown.out
    assert json.loads((await shell("show", session_id, "--json")).out)["state"]["output"]["resolution"] == "4k"
    watched = await shell("watch", session_id, "--out", "later")
    assert watched.status == 0 and (shell.folder / "later/video.webm").exists()
    listed = await shell("list")
    assert listed.out.split("\t")[:2] == [session_id, "complete"]
    assert (await shell("delete", session_id)).status == 0
    assert (await shell("show", session_id)).status == Exit.NOT_FOUND


async def test_a_failure_is_told_and_can_be_taken_up_again(koda: World, shell: Shell, client: KodaClient) -> None:
    koda.directory.fails = {"execute": "the page never became ready"}
    ran = await shell("create", PROMPT, "--yes")
    session_id = (await client.sessions()).sessions[0].id
    assert ran.status == Exit.FAILED and "the page never became ready" in ran.out
    assert f"koda retry {session_id}" in ran.out
    resumed = await shell("resume", session_id, "--yes", "--out", "made")
    assert resumed.status == Exit.DONE, resumed.err
    assert (shell.folder / "made/video.mp4").exists()
    changed = await shell("resume", session_id, "make it red", "--yes", "--out", "again")
    assert changed.status == Exit.DONE and (shell.folder / "again/video.mp4").exists()
    assert (await client.session(session_id)).state.feedback == ("make it red",)


async def test_an_asset_goes_along(shell: Shell, client: KodaClient) -> None:
    (shell.folder / "logo.gif").write_bytes(b"GIF89a" + bytes(20))
    session_id = (await shell("new", "Animate this", "--asset", "logo.gif")).out.strip()
    assert [asset.name for asset in (await client.assets(session_id)).assets] == ["logo.gif"]


async def test_interrupted_while_a_server_runs_the_job_goes_on(koda: World, shell: Shell, client: KodaClient) -> None:
    koda.directory.hold = {"execute"}

    def sit() -> tuple[int, str]:
        terminal = Terminal(shell, "create", PROMPT, "--yes")
        terminal.expect("Setting up the project")
        terminal.interrupt()
        return terminal.end(), _plain(terminal.seen)

    status, seen = await asyncio.to_thread(sit)
    found = (await client.sessions()).sessions[0]
    assert status == Exit.INTERRUPTED
    assert f"koda watch {found.id}" in seen and "the job goes on" in seen
    assert found.owes == "execute"


# --- at a terminal --------------------------------------------------------------------------------------------------


class Terminal:
    """A pseudo-terminal with ``koda`` in it."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self._parent, child = pty.openpty()
        ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        environment = {**shell.environment(), "TERM": "xterm-256color"}
        environment.pop("NO_COLOR")
        self._process = subprocess.Popen(
            [*KODA, *words], cwd=shell.folder, env=environment, stdin=child, stdout=child, stderr=child, close_fds=True
        )
        os.close(child)
        self.seen = ""

    def expect(self, words: str, *, within_s: float = 20) -> None:
        deadline, start = time.monotonic() + within_s, len(self.seen)
        while words not in _plain(self.seen[start:]):
            if time.monotonic() > deadline:
                raise AssertionError(f"never saw {words!r} in:\n{_plain(self.seen)[-3000:]}")
            if select.select([self._parent], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._parent, 65536).decode(errors="replace")
                except OSError as error:  # the other side is closed
                    if words in _plain(self.seen[start:]):
                        return
                    raise AssertionError(f"ended without {words!r}:\n{_plain(self.seen)[-3000:]}") from error

    def type(self, text: str) -> None:
        os.write(self._parent, text.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        try:
            while select.select([self._parent], [], [], 20)[0]:
                self.seen += os.read(self._parent, 65536).decode(errors="replace")
        except OSError:
            pass
        os.close(self._parent)
        return self._process.wait(20)


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


async def test_a_person_at_a_terminal_is_asked_and_shown(koda: World, shell: Shell) -> None:
    koda.directory.pace_s = 0.05

    def sit() -> tuple[int, str]:
        terminal = Terminal(shell, "create", "Create a bouncing ball", "--out", "made")
        terminal.expect("Which style do you want?")
        terminal.type("2\n")
        terminal.expect("Make this?")
        terminal.type("\n")
        terminal.expect("Scene 1: Drop in")
        terminal.expect("Render it?")
        terminal.type("make the ball red\n")
        terminal.expect("Render it?")
        terminal.type("\n")
        terminal.expect("Done after")
        return terminal.end(), _plain(terminal.seen)

    status, seen = await asyncio.to_thread(sit)
    assert status == Exit.DONE
    for part in ("Minimal", "making it", "export function Ball", "capturing", "video.mp4"):
        assert part in seen, part
    assert (shell.folder / "made/video.mp4").exists()


async def test_leaving_at_a_question(shell: Shell, client: KodaClient) -> None:
    def sit() -> tuple[int, str]:
        terminal = Terminal(shell, "create", "Create a bouncing ball")
        terminal.expect("Which style do you want?")
        terminal.interrupt()
        return terminal.end(), _plain(terminal.seen)

    status, seen = await asyncio.to_thread(sit)
    assert status == Exit.INTERRUPTED and "koda watch ses_" in seen
    assert (await client.sessions()).sessions[0].phase == "question"


# --- errors and speed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["create", ""], Exit.USAGE, "the prompt is empty"),
        (["create", "x" * 20_001], Exit.USAGE, "20,001"),
        (["create", "a ball", "--duration", "7200"], Exit.USAGE, "--duration"),
        (["create", "a ball", "--aspect", "wide"], Exit.USAGE, "--aspect"),
        (["create", "a ball", "--fps", "25"], Exit.USAGE, "--fps"),
        (["create", "a ball", "--resolution", "8k"], Exit.USAGE, "720p, 1080p, 4k"),
        (["create", "a ball", "--asset", "none.png"], Exit.USAGE, "none.png"),
        (["show", "ses_unknown"], Exit.NOT_FOUND, "ses_unknown"),
        (["accept", "ses_unknown"], Exit.NOT_FOUND, "ses_unknown"),
        (["nonsense"], Exit.USAGE, "nonsense"),
    ],
)
async def test_what_goes_wrong_is_one_clear_line(shell: Shell, words: list[str], status: Exit, says: str) -> None:
    ran = await shell(*words)
    assert ran.status == status and says in ran.err
    assert "Traceback" not in ran.err and len(ran.err) < 1000


async def test_no_server(shell: Shell) -> None:
    dead = await shell("accept", "ses_1", KODA_SERVER=f"http://127.0.0.1:{free_port()}")
    assert dead.status == Exit.NO_SERVER and "koda serve" in dead.err
    none = await shell("accept", "ses_1", KODA_SERVER="", KODA_RUNFILE="none.json")
    assert none.status == Exit.NO_SERVER and "koda serve --background" in none.err


async def test_sessions_can_be_read_without_a_server(shell: Shell, client: KodaClient, tmp_path: Path) -> None:
    session_id = (await client.create(PROMPT)).session_id
    alone = {"KODA_SERVER": "", "KODA_RUNFILE": "none.json"}
    assert session_id in (await shell("list", **alone)).out
    assert PROMPT in (await shell("show", session_id, **alone)).out
    assert (await shell("show", "ses_unknown", **alone)).status == Exit.NOT_FOUND
    empty = await shell("list", "--json", **alone, DATABASE_PATH=str(tmp_path / "nowhere" / "koda.db"))
    assert json.loads(empty.out) == {"sessions": [], "next": None}


@pytest.mark.parametrize(
    "module", ["koda_ray.cli", "koda_ray.console.job", "koda_ray.client", "koda_ray.console.offline"]
)
def test_the_command_line_is_light(module: str) -> None:
    heavy = ("ray", "fastapi", "starlette", "anthropic", "playwright", "uvicorn")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_names_the_exit_statuses() -> None:
    done = subprocess.run([*KODA, "--help"], capture_output=True, text=True, check=True)
    assert "Exit status" in done.stdout and "130 interrupted" in done.stdout
    assert "Usage: koda [" in done.stdout
