"""People's own sandboxes over HTTP: real HTTP, real walls, real terminals."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.record import Record
from koda_ray.sandbox.workshop import Workshop
from koda_ray.serve.left import end_left
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Sources, reaching
from tests.sandbox.conftest import write_packages, write_template

from .world import World, free_port, reached, serving, world

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux")]

ADA, BOB = "a" * 32, "b" * 32
DEADLINE_S = 60.0
MAX_BODY_MB = 2
ELSEWHERE = ("https://evil.example", "null", "http://127.0.0.1:1", "http://localhost:5173")


def zipped(files: dict[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o100755 if name.endswith(".sh") else 0o100644) << 16
            archive.writestr(info, text)
    return data.getvalue()


NOTES = zipped({"start.sh": "#!/bin/sh\necho grüße from $(pwd)\n", "src/a.txt": "a\n"})


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[World]:
    settings = {
        "SANDBOX_PATH": tmp_path / "boxes", "SANDBOX_PROVIDER": "local", "KODA_API_KEYS": f"ada={ADA},bob={BOB}",
        "KODA_MAX_BODY_MB": MAX_BODY_MB,
        "KODA_TEMPLATE_PATH": write_template(tmp_path / "template"),
        "KODA_NODE_MODULES_PATH": write_packages(tmp_path / "node_modules"),
    }  # fmt: skip
    port = free_port()
    async with world(tmp_path, KODA_PREVIEW_PORT=port, **settings) as found:
        providers = Providers(found.settings, found.deps.store)
        app = create_preview_app(
            None, found.deps.signer, api_port=1, sources=Sources(reach=reaching(found.deps.store, providers))
        )
        async with serving(app, port):
            yield found
        await providers.close()
    assert not list((tmp_path / "boxes").glob("dep_*/sbx_*"))


@pytest.fixture
def url(served: World) -> str:
    return served.url


def client(url: str, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"{url}/v1", headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=60
    )


@pytest.fixture
async def ada(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with client(url, ADA) as http:
        yield http
        for one in (await http.get("/sandboxes")).json()["sandboxes"]:
            assert (await http.delete(f"/sandboxes/{one['id']}")).status_code == 204


async def make(http: httpx.AsyncClient, *, network: bool = False) -> str:
    sent = await http.post("/images", params={"name": "notes"}, content=NOTES)
    assert sent.status_code == 201, sent.text
    made = await http.post("/sandboxes", json={"image": "notes", "network": network})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/v1/sandboxes/{made.json()['id']}"
    return f"/sandboxes/{made.json()['id']}"


Told = list[tuple[str, int, dict[str, object]]]


async def follow(
    http: httpx.AsyncClient, path: str, *, headers: dict[str, str] | None = None, events: Told | None = None
) -> Told:
    """Read events to their end; those so far are in ``events``."""
    events = [] if events is None else events
    async with asyncio.timeout(DEADLINE_S), http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        found: dict[str, str] = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if not line and "data" in found:
                events.append((found["event"], int(found["id"]), json.loads(found["data"])))
                found = {}
            elif name:
                found[name] = value
    return events


async def test_the_whole_way_from_a_zip_to_what_a_process_says(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    again = await ada.post("/images", params={"name": "notes"}, content=NOTES)
    (image,) = (await ada.get("/images")).json()["images"]  # what is sent twice is one image
    assert again.json()["id"] == image["id"]
    assert (image["name"], image["state"], image["provider"]) == ("notes", "ready", "local")
    seen = (await ada.get(box)).json()
    assert (seen["state"], seen["imageId"]) == ("running", image["id"])
    extended = await ada.post(f"{box}/extend", json={"lifetimeS": 86_400})
    assert extended.status_code == 200 and extended.json()["expiresAt"] > seen["expiresAt"] > seen["createdAt"]
    assert (await ada.get(box)).json() == extended.json()
    assert (await ada.post(f"{box}/extend", json={"lifetimeS": 0})).status_code == 422
    assert (await ada.post("/sandboxes/sbx_none/extend", json={"lifetimeS": 60})).status_code == 404
    launched = await ada.post(f"{box}/processes", json={"name": "main", "command": "./start.sh; sleep 0.3; exit 4"})
    assert launched.status_code == 201
    assert launched.json()["eventsUrl"] == f"/v1{box}/processes/main/events"
    events = await follow(ada, f"{box}/processes/main/events")
    assert "".join(str(event[2]["text"]) for event in events) == "grüße from /home/user/project\r\n"
    assert [event[0] for event in events][-1] == "end" and events[-1][2]["exitCode"] == 4
    place = len("grüße ".encode())
    rest = await follow(ada, f"{box}/processes/main/events", headers={"Last-Event-ID": str(place)})
    assert "".join(str(event[2]["text"]) for event in rest) == "from /home/user/project\r\n"
    assert rest[-1][1] == events[-1][1]
    assert (await ada.get(f"{box}/processes")).json() == {"processes": []}
    (ended,) = (await ada.get(f"{box}/processes", params={"all": "true"})).json()["processes"]
    assert (ended["state"], ended["exitCode"]) == ("ended", 4)
    assert (await ada.get(f"{box}/processes/main")).json() == ended
    assert (await ada.get(f"{box}/processes/main/output")).text == "grüße from /home/user/project\r\n"
    assert (await ada.delete(box)).status_code == 204
    assert (await ada.delete(box)).status_code == 204
    assert (await ada.get(box)).json()["state"] == "terminated"
    assert (await ada.get(f"{box}/processes")).json()["code"] == "SANDBOX_NOT_FOUND"
    assert (await ada.delete("/images/notes")).status_code == 204
    assert (await ada.delete("/images/notes")).status_code == 404


UTTERED = "printf 'größe\\n'; pwd >&2; exit 3"
BINARY = bytes(range(256)) * 40


async def test_files_go_in_and_come_out_as_they_are(ada: httpx.AsyncClient, tmp_path: Path) -> None:
    box = await make(ada)
    deep = "notes/ü b/ein #1?.txt"
    for path, data in (("main.py", BINARY), (quote(deep), "grüße\n".encode()), ("empty", b"")):
        written = await ada.put(f"{box}/files/{path}", content=data)
        assert (written.status_code, written.content) == (204, b""), written.text
        read = await ada.get(f"{box}/files/{path}")
        assert (read.status_code, read.content) == (200, data)
        assert read.headers["content-type"] == "application/octet-stream"
        assert read.headers["x-content-type-options"] == "nosniff"
        assert read.headers["content-disposition"].startswith('attachment; filename="')
    await ada.put(f"{box}/files/page.html", content=b"<script>alert(1)</script>")
    assert (await ada.get(f"{box}/files/page.html")).headers["content-type"] == "application/octet-stream"
    await ada.put(f"{box}/files/start.sh", content=b"#!/bin/sh\nstat -c %a start.sh\n")
    ran = await ada.post(f"{box}/commands", json={"command": "./start.sh"})
    assert ran.json()["stdout"] == "755\n"  # what is written anew keeps its mode
    listed = (await ada.get(f"{box}/files")).json()["files"]
    assert {"path": "main.py", "type": "file", "sizeBytes": len(BINARY)} in listed
    assert {"path": "notes", "type": "directory", "sizeBytes": 0} in listed
    below = (await ada.get(f"{box}/files", params={"path": "notes", "recursive": "true"})).json()["files"]
    assert [one["path"] for one in below] == ["notes/ü b", deep]
    for path in ("main.py", "notes"):
        for _ in range(2):
            assert (await ada.delete(f"{box}/files/{path}")).status_code == 204
    gone = await ada.get(f"{box}/files/{quote(deep)}")
    assert (gone.status_code, gone.json()["code"]) == (404, "FILE_NOT_FOUND")
    none = await ada.get(f"{box}/files", params={"path": "notes"})
    assert (none.status_code, none.json()["code"]) == (404, "FILE_NOT_FOUND")


async def test_a_file_is_one_of_the_project_and_not_larger_than_an_upload(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    for path in ("%2e%2e/x", "src/%2E%2E/%2E%2E/x", "/etc/passwd", "a%00b", "node_modules/x", ""):
        for method in ("GET", "PUT", "DELETE"):
            refused = await ada.request(method, f"{box}/files/{path}", content=b"x" if method == "PUT" else None)
            assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_PATH"), (method, path, refused.text)
    for body in ({"command": "true", "cwd": "../x"}, {"command": "true", "cwd": "/etc"}):
        assert (await ada.post(f"{box}/commands", json=body)).json()["code"] == "INVALID_PATH"

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(1 << 20)

    # as much as any upload, and far more than other bodies
    assert (await ada.put(f"{box}/files/src/large", content=bytes(MAX_BODY_MB << 20))).status_code == 204
    for content in (bytes((MAX_BODY_MB << 20) + 1), pieces()):
        refused = await ada.put(f"{box}/files/src/larger", content=content)
        assert (refused.status_code, refused.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert [one["path"] for one in (await ada.get(f"{box}/files", params={"path": "src"})).json()["files"]] == [
        "src/a.txt",
        "src/large",
    ]


async def test_an_answer_tells_so_much_of_what_a_process_writes_and_the_next_the_rest(
    ada: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody reads waits in the server's memory, so it must have an end."""
    monkeypatch.setattr("koda_ray.serve.routes.processes._ANSWER_BYTES", 30_000)
    path = f"{await make(ada)}/processes"
    launched = await ada.post(path, json={"name": "count", "command": "seq 1 20000"})
    assert launched.status_code == 201, launched.text
    answers = [await follow(ada, f"{path}/count/events")]
    while answers[-1][-1][0] != "end":
        place = str(answers[-1][-1][1])
        answers.append(await follow(ada, f"{path}/count/events", headers={"Last-Event-ID": place}))
    said = "".join(str(data["text"]) for answer in answers for _, _, data in answer)
    assert said.split() == [str(number) for number in range(1, 20001)] and len(answers) > 1


