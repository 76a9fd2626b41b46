"""Page renders over HTTP: real uploads, a real browser, the real job; only Ray is left out."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from koda_ray.actors.job_owner import JobOwner
from koda_ray.actors.leased_job import MAX_ACTIVATIONS
from koda_ray.actors.sweep import Retention, Sweep
from koda_ray.client import KodaClient
from koda_ray.errors import InvalidInput, NotFound
from koda_ray.render.bundle import Bundle, load_bundle, store_bundle
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import UnitResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.keys import bundle_key
from koda_ray.state.records import JobRecord
from koda_ray.types import now
from koda_ray.wire import PageOptions

from .test_sessions import until
from .world import World, reached, world

PAGE = """<!doctype html><style>body{margin:0;background:#123} div{width:40px;height:40px;background:orange;
animation:go 1s linear infinite} @keyframes go{to{transform:translateX(100px)}}</style><div></div>
<img src="gone.png"><script>document.title = JSON.stringify(window.__kodaProps)</script>"""
SMALL = {"width": 160, "height": 90, "fps": 10, "duration": 1.0}
KEYS = {"KODA_API_KEYS": "ann=" + "a" * 32 + ",bob=" + "b" * 32}


def zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


async def post(
    http: httpx.AsyncClient, page: str | bytes = PAGE, key: str | None = None, **options: object
) -> httpx.Response:
    data = page if isinstance(page, bytes) else zipped({"index.html": page})
    headers = {"Idempotency-Key": key} if key else {}
    files = {"file": ("page.zip", data, "application/zip")}
    return await http.post("/v1/renders", files=files, data={"options": json.dumps(options)}, headers=headers)


@pytest.fixture
async def browsers(koda: World) -> AsyncIterator[World]:
    async with LocalExecutor(workers=1) as executor:
        koda.directory.executor = executor
        yield koda
        await koda.directory.close()


Told = list[dict[str, object]]


async def events(
    http: httpx.AsyncClient,
    job_id: str,
    after: int = 0,
    channels: Sequence[str] = (),
    found: Told | None = None,
) -> Told:
    """Follow a render to its end; what was told so far is in ``found``."""
    found = [] if found is None else found
    path, asked = f"/v1/renders/{job_id}/events", {"after": after, "channels": list(channels)}
    async with asyncio.timeout(120), http.stream("GET", path, params=asked) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                found.append(json.loads(line.removeprefix("data:")))
    return found


def held_after(units: int, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Have a render stand still once so many units are recorded, until the event is set."""
    usual, go_on, recorded = JobOwner.unit, asyncio.Event(), 0

    async def unit(self: JobOwner, made: UnitResult) -> None:
        nonlocal recorded
        await usual(self, made)
        recorded += 1
        if recorded >= units:
            await go_on.wait()

    monkeypatch.setattr(JobOwner, "unit", unit)
    return go_on


@pytest.mark.browser
async def test_a_page_is_uploaded_followed_and_downloaded(browsers: World, http: httpx.AsyncClient) -> None:
    made = await post(http, **SMALL, props={"name": "Ada"})
    assert made.status_code == 202, made.text
    view = made.json()
    following = asyncio.create_task(events(http, view["id"], channels=["progress"]))
    assert made.headers["location"] == view["stateUrl"] == f"/v1/renders/{view['id']}"
    told = await events(http, view["id"])
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    kinds = [str(event["type"]) for event in told]
    assert kinds[:2] == ["state_change", "render_start"] and kinds[-2:] == ["render_complete", "state_change"]
    assert "render_progress" in kinds
    progress = await following  # ends as well, though the last event is on another channel
    assert progress == [event for event in told if event["channel"] == "progress"] != told
    assert await events(http, view["id"], channels=["control", "progress"]) == told
    refused = await http.get(f"{view['stateUrl']}/events", params={"channels": "news"})
    assert refused.status_code == 422 and "news" in refused.text
    assert await events(http, view["id"], after=len(told) - 1) == told[-1:]
    assert any("gone.png" in warning for warning in told[-2]["data"]["warnings"])  # type: ignore[index]

    done = (await http.get(view["stateUrl"])).json()
    assert done["status"] == "succeeded" and done["result"]["frames"] == 10 and "videoKey" not in done["result"]
    assert done["request"]["props"] == '{"name": "Ada"}' and done["spec"]["width"] == 160
    assert (done["request"]["durationS"], done["spec"]["durationS"]) == (1.0, 1.0)
    video = await http.get(done["videoUrl"])
    assert video.headers["content-type"] == "video/mp4" and len(video.content) == done["result"]["fileSize"]
    part = await http.get(done["videoUrl"], headers={"Range": "bytes=4-7"})
    assert part.status_code == 206 and part.content == b"ftyp"
    assert (await http.get(done["thumbnailUrl"])).content[:2] == b"\xff\xd8"
    assert (await http.get(done["reportUrl"])).json()["frames"] == 10
    page = await http.get(done["reportUrl"], params={"format": "html"})
    assert "<html" in page.text and page.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert (await http.get(f"{view['stateUrl']}/sheet")).content[:2] == b"\xff\xd8"

    lying = {each.key: each.size_bytes for each in await browsers.storage.look_below("users")}
    parts = ("/video", "/bundle", "/contents.json")
    notes = {key for key in lying if "/renders/" not in key and not key.endswith(parts)}
    job = await browsers.store.get_job(view["id"])
    assert await browsers.store.stored_bytes(job.user_id) == sum(lying[key] for key in lying.keys() - notes)
    assert job.stored_bytes > done["result"]["fileSize"] and sum(lying[key] for key in notes) < 20_000, notes

    again = await http.post("/v1/renders", json={"bundle": done["bundle"], "options": {**SMALL, "duration": 0.5}})
    assert again.status_code == 202 and again.json()["bundle"] == done["bundle"]
    assert (await events(http, again.json()["id"]))[-1]["data"] == {"status": "succeeded"}


