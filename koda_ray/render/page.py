"""A bundle's page in a browser: served from memory, moved by a virtual clock, pictured frame by frame.

The page is reached at a synthetic origin, every request is answered from the bundle or refused, and nothing else is
reachable. A page with the contract (``window.__koda``) is sought by its promise; any other page is stepped through
every frame, because what it shows at one time may depend on all times before.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import quote, unquote, urlsplit

from koda_ray.errors import BrowserCrashed, InvalidInput, PageError, PageNotReady
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.cdp import ProtocolSession
from koda_ray.render.problems import Problems

if TYPE_CHECKING:
    from playwright.async_api import Page, Request, Route

__all__ = ["CAPTURE_VERSION", "ORIGIN", "PageFacts", "RenderPage", "clock_source"]

CAPTURE_VERSION = "1"
"""Raised whenever captured pixels may change; part of the environment's fingerprint."""

ORIGIN = "https://bundle.koda"
"""A secure context, as the live preview's localhost is: without it `crypto.randomUUID` and others are missing."""
FRAME_TIMEOUT_S = 60.0
PENDING_TIMEOUT_S = 15.0
_POLL_S = 0.01
_QUIET_ROUNDS = 3
_GRACE_AFTER_ERROR_S = 2.0
_BUSY_S = 2.0
_CLOSE_TIMEOUT_S = 2.0
_TICK_MS = 1000 / 60
_FIRST_TICK_MS = 100_000.0