async def test_a_command_is_answered_when_it_has_ended(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    ran = await ada.post(f"{box}/commands", json={"command": UTTERED, "cwd": "src"})
    assert ran.status_code == 200, ran.text
    said = ran.json()
    assert said.pop("durationS") > 0
    assert said == {"exitCode": 3, "stdout": "größe\n", "stderr": "/home/user/project/src\n", "truncated": False}
    late = await ada.post(f"{box}/commands", json={"command": "echo begun; sleep 600", "timeoutS": 0.5})
    assert (late.status_code, late.json()["code"]) == (502, "TIMEOUT")
    assert "0.5 s" in late.json()["detail"] and "begun" in late.json()["detail"]
    left = await ada.post(f"{box}/commands", json={"command": "grep -lsz '^600$' /proc/[0-9]*/cmdline"})
    assert left.json()["stdout"] == ""
    long = await ada.post(f"{box}/commands", json={"command": "head -c 1000000 /dev/zero | tr '\\0' x"})
    assert long.json()["truncated"] and 0 < len(long.json()["stdout"]) < 500_000
    lost = await ada.post(f"{box}/commands", json={"command": "nosuchprogram"})
    assert lost.json()["exitCode"] == 127 and "nosuchprogram" in lost.json()["stderr"]
    for body, code in (
        ({"command": ""}, "INVALID_INPUT"),
        ({"command": "  "}, "INVALID_INPUT"),
        ({"command": "true", "timeoutS": 0}, "INVALID_INPUT"),
        ({"command": "true", "timeoutS": 3601}, "INVALID_INPUT"),
        ({"command": "sudo true"}, "COMMAND_BLOCKED"),
    ):
        refused = await ada.post(f"{box}/commands", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, code), refused.text


PAGE = """
require('http').createServer((asked, answer) => {
  let body = '';
  asked.on('data', (part) => (body += part)).on('end', () => {
    answer.setHeader('content-type', asked.url.endsWith('.js') ? 'text/javascript' : 'text/html');
    if (asked.url === '/away') answer.writeHead(302, { location: '/there' });
    answer.end(`${asked.method} ${asked.url} ${body} <script src="/a.js"></script>`);
  });
}).listen(3000, 'localhost');
"""


async def test_the_page_of_a_process_is_seen_by_whoever_has_its_address(
    ada: httpx.AsyncClient, url: str, tmp_path: Path
) -> None:
    sent = await ada.post("/images", params={"name": "site"}, content=zipped({"serve.js": PAGE}))
    assert sent.status_code == 201
    box = f"/sandboxes/{(await ada.post('/sandboxes', json={'image': 'site'})).json()['id']}"
    nobody = await ada.post(f"{box}/ports/3000")
    assert nobody.status_code == 404 and "no process" in nobody.json()["detail"]
    await ada.post(f"{box}/processes", json={"name": "idle", "command": "sleep 1000"})
    nobody = await ada.post(f"{box}/ports/3000")
    assert nobody.json()["code"] == "PORT_UNAVAILABLE", nobody.text
    await ada.post(f"{box}/processes", json={"name": "site", "command": "node serve.js"})
    async with asyncio.timeout(DEADLINE_S):
        while (opened := await ada.post(f"{box}/ports/3000")).status_code != 200:
            await asyncio.sleep(0.05)
    page = opened.json()["url"]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.get(f"{page}a/b?c=%20d")
        assert answer.text.startswith("GET /a/b?c=%20d ")
        assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts;")
        assert (await http.put(f"{page}x", content="new")).text.startswith("PUT /x new")
        moved = await http.get(f"{page}away")
        assert (moved.status_code, moved.headers["location"]) == (307, urlsplit(f"{page}there").path)
        # what begins with a slash is the page's own, and nobody else's
        origin = page.split("/p/")[0]
        lost = await http.get(f"{origin}/a.js?v=1", headers={"referer": page})
        assert (lost.status_code, lost.headers["location"]) == (307, f"{urlsplit(page).path}a.js?v=1")
        assert (await http.get(f"{origin}/a.js")).status_code == 404
        assert (await http.get(f"{origin}/a.js", headers={"referer": f"{page[:-3]}/"})).status_code == 403
        elsewhere = {"referer": page.replace(origin, "http://elsewhere.test")}
        assert (await http.get(f"{origin}/a.js", headers=elsewhere)).status_code == 404
        other = page.replace(":3000", ":3001")
        assert other != page and (await http.get(other)).status_code == 403
        assert (await ada.post(f"{box}/ports/0")).status_code == 422
        assert (await ada.post(f"{box}/desktop")).json()["code"] == "PORT_UNAVAILABLE"
        desktop = "sed s/3000/6080/ serve.js >desktop.js && node desktop.js"
        await ada.post(f"{box}/processes", json={"name": "desktop", "command": desktop})
        async with asyncio.timeout(DEADLINE_S):
            while (opened := await ada.post(f"{box}/desktop")).status_code != 200:
                await asyncio.sleep(0.05)
        seen = urlsplit(opened.json()["url"])
        assert seen.path.endswith("/vnc.html") and seen.query.endswith(f"path={seen.path[1:-8]}websockify")
        assert (await http.get(opened.json()["url"])).text.startswith("GET /vnc.html?autoconnect=true")
        await ada.delete(f"{box}/processes/site")
        assert (await http.get(page)).status_code == 502
        await ada.delete(box)
        assert (await http.get(page)).status_code in (404, 502)


@pytest.mark.full
async def test_who_watches_is_told_which_files_change_until_the_sandbox_ends(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    told: list[dict[str, str]] = []
    async with asyncio.timeout(DEADLINE_S), ada.stream("GET", f"{box}/changes", params={"path": "src"}) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if not line.startswith("data: "):
                continue
            changes = json.loads(line[6:])["changes"]
            told += changes
            if not changes:  # from here on nothing is missed
                command = "echo 1 > outside.txt; echo 2 > 'src/ü b.txt'; rm src/a.txt"
                await ada.post(f"{box}/processes", json={"name": "writer", "command": command})
            if len(told) >= 2:
                assert (await ada.delete(box)).status_code == 204
    assert sorted(told, key=lambda one: one["kind"]) == [
        {"path": "src/ü b.txt", "kind": "added"},
        {"path": "src/a.txt", "kind": "removed"},
    ]
    for path, status in (("none", 404), ("../..", 422)):
        left = await make(ada)
        assert (await ada.get(f"{left}/changes", params={"path": path})).status_code == status
    assert (await ada.get(f"{box}/changes")).json()["code"] == "SANDBOX_NOT_FOUND"


@pytest.mark.full
async def test_a_process_runs_on_when_its_follower_hangs_up_and_ends_when_it_is_killed(ada: httpx.AsyncClient) -> None:
    box = await make(ada)
    await ada.post(f"{box}/processes", json={"name": "loop", "command": "while :; do echo tick; sleep 0.1; done"})
    async with asyncio.timeout(DEADLINE_S), ada.stream("GET", f"{box}/processes/loop/events") as answer:
        async for line in answer.aiter_lines():
            if "tick" in line:
                break
    assert (await ada.get(f"{box}/processes/loop")).json()["state"] == "running"
    again = await ada.post(f"{box}/processes", json={"name": "loop", "command": "true"})
    assert (again.status_code, again.json()["code"]) == (409, "CONFLICT")
    events: Told = []
    following = asyncio.create_task(follow(ada, f"{box}/processes/loop/events", events=events))
    await reached(lambda: bool(events))
    assert (await ada.delete(f"{box}/processes/loop")).status_code == 204
    await following
    assert events[-1][0] == "end" and events[-1][2]["exitCode"] in (None, 137)  # tmux may still say how it ended
    assert (await ada.delete(f"{box}/processes/loop")).status_code == 404


async def test_a_terminal_over_a_socket_is_left_and_found_again(ada: httpx.AsyncClient, url: str) -> None:
    box = await make(ada)
    await ada.post(f"{box}/processes", json={"name": "shell", "command": "exec sh"})
    where = f"{url.replace('http', 'ws')}/v1{box}/processes/shell/terminal?rows=30&columns=90"
    headers = {"Authorization": f"Bearer {ADA}"}

    async def shown(words: bytes) -> None:
        seen = b""
        async with asyncio.timeout(DEADLINE_S):
            while words not in seen:
                seen += bytes(await socket.recv(decode=False))

    async with connect(where, additional_headers=headers) as socket:
        await socket.send(b"mark=$((6 * 7)); stty size; echo is-$mark\r")
        await shown(b"is-42")
        await socket.send('{"rows": 40, "columns": 100}')
        await socket.send(b"until stty size | grep '39 100'; do sleep 0.05; done; echo now-$((1 + 1))\r")
        await shown(b"now-2")
    assert (await ada.get(f"{box}/processes/shell")).json()["state"] == "running"
    async with connect(where, additional_headers=headers) as socket:
        await socket.send(b"clear; echo still-$mark; exit\r")
        await shown(b"still-42")
        async with asyncio.timeout(DEADLINE_S):
            await socket.wait_closed()
    assert (await ada.get(f"{box}/processes/shell")).json()["state"] == "ended"


async def test_a_terminal_is_left_though_its_request_is_cancelled_again_and_again(
    ada: httpx.AsyncClient, url: str
) -> None:
    """As by a server that stops: nothing stays attached."""
    box = await make(ada)
    await ada.post(f"{box}/processes", json={"name": "shell", "command": "exec sh"})
    where = f"{url.replace('http', 'ws')}/v1{box}/processes/shell/terminal"

    def attached() -> list[int]:
        children = psutil.Process().children(recursive=True)
        return [child.pid for child in children if child.is_running() and "attach-session" in words(child)]

    def words(process: psutil.Process) -> list[str]:
        try:
            return process.cmdline()
        except psutil.Error:
            return []

    async with connect(where, additional_headers={"Authorization": f"Bearer {ADA}"}) as socket:
        await socket.recv()
        assert attached()
        serving = [task for task in asyncio.all_tasks() if "run_asgi" in str(task.get_coro())]
        for _ in range(4):
            for task in serving:
                task.cancel()
            await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.wait(serving)
            while attached():
                await asyncio.sleep(0.02)
    assert (await ada.get(f"{box}/processes/shell")).json()["state"] == "running"


async def test_a_terminal_that_was_left_ends_unless_somebody_is_there(ada: httpx.AsyncClient, served: World) -> None:
    box = await make(ada)
    at = f"{box}/processes/shell"
    await ada.post(f"{box}/processes", json={"name": "shell", "command": "sleep 1000 & exec sh"})
    where = f"{served.url.replace('http', 'ws')}/v1{at}/terminal"
    headers = {"Authorization": f"Bearer {ADA}"}
    workshop = Workshop(served.deps.store, served.app.state.providers, user_id="ada")
    sandbox_id = box.rpartition("/")[2]
    run, over = (await workshop.process(sandbox_id, "shell")).record.run, asyncio.Event()
    async with connect(where, additional_headers=headers) as socket:
        await socket.recv()
        await end_left(workshop, sandbox_id, "shell", run, after_s=0, over=over)
        assert (await ada.get(at)).json()["state"] == "running"
    await end_left(workshop, sandbox_id, "shell", "0" * 32, after_s=0, over=over)  # another one of its name
    assert (await ada.get(at)).json()["state"] == "running"
    async with connect(f"{where}?unusedS=0", additional_headers=headers) as socket:
        await socket.recv()
    async with asyncio.timeout(DEADLINE_S):
        while (await ada.get(f"{box}/processes")).json()["processes"]:
            await asyncio.sleep(0.05)
    await end_left(workshop, sandbox_id, "shell", run, after_s=0, over=over)  # it is no more
    await ada.post(f"{box}/processes", json={"name": "shell", "command": "exec sh"})
    run = (await workshop.process(sandbox_id, "shell")).record.run
    over.set()  # a server that stops waits for nobody
    async with asyncio.timeout(DEADLINE_S):
        await end_left(workshop, sandbox_id, "shell", run, after_s=600, over=over)
    assert (await ada.get(at)).status_code == 404


async def test_a_browser_opens_a_terminal_from_our_own_pages_alone(ada: httpx.AsyncClient, url: str) -> None:
    box = await make(ada)
    await ada.post(f"{box}/processes", json={"name": "shell", "command": "exec sh"})
    where = f"{url.replace('http', 'ws')}/v1{box}/processes/shell/terminal"
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as browser:
        signed = {"Authorization": f"Bearer {ADA}", "Sec-Fetch-Site": "same-origin"}
        assert (await browser.post("/v1/login", headers=signed)).status_code == 200
        cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items())}
    async with connect(where, additional_headers={**cookie, "Origin": url}) as socket:
        assert await socket.recv()
    for elsewhere in ({}, *({"Origin": each} for each in ELSEWHERE)):
        await _refused(where, {**cookie, **elsewhere}, 403)
    await _refused(where, {"Origin": url}, 401)  # nobody is signed in


