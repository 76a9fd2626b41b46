"""What people and programs may do to a running server: hang up, look on, delete, interrupt, restart it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from playwright.async_api import async_playwright

from koda_ray.console.exits import Exit
from koda_ray.errors import NotFound
from koda_ray.render.isolation import sweep_dead_folders
from koda_ray.render.programs import find_browser
from koda_ray.serve import runfile
from koda_ray.sse import SseDecoder
from koda_ray.types import RenderOptions
from tests.actors.script import scripted_model
from tests.faults.conftest import Rig, until
from tests.serve.framed import framed

pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.ray, pytest.mark.sandbox, pytest.mark.browser, pytest.mark.timeout(400),
    pytest.mark.asyncio(loop_scope="package"),
]  # fmt: skip

PROMPT = "a dot crosses, smooth"
KODA = [sys.executable, "-m", "koda_ray"]
RED = "() => [...document.querySelectorAll('div')].some(e => getComputedStyle(e).backgroundColor == 'rgb(239, 68, 68)')"


async def hang_up(url: str, path: str, key: str, after_s: float) -> None:
    """Send a request and be gone, maybe before it is answered."""
    host = urlsplit(url)
    _, writer = await asyncio.open_connection(host.hostname, host.port)
    head = f"POST {path} HTTP/1.1\r\nHost: {host.netloc}\r\nIdempotency-Key: {key}\r\nContent-Length: 0\r\n\r\n"
    writer.write(head.encode())
    await writer.drain()
    await asyncio.sleep(after_s)
    writer.close()
    await writer.wait_closed()


async def test_whoever_hangs_up_stops_nothing_and_an_open_page_shows_what_is_written(rig: Rig) -> None:
    rig.respond = scripted_model(pause_s=0.01)
    session_id = (await rig.client.create(PROMPT)).session_id
    await rig.rests(session_id, "plan")
    for after_s in (0, 0.005, 0.02, 0.05):
        await hang_up(rig.server.url, f"/v1/sessions/{session_id}/accept", "once", after_s)
    accepted = await rig.client.accept(session_id, key="once")
    assert accepted.result == {"phase": "executing", "owes": "execute"}
    following = rig.client.follow(session_id)
    async for event in following:
        if event.type == "file_written":
            break
    await following.aclose()  # in the middle of the work
    await rig.rests(session_id, "preview")

    watching = asyncio.create_task(numbers(rig.server.url, session_id, 10_000))  # so that it does not go to sleep
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=str(find_browser(None).path), args=["--no-sandbox"])
        page = await browser.new_page()
        link = (await rig.client.preview(session_id)).url
        assert urlsplit(link).hostname == "localhost" != urlsplit(rig.server.url).hostname
        frame = await framed(page, link)
        await frame.wait_for_function("window.__koda !== undefined", timeout=60_000)
        await frame.evaluate("window.__koda.ready")
        assert not await frame.evaluate(RED)
        await rig.client.changes(session_id, "make it red")
        await frame.wait_for_function(RED, timeout=60_000)  # reloaded by itself
        await rig.rests(session_id, "preview")
        await frame.evaluate("window.loaded = 1")
        await ended(watching)
        await still_awake(rig, session_id, for_s=7)  # longer than an idle session lives: somebody looks at it
        assert await frame.evaluate("window.loaded") == 1
        await browser.close()
    await until(lambda: not rig.workers("_SessionHost"), "asleep")
    await rig.client.delete(session_id)


async def still_awake(rig: Rig, session_id: str, *, for_s: float) -> None:
    """Look on as an activation goes on, with its process and its sandbox."""
    first = await rig.store.get_session(session_id)
    assert first.host is not None and first.state.sandbox_id is not None
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        row = await rig.store.get_session(session_id)
        assert (row.host, row.epoch, row.state.sandbox_id) == (first.host, first.epoch, first.state.sandbox_id)
        await asyncio.sleep(0.1)


async def ended(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def test_reading_wakes_nobody(rig: Rig) -> None:
    rig.respond = scripted_model()
    session_id = (await rig.client.create(PROMPT)).session_id
    await rig.rests(session_id, "plan")
    before = await rig.asleep(session_id)
    assert (before.status, before.host, before.lease_until) == ("suspended", None, None)
    for _ in range(3):
        await rig.client.session(session_id)
        await rig.client.sessions()
        await rig.client.files(session_id)
        await rig.client.jobs(session_id)
        await rig.client.assets(session_id)
    seen: list[int] = []

    async def follow() -> None:
        async for event in rig.client.follow(session_id):
            seen.append(event.seq)

    following = asyncio.create_task(follow())
    await until(lambda: len(seen) >= before.seq, "told everything")
    await asyncio.sleep(2.5)  # longer than the janitor's round
    assert not following.done() and seen == list(range(1, before.seq + 1))
    await ended(following)
    assert await rig.store.get_session(session_id) == before
    await until(lambda: not rig.workers("_SessionHost"), "asleep")  # one of a session before may be ending


async def test_a_deletion_in_the_middle_of_work_leaves_nothing(rig: Rig) -> None:
    rig.respond = scripted_model(duration=20.0)
    session_id = (await rig.client.create(PROMPT)).session_id
    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    await rig.rests(session_id, "preview")
    await rig.client.render(session_id, RenderOptions(resolution="4k", fps=60))  # longer than what follows
    await rig.event(
        session_id,
        lambda e: e.type == "render_progress" and e.data["quality"] == "final" and int(str(e.data["framesDone"])) > 5,
    )
    rendering = session_id
    jobs = [job.id for job in await rig.store.list_jobs(session_id=rendering)]

    rig.respond = scripted_model(pause_s=0.2)
    writing = (await rig.client.create(PROMPT)).session_id
    await rig.rests(writing, "plan")
    await rig.client.accept(writing)
    await rig.event(writing, lambda e: e.type == "code_chunk")

    assert rig.workers("_capture")
    await asyncio.gather(rig.client.delete(rendering), rig.client.delete(writing))
    for name in ("_capture", "_SessionHost"):
        await until(lambda name=name: not rig.workers(name), "ended")
    await until(lambda: not rig.processes("--user-data-dir"), "ended", limit_s=60)
    sweep_dead_folders()  # as the janitor does each minute: Ray may have ended a worker before it was done clearing up
    boxes = rig.server.data / "sandboxes"
    assert list(boxes.glob("*/sbx_*")) == []
    left = await rig.storage.list()
    assert [key for key in left if any(name in key for name in (rendering, writing, *jobs))] == []
    assert await rig.store.closed_sessions() == []
    for session_id in (rendering, writing):
        assert await rig.store.events(session_id) == []
        for call in (rig.client.session(session_id), rig.client.delete(session_id)):
            with pytest.raises(NotFound):
                await call


async def test_a_deletion_that_is_undone_ends_the_work_in_good_order_and_it_goes_on(rig: Rig) -> None:
    rig.respond = scripted_model(pause_s=0.2)
    session_id = (await rig.client.create(PROMPT)).session_id
    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    await rig.event(session_id, lambda e: e.type == "file_written")
    await rig.client.delete(session_id, undo_s=600)
    await until(lambda: not rig.workers("_SessionHost"), "ended")
    left = await rig.store.get_session(session_id)
    assert (left.status, left.host, left.owes) == (
        "suspended",
        None,
        "execute",
    )  # it let go by itself, once it had saved
    assert await rig.store.latest_checkpoint(session_id) is not None
    await until(lambda: not list((rig.server.data / "sandboxes").glob("*/sbx_*")), "without a sandbox")
    assert session_id not in [each.id for each in (await rig.client.sessions()).sessions]
    rig.respond = scripted_model()
    assert (await rig.client.restore(session_id)).state.owes == "execute"
    await rig.rests(session_id, "preview")
    await rig.client.delete(session_id)


async def test_interrupting_the_command_line_leaves_the_job_to_the_server(rig: Rig, tmp_path: Path) -> None:
    rig.respond = scripted_model(pause_s=0.2)
    process = await asyncio.create_subprocess_exec(
        # interrupts are ignored in what a shell runs in the background, and so in its children
        "env", "--default-signal=INT", *KODA, "create", PROMPT, "--yes", "--plain", cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "KODA_SERVER": rig.server.url},
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    async with asyncio.timeout(60):
        while "koda: session ses_" not in said:
            said += (await process.stdout.readline()).decode()
    process.send_signal(signal.SIGINT)
    said += (await process.stdout.read()).decode()
    assert await process.wait() == Exit.INTERRUPTED
    session_id = (await rig.client.sessions()).sessions[0].id
    assert "Detached; the job goes on" in said and f"koda watch {session_id}" in said
    await rig.rests(session_id, "plan")  # there was nobody left to accept it


async def numbers(url: str, session_id: str, count: int, last: str | None = None) -> list[str]:
    """Read so many server-sent events as a browser does; return their ids."""
    headers = {} if last is None else {"Last-Event-ID": last}
    decoder, found = SseDecoder(), list[str]()
    async with (
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http,
        http.stream("GET", f"/v1/sessions/{session_id}/events", headers=headers) as response,
    ):
        async for block in response.aiter_raw():
            found += [name for name, _, _ in decoder.feed(block)]
            if len(found) >= count:
                break
    return found[:count]


async def test_a_stream_goes_on_where_it_was_after_a_restart(rig: Rig) -> None:
    rig.respond = scripted_model()
    session_id = (await rig.client.create(PROMPT)).session_id
    await rig.rests(session_id, "plan")
    first = await numbers(rig.server.url, session_id, 3)
    await rig.stop()
    await rig.start()
    await rig.client.accept(session_id)
    await rig.event(session_id, lambda e: e.type == "file_written")
    newest = (await rig.store.get_session(session_id)).seq
    rest = await numbers(rig.server.url, session_id, newest - 3, first[-1])
    assert [*first, *rest] == [str(number) for number in range(1, newest + 1)]


async def test_a_server_that_create_started_ends_with_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    data = tmp_path / "data"
    with tempfile.TemporaryDirectory(prefix="own-") as own:  # sockets below it want a short path
        Path(own).chmod(0o755)
        environment = {**os.environ, "KODA_DATA_DIR": str(data), "KODA_DIRECTOR": "offline", "TMPDIR": own}
        environment.pop("KODA_SERVER", None)
        creating = await asyncio.create_subprocess_exec(
            *KODA, "create", "Create a bouncing ball", "--plain",
            cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        words = asyncio.create_task(creating.communicate())
        server: runfile.RunFile | None = None
        async with asyncio.timeout(300):
            while not words.done():
                server = server or runfile.read(data / "server.json")
                await asyncio.sleep(0.02)
        out, err = (each.decode() for each in await words)
        assert creating.returncode == Exit.WAITING, out + err
        assert "koda: starting a server" in err and "koda resume ses_" in out
        assert server is not None
        alive: list[str] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("KODA_DATA_DIR") == str(data) and process.status() != psutil.STATUS_ZOMBIE:
                    alive.append(process.name())
        assert alive == []
        assert not Path(f"/tmp/koda-ray-{server.pid}-{server.started}").exists()
        assert left_in(Path(own)) == []
    assert not (data / "server.json").exists()
    assert list((data / "sandboxes").glob("*/sbx_*")) == []


def left_in(folder: Path) -> list[Path]:
    """What is left of temporary files: folders that stay for whoever comes next do not count, but what is in them."""
    found: list[Path] = []
    for path in folder.iterdir():
        if not path.name.startswith(
            ("koda-interposer-", "koda-rasterizers-", "koda-shaders-")
        ):  # made once for all browsers
            found += path.iterdir() if path.name.startswith("koda-render-") else [path]
    return found
