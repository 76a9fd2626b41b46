"""Things that go wrong for real: missing programs, a full disk, killed processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from koda_ray.errors import BrowserCrashed, EncodeFailed, Missing, StorageError
from koda_ray.render import isolation, page, programs
from koda_ray.render.browser import Browser
from koda_ray.render.cdp import BrowserConnection
from koda_ray.render.encode import UnitEncoder
from koda_ray.render.environment import read_environment
from koda_ray.render.isolation import sweep_dead_folders
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup
from koda_ray.render.protocol import Captured, CaptureTask, Hear, JobContext, ProbeTask, UnitResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.stored import read_unit
from koda_ray.state.storage import Storage
from tests import disks
from tests.built import read_folder
from tests.render.conftest import FULL, PAGES, USER, processes_of, put_page, small, until
from tests.render.test_encode import picture

pytestmark = pytest.mark.browser
NEEDS_FULL = pytest.mark.skipif(not FULL.exists(), reason="the full Chromium is not installed")


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Hides the programs whose names begin with one of the words, and nothing else."""

    def hide(*words: str) -> None:
        shown = tmp_path / "bin"
        shown.mkdir()
        for path in (path for folder in os.get_exec_path() for path in Path(folder).glob("*")):
            link = shown / path.name
            if not path.name.startswith(words) and not link.is_symlink():
                link.symlink_to(path)
        monkeypatch.setenv("PATH", str(shown))
        monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "ffmpeg")  # the one on PATH

    read_environment.cache_clear()
    yield hide
    read_environment.cache_clear()


@pytest.fixture
def no_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hide: Callable[..., None]) -> None:
    hide("chrom", "google-chrome")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PLAYWRIGHT_BROWSERS_PATH", raising=False)
    for paths in ("_SHELL_PATHS", "_FULL_PATHS"):
        monkeypatch.setattr(programs, paths, ())


INSTALL_BROWSER = "no Chromium is installed: apt-get install chromium-headless-shell"
INSTALL_ENCODER = "ffmpeg is not installed: apt-get install ffmpeg"


@pytest.mark.usefixtures("no_browser")
async def test_a_missing_browser_names_its_package() -> None:
    with pytest.raises(Missing, match=INSTALL_BROWSER):
        await Browser.launch()


async def test_a_missing_encoder_names_its_package(hide: Callable[..., None], tmp_path: Path) -> None:
    hide("ff")
    with pytest.raises(Missing, match=INSTALL_ENCODER):
        await UnitEncoder(small("a" * 64), 10, tmp_path / "unit.mp4", image="jpeg").start()


async def test_a_missing_isolation_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="apt-get install bubblewrap"):
        await Browser.launch()


async def test_webgl_is_drawn_without_opengl_too(tmp_path: Path) -> None:
    # stands for a Chromium built without OpenGL: its Mesa is hidden from it
    real = programs.find_browser()
    if real.kind != "shell" or not real.path.is_relative_to("/usr"):
        pytest.skip(f"needs the system's headless shell, not {real.path}")
    script = tmp_path / "headless-shell"
    script.write_text(f'#!/bin/sh\n__EGL_VENDOR_LIBRARY_FILENAMES=/nowhere exec {real.path} "$@"\n')
    script.chmod(0o755)
    async with await Browser.launch(chromium_path=script) as browser:
        target = await browser.new_target(64, 64)
        expression = "document.createElement('canvas').getContext('webgl2') !== null"
        answer = await target.session.send("Runtime.evaluate", {"expression": expression})
        assert answer["result"]["value"] is True


async def lacking(storage: Storage) -> Missing:
    spec = small(await put_page(storage, "plain"))
    async with LocalExecutor(workers=1) as executor:
        with pytest.raises(Missing) as caught:
            await RenderJob(spec, JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER)).run()
    return caught.value


async def test_a_job_without_ffmpeg_names_its_package(storage: Storage, hide: Callable[..., None]) -> None:
    hide("ff")
    programs.find_browser()  # is there: ffmpeg alone is missing
    missing = await lacking(storage)
    assert INSTALL_ENCODER in missing.message and missing.context["package"] == "ffmpeg"


@pytest.mark.usefixtures("no_browser")
async def test_a_job_without_chromium_names_its_package(storage: Storage) -> None:
    programs.find_program("ffmpeg")
    missing = await lacking(storage)
    assert INSTALL_BROWSER in missing.message and missing.context["package"] == "chromium-headless-shell"


async def test_a_browser_that_does_not_start_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "chromium-headless-shell"
    broken.write_text("#!/bin/sh\necho 'cannot open shared object' >&2; exit 127\n")
    broken.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    with pytest.raises(BrowserCrashed, match="did not start"):
        await Browser.launch(chromium_path=broken)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    with disks.small(tmp_path / "tiny", 1 / 8) as folder:
        yield folder


