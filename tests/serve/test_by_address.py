"""Videos and pictures that a page of another origin shows by address alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import StorageError
from koda_ray.serve.media_links import MediaGrant, MediaSigner
from koda_ray.serve.quotas import SPARE_REQUESTS
from koda_ray.serve.signing import Forbidden
from koda_ray.types import now

from .test_sessions import until
from .test_versions import with_versions
from .world import World, world

KEY, OTHER = "k" * 32, "o" * 32
ANN, BOB = {"Authorization": f"Bearer {KEY}"}, {"Authorization": f"Bearer {OTHER}"}
GRANT = MediaGrant(session_id="ses_1", user_id="ann", job_id="job_1")


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, KODA_API_KEYS=f"ann={KEY},bob={OTHER}") as found:
        yield found


@pytest.fixture
async def ann(koda: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(koda.url, key=KEY) as client:
        yield client


async def test_whoever_has_the_address_sees_one_video_and_its_picture(
    koda: World, ann: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id = await with_versions(koda, ann)
    await ann.accept(session_id)
    await until(ann, session_id, "complete")
    asked = f"/v1/sessions/{session_id}/media"
    assert (await http.get(asked)).status_code == 401 and (await http.get(asked, headers=BOB)).status_code == 404
    answer = await http.get(asked, headers=ANN)
    assert answer.headers["cache-control"] == "no-store"
    links = answer.json()
    assert (await ann.media(session_id)).video_url == links["videoUrl"]
    assert timedelta(minutes=59) < datetime.fromisoformat(links["expiresAt"]) - now() <= timedelta(minutes=75)
    by_key = await http.get(f"/v1/sessions/{session_id}/video", headers=ANN)
    shown = await http.get(links["videoUrl"])
    assert shown.content == by_key.content and shown.headers["etag"] == by_key.headers["etag"]
    assert shown.headers["cross-origin-resource-policy"] == "cross-origin"
    assert shown.headers["referrer-policy"] == "no-referrer"
    part = await http.get(links["videoUrl"], headers={"Range": "bytes=1-2"})
    assert (part.status_code, part.content) == (206, by_key.content[1:3])
    assert (await http.get(links["videoUrl"], headers={"If-None-Match": shown.headers["etag"]})).status_code == 304
    assert (await http.head(links["videoUrl"])).headers["content-length"] == str(len(by_key.content))
    saved = await http.get(f"{links['videoUrl']}?download=true")
    assert saved.headers["content-disposition"].startswith("attachment; ")
    picture = await http.get(links["thumbnailUrl"])
    assert picture.status_code == 200 and picture.headers["content-type"] == "image/jpeg"
    preview = (await http.get(f"{asked}?kind=preview", headers=ANN)).json()
    assert preview["job"] != links["job"] and (await http.get(preview["videoUrl"])).content != by_key.content
    assert (await ann.media(session_id, job=preview["job"])).job == preview["job"]
    assert (await http.get(f"{asked}?job=job_none", headers=ANN)).status_code == 404
    for beside in ("files", "", "video/x"):
        assert (await http.get(f"{links['videoUrl'].removesuffix('video')}{beside}")).status_code == 404
    await ann.delete(session_id, undo_s=600)
    assert (await http.get(links["videoUrl"])).status_code == 404
    await ann.restore(session_id)
    assert (await http.get(links["videoUrl"])).status_code == 200


async def test_who_keeps_an_address_busy_keeps_nobody_else_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=f"ann={KEY}", KODA_USER_STREAMS=1) as koda,
        KodaClient(koda.url, key=KEY) as ann,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as anybody,
    ):
        session_id = await with_versions(koda, ann)
        await ann.accept(session_id)
        await until(ann, session_id, "complete")
        busy, other = await ann.media(session_id), await ann.media(session_id, kind="preview")
        assert busy.job != other.job
        size, slow, waiting = koda.storage.size, asyncio.Event(), asyncio.Semaphore(0)

        async def held(key: str) -> int:
            if busy.job in key:
                waiting.release()
                await slow.wait()
            return await size(key)

        monkeypatch.setattr(koda.storage, "size", held)
        async with asyncio.TaskGroup() as reading, asyncio.timeout(60):
            asked = [reading.create_task(anybody.head(busy.video_url)) for _ in range(SPARE_REQUESTS + 1)]
            for _ in asked:
                await waiting.acquire()
            refused = await anybody.head(busy.video_url)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
            assert (await anybody.head(other.video_url)).status_code == 200
            assert (await ann.session(session_id)).id == session_id
            slow.set()
        assert {each.result().status_code for each in asked} == {200}


async def test_its_token_stands_in_no_log(
    koda: World,
    ann: KodaClient,
    http: httpx.AsyncClient,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session_id = await with_versions(koda, ann)
    links = (await http.get(f"/v1/sessions/{session_id}/media", headers=ANN)).json()

    async def broken(*_: object) -> int:
        raise StorageError("the bucket does not answer")

    monkeypatch.setattr(koda.storage, "size", broken)
    assert (await http.get(links["videoUrl"])).status_code == 500
    logged = "".join(capsys.readouterr())
    assert "/v1/media/..." in logged and links["videoUrl"].split("/")[3] not in logged


def test_who_asks_again_gets_the_same_address_for_a_while() -> None:
    at = datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)
    token, end = MediaSigner(b"a key", clock=lambda: at).sign(GRANT)
    assert end == datetime(2026, 1, 1, 13, 15, tzinfo=UTC)
    assert MediaSigner(b"a key", clock=lambda: at + timedelta(minutes=14)).sign(GRANT) == (token, end)
    assert MediaSigner(b"a key", clock=lambda: at + timedelta(minutes=15)).sign(GRANT)[0] != token


def test_a_token_is_good_until_its_end_and_no_other_is() -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    signer = MediaSigner(b"a key", clock=lambda: at)
    token, end = signer.sign(GRANT)
    assert signer.check(token) == GRANT
    assert MediaSigner(b"a key", clock=lambda: end - timedelta(seconds=1)).check(token) == GRANT
    with pytest.raises(Forbidden) as over:
        MediaSigner(b"a key", clock=lambda: end).check(token)
    assert over.value.code == "TOKEN_EXPIRED"
    body, _, mac = token.rpartition(".")
    for bad in ("", ".", "a.b.c.d.e", f"{body}.", f"x{token}", f"{body}é.{mac}", token.replace("job_1", "job_2")):
        with pytest.raises(Forbidden, match="not valid"):
            signer.check(bad)
    with pytest.raises(Forbidden, match="not valid"):
        MediaSigner(b"another", clock=lambda: at).check(token)
