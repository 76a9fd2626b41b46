"""Projects made from the template, built once, and a browser that shows them at an origin which exists nowhere."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, Route, sync_playwright

from koda_ray.config import Settings
from koda_ray.render.browser import CHROMIUM_FLAGS
from koda_ray.render.bundle import Bundle, read_folder
from koda_ray.render.programs import find_browser
from tests import services

ORIGIN = "http://bundle.koda/"
PROJECTS = Path(__file__).parent / "projects"
BUILD_TIMEOUT_S = 240.0
_MODULES = "node_modules"
_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")


def make_project(folder: Path, overlay: Path | None = None) -> Path:
    """Copy the template, lay another project's files over it, and give it the installed packages."""
    settings = Settings()
    skip = shutil.ignore_patterns(_MODULES, "dist", ".vite")
    shutil.copytree(settings.template_path, folder, ignore=skip)
    if overlay is not None:
        shutil.copytree(overlay, folder, dirs_exist_ok=True)
    (folder / _MODULES).symlink_to(settings.node_modules_path.resolve())
    return folder


def node(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run node in a project, with nothing in its environment but PATH."""
    return subprocess.run(
        ["node", *arguments],
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": str(project)},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )


def build(project: Path) -> Bundle:
    """Run `vite build` and read what it made."""
    done = node(project, f"{_MODULES}/vite/bin/vite.js", "build")
    assert done.returncode == 0, done.stdout + done.stderr
    return read_folder(project / "dist")


def pixels(png: bytes) -> np.ndarray:
    """(height, width, 3) uint8 RGB of an encoded picture."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@dataclass
class Visit:
    """A page of a bundle in export mode, and what it asked for."""

    page: Page
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def ready(self) -> None:
        self.page.evaluate("window.__koda.ready")

    def seek(self, seconds: float) -> None:
        self.page.evaluate("t => window.__koda.seek(t)", seconds)

    def picture(self, *seconds: float) -> bytes:
        """Seek to each time in turn, and take the picture of the last."""
        for time in seconds:
            self.seek(time)
        # a screenshot shows what was composed last; a renderer asks for a frame of its own
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self.page.screenshot()

    def probe(self) -> dict[str, object]:
        return self.page.evaluate("window.probe")


@dataclass
class Viewer:
    """Opens bundles."""

    browser: Browser

    @contextmanager
    def open(
        self,
        bundle: Bundle,
        query: str = "export",
        *,
        size: tuple[int, int] = (640, 360),
        before: str | None = None,
        offline: bool = False,
        wait: bool = True,
    ) -> Iterator[Visit]:
        """Show a bundle's page; what it does not hold is refused, and noted."""
        context = self.browser.new_context(viewport={"width": size[0], "height": size[1]}, offline=offline)
        try:
            visit = Visit(context.new_page())

            def answer(route: Route) -> None:
                url = route.request.url
                visit.requests.append(url)
                path = url.removeprefix(ORIGIN).split("?")[0].split("#")[0]
                if url.startswith(ORIGIN) and path in bundle.files:
                    route.fulfill(body=bundle.files[path], content_type=Bundle.content_type(path))
                else:
                    visit.refused.append(url)
                    route.abort()

            context.route("**/*", answer)
            if before:
                context.add_init_script(before)
            visit.page.goto(f"{ORIGIN}index.html?{query}")
            if wait:
                visit.ready()
            yield visit
        finally:
            context.close()


@pytest.fixture(scope="session")
def viewer() -> Iterator[Viewer]:
    services.need("chromium")
    with sync_playwright() as playwright:
        executable = find_browser(Settings().chromium_path).path
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", *CHROMIUM_FLAGS, *_GL])
        yield Viewer(browser)
        browser.close()


@pytest.fixture(scope="session")
def demo_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    services.need("node")
    return make_project(tmp_path_factory.mktemp("template") / "demo")


@pytest.fixture(scope="session")
def demo(demo_project: Path) -> Bundle:
    return build(demo_project)


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    services.need("node")
    project = make_project(tmp_path_factory.mktemp("template") / "probe", PROJECTS / "probe")
    dot = Image.radial_gradient("L").resize((64, 64))
    (project / "public").mkdir(exist_ok=True)
    Image.merge("RGB", (dot, dot, dot)).save(project / "public" / "dot.png")
    return build(project)