async def test_a_full_disk_is_named_by_the_encoder(tiny_disk: Path) -> None:
    spec = small("a" * 64, width=640, height=360, crf=0)
    encoder = UnitEncoder(spec, 400, tiny_disk / "unit.mp4", image="jpeg")
    (tiny_disk / "ballast").write_bytes(bytes(126_000))
    try:
        await encoder.start()
        with pytest.raises(EncodeFailed, match="disk is full") as caught:
            for frame in range(400):
                await encoder.write(picture(spec, frame % 50))
            await encoder.finish()
        assert caught.value.code == "DISK_FULL"
    finally:
        await encoder.close()


async def test_a_full_storage_ends_the_job_and_leaves_no_half_unit(tiny_disk: Path, storage: Storage) -> None:
    full = Storage(str(tiny_disk))
    spec = small(await put_page(full, "plain"), duration_s=2.0, crf=0, width=640, height=360)
    async with LocalExecutor(workers=1) as executor:
        with pytest.raises(StorageError) as caught:
            await RenderJob(
                spec, JobContext(storage=full, executor=executor, job_id="job_1", user_id=USER, attempts=1)
            ).run()
    assert caught.value.code == "DISK_FULL"
    left = [key.removesuffix("/meta.json") for key in await full.list(f"users/{USER}") if key.endswith("/meta.json")]
    for key in [name.rpartition("/")[2] for name in left]:
        assert await read_unit(RetryingStorage(full), USER, key) is not None  # what is named is whole
    assert len(left) < 2


VICTIMS: dict[str, Callable[[str], bool]] = {
    "renderer": lambda line: "--type=renderer" in line,
    "browser": lambda line: "--user-data-dir" in line and "--type" not in line and "bwrap" not in line,
    "encoder": lambda line: "matroska" in line,
}


class Deadly(LocalExecutor):
    """Kills a process in the middle of the first unit that it captures: between its frames 5 and 6."""

    def __init__(self, victim: Callable[[str], bool]) -> None:
        super().__init__(workers=1)
        self.victim = victim
        self.others = set(psutil.Process().children(recursive=True))
        self.killed: list[int] = []

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        async def listen(told: Captured | UnitResult) -> None:
            if isinstance(told, Captured) and told.frames == 5 and not self.killed:
                self.kill()
            if hear is not None:
                await hear(told)

        await super().capture(task, listen)

    def kill(self) -> None:
        for process in set(psutil.Process().children(recursive=True)) - self.others:
            with contextlib.suppress(psutil.NoSuchProcess):
                if self.victim(" ".join(process.cmdline())):
                    process.kill()
                    self.killed.append(process.pid)


async def test_a_browser_ends_also_when_whoever_closes_it_is_cut_off() -> None:
    browser = await Browser.launch()
    folder = browser._folder.path
    closing = asyncio.create_task(browser.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not folder.exists() and not processes_of(folder)


def kill_renderers() -> int:
    """End the pages' processes of the browsers of this one; return how many there were."""
    killed = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "--type=renderer" in " ".join(process.cmdline()):
                process.kill()
                killed += 1
    return killed


@pytest.mark.parametrize("binary", [None, pytest.param(FULL, marks=NEEDS_FULL)], ids=["shell", "full"])
@pytest.mark.full
async def test_a_page_whose_process_ends_while_it_is_opened_is_not_waited_for(
    binary: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = read_folder(PAGES / "plain")
    usual, said, last = BrowserConnection.post, 0, 0

    def post(self: BrowserConnection, *given: Any, **named: Any) -> asyncio.Future[dict[str, Any]]:
        nonlocal said
        answer = usual(self, *given, **named)
        said += 1
        if said == last:
            kill_renderers()
        return answer

    monkeypatch.setattr(BrowserConnection, "post", post)
    async with await Browser.launch(chromium_path=binary) as browser:
        said = 0
        await LoadedPage.open(browser, bundle, PageSetup(width=160, height=90))
        calls = said
    assert calls > 5
    crashes = 0
    for at in (*range(1, calls, 2), calls, calls + 1, calls + 2):  # the last two ask the page whether it is ready
        last = 0
        async with await Browser.launch(chromium_path=binary) as browser, asyncio.timeout(120):
            said, last = 0, at
            try:  # what was killed was perhaps not of use yet, and was replaced
                await (await LoadedPage.open(browser, bundle, PageSetup(width=160, height=90))).wait_ready(60)
            except BrowserCrashed as error:
                crashes += "the page's process ended" in error.message
        assert said >= at
    assert crashes


async def test_a_page_that_nobody_opens_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "OPEN_TIMEOUT_S", 0.5)
    async with await Browser.launch() as browser:
        # among its own processes: another test's browser may be about to end
        own = psutil.Process(browser.pid)
        main = next(process for process in (own, *own.children(recursive=True)) if is_main(process))
        main.suspend()
        try:
            with pytest.raises(BrowserCrashed, match=r"not opened in 0\.5 s"):
                await LoadedPage.open(browser, read_folder(PAGES / "plain"), PageSetup(width=160, height=90))
        finally:
            main.resume()


def is_main(process: psutil.Process) -> bool:
    """Whether a process is a browser's first inside its isolation."""
    return VICTIMS["browser"](" ".join(process.cmdline()))


@pytest.mark.parametrize(
    "victim", [name if name == "browser" else pytest.param(name, marks=pytest.mark.full) for name in VICTIMS]
)
async def test_a_killed_process_costs_one_attempt(storage: Storage, victim: str) -> None:
    spec = small(await put_page(storage, "plain"), duration_s=2.0)
    units: list[UnitResult] = []

    async def keep(unit: UnitResult) -> None:
        units.append(unit)

    async with asyncio.timeout(60), Deadly(VICTIMS[victim]) as executor:
        job = RenderJob(
            spec, JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER), on_unit=keep
        )
        result = await job.run()
        calm = Storage(f"{storage.url}-calm")
        await put_page(calm, "plain")
        expected = await RenderJob(
            spec, JobContext(storage=calm, executor=executor, job_id="job_1", user_id=USER)
        ).run()
    assert executor.killed
    assert sorted(unit.attempts for unit in units) == [1, 2]
    assert len(list(result.report["failures"])) == 1  # type: ignore[arg-type]
    assert (result.frame_hash, result.report["sha256"]) == (expected.frame_hash, expected.report["sha256"])