@pytest.mark.parametrize("origin", ELSEWHERE)
async def test_without_keys_no_other_page_of_this_machine_opens_a_terminal(tmp_path: Path, origin: str) -> None:
    async with world(tmp_path, SANDBOX_PATH=tmp_path / "boxes", SANDBOX_PROVIDER="local") as koda:
        where = f"{koda.url.replace('http', 'ws')}/v1/sandboxes/sbx_1/processes/shell/terminal"
        await _refused(where, {"Origin": origin}, 403)
        for ours in ({}, {"Origin": koda.url}):
            await _refused(where, ours, 404)  # there is no such sandbox


async def _refused(where: str, headers: dict[str, str], status: int) -> None:
    with pytest.raises(InvalidStatus) as caught:
        await connect(where, additional_headers=headers)
    assert caught.value.response.status_code == status, headers
    if status == 403:
        assert json.loads(caught.value.response.body or b"{}")["code"] == "WRONG_ORIGIN"


async def test_terminals_and_commands_waited_for_count_among_a_users_streams(
    ada: httpx.AsyncClient, served: World
) -> None:
    box = await make(ada)
    await ada.post(f"{box}/processes", json={"name": "shell", "command": "exec sh"})
    where = f"{served.url.replace('http', 'ws')}/v1{box}/processes/shell/terminal"
    streams, others = served.app.state.streams, served.settings.user_streams - 2
    headers = {"Authorization": f"Bearer {ADA}"}
    command = {"command": "until test -e go; do sleep 0.05; done"}
    with ExitStack() as full:
        for _ in range(others):
            full.enter_context(streams.joined("ada"))
        socket = await connect(where, additional_headers=headers)
        await socket.recv()
        waiting = asyncio.create_task(ada.post(f"{box}/commands", json=command))
        await reached(lambda: streams.count("ada") == others + 2)
        for path, body in (("commands", command), ("build", None), ("screenshot", {"atS": 0})):
            refused = await ada.post(f"{box}/{path}", json=body)
            assert (refused.status_code, refused.json()["code"]) == (429, "LIMIT_REACHED"), path
            assert refused.headers["retry-after"] == "10"
        with pytest.raises(InvalidStatus) as caught:
            await connect(where, additional_headers=headers)
        assert caught.value.response.status_code == 429
        assert (await ada.put(f"{box}/files/go", content=b"")).status_code == 204
        assert (await waiting).json()["exitCode"] == 0
        await reached(lambda: streams.count("ada") == others + 1)
        await socket.close()
    await reached(lambda: streams.count("ada") == 0)


