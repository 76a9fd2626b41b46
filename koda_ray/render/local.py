"""An executor in this process: browsers kept warm in slots, for one machine without Ray and for tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from koda_ray.cancellation import OneTask, end_all, own
from koda_ray.errors import BrowserCrashed, RenderError
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle, load_bundle
from koda_ray.render.capture import capture_units
from koda_ray.render.environment import read_environment
from koda_ray.render.gpu import choose_graphics, confirm_graphics
from koda_ray.render.graphics import Graphics, GraphicsChoice
from koda_ray.render.isolation import captures_at_work
from koda_ray.render.join import join_video
from koda_ray.render.memory import MemoryLimit, helper_threads, usual_browsers
from koda_ray.render.probe import probe_page
from koda_ray.render.programs import find_browser
from koda_ray.render.protocol import (
    OTHER_ENVIRONMENT,
    CaptureTask,
    Environment,
    Hear,
    JoinResult,
    JoinTask,
    PageTried,
    ProbeReport,
    ProbeTask,
    Slots,
)
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.shaders import ShaderCache
from koda_ray.render.still_units import StillUnits
from koda_ray.state.storage import Storage

__all__ = ["LocalExecutor", "check_environment"]

MAX_FRAMES_PER_BROWSER = 3000
MAX_BUNDLES = 4
_TIDY_S = 1.0
"""How long after the last page was left pages are closed: nobody waits for what they showed by then."""
_ENDS_S = 0.2
"""How long a page's process may take to end: its memory counts until then."""


