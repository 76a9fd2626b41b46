"""Who draws WebGL without a GPU: each way that a browser has is tried by drawing, and measured when that is asked for.

`auto` takes the first of a fixed order that draws, so that all machines with the same packages agree; which is fastest
depends on the processor and on Mesa, so `koda doctor --measure` tells, and ``KODA_RENDER_GRAPHICS`` names it, for all
nodes alike. What came of a try is kept for as long as browser and libraries stay what they are: a later start of any
process only looks at a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

import psutil

from koda_ray.errors import Missing, RenderError
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.drawing import draw
from koda_ray.render.graphics import (
    IN_SOFTWARE,
    RASTERIZERS,
    Graphics,
    Rasterizer,
    RasterizerName,
    graphics_libraries,
    lavapipe_driver,
    software_graphics,
)
from koda_ray.render.isolation import own_folder, write_whole
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup

__all__ = ["Measured", "choose_rasterizer", "fastest", "kept_at", "measure_rasterizers"]

USUAL: tuple[RasterizerName, ...] = ("llvmpipe", "swiftshader")
"""What is tried where nobody names one, the fastest of most machines first."""

_SCENE, _PAGE = "rasterizer_scene.html", "rasterizer_page.html"
_SIZE = (1280, 720)
_FPS = Fraction(30)
_WARM_FRAMES = 3
_ROUND_FRAMES = 8
_ROUNDS = 4
_READY_S = 30.0
_CLEARLY = 0.95
"""What part of the usual one's time another may take at most, to be called faster: less is noise."""


async def choose_rasterizer(binary: Path, wanted: RasterizerName | None = None, *, why: str = "") -> Graphics:
    """Return what draws WebGL on the processor here, found out by drawing.

    Args:
        binary: The browser.
        wanted: This one and no other; the first that draws when None.
        why: Why software draws, in words.

    Returns:
        What draws, and who does not in whose place it is. Where nothing does, the browser's own, whose pages see no
        WebGL; ``why`` says so then.

    Raises:
        Missing: The one that is wanted does not draw here; the message says why. Or bubblewrap is not there.
    """
    refused: list[tuple[RasterizerName, str]] = []
    sought: Sequence[RasterizerName] = USUAL if wanted is None else (wanted,)
    for name in sought:
        no = await _refusal(binary, RASTERIZERS[name])
        if no is None:
            return replace(software_graphics(why, RASTERIZERS[name]), refused=tuple(refused))
        refused.append((name, no))
    words = [f"{name}: {no}" for name, no in refused]
    if wanted is not None:
        raise Missing(
            f"KODA_RENDER_GRAPHICS={wanted} does not draw here: {words[0]}. Set it to auto, or to what "
            "`koda doctor --measure` finds",
            context={"program": "gpu"},
        )
    none = "; ".join(part for part in (why, "no WebGL", *words) if part)
    return replace(software_graphics(none, RASTERIZERS[USUAL[-1]]), refused=tuple(refused))


async def _refusal(binary: Path, rasterizer: Rasterizer) -> str | None:
    """Return why a rasterizer does not draw in a browser; None where it does, or where nobody could tell."""
    kept = await asyncio.to_thread(kept_at, binary, rasterizer.flags, rasterizer.environment)
    with contextlib.suppress(FileNotFoundError):
        return await asyncio.to_thread(kept.read_text) or None
    drawn = await draw(binary, software_graphics("", rasterizer))
    if not drawn.answered:  # another time it may answer: nothing is kept, and nothing else drawn with meanwhile
        return None
    no = drawn.wrong or rasterizer.stranger(drawn.renderer)
    await asyncio.to_thread(write_whole, kept, (no or "").encode())
    return no


def kept_at(binary: Path, *decides: object) -> Path:
    """Return where it is kept what a try came to, by all that decides it.

    Args:
        binary: The browser in which it was tried.
        decides: What was tried, as JSON carries it; Mesa's libraries are looked up.
    """
    try:
        seen = binary.stat()
        identity = f"{binary} {seen.st_size} {seen.st_mtime_ns}"
    except OSError:
        identity = str(binary)
    told = json.dumps([identity, graphics_libraries(), *decides])
    return own_folder("koda-rasterizers") / hashlib.sha256(told.encode()).hexdigest()[:16]