@cache
def clock_source() -> str:
    """Return the script that gives a page its clock; ``__SEED__`` stands for the seed."""
    return files("koda_ray.render").joinpath("clock.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class PageFacts:
    """What a ready page says of itself; None where it says nothing."""

    contract: bool
    duration_s: float | None
    fps: float | None
    width: float | None
    height: float | None


class RenderPage:
    """One loaded page. Make it with `open`, then `wait_ready`, then `go` and `picture` in order of time.

    Attributes:
        problems: What went wrong in the page so far.
    """

    def __init__(self, browser: Browser, page: Page, session: ProtocolSession, bundle: Bundle) -> None:
        self._browser = browser
        self._page = page
        self._session = session
        self._bundle = bundle
        self._ticks_ms = _FIRST_TICK_MS
        self._answering: set[str] = set()
        self._contract = False
        self._ready = False
        self._left_for: str | None = None
        self._frame = -1
        self.problems = Problems(bundle.files, ORIGIN)

    @classmethod
    async def open(
        cls,
        browser: Browser,
        bundle: Bundle,
        *,
        width: int,
        height: int,
        seed: int = 1,
        entry: str = "index.html",
    ) -> RenderPage:
        """Start to load a bundle's page in a target of its own.

        Args:
            browser: Where.
            bundle: The files.
            width: Picture width in pixels, which is the viewport's.
            height: Picture height in pixels.
            seed: Seed of the page's random numbers.
            entry: The page's path in the bundle.

        Raises:
            InvalidInput: The bundle has no such page.
            BrowserCrashed: The browser ended.
        """
        if entry not in bundle.files:
            raise InvalidInput(f"the bundle has no {entry!r}: it has {', '.join(sorted(bundle.files)[:5])}")
        page, session = await browser.new_target(width, height)
        self = cls(browser, page, session, bundle)
        page.on("crash", lambda _: session.end("the page's process ended (killed, or out of memory)"))
        session.on("Runtime.exceptionThrown", self.problems.on_exception)
        session.on("Runtime.consoleAPICalled", self.problems.on_console)
        session.on("Page.frameNavigated", self._on_navigated)
        await session.send("Runtime.enable")
        await session.send("Page.enable")
        await session.send(
            "Page.addScriptToEvaluateOnNewDocument", {"source": clock_source().replace("__SEED__", str(seed))}
        )
        await page.route("**/*", self._answer)
        await session.send("Page.navigate", {"url": f"{ORIGIN}/{quote(entry)}?export=1"})
        return self

    async def wait_ready(self, timeout_s: float) -> PageFacts:
        """Wait until the page is loaded, its fonts, images and requests are there, and its contract says ready.

        Args:
            timeout_s: How long this may take.

        Raises:
            PageNotReady: It took longer; the message names what was pending.
            PageError: The page threw, or its contract was rejected.
            BrowserCrashed: The browser ended.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pending: list[str] = []
        threw_at: float | None = None
        quiet = 0
        while True:
            asked = loop.time()
            try:
                async with asyncio.timeout_at(deadline):
                    status = cast(
                        "dict[str, object]", await self._evaluate("window.__kodaRender?.status() ?? null") or {}
                    )
                    await self._begin_frame()
            except TimeoutError:
                if deadline - asked > min(_BUSY_S, timeout_s / 2):
                    pending = ["the page's script, which does not let go (an endless loop?)"]
                raise self._not_ready(timeout_s, pending) from None
            pending = [str(name) for name in cast("Sequence[object]", status.get("pending") or ())]
            pending += [f"request {url}" for url in sorted(self._answering)]
            if not status:
                pending = ["the document"]
            if status.get("failed"):
                self.problems.add("contract", str(status["failed"]), stack=str(status.get("stack") or ""))
                raise self._page_error(str(status["failed"]))
            quiet = 0 if pending else quiet + 1
            if quiet >= _QUIET_ROUNDS:
                break
            if status.get("stuck"):
                fatal = self.problems.fatal
                threw_at = threw_at or (loop.time() if fatal else None)
                if fatal and threw_at and loop.time() - threw_at > _GRACE_AFTER_ERROR_S:
                    raise self._page_error(f"{fatal.message} (and the page did not become ready)")
                await self._evaluate("window.__kodaRender.bootTick()")
            if loop.time() > deadline:
                raise self._not_ready(timeout_s, pending)
            await asyncio.sleep(_POLL_S)
        facts = cast("dict[str, object]", await self._evaluate("window.__kodaRender.begin()"))
        self._contract = facts.get("contract") is True
        self._ready = True
        return PageFacts(
            contract=self._contract,
            duration_s=_positive(facts.get("duration")),
            fps=_positive(facts.get("fps")),
            width=_positive(facts.get("width")),
            height=_positive(facts.get("height")),
        )

    async def go(self, frame: int, fps: float, *, mode: Literal["seek", "replay"] = "seek") -> None:
        """Show a frame: by one seek, or through every frame in between without painting.

        Args:
            frame: Its index; not before the one shown.
            fps: Frames per second.
            mode: ``seek`` jumps if the page has the contract; a page without it is always stepped through.

        Raises:
            PageError: The page threw while it showed the frame; the message names it.
            PageNotReady: What the frame needs (images, requests) did not arrive.
            BrowserCrashed: The browser ended, or the page never let go.
        """
        jumps = self._contract and mode == "seek"
        first = frame if jumps else self._frame + 1
        for index in range(first, frame):
            await self._step(index, fps)
            await self._begin_frame(invisible=True)
        await self._step(frame, fps)
        self._frame = frame

    async def picture(self, *, image: Literal["png", "jpeg"] = "png") -> bytes:
        """Paint and return the picture, as an encoded image of the picture's size."""
        options: dict[str, object] = {"format": image, "optimizeForSpeed": True}
        if image == "jpeg":
            options["quality"] = 95
        try:
            async with asyncio.timeout(FRAME_TIMEOUT_S):
                if self._browser.kind == "shell":
                    data = (await self._begin_frame(screenshot=options)).get("screenshotData")
                else:
                    await self._evaluate("window.__kodaRender.painted()")
                    data = (await self._session.send("Page.captureScreenshot", options)).get("data")
        except TimeoutError:
            raise BrowserCrashed(f"frame {self._frame} was not painted in {FRAME_TIMEOUT_S:g} s") from None
        if not isinstance(data, str) or not data:
            raise BrowserCrashed(f"the browser gave no picture of frame {self._frame}")
        self._browser.frames_painted += 1
        return base64.b64decode(data)

    async def close(self) -> None:
        """Close the page; the browser stays, and is marked as spoilt where the page would not go."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._page.close()
        except (Error, TimeoutError):
            self._browser.spoilt = True

    def _on_navigated(self, event: Mapping[str, object]) -> None:
        """Note where the page goes after it was ready: its clock and its state would start again."""
        frame = cast("Mapping[str, object]", event.get("frame") or {})
        if self._ready and "parentId" not in frame:
            self._left_for = str(frame.get("url"))

    async def _step(self, frame: int, fps: float) -> None:
        ms = json.dumps(frame * 1000 / fps)
        try:
            async with asyncio.timeout(FRAME_TIMEOUT_S):
                pending = await self._evaluate(f"window.__kodaRender.frame({ms})", frame=frame)
        except TimeoutError:
            raise PageError(
                f"frame {frame} ({frame / fps:.3f} s) was not shown in {FRAME_TIMEOUT_S:g} s: an endless loop?",
                context={"frame": frame},
            ) from None
        if self._left_for is not None:
            raise PageError(
                f"frame {frame}: the page navigated to {self._left_for[:200]} while it was rendered; stay on one page",
                context={"frame": frame},
            )
        deadline = asyncio.get_running_loop().time() + PENDING_TIMEOUT_S
        while pending:
            if asyncio.get_running_loop().time() > deadline:
                names = ", ".join(map(str, cast("Sequence[object]", pending)))
                raise PageNotReady(
                    f"frame {frame}: still waiting for {names} after {PENDING_TIMEOUT_S:g} s", context={"frame": frame}
                )
            await self._begin_frame(invisible=True)
            await asyncio.sleep(_POLL_S)
            pending = await self._evaluate("window.__kodaRender.pending()", frame=frame)

    async def _begin_frame(
        self, *, screenshot: dict[str, object] | None = None, invisible: bool = False
    ) -> dict[str, object]:
        """Let the page run one frame; only the headless shell waits to be told, the full browser runs its own."""
        if self._browser.kind != "shell":
            return {}
        self._ticks_ms += _TICK_MS
        request: dict[str, object] = {"frameTimeTicks": self._ticks_ms, "interval": _TICK_MS}
        if screenshot is not None:
            request["screenshot"] = screenshot
        elif invisible:
            request["noDisplayUpdates"] = True
        return await self._session.send("HeadlessExperimental.beginFrame", request)

    async def _evaluate(self, expression: str, *, frame: int | None = None) -> object:
        request = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = await self._session.send("Runtime.evaluate", request)
        if "exceptionDetails" in answer:
            self.problems.on_exception(answer)
            last = self.problems.all[-1]
            raise self._page_error(last.message, frame=frame)
        return answer["result"].get("value")

    def _page_error(self, message: str, *, frame: int | None = None) -> PageError:
        fatal = self.problems.fatal or (self.problems.all[-1] if self.problems.all else None)
        where = f" at {fatal.file}:{fatal.line}:{fatal.column}" if fatal and fatal.file else ""
        when = "" if frame is None else f"frame {frame}: "
        return PageError(
            f"{when}{message}{where}",
            context={
                "frame": frame,
                "file": fatal.file if fatal else None,
                "line": fatal.line if fatal else None,
                "column": fatal.column if fatal else None,
            },
        )

    def _not_ready(self, timeout_s: float, pending: Sequence[str]) -> PageNotReady:
        names = ", ".join(pending) or "nothing that it names"
        fatal = self.problems.fatal
        because = f"; it threw: {fatal.message} ({fatal.file}:{fatal.line})" if fatal else ""
        message = f"the page was not ready after {timeout_s:g} s, waiting for {names}{because}"
        self.problems.add("not_ready", message)
        return PageNotReady(message, context={"pending": names})

    async def _answer(self, route: Route, request: Request) -> None:
        """Answer a request from the bundle; refuse everything else."""
        from playwright.async_api import Error

        url = request.url
        self._answering.add(url)
        try:
            parts = urlsplit(url)
            path = unquote(parts.path).lstrip("/") or "index.html"
            body = self._bundle.files.get(path) if f"{parts.scheme}://{parts.netloc}" == ORIGIN else None
            if body is not None:
                await route.fulfill(
                    status=200,
                    body=body,
                    headers={"content-type": Bundle.content_type(path), "access-control-allow-origin": "*"},
                )
            elif path == "favicon.ico":
                await route.fulfill(status=204)
            elif url.startswith(ORIGIN):
                self.problems.add("resource", f"{path} is not in the bundle (requested by the page)")
                await route.fulfill(status=404, body="")
            else:
                self.problems.add("resource", f"{url[:300]} was refused: a render has no network; bundle the file")
                await route.abort()
        except Error:
            return  # the page closed meanwhile
        finally:
            self._answering.discard(url)


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
