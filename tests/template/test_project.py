"""The project as a person or an agent works on it: types, packages, the lock, the dev server and the studio."""

from __future__ import annotations

import json
import os
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
from tests.template.conftest import PROJECTS, Viewer, make_project, node

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
@pytest.mark.parametrize("overlay", [None, "probe"])
def test_tsc_is_clean(tmp_path: Path, overlay: str | None) -> None:
    project = make_project(tmp_path / "project", PROJECTS / overlay if overlay else None)
    done = node(project, "node_modules/typescript/bin/tsc", "--noEmit")
    assert done.returncode == 0, done.stdout


@pytest.mark.needs("node", "bwrap")
def test_it_builds_where_the_packages_are_a_read_only_mount(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    (project / "node_modules").unlink()
    (project / "node_modules").mkdir()
    packages = str(Settings().node_modules_path.resolve())
    inside = ("--dev-bind", "/", "/", "--ro-bind", packages, str(project / "node_modules"), "--unshare-net")
    done = subprocess.run(
        ["bwrap", *inside, "--chdir", str(project), "node", "node_modules/vite/bin/vite.js", "build"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'src="./assets/' in (project / "dist" / "index.html").read_text()


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((Settings().template_path / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert not [name for name, entry in packages.items() if "resolved" in entry]
    assert not [name for name, entry in packages.items() if "integrity" not in entry]


@pytest.mark.browser
@pytest.mark.needs("node")
def test_the_dev_server_reloads_edits_and_keeps_what_the_studio_changes(viewer: Viewer, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    state = project / "src" / "theatre" / "state.json"
    with dev_server(project) as address:
        context = viewer.browser.new_context(viewport={"width": 960, "height": 540})
        page = context.new_page()
        try:
            page.goto(f"{address}?studio", timeout=DEADLINE_S * 1000)
            page.wait_for_function("window.__koda?.ready", timeout=DEADLINE_S * 1000)
            page.evaluate("window.__koda.ready")
            page.evaluate("window.sameDocument = true")
            page.evaluate(
                """async (path) => {
                    const { sheet } = await import(path);
                    const extra = sheet.object('Extra', { x: 0 });
                    window.__kodaStudio.transaction(({ set }) => set(extra.props.x, 7));
                    window.dispatchEvent(new PointerEvent('pointerup'));
                }""",
                f"{BASE}src/theatre/project.ts",
            )
            until(lambda: '"Extra"' in state.read_text(), "saving the studio's edit")
            saved = json.loads(state.read_text())
            overrides = saved["sheetsById"]["Main"]["staticOverrides"]["byObject"]
            assert overrides["Extra"] == {"x": 7}
            assert "Ball" in saved["sheetsById"]["Main"]["sequence"]["tracksByObject"]

            page.evaluate(
                "async (path) => { (await import(path)).sheet.sequence.position = 2.25; }",
                f"{BASE}src/theatre/project.ts",
            )
            page.wait_for_function("window.__koda.time === 2.25")
            frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
            page.evaluate(frames)
            assert page.evaluate("window.__koda.time") == 2.25, "the page moved the studio's playhead"

            scene = project / "src" / "scenes" / "MainScene.tsx"
            scene.write_text(scene.read_text().replace("From a sentence to a film.", "Written while you watch."))
            page.get_by_text("Written while you watch.").wait_for(state="attached", timeout=DEADLINE_S * 1000)
            assert page.evaluate("window.sameDocument") is True, "the page was reloaded"
        finally:
            context.close()
        bad = {"sheetsById": {}, "revisionHistory": []}
        route = f"{address}__koda/theatre-state"
        assert httpx.post(route, json=bad, trust_env=False).status_code == 422
        assert (
            httpx.post(route, content=b"{}", headers={"content-type": "text/plain"}, trust_env=False).status_code == 415
        )
        assert httpx.get(route, trust_env=False).status_code == 405
        assert json.loads(state.read_text()) == saved
        assert not list(state.parent.glob("*.tmp"))
