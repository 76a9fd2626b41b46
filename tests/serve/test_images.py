"""Images that people send over HTTP: real zips, and who builds the Dockerfile of a stranger."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from koda_ray.sandbox import archives
from koda_ray.sandbox.docker import DockerProvider
from tests.sandbox.conftest import node_modules, template
from tests.sandbox.e2b import server
from tests.sandbox.e2b_server import API_KEY, E2BServer
from tests.sandbox.test_archives import FILE, LINK, zip_of

from .world import world

__all__ = ["node_modules", "server", "template"]

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux")]

_BUILT = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\nRUN echo built >/opt/mark\n"


@pytest.fixture
def clouds() -> dict[str, object]:
    """What settings say of providers that are not this machine's."""
    return {}


@pytest.fixture
async def http(
    tmp_path: Path, template: Path, node_modules: Path, clouds: dict[str, object]
) -> AsyncIterator[httpx.AsyncClient]:
    settings = {
        "SANDBOX_PATH": tmp_path / "boxes", "SANDBOX_PROVIDER": "local", "KODA_TEMPLATE_PATH": template,
        "KODA_NODE_MODULES_PATH": node_modules, **clouds,
    }  # fmt: skip
    async with (
        world(tmp_path, **settings) as found,
        httpx.AsyncClient(base_url=f"{found.url}/v1", trust_env=False, timeout=120) as client,
    ):
        yield client
        for one in (await client.get("/sandboxes")).json()["sandboxes"]:
            assert (await client.delete(f"/sandboxes/{one['id']}")).status_code == 204


async def said(http: httpx.AsyncClient, command: str, **chosen: str) -> str:
    """Make a sandbox and run a process in it to its end."""
    made = await http.post("/sandboxes", json=chosen)
    assert made.status_code == 201, made.text
    processes = f"/sandboxes/{made.json()['id']}/processes"
    launched = await http.post(processes, json={"name": "one", "command": command})
    assert launched.status_code == 201, launched.text
    async with http.stream("GET", f"{processes}/one/events") as answer:
        await answer.aread()  # to its end
    return (await http.get(f"{processes}/one/output")).text


@pytest.mark.needs("npm")
async def test_a_project_that_npm_installed_starts(http: httpx.AsyncClient) -> None:
    """Its commands are links, and find the files beside what they lead to."""
    data = zip_of(
        [
            ("package.json", FILE, '{"name": "p", "scripts": {"start": "hello"}}'),
            ("node_modules/.bin/hello", LINK, "../hello/bin/cli.js"),
            ("node_modules/hello/bin/cli.js", 0o100755, "#!/usr/bin/env node\nrequire('../lib/x.js')\n"),
            ("node_modules/hello/lib/x.js", FILE, "console.log('found-' + 6 * 7)\n"),
        ]
    )
    sent = await http.post("/images", params={"name": "p"}, content=data)
    assert sent.status_code == 201, sent.text
    assert "found-42" in await said(http, "npm start", image="p")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (None, "not a zip"),
        ([("../out", FILE, "x")], "leads out"),
        ([("/etc/x", FILE, "x")], "leads out"),
        ([("link", LINK, "/etc/passwd")], "leads out"),
        ([("a", FILE, "x"), ("a/b", FILE, "x")], "both a file and a folder"),
        ([("Dockerfile", FILE, "FROM scratch")], "koda image create"),
        ([(str(number), FILE, "") for number in range(12)], "over 10 entries"),
        ([("a", FILE, "x" * 5000)], "more than"),
    ],
)
async def test_a_zip_that_no_image_is_made_of(
    http: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    entries: list[tuple[str, int, str]] | None,
    words: str,
) -> None:
    monkeypatch.setattr(archives, "MAX_FILES", 10)
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 4000)
    data = b"no zip" if entries is None else zip_of(entries)
    answer = await http.post("/images", params={"name": "bad"}, content=data)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")
    assert words in answer.json()["detail"]
    assert (await http.get("/images")).json() == {"images": []}


class TestFull:
    """Where a person has as many as may be."""

    @pytest.fixture
    def clouds(self) -> dict[str, object]:
        return {"SANDBOX_IMAGES_PER_USER": 1}

    async def test_nothing_is_unpacked_and_what_is_there_is_found(self, http: httpx.AsyncClient) -> None:
        data = zip_of([("a", FILE, "x")])
        first = await http.post("/images", params={"name": "a"}, content=data)
        for params in ({"name": "b"}, {"name": "a", "clean": "true"}):
            refused = await http.post("/images", params=params, content=b"nobody looks at this")
            assert (refused.status_code, refused.json()["code"]) == (429, "QUOTA_EXCEEDED"), refused.text
            assert "SANDBOX_IMAGES_PER_USER" in refused.json()["detail"]
        again = await http.post("/images", params={"name": "a"}, content=data)
        assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
        changed = await http.post("/images", params={"name": "a"}, content=zip_of([("a", FILE, "y")]))
        assert (changed.status_code, changed.json()["code"]) == (429, "QUOTA_EXCEEDED")
        assert (await http.delete("/images/a")).status_code == 204
        assert (await http.post("/images", params={"name": "b"}, content=data)).status_code == 201


@pytest.mark.needs("e2b")
class TestDockerfiles:
    """Built where that gives nobody rights on this machine."""

    @pytest.fixture
    def clouds(self, server: E2BServer) -> dict[str, object]:
        return {
            "E2B_API_KEY": API_KEY, "E2B_API_URL": server.url, "E2B_SANDBOX_URL": server.url, "E2B_TEMPLATE": "koda",
        }  # fmt: skip

    @pytest.mark.full
    async def test_a_cloud_builds_one_that_was_sent(self, http: httpx.AsyncClient) -> None:
        data = zip_of([("main.js", FILE, "1"), ("Dockerfile", FILE, _BUILT), ("to-main", LINK, "main.js")])
        sent = await http.post("/images", params={"name": "own", "provider": "e2b"}, content=data)
        assert sent.status_code == 201, sent.text
        assert "built" in await said(http, "cat /opt/mark && cmp main.js to-main", image="own")
        assert (await http.delete("/images/own")).status_code == 204

    @pytest.mark.parametrize("provider", ["local", "docker"])
    async def test_this_machine_builds_none(
        self, http: httpx.AsyncClient, provider: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(DockerProvider, "location", None)  # nobody gets as far as to ask the engine
        data = zip_of([("Dockerfile", FILE, _BUILT)])
        answer = await http.post("/images", params={"name": "own", "provider": provider}, content=data)
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_INPUT")
        assert f"'{provider}' does not build" in answer.json()["detail"] and "e2b" in answer.json()["detail"]
