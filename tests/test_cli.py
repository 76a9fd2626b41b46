"""The command line as a person meets it: a process of its own, real HTTP, real files, a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.client import KodaClient
from koda_ray.commands import Answer, Ask, Command
from koda_ray.console.exits import Exit
from koda_ray.events import NewEvent
from koda_ray.state.records import JobRecord
from koda_ray.types import NodeState, Option, Question, RenderOptions
from tests.serve.scripted import CODE, VIDEO
from tests.serve.test_sessions import until
from tests.serve.world import World, free_port, reached
from tests.shell import KODA, PROMPT, KodaTerminal, Shell
from tests.shells import *  # noqa: F403 - fixtures

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


async def test_without_a_terminal_nobody_is_asked(shell: Shell, client: KodaClient) -> None:
    ran = await shell("create", PROMPT)
    assert ran.status == Exit.WAITING
    assert "question: Which style do you want? [playful, minimal]" in ran.out
    session_id = (await client.sessions()).sessions[0].id
    assert f"koda watch {session_id}" in ran.out and f"koda answer {session_id} playful" in ran.out


async def test_an_option_that_stands_for_ones_own_words_is_answered_with_some(
    koda: World, shell: Shell, client: KodaClient
) -> None:
    session_id = (await shell("new", "-", stdin=PROMPT)).out.strip()
    await until(client, session_id, "question")
    own = Question(text="Which?", reason="impossible", options=(Option(id="other", label="Something else"),))
    await koda.directory.move(session_id, Answer(text="calm"), Ask(own))
    ran = await shell("answer", session_id, "other")
    assert ran.status != Exit.DONE and "'other' stands for your own words" in " ".join(ran.err.split())
    assert (await shell("answer", session_id, "hand-drawn")).status == Exit.DONE
    await until(client, session_id, "plan")
    assert (await client.session(session_id)).state.answers[-1].text == "hand-drawn"


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
    assert (await shell("final", session_id, "--resolution", "4k", "--format", "mov", "--transparent")).status == 0
    await until(client, session_id, "complete")
    shown = await shell("show", session_id)
    assert "complete" in shown.out and "make the ball red" in shown.out and "Drop in" in shown.out
    assert f"koda save {session_id}" in shown.out
    assert json.loads((await shell("show", session_id, "--json")).out)["state"]["output"]["resolution"] == "4k"
    watched = await shell("watch", session_id, "--out", "later")
    assert watched.status == 0 and (shell.folder / "later/video.mov").exists()
    assert (await client.session(session_id)).state.render == RenderOptions(
        resolution="4k", format="mov", transparent=True
    )
    assert (await shell("watch", session_id, "--look")).status == 0
    assert not (shell.folder / "out").exists()
    listed = await shell("list")
    assert listed.out.split("\t")[:2] == [session_id, "complete"]
    deleted = await shell("delete", session_id)
    assert deleted.status == 0 and deleted.out == f"deleted {session_id}\n"
    assert (await shell("show", session_id)).status == Exit.NOT_FOUND


async def test_a_format_that_there_is_not_is_refused_before_anybody_is_asked(shell: Shell) -> None:
    for words, says in (
        (("--transparent",), "mp4 cannot be transparent: choose webm, mov or gif"),
        (("--format", "gif", "--fps", "60"), "fps 60: a gif counts in hundredths"),
        (("--format", "avi"), "none of mp4, webm, mov, gif"),
    ):
        refused = await shell("final", "ses_1", *words)
        assert refused.status == Exit.USAGE and says in " ".join(refused.err.split()), refused.err


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


async def test_what_agents_at_work_have_not_heeded_is_taken_back(koda: World, shell: Shell, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    session_id = (await shell("new", PROMPT)).out.strip()
    for words in ("make it red", "make it round"):
        assert (await shell("say", session_id, words)).status == 0
    assert (await shell("unsay", session_id)).status == 0
    (left,) = (await client.session(session_id)).state.unread
    assert left.told == "make it red" and "make it red" in (await shell("show", session_id)).out
    assert (await shell("unsay", session_id, left.id)).status == 0
    nothing, again = await shell("unsay", session_id), await shell("unsay", session_id, left.id)
    assert nothing.status != 0 and again.status != 0 and "cancel" in nothing.err and "cancel" in again.err
    assert "koda say --json" in " ".join(nothing.err.split())
    told = json.loads((await shell("say", session_id, "make it blue", "--json")).out)
    assert told["command"] == "message" and (await shell("unsay", session_id, told["commandId"])).status == 0
    assert (await client.session(session_id)).state.unread == ()


async def test_an_asset_goes_along(shell: Shell, client: KodaClient) -> None:
    (shell.folder / "logo.gif").write_bytes(b"GIF89a" + bytes(20))
    session_id = (await shell("new", "Animate this", "--asset", "logo.gif")).out.strip()
    assert [asset.name for asset in (await client.assets(session_id)).assets] == ["logo.gif"]


@pytest.mark.full
async def test_interrupted_while_a_server_runs_the_job_goes_on(koda: World, shell: Shell, client: KodaClient) -> None:
    koda.directory.hold = {"execute"}

    def sit() -> tuple[int, str]:
        terminal = KodaTerminal(shell, "create", PROMPT, "--yes")
        terminal.expect("Setting up the project")
        terminal.interrupt()
        return terminal.end(), terminal.seen

    status, seen = await asyncio.to_thread(sit)
    found = (await client.sessions()).sessions[0]
    assert status == Exit.INTERRUPTED
    assert f"koda watch {found.id}" in seen and "the job goes on" in seen
    assert found.owes == "execute"


# --- at a terminal --------------------------------------------------------------------------------------------------


async def test_a_person_at_a_terminal_is_asked_and_shown(
    koda: World, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = KodaTerminal(shell, "create", "Create a bouncing ball", "--out", "made")
    move = koda.directory.move

    async def move_and_be_seen(session_id: str, *orders: Command, events: tuple[NewEvent, ...] = ()) -> NodeState:
        # the screen is drawn some times a second: what comes and goes between two drawings is not there to be seen
        state = await move(session_id, *orders, events=events)
        for event in events:
            wanted = {"code_chunk": "export", "render_progress": str(event.data.get("stage"))}.get(event.type, "")
            await reached(lambda wanted=wanted: wanted in terminal.seen)
        return state

    tell = koda.directory.tell

    async def tell_and_be_seen(job: JobRecord, *events: NewEvent) -> None:
        await tell(job, *events)
        for stage in [str(event.data["stage"]) for event in events if event.type == "render_progress"]:
            await reached(lambda stage=stage: stage in terminal.seen)

    monkeypatch.setattr(koda.directory, "move", move_and_be_seen)
    monkeypatch.setattr(koda.directory, "tell", tell_and_be_seen)

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
        terminal = KodaTerminal(shell, "create", "Create a bouncing ball")
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
