"""A bundle's page in a browser: served from memory, moved by a virtual clock, pictured frame by frame.

The page is reached at a synthetic origin, every request is answered from the bundle or refused, and nothing else is
reachable. A page with the contract (``window.__koda``) is sought by its promise; any other page is stepped through
every frame, because what it shows at one time may depend on all times before.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import Awaitable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar, cast
from urllib.parse import quote

from koda_ray.errors import BrowserCrashed, InvalidInput, PageError, PageNotReady
from koda_ray.render.alike import Witnessed, evidence
from koda_ray.render.browser import Browser, Target
from koda_ray.render.bundle import Bundle
from koda_ray.render.cdp import NAVIGATED
from koda_ray.render.clock import Moved, page_clock, unscripted_clock, worker_clock
from koda_ray.render.deadline import Deadline
from koda_ray.render.frames import RAW_QUALITY
from koda_ray.render.matroska import ImageKind
from koda_ray.render.page_setup import PageFacts, PageSetup
from koda_ray.render.problems import Problems, storable_text
from koda_ray.render.serving import ORIGIN, BundleServer
from koda_ray.render.spec import CaptureMode

__all__ = ["CAPTURE_VERSION", "LoadedPage"]

CAPTURE_VERSION = "15"
"""Raised whenever captured pixels may change; part of the environment's fingerprint."""

SEEK_FAILED = "SEEK_FAILED"
"""The code of the `PageError` that says that a frame was never shown."""

_JPEG_QUALITY = 95
FRAME_TIMEOUT_S = 60.0
OPEN_TIMEOUT_S = 60.0
PENDING_TIMEOUT_S = 15.0
_POLL_S = 0.01
_ASKED_AGAIN_S = (0.0, 0.1, 0.4, 1.6)
"""How long after a picture that did not come it is asked for again."""
_TRANSITION = "a view transition"
"""What the clock calls one that waits for its pictures."""
_FOLLOWED = "followed"
"""What the clock answers where nothing is pending, and the next frame may be begun while this one is painted."""
_QUIET_ROUNDS = 3
_GRACE_AFTER_ERROR_S = 2.0
_BUSY_S = 2.0
_CLOSE_TIMEOUT_S = 2.0
_MAX_JOURNEYS = 10
_MAX_NAME_CHARS = 300
_TICK_MS = 1000 / 60
_FIRST_TICK_MS = 100_000.0
_EXTRA_TICK_MS = 0.001
_INJECT = "Page.addScriptToEvaluateOnNewDocument"
_WORLD = "koda"
_BACKGROUND = "Emulation.setDefaultBackgroundColorOverride"
_CLEAR = {"r": 0, "g": 0, "b": 0, "a": 0}
_WHITE = {"r": 255, "g": 255, "b": 255, "a": 1}
T = TypeVar("T")
# dedicated workers stop before their first line, so that they get their clock
_WORKERS = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": [{"type": "worker"}]}


