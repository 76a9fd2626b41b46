"""The project of a person's own sandbox over HTTP: out and in as a zip, built, pictured, and seen in a browser."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from PIL import Image
from playwright.async_api import TimeoutError as PlaywrightTimeoutError
from playwright.async_api import async_playwright

from koda_ray.sandbox.providers import Providers
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Sources, reaching
from tests.sandbox.test_archives import LINK, zip_of

from .framed import framed
from .test_preview import CHROMIUM
from .test_sandboxes import ADA, BOB, MAX_BODY_MB, client
from .world import free_port, serving, world

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux", "node")]


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """A server whose sandboxes start as the real template."""
    port = free_port()
    boxes, keys = tmp_path / "boxes", f"ada={ADA},bob={BOB}"
    async with world(
        tmp_path, SANDBOX_PATH=boxes, SANDBOX_PROVIDER="local", KODA_API_KEYS=keys, KODA_MAX_BODY_MB=MAX_BODY_MB,
        KODA_PREVIEW_PORT=port,
    ) as found:  # fmt: skip
        # as in the server: what shows the page is another program than the one that starts it
        providers = Providers(found.settings, found.deps.store)
        app = create_preview_app(
            None, found.deps.signer, api_port=1, sources=Sources(reach=reaching(found.deps.store, providers))
        )
        async with serving(app, port):
            yield found.url
        await providers.close()
    assert not list(boxes.glob("dep_*/sbx_*"))


@pytest.fixture
async def ada(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client(url, ADA) as http:
        yield http
        for one in (await http.get("/sandboxes")).json()["sandboxes"]:
            assert (await http.delete(f"/sandboxes/{one['id']}")).status_code == 204


async def make(http: httpx.AsyncClient) -> str:
    made = await http.post("/sandboxes", json={})
    assert made.status_code == 201, made.text
    return f"/sandboxes/{made.json()['id']}"


async def run(http: httpx.AsyncClient, box: str, command: str) -> str:
    return str((await http.post(f"{box}/commands", json={"command": command})).json()["stdout"])


def held(data: bytes) -> dict[str, tuple[int, bytes]]:
    """What a zip holds: permission bits and bytes by path."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        found = opened.infolist()
        return {one.filename: (stat.S_IMODE(one.external_attr >> 16), opened.read(one)) for one in found}


async def test_a_snapshot_goes_out_and_into_another_sandbox(ada: httpx.AsyncClient) -> None:
    first, second = await make(ada), await make(ada)
    laid = "mkdir -p 'a b/ü' none dist && printf 'x\\0y' > 'a b/ü/data' && chmod 755 'a b/ü/data' && ln -s 'a b' link"
    await run(ada, first, laid)
    out = await ada.get(f"{first}/snapshot")
    assert (out.status_code, out.headers["content-type"]) == (200, "application/octet-stream"), out.text
    assert out.headers["koda-left-out"] == "1"  # the link
    there = held(out.content)
    assert there["a b/ü/data"] == (0o755, b"x\0y") and there["none/"] == (0o755, b"")
    assert "src/App.tsx" in there and not any(path.startswith(("dist", "node_modules", "link")) for path in there)
    await run(ada, second, "echo mine > src/mine.ts; rm src/App.tsx; ln -s src kept; touch -d @1 package.json")
    back = await ada.put(f"{second}/snapshot", content=out.content)
    assert (back.status_code, back.content) == (204, b""), back.text
    again = await ada.get(f"{second}/snapshot")
    assert held(again.content) == there
    # what no snapshot holds stays, what was equal is untouched, what is built on is there
    said = await run(ada, second, "readlink kept; stat -c %Y package.json; ls -d node_modules/vite; ls -d src/mine.ts")
    assert said == "src\n1\nnode_modules/vite\n"


