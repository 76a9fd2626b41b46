"""Batches over HTTP: one page, many rows, recorded together or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from koda_ray.actors.leased_job import LeasedJob
from koda_ray.client import KodaClient
from koda_ray.console.exits import Exit
from koda_ray.errors import Conflict, InvalidInput, NotFound
from koda_ray.render.browser import Browser
from koda_ray.render.local import LocalExecutor
from koda_ray.serve.batches import MADE_SURE
from koda_ray.state.sql import SqlStore
from koda_ray.types import now
from koda_ray.wire import MAX_BATCH_ROWS, BatchCreated, PageOptions
from tests.shell import Shell

from .test_renders import KEYS, SMALL, zipped
from .world import World, world

PAGE = """<!doctype html><body style="margin:0"><script>
document.body.style.background = window.__kodaProps.colour || "black"
requestAnimationFrame(function step(t) {
    document.body.style.padding = `${t % 40}px`
    requestAnimationFrame(step)
})
</script><b>hello</b>"""
OPTIONS = PageOptions.model_validate({**SMALL, "duration": 0.5})
URL = "/v1/renders/batches"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "index.html").write_text(PAGE)
    return folder


@pytest.fixture
async def browsers(koda: World) -> AsyncIterator[World]:
    async with LocalExecutor(workers=1) as koda.directory.executor:
        yield koda
        await koda.directory.close()


async def send(http: httpx.AsyncClient, rows: object, **options: object) -> httpx.Response:
    form = {"rows": rows if isinstance(rows, str) else json.dumps(rows), "options": json.dumps({**SMALL, **options})}
    files = {"file": ("page.zip", zipped({"index.html": PAGE}), "application/zip")}
    return await http.post(URL, files=files, data=form)


@pytest.mark.browser
async def test_each_row_becomes_a_video_of_its_own(browsers: World, client: KodaClient, page: Path) -> None:
    made = await client.render_batch(page, [{"colour": "red"}, {"colour": "blue", "extra": None}], OPTIONS, key="one")
    async with asyncio.timeout(120):
        while len((await client.page_renders(batch=made.id, status=["succeeded", "failed"])).renders) < 2:
            await asyncio.sleep(0.05)
    listed = await client.page_renders(batch=made.id, status=["succeeded"])
    assert [one.id for one in listed.renders] == list(made.render_ids)
    assert [(one.row, one.batch_id) for one in listed.renders] == [(1, made.id), (2, made.id)]
    views = [await client.page_render(render_id) for render_id in made.render_ids]
    assert [json.loads(str(view.request["props"])) for view in views] == [
        {"colour": "red"}, {"colour": "blue", "extra": None}
    ]  # fmt: skip
    hashes = {str((view.result or {})["frameHash"]) for view in views}
    assert len(hashes) == 2
    again = await client.render_batch(page, [{"colour": "red"}, {"colour": "blue", "extra": None}], OPTIONS, key="one")
    assert again == made
    with pytest.raises(Conflict, match="'one'"):
        await client.render_batch(page, [{"colour": "red"}], OPTIONS, key="one")


async def test_a_batch_is_recorded_in_the_order_of_its_rows(koda: World, client: KodaClient, page: Path) -> None:
    bundle = (await client.render_page(page, OPTIONS)).bundle
    rows = [{"n": number} for number in range(MAX_BATCH_ROWS)]
    made = await client.render_batch(bundle, rows, OPTIONS)
    assert (made.bundle, len(made.render_ids)) == (bundle, MAX_BATCH_ROWS)
    first = await client.page_renders(batch=made.id, limit=200)
    second = await client.page_renders(batch=made.id, limit=200, before=first.next)
    assert [one.row for one in (*first.renders, *second.renders)] == list(range(1, 401))
    owed = await koda.store.owed(now() + MADE_SURE, limit=10)  # the render of the page came first
    assert [work.id for work in owed[1:]] == list(made.render_ids[:9])
    await client.cancel_page_render(made.render_ids[3])
    assert [one.row for one in (await client.page_renders(batch=made.id, status=["cancelled"])).renders] == [4]
    assert len((await client.page_renders(status=["cancelled"])).renders) == 1


async def test_a_batch_is_counted_and_cancelled_as_a_whole(koda: World, client: KodaClient, page: Path) -> None:
    made = await client.render_batch(page, [{"n": number} for number in range(12)], OPTIONS)
    other = await client.render_batch(page, [{"n": 1}], OPTIONS)
    taken = [await koda.store.claim_job(render_id, lease_until=now()) for render_id in made.render_ids[:3]]
    await koda.store.update_job(replace(taken[0], status="succeeded"))
    seen = await client.batch(made.id)
    assert (seen.renders, seen.queued, seen.running, seen.succeeded) == (12, 9, 2, 1)
    done = await client.cancel_batch(made.id)
    assert (done.renders, done.queued, done.running, done.succeeded, done.cancelled) == (12, 0, 0, 1, 11)
    assert await client.cancel_batch(made.id) == done
    assert (await client.batch(other.id)).queued == 1
    assert done.renders_url == made.renders_url


def processes(name: str) -> list[psutil.Process]:
    """Those below this one that work, and whose command line holds a text."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            waits = process.name() == "koda-zygote" or process.status() == psutil.STATUS_ZOMBIE
            if name in " ".join(process.cmdline()) and not waits:
                found.append(process)
    return found


