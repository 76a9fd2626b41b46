"""What the command line leaves in a folder: whose it is, what is in it, and what becomes of it when saving fails."""

from __future__ import annotations

import json
import re

import pytest

from koda_ray.client import KodaClient
from koda_ray.console.exits import Exit
from tests.disks import small
from tests.serve.scripted import CODE, VIDEO
from tests.serve.test_sessions import until
from tests.serve.world import World
from tests.shell import PROMPT, Shell
from tests.shells import *  # noqa: F403 - fixtures


async def test_the_folder_is_named_by_the_prompt(shell: Shell) -> None:
    ran = await shell("demo", "Count down from 5")
    assert ran.status == Exit.DONE and "make it twice as fast" in ran.out and "ball" not in ran.out
    assert ran.out.rstrip().endswith("koda open")
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
