"""A version's page as it was built: on the preview's origin, by a signed address, and nothing is started for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray.client import KodaClient
from koda_ray.errors import NotFound
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Sources
from koda_ray.serve.signing import Signer
from koda_ray.serve.stored_pages import StoredPages
from koda_ray.state.keys import bundle_key
from koda_ray.state.storage import Storage
from koda_ray.types import now
from tests.buckets import bucket_server

from .test_versions import with_versions
from .world import World, free_port, serving, world

FILES = {
    "index.html": b"<!doctype html><title>v1</title><script type=module src=./assets/a.js></script>",
    "assets/a.js": b"document.title = 'moved';",
    "assets/film.webm": bytes(range(256)) * 4_096,
}


@dataclass
class Played:
    """A server with a version whose page is stored, and what asks it."""

    koda: World
    client: KodaClient
    http: httpx.AsyncClient
    session_id: str
    version_id: str

    async def opened(self) -> str:
        return (await self.client.open_version(self.session_id, self.version_id)).url


async def played(stack: AsyncExitStack, folder: Path, **settings: object) -> Played:
    port = free_port()
    koda = await stack.enter_async_context(world(folder, KODA_PREVIEW_PORT=port, **settings))
    koda.directory.bundle = await store_bundle(koda.storage, "local", Bundle(FILES))
    sources = Sources(pages=StoredPages(koda.storage))
    app = create_preview_app(koda.directory, koda.deps.signer, api_port=urlsplit(koda.url).port or 0, sources=sources)
    await stack.enter_async_context(serving(app, port))
    client = await stack.enter_async_context(KodaClient(koda.url))
    http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=60))
    session_id = await with_versions(koda, client)
    (version,) = (await client.versions(session_id)).versions
    return Played(koda, client, http, session_id, version.id)


@pytest.fixture
async def shown(tmp_path: Path) -> AsyncIterator[Played]:
    async with AsyncExitStack() as stack:
        yield await played(stack, tmp_path)


async def test_a_stored_page_is_given_away_and_nobody_is_woken(shown: Played) -> None:
    activations, previews = shown.koda.directory.activations, shown.koda.directory.previews
    url = await shown.opened()
    page = await shown.http.get(url)
    assert page.content == FILES["index.html"] and page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts;") and "connect-src 'self'" in policy
    script = await shown.http.get(f"{url}assets/a.js")
    assert script.content == FILES["assets/a.js"] and script.headers["content-type"].startswith("text/javascript")
    assert script.headers["access-control-allow-origin"] == "*"
    around = await shown.http.get(url, headers={"Accept": "text/html"})
    assert "/v/" in around.text and b"<title>v1" not in around.content
    assert (shown.koda.directory.activations, shown.koda.directory.previews) == (activations, previews)
    assert shown.koda.directory.watchers == {}


async def test_a_film_in_it_can_be_sought(shown: Played) -> None:
    film = f"{await shown.opened()}assets/film.webm"
    data = FILES["assets/film.webm"]
    whole = await shown.http.get(film)
    assert whole.content == data and whole.headers["accept-ranges"] == "bytes"
    part = await shown.http.get(film, headers={"Range": "bytes=300000-300009"})
    assert (part.status_code, part.content) == (206, data[300_000:300_010])
    assert part.headers["content-range"] == f"bytes 300000-300009/{len(data)}"
    tail = await shown.http.get(film, headers={"Range": "bytes=-7"})
    assert tail.content == data[-7:]
    beyond = await shown.http.get(film, headers={"Range": f"bytes={len(data)}-"})
    assert beyond.status_code == 416 and beyond.headers["content-range"] == f"bytes */{len(data)}"
    head = await shown.http.head(film)
    assert head.headers["content-length"] == str(len(data)) and head.content == b""


async def test_only_what_is_in_the_page_and_only_to_look(shown: Played) -> None:
    url = await shown.opened()
    for path in ("none.js", "assets/", "assets/..%2findex.html", "assets/%2e%2e%2findex.html"):
        assert (await shown.http.get(f"{url}{path}")).status_code == 404, path
    for method in ("POST", "PUT", "DELETE"):
        assert (await shown.http.request(method, url)).status_code == 403
    with pytest.raises(InvalidStatus):
        await connect(url.replace("http", "ws"))


async def test_an_address_is_for_one_page_of_one_person_and_runs_out(shown: Played) -> None:
    signer = shown.koda.deps.signer
    url = await shown.opened()
    token = urlsplit(url).path.split("/")[2]
    grant = signer.check(token)
    assert (grant.session_id, grant.bundle, grant.port) == (shown.session_id, shown.koda.directory.bundle, None)
    origin = url.split("/p/")[0]
    assert (await shown.http.get(f"{origin}/p/{token.replace(grant.bundle or '', 'f' * 64)}/")).status_code == 403
    other, _ = signer.sign(session_id=shown.session_id, user_id="eve", bundle=grant.bundle)
    assert (await shown.http.get(f"{origin}/p/{other}/")).status_code == 404, "a bundle is its user's"
    late = Signer(signer.key, clock=lambda: now() - timedelta(hours=2))
    old, _ = late.sign(session_id=shown.session_id, user_id="local", bundle=grant.bundle)
    assert (await shown.http.get(f"{origin}/p/{old}/")).json()["code"] == "TOKEN_EXPIRED"


async def test_a_page_that_is_not_kept_any_more_says_so(shown: Played) -> None:
    url = await shown.opened()
    await shown.koda.storage.delete(bundle_key("local", shown.koda.directory.bundle))
    with pytest.raises(NotFound, match="the page of version 1 is not kept any more") as caught:
        await shown.opened()
    assert caught.value.code == "PAGE_NOT_KEPT"
    assert (await shown.http.get(url)).json()["code"] == "PAGE_NOT_KEPT"


@pytest.mark.needs("s3")
async def test_out_of_a_bucket_its_zip_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    get = Storage.get

    async def watched(self: Storage, key: str) -> bytes:
        read.append(key)
        return await get(self, key)

    with bucket_server("koda-test") as endpoint:
        settings = {"STORAGE_PROVIDER": "s3", "R2_BUCKET": "koda-test", "R2_ENDPOINT": endpoint}
        settings |= {"R2_ACCESS_KEY": "test", "R2_SECRET_KEY": "test"}
        async with AsyncExitStack() as stack:
            shown = await played(stack, tmp_path, **settings)
            url = await shown.opened()
            monkeypatch.setattr(Storage, "get", watched)
            for path, data in FILES.items():
                assert (await shown.http.get(f"{url}{path}")).content == data
            assert read == [bundle_key("local", shown.koda.directory.bundle)]


async def test_a_page_that_is_kept_waits_for_no_other(tmp_path: Path) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    class Far(Storage):
        """Objects that are no files here, and of which one comes late."""

        late = ""

        def local_path(self, key: str) -> None:
            return None

        async def get(self, key: str) -> bytes:
            if key == self.late:
                begun.set()
                await gate.wait()
            return await super().get(key)

    storage = Far(str(tmp_path / "storage"))
    first, second = [await store_bundle(storage, "ann", Bundle(FILES | {"n.txt": b"%d" % n})) for n in (1, 2)]
    pages = StoredPages(storage)

    async def asked(bundle: str) -> int:
        request = Request({"type": "http", "method": "HEAD", "headers": []})
        return (await pages.respond(request, user_id="ann", bundle=bundle, path="", headers={})).status_code

    assert await asked(first) == 200
    storage.late = bundle_key("ann", second)
    async with asyncio.TaskGroup() as tasks:
        late = tasks.create_task(asked(second))
        await begun.wait()
        async with asyncio.timeout(60):
            assert await asked(first) == 200
        gate.set()
    assert late.result() == 200
