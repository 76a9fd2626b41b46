"""The command line as a person meets it: a process of its own, real HTTP, real files, a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import codecs
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
from typing import Any

import pytest

from koda_ray.cli import main
from koda_ray.client import KodaClient
from koda_ray.commands import Command
from koda_ray.console.exits import Exit
from koda_ray.events import NewEvent
from koda_ray.types import Budget, NodeState
from koda_ray.wire import PageRender
from tests.disks import small
from tests.serve.test_sessions import until
from tests.serve.test_usage import charge
from tests.serve.world import CODE, VIDEO, World, free_port, reached, world

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


async def test_uploads_are_listed_and_removed(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    asset = (await shell("asset", "upload", str(tmp_path / "cat.png"))).out.strip()
    listed = await shell("asset", "list")
    assert listed.out.split("\t") == [asset, "image/png", "72", "-", "cat.png\n"]
    assert (await shell("asset", "remove", asset)).out == f"{asset}\n"
    gone = await shell("asset", "remove", asset)
    assert gone.status != 0 and asset in gone.err
    assert json.loads((await shell("asset", "list", "--json")).out) == {"assets": [], "next": None}


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
    ran = await shell("demo", "Count down from 5")
    assert ran.status == Exit.DONE and "make it twice as fast" in ran.out and "ball" not in ran.out
    assert (shell.folder / "out/count-down-from-5/video.mp4").exists()


async def test_resume_and_watch_leave_the_video_with_whoever_gave_no_folder(shell: Shell, client: KodaClient) -> None:
    assert (await shell("create", "Bars of 3 and 5", "--yes")).status == Exit.DONE
    (found,) = (await client.sessions()).sessions
    made = shell.folder / "out/bars-of-3-and-5"
    (made / "video.mp4").unlink()
    resumed = await shell("resume", found.id, "make the bars red", "--yes")
    assert resumed.status == Exit.DONE, resumed.err
    assert (made / "video.mp4").read_bytes() == VIDEO["final"]
    assert "out/bars-of-3-and-5" in resumed.out

    (made / "video.mp4").unlink()
    assert (await shell("watch", found.id)).status == Exit.DONE
    assert (made / "video.mp4").read_bytes() == VIDEO["final"]
    assert [folder.name for folder in (shell.folder / "out").iterdir()] == ["bars-of-3-and-5"]


async def test_the_report_tells_the_whole_story_whoever_saves(shell: Shell, client: KodaClient) -> None:
    assert (await shell("create", PROMPT, "--yes", "--out", "made")).status == Exit.DONE
    report = shell.folder / "made/report.json"
    at_once = json.loads(report.read_text())["timings"]
    assert (await shell("watch", (await client.sessions()).sessions[0].id, "--out", "made")).status == Exit.DONE
    later = json.loads(report.read_text())["timings"]
    assert later["toVideoS"] == at_once["toVideoS"] > 0 and later["renders"] == at_once["renders"] != []


async def test_another_session_with_the_same_words_gets_a_folder_of_its_own(shell: Shell) -> None:
    (shell.folder / "out/two-bars").mkdir(parents=True)  # left by a save that failed
    for _ in range(2):
        assert (await shell("create", "Two bars", "--yes")).status == Exit.DONE
    first, second = (
        json.loads((shell.folder / f"out/{name}/report.json").read_text()) for name in ("two-bars", "two-bars-2")
    )
    assert first["session"] != second["session"]


async def test_save_fetches_what_there_is_and_goes_on_with_nothing(shell: Shell, client: KodaClient) -> None:
    session_id = (await shell("new", PROMPT, "--style", "minimal")).out.strip()
    await until(client, session_id, "plan")
    early = await shell("save", session_id)
    assert (
        early.status == Exit.REFUSED
        and "no video to save yet" in early.err
        and f"koda resume {session_id}" in early.err
    )
    accepted = await shell("accept", session_id)
    assert f"koda watch {session_id}" in accepted.out
    await until(client, session_id, "preview")
    assert (await shell("save", session_id, "--out", "made")).status == Exit.DONE
    assert (shell.folder / "made/preview.mp4").exists() and not (shell.folder / "made/video.mp4").exists()
    assert (await client.session(session_id)).state.phase == "preview"
    assert (await shell("save", session_id)).status == Exit.DONE
    assert (shell.folder / "out/create-a-bouncing-ball-animation-playful/preview.mp4").exists()


async def test_a_folder_holds_one_state_of_a_session(koda: World, shell: Shell, client: KodaClient) -> None:
    made = shell.folder / "made"
    assert (await shell("create", PROMPT, "--yes", "--out", "made")).status == Exit.DONE
    session_id = (await client.sessions()).sessions[0].id
    (made / "source/src/relic.tsx").write_text("of an earlier version")
    (made / "notes.txt").write_text("somebody's own")
    await shell("final", session_id, "--format", "webm")
    assert (await shell("watch", session_id, "--out", "made")).status == Exit.DONE
    names = {"video.webm", "preview.mp4", "thumbnail.jpg", "report.json", "source", "earlier", "notes.txt"}
    assert {path.name for path in made.iterdir()} == names
    assert not (made / "source/src/relic.tsx").exists()

    await shell("say", session_id, "make it red")
    await until(client, session_id, "preview")
    assert (await shell("watch", session_id, "--out", "made")).status == Exit.WAITING
    assert {path.name for path in made.iterdir()} == names - {"video.webm"}
    assert {path.name for path in (made / "earlier").iterdir()} == {"video.mp4", "video.webm"}


async def test_files_that_koda_did_not_make_are_never_replaced(shell: Shell, client: KodaClient) -> None:
    (shell.folder / "mine/source").mkdir(parents=True)
    (shell.folder / "mine/source/novel.txt").write_text("years of work")
    ran = await shell("create", PROMPT, "--yes", "--out", "mine")
    assert ran.status == Exit.USAGE and "koda save ses_" in ran.err
    assert [path.name for path in (shell.folder / "mine").rglob("*")] == ["source", "novel.txt"]
    session_id = (await client.sessions()).sessions[0].id
    assert (await shell("save", session_id, "--out", "other")).status == Exit.DONE
    assert (shell.folder / "other/video.mp4").exists()


async def test_a_folder_that_takes_no_files_is_refused_before_anything_is_made(
    shell: Shell, client: KodaClient
) -> None:
    (shell.folder / "note.txt").write_text("mine")
    ran = await shell("create", PROMPT, "--yes", "--out", "note.txt/made")
    assert ran.status == Exit.USAGE and "'note.txt/made' cannot be written" in ran.err
    assert not (await client.sessions()).sessions


@pytest.mark.full
async def test_a_full_disk_loses_nothing_and_the_way_to_the_video_is_told(shell: Shell, client: KodaClient) -> None:
    with small(shell.folder / "disk", 0.02) as disk:
        (disk / "before").write_bytes(bytes(16_000))
        ran = await shell("create", PROMPT, "--yes", "--out", "disk/made")
        assert ran.status == Exit.FAILED and "disk/made could not be written: the disk is full" in ran.err, ran.err
        assert [path.name for path in disk.rglob("*")] in (["before"], ["before", "made"], ["made", "before"])
    (command,) = re.findall(r"koda (save ses_\w+ --out) FOLDER", ran.err)
    assert (await shell(*command.split(), "other")).status == Exit.DONE
    assert (shell.folder / "other/video.mp4").exists()


async def test_a_save_that_is_cut_short_leaves_the_folder_as_it_was(
    koda: World, shell: Shell, client: KodaClient
) -> None:
    made = shell.folder / "made"
    assert (await shell("create", PROMPT, "--yes", "--out", "made")).status == Exit.DONE
    session_id = (await client.sessions()).sessions[0].id
    before = {path: path.stat().st_ino for path in made.rglob("*")}
    for key in await koda.storage.list():
        if CODE.encode() in await koda.storage.get(key):
            await koda.storage.delete(key)  # the source, which comes after the videos
    assert (await shell("save", session_id, "--out", "made")).status != Exit.DONE
    assert {path: path.stat().st_ino for path in made.rglob("*")} == before


async def test_without_a_terminal_nobody_is_asked(shell: Shell, client: KodaClient) -> None:
    ran = await shell("create", PROMPT)
    assert ran.status == Exit.WAITING
    assert "question: Which style do you want? [playful, minimal]" in ran.out
    session_id = (await client.sessions()).sessions[0].id
    assert f"koda watch {session_id}" in ran.out and f"koda answer {session_id} playful" in ran.out


async def test_one_step_at_a_time(koda: World, shell: Shell, client: KodaClient) -> None:
    session_id = (await shell("new", "-", stdin=PROMPT)).out.strip()
    assert (await client.session(session_id)).state.prompt == PROMPT

    await until(client, session_id, "question")
    assert (await shell("answer", session_id, "minimal")).status == 0
    await until(client, session_id, "plan")
    assert (await client.session(session_id)).state.style == "minimal"
    assert f"koda accept {session_id}" in (await shell("show", session_id)).out
    assert (await shell("reject", session_id, "not what I meant")).status == 0
    await until(client, session_id, "plan")
    assert (await shell("accept", session_id)).status == 0
    await until(client, session_id, "preview")
    assert (await shell("say", session_id, "make the ball red")).status == 0
    await until(client, session_id, "preview")
    assert (await client.session(session_id)).state.feedback[-1] == "make the ball red"
    assert (await shell("final", session_id, "--resolution", "4k", "--format", "webm")).status == 0
    await until(client, session_id, "complete")
    shown = await shell("show", session_id)
    assert "complete" in shown.out and "make the ball red" in shown.out and "Drop in" in shown.out
    assert f"koda save {session_id}" in shown.out
    assert json.loads((await shell("show", session_id, "--json")).out)["state"]["output"]["resolution"] == "4k"
    watched = await shell("watch", session_id, "--out", "later")
    assert watched.status == 0 and (shell.folder / "later/video.webm").exists()
    assert (await shell("watch", session_id, "--look")).status == 0
    assert not (shell.folder / "out").exists()
    listed = await shell("list")
    assert listed.out.split("\t")[:2] == [session_id, "complete"]
    deleted = await shell("delete", session_id)
    assert deleted.status == 0 and deleted.out == f"deleted {session_id}\n"
    assert (await shell("show", session_id)).status == Exit.NOT_FOUND


async def test_what_agents_may_do_is_set_when_a_session_is_made_and_later(
    shell: Shell, client: KodaClient, tmp_path: Path
) -> None:
    session = (await shell("new", "Create a bouncing ball", "--mode", "ask")).out.strip()
    assert (await client.session(session)).state.permissions.mode == "ask"
    (tmp_path / "rules.json").write_text('[{"decision": "deny", "path": "src/koda/*"}]')
    assert (await shell("permissions", session, "--rules", "@rules.json")).status == 0
    assert (await shell("permissions", session, "--mode", "readonly")).status == 0
    now = (await client.session(session)).state.permissions
    assert now.mode == "readonly" and now.rules[0].path == "src/koda/*"
    assert (await shell("approvals", session, "--pending")).status == 0
    for words, says in (
        (("permissions", session, "--mode", "loud"), "--mode"),
        (("permissions", session, "--rules", "[{"), "--rules"),
        (("permissions", session, "--rules", "@none.json"), "none.json"),
        (("accept", session, "--arguments", "[1]"), "--arguments"),
    ):
        refused = await shell(*words)
        assert refused.status == Exit.USAGE and says in refused.err


async def test_a_failure_is_told_and_can_be_taken_up_again(koda: World, shell: Shell, client: KodaClient) -> None:
    koda.directory.fails = {"execute": "the page never became ready"}
    ran = await shell("create", PROMPT, "--yes")
    session_id = (await client.sessions()).sessions[0].id
    assert ran.status == Exit.FAILED and "the page never became ready" in ran.out
    assert f"koda resume {session_id}" in ran.out
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


@pytest.mark.full
async def test_interrupted_while_a_server_runs_the_job_goes_on(koda: World, shell: Shell, client: KodaClient) -> None:
    koda.directory.hold = {"execute"}

    def sit() -> tuple[int, str]:
        terminal = Terminal(shell, "create", PROMPT, "--yes")
        terminal.expect("Setting up the project")
        terminal.interrupt()
        return terminal.end(), terminal.seen

    status, seen = await asyncio.to_thread(sit)
    found = (await client.sessions()).sessions[0]
    assert status == Exit.INTERRUPTED
    assert f"koda watch {found.id}" in seen and "the job goes on" in seen
    assert found.owes == "execute"


# --- at a terminal --------------------------------------------------------------------------------------------------


class Terminal:
    """A pseudo-terminal with ``koda`` in it. What was expected once is behind us: the next is looked for after it."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self._parent, child = pty.openpty()
        ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        environment = {**shell.environment(), "TERM": "xterm-256color"}
        environment.pop("NO_COLOR")
        self._process = subprocess.Popen(
            [*KODA, *words], cwd=shell.folder, env=environment, stdin=child, stdout=child, stderr=child, close_fds=True
        )
        os.close(child)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._raw = ""
        self._read_to = 0

    @property
    def seen(self) -> str:
        """All that was shown so far, without what only moves the cursor or colours."""
        return re.sub(r"\x1b(\[[0-9;?]*([A-Za-z]|$)|$)", "", self._raw)

    def expect(self, words: str, *, within_s: float = 60) -> None:
        deadline = time.monotonic() + within_s
        while (found := self.seen.find(words, self._read_to)) < 0:
            if time.monotonic() > deadline:
                raise AssertionError(f"never saw {words!r} in:\n{self.seen[self._read_to :][-3000:]}")
            if select.select([self._parent], [], [], 0.1)[0] and not self._read():
                raise AssertionError(f"ended without {words!r}:\n{self.seen[-3000:]}")
        self._read_to = found + len(words)

    def type(self, text: str) -> None:
        os.write(self._parent, text.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        while select.select([self._parent], [], [], 60)[0] and self._read():
            pass
        os.close(self._parent)
        return self._process.wait(60)

    def _read(self) -> bool:
        try:
            block = os.read(self._parent, 65536)
        except OSError:  # the other side is closed
            return False
        self._raw += self._decoder.decode(block)
        return True


async def test_a_person_at_a_terminal_is_asked_and_shown(
    koda: World, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(shell, "create", "Create a bouncing ball", "--out", "made")
    move = koda.directory.move

    async def move_and_be_seen(session_id: str, *orders: Command, events: tuple[NewEvent, ...] = ()) -> NodeState:
        # the screen is drawn some times a second: what comes and goes between two drawings is not there to be seen
        state = await move(session_id, *orders, events=events)
        for event in events:
            wanted = {"code_chunk": "export", "render_progress": str(event.data.get("stage"))}.get(event.type, "")
            await reached(lambda wanted=wanted: wanted in terminal.seen)
        return state

    monkeypatch.setattr(koda.directory, "move", move_and_be_seen)

    def sit() -> int:
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
        return terminal.end()

    assert await asyncio.to_thread(sit) == Exit.DONE
    for part in ("Minimal", "making it", "export funct", "capturing", "joining", "video.mp4"):
        assert part in terminal.seen, part
    assert (shell.folder / "made/video.mp4").exists()


async def test_leaving_at_a_question(shell: Shell, client: KodaClient) -> None:
    def sit() -> tuple[int, str]:
        terminal = Terminal(shell, "create", "Create a bouncing ball")
        terminal.expect("Which style do you want?")
        terminal.interrupt()
        return terminal.end(), terminal.seen

    status, seen = await asyncio.to_thread(sit)
    assert status == Exit.INTERRUPTED, seen
    assert "koda watch ses_" in seen
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
        (["final", "ses_1", "--fps", "25"], Exit.USAGE, "neither 30 nor 60"),
        (["show", "ses_unknown"], Exit.NOT_FOUND, "ses_unknown"),
        (["accept", "ses_unknown"], Exit.NOT_FOUND, "ses_unknown"),
        (["nonsense"], Exit.USAGE, "nonsense"),
        (["create", "a", "red", "ball", "--yes"], Exit.USAGE, "koda create 'a red ball'"),
        (["resume", "ses_1", "make", "it", "Ada's"], Exit.USAGE, """koda resume ses_1 'make it Ada'"'"'s'"""),
    ],
)
async def test_what_goes_wrong_is_one_clear_line(shell: Shell, words: list[str], status: Exit, says: str) -> None:
    ran = await shell(*words)
    assert ran.status == status and says in ran.err
    assert "Traceback" not in ran.err and len(ran.err) < 1000


