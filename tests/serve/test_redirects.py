"""Large videos in a bucket are fetched from there, by whoever may see them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.serve.media import REDIRECTED_BYTES
from koda_ray.state.keys import video_key
from tests.buckets import bucket_server

from .scripted import VIDEO
from .test_assets import sound
from .test_sessions import PROMPT, until
from .world import World, world

ALICE, BOB = "alice-key-0123456789abcdef", "bob-key-0123456789abcdef"
LARGE = hashlib.sha256(b"frames").digest() * (REDIRECTED_BYTES // 32 + 1)
IN_BUCKET = {"STORAGE_PROVIDER": "s3", "R2_BUCKET": "koda-test", "R2_ACCESS_KEY": "test", "R2_SECRET_KEY": "test"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with bucket_server("koda-test") as found:
        yield found


@pytest.fixture
async def koda(tmp_path: Path, endpoint: str) -> AsyncIterator[World]:
    keys = f"alice={ALICE},bob={BOB}"
    async with world(
        tmp_path, **IN_BUCKET, R2_ENDPOINT=endpoint, STORAGE_REDIRECTS="always", KODA_API_KEYS=keys
    ) as found:
        found.directory.asks = False
        yield found


@pytest.fixture
async def alice(koda: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(koda.url, key=ALICE) as found:
        yield found


@pytest.fixture
async def http(koda: World) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {ALICE}"}
    async with httpx.AsyncClient(base_url=koda.url, headers=headers, trust_env=False, timeout=60) as found:
        yield found


@pytest.fixture
async def finished(koda: World, alice: KodaClient) -> str:
    """A session whose final video is large, and whose preview is small."""
    made = await alice.create(PROMPT)
    await until(alice, made.session_id, "plan")
    await alice.accept(made.session_id)
    await until(alice, made.session_id, "preview")
    await alice.accept(made.session_id)
    await until(alice, made.session_id, "complete")
    output = (await koda.store.get_session(made.session_id)).state.output
    assert output is not None
    await koda.storage.put(video_key("alice", output.job_id, "mp4"), LARGE)
    return made.session_id


async def test_a_large_video_comes_from_the_bucket(http: httpx.AsyncClient, endpoint: str, finished: str) -> None:
    sent = await http.get(f"/v1/sessions/{finished}/video")
    url = sent.headers["location"]
    asked = parse_qs(urlsplit(url).query)
    assert (sent.status_code, sent.content, url.startswith(f"{endpoint}/koda-test/users/alice/")) == (307, b"", True)
    assert (sent.headers["cache-control"], sent.headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert asked["X-Amz-Expires"] == ["3600"] and len(asked["X-Amz-Signature"][0]) == 64
    async with httpx.AsyncClient(trust_env=False, timeout=60) as anybody:
        found = await anybody.get(url)
    assert (found.status_code, found.content == LARGE, found.headers["content-type"]) == (200, True, "video/mp4")
    assert found.headers["content-disposition"] == f'inline; filename="{finished}-final.mp4"'


async def test_ranges_and_names_go_along(http: httpx.AsyncClient, finished: str) -> None:
    url = f"/v1/sessions/{finished}/video?download=true"
    part = await http.get(url, headers={"Range": "bytes=1000000-1000063"}, follow_redirects=True)
    assert (part.status_code, part.content) == (206, LARGE[1_000_000:1_000_064])
    assert part.headers["content-disposition"] == f'attachment; filename="{finished}-final.mp4"'
    outside = await http.get(url, headers={"Range": f"bytes={len(LARGE)}-"})
    assert (outside.status_code, outside.json()["code"]) == (416, "RANGE_NOT_SATISFIABLE")
    head = await http.head(url)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(LARGE)))
    again = await http.get(url, headers={"If-None-Match": head.headers["etag"]})
    assert again.status_code == 304


async def test_a_small_one_comes_from_here(http: httpx.AsyncClient, finished: str) -> None:
    preview = await http.get(f"/v1/sessions/{finished}/video?kind=preview")
    assert (preview.status_code, preview.content) == (200, VIDEO["preview"])


async def test_nobody_else_is_given_an_address(koda: World, finished: str) -> None:
    async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as stranger:
        for key, status in ((BOB, 404), ("", 401)):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            found = await stranger.get(f"/v1/sessions/{finished}/video", headers=headers)
            assert (found.status_code, "location" in found.headers) == (status, False)


async def test_an_address_without_a_key_leads_to_no_bucket(http: httpx.AsyncClient, finished: str) -> None:
    links = (await http.get(f"/v1/sessions/{finished}/media")).json()
    async with httpx.AsyncClient(base_url=str(http.base_url), trust_env=False, timeout=60) as anybody:
        found = await anybody.get(links["videoUrl"])
        assert (found.status_code, found.content == LARGE, "location" in found.headers) == (200, True, False)
        assert found.headers["cross-origin-resource-policy"] == "cross-origin"
        part = await anybody.get(links["videoUrl"], headers={"Range": "bytes=1000000-1000063"})
        assert (part.status_code, part.content) == (206, LARGE[1_000_000:1_000_064])
        assert (await http.delete(f"/v1/sessions/{finished}?undoS=600")).status_code == 204
        assert (await anybody.get(links["videoUrl"])).status_code == 404


async def test_the_client_follows_and_shows_the_bucket_no_key(alice: KodaClient, finished: str, tmp_path: Path) -> None:
    size = await alice.download(finished, tmp_path / "video.mp4")
    assert size == len(LARGE) and (tmp_path / "video.mp4").read_bytes() == LARGE


async def test_a_large_sound_is_read_here_where_that_is_asked_for(
    koda: World, alice: KodaClient, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    (tmp_path / "beat.wav").write_bytes(sound())
    asset = await alice.upload(tmp_path / "beat.wav")
    await koda.storage.put((await koda.store.get_asset(asset.id, user_id="alice")).key, LARGE)
    assert (await http.get(asset.file_url)).status_code == 307
    found = await http.get(f"{asset.file_url}?here=true")  # a page may read nothing of another origin
    assert (found.status_code, found.content == LARGE) == (200, True)


async def test_the_page_may_show_what_the_bucket_has(http: httpx.AsyncClient, endpoint: str) -> None:
    policy = (await http.get("/")).headers["content-security-policy"]
    assert f"media-src 'self' blob: {endpoint};" in policy


async def test_a_bucket_that_clients_do_not_reach_is_read_here(tmp_path: Path, endpoint: str) -> None:
    async with world(tmp_path, **IN_BUCKET, R2_ENDPOINT=endpoint) as koda, KodaClient(koda.url) as client:
        koda.directory.asks = False
        made = await client.create(PROMPT)
        await until(client, made.session_id, "plan")
        await client.accept(made.session_id)
        await until(client, made.session_id, "preview")
        preview = (await koda.store.get_session(made.session_id)).state.preview
        assert preview is not None
        await koda.storage.put(video_key("local", preview.job_id, "mp4"), LARGE)
        async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:
            found = await http.get(f"/v1/sessions/{made.session_id}/video")
            assert (found.status_code, found.content == LARGE) == (200, True)
            assert "media-src 'self' blob:;" in (await http.get("/")).headers["content-security-policy"]


@pytest.mark.parametrize(
    ("where", "is_redirected"),
    [
        ({}, False),
        ({"STORAGE_REDIRECTS": "always"}, False),
        ({**IN_BUCKET}, True),
        ({**IN_BUCKET, "R2_ENDPOINT": "https://account.r2.cloudflarestorage.com"}, True),
        ({**IN_BUCKET, "R2_ENDPOINT": "http://10.0.0.7:8333"}, False),
        ({**IN_BUCKET, "R2_ENDPOINT": "http://10.0.0.7:8333", "STORAGE_REDIRECTS": "always"}, True),
        ({**IN_BUCKET, "STORAGE_REDIRECTS": "never"}, False),
    ],
)
def test_which_buckets_clients_are_sent_to(where: dict[str, str], is_redirected: bool) -> None:
    assert Settings.model_validate(where).redirects_to_bucket is is_redirected
