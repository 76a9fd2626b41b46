"""Videos watched while they are rendered: a real browser's frames, sent before the video is there."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import NotFound
from koda_ray.render.ffmpeg import run
from koda_ray.render.fragments import EMPTY_BOX
from koda_ray.serve import footage
from koda_ray.state.storage import Storage
from tests.serve.test_renders import PAGE, SMALL, browsers, events, held_after, post
from tests.serve.world import World

__all__ = ["browsers"]

pytestmark = pytest.mark.browser


async def frames_in(video: bytes, folder: Path) -> list[tuple[float, str]]:
    """Decode a video: each frame's time in seconds from the first one's, and the hash of its picture."""
    file = folder / f"{hashlib.sha256(video).hexdigest()}.mp4"
    file.write_bytes(video)
    told = await run("ffmpeg", ["-v", "error", "-i", str(file), "-map", "0:v", "-f", "framemd5", "-"], timeout_s=60)
    lines = told.decode().splitlines()
    (rate,) = [line.split()[2] for line in lines if line.startswith("#tb 0")]
    numerator, denominator = map(int, rate.split("/"))
    rows = [[part.strip() for part in line.split(",")] for line in lines if line[:1].isdecimal()]
    first = int(rows[0][2])
    return [(round((int(row[2]) - first) * numerator / denominator, 3), row[5]) for row in rows]


async def test_a_video_is_watched_while_it_is_rendered(
    browsers: World, http: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footage, "_SILENT_S", 0.1)
    go_on = held_after(1, monkeypatch)
    made = (await post(http, **{**SMALL, "duration": 2.5})).json()
    seen = b""
    early: list[tuple[float, str]] = []
    async with asyncio.timeout(120), http.stream("GET", f"/v1/jobs/{made['id']}/footage") as sent:
        assert (sent.status_code, sent.headers["content-type"]) == (200, "video/mp4")
        async for piece in sent.aiter_bytes():
            seen += piece
            if piece == EMPTY_BOX:  # nothing more stands: the connection is kept
                assert (await http.get(made["stateUrl"])).json()["status"] == "running"
                early = await frames_in(seen, tmp_path)
                go_on.set()
    assert [at for at, _ in early] == [each / 10 for each in range(10)]
    told = await events(http, made["id"])
    video = (await http.get(f"{made['stateUrl']}/video")).content
    watched = await frames_in(seen, tmp_path)
    assert watched == await frames_in(video, tmp_path) and watched[:10] == early
    assert [at for at, _ in watched] == [each / 10 for each in range(25)]
    stood = [event["data"]["watchableS"] for event in told if event["type"] == "render_progress"]  # type: ignore[index]
    assert stood == sorted(stood) and stood[-1] == 2.5

    async with KodaClient(browsers.url) as client:
        assert b"".join([piece async for piece in client.footage(made["id"])]) == video  # it is finished
        with pytest.raises(NotFound):
            _ = [piece async for piece in client.footage("job_nobody")]


async def test_a_unit_that_a_power_cut_left_torn_is_sent_once_it_is_whole(
    browsers: World, http: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, looked, as_file = held_after(1, monkeypatch), list[str](), footage.as_file

    def watched(storage: Storage, key: str) -> AbstractAsyncContextManager[Path]:
        looked.append(key)
        return as_file(storage, key)

    monkeypatch.setattr(footage, "as_file", watched)
    made = (await post(http, **{**SMALL, "duration": 2.5})).json()
    async with asyncio.timeout(120):
        while not (chunks := await browsers.store.chunks(made["id"])):
            await asyncio.sleep(0.02)
        whole = await browsers.storage.get(chunks[0].key)
        await browsers.storage.put(chunks[0].key, whole[: len(whole) // 2])
        watching = asyncio.create_task(http.get(f"/v1/jobs/{made['id']}/footage"))
        for torn in (None, bytes(len(whole))):  # cut off, then of its size
            if torn is not None:
                await browsers.storage.put(chunks[0].key, torn)
            looked.clear()
            while len(looked) < 2:  # who looks again has sent nothing
                await asyncio.sleep(0.02)
        await browsers.storage.put(chunks[0].key, whole)
        go_on.set()
        seen = (await watching).content
    assert [at for at, _ in await frames_in(seen, tmp_path)] == [each / 10 for each in range(25)]


async def test_it_ends_with_whole_frames_where_the_render_is_deleted(
    browsers: World, http: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_after(1, monkeypatch)
    made = (await post(http, **{**SMALL, "duration": 2.5})).json()
    seen = b""
    async with asyncio.timeout(120), http.stream("GET", f"/v1/jobs/{made['id']}/footage") as sent:
        async for piece in sent.aiter_bytes():
            if not seen:
                assert (await http.delete(made["stateUrl"])).status_code == 204
            seen += piece
    assert len(await frames_in(seen, tmp_path)) == 10


async def test_what_cannot_be_watched_says_why(
    browsers: World, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = held_after(1, monkeypatch)
    other = (await post(http, PAGE, **{**SMALL, "format": "webm"})).json()
    async with asyncio.timeout(120):
        while not await browsers.store.chunks(other["id"]):
            await asyncio.sleep(0.02)
    refused = await http.get(f"/v1/jobs/{other['id']}/footage")
    assert (refused.status_code, refused.json()["code"]) == (409, "NOT_WATCHABLE")
    assert "webm" in refused.json()["detail"]
    await http.post(f"{other['stateUrl']}/cancel")
    go_on.set()
    ended = await http.get(f"/v1/jobs/{other['id']}/footage")
    assert (ended.status_code, ended.json()["code"]) == (409, "NOT_WATCHABLE")
    assert f"/v1/jobs/{other['id']}/again" in ended.json()["detail"]
