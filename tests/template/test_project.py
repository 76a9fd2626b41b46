"""The project as a person or an agent works on it: types, packages, the lock, the dev server and the editor."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from koda_ray.config import Settings
from koda_ray.render.bundle import Bundle
from tests.template.building import make_project, node
from tests.template.conftest import PROJECTS, Viewer

DEADLINE_S = 60.0
BASE = "/live/abc/"


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen in {DEADLINE_S} s"
        time.sleep(0.05)


@contextmanager
def dev_server(project: Path) -> Iterator[str]:
    """Run the dev server as a sandbox does, on a free port, and give its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = project / "dev.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            ["node", "node_modules/vite/bin/vite.js", "--port", str(port)],
            cwd=project,
            env={"PATH": os.environ["PATH"], "HOME": str(project), "KODA_BASE": BASE},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}{BASE}"

    def answers() -> bool:
        assert server.poll() is None, log.read_text()
        try:
            return httpx.get(address, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(answers, "the dev server's answer")
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.needs("node")
@pytest.mark.full
def test_tsc_is_clean(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    # the tests' own page beside the template's: one run reads both
    shutil.copy(PROJECTS / "probe" / "src" / "App.tsx", project / "src" / "Probe.tsx")
    done = node(project, "node_modules/typescript/bin/tsc", "--noEmit")
    assert done.returncode == 0, done.stdout


@pytest.mark.needs("node", "bwrap")
@pytest.mark.full
def test_what_is_built_lies_anywhere(demo: Bundle) -> None:
    assert b'src="./assets/' in demo.files["index.html"]


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((Settings().template_path / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert not [name for name, entry in packages.items() if "resolved" in entry]
    assert not [name for name, entry in packages.items() if "integrity" not in entry]


@pytest.mark.browser
@pytest.mark.needs("node")
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.full
async def test_the_dev_server_reloads_edits_and_keeps_what_the_editor_changes(viewer: Viewer, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    state = project / "src" / "theatre" / "state.json"
    with dev_server(project) as address:
        context = await viewer.browser.new_context(viewport={"width": 960, "height": 540})
        page = await context.new_page()
        try:
            await page.goto(f"{address}?studio", timeout=DEADLINE_S * 1000)
            await page.wait_for_function("window.__koda?.ready", timeout=DEADLINE_S * 1000)
            await page.evaluate("window.__koda.ready")
            await page.evaluate("window.sameDocument = true")
            await page.evaluate(
                """async (path) => {
                    const { sheet } = await import(path);
                    const extra = sheet.object('Extra', { x: 0 });
                    window.__kodaEditor.transaction(({ set }) => set(extra.props.x, 7));
                    window.dispatchEvent(new PointerEvent('pointerup'));
                }""",
                f"{BASE}src/theatre/project.ts",
            )
            until(lambda: '"Extra"' in state.read_text(), "saving the editor's edit")
            saved = json.loads(state.read_text())
            overrides = saved["sheetsById"]["Main"]["staticOverrides"]["byObject"]
            assert overrides["Extra"] == {"x": 7}
            assert "Ball" in saved["sheetsById"]["Main"]["sequence"]["tracksByObject"]

            await page.evaluate(
                "async (path) => { (await import(path)).sheet.sequence.position = 2.25; }",
                f"{BASE}src/theatre/project.ts",
            )
            await page.wait_for_function("window.__koda.time === 2.25")
            frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
            await page.evaluate(frames)
            assert await page.evaluate("window.__koda.time") == 2.25, "the page moved the editor's playhead"

            scene = project / "src" / "scenes" / "MainScene.tsx"
            scene.write_text(scene.read_text().replace("From a sentence to a film.", "Written while you watch."))
            await page.get_by_text("Written while you watch.").wait_for(state="attached", timeout=DEADLINE_S * 1000)
            assert await page.evaluate("window.sameDocument") is True, "the page was reloaded"
        finally:
            await context.close()
        bad = {"sheetsById": {}, "revisionHistory": []}
        route = f"{address}__koda/theatre-state"
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            assert (await http.post(route, json=bad)).status_code == 422
            for torn in ('"\\ud800"', '{"\\udfff": 1}', '{"a":' * 300 + "1" + "}" * 300, "[" * 200_000 + "]" * 200_000):
                text = json.dumps(saved).removesuffix("}") + f', "more": {torn}}}'
                refused = await http.post(route, content=text, headers={"content-type": "application/json"})
                assert refused.status_code == 400 and "Theatre state" in refused.json()["error"], torn[:40]
            plain = await http.post(route, content=b"{}", headers={"content-type": "text/plain"})
            assert plain.status_code == 415
            assert (await http.get(route)).status_code == 405
        assert json.loads(state.read_text()) == saved
        assert not list(state.parent.glob("*.tmp"))