class LoadedPage:
    """One loaded page. Make it with `open`, then `wait_ready`, then `go` and `picture` in order of time.

    Attributes:
        problems: What went wrong in the page so far.
    """

    def __init__(self, browser: Browser, target: Target, bundle: Bundle) -> None:
        self._browser = browser
        self._target = target
        self._session = target.session
        self._ticks_ms = _FIRST_TICK_MS
        self._zero_ms = _FIRST_TICK_MS  # the browser's time when the page's is 0
        self._now_ms = 0.0
        self._main_frame: str | None = None
        self._options: dict[str, object] = {}
        self._last: tuple[str | bytes, bytes] | None = None
        self._still = False
        self._changes = False  # whether the picture before the last was another
        self._asked = 0  # how many requests there were when it was ready
        self._follower_ms: float | None = None  # when the next frame is, where it may be begun early
        self._begun: asyncio.Future[dict[str, Any]] | None = None  # the page's answer where it was
        self._has_workers = False
        self._contract = False
        self._ready = False
        self._left_for: str | None = None
        self._leaves_for: str | None = None
        self._frame = -1
        self.problems = Problems(bundle.files, ORIGIN)
        self._server = BundleServer(bundle, self.problems, self._on_journey)
        self._journeys = 0
        self._worker_source = ""
        self._sandboxes = bundle.sandboxes
        self._hides = bundle.shadows
        self._moves = bundle.moves
        self._draws = bundle.draws
        self._background = _CLEAR

    @classmethod
    async def open(cls, browser: Browser, bundle: Bundle, setup: PageSetup) -> LoadedPage:
        """Start to load a bundle's page in a target of its own.

        Args:
            browser: Where.
            bundle: The files.
            setup: Which page, and how it is shown.

        Raises:
            InvalidInput: The bundle has no such page.
            BrowserCrashed: The browser ended, or does not answer.
        """
        if setup.entry not in bundle.files:
            raise InvalidInput(f"the bundle has no {setup.entry!r}: it has {', '.join(sorted(bundle.files)[:5])}")
        deadline = Deadline(browser.pid, OPEN_TIMEOUT_S)
        try:
            async with deadline:
                target = await browser.new_target(setup.width, setup.height, scale=setup.scale)
                self = cls(browser, target, bundle)
                try:
                    await self._load(setup)
                except BaseException:
                    await self.close()
                    raise
        except TimeoutError:
            raise BrowserCrashed(f"the page was not opened in {deadline}") from None
        return self

    async def _load(self, setup: PageSetup) -> None:
        session = self._session
        session.on("Runtime.exceptionThrown", self.problems.on_exception)
        session.on("Runtime.consoleAPICalled", self.problems.on_console)
        session.on("Log.entryAdded", self.problems.on_log)
        session.on("Page.frameNavigated", self._on_navigated)
        session.on("Page.javascriptDialogOpening", self._on_dialog)
        session.on("Target.detachedFromTarget", self._on_worker_gone)
        self._worker_source = worker_clock(setup.seed)
        witness = None if self._hides else setup.witness
        moved = Moved(drawings=self._draws, pictures=self._moves and self._browser.kind == "full")
        clock = page_clock(setup.seed, setup.props, moved, witness=witness, ahead=setup.ahead)
        self._background = _CLEAR if setup.transparent else _WHITE
        if setup.transparent:
            await session.send(_BACKGROUND, {"color": self._background})
        # sent together: the browser takes them in order
        for call in [
            session.post("Runtime.enable"),
            session.post("Log.enable"),
            session.post("Page.enable"),
            session.post(_INJECT, {"source": clock}),
        ]:
            await call
        if self._sandboxes:  # a world of its own in each frame takes as long as a tenth of a page's start
            await session.send(_INJECT, {"source": unscripted_clock(setup.seed, moved), "worldName": _WORLD})
        self._server.attach(session)
        session.on("Target.attachedToTarget", self._on_worker)
        await session.send("Target.setAutoAttach", _WORKERS)
        url = f"{ORIGIN}/{quote(setup.entry)}?export=1"
        self._main_frame = str((await session.send("Page.navigate", {"url": url})).get("frameId"))

    @property
    def contract(self) -> bool:
        """Whether the ready page is sought by its contract; any other is stepped through every frame."""
        return self._contract

    @property
    def inputs(self) -> dict[str, str] | None:
        """What the page has asked for of its bundle so far, by hash; None where that is too much to compare."""
        return self._server.inputs.so_far()

    def evidence(self, witnessed: Witnessed) -> str | None:
        """Return what all frames so far are made of as one name (`koda_ray.render.alike`), by what the page noted."""
        return evidence(witnessed.digest, self.inputs, self._server.inputs.shown())

    async def wait_ready(self, timeout_s: float) -> PageFacts:
        """Wait until the page is loaded, its fonts, images and requests are there, and its contract says ready.

        Args:
            timeout_s: How long this may take, without the time in which the browser waits for a processor.

        Raises:
            PageNotReady: It took longer; the message names what was pending.
            PageError: The page threw, or its contract was rejected.
            BrowserCrashed: The browser ended.
        """
        loop = asyncio.get_running_loop()
        deadline = Deadline(self._browser.pid, timeout_s)
        pending: list[str] = []
        threw_at: float | None = None
        quiet = 0
        while True:
            left_s = deadline.left_s
            try:
                async with deadline:
                    status = cast("dict[str, object]", await self._status() or {})
                    await self._begin_frame()
            except TimeoutError:
                if left_s > min(_BUSY_S, timeout_s / 2):
                    self._browser.spoilt = True
                    pending = ["the page's script, which does not let go (an endless loop?)"]
                raise await self._not_ready(deadline, pending) from None
            pending = self._pending(status.get("pending"))
            if not status:
                pending = ["the document"]
            if self._journeys > _MAX_JOURNEYS:
                raise await self.problems.error("the page loads itself anew, or goes to another, again and again")
            if status.get("failed"):
                self.problems.add("contract", str(status["failed"]), stack=str(status.get("stack") or ""))
                raise await self.problems.error(str(status["failed"]))
            quiet = 0 if pending else quiet + 1
            if quiet >= _QUIET_ROUNDS:
                break
            if status.get("stuck"):
                fatal = self.problems.fatal
                threw_at = threw_at or (loop.time() if fatal else None)
                if fatal and threw_at and loop.time() - threw_at > _GRACE_AFTER_ERROR_S:
                    raise await self.problems.error(f"{fatal.message} (and the page did not become ready)")
                await self._before(deadline, "window.__kodaRender.bootTick()", pending)
            if deadline.left_s <= 0:
                raise await self._not_ready(deadline, pending)
            await asyncio.sleep(_POLL_S)
        deadline = deadline if deadline.left_s > _BUSY_S else Deadline(self._browser.pid, _BUSY_S)
        facts = cast("dict[str, object]", await self._before(deadline, "window.__kodaRender.begin()", pending) or {})
        self._contract = facts.get("contract") is True
        self._zero_ms = math.ceil(self._ticks_ms)  # whatever moves by itself has begun before, or begins now
        if facts.get("aside"):  # animations are aside of where they begin: the first frame moves them like all others
            await self._in_time(0, self._begin_frame())
        self._ready = True
        self._asked = self._server.begun
        return PageFacts(
            contract=self._contract,
            duration_s=_positive(facts.get("duration")),
            fps=_positive(facts.get("fps")),
            width=_positive(facts.get("width")),
            height=_positive(facts.get("height")),
        )

    async def _status(self) -> object:
        """Return what the page says of its loading; nothing while it is between two documents."""
        try:
            return await self.evaluate("window.__kodaRender?.status() ?? null")
        except PageError as error:
            if error.message != NAVIGATED:
                raise
            return None

    async def _before(self, deadline: Deadline, expression: str, pending: Sequence[str]) -> object:
        """Evaluate while there is time; what runs long by then is a loop, of the page or a worker that it waits for."""
        left_s = deadline.left_s
        try:
            async with deadline:
                return await self.evaluate(expression)
        except TimeoutError:
            if left_s > min(_BUSY_S, deadline.limit_s) / 2:
                self._browser.spoilt = True
                pending = ["the page's script, or a worker's, which does not let go (an endless loop?)"]
            raise await self._not_ready(deadline, pending) from None

    async def go(
        self, frame: int, fps: Fraction | float, *, mode: CaptureMode = "seek", followed: bool = False
    ) -> None:
        """Show a frame: by one seek, or through every frame in between without painting.

        Args:
            frame: Its index; not before the one shown.
            fps: Frames per second.
            mode: ``seek`` jumps if the page has the contract; a page without it is always stepped through.
            followed: Whether the frame after it is shown next, and may be begun while this one is painted.

        Raises:
            PageError: The page threw while it showed the frame, or never let go; the message names it.
            PageNotReady: What the frame needs (images, requests) did not arrive.
            BrowserCrashed: The browser ended.
        """
        jumps = self._contract and mode == "seek"
        first = frame if jumps else self._frame + 1
        for index in range(first, frame):
            await self._step(index, fps)
            await self._in_time(index, self._begin_frame(invisible=True))
            self._browser.frames_run += 1
        plain = self._browser.kind == "shell" and not (self._moves or self._sandboxes or self._has_workers)
        quiet = self._changes and self._asked == self._server.begun
        await self._step(frame, fps, followed=followed and jumps and plain and quiet)
        self._frame = frame

    async def picture(self, *, image: ImageKind = "png", quality: int = _JPEG_QUALITY) -> bytes:
        """Paint and return the picture, as an image of the picture's size.

        A frame that changed nothing gives the very object that the frame before gave: `is` tells them apart.

        Args:
            image: How it is encoded; raw only in a browser that hands over raw frames.
            quality: Of a JPEG, 1 to 99.

        Raises:
            PageError: The page does not let go, or shows nothing.
            BrowserCrashed: It was not painted, or the browser ended.
        """
        options: dict[str, object] = {"format": "png", "optimizeForSpeed": True}
        if image != "png":
            options |= {"format": "jpeg", "quality": RAW_QUALITY if image == "raw" else quality}
        if options != self._options:  # what was kept is another kind of picture
            self._options, self._last, self._still = options, None, False
        return await self._shown(self._picture(options, raw=image == "raw"), "was not painted")

    async def _shown(self, work: Awaitable[T], failed: str) -> T:
        deadline = self._frame_deadline()
        try:
            async with deadline:
                return await work
        except TimeoutError:
            await self._check_body(deadline)
            raise BrowserCrashed(f"frame {self._frame} {failed} in {deadline}") from None

    async def _picture(self, options: dict[str, object], *, raw: bool) -> bytes:
        data = await (self._frame_shot(options) if self._browser.kind == "shell" else self._shot(options))
        self._browser.frames_run += 1
        last = self._last
        if data is None and last is not None and self._still:
            return last[1]
        if not isinstance(data, str) or not data:
            await self._check_body()
            raise BrowserCrashed(f"the browser gave no picture of frame {self._frame}")
        picture = self._raw(data) if raw else data
        self._changes = last is not None and last[0] != picture
        if last is not None and not self._changes:
            if self._browser.kind == "shell" and not self.is_ahead:
                await self._begin_frame()  # taking a picture counts as damage to the next frame
                self._still = True
            return last[1]
        self._last = (picture, picture if isinstance(picture, bytes) else base64.b64decode(picture))
        return self._last[1]

    def _raw(self, data: str) -> bytes:
        frames = self._browser.frames
        picture = None if frames is None else frames.read(base64.b64decode(data))
        if picture is None:
            raise BrowserCrashed(f"the browser gave no raw picture of frame {self._frame}")
        return picture

    async def _frame_shot(self, options: dict[str, object]) -> object:
        """Paint by a frame of our own; None when a page that stood still does so still, which costs next to nothing."""
        if self._still:
            if not (await self._begin_frame()).get("hasDamage"):
                return None
            self._still = False
        painting = self._post_frame(screenshot=options)
        if self._follower_ms is not None:
            self._begun = self._post_evaluate(f"window.__kodaRender.ahead({json.dumps(self._follower_ms)})")
            self._follower_ms = None
        data = (await painting).get("screenshotData")
        if data is None and self.is_ahead:
            raise BrowserCrashed(f"the browser gave no picture of frame {self._frame}, and went on to the next")
        for pause_s in _ASKED_AGAIN_S:  # a compositor that was too busy gives none, without a word
            if data is not None:
                break
            await asyncio.sleep(pause_s)
            data = (await self._begin_frame(screenshot=options)).get("screenshotData")
        return data

    async def _shot(self, options: dict[str, object]) -> object:
        if not await self.evaluate("window.__kodaRender.painted()"):
            return None
        return (await self._session.send("Page.captureScreenshot", options)).get("data")

    async def unpainted(self) -> None:
        """Let the page run the frame that it shows, without a picture of it.

        Raises:
            PageError: The page does not let go, or shows nothing.
            BrowserCrashed: It did not pass, or the browser ended.
        """
        self._browser.frames_run += 1
        await self._shown(self._begin_frame(invisible=True), "did not pass")

    async def witnessed(self) -> Witnessed:
        """Return what all frames so far were drawn from; a page that does not say so says nothing."""
        try:
            async with Deadline(self._browser.pid, _BUSY_S):
                return Witnessed.of(await self.evaluate("window.__kodaRender.witness()"))
        except (PageError, TimeoutError) as error:
            return Witnessed(None, type(error).__name__)

    async def close(self) -> None:
        """Close the page; the browser stays, and is marked as spoilt where the page would not go."""
        try:
            async with Deadline(self._browser.pid, _CLOSE_TIMEOUT_S):
                await self._target.close()
        except (BrowserCrashed, TimeoutError):
            self._browser.spoilt = True

    def _on_dialog(self, _event: Mapping[str, object]) -> None:
        """Dismiss a dialog: nobody is there to answer, and the page stands until somebody does."""
        self._session.post("Page.handleJavaScriptDialog", {"accept": False})

    def _on_navigated(self, event: Mapping[str, object]) -> None:
        """Note where the page goes after it was ready: its clock and its state would start again."""
        frame = cast("Mapping[str, object]", event.get("frame") or {})
        if "parentId" in frame:
            return
        self._server.arrived(str(frame.get("id")))
        if self._ready:
            self._left_for = str(frame.get("unreachableUrl") or frame.get("url"))

    def _on_journey(self, frame: str, url: str) -> None:
        """Note that the page is about to go somewhere, or to itself again; it may still be a download."""
        if self._main_frame in (None, frame):
            self._journeys += 1
            if self._ready:
                self._leaves_for = url

    def _check_there(self, frame: int, *, failed: bool = False) -> None:
        """Say that the page went away, or where something ``failed``, that it is about to."""
        url = self._left_for or (self._leaves_for if failed else None)
        if url is not None:
            raise PageError(
                f"frame {frame}: the page navigated to {storable_text(url[:200])} while it was rendered; "
                "stay on one page",
                context={"frame": frame},
            )

    async def _check_body(self, over: Deadline | None = None) -> None:
        """Say why there is no picture, where it is the page's fault; one that does not answer is in a loop."""
        self._check_there(self._frame, failed=True)
        deadline = Deadline(self._browser.pid, _BUSY_S)
        try:
            async with deadline:
                if await self.evaluate("document.body === null", frame=self._frame):
                    why = "the page stopped its own loading, or left, before it had a body"
                    raise await self.problems.error(why, frame=self._frame)
        except TimeoutError:
            raise self._endless(self._frame, over or deadline) from None

    @property
    def is_ahead(self) -> bool:
        """Whether the page was asked for the frame after the one it shows."""
        return self._begun is not None

    async def _step(self, frame: int, fps: Fraction | float, *, followed: bool = False) -> None:
        self._now_ms = float(frame * 1000 / fps)
        self._follower_ms = None
        began, self._begun = self._begun, None
        asked = self._asked if began else self._server.begun
        ms = json.dumps(self._now_ms)
        deadline = self._frame_deadline()
        try:
            async with deadline:
                moved = began or self._post_evaluate(f"window.__kodaRender.frame({ms}, {json.dumps(followed)})")
                pending = await self._value(moved, frame=frame)
                if pending is None and self._left_for is None:  # a film has to be there before the page draws it
                    await self._arrive(frame, ["a film"], "films")
                    pending = await self.evaluate("window.__kodaRender.rest()", frame=frame)
        except TimeoutError:
            raise self._endless(frame, deadline) from None
        except PageError:
            self._check_there(frame, failed=True)  # what threw was perhaps the page that came instead
            raise
        self._check_there(frame)
        names = self._pending(pending)
        if names or asked != self._server.begun:  # and it has it by now, perhaps
            await self._arrive(frame, names or (["what the page asked for"] if began else []))
        elif followed and pending == _FOLLOWED:
            self._follower_ms = float((frame + 1) * 1000 / fps)
        if self._moves and self._browser.kind == "shell":
            await self._in_time(frame, self._stir())

    async def _arrive(self, frame: int, names: list[str], ask: str = "come") -> None:
        """Wait until what the frame asked for is there; where nothing has a name it is perhaps there already."""
        due, deadline = Deadline(self._browser.pid, PENDING_TIMEOUT_S), self._frame_deadline(PENDING_TIMEOUT_S)
        try:
            async with deadline:
                while True:
                    if due.left_s <= 0:
                        raise PageNotReady(
                            f"frame {frame}: still waiting for {', '.join(names)} after {due}",
                            context={"frame": frame},
                        )
                    if names:
                        await self._begin_frame(invisible=_TRANSITION not in names)
                        self._still = False  # what it changed may have been painted, and is no damage to the next frame
                        await asyncio.sleep(_POLL_S)
                    names = await self._coming(ask, frame)
                    if not (names or (names := await self._coming(ask, frame))):  # what came last has run by then
                        return
        except TimeoutError:
            raise self._endless(frame, deadline) from None

    async def _coming(self, ask: str, frame: int) -> list[str]:
        return self._pending(await self.evaluate(f"window.__kodaRender.{ask}()", frame=frame))

    async def _in_time(self, frame: int, work: Awaitable[object]) -> None:
        deadline = self._frame_deadline()
        try:
            async with deadline:
                await work
        except TimeoutError:
            raise self._endless(frame, deadline) from None

    def _frame_deadline(self, more_s: float = 0.0) -> Deadline:
        return Deadline(self._browser.pid, FRAME_TIMEOUT_S + more_s)

    async def _stir(self) -> None:
        """Have the next frame made anew: pictures that move by themselves are moved on only then."""
        colours = {**self._background, "b": 127}, self._background
        for call in [self._session.post(_BACKGROUND, {"color": colour}) for colour in colours]:
            await call

    def _pending(self, said: object) -> list[str]:
        """Join what the page waits for with what it asked of us."""
        found = cast("list[object]", said) if isinstance(said, list) else []
        names = [storable_text(str(name)[:_MAX_NAME_CHARS]) for name in found]
        return list(dict.fromkeys([*names, *self._server.pending]))

    async def _begin_frame(
        self, *, screenshot: dict[str, object] | None = None, invisible: bool = False
    ) -> dict[str, object]:
        """Let the page run one frame; only the headless shell waits to be told, the full browser runs its own.

        The browser's own time is the frame's: animated images go by it. It must never stand still.
        """
        if self._browser.kind != "shell":
            return {}
        return await self._post_frame(screenshot=screenshot, invisible=invisible)

    def _post_frame(
        self, *, screenshot: dict[str, object] | None = None, invisible: bool = False
    ) -> asyncio.Future[dict[str, Any]]:
        self._ticks_ms = max(self._ticks_ms + _EXTRA_TICK_MS, self._zero_ms + self._now_ms)
        request: dict[str, object] = {"frameTimeTicks": self._ticks_ms, "interval": _TICK_MS}
        if screenshot is not None:
            request["screenshot"] = screenshot
        elif invisible:
            request["noDisplayUpdates"] = True
            self._still = False  # what it changed may never be reported as damage
        return self._session.post("HeadlessExperimental.beginFrame", request)

    async def evaluate(self, expression: str, *, frame: int | None = None) -> object:
        """Return what an expression of JavaScript comes to in the page, as JSON carries it; a promise is awaited.

        Raises:
            PageError: It threw; the message names the frame where one is given.
        """
        return await self._value(self._post_evaluate(expression), frame=frame)

    def _post_evaluate(self, expression: str) -> asyncio.Future[dict[str, Any]]:
        request = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        return self._session.post("Runtime.evaluate", request)

    async def _value(self, evaluated: asyncio.Future[dict[str, Any]], *, frame: int | None) -> object:
        answer = await evaluated
        if "exceptionDetails" in answer:
            raise await self.problems.error(self.problems.take_exception(answer), frame=frame)
        return answer["result"].get("value")

    def _endless(self, frame: int, over: Deadline) -> PageError:
        self._browser.spoilt = True  # what hangs is perhaps its graphics
        return PageError(
            f"frame {frame} ({self._now_ms / 1000:.3f} s) was not shown in {over}: an endless loop?",
            code=SEEK_FAILED,
            context={"frame": frame},
        )

    async def _not_ready(self, over: Deadline, pending: Sequence[str]) -> PageNotReady:
        await self.problems.place()
        names = ", ".join(pending) or "nothing that it names"
        fatal = self.problems.fatal
        because = f"; it threw: {fatal.message} ({fatal.file}:{fatal.line})" if fatal else ""
        message = f"the page was not ready after {over}, waiting for {names}{because}"
        message += self.problems.because(message)
        self.problems.add("not_ready", message)
        return PageNotReady(message, context={"pending": names})

    def _on_worker(self, event: Mapping[str, object]) -> None:
        self._has_workers = True
        worker = self._target.inner(str(event["sessionId"]))
        worker.on("Runtime.exceptionThrown", self.problems.on_exception)
        worker.on("Runtime.consoleAPICalled", self.problems.on_console)
        worker.on("Target.attachedToTarget", self._on_worker)
        worker.on("Target.detachedFromTarget", self._on_worker_gone)
        worker.post("Runtime.enable")
        self._server.attach(worker)
        worker.post("Runtime.evaluate", {"expression": self._worker_source})
        worker.post("Target.setAutoAttach", _WORKERS)
        worker.post("Runtime.runIfWaitingForDebugger")

    def _on_worker_gone(self, event: Mapping[str, object]) -> None:
        self._server.detach(str(event["sessionId"]))
        self._target.lost(str(event["sessionId"]))


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