@pytest.mark.browser
async def test_what_the_page_says_counts_and_what_it_throws_is_told(browsers: World, http: httpx.AsyncClient) -> None:
    contract = """<script>window.__koda = {
        version: 1, mode: "export", duration: 0.6, fps: 10, size: {width: 64, height: 48}, ready: Promise.resolve(),
        async seek(t) { document.documentElement.style.background = `hsl(${t * 300} 90% 50%)` },
    }</script>"""
    made = (await post(http, contract)).json()
    assert (await events(http, made["id"]))[-1]["data"] == {"status": "succeeded"}
    done = (await http.get(made["stateUrl"])).json()
    assert [done["result"][name] for name in ("frames", "width", "height", "fps")] == [6, 64, 48, 10]
    assert done["result"]["still"] is False

    silent = (await post(http)).json()  # nobody says how long it is
    assert (await events(http, silent["id"]))[-1]["data"] == {"status": "failed"}
    failed = (await http.get(silent["stateUrl"])).json()
    assert failed["error"]["code"] == "INVALID_INPUT" and "duration" in failed["error"]["message"]

    broken = (await post(http, "<script>throw new Error('no such luck')</script>", **SMALL)).json()
    told = await events(http, broken["id"])
    assert [event["type"] for event in told[-2:]] == ["error", "state_change"]
    assert "no such luck" in str(told[-2]["data"])
    refused = await http.get(f"/v1/renders/{broken['id']}/video")
    assert refused.status_code == 404 and refused.json()["code"] == "VIDEO_NOT_READY"
    assert "no such luck" in refused.json()["detail"] and "ask for it again" in refused.json()["detail"]


@pytest.mark.browser
async def test_a_render_is_cancelled_with_its_processes(browsers: World, http: httpx.AsyncClient) -> None:
    made = (await post(http, **{**SMALL, "duration": 300, "fps": 60})).json()
    async with asyncio.timeout(60):
        while not (await http.get(made["stateUrl"])).json()["progress"].get("framesDone"):
            await asyncio.sleep(0.05)
    following = asyncio.create_task(events(http, made["id"]))
    async with asyncio.timeout(60):
        ended = await http.post(f"{made['stateUrl']}/cancel")
    assert ended.json()["status"] == "cancelled"
    assert await following  # the stream ends
    again = await http.post(f"{made['stateUrl']}/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")