class LocalExecutor:
    """Renders in this process. Close it when done: it keeps browsers.

    Args:
        workers: How many tasks at once; `usual_browsers` when None.
        chromium_path: The configured browser, if any.
        memory: How much a browser may use; its share of the machine's when None.
        graphics: What draws.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        chromium_path: Path | None = None,
        memory: MemoryLimit | None = None,
        graphics: GraphicsChoice = "auto",
    ) -> None:
        self._workers = workers or usual_browsers()
        self._memory = (memory or MemoryLimit()).among(self._workers)
        self._chromium_path = chromium_path
        self._graphics_choice: GraphicsChoice = graphics
        self._choosing = asyncio.Lock()
        self._gate = asyncio.Semaphore(self._workers)
        self._idle: list[Browser] = []
        self._bundles: dict[tuple[str, str], Bundle] = {}
        self._stills = "", StillUnits()
        self._running: set[asyncio.Task[Any]] = set()
        self._tidying = OneTask(self._tidy_late)
        self._left_at = 0.0

    @property
    def slots(self) -> Slots:
        """How many tasks can be under way at once."""
        return Slots(self._workers, self._workers)

    async def environment(self) -> Environment:
        """What this machine renders with."""
        return await asyncio.to_thread(read_environment, self._chromium_path, await self._graphics())

    async def prepare(self) -> None:
        """Do nothing: whoever works here is here."""

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        """Capture, encode and store units, once their page is tried where it has to be. Raises as `capture_units`."""

        async def work() -> None:
            check_environment(task, await self.environment())
            bundle = await self._bundle(task.storage, task.user_id, task.spec.bundle)
            async with self.browser(task.user_id, pages=task.at_once) as browser:
                if task.trial is not None:
                    report = await probe_page(task.trial, browser, bundle)
                    if hear is not None:
                        await hear(PageTried(task.units[0].index, 0, report))
                    if report.problems:
                        return
                await capture_units(task, browser, bundle, hear=hear, stills=self._stills_of(task.user_id))

        await own(work(), self._running)

    async def join(self, task: JoinTask) -> JoinResult:
        """Join, verify and store the video. Raises as `join_video`."""
        return await own(join_video(task), self._running)

    async def probe(self, task: ProbeTask) -> ProbeReport:
        """Look at a page. Raises as `probe_page`."""

        async def work() -> ProbeReport:
            bundle = await self._bundle(task.storage, task.user_id, task.bundle)
            async with self.browser(task.user_id) as browser:
                return await probe_page(task, browser, bundle)

        return await own(work(), self._running)

    async def warm(self, user_id: str | None = None) -> None:
        """Start a browser for each worker now, so that the first units need not wait for theirs.

        Args:
            user_id: Whose pages they will show, with what was compiled for that user; of nobody's pages anything has
                to be compiled anew for each, which takes a page with WebGL a second.
        """
        await self.tidy()
        missing = range(self._workers - len(self._idle))
        helpers = helper_threads(self._workers)
        self._idle += await asyncio.gather(*(self._launch(user_id, helpers) for _ in missing))

    async def tidy(self) -> None:
        """Close the pages that were left to browsers that nobody has, without waiting for a while first."""
        await self._tidying.end()
        await self._tidy_idle()

    async def cancel_all(self) -> None:
        """End everything that is under way, with its processes."""
        await end_all(self._running)

    async def close(self) -> None:
        """End what is under way and every browser."""
        try:
            await self.cancel_all()
            await self._tidying.end()
        finally:
            browsers, self._idle = self._idle, []
            await asyncio.gather(*(browser.close() for browser in browsers))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @contextlib.asynccontextmanager
    async def browser(self, user_id: str | None = None, *, pages: int | None = None) -> AsyncGenerator[Browser]:
        """Lend one of its browsers for a block, a warm one where there is one; waits while all are lent.

        Args:
            user_id: Whose pages it will show.
            pages: How many pages whoever asks has drawn at once, its own among them; one for each worker when None.
        """
        async with self._gate:
            others = await asyncio.to_thread(captures_at_work)
            helpers = helper_threads(max(pages or self._workers, others + 1))
            browser = await self._tidied_for(user_id, helpers) or await self._launch(user_id, helpers)
            try:
                yield browser
            except BrowserCrashed:
                browser.spoilt = True
                raise
            finally:
                # of one that has a page left it is not known yet
                worn = browser.worn if browser.is_tidy else browser.spoilt
                if worn or browser.frames_run >= MAX_FRAMES_PER_BROWSER:
                    await browser.close()
                else:
                    self._idle.append(browser)
                    self._tidy_soon()

    def _stills_of(self, user_id: str) -> StillUnits:
        """Return what is remembered of a user's units; of another's nothing is then."""
        if self._stills[0] != user_id:
            self._stills = user_id, StillUnits()
        return self._stills[1]

    async def _tidied_for(self, user_id: str | None, helpers: int) -> Browser | None:
        """Return a browser that is warm, if there is one, without the pages that were left to it."""
        while (browser := await self._idle_for(user_id, helpers)) is not None:
            try:
                if await self._is_fit(browser):
                    return browser
            except BaseException:
                self._tidy_soon()
                raise
        return None

    def _tidy_soon(self) -> None:
        """Have pages closed in a while, where some were left and nobody takes their browsers."""
        if not all(browser.is_tidy for browser in self._idle):
            self._left_at = asyncio.get_running_loop().time()
            self._tidying.begin()

    async def _tidy_late(self) -> None:
        clock = asyncio.get_running_loop().time
        while (wait_s := self._left_at + _TIDY_S - clock()) > 0:  # noqa: ASYNC110 - it is put off meanwhile
            await asyncio.sleep(wait_s)
        await self._tidy_idle()

    async def _tidy_idle(self) -> None:
        while left := [browser for browser in self._idle if not browser.is_tidy]:
            async with self._gate:  # as whoever uses one: it is not counted as there
                if left[0] in self._idle:
                    self._idle.remove(left[0])
                    if await self._is_fit(left[0]):
                        self._idle.append(left[0])

    async def _is_fit(self, browser: Browser) -> bool:
        """Tidy a browser that is not idle, and return whether it may be used again; one that may not is closed."""
        if browser.is_tidy:
            return True
        try:
            await browser.tidy()
            if browser.worn and not browser.spoilt:
                await asyncio.sleep(_ENDS_S)
        except BaseException:  # cut off
            self._idle.append(browser)
            raise
        if worn := browser.worn:
            await browser.close()
        return not worn

    async def _idle_for(self, user_id: str | None, helpers: int) -> Browser | None:
        """Return a browser that is warm, if there is one; never one that began with what is another user's."""
        if not self._idle:
            return None
        owners = [None if browser.shaders is None else browser.shaders.user_id for browser in self._idle]
        own = [index for owner in (user_id, None) for index, each in enumerate(owners) if each == owner]
        if not own:
            await self._idle.pop().close()
            return None
        # a warm one with other helpers is there sooner than one that starts
        fitting = [index for index in own if self._idle[index].graphics.helpers == helpers]
        return self._idle.pop((fitting or own)[0])

    async def _launch(self, user_id: str | None = None, helpers: int = 0) -> Browser:
        graphics = await self._graphics()
        browser = await Browser.launch(
            chromium_path=self._chromium_path,
            memory=self._memory,
            graphics=graphics,
            helpers=helpers,
            shaders=None if user_id is None else ShaderCache(user_id, graphics),
        )
        try:
            await confirm_graphics(browser)
        except BaseException:
            await browser.close()
            raise
        return browser

    async def _graphics(self) -> Graphics:
        """Return what all browsers draw with. However many start at once, one looks."""
        async with self._choosing:
            return await choose_graphics(find_browser(self._chromium_path).path, self._graphics_choice)

    async def _bundle(self, storage: Storage, user_id: str, content_hash: str) -> Bundle:
        key = (user_id, content_hash)
        if key not in self._bundles:
            while len(self._bundles) >= MAX_BUNDLES:
                del self._bundles[next(iter(self._bundles))]
            self._bundles[key] = await load_bundle(RetryingStorage(storage), user_id, content_hash)
        return self._bundles[key]


def check_environment(task: CaptureTask, environment: Environment) -> None:
    """Refuse a task that was planned for another environment: one video never mixes two.

    Raises:
        RenderError: They differ; another worker may be right.
    """
    if task.environment != environment.fingerprint:
        raise RenderError(
            f"this worker renders with {environment.fingerprint} ({environment.chromium}; graphics: "
            f"{environment.graphics}), the video was begun with {task.environment}: give all render nodes the same "
            "browser, FFmpeg, fonts, C compiler and GPU; where only some have a GPU, set KODA_RENDER_GRAPHICS=software",
            code=OTHER_ENVIRONMENT,
            context={"wanted": task.environment},
            retryable=True,
        )