# --- measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """What one way of drawing takes here.

    Attributes:
        name: As ``KODA_RENDER_GRAPHICS`` names it.
        composited: Whether it drew the page around the canvas too, which no render has it do.
        renderer: Who says to have drawn; empty where nothing was.
        cpu_ms: Processor time of a frame of the trial scene at 1280x720, in milliseconds; None where it does not draw.
        wall_ms: The same by the clock, with nothing beside it.
        html_ms: Processor time of a frame of a page of HTML of that size; None where it was not measured, since only
            who draws the page too makes a difference there.
        why_not: Why it does not draw; None where it does.
    """

    name: RasterizerName
    composited: bool = False
    renderer: str = ""
    cpu_ms: float | None = None
    wall_ms: float | None = None
    html_ms: float | None = None
    why_not: str | None = None


async def measure_rasterizers(binary: Path) -> list[Measured]:
    """Have all that draw here draw the same scene, in turns, and return what each takes; takes some 25 s.

    The usual one draws a page of HTML as well, the browser composing it and then itself.

    Args:
        binary: The browser.

    Raises:
        Missing: bubblewrap is not there, or may not isolate.
    """
    found: list[Measured] = []
    trials: dict[tuple[int, str], _Trial] = {}
    async with contextlib.AsyncExitStack() as stack:
        ways: list[tuple[RasterizerName, Rasterizer, bool]] = [
            (name, rasterizer, False) for name, rasterizer in RASTERIZERS.items()
        ]
        ways.append((USUAL[0], RASTERIZERS[USUAL[0]], True))
        for name, rasterizer, composited in ways:
            if name == "lavapipe" and lavapipe_driver() is None:
                found.append(Measured(name, why_not="not installed: mesa-vulkan-drivers"))
                continue
            graphics = software_graphics("", rasterizer)
            if composited:
                graphics = replace(graphics, flags=tuple(flag for flag in graphics.flags if flag != IN_SOFTWARE))
            drawn = await draw(binary, graphics)
            no = drawn.wrong or rasterizer.stranger(drawn.renderer)
            if no is None:
                try:
                    for scene in (_SCENE, _PAGE) if name == USUAL[0] else (_SCENE,):
                        trial = await stack.enter_async_context(_trial(binary, graphics, scene))
                        trials[len(found), scene] = trial
                except RenderError as error:
                    no = error.message.partition("\n")[0]
                    trials.pop((len(found), _SCENE), None)
            found.append(Measured(name, composited, drawn.renderer, why_not=no))
        for _ in range(_ROUNDS):
            for trial in trials.values():
                await trial.go_on(_ROUND_FRAMES)
    for (index, scene), trial in trials.items():
        cpu_ms, wall_ms = min(trial.cpu_ms), min(trial.wall_ms)
        if scene == _PAGE:
            found[index] = replace(found[index], html_ms=cpu_ms)
        else:
            found[index] = replace(found[index], cpu_ms=cpu_ms, wall_ms=wall_ms)
    return found


def fastest(measured: list[Measured]) -> RasterizerName | None:
    """Return what draws a frame in the least processor time; the usual one, where no other is clearly faster.

    Args:
        measured: As `measure_rasterizers` returns.
    """
    took: dict[RasterizerName, float] = {
        each.name: each.cpu_ms for each in measured if each.cpu_ms is not None and not each.composited
    }
    usual: RasterizerName | None = next((name for name in USUAL if name in took), None)
    if usual is None:
        return min(took, key=took.__getitem__, default=None)
    faster: dict[RasterizerName, float] = {
        name: cpu_ms for name, cpu_ms in took.items() if cpu_ms < took[usual] * _CLEARLY
    }
    return min(faster, key=faster.__getitem__) if faster else usual


class _Trial:
    """A page that draws the trial scene in a browser of its own."""

    def __init__(self, browser: Browser, page: LoadedPage) -> None:
        self._browser = browser
        self._page = page
        self._frame = 0
        self.cpu_ms: list[float] = []
        self.wall_ms: list[float] = []

    async def go_on(self, frames: int, *, noted: bool = True) -> None:
        """Draw the next frames; where ``noted``, write down what each took on average."""
        cpu, began = await asyncio.to_thread(_cpu_s, self._browser.pid), time.perf_counter()
        for _ in range(frames):
            await self._page.go(self._frame, _FPS)
            await self._page.picture(image="jpeg")
            self._frame += 1
        wall = time.perf_counter() - began
        if noted:
            used = await asyncio.to_thread(_cpu_s, self._browser.pid) - cpu
            self.cpu_ms.append(used * 1000 / frames)
            self.wall_ms.append(wall * 1000 / frames)


@contextlib.asynccontextmanager
async def _trial(binary: Path, graphics: Graphics, scene: str) -> AsyncGenerator[_Trial]:
    bundle = Bundle({"index.html": files("koda_ray.render").joinpath(scene).read_bytes()})
    async with await Browser.launch(chromium_path=binary, graphics=graphics) as browser:
        page = await LoadedPage.open(browser, bundle, PageSetup(width=_SIZE[0], height=_SIZE[1]))
        try:
            await page.wait_ready(_READY_S)
            trial = _Trial(browser, page)
            await trial.go_on(_WARM_FRAMES, noted=False)
            yield trial
        finally:
            await page.close()


def _cpu_s(pid: int) -> float:
    """Return the processor time, in seconds, of a process and of all that runs under it."""
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        for process in (first, *first.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
    return total