@pytest.mark.browser
@pytest.mark.full
async def test_a_render_is_deleted_while_it_runs_and_when_it_is_over(browsers: World, http: httpx.AsyncClient) -> None:
    running = (await post(http, **{**SMALL, "duration": 300, "fps": 60})).json()
    async with asyncio.timeout(60):
        while not (await http.get(running["stateUrl"])).json()["progress"].get("framesDone"):
            await asyncio.sleep(0.05)
    told: Told = []
    following = asyncio.create_task(events(http, running["id"], found=told))
    await reached(lambda: bool(told))
    assert (await http.delete(running["stateUrl"])).status_code == 204
    assert await following  # the stream ends

    made = (await post(http, **SMALL)).json()
    assert (await events(http, made["id"]))[-1]["data"] == {"status": "succeeded"}
    copy = (await http.post("/v1/renders", json={"bundle": made["bundle"], "options": SMALL})).json()
    assert (await events(http, copy["id"]))[-1]["data"] == {"status": "succeeded"}
    units = await browsers.storage.list("users/local/units")
    assert (await http.delete(made["stateUrl"])).status_code == 204
    for gone in (running, made):
        assert (await http.get(gone["stateUrl"])).status_code == 404
        assert (await http.delete(gone["stateUrl"])).status_code == 404
        assert await browsers.storage.list(f"users/local/renders/{gone['id']}") == []
        assert await browsers.store.events(gone["id"]) == [] and await browsers.store.chunks(gone["id"]) == []
    # what others share stays, and what was given again is a video of its own
    assert await browsers.storage.list("users/local/units") == units
    assert (await http.get(copy["videoUrl"] or f"{copy['stateUrl']}/video")).status_code == 200
    again = (await http.post("/v1/renders", json={"bundle": made["bundle"], "options": SMALL})).json()
    assert (await events(http, again["id"]))[-1]["data"] == {"status": "succeeded"}
    assert (await http.get(f"{again['stateUrl']}/report")).json()["madeBefore"] == copy["id"]


