"""One final video of several goes over HTTP: what goes with it, what stays, and what is said of it from then on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.commands import Pause
from koda_ray.errors import Conflict, NotFound
from koda_ray.state.keys import render_prefix, video_key
from koda_ray.state.records import VIDEO_SWEPT
from koda_ray.types import Option, Question, RenderOptions

from .scripted import VIDEO
from .test_jobs import KEYS, over, previewed, under_way
from .test_sessions import until
from .world import World, world


async def made(koda: World, client: KodaClient, *forms: str) -> tuple[str, list[str]]:
    """Make a session with a final video in each of some formats; return its id and the jobs that made them."""
    session_id = await previewed(koda, client)
    jobs: list[str] = []
    for form in forms:
        await client.render(session_id, RenderOptions.model_validate({"format": form, "resolution": "720p"}))
        state = await until(client, session_id, "complete")
        assert state.output is not None
        jobs.append(state.output.job_id)
    return session_id, jobs


async def left(client: KodaClient, session_id: str) -> list[str]:
    """Return which final videos a session has, oldest first."""
    return [each.id for each in (await client.finals(session_id)).renders][::-1]


async def test_an_older_final_goes_and_all_else_of_its_session_stays(koda: World, client: KodaClient) -> None:
    session_id, (old, new) = await made(koda, client, "gif", "mp4")
    row = await koda.store.get_job(old)
    await koda.store.update_job(replace(row, stored_bytes=1 << 20))
    before, stored = await client.session(session_id), await koda.store.stored_bytes("local")
    activations = koda.directory.activations
    assert [each.id for each in (await client.finals(session_id, limit=1)).renders] == [new]
    await client.delete_final(session_id, old)
    assert await left(client, session_id) == [new]
    assert await koda.storage.list(render_prefix("local", old)) == []
    assert await koda.store.stored_bytes("local") == stored - (1 << 20)
    assert await client.session(session_id) == before and koda.directory.activations == activations
    with pytest.raises(NotFound, match=f"no final video '{old}'"):
        await client.delete_final(session_id, old)
    with pytest.raises(NotFound):
        await client.job(old)


async def test_where_what_is_shown_was_deleted_the_preview_is(
    koda: World, client: KodaClient, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    session_id, (old, shown) = await made(koda, client, "mp4", "webm")
    base = f"/v1/sessions/{session_id}"
    await client.delete_final(session_id, shown)
    view = await client.session(session_id)
    assert view.state.phase == "complete" and view.state.preview is not None and view.state.output is None
    assert (await client.label(session_id, title="Ball")).state.output is None
    preview = view.state.preview.job_id
    assert (await http.get(f"{base}/video")).content == VIDEO["preview"]
    assert (await http.get(f"{base}/video?job={old}")).content == VIDEO["final"]
    gone = await http.get(f"{base}/video?kind=final")
    assert (gone.status_code, gone.json()["code"]) == (404, "VIDEO_DELETED")
    assert (await http.get(f"{base}/video?job={shown}")).status_code == 404
    (listed,) = (await client.sessions()).sessions
    assert listed.video_url == f"{base}/video?job={preview}"
    assert listed.thumbnail_url == f"{base}/thumbnail?job={preview}"
    (version,) = (await client.versions(session_id)).versions
    assert version.final_url is None
    assert (await client.label_version(session_id, version.id, starred=True)).final_url is None
    assert (await client.compare(session_id, version.id, old)).b.job_id == old
    with pytest.raises(NotFound):
        await client.compare(session_id, version.id, shown)
    await client.render(session_id, RenderOptions(format="webm", resolution="720p"))
    state = await until(client, session_id, "complete")
    assert state.output is not None and state.output.job_id not in (old, shown)
    assert await client.download(session_id, tmp_path / "again.webm", kind="final") == len(VIDEO["final"])
    (version,) = (await client.versions(session_id)).versions
    assert version.final_url == f"{base}/video?job={state.output.job_id}"


async def test_where_the_preview_is_gone_as_well_the_way_out_is_told(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id, (job,) = await made(koda, client, "mp4")
    preview = (await client.session(session_id)).state.preview
    assert preview is not None
    await koda.storage.delete(video_key("local", preview.job_id, "mp4"))  # as it goes after a while
    base = f"/v1/sessions/{session_id}"
    assert (await http.get(f"{base}/video")).status_code == 200
    await client.delete_final(session_id, job)
    for asked in ("video", "video?kind=preview", f"video?job={preview.job_id}", "media"):
        answer = await http.get(f"{base}/{asked}")
        told = answer.json()
        assert (answer.status_code, told["code"]) == (404, "VIDEO_DELETED"), asked
        assert f"POST {base}/render" in told["detail"] and f"koda final {session_id}" in told["detail"]
    assert (await http.get(f"{base}/thumbnail")).status_code == 200
    row = await koda.store.get_job(preview.job_id)
    await koda.store.update_job(replace(row, result={**(row.result or {}), VIDEO_SWEPT: True}))
    (listed,) = (await client.sessions()).sessions
    assert (listed.video_url, listed.thumbnail_url) == (None, f"{base}/thumbnail?job={preview.job_id}")


async def test_a_link_to_a_final_that_was_deleted_has_ended_and_keeps_what_was_said(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id, (old, new) = await made(koda, client, "gif", "mp4")
    lost, kept = [await client.share(session_id, job=job, comments=True, key=f"to {job}") for job in (old, new)]
    await client.comment(lost.token, "nice")
    await client.delete_final(session_id, old)
    for path in ("", "/video", "/thumbnail"):
        answer = await http.get(f"/v1/shares/{lost.token}{path}")
        assert answer.status_code == 404 and "nothing behind this link" in answer.json()["detail"]
        assert (await http.get(f"/v1/shares/{kept.token}{path}")).status_code == 200
    ended = {each.id: each.ended for each in (await client.shares(session_id)).shares}
    assert ended == {lost.id: True, kept.id: False}
    told = await client.share_comments(session_id, lost.id)
    assert told.ended and [each.text for each in told.said] == ["nice"]
    assert (await client.share(session_id, job=old, comments=True, key=f"to {old}")).ended
    await client.revoke_share(session_id, lost.id)
    with pytest.raises(NotFound):
        await client.share(session_id, job=old)


async def test_a_final_that_is_being_rendered_is_to_be_cancelled_first(koda: World, client: KodaClient) -> None:
    session_id = await previewed(koda, client)
    koda.directory.rendering = asyncio.Event()
    await client.render(session_id, RenderOptions())
    job = await under_way(client, session_id, "final")
    with pytest.raises(Conflict, match="cancel it first"):
        await client.delete_final(session_id, job.id)
    row = await koda.store.get_job(job.id)
    await koda.directory.tell(replace(row, status="succeeded"))  # its session is about to say so
    with pytest.raises(Conflict, match="cancel it first"):
        await client.delete_final(session_id, job.id)
    await koda.directory.tell(row)
    await client.cancel_job(job.id)
    assert await over(client, job.id) == "cancelled"
    await client.delete_final(session_id, job.id)
    assert (await until(client, session_id, "preview")).output is None


async def test_a_final_that_its_session_goes_on_with_stays(koda: World, client: KodaClient) -> None:
    session_id = await previewed(koda, client)
    koda.directory.fails = {"render_final": "the page was silent"}
    await client.render(session_id, RenderOptions())
    await until(client, session_id, "error")
    (job,) = (await client.jobs(session_id)).jobs[:1]
    assert (job.kind, job.status) == ("final", "failed")
    with pytest.raises(Conflict, match=f"retry it .POST /v1/sessions/{session_id}/retry"):
        await client.delete_final(session_id, job.id)
    koda.directory.hold = {"render_final"}
    await client.retry(session_id)
    question = Question(text="May it cost more?", reason="budget", options=(Option(id="stop", label="Stop"),))
    await koda.directory.move(session_id, Pause(question, "cost", session_id, 1_000_000, 2_000_000))
    assert (await client.session(session_id)).state.paused is not None
    with pytest.raises(Conflict, match=f"cancel it first .POST /v1/sessions/{session_id}/cancel"):
        await client.delete_final(session_id, job.id)
    await client.cancel(session_id)
    await client.delete_final(session_id, job.id)
    with pytest.raises(NotFound):
        await client.job(job.id)


async def test_a_final_that_is_rendered_again_the_moment_it_is_deleted_stays(
    koda: World, client: KodaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, (job,) = await made(koda, client, "mp4")
    delete = koda.store.delete_job

    async def late(*of: Any, **how: Any) -> bool:
        row = await koda.store.get_job(job)
        await koda.directory.tell(replace(row, status="running"))
        return await delete(*of, **how)

    monkeypatch.setattr(koda.store, "delete_job", late)
    with pytest.raises(Conflict, match="cancel it first"):
        await client.delete_final(session_id, job)
    assert await koda.storage.list(render_prefix("local", job)) != []


async def test_what_a_session_that_was_made_of_this_one_shows_stays_until_that_lets_it_go(
    koda: World, client: KodaClient, tmp_path: Path
) -> None:
    session_id, (job,) = await made(koda, client, "mp4")
    await koda.store.update_job(replace(await koda.store.get_job(job), stored_bytes=1 << 20))
    fork = (await client.fork(session_id)).session_id
    stored = await koda.store.stored_bytes("local")
    await client.delete_final(session_id, job)
    assert await client.download(fork, tmp_path / "ball.mp4", kind="final") == len(VIDEO["final"])
    assert await koda.store.stored_bytes("local") == stored, "what lies there counts for who shows it"
    (own,) = await left(client, fork)
    await client.delete_final(fork, own)
    assert await koda.storage.list(render_prefix("local", job)) == []
    assert await koda.store.stored_bytes("local") == stored - (1 << 20)
    again = (await client.fork(session_id)).session_id
    (listed,) = [each for each in (await client.sessions()).sessions if each.id == again]
    state = (await client.session(again)).state
    preview = state.preview
    assert (
        preview is not None
        and state.output is None
        and listed.video_url == f"/v1/sessions/{again}/video?job={preview.job_id}"
    )


async def test_nothing_else_is_deleted_by_it(koda: World, client: KodaClient) -> None:
    session_id, (job,) = await made(koda, client, "mp4")
    other, _ = await made(koda, client, "mp4")
    state = (await client.session(session_id)).state
    assert state.preview is not None
    for of, named in ((session_id, state.preview.job_id), (other, job), (session_id, "job_none"), ("ses_none", job)):
        with pytest.raises(NotFound):
            await client.delete_final(of, named)
    assert await left(client, session_id) == [job]


async def test_another_persons_final_is_not_there(tmp_path: Path) -> None:
    async with world(tmp_path, **KEYS) as koda, KodaClient(koda.url, key="a" * 32) as ann:
        session_id, (job,) = await made(koda, ann, "mp4")
        async with KodaClient(koda.url, key="b" * 32) as bob:
            with pytest.raises(NotFound):
                await bob.delete_final(session_id, job)
        assert await left(ann, session_id) == [job]
