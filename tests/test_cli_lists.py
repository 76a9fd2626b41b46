"""What the command line lists and changes by name: uploads, sessions, events, renders, limits and keys."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from koda_ray.client import KodaClient
from koda_ray.console.exits import Exit
from koda_ray.types import Budget
from koda_ray.wire import PageOptions
from tests.serve.test_sessions import until
from tests.serve.test_usage import charge
from tests.serve.world import World
from tests.shell import KODA, PROMPT, Shell
from tests.shells import *  # noqa: F403 - fixtures


async def test_uploads_are_listed_and_removed(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    asset = (await shell("asset", "upload", str(tmp_path / "cat.png"))).out.strip()
    listed = await shell("asset", "list")
    assert listed.out.split("\t") == [asset, "image/png", "72", "-", "cat.png\n"]
    assert (await shell("asset", "remove", asset)).out == f"{asset}\n"
    gone = await shell("asset", "remove", asset)
    assert gone.status != 0 and asset in gone.err
    assert json.loads((await shell("asset", "list", "--json")).out) == {"assets": [], "next": None}


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


async def test_a_session_is_listed_by_the_title_that_it_was_given(shell: Shell, client: KodaClient) -> None:
    session_id = (await client.create(PROMPT)).session_id
    assert (await shell("label", session_id, "--title", "The  ball", "--pin")).status == Exit.DONE
    assert (await shell("list")).out.splitlines()[0].split("\t")[-1] == "The ball"
    assert "The ball" in (await shell("show", session_id)).out
    assert (await shell("label", session_id, "--title", "")).status == Exit.DONE
    (found,) = (await client.sessions()).sessions
    assert (found.title, found.pinned) == (None, True)
    assert (await shell("list")).out.splitlines()[0].split("\t")[-1] == PROMPT
    assert (await shell("label", session_id)).status == Exit.USAGE
    assert (await shell("label", "ses_unknown", "--pin")).status == Exit.NOT_FOUND


async def test_a_session_is_had_back_that_was_deleted_so(koda: World, shell: Shell, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    session_id = (await client.create(PROMPT)).session_id
    deleted = await shell("delete", session_id, "--undo", "600")
    assert deleted.out == f"deleted {session_id}; within 600 s: koda restore {session_id}\n"
    assert (await shell("show", session_id)).status == Exit.NOT_FOUND
    assert (await shell("restore", session_id)).status == Exit.DONE
    assert session_id in (await shell("list")).out
    assert (await shell("restore", "ses_unknown")).status == Exit.NOT_FOUND
    assert (await shell("delete", "job_1", "--undo", "600")).status == Exit.USAGE


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
    made = [(await client.render_page(tmp_path / "page", PageOptions(duration=1.0, seed=seed))).id for seed in (1, 2)]
    assert (await shell("cancel", made[0])).out == "cancelled\n"
    assert (await shell("events", made[0])).status == Exit.DONE  # it is over, so they come to an end
    listed = [line.split("\t")[:2] for line in (await shell("renders")).out.splitlines()]
    assert listed == [[made[1], "queued"], [made[0], "cancelled"]]
    first = json.loads((await shell("renders", "--limit", "1", "--json")).out)
    alone = {"KODA_SERVER": "", "KODA_RUNFILE": "none.json"}
    assert (await shell("renders", "--before", first["next"], **alone)).out.startswith(made[0])
    assert (await shell("renders", "--status", "cancelled", **alone)).out.startswith(made[0])
    assert (await shell("renders", "--status", "lost")).status == Exit.USAGE
    for where in ({}, alone):  # what a page is called, and how its id begins
        assert (await shell("renders", "--text", f"Page {made[0]}", **where)).out.startswith(made[0])
        none = (await shell("renders", "--text", "nothing-is-called-so", "--json", **where)).out
        assert json.loads(none) == {"renders": [], "next": None}
        none = (await shell("renders", "--text", "[so] named", "--status", "failed", **where)).out
        said = "No failed renders with the words '[so] named' in their page's file, row and data."
        assert " ".join(none.split()) == f"{said} All there are: koda renders"
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
    assert (await shell("budget", made, "--tokens", "none")).status == 0
    assert (await client.session(made)).state.budget == Budget(cost_usd=3)


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


async def test_a_session_is_put_back_and_forked(koda: World, shell: Shell) -> None:
    made = (await shell("new", PROMPT, "--style", "playful")).out.strip()
    async with KodaClient(koda.url) as client:
        await until(client, made, "plan")
        await koda.directory.checkpoint(made, {"a.txt": b"1"})
        await client.accept(made)
        await until(client, made, "preview")
        listed = await shell("history", made)
        first = listed.out.splitlines()[-1].split("\t")  # the newest stands first
        assert first[0].startswith("ckp_") and first[1] == "checkpoint" and first[4] == "test"
        back = await shell("rewind", made, first[0])
        assert back.status == 0 and back.out.startswith("plan:"), back
        undone = await shell("rewind", made, "--undo")
        assert undone.status == 0 and undone.out.startswith("preview:"), undone
        (version,) = (await shell("versions", made)).out.splitlines()
        shown = version.split("\t")
        assert shown[0].startswith("ver_") and shown[1:3] == ["1", "current"] and shown[4] == PROMPT
        assert json.loads((await shell("versions", made, "--json")).out)["versions"][0]["id"] == shown[0]
        there = await shell("rewind", made, shown[0])
        assert there.status == 0 and there.out.startswith("preview:"), there
        forked = (await shell("fork", made, first[0])).out.strip()
        assert (await client.session(forked)).state.forked_from == made
        assert (await client.session(forked)).state.phase == "plan"
        for words in (["rewind", made], ["rewind", made, first[0], "--undo"], ["rewind", made, "msg_1"]):
            refused = await shell(*words)
            assert refused.status != 0 and refused.err, words
        assert "history" in (await shell("fork", made, "msg_1")).err
