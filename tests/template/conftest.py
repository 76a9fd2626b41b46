"""Projects made from the template, built once, and a browser that shows them at an origin which exists nowhere."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import Browser, Page, Route, async_playwright

from koda_ray.config import Settings
from koda_ray.render.browser import CHROMIUM_FLAGS
from koda_ray.render.bundle import Bundle
from koda_ray.render.graphics import software_graphics
from koda_ray.render.programs import find_browser
from tests import services
from tests.template.building import TemplateBuilds, make_project

ORIGIN = "http://bundle.koda/"
PROJECTS = Path(__file__).parent / "projects"
APEX_S = 1.1702


def pixels(png: bytes) -> np.ndarray:
    """(height, width, 3) uint8 RGB of an encoded picture."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@dataclass
class Visit:
    """A page of a bundle in export mode, and what it asked for."""

    page: Page
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def ready(self) -> None:
        await self.page.evaluate("window.__koda.ready")

    async def seek(self, seconds: float) -> None:
        await self.page.evaluate("t => window.__koda.seek(t)", seconds)

    async def picture(self, *seconds: float) -> bytes:
        """Seek to each time in turn, and take the picture of the last."""
        for time in seconds:
            await self.seek(time)
        # a screenshot shows what was composed last; a renderer asks for a frame of its own
        await self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return await self.page.screenshot()

    async def probe(self) -> dict[str, Any]:
        return await self.page.evaluate("window.probe")


@dataclass
class Viewer:
    """Opens bundles."""

    browser: Browser

    @asynccontextmanager
    async def open(
        self,
        bundle: Bundle,
        query: str = "export",
        *,
        size: tuple[int, int] = (640, 360),
        before: str | None = None,
        has_network: bool = True,
        wait: bool = True,
    ) -> AsyncGenerator[Visit]:
        """Show a bundle's page; what it does not hold is refused, and noted."""
        context = await self.browser.new_context(
            viewport={"width": size[0], "height": size[1]}, offline=not has_network
        )
        try:
            visit = Visit(await context.new_page())

            async def answer(route: Route) -> None:
                url = route.request.url
                visit.requests.append(url)
                path = url.removeprefix(ORIGIN).split("?")[0].split("#")[0]
                if url.startswith(ORIGIN) and path in bundle.files:
                    await route.fulfill(body=bundle.files[path], content_type=Bundle.content_type(path))
                else:
                    visit.refused.append(url)
                    await route.abort()

            await context.route("**/*", answer)
            if before:
                await context.add_init_script(before)
            await visit.page.goto(f"{ORIGIN}index.html?{query}")
            if wait:
                await visit.ready()
            yield visit
        finally:
            await context.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def viewer() -> AsyncGenerator[Viewer]:
    services.need("chromium")
    executable = find_browser(Settings().chromium_path).path
    # not the synchronous interface: it keeps a loop running in this thread, in which no other test can run its own
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", *CHROMIUM_FLAGS, *software_graphics().flags]
        )
        yield Viewer(browser)
        await browser.close()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    """The projects of all tests, built by the first test that wants one."""
    services.need("node", "bwrap")
    folder = tmp_path_factory.mktemp("template")
    probe = make_project(folder / "probe", PROJECTS / "probe")
    dot = Image.radial_gradient("L").resize((64, 64))
    (probe / "public").mkdir(exist_ok=True)
    Image.merge("RGB", (dot, dot, dot)).save(probe / "public" / "dot.png")
    demo, raised = make_project(folder / "demo"), make_project(folder / "raised")
    raise_apex(raised)
    builds = TemplateBuilds((probe,)), TemplateBuilds((demo, raised))
    try:
        return builds[0].bundles() | builds[1].bundles()
    finally:
        for build in builds:
            build.end()


def raise_apex(project: Path) -> None:
    """Lift the ball of the template's own film by 80 of 1080 design pixels, in the keyframe at APEX_S."""
    file = project / "src" / "theatre" / "state.json"
    state = json.loads(file.read_text())
    tracks = state["sheetsById"]["Main"]["sequence"]["tracksByObject"]["Ball"]
    track = tracks["trackData"][tracks["trackIdByPropPath"]['["position","y"]']]
    (apex,) = (key for key in track["keyframes"] if abs(key["position"] - APEX_S) < 1e-3)
    apex["value"] += 0.8
    file.write_text(json.dumps(state))


@pytest.fixture(scope="session")
def demo(built: dict[str, Bundle]) -> Bundle:
    """The template's own film."""
    return built["demo"]


@pytest.fixture(scope="session")
def raised(built: dict[str, Bundle]) -> Bundle:
    """The template's own film with one keyframe changed."""
    return built["raised"]


@pytest.fixture(scope="session")
def probe(built: dict[str, Bundle]) -> Bundle:
    """One page for many questions."""
    return built["probe"]