@pytest.mark.browser
async def test_a_render_that_was_left_is_finished_by_whoever_takes_it_up(
    browsers: World, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = held_after(1, monkeypatch)
    made = (await post(http, **{**SMALL, "duration": 4})).json()
    async with asyncio.timeout(60):
        while not await browsers.store.chunks(made["id"]):
            await asyncio.sleep(0.02)
    await browsers.directory.renders[made["id"]].close()
    go_on.set()
    (owed,) = await browsers.store.owed(now())
    assert (owed.kind, owed.id) == ("job", made["id"])
    await browsers.directory.wake_render(made["id"])
    told = await events(http, made["id"])
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    assert [e["epoch"] for e in told if e["type"] == "render_start"] == [1, 2]
    report = (await http.get(f"/v1/renders/{made['id']}/report")).json()
    assert report["unitsReused"] >= 1 and report["frames"] == 40
    assert await browsers.store.owed(now() + timedelta(hours=1)) == []


@pytest.mark.browser
@pytest.mark.full
async def test_one_that_was_replaced_writes_nothing_any_more(
    browsers: World, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = held_after(1, monkeypatch)
    made = (await post(http, **{**SMALL, "duration": 6, "fps": 30})).json()
    async with asyncio.timeout(60):
        while made["id"] not in browsers.directory.renders or not await browsers.store.chunks(made["id"]):
            await asyncio.sleep(0.02)
    first = browsers.directory.renders[made["id"]]
    await browsers.directory.wake_render(made["id"])  # a twin, while the first is at work
    go_on.set()
    async with asyncio.timeout(60):
        await first.wait()  # it ends by itself
    told = await events(http, made["id"])
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    epochs = [int(str(event["epoch"])) for event in told]
    assert epochs == sorted(epochs) and set(epochs) == {1, 2}
    assert told[-1]["data"] == {"status": "succeeded"}
    await first.close()
    assert (await http.get(made["stateUrl"])).json()["status"] == "succeeded"


@pytest.mark.browser
async def test_a_render_that_kills_its_process_each_time_is_given_up(browsers: World, http: httpx.AsyncClient) -> None:
    browsers.directory.executor, kept = None, browsers.directory.executor
    made = (await post(http, **SMALL)).json()
    for _ in range(MAX_ACTIVATIONS):
        await browsers.store.claim_job(made["id"], lease_until=now())
    browsers.directory.executor = kept
    await browsers.directory.wake_render(made["id"])
    assert (await events(http, made["id"]))[-1]["data"] == {"status": "failed"}


@pytest.mark.browser
@pytest.mark.full
async def test_a_render_outlives_the_units_it_was_made_of(browsers: World, http: httpx.AsyncClient) -> None:
    made = (await post(http, **SMALL)).json()
    assert (await events(http, made["id"]))[-1]["data"] == {"status": "succeeded"}
    kept = timedelta(days=7)
    later = now() + kept * 2

    def clock() -> datetime:
        return later

    sweep = Sweep(
        store=browsers.store, storage=browsers.storage, clock=clock,
        kept=Retention(units=kept, pages=kept * 4, assets=kept, previews=kept),
    )  # fmt: skip
    assert len(await sweep.step()) == 1
    assert await browsers.storage.list("users/local/units") == []
    assert (await http.get(f"{made['stateUrl']}/video")).status_code == 200
    options = {**SMALL, "format": "webm"}
    again = (await http.post("/v1/renders", json={"bundle": made["bundle"], "options": options})).json()
    assert (await events(http, again["id"]))[-1]["data"] == {"status": "succeeded"}
    assert (await http.get(f"{again['stateUrl']}/report")).json()["unitsReused"] == 0


@pytest.mark.browser
@pytest.mark.full
async def test_a_sweep_in_the_middle_of_a_render_takes_nothing_of_it(
    browsers: World, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = held_after(2, monkeypatch)
    kept = timedelta(days=7)
    later = now() + kept * 9  # as if what is written now were as old as that
    made = (await post(http, **{**SMALL, "duration": 5, "fps": 30})).json()
    async with asyncio.timeout(60):
        while len(await browsers.store.chunks(made["id"])) < 2:
            await asyncio.sleep(0.02)
    units = {chunk.key for chunk in await browsers.store.chunks(made["id"])}
    sweep = Sweep(
        store=browsers.store, storage=browsers.storage, clock=lambda: later,
        kept=Retention(units=kept, pages=kept, assets=kept, previews=kept),
    )  # fmt: skip
    await sweep.step()
    go_on.set()
    assert units <= set(await browsers.storage.list("users/local/units"))
    assert await browsers.storage.exists(bundle_key("local", made["bundle"]))
    assert (await events(http, made["id"]))[-1]["data"] == {"status": "succeeded"}


@pytest.mark.browser
async def test_the_client_does_the_same(browsers: World, client: KodaClient, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.mkdir()
    (page / "index.html").write_text(PAGE)
    (page / ".env").write_text("KEY=secret")
    made = await client.render_page(page, PageOptions.model_validate(SMALL), key="once")
    assert (await client.render_page(page, PageOptions.model_validate(SMALL), key="once")).id == made.id
    told = [event async for event in client.follow_page_render(made.id)]
    assert told[-1].data == {"status": "succeeded"}
    assert [event async for event in client.follow_page_render(made.id, after=told[-1].seq)] == []
    done = await client.page_render(made.id)
    size = await client.download_page_render(made.id, tmp_path / "video.mp4")
    assert size == (tmp_path / "video.mp4").stat().st_size == (done.result or {})["fileSize"]
    assert await client.download_page_render(made.id, tmp_path / "report.json", what="report") > 0
    bundle = await load_bundle(RetryingStorage(browsers.storage), "local", done.bundle)
    assert set(bundle.files) == {"index.html"}
    again = await client.render_page(done.bundle, PageOptions.model_validate({**SMALL, "duration": 300.0}))
    assert (await client.cancel_page_render(again.id)).status == "cancelled"
    with pytest.raises(NotFound):
        await client.page_render("job_unknown")


async def test_one_key_is_one_render(koda: World, http: httpx.AsyncClient) -> None:
    first = await post(http, key="mine", **SMALL)
    again = await post(http, key="mine", **SMALL)
    assert first.json() == again.json() and again.status_code == 202
    other = await post(http, key="mine", **{**SMALL, "fps": 12})
    assert other.status_code == 409 and other.json()["code"] == "CONFLICT"
    assert (await post(http, key="another", **SMALL)).json()["id"] != first.json()["id"]
    assert first.json()["status"] == "queued" and first.json()["videoUrl"] is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"duration": 0}, "duration 0"),
        ({"fps": 1000}, "fps"),
        ({"width": 320}, "width and height"),
        ({"width": 321, "height": 180}, "odd"),
        ({"preset": "vhs"}, "preset"),
        ({"preset": "tiktok", "duration": 181}, "180 s"),
        ({"alpha": True}, "transparent"),
        ({"audio": [{"path": "no.mp3"}]}, "no.mp3"),
        ({"entry": "other.html"}, "other.html"),
        ({"colour": "red"}, "colour"),
        ({"widht": 320}, "options.widht: there is no such field: did you mean width?"),
        ({"format": "avi"}, "not 'avi'"),
        ({"audio": [{"path": "a.mp3", "loud": 2}]}, "options.audio.0.loud: there is no such field, of path, "),
        ({"format": "avi", "effort": "much"}, "; options.effort"),
    ],
)
async def test_what_cannot_be_rendered_is_refused_at_once(
    koda: World, http: httpx.AsyncClient, options: dict[str, object], says: str
) -> None:
    refused = await post(http, **{**({"duration": 1.0} if "width" not in options else {}), **options})
    assert refused.status_code == 422, refused.text
    assert says in refused.json()["detail"]
    assert await koda.store.list_jobs(user_id="local") == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"duration": 0}, "options.duration"),
        ({"preset": "tiktok", "duration": 181}, "options.duration"),
        ({"fps": "soon"}, "options.fps"),
        ({"format": "gif", "fps": 60}, "options.fps"),
        ({"format": "mp4", "alpha": True}, "options.format"),
        ({"width": 320}, "options.height"),
        ({"width": 320, "height": 181}, "options.height"),
        ({"width": "wide"}, "options.width"),
        ({"preset": "vhs"}, "options.preset"),
        ({"bitrateKbps": 1}, "options.bitrateKbps"),
        ({"audio": [{"path": "no.mp3"}]}, "options.audio.0.path"),
        ({"entry": "other.html"}, "options.entry"),
    ],
)
async def test_what_is_refused_of_a_page_names_the_option(
    http: httpx.AsyncClient, options: dict[str, object], field: str
) -> None:
    refused = (await post(http, **{**({"duration": 1.0} if "width" not in options else {}), **options})).json()
    (named,) = refused["fields"]
    assert named["field"] == field and named["problem"] in refused["detail"]


