"""One isolated Chromium: found, started, given pages whose frames we ask for, and ended without a trace.

It is driven over a pipe by `koda_ray.render.cdp`. Each page lives in a browser context of its own, so that no cookie,
cache or storage of one unit reaches another, and only we open pages: what a page opens itself is closed again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from koda_ray.cancellation import see_through
from koda_ray.errors import BrowserCrashed, KodaError, PageError
from koda_ray.render.cdp import BrowserConnection, ProtocolSession
from koda_ray.render.deadline import Deadline
from koda_ray.render.frames import FrameMemory
from koda_ray.render.graphics import Graphics, software_graphics
from koda_ray.render.isolation import (
    WorkFolder,
    browser_command,
    call_filter,
    check_isolation,
    nested_sandbox_works,
    sweep_dead_folders,
)
from koda_ray.render.memory import MemoryLimit, MemoryWatch
from koda_ray.render.outbox import Outbox
from koda_ray.render.programs import BrowserKind, find_browser
from koda_ray.render.shaders import ShaderCache, shader_environment

__all__ = ["CHROMIUM_FLAGS", "Browser", "Target"]

CHROMIUM_FLAGS = (
    "--no-first-run",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--metrics-recording-only",
    "--password-store=basic",
    "--disable-background-networking",
    "--disable-back-forward-cache",
    "--disable-backgrounding-occluded-windows",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-hang-monitor",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--disable-features=Translate,MediaRouter,OptimizationHints,AcceptCHFrame,GlobalMediaControls,PaintHolding,"
    "HttpsUpgrades,RenderDocument,IsolateSandboxedIframes",
    # memory that a frame frees is kept for the next one, instead of given back and asked for 86 times a frame: what
    # draws WebGL on the processor frees all that it reckoned with, which is a tenth of a small picture's cost
    "--enable-features=PartitionAllocLargeEmptySlotSpanRing,PartitionAllocAdjustSizeWhenInForeground,"
    "BlinkUseLargeEmptySlotSpanRingForBufferRoot",
    "--no-pings",
    "--use-mock-keychain",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--disable-partial-raster",
    "--disable-checker-imaging",
    # a layer in one piece: tiles are drawn, uploaded and blurred one by one, a tenth of a page's cost
    "--max-untiled-layer-width=4096",
    "--max-untiled-layer-height=4096",
    "--default-tile-width=2048",
    "--default-tile-height=2048",
    "--disable-image-animation-resync",
    "--disable-threaded-animation",
    "--disable-threaded-scrolling",
    "--disable-smooth-scrolling",  # the clock does that
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-ipc-flooding-protection",
    "--autoplay-policy=no-user-gesture-required",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    # a limit, not a use: with what it guesses without a GPU, a page of many large layers is painted with holes
    "--force-gpu-mem-available-mb=16384",
    # as many as there can be: with less, a page collects garbage for minutes before its memory passes the cap
    "--js-flags=--max-old-space-size=4096",
    "--mute-audio",
    "--lang=en-US",
)
_OUR_FLAGS = ("--headless=new", "--remote-debugging-pipe")
_FRAME_FLAGS = (
    "--enable-begin-frame-control",
    "--run-all-compositor-stages-before-draw",
    "--disable-new-content-rendering-timeout",
)
_FULL_FLAGS = ("about:blank",)
"""The full browser opens a page of its own choice where it gets none; the shell opens none."""
_LAUNCH_TIMEOUT_S = 30.0
_PROFILE = "profile"
_CLOSE_TIMEOUT_S = 5.0
_CRASHED = "the page's process ended (killed, or out of memory)"
_PIPE_BYTES = 1 << 20
_WORDS_KEPT = 40


class _Process(asyncio.SubprocessProtocol):
    """A browser's process: its last words are kept, its end is told."""

    def __init__(self) -> None:
        self._outbox = Outbox()
        self.connection = BrowserConnection(self._outbox.put)
        self.words: deque[str] = deque(maxlen=_WORDS_KEPT)
        self.gone = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self._input: asyncio.WriteTransport | None = None
        self._output: asyncio.ReadTransport | None = None
        self._exited = self._silent = False

    @classmethod
    async def start(cls, command: Sequence[str], inherited: Sequence[int] = ()) -> _Process:
        """Run a command whose standard input and output carry the protocol, with more descriptors where named."""
        loop = asyncio.get_running_loop()
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        with contextlib.suppress(OSError):  # a picture is larger than the usual 64 KiB
            fcntl.fcntl(ours_out, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        try:
            transport, self = await loop.subprocess_exec(
                cls,
                *command,
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=tuple(inherited),
            )
        except BaseException:
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._transport = transport
        self._input, _ = await loop.connect_write_pipe(lambda: self._outbox, os.fdopen(ours_in, "wb", 0))
        self._output, _ = await loop.connect_read_pipe(lambda: _Answers(self), os.fdopen(ours_out, "rb", 0))
        return self

    @property
    def pid(self) -> int:
        """The process that everything of the browser runs under."""
        return 0 if self._transport is None else self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.words.extend(data.decode(errors="replace").splitlines())

    def process_exited(self) -> None:
        self._exited = True
        self._tell()

    def silent(self) -> None:
        """The other end of the protocol was closed: nothing of the browser runs any more."""
        self._silent = True
        self._tell()

    def kill(self) -> None:
        """End it: bubblewrap dies, and everything inside with bubblewrap."""
        with contextlib.suppress(ProcessLookupError):
            if self._transport is not None:
                self._transport.kill()

    def close(self) -> None:
        """Let go of the pipes."""
        for transport in (self._input, self._output, self._transport):
            if transport is not None:
                transport.close()

    def _tell(self) -> None:
        self.connection.end("the browser ended")
        if self._exited and self._silent:
            self.gone.set()


class _Answers(asyncio.Protocol):
    """What the browser writes."""

    def __init__(self, process: _Process) -> None:
        self._process = process

    def data_received(self, data: bytes) -> None:
        self._process.connection.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._process.silent()


class Target:
    """A page in a browser context of its own.

    Attributes:
        session: Its protocol session.
    """

    def __init__(
        self,
        connection: BrowserConnection,
        session: ProtocolSession,
        target: str,
        context: str,
        closed: Callable[[str], None],
    ) -> None:
        self.session = session
        self._connection = connection
        self._target = target
        self._context = context
        self._closed = closed
        self._inner: dict[str, ProtocolSession] = {}

    def inner(self, session: str) -> ProtocolSession:
        """Return the protocol session of a worker of this page."""
        return self._inner.setdefault(session, ProtocolSession(self._connection, session))

    def lost(self, session: str) -> None:
        """Let go of a worker that has ended."""
        worker = self.inner(session)
        worker.end("the worker ended")
        worker.forget()
        del self._inner[session]

    async def close(self) -> None:
        """Close the page and forget its context.

        Raises:
            BrowserCrashed: The browser ended.
        """
        ours = [self.session, *self._inner.values()]
        for session in ours:
            session.end("the page was closed")
        calls = [
            self._connection.post("Target.closeTarget", {"targetId": self._target}),
            self._connection.post("Target.disposeBrowserContext", {"browserContextId": self._context}),
        ]
        # whoever was cut off while closing closes again: what is gone already is refused, and gone
        await asyncio.gather(*calls, return_exceptions=True)
        if (why := self._connection.why_over) is not None:
            raise BrowserCrashed(why)
        for session in ours:
            session.forget()
        self._closed(self._context)


class Browser:
    """A running browser; make it with `launch`, end it with `close` or as a context manager.

    Attributes:
        kind: The headless shell, which takes frames one by one, or the full browser.
        graphics: What it draws with, from its start to its end.
        frames: Where its raw frames are; None where pictures come as JPEG only.
        frames_run: How many frames its pages went through, painted or not.
        spoilt: Whether a page of it would not close: nobody should use it again.
        shaders: Whose compiled shaders it began with, who gets what it adds as well; nobody when None.
    """

    def __init__(
        self,
        process: _Process,
        folder: WorkFolder,
        kind: BrowserKind,
        memory: MemoryLimit,
        graphics: Graphics,
        frames: FrameMemory | None,
    ) -> None:
        self._process = process
        self._folder = folder
        self._watch = MemoryWatch(process.pid, memory, self._on_too_much)
        self.kind: BrowserKind = kind
        self.graphics = graphics
        self.frames = frames
        self.frames_run = 0
        self.spoilt = False
        self.shaders: ShaderCache | None = None
        self._closing: asyncio.Task[None] | None = None
        self._contexts: set[str] = set()
        self._left: list[Callable[[], Awaitable[None]]] = []
        self._sessions: dict[str, ProtocolSession] = {}
        self._crashed: set[str] = set()

    @classmethod
    async def launch(
        cls,
        *,
        chromium_path: Path | None = None,
        memory: MemoryLimit | None = None,
        graphics: Graphics | None = None,
        helpers: int = 0,
        shaders: ShaderCache | None = None,
        timeout_s: float = _LAUNCH_TIMEOUT_S,
    ) -> Self:
        """Start a browser without a network.

        Args:
            chromium_path: Use this binary.
            memory: How much it may use; its share of the machine's when None.
            graphics: What it draws with, as `koda_ray.render.gpu.choose_graphics` chose; software when None.
            helpers: How many threads draw WebGL beside the one that asks, which waits for them; none when 0.
            shaders: What was compiled for the user whose pages it will show.
            timeout_s: How long it may take to answer.

        Raises:
            Missing: Chromium or bubblewrap is not there, or namespaces are refused.
            BrowserCrashed: It ended before it answered, or did not answer in time.
        """
        drawing = graphics or software_graphics()
        drawing = replace(drawing, environment=drawing.helped_by(helpers))
        lent = shaders if shaders is not None and shaders.is_of_use else None
        starting = asyncio.create_task(cls._start(chromium_path, memory or MemoryLimit(), drawing, lent, timeout_s))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # half a start cannot be taken back: let it finish, then end what it started
            with contextlib.suppress(asyncio.CancelledError):
                await see_through(starting)
            if not starting.cancelled() and starting.exception() is None:
                await starting.result().close()
            raise

    @classmethod
    async def _start(
        cls,
        chromium_path: Path | None,
        memory: MemoryLimit,
        graphics: Graphics,
        shaders: ShaderCache | None,
        timeout_s: float,
    ) -> Self:
        binary = find_browser(chromium_path)
        await asyncio.to_thread(check_isolation, binary.path)
        await asyncio.to_thread(sweep_dead_folders)
        folder = WorkFolder("browser")
        frames: FrameMemory | None = None
        try:
            profile = folder.writable_by_browser(_PROFILE, binary.path)
            environment = graphics.environment
            if shaders is not None:
                try:
                    await asyncio.to_thread(shaders.lend, profile)
                    environment += shader_environment(profile)
                except (KodaError, OSError):  # without them it starts later
                    shaders = None
            if graphics.interposer.library:
                frames = FrameMemory(graphics.interposer.library, folder.path)
            flags = [*_OUR_FLAGS, *CHROMIUM_FLAGS, *graphics.flags, f"--user-data-dir={profile}"]
            flags += _FRAME_FLAGS if binary.kind == "shell" else _FULL_FLAGS
            nesting = await asyncio.to_thread(nested_sandbox_works, binary.path)
            if not nesting:
                flags.append("--no-sandbox")
                _warn_of_one_wall()
            with call_filter(nesting=nesting) as filter_fd:
                command = await asyncio.to_thread(
                    browser_command,
                    binary.path,
                    profile,
                    filter_fd=filter_fd,
                    shm_bytes=memory.cap_bytes,
                    devices=graphics.devices,
                    more=(*_environment_arguments(environment), *(frames.arguments() if frames else ())),
                )
                inherited = [fd for fd in (filter_fd, frames.descriptor if frames else None) if fd is not None]
                process = await _Process.start([*command, *flags], inherited)
            if frames:
                frames.started()
        except BaseException:
            folder.close()
            if frames:
                frames.close()
            raise
        self = cls(process, folder, binary.kind, memory, graphics, frames)
        self.shaders = shaders
        try:
            async with Deadline(process.pid, timeout_s):
                await process.connection.send("Browser.getVersion")
                process.connection.on("Target.targetCreated", self._on_target)
                process.connection.on("Target.targetCrashed", self._on_crashed)
                process.connection.on("Target.targetDestroyed", self._on_gone)
                await process.connection.send(
                    "Target.setDiscoverTargets", {"discover": True, "filter": [{"type": "page"}]}
                )
        except (BrowserCrashed, TimeoutError) as error:
            await self.close()
            words = " | ".join(line.strip() for line in list(process.words)[-6:])
            raise BrowserCrashed(f"{binary.path} did not start: {words or 'it said nothing'}") from error
        except BaseException:
            await self.close()
            raise
        return self

    @property
    def connection(self) -> BrowserConnection:
        """The protocol connection of the browser as a whole."""
        return self._process.connection

    @property
    def pid(self) -> int:
        """The first of its processes."""
        return self._process.pid

    @property
    def worn(self) -> bool:
        """Whether nobody should use it again: it is spoilt, or kept more memory than it should of the pages it had."""
        return self.spoilt or self._watch.keeps_too_much()

    @property
    def is_tidy(self) -> bool:
        """Whether no page was left to it."""
        return not self._left

    def leave(self, close: Callable[[], Awaitable[None]]) -> None:
        """Leave it a page that nobody needs any more, until `tidy`, its next page or its end.

        To close a page takes as long as ten small frames, and whoever waits for what it showed would wait for that too.

        Args:
            close: Closes the page.
        """
        self._left.append(close)

    async def tidy(self) -> None:
        """Close the pages that were left to it."""
        while self._left:
            await self._left[-1]()  # and again, by whoever comes next, where this is cut off
            self._left.pop()

    async def new_target(self, width: int, height: int, *, scale: float = 1.0) -> Target:
        """Open an empty page whose frames are made when asked for (headless shell).

        Args:
            width: Viewport width in CSS pixels.
            height: Viewport height in CSS pixels.
            scale: Device pixels per CSS pixel.

        Raises:
            BrowserCrashed: The browser ended.
        """
        await self.tidy()
        connection = self.connection
        context = str((await connection.send("Target.createBrowserContext"))["browserContextId"])
        parameters: dict[str, object] = {"url": "about:blank", "browserContextId": context}
        if self.kind == "shell":
            parameters |= {"width": width, "height": height, "enableBeginFrameControl": True}
        target = str((await connection.send("Target.createTarget", parameters))["targetId"])
        attached = await connection.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        session = self._sessions[target] = ProtocolSession(connection, str(attached["sessionId"]))
        if target in self._crashed:
            session.end(_CRASHED)
        # nobody is there to be asked: what is not granted is refused at once
        connection.post("Browser.grantPermissions", {"permissions": [], "browserContextId": context})
        await connection.send("Browser.setDownloadBehavior", {"behavior": "deny", "browserContextId": context})
        metrics: dict[str, object] = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        if self.kind == "shell" and scale != 1:
            # without it a frame's picture has the size in CSS pixels, whatever the page was drawn at
            metrics["viewport"] = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        await session.send("Emulation.setDeviceMetricsOverride", metrics)
        await session.send("Emulation.setFocusEmulationEnabled", {"enabled": True})
        return Target(connection, session, target, context, self._contexts.discard)

    async def close(self) -> None:
        """End the browser and everything under it, also when whoever waits for that is cancelled meanwhile."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await see_through(self._closing)
        self._closing.result()

    async def _close(self) -> None:
        # its profile is thrown away: there is nothing that a polite end would save
        self._process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._process.gone.wait()
        self._process.close()
        await self._watch.close()
        try:
            if self.shaders is not None and not self.spoilt and self._process.gone.is_set():
                with contextlib.suppress(KodaError, OSError):  # no room, say: they are compiled again
                    await asyncio.to_thread(self.shaders.take, self._folder.path / _PROFILE)
        finally:
            await asyncio.to_thread(self._folder.close)
            if self.frames is not None:
                self.frames.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _on_too_much(self, error: PageError) -> None:
        self.spoilt = True
        self.connection.end(error)
        self._process.kill()

    def _on_target(self, event: Mapping[str, object]) -> None:
        """Close what a page opened: its picture is nobody's."""
        info = cast("Mapping[str, Any]", event.get("targetInfo") or {})
        context = str(info.get("browserContextId"))
        if context not in self._contexts:
            self._contexts.add(context)  # the first page of a context is ours
        else:
            self.connection.post("Target.closeTarget", {"targetId": info["targetId"]}).add_done_callback(_ignore)

    def _on_crashed(self, event: Mapping[str, object]) -> None:
        """End the calls to a page whose process has ended: nobody else would, as long as it is being opened."""
        target = str(event.get("targetId"))
        self._crashed.add(target)
        if target in self._sessions:
            self._sessions[target].end(_CRASHED)

    def _on_gone(self, event: Mapping[str, object]) -> None:
        target = str(event.get("targetId"))
        self._crashed.discard(target)
        self._sessions.pop(target, None)


def _environment_arguments(environment: tuple[tuple[str, str], ...]) -> list[str]:
    return [part for name, value in environment for part in ("--setenv", name, value)]


@cache
def _warn_of_one_wall() -> None:
    """Say once that generated pages are held by our isolation alone."""
    from koda_ray.logs import get_logger  # needed seldom, and every process that renders has this module

    get_logger().warning(
        "a browser runs without its own sandbox",
        why="this machine lets bubblewrap make no namespaces within namespaces, or has no unshare (util-linux)",
        what="pages are held by bubblewrap and the filter of system calls alone, with --no-sandbox",
        way_out="raise user.max_user_namespaces, allow nested user namespaces, install util-linux; see koda doctor",
    )


def _ignore(answer: asyncio.Future[dict[str, Any]]) -> None:
    if not answer.cancelled():
        answer.exception()