async def test_another_users_are_not_found(ada: httpx.AsyncClient, url: str) -> None:
    box = await make(ada)
    await ada.post(f"{box}/processes", json={"name": "one", "command": "sleep 1000"})
    async with client(url, BOB) as bob:
        assert (await bob.get("/images")).json() == {"images": []}
        assert (await bob.get("/sandboxes", params={"all": "true"})).json() == {"sandboxes": []}
        for method, path in (
            ("GET", box), ("DELETE", box), ("GET", f"{box}/processes"), ("GET", f"{box}/processes/one"),
            ("GET", f"{box}/processes/one/output"), ("GET", f"{box}/processes/one/events"),
            ("DELETE", f"{box}/processes/one"), ("DELETE", "/images/notes"), ("GET", f"{box}/files"),
            ("GET", f"{box}/files/start.sh"), ("PUT", f"{box}/files/start.sh"), ("DELETE", f"{box}/files/start.sh"),
        ):  # fmt: skip
            answer = await bob.request(method, path)
            assert answer.status_code == 404, (method, path, answer.text)
        launched = await bob.post(f"{box}/processes", json={"name": "two", "command": "true"})
        assert launched.json()["code"] == "SANDBOX_NOT_FOUND"
        ran = await bob.post(f"{box}/commands", json={"command": "rm start.sh"})
        assert (ran.status_code, ran.json()["code"]) == (404, "SANDBOX_NOT_FOUND")
        assert (await bob.post("/sandboxes", json={"image": "notes"})).status_code == 404
    assert (await ada.get(f"{box}/processes/one")).json()["state"] == "running"
    assert (await ada.get(f"{box}/files/start.sh")).content.startswith(b"#!/bin/sh")


async def test_why_one_ended_is_said_and_goes_on_being_said(ada: httpx.AsyncClient, tmp_path: Path) -> None:
    box = await make(ada)
    (found,) = (tmp_path / "boxes").glob("dep_*/sbx_*")
    Record.forget(found)  # as an owner does who removes its folder
    for _ in range(2):
        seen = (await ada.get(box)).json()
        assert (seen["state"], seen["ended"]) == ("gone", "it is not at its provider (local) any more")
    refused = (await ada.get(f"{box}/processes")).json()
    assert refused["code"] == "SANDBOX_NOT_FOUND" and "not at its provider (local) any more" in refused["detail"]
    other = await make(ada)
    assert (await ada.delete(other)).status_code == 204
    seen = (await ada.get(other)).json()
    assert (seen["state"], seen["ended"]) == ("terminated", None)