async def rendering(koda: World, client: KodaClient, page: Path, rows: int) -> BatchCreated:
    """Make a batch of long videos, and wait until one of them is being captured."""
    long = OPTIONS.model_copy(update={"duration": 300.0})
    made = await client.render_batch(page, [{"n": number} for number in range(rows)], long)
    await captures(koda.store)
    assert (await client.batch(made.id)).running and any(job.row.status == "running" for job in jobs(koda))
    return made


async def captures(store: SqlStore) -> None:
    """Wait until frames of some render are taken, and encoded."""
    async with asyncio.timeout(240):
        while not processes("ffmpeg") or not processes("--user-data-dir"):
            await asyncio.sleep(0.02)
        while not any((job.progress or {}).get("framesDone") for job in await store.list_renders("local")):
            await asyncio.sleep(0.05)


def jobs(koda: World) -> list[LeasedJob]:
    return list(koda.directory.renders.values())


async def pages(browser: Browser) -> list[str]:
    """The addresses of what a browser has open."""
    return [each["url"] for each in (await browser.connection.send("Target.getTargets"))["targetInfos"]]


async def nothing_runs(koda: World) -> None:
    """See that no render's coordinator is at work, nothing is encoded, and the one browser is free and has no page."""
    assert isinstance(koda.directory.executor, LocalExecutor)
    async with asyncio.timeout(60):
        await asyncio.gather(*(job.wait() for job in jobs(koda)))
        while processes("ffmpeg"):
            await asyncio.sleep(0.02)
        async with koda.directory.executor.browser() as browser:
            begins_with = [] if browser.kind == "shell" else ["about:blank"]
            while await pages(browser) != begins_with:
                await asyncio.sleep(0.02)


@pytest.mark.browser
async def test_cancelling_a_batch_ends_what_it_renders(browsers: World, client: KodaClient, page: Path) -> None:
    made = await rendering(browsers, client, page, 2)
    done = await client.cancel_batch(made.id)
    assert (done.cancelled, done.running) == (2, 0)
    await nothing_runs(browsers)


@pytest.mark.browser
async def test_a_batch_is_cancelled_on_the_command_line(
    browsers: World, client: KodaClient, page: Path, tmp_path: Path
) -> None:
    made = await rendering(browsers, client, page, 3)
    ran = await Shell(tmp_path, browsers.url)("cancel", made.id)
    assert (ran.status, ran.out, ran.err) == (Exit.DONE, "3 cancelled, 0 succeeded, 0 failed\n", "")
    await nothing_runs(browsers)
    ran = await Shell(tmp_path, browsers.url)("cancel", "bat_" + "0" * 27)
    assert ran.status == Exit.NOT_FOUND and "there is no batch" in ran.err


