"""Render jobs of sessions and of pages over HTTP: listed together, cancelled and made again in one way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import Conflict, InvalidTransition, NotFound
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.state.keys import bundle_key
from koda_ray.state.records import JobRecord
from koda_ray.types import RenderOptions, now
from koda_ray.wire import PageOptions, RenderSummary

from .test_sessions import until
from .world import World, world

KEYS = {"KODA_API_KEYS": "ann=" + "a" * 32 + ",bob=" + "b" * 32}
SMALL = PageOptions(width=160, height=90, fps=10, duration=1.0)


async def previewed(koda: World, client: KodaClient, prompt: str = "A ball") -> str:
    """Make a session that shows its preview; return its id."""
    koda.directory.asks = False
    session_id = (await client.create(prompt)).session_id
    await until(client, session_id, "plan")
    await client.accept(session_id)
    await until(client, session_id, "preview")
    return session_id


async def under_way(client: KodaClient, session_id: str, kind: str) -> RenderSummary:
    """Wait until a session renders something, and is in the middle of it."""
    async with asyncio.timeout(60):
        while True:
            for one in (await client.page_renders(session=session_id, status=["running"])).renders:
                if one.kind == kind and one.stage is not None:
                    return one
            await asyncio.sleep(0.01)


async def over(client: KodaClient, job_id: str) -> str:
    """Wait until a job is over; return as what."""
    async with asyncio.timeout(60):
        while (status := (await client.job(job_id)).status) in ("queued", "running"):
            await asyncio.sleep(0.01)
    return status


async def test_a_list_says_what_is_rendered_for_whom_and_how_far_it_is(koda: World, client: KodaClient) -> None:
    session_id = await previewed(koda, client, "A ball\nthat   bounces")
    koda.directory.rendering = asyncio.Event()
    await client.render(session_id, RenderOptions(resolution="720p", fps=30, format="webm"))
    one = await under_way(client, session_id, "final")
    assert (one.title, one.stage, one.frames_done, one.frames_total) == ("A ball that bounces", "capturing", 1, 75)
    assert one.percent == 10.0 and one.seconds_left == 4.5 and one.video_url is None
    assert (one.width, one.height, one.fps, one.format, one.file_size) == (1280, 720, 30, "webm", None)
    await client.label(session_id, title="Bounce")
    koda.directory.rendering.set()
    assert await over(client, one.id) == "succeeded"
    found = (await client.page_renders(kinds=["final", "preview"])).renders
    assert [(each.kind, each.title) for each in found] == [("final", "Bounce"), ("preview", "Bounce")]
    done = found[0]
    assert (done.stage, done.frames_done, done.seconds_left, done.percent) == (None, None, None, 100.0)
    assert done.file_size is not None and done.file_size > 0


async def test_a_sessions_final_is_cancelled_by_its_job_and_nothing_else_with_it(
    koda: World, client: KodaClient
) -> None:
    session_id = await previewed(koda, client)
    koda.directory.rendering = asyncio.Event()
    await client.render(session_id, RenderOptions())
    job = await under_way(client, session_id, "final")
    assert (await client.cancel_job(job.id)).id == job.id
    assert await over(client, job.id) == "cancelled"
    state = await until(client, session_id, "preview")
    assert state.output is None
    assert (await client.cancel_job(job.id)).status == "cancelled"  # it stays as it is
    again = await client.render_again(job.id)
    assert again.session_id == session_id and again.job_id not in (None, job.id)
    late = await koda.store.get_job(job.id)
    await koda.directory.tell(replace(late, status="running"))
    with pytest.raises(InvalidTransition, match="not what is under way any more"):  # another final is
        await client.cancel_job(job.id)
    assert (await client.session(session_id)).state.owes == "render_final"


async def test_a_preview_is_cancelled_with_its_agents_work_while_that_goes_on(koda: World, client: KodaClient) -> None:
    session_id = await previewed(koda, client)
    koda.directory.rendering = asyncio.Event()
    await client.changes(session_id, "make it red")
    job = await under_way(client, session_id, "preview")
    await client.cancel_job(job.id)
    assert await over(client, job.id) == "cancelled"
    assert (await until(client, session_id, "preview")).preview is not None
    with pytest.raises(Conflict, match="is a preview"):
        await client.render_again(job.id)
    koda.directory.rendering = asyncio.Event()
    await client.render(session_id, RenderOptions())
    final = await under_way(client, session_id, "final")
    await koda.directory.tell(replace(await koda.store.get_job(job.id), status="running"))
    with pytest.raises(InvalidTransition):  # its agents are not at work: the final goes on
        await client.cancel_job(job.id)
    assert (await client.job(final.id)).status == "running"


async def test_a_render_that_a_killed_process_left_behind_is_ended_where_its_session_rests(
    koda: World, client: KodaClient
) -> None:
    session_id = await previewed(koda, client)
    (preview,) = (await client.page_renders(session=session_id)).renders
    left = replace(await koda.store.get_job(preview.id), id="job_left", status="running", created_at=now())
    await koda.directory.tell(left)
    before = (await client.session(session_id)).state
    assert (await client.cancel_job(left.id)).status == "cancelled"
    assert (await client.session(session_id)).state == before
    assert (await client.job(preview.id)).status == "succeeded"


async def test_a_final_is_rendered_again_as_it_was_while_its_session_shows_it(koda: World, client: KodaClient) -> None:
    session_id = await previewed(koda, client)
    await client.render(session_id, RenderOptions(resolution="720p", fps=30, format="webm", transparent=True))
    await until(client, session_id, "complete")
    (first,) = (await client.page_renders(session=session_id, kinds=["final"])).renders
    koda.directory.rendering = asyncio.Event()
    made = await client.render_again(first.id, key="once")
    assert await client.render_again(first.id, key="once") == made and made.job_id != first.id
    with pytest.raises(Conflict, match="cancel it first"):
        await client.render_again(str(made.job_id))
    koda.directory.rendering.set()
    state = await until(client, session_id, "complete")
    assert state.output is not None and state.output.job_id == made.job_id
    finals = (await client.page_renders(session=session_id, kinds=["final"])).renders
    pictures = {(one.width, one.height, one.fps, one.format, one.transparent) for one in finals}
    assert len(finals) == 2 and pictures == {(1280, 720, 30.0, "webm", True)}
    koda.directory.bundle = "1" * 64
    await client.changes(session_id, "make it red")
    await until(client, session_id, "preview")
    with pytest.raises(Conflict, match="shows another version"):
        await client.render_again(first.id)


async def test_a_final_that_failed_is_taken_up_again(koda: World, client: KodaClient) -> None:
    session_id = await previewed(koda, client)
    koda.directory.fails = {"render_final": "the page was silent"}
    await client.render(session_id, RenderOptions())
    await until(client, session_id, "error")
    (failed,) = (await client.page_renders(session=session_id, status=["failed"])).renders
    assert failed.error == {"code": "RENDER_FAILED", "message": "the page was silent"}
    again = await client.render_again(failed.id)
    assert again.session_id == session_id and again.job_id == failed.id
    await until(client, session_id, "complete")
    assert (await client.job(failed.id)).status == "succeeded"


async def test_a_page_is_rendered_again_as_it_was(koda: World, client: KodaClient, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text("<h1>Hello")
    batch = await client.render_batch(page, [{"name": "Ada"}, {"name": "Eve"}], SMALL)
    second = batch.render_ids[1]
    with pytest.raises(Conflict, match="cancel it first"):
        await client.render_again(second)
    assert (await client.cancel_job(second)).status == "cancelled"
    made = await client.render_again(second, key="k")
    assert await client.render_again(second, key="k") == made and made.session_id is None
    before, after = await client.page_render(second), await client.page_render(str(made.job_id))
    assert (after.request, after.bundle, after.entry) == (before.request, before.bundle, before.entry)
    assert after.request["props"] == '{"name": "Eve"}' and (after.batch_id, after.status) == (None, "queued")
    first = batch.render_ids[0]
    await client.cancel_job(first)
    with pytest.raises(Conflict, match="used for another render"):
        await client.render_again(first, key="k")
    await koda.storage.delete(bundle_key("local", batch.bundle))
    with pytest.raises(NotFound, match="not kept any more"):
        await client.render_again(first)
    assert len((await client.page_renders()).renders) == 3


async def test_a_page_that_another_version_rendered_is_not_made_again(koda: World, client: KodaClient) -> None:
    bundle = await store_bundle(koda.storage, "local", Bundle({"index.html": b"<h1>Hello"}))
    job = await koda.store.get_job((await client.render_page(bundle, SMALL)).id)
    for number, request in enumerate(({"colour": "red"}, None, "small", {"audio": [{"volume": 1}]})):
        spec = {**job.spec, "request": request}
        if request is None:
            del spec["request"]
        await koda.store.create_job(replace(job, id=f"job_{number}", spec=spec, status="failed", lease_until=None))
        with pytest.raises(Conflict, match="ask for it anew"):
            await client.render_again(f"job_{number}")


async def test_jobs_are_their_owners(tmp_path: Path) -> None:
    async with (
        world(tmp_path, **KEYS) as koda,
        KodaClient(koda.url, key="a" * 32) as ann,
        httpx.AsyncClient(base_url=koda.url, timeout=60, headers={"Authorization": "Bearer " + "b" * 32}) as bob,
    ):
        bundle = await store_bundle(koda.storage, "ann", Bundle({"index.html": b"<h1>Hello"}))
        mine = await ann.render_page(bundle, SMALL)
        session_id = await previewed(koda, ann)
        (preview,) = (await ann.page_renders(session=session_id)).renders
        final = replace(await koda.store.get_job(preview.id), id="job_final", kind="final", created_at=now())
        await koda.directory.tell(final)
        for job_id in (mine.id, preview.id, final.id, "job_none"):
            for what in ("cancel", "again"):
                refused = await bob.post(f"/v1/jobs/{job_id}/{what}")
                assert refused.status_code == 404, (job_id, what)
        assert (await bob.get("/v1/renders", params={"kind": ["render", "preview"]})).json()["renders"] == []
        row: JobRecord = await koda.store.get_job(mine.id)
        assert row.status == "queued"