async def test_what_is_sent_may_hold_no_more_than_a_project(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    before = held((await ada.get(f"{box}/snapshot")).content)
    for content, status, words in (
        (b"no zip", 422, "not a zip"),
        (zip_of([("../x", 0o100644, "x")]), 422, "leads out"),
        (zip_of([("src/x", LINK, "/etc/passwd")]), 422, "the link 'src/x'"),
        (zip_of([("node_modules/x.js", 0o100644, "x")]), 422, "node_modules"),
        (bytes((MAX_BODY_MB << 20) + 1), 413, "bytes"),
    ):
        refused = await ada.put(f"{box}/snapshot", content=content)
        assert refused.status_code == status and words in refused.json()["detail"], refused.text
    assert held((await ada.get(f"{box}/snapshot")).content) == before


async def test_a_build_comes_out_or_says_where_it_fails(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    none = await ada.get(f"{box}/bundle")
    assert (none.status_code, none.json()["code"]) == (404, "FILE_NOT_FOUND")
    # a page that takes no time to build: the demo's does at each provider (project_conformance)
    await ada.put(f"{box}/files/src/main.tsx", content=b"import App from './App'; document.title = String(App);\n")
    await ada.put(f"{box}/files/src/App.tsx", content=b"export default 1;\n")
    built = (await ada.post(f"{box}/build")).json()
    assert built["ok"] and built["problems"] == [] and built["durationS"] > 0, built
    bundle = held((await ada.get(f"{box}/bundle")).content)
    assert {one["path"]: one["sizeBytes"] for one in built["files"]} == {p: len(d) for p, (_, d) in bundle.items()}
    assert b"<script" in bundle["index.html"][1]
    await ada.put(f"{box}/files/src/App.tsx", content=b"export default 1;\nconst x = ;\n")
    failed = (await ada.post(f"{box}/build")).json()
    assert not failed["ok"] and failed["files"] == []
    assert [(one["file"], one["line"]) for one in failed["problems"]] == [("src/App.tsx", 2)], failed


async def test_nobody_else_gets_anything_of_it(ada: httpx.AsyncClient, url: str) -> None:
    box = await make(ada)
    async with client(url, BOB) as bob:
        for method, path in (
            ("GET", "snapshot"), ("PUT", "snapshot"), ("POST", "build"), ("GET", "bundle"), ("POST", "preview"),
        ):  # fmt: skip
            refused = await bob.request(method, f"{box}/{path}", content=zip_of([]) if method == "PUT" else None)
            assert (refused.status_code, refused.json()["code"]) == (404, "SANDBOX_NOT_FOUND"), (path, refused.text)
        refused = await bob.post(f"{box}/screenshot", json={"atS": 1})
        assert refused.json()["code"] == "SANDBOX_NOT_FOUND"


@pytest.mark.browser
@pytest.mark.full
async def test_a_picture_is_taken_at_a_time(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    asked = {"atS": 1.5, "widthPx": 640, "heightPx": 360}
    shown = [await ada.post(f"{box}/screenshot", json=asked | {"atS": at}) for at in (1.5, 1.5, 3)]
    assert [one.headers["content-type"] for one in shown] == ["image/png"] * 3, shown[0].text
    assert Image.open(io.BytesIO(shown[0].content)).size == (640, 360)
    assert shown[0].content == shown[1].content != shown[2].content
    for wrong in ({"atS": -1}, {"atS": 1, "widthPx": 5000}, {}):
        assert (await ada.post(f"{box}/screenshot", json=wrong)).status_code == 422


@pytest.mark.browser
@pytest.mark.full
async def test_the_page_is_seen_and_reloads_as_files_are_written(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    opened = await ada.post(f"{box}/preview")
    assert opened.status_code == 200, opened.text
    again = await ada.post(f"{box}/preview", params={"edit": "true"})  # one server serves all
    assert again.status_code == 200 and (opened.json()["edit"], again.json()["edit"]) == (False, True)
    (process,) = (await ada.get(f"{box}/processes")).json()["processes"]
    assert (process["name"], process["state"]) == ("preview", "running")
    source = (await ada.get(f"{box}/files/src/App.tsx")).text
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"]
        )
        page = await browser.new_page()
        async with page.expect_console_message(lambda message: "[vite] connected" in message.text, timeout=60_000):
            frame = await framed(page, opened.json()["url"])
        await frame.wait_for_function("window.__koda !== undefined", timeout=60_000)
        for turn in range(10):  # a server that answers may still be on its way through the files it is to watch
            text = f"document.title = 'changed {turn}';\n{source}"
            await ada.put(f"{box}/files/src/App.tsx", content=text.encode())
            with suppress(PlaywrightTimeoutError):
                await frame.wait_for_function("document.title.startsWith('changed')", timeout=6_000)
                break
        else:
            pytest.fail("the page did not follow the files")
        await browser.close()
    await ada.delete(f"{box}/processes/preview")
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        assert (await http.get(opened.json()["url"])).status_code == 502
    await ada.put(f"{box}/files/vite.config.ts", content=b"throw new Error('this configuration is broken');\n")
    failed = await ada.post(f"{box}/preview")
    assert (failed.status_code, failed.json()["code"]) == (502, "SERVER_FAILED")
    assert "this configuration is broken" in failed.json()["detail"]