async def test_what_is_wrong_with_a_zip_is_said_of_the_file(http: httpx.AsyncClient) -> None:
    for data in (b"not a zip", zipped({"../evil.html": "x"}), zipped({"readme.txt": "x"})):
        (named,) = (await post(http, data, **SMALL)).json()["fields"]
        assert named["field"] == "file"


async def test_uploads_are_held_to_limits(koda: World, http: httpx.AsyncClient) -> None:
    for data, status, code in [
        (b"not a zip", 422, "INVALID_INPUT"),
        (zipped({"../evil.html": "x", "index.html": "x"}), 422, "INVALID_PATH"),
        (zipped({"/etc/passwd": "x", "index.html": "x"}), 422, "INVALID_PATH"),
        (zipped({"readme.txt": "x"}), 422, "INVALID_INPUT"),
        (zipped({f"{number}.txt": "" for number in range(5000)}), 422, "INVALID_INPUT"),
        (zipped({"index.html": '<script src="/src/main.tsx"></script>'}), 422, "INVALID_INPUT"),
    ]:
        refused = await post(http, data, **SMALL)
        assert (refused.status_code, refused.json()["code"]) == (status, code), refused.text
    for sent in ({"content": b"x", "headers": {"Content-Type": "text/plain"}}, {"content": b"<xml>"}):
        assert (await http.post("/v1/renders", **sent)).status_code == 415  # type: ignore[arg-type]
    for form, said in [
        ({"files": {"zip": b"x"}}, "the form has 'zip' (a file)"),
        ({"files": {"file": (None, "page.zip"), "options": (None, "{}")}}, "the form has 'file', 'options'"),
        ({"files": {"file": zipped({"index.html": "x"})}, "data": {"options": "{"}}, "options: Invalid JSON"),
    ]:
        refused = await http.post("/v1/renders", **form)  # type: ignore[arg-type]
        assert refused.status_code == 422 and said in refused.json()["detail"], refused.text
    refused = await http.put("/v1/renders")
    assert refused.status_code == 405 and "PUT is not for /v1/renders" in refused.json()["detail"]
    unknown = await http.post("/v1/renders", json={"bundle": "0" * 64})
    assert unknown.status_code == 404 and "bundle" in unknown.json()["detail"]
    assert (await http.post("/v1/renders", json={"bundle": "short"})).status_code == 422


async def test_too_large_a_zip_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with world(tmp_path, KODA_MAX_BODY_MB=1) as koda, httpx.AsyncClient(base_url=koda.url, timeout=60) as http:
        refused = await post(http, b"PK" + bytes(2 * 1024 * 1024))
        assert refused.status_code == 413


