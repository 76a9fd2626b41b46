"""Frames of videos over HTTP: one, or many in a grid, of what is finished in turns."""

from __future__ import annotations

import asyncio
import io
import subprocess
from pathlib import Path

import httpx
import pytest
from PIL import Image

from koda_ray.client import KodaClient
from koda_ray.errors import NotFound
from koda_ray.serve.routes import frames
from koda_ray.state.keys import video_key

from .scripted import VIDEO
from .test_renders import PAGE, browsers, events, held_after, post  # noqa: F401 - a fixture is found by its name
from .test_versions import with_versions
from .world import World

pytestmark = pytest.mark.needs("ffmpeg")

FPS, SECONDS = 15, 5


def lighter(path: Path) -> bytes:
    """Make a film like a preview, whose frame k is as light as 20 and twice k say."""
    drawn = f"color=black:s=160x90:r={FPS}:d={SECONDS},geq=lum='20+2*N':cb=128:cr=128,format=yuv420p"
    codec = ["-c:v", "libvpx", "-crf", "4", "-b:v", "2M", "-g", "15"]
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", "-f", "lavfi", "-i", drawn, *codec, str(path)], check=True)
    return path.read_bytes()


def light(picture: bytes, at: tuple[int, int] = (2, 2)) -> float:
    """How light a picture is at a place, as luminance."""
    found = Image.open(io.BytesIO(picture)).convert("L").getpixel(at)
    assert isinstance(found, int)
    return found * 219 / 255 + 16


