"""Pages, storage and executors for tests of rendering, and a check for processes that outlived their parents."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from koda_ray.render import page
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.local import LocalExecutor
from koda_ray.render.page import LoadedPage
from koda_ray.render.spec import RenderSpec
from koda_ray.state.storage import Storage
from tests.built import read_folder

FULL = Path("/usr/lib/chromium/chromium")
PAGES = Path(__file__).parent / "pages"
USER = "local"
LEAK_DEADLINE_S = 60.0


def processes_of(folder: Path) -> set[str]:
    """Command lines of the processes that name a folder: browsers, their isolation and encoders all do."""
    found: set[str] = set()
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.add(f"{process.pid}: {line[:200]}")
    return found


def without_parents_among(lines: set[str], others: set[str]) -> set[str]:
    """Those that nothing among the others started: a full browser starts what it may need when it likes."""
    known = {int(line.partition(":")[0]) for line in others}
    found: set[str] = set()
    for line in lines:
        with contextlib.suppress(psutil.NoSuchProcess):
            if not known & {parent.pid for parent in psutil.Process(int(line.partition(":")[0])).parents()}:
                found.add(line)
    return found


@pytest.fixture(autouse=True)
def _no_orphans() -> Iterator[None]:
    """After a test no browser, isolation or encoder works in a folder of ours, also none that lost its parents."""
    root = Path(tempfile.gettempdir(), f"koda-render-{os.geteuid()}")
    before = processes_of(root)
    yield
    deadline = time.monotonic() + LEAK_DEADLINE_S
    while (left := without_parents_among(processes_of(root) - before, before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, left


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "storage"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local() -> AsyncIterator[LocalExecutor]:
    """Two browsers for all tests of a module, which run in its loop; they are there before a test looks around.

    On a busy machine a page may close slowly: its browser is not replaced for that, which would look like a leak.
    """
    with pytest.MonkeyPatch.context() as patient:
        patient.setattr(page, "_CLOSE_TIMEOUT_S", 60.0)
        async with LocalExecutor(workers=2) as executor:
            await executor.warm()
            yield executor


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["shell", pytest.param("full", marks=pytest.mark.full)]
)
async def either(request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    """The headless shell, and then the full browser, for all tests of a module that hold for both."""
    if request.param == "full" and not FULL.exists():
        pytest.skip("the full Chromium is not installed")
    async with await Browser.launch(chromium_path=FULL if request.param == "full" else None) as running:
        yield running


async def put_page(storage: Storage, page: str | Bundle) -> str:
    """Store a page of tests/render/pages by name, or HTML text, or a bundle; return its hash."""
    if isinstance(page, str):
        page = Bundle({"index.html": page.encode()}) if page.lstrip().startswith("<") else read_folder(PAGES / page)
    return await store_bundle(storage, USER, page)


def small(bundle: str, **fields: object) -> RenderSpec:
    """A spec that renders quickly: 160x90 at 10 fps, 1 s."""
    values: dict[str, object] = {"duration_s": 1.0, "width": 160, "height": 90, "fps": 10, "crf": 28} | fields
    return RenderSpec(bundle=bundle, **values)  # type: ignore[arg-type]


async def loaded(page: LoadedPage) -> None:
    """Wait until a page's document is there; what its contract waits for may never be."""
    async with asyncio.timeout(60):
        while await page.evaluate("'__kodaRender' in window && document.readyState") != "complete":
            await asyncio.sleep(0.02)


async def until(condition: object, *, seconds: float = 60.0) -> None:
    """Poll until a callable is true."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():  # type: ignore[operator]
        assert asyncio.get_running_loop().time() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)