@pytest.mark.parametrize("words", [["list"], ["serve"], ["sandbox", "list"], ["render", "."]])
@pytest.mark.full
async def test_a_wrong_setting_is_one_clear_line_whoever_reads_it(shell: Shell, words: list[str]) -> None:
    environment = {**shell.environment(), "KODA_SERVER": "", "KODA_PORT": "80000"}
    (shell.folder / "index.html").write_text("<p>")
    ran = await asyncio.to_thread(
        subprocess.run, [*KODA, *words], cwd=shell.folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == Exit.USAGE, ran.stderr
    assert "KODA_PORT" in ran.stderr and "'80000'" in ran.stderr and len(ran.stderr.splitlines()) == 1


@pytest.mark.full
async def test_no_server(shell: Shell) -> None:
    dead = await shell("accept", "ses_1", KODA_SERVER=f"http://127.0.0.1:{free_port()}")
    assert dead.status == Exit.NO_SERVER and "koda serve" in dead.err
    none = await shell("accept", "ses_1", KODA_SERVER="", KODA_RUNFILE="none.json")
    assert none.status == Exit.NO_SERVER and "koda serve --background" in none.err


async def test_an_empty_prompt_starts_no_server(shell: Shell) -> None:
    ran = await shell("create", " ", KODA_SERVER="", KODA_RUNFILE="none.json")
    assert ran.status == Exit.USAGE and "the prompt is empty" in ran.err
    assert "starting" not in ran.err and not (shell.folder / "server.log").exists()


async def test_a_missing_browser_is_said_before_a_server_is_started(shell: Shell) -> None:
    alone = {"KODA_SERVER": "", "KODA_RUNFILE": "none.json", "KODA_CHROMIUM_PATH": "/nowhere/chromium"}
    ran = await shell("create", PROMPT, "--yes", **alone)
    assert ran.status == Exit.MISSING and "KODA_CHROMIUM_PATH=/nowhere/chromium is not an executable" in ran.err
    assert "starting" not in ran.err and not (shell.folder / "server.log").exists()


@pytest.mark.full
async def test_new_prints_nothing_but_the_id(shell: Shell) -> None:
    alone = {"KODA_SERVER": "", "KODA_RUNFILE": str(shell.folder / "none.json")}
    ran = await shell("new", PROMPT, **alone, KODA_HOST="0.0.0.0")  # which it refuses without keys
    assert ran.status == Exit.NO_SERVER and ran.out == ""
    assert "starting a server" in ran.err and "KODA_API_KEYS" in ran.err


async def test_sessions_can_be_read_without_a_server(shell: Shell, client: KodaClient, tmp_path: Path) -> None:
    session_id = (await client.create(PROMPT)).session_id
    alone = {"KODA_SERVER": "", "KODA_RUNFILE": "none.json"}
    assert session_id in (await shell("list", **alone)).out
    assert PROMPT in (await shell("show", session_id, **alone)).out
    assert (await shell("show", "ses_unknown", **alone)).status == Exit.NOT_FOUND
    empty = await shell("list", "--json", **alone, DATABASE_PATH=str(tmp_path / "nowhere" / "koda.db"))
    assert json.loads(empty.out) == {"sessions": [], "next": None}


@pytest.mark.full
async def test_events_are_printed_a_line_each_until_there_are_no_more(shell: Shell, client: KodaClient) -> None:
    session_id = (await shell("new", PROMPT)).out.strip()
    following = await asyncio.create_subprocess_exec(
        *KODA, "events", session_id, "--channel", "control", "--channel", "monitor",
        cwd=shell.folder, env=shell.environment(), stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert following.stdout is not None
    told: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while not told or told[-1]["type"] != "state_change" or told[-1]["data"]["phase"] != "question":
            told.append(json.loads(await following.stdout.readline()))
        await client.delete(session_id)
        told += [json.loads(line) async for line in following.stdout]
        assert await following.wait() == Exit.DONE
    assert {event["channel"] for event in told} == {"control"}
    assert [event["data"]["phase"] for event in told if event["type"] == "state_change"][-1] == "question"
    seqs = [event["seq"] for event in told]
    assert seqs == sorted(set(seqs)) != list(range(1, len(seqs) + 1)), "progress is left out"
    wrong = await shell("events", session_id, "--channel", "news")
    assert wrong.status == Exit.USAGE and "there is no channel 'news'; the channels are progress" in wrong.err
    assert (await shell("events", session_id)).status == Exit.NOT_FOUND


async def test_a_servers_renders_are_listed_cancelled_and_deleted(
    koda: World, shell: Shell, client: KodaClient, tmp_path: Path
) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<h1>hello</h1>")
    made = [(await client.render_page(tmp_path / "page", PageRender(duration=1.0, seed=seed))).id for seed in (1, 2)]
    assert (await shell("cancel", made[0])).out == "cancelled\n"
    assert (await shell("events", made[0])).status == Exit.DONE  # it is over, so they come to an end
    listed = [line.split("\t")[:2] for line in (await shell("renders")).out.splitlines()]
    assert listed == [[made[1], "queued"], [made[0], "cancelled"]]
    first = json.loads((await shell("renders", "--limit", "1", "--json")).out)
    alone = {"KODA_SERVER": "", "KODA_RUNFILE": "none.json"}
    assert (await shell("renders", "--before", first["next"], **alone)).out.startswith(made[0])
    assert (await shell("renders", "--status", "cancelled", **alone)).out.startswith(made[0])
    assert (await shell("renders", "--status", "lost")).status == Exit.USAGE
    assert (await shell("delete", made[0])).out == f"deleted {made[0]}\n"
    assert (await shell("delete", made[0])).status == Exit.NOT_FOUND
    assert len((await client.page_renders()).renders) == 1


async def test_what_was_used_is_shown_with_its_limits_and_limits_are_set(
    koda: World, shell: Shell, client: KodaClient
) -> None:
    koda.directory.hold.add("analyze")
    made = (await client.create(PROMPT, budget=Budget(cost_usd=2))).session_id
    await charge(koda, made)
    shown = [line.split("\t") for line in (await shell("usage", made)).out.splitlines()]
    assert shown == [
        ["tokens", "1,200", "50 held"],
        ["models", "$0.0123", "of $2.0000"],
        ["sandbox", "1.50 min", ""],
        ["rendering", "0.00 min", ""],
    ]
    alone = {"KODA_SERVER": "", "KODA_RUNFILE": "none.json", "KODA_USER_BUDGET_TOKENS": "5000"}
    assert (await shell("usage", **alone)).out.splitlines()[0] == "tokens\t1,200\tof 5,000, 50 held"
    assert json.loads((await shell("usage", made, "--json", **alone)).out)["budget"]["costUsd"] == 2
    assert (await shell("usage", made, "--month", "2026-01")).status == Exit.USAGE
    for where in ({}, alone):
        assert (await shell("usage", "--month", "soon", **where)).status == Exit.USAGE
    assert (await shell("budget", made)).status == Exit.USAGE
    assert (await shell("budget", made, "--cost-usd", "-1")).status == Exit.USAGE
    assert (await shell("budget", made, "--cost-usd", "3", "--tokens", "900")).status == 0
    assert (await client.session(made)).state.budget == Budget(cost_usd=3, tokens=900)


async def test_keys_are_made_listed_and_revoked(koda: World, shell: Shell) -> None:
    made = await shell("keys", "create", "ada", "--name", "her laptop")
    key = made.out.strip()
    assert key.startswith("koda_") and "KODA_API_KEY" in made.err
    refused = await shell("list")
    assert refused.status == Exit.FAILED and "needs a key" in refused.err
    assert (await shell("list", KODA_API_KEY=key)).status == 0
    again = await shell("keys", "create")
    assert again.err == ""
    (first, second) = json.loads((await shell("keys", "list", "--json")).out)["keys"]
    assert (first["user"], first["name"], second["user"]) == ("ada", "her laptop", "local")
    assert key not in (await shell("keys", "list")).out
    assert (await shell("keys", "revoke", first["id"])).out == "revoked\n"
    assert (await shell("list", KODA_API_KEY=key)).status == Exit.FAILED
    assert (await shell("keys", "list")).out.splitlines()[0].split("\t")[:3] == [first["id"], "ada", "revoked"]
    assert (await shell("keys", "revoke", first["id"])).status == Exit.NOT_FOUND
    assert (await shell("keys", "revoke", again.out.strip())).status == 0  # by itself
    closed = await shell("list")  # it stays so: nobody gets in because the last one was taken from somebody
    assert closed.status == Exit.FAILED and "koda keys create" in closed.err
    key = (await shell("keys", "create")).out.strip()
    assert (await shell("list", KODA_API_KEY=key)).status == 0
    assert (await shell("keys", "create", "a/b")).status == Exit.USAGE


@pytest.mark.parametrize(
    "module", ["koda_ray.cli", "koda_ray.console.job", "koda_ray.client", "koda_ray.console.database", "koda_ray.agent"]
)
def test_the_command_line_is_light(module: str) -> None:
    heavy = ("ray", "fastapi", "starlette", "anthropic", "playwright", "uvicorn")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("words", [[], ["sandbox"]])
async def test_help_says_of_each_command_what_it_does_and_cuts_no_sentence(shell: Shell, words: list[str]) -> None:
    ran = await shell(*words, "--help", COLUMNS="80", TERMINAL_WIDTH="80")
    assert ran.status == Exit.DONE and "..." not in ran.out.partition("Commands:")[2]
    assert max(map(len, ran.out.splitlines())) <= 80


def test_help_names_the_exit_statuses() -> None:
    done = subprocess.run([*KODA, "--help"], capture_output=True, text=True, check=True)
    assert "Exit status" in done.stdout and "130 interrupted" in done.stdout
    assert "Usage: koda [" in done.stdout


async def test_a_session_is_put_back_and_forked(koda: World, shell: Shell) -> None:
    made = (await shell("new", PROMPT, "--style", "playful")).out.strip()
    async with KodaClient(koda.url) as client:
        await until(client, made, "plan")
        await koda.directory.checkpoint(made, {"a.txt": b"1"})
        await client.accept(made)
        await until(client, made, "preview")
        listed = await shell("history", made)
        first = next(line.split("\t") for line in listed.out.splitlines())
        assert first[0].startswith("ckp_") and first[1] == "checkpoint" and first[4] == "test"
        back = await shell("rewind", made, first[0])
        assert back.status == 0 and back.out.startswith("plan:"), back
        undone = await shell("rewind", made, "--undo")
        assert undone.status == 0 and undone.out.startswith("preview:"), undone
        forked = (await shell("fork", made, first[0])).out.strip()
        assert (await client.session(forked)).state.forked_from == made
        assert (await client.session(forked)).state.phase == "plan"
        for words in (["rewind", made], ["rewind", made, first[0], "--undo"], ["rewind", made, "msg_1"]):
            refused = await shell(*words)
            assert refused.status != 0 and refused.err, words
        assert "history" in (await shell("fork", made, "msg_1")).err