@pytest.fixture
async def previewed(
    koda: World, client: KodaClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """A session, and the job of its preview, which can be looked at."""
    monkeypatch.setitem(VIDEO, "preview", await asyncio.to_thread(lighter, tmp_path / "lighter.webm"))
    session_id = await with_versions(koda, client)
    (version,) = (await client.versions(session_id)).versions
    return session_id, version.job_id


async def test_a_frame_of_a_finished_video_is_seen_and_not_asked_for_again(
    previewed: tuple[str, str], client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id, job_id = previewed
    for frame in (0, 14, 15, 40, 74):
        assert abs(light(await client.frame(session_id, job_id, frame, width_px=160)) - 20 - 2 * frame) < 2, frame
    url = f"/v1/sessions/{session_id}/jobs/{job_id}/frames/40.jpg"
    answer = await http.get(url, params={"w": 320})
    assert answer.headers["content-type"] == "image/jpeg" and "must-revalidate" in answer.headers["cache-control"]
    assert Image.open(io.BytesIO(answer.content)).size == (320, 180)
    known = {"If-None-Match": answer.headers["etag"]}
    assert (await http.get(url, params={"w": 320}, headers=known)).status_code == 304
    assert (await http.get(url, params={"w": 160}, headers=known)).status_code == 200, (
        "another width is another picture"
    )
    for asked, status in ((f"{url}?w=8", 422), (f"{url}?w=4000", 422), (url.replace("40.jpg", "-1.jpg"), 422)):
        assert (await http.get(asked)).status_code == status, asked
    with pytest.raises(NotFound, match="has no frame 75: it has 75, 0 to 74"):
        await client.frame(session_id, job_id, 75)


async def test_many_frames_are_seen_at_once(
    previewed: tuple[str, str], client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id, job_id = previewed
    picture = await client.sprite(session_id, job_id, count=25, width_px=64)
    assert Image.open(io.BytesIO(picture)).size == (640, 3 * 36)
    for cell in range(25):
        frame = (2 * cell + 1) * FPS * SECONDS // 50
        shown = light(picture, (cell % 10 * 64 + 32, cell // 10 * 36 + 18))
        assert abs(shown - 20 - 2 * frame) < 4, cell
    url = f"/v1/sessions/{session_id}/jobs/{job_id}/sprite.jpg"
    answer = await http.get(url)
    assert (await http.get(url, headers={"If-None-Match": answer.headers["etag"]})).status_code == 304
    for asked in ("count=0", "count=101", "w=8", "w=321"):
        assert (await http.get(f"{url}?{asked}")).status_code == 422, asked


async def test_only_what_is_ones_own_and_there_is_seen(
    koda: World, previewed: tuple[str, str], client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id, job_id = previewed
    other = await with_versions(koda, client)
    for path in ("frames/0.jpg", "sprite.jpg"):
        assert (await http.get(f"/v1/sessions/{other}/jobs/{job_id}/{path}")).status_code == 404
        assert (await http.get(f"/v1/sessions/{session_id}/jobs/job_none/{path}")).status_code == 404
        assert (await http.get(f"/v1/renders/{job_id}/{path}")).status_code == 404, "it is a session's"
    koda.directory.rendering = asyncio.Event()
    await client.accept(session_id)
    async with asyncio.timeout(60):
        while not (under_way := (await client.page_renders(session=session_id, kinds=["final"])).renders):
            await asyncio.sleep(0.01)
    for path in ("frames/0.jpg", "sprite.jpg"):
        answer = await http.get(f"/v1/sessions/{session_id}/jobs/{under_way[0].id}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "VIDEO_NOT_READY"), path
        assert answer.json()["retryable"] is True


async def test_what_was_removed_is_not_what_somebody_has(
    koda: World, previewed: tuple[str, str], http: httpx.AsyncClient
) -> None:
    session_id, job_id = previewed
    for path in ("frames/0.jpg", "sprite.jpg"):
        url = f"/v1/sessions/{session_id}/jobs/{job_id}/{path}"
        known = {"If-None-Match": (await http.get(url)).headers["etag"]}
        assert (await http.get(url, headers=known)).status_code == 304
        key = video_key("local", job_id, "mp4")
        video = await koda.storage.get(key)
        await koda.storage.delete(key)
        assert (await http.get(url, headers=known)).status_code == 404
        await koda.storage.put(key, video)


async def test_a_user_waits_for_so_many_at_a_time(
    koda: World, previewed: tuple[str, str], http: httpx.AsyncClient
) -> None:
    session_id, job_id = previewed
    turns = koda.app.state.pictures
    async with turns.place("local"):  # the one that is under way makes the others wait
        url = f"/v1/sessions/{session_id}/jobs/{job_id}/frames"
        asked = [asyncio.create_task(http.get(f"{url}/{number}.jpg")) for number in range(frames.MOST_WAITING)]
        done, _ = await asyncio.wait(asked, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        refused = done.pop().result()
        assert (refused.status_code, refused.json()["code"]) == (429, "LIMIT_REACHED")
        assert "retry-after" in refused.headers
    answers = [await each for each in asked]
    assert sorted(each.status_code for each in answers) == [200] * (frames.MOST_WAITING - 1) + [429]


@pytest.mark.browser
async def test_a_page_s_video_is_seen_once_it_is_finished(
    browsers: World,  # noqa: F811
    http: httpx.AsyncClient,
    client: KodaClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = held_after(1, monkeypatch)
    made = (await post(http, PAGE, width=160, height=90, fps=10, duration=3.0)).json()
    async with asyncio.timeout(60):
        while not (parts := await browsers.store.chunks(made["id"])):
            await asyncio.sleep(0.02)
    frame = parts[0].start + 5
    for early in (client.page_render_frame(made["id"], frame), client.page_render_sprite(made["id"])):
        with pytest.raises(NotFound) as caught:
            await early
        assert caught.value.code == "VIDEO_NOT_READY"
    go_on.set()
    assert (await events(http, made["id"]))[-1]["data"] == {"status": "succeeded"}
    for unit in parts:
        await browsers.storage.delete(unit.key)
    shown = Image.open(io.BytesIO(await client.page_render_frame(made["id"], frame, width_px=160))).convert("RGB")
    found = shown.getpixel((frame % 10 * 10 + 20, 20))  # the square is there by then
    assert isinstance(found, tuple) and found[0] > 180 > found[2], found
    sprite = await client.page_render_sprite(made["id"], count=10, width_px=32)
    assert Image.open(io.BytesIO(sprite)).size == (320, 18)