async def test_renders_of_a_batch_may_be_deleted_while_it_is_cancelled(
    koda: World, client: KodaClient, page: Path
) -> None:
    made = await client.render_batch(page, [{"n": number} for number in range(30)], OPTIONS)
    gone = made.render_ids[::3]
    asked = [client.delete_page_render(render_id) for render_id in gone]
    answer, *_ = await asyncio.gather(client.cancel_batch(made.id), *asked)
    assert (answer.queued, answer.running, answer.renders) == (0, 0, answer.cancelled) and answer.cancelled >= 20
    left = await client.batch(made.id)
    assert (left.renders, left.cancelled) == (20, 20)


@pytest.mark.parametrize(
    ("rows", "options", "says"),
    [
        ([], {}, "rows: give at least 1, not 0"),
        ([{}] * (MAX_BATCH_ROWS + 1), {}, f"not {MAX_BATCH_ROWS + 1:,}"),
        ([{}, 7], {}, "rows.1"),
        ("[{", {}, "rows"),
        ([{}, {"text": "x" * (1024 * 1024)}], {}, "row 2"),
        ([{}], {"props": {"a": 1}}, "options.props"),
        ([{}], {"duration": -1}, "duration -1"),
        ([{}], {"colour": "red"}, "colour"),
    ],
)
async def test_where_a_row_cannot_be_rendered_none_is(
    koda: World, http: httpx.AsyncClient, rows: object, options: dict[str, object], says: str
) -> None:
    refused = await send(http, rows, **options)
    assert refused.status_code == 422, refused.text
    assert says in refused.json()["detail"]
    assert await koda.store.list_jobs(user_id="local") == []


@pytest.mark.parametrize(
    ("rows", "options", "field"),
    [
        ([], {}, "rows"),
        ([{}, 7], {}, "rows.1"),
        ([{}, {"text": "x" * (1024 * 1024)}], {}, "rows.1"),
        ([{}], {"duration": -1}, "options.duration"),
        ([{}], {"props": {"a": 1}}, "options.props"),
    ],
)
async def test_what_is_refused_of_a_batch_names_the_row_or_the_option(
    http: httpx.AsyncClient, rows: object, options: dict[str, object], field: str
) -> None:
    (named,) = (await send(http, rows, **options)).json()["fields"]
    assert named["field"] == field


@pytest.mark.full
async def test_what_is_too_large_or_of_another_kind_is_refused(koda: World, http: httpx.AsyncClient) -> None:
    refused = await send(http, [{"text": "x" * (2 * 1024 * 1024)}])
    assert refused.status_code == 400 and "2048KB" in refused.json()["detail"]
    large = json.dumps({"bundle": "0" * 64, "rows": [{"text": "x" * (2 * 1024 * 1024)}]})
    refused = await http.post(URL, content=large, headers={"Content-Type": "application/json"})
    assert refused.status_code == 413 and "2,097,152" in refused.json()["detail"]
    assert (await http.post(URL, content=b"x", headers={"Content-Type": "text/csv"})).status_code == 415
    assert (await http.post(URL, json={"bundle": "0" * 64, "rows": [{}]})).status_code == 404
    assert (await http.get("/v1/renders", params={"batch": "x"})).status_code == 422
    single = await http.post("/v1/renders", files={"file": b"x"}, data={"rows": "[{}]"})
    assert single.status_code == 422 and "options" in single.json()["detail"]


async def test_batches_are_their_owners(tmp_path: Path, page: Path) -> None:
    async with world(tmp_path, **KEYS) as koda:
        made = [("a", 1), ("b", 2)]
        batches = {}
        for letter, rows in made:
            async with KodaClient(koda.url, key=letter * 32) as client:
                batches[letter] = await client.render_batch(page, [{}] * rows, OPTIONS, key="same")
        async with KodaClient(koda.url, key="a" * 32) as ann:
            assert len((await ann.page_renders(batch=batches["a"].id)).renders) == 1
            assert (await ann.page_renders(batch=batches["b"].id)).renders == ()
            for call in (ann.batch(batches["b"].id), ann.cancel_batch(batches["b"].id)):
                with pytest.raises(NotFound):
                    await call
            with pytest.raises(InvalidInput):
                await ann.page_renders(batch="bat_%")