WORKER = """
import asyncio, sys
from koda_ray.render.job import RenderJob
from koda_ray.render.protocol import JobContext
from koda_ray.render.local import LocalExecutor
from koda_ray.render.stored import read_unit
from koda_ray.state.storage import Storage
from tests.render.conftest import USER, small

async def main():
    async with LocalExecutor(workers=2) as executor:
        async def stored(unit):
            print("stored", unit.unit.index, flush=True)
        async def hear(progress):
            print("frames", progress.frames_done, flush=True)
        spec = small(sys.argv[2], duration_s=8.0, fps=15)
        context = JobContext(storage=Storage(sys.argv[1]), executor=executor, job_id="job_1", user_id=USER)
        await RenderJob(spec, context, on_unit=stored, on_progress=hear).run()

asyncio.run(main())
"""


async def test_a_killed_worker_leaves_no_process_and_its_finished_units_stay(storage: Storage) -> None:
    bundle = await put_page(storage, "plain")
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, storage.url, bundle, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert worker.stdout is not None
    stored: set[int] = set()
    line = b""
    family: list[psutil.Process] = []
    try:
        async with asyncio.timeout(60):
            # killed in the middle: a unit is stored, and others are being captured
            while not stored or not line.startswith(b"frames"):
                line = await worker.stdout.readline()
                assert line, "the worker ended by itself"
                if line.startswith(b"stored"):
                    stored.add(int(line.split()[1]))
        family = psutil.Process(worker.pid).children(recursive=True)
        assert len(family) > 4
    finally:
        worker.send_signal(signal.SIGKILL)
        rest = (await worker.stdout.read()).splitlines()
    stored |= {int(line.split()[1]) for line in rest if line.startswith(b"stored")}
    await worker.wait()
    await until(lambda: not [process for process in family if process.is_running()], seconds=60)
    assert sweep_dead_folders() >= 1
    assert not processes_of(isolation._root())
    captured: list[int] = []

    async def keep(unit: UnitResult) -> None:
        if not unit.reused:
            captured.append(unit.unit.index)

    async with LocalExecutor(workers=2) as executor:
        spec = small(bundle, duration_s=8.0, fps=15)
        result = await RenderJob(
            spec, JobContext(storage=storage, executor=executor, job_id="job_1", user_id=USER), on_unit=keep
        ).run()
    assert result.frame_count == 120
    assert set(captured).isdisjoint(stored)
    assert set(captured) | stored <= set(range(8))


@pytest.mark.full
async def test_the_probe_reports_errors_in_the_words_of_the_source(storage: Storage) -> None:
    async with LocalExecutor(workers=1) as executor:

        async def probe(page: str, **fields: object) -> object:
            task = ProbeTask(storage=storage, user_id=USER, bundle=await put_page(storage, page), **fields)  # type: ignore[arg-type]
            return await executor.probe(task)

        moving = await executor.probe(
            ProbeTask(storage=storage, user_id=USER, bundle=await put_page(storage, "contract"))
        )
        assert (moving.ready, moving.moves, moving.problems) == (True, True, ())
        assert (moving.duration_s, moving.fps, moving.width, moving.height) == (5, 15, 320, 180)
        still = await executor.probe(
            ProbeTask(storage=storage, user_id=USER, bundle=await put_page(storage, "<p>still</p>"))
        )
        assert (still.ready, still.moves) == (True, False)
        broken = await executor.probe(
            ProbeTask(storage=storage, user_id=USER, bundle=await put_page(storage, "mapped"), ready_timeout_s=20)
        )
        assert not broken.ready
        problem = broken.problems[0]
        assert (problem.kind, problem.file, problem.line) == ("exception", "src/scenes/Ball.tsx", 41)
        assert "radius is not defined" in problem.message
        assert problem.stack.splitlines()[0].endswith("(src/scenes/Ball.tsx:41:2)")
        hanging = await executor.probe(
            ProbeTask(
                storage=storage,
                user_id=USER,
                bundle=await put_page(storage, "<script>for (;;);</script>"),
                ready_timeout_s=4,
            )
        )
        assert [problem.kind for problem in hanging.problems] == ["not_ready"]
        assert "endless loop" in hanging.problems[0].message
