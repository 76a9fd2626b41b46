"""A session's final videos at the command line: listed, deleted one by one, and an older one saved with its source."""

from __future__ import annotations

import asyncio
import json

from koda_ray.client import KodaClient
from koda_ray.console.exits import Exit
from koda_ray.state.keys import video_key
from koda_ray.types import RenderOptions
from tests.serve.scripted import VIDEO
from tests.serve.test_finals import made
from tests.serve.test_jobs import previewed, under_way
from tests.serve.test_sessions import until
from tests.serve.world import World
from tests.shell import Shell
from tests.shells import *  # noqa: F403 - fixtures


async def test_finals_are_listed_by_number_and_deleted_by_job(koda: World, shell: Shell, client: KodaClient) -> None:
    session_id, (old, new) = await made(koda, client, "gif", "mp4")
    listed = [line.split("\t") for line in (await shell("finals", session_id)).out.splitlines()]
    assert [(number, job) for number, job, *_ in listed] == [("2", new), ("1", old)]
    assert listed[1][3].startswith("gif · 1280x720 · 30 fps · 5.0 s")
    assert [each["id"] for each in json.loads((await shell("finals", session_id, "--json")).out)["renders"]] == [
        new,
        old,
    ]
    assert (await shell("delete", old)).out == f"deleted {old}\n"
    assert (await shell("finals", session_id)).out.startswith(f"1\t{new}\t")
    gone = await shell("delete", old)
    assert gone.status == Exit.NOT_FOUND and old in gone.err
    preview = (await client.session(session_id)).state.preview
    assert preview is not None
    refused = await shell("delete", preview.job_id)
    assert refused.status == Exit.USAGE and f"a preview of session {session_id}" in refused.err
    assert (await shell("finals", "ses_unknown")).status == Exit.NOT_FOUND


async def test_a_final_that_is_being_rendered_is_not_deleted(koda: World, shell: Shell, client: KodaClient) -> None:
    session_id = await previewed(koda, client)
    koda.directory.rendering = asyncio.Event()
    await client.render(session_id, RenderOptions())
    job = await under_way(client, session_id, "final")
    refused = await shell("delete", job.id)
    assert refused.status == Exit.REFUSED and "cancel it first" in refused.err
    assert (await shell("finals", session_id)).out == ""


async def test_an_older_final_is_saved_with_the_source_that_it_was_made_of(
    koda: World, shell: Shell, client: KodaClient
) -> None:
    session_id, (old,) = await made(koda, client, "gif")
    koda.directory.bundle = "1" * 64
    await client.changes(session_id, "make it red")
    await until(client, session_id, "preview")
    await client.accept(session_id)
    await until(client, session_id, "complete")
    folder, scene = shell.folder / "ball", shell.folder / "ball/source/src/scenes/S1.tsx"
    for which in ("1", old):
        ran = await shell("save", session_id, "--final", which, "--out", "ball")
        assert ran.status == Exit.DONE, ran.err
        assert (folder / "video.gif").read_bytes() == VIDEO["final"] and "video.gif" in ran.out
        assert not (folder / "video.mp4").exists() and "// make it red" not in scene.read_text()
        told = json.loads((folder / "report.json").read_text())
        assert told["videos"]["video.gif"] == old and "preview.mp4" in told["videos"]
        output = told["output"]
        assert (output["jobId"], output["format"]) == (old, "gif")
        assert (output["resolution"], output["duration"], output["fps"]) == ("1280x720", 5.0, 30)
    assert (await shell("save", session_id, "--out", "ball")).status == Exit.DONE
    assert (folder / "video.gif").exists() and "// make it red" in scene.read_text(), "asked for as a gif the last time"
    assert json.loads((folder / "report.json").read_text())["videos"]["video.gif"] != old


async def test_who_names_a_final_that_is_not_there_is_told_what_is(
    koda: World, shell: Shell, client: KodaClient
) -> None:
    session_id, (old, new) = await made(koda, client, "gif", "mp4")
    for wrong in ("3", "0", "job_none"):
        ran = await shell("save", session_id, "--final", wrong, "--out", "ball")
        assert ran.status == Exit.NOT_FOUND and f"no final video '{wrong}'; it has:" in ran.err
        assert [line.split()[:3] for line in ran.err.splitlines()[1:]] == [["1", old, "gif"], ["2", new, "mp4"]]
    assert not (shell.folder / "ball").exists()
    none = await previewed(koda, client)
    ran = await shell("save", none, "--final", "1")
    assert ran.status == Exit.NOT_FOUND and f"has no final video; render one with: koda final {none}" in ran.err


async def test_a_final_that_was_chosen_and_is_gone_is_an_error_and_what_was_saved_before_stays(
    koda: World, shell: Shell, client: KodaClient
) -> None:
    session_id, (old, _) = await made(koda, client, "gif", "mp4")
    folder = shell.folder / "ball"
    assert (await shell("save", session_id, "--out", "ball")).status == Exit.DONE
    before = {path: path.stat().st_ino for path in folder.rglob("*")}
    await koda.storage.delete(video_key("local", old, "gif"))  # as if it were deleted once it was chosen
    ran = await shell("save", session_id, "--final", old, "--out", "ball")
    assert ran.status == Exit.NOT_FOUND and f"final video {old} of session {session_id}" in ran.err
    assert {path: path.stat().st_ino for path in folder.rglob("*")} == before


async def test_what_is_left_of_both_videos_is_saved(koda: World, shell: Shell, client: KodaClient) -> None:
    session_id, (job,) = await made(koda, client, "mp4")
    preview = (await client.session(session_id)).state.preview
    assert preview is not None
    names = {"report.json", "thumbnail.jpg", "source"}
    await client.delete_final(session_id, job)
    assert (await shell("save", session_id, "--out", "preview")).status == Exit.DONE
    assert {path.name for path in (shell.folder / "preview").iterdir()} == {*names, "preview.mp4"}
    await client.render(session_id)
    await until(client, session_id, "complete")
    await koda.storage.delete(video_key("local", preview.job_id, "mp4"))  # as it goes after a while
    assert (await shell("save", session_id, "--out", "final")).status == Exit.DONE
    assert {path.name for path in (shell.folder / "final").iterdir()} == {*names, "video.mp4"}
    (last,) = (await client.finals(session_id)).renders
    await client.delete_final(session_id, last.id)
    ran = await shell("save", session_id, "--out", "nothing")
    assert ran.status == Exit.NOT_FOUND and f"koda final {session_id}" in ran.err
    assert list((shell.folder / "nothing").iterdir()) == []
