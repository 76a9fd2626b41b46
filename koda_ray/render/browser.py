"""One isolated Chromium: found, started, given targets whose frames we ask for, and ended without a trace.

Playwright drives it over a pipe, which passes through bubblewrap where a port could not. A target is made by hand
because only `Target.createTarget` can ask for frame control, and the browser's default context is used because a
persistent context is what shows such targets.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from koda_ray.errors import BrowserCrashed
from koda_ray.render.cdp import ProtocolSession, crash_error
from koda_ray.render.isolation import (
    WorkFolder,
    browser_command,
    check_isolation,
    nested_sandbox_works,
    sweep_dead_folders,
)
from koda_ray.render.owned import see_through
from koda_ray.render.programs import BrowserKind, find_browser

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Playwright

__all__ = ["CHROMIUM_FLAGS", "Browser", "graphics_flags"]

CHROMIUM_FLAGS = (
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--disable-partial-raster",
    "--disable-checker-imaging",
    "--disable-image-animation-resync",
    "--disable-threaded-animation",
    "--disable-threaded-scrolling",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-ipc-flooding-protection",
    "--autoplay-policy=no-user-gesture-required",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--js-flags=--max-old-space-size=2048",
    "--mute-audio",
    "--lang=en-US",
)
_FRAME_FLAGS = (
    "--enable-begin-frame-control",
    "--run-all-compositor-stages-before-draw",
    "--disable-new-content-rendering-timeout",
)
_LAUNCH_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 5.0
_EGL_VENDORS = ("/usr/share/glvnd/egl_vendor.d/50_mesa.json", "/etc/glvnd/egl_vendor.d/50_mesa.json")


def graphics_flags() -> tuple[str, ...]:
    """Return how WebGL and the compositor draw here.

    WebGL goes to Mesa's llvmpipe where it is installed: it takes about half of SwiftShader's time. The compositor
    stays in software, because without a GPU it would only add a copy.
    """
    if any(Path(vendor).exists() for vendor in _EGL_VENDORS):
        return ("--use-gl=angle", "--use-angle=gl-egl", "--ignore-gpu-blocklist", "--disable-gpu-compositing")
    return ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-gpu-compositing")


class Browser:
    """A running browser; make it with `launch`, end it with `close` or as a context manager.

    Attributes:
        frames_painted: How many pictures it made.
        spoilt: Whether a page of it would not close: nobody should use it again.
    """

    def __init__(self, playwright: Playwright, context: BrowserContext, folder: WorkFolder, kind: BrowserKind) -> None:
        self._playwright = playwright
        self._context = context
        self._folder = folder
        self.kind: BrowserKind = kind
        self.frames_painted = 0
        self.spoilt = False
        self._closed = False

    @classmethod
    async def launch(cls, *, chromium_path: Path | None = None) -> Self:
        """Start a browser without a network.

        Args:
            chromium_path: Use this binary.

        Raises:
            Missing: Chromium or bubblewrap is not there, or namespaces are refused.
            BrowserCrashed: It ended before it answered.
        """
        starting = asyncio.create_task(cls._start(chromium_path))
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
    async def _start(cls, chromium_path: Path | None) -> Self:
        from playwright.async_api import Error, async_playwright

        binary = find_browser(chromium_path)
        await asyncio.to_thread(check_isolation)
        await asyncio.to_thread(sweep_dead_folders)
        folder = WorkFolder("browser")
        playwright: Playwright | None = None
        try:
            profile = folder.writable_by_browser("profile")
            launcher = folder.path / "launch"
            launcher.write_text(await asyncio.to_thread(browser_command, binary.path, profile))
            launcher.chmod(0o755)
            playwright = await async_playwright().start()
            context = await playwright.chromium.launch_persistent_context(
                profile,
                executable_path=launcher,
                headless=True,
                args=[*CHROMIUM_FLAGS, *graphics_flags(), *(_FRAME_FLAGS if binary.kind == "shell" else ())],
                ignore_default_args=["--enable-unsafe-swiftshader"],
                chromium_sandbox=await asyncio.to_thread(nested_sandbox_works),
                no_viewport=True,
                service_workers="block",
                accept_downloads=False,
                locale="en-US",
                timezone_id="UTC",
                artifacts_dir=folder.path / "artifacts",
                timeout=_LAUNCH_TIMEOUT_S * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except BaseException as error:
            if playwright is not None:
                await playwright.stop()
            folder.close()
            if isinstance(error, Error):
                raise BrowserCrashed(f"{binary.path} did not start: {_last_lines(error.message)}") from error
            raise
        return cls(playwright, context, folder, binary.kind)

    @property
    def context(self) -> BrowserContext:
        """The browser's only context."""
        return self._context

    async def new_target(self, width: int, height: int) -> tuple[Page, ProtocolSession]:
        """Open an empty page whose frames are made when asked for (headless shell), with its protocol session.

        Args:
            width: Viewport width in CSS pixels.
            height: Viewport height in CSS pixels.

        Raises:
            BrowserCrashed: The browser ended.
        """
        from playwright.async_api import Error

        browser = self._context.browser
        if browser is None:
            raise BrowserCrashed("the browser has gone")
        parameters: dict[str, object] = {"url": "about:blank"}
        if self.kind == "shell":
            parameters |= {"width": width, "height": height, "enableBeginFrameControl": True}
        try:
            root = await browser.new_browser_cdp_session()
            async with self._context.expect_page() as opened:
                await ProtocolSession(root).send("Target.createTarget", parameters)
            page = await opened.value
            await root.detach()
            session = ProtocolSession(await self._context.new_cdp_session(page))
        except Error as error:
            raise crash_error(error) from error
        await session.send(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        return page, session

    async def close(self) -> None:
        """End the browser and everything under it; a browser that does not answer is killed."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._context.close()
        # stopping the driver kills what is left: bubblewrap dies with its parent, and all inside with bubblewrap
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._playwright.stop()
        await asyncio.to_thread(self._folder.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _last_lines(text: str, count: int = 6) -> str:
    return " | ".join(line.strip() for line in text.strip().splitlines()[-count:])