async def test_renders_are_their_owners(tmp_path: Path) -> None:
    async with world(tmp_path, **KEYS) as koda, httpx.AsyncClient(base_url=koda.url, timeout=60) as http:
        http.headers["Authorization"] = f"Bearer {'a' * 32}"
        mine = (await post(http, key="same", **SMALL)).json()
        http.headers["Authorization"] = f"Bearer {'b' * 32}"
        paths = (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/cancel"),
            ("GET", "/events"),
            ("GET", "/video"),
            ("GET", "/report"),
        )
        for method, path in paths:
            assert (await http.request(method, mine["stateUrl"] + path)).status_code == 404
        assert (await http.get("/v1/renders")).json() == {"renders": [], "next": None}
        assert (await http.post("/v1/renders", json={"bundle": mine["bundle"]})).status_code == 404
        theirs = (await post(http, key="same", **SMALL)).json()
        assert theirs["id"] != mine["id"]
        del http.headers["Authorization"]
        assert (await http.get(mine["stateUrl"])).status_code == 401
        assert (await koda.store.get_job(mine["id"])).status == "queued"


async def test_a_sessions_job_is_not_a_render_of_its_own(koda: World, http: httpx.AsyncClient) -> None:
    mine = (await post(http, **SMALL)).json()
    row = await koda.store.get_job(mine["id"])
    other: JobRecord = await koda.store.create_job(replace(row, id="job_final", kind="final"))
    assert (await http.get(f"/v1/renders/{other.id}")).status_code == 404
    assert (await http.delete(f"/v1/renders/{other.id}")).status_code == 404
    assert [one["id"] for one in (await http.get("/v1/renders")).json()["renders"]] == [mine["id"]]


async def test_a_sessions_renders_are_listed_where_they_are_asked_for(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    koda.directory.asks = False
    mine = (await post(http, **SMALL)).json()["id"]
    session_id = (await client.create("A ball")).session_id
    await until(client, session_id, "plan")
    await client.accept(session_id)
    await until(client, session_id, "preview")
    (made,) = (await client.page_renders(session=session_id)).renders
    assert (made.kind, made.session_id, made.status) == ("preview", session_id, "succeeded")
    for url in (made.state_url, made.video_url, made.thumbnail_url):
        assert url is not None and (await http.get(url)).status_code == 200, url
    both = (await client.page_renders(kinds=["render", "preview"])).renders
    assert [one.id for one in both] == [made.id, mine] and both[1].duration == SMALL["duration"]
    assert [one.id for one in (await client.page_renders()).renders] == [mine]
    assert (await client.page_renders(session=session_id, kinds=["final"])).renders == ()
    late = {"since": (now() + timedelta(hours=1)).isoformat()}
    assert (await http.get("/v1/renders", params=late)).json()["renders"] == []
    for bad in ({"since": "yesterday"}, {"kind": "film"}, {"status": "late"}):
        assert (await http.get("/v1/renders", params=bad)).status_code == 422


async def test_renders_are_listed_newest_first_a_page_at_a_time_and_by_state(koda: World, client: KodaClient) -> None:
    page = PageOptions.model_validate(SMALL)
    bundle = await store_bundle(koda.storage, "local", Bundle({"index.html": PAGE.encode()}))
    made = [(await client.render_page(bundle, page)).id for _ in range(5)][::-1]
    await client.cancel_page_render(made[1])
    await client.cancel_page_render(made[3])
    first = await client.page_renders(limit=2)
    assert [one.id for one in first.renders] == made[:2] and first.renders[1].status == "cancelled"
    await client.delete_page_render(made[1])  # the place of the next page does not go with it
    assert first.next is not None
    second = await client.page_renders(limit=2, before=first.next)
    assert [one.id for one in second.renders] == made[2:4] and second.next is not None
    last = await client.page_renders(limit=2, before=second.next)
    assert ([one.id for one in last.renders], last.next) == (made[4:], None)
    assert [one.id for one in (await client.page_renders(status=["cancelled"])).renders] == [made[3]]
    both = await client.page_renders(status=["cancelled", "queued"], limit=3)
    assert [one.id for one in both.renders] == [made[0], *made[2:4]] and both.next is not None
    assert (await client.page_renders(status=["failed"])).renders == ()
    with pytest.raises(InvalidInput, match="before 'yesterday'"):
        await client.page_renders(before="yesterday")
    with pytest.raises(InvalidInput):
        await client.page_renders(before="f" * 16 + "-job_1")
    with pytest.raises(InvalidInput, match="status"):
        await client.page_renders(status=["late"])  # type: ignore[list-item]
    with pytest.raises(NotFound):
        await client.delete_page_render(made[1])
