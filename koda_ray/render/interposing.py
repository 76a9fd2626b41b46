"""Whether a browser hands over raw frames here: the interposer is compiled, loaded, and looked at through a picture.

Needed are a C compiler, libjpeg's header, and a Chromium that links the system's libjpeg, as Debian's does. What came
of it is kept for as long as browser and source stay what they are: a later start of any process only looks at a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from koda_ray.errors import RenderError
from koda_ray.render.browser import Browser
from koda_ray.render.bundle import Bundle
from koda_ray.render.compiling import CompileFailed, compile_library, find_compiler
from koda_ray.render.frames import RAW_QUALITY, Interposer, interposer_digest, interposer_source
from koda_ray.render.graphics import Graphics
from koda_ray.render.isolation import own_folder, write_whole
from koda_ray.render.page import LoadedPage
from koda_ray.render.page_setup import PageSetup

__all__ = ["find_interposer"]

_PACKAGES = "gcc libc6-dev libjpeg62-turbo-dev"
_TRY_S = 15.0
_MAX_WORDS = 160
_SIDE = 64
# pure colours, and what BT.709 makes of them: Y, U, V
_COLOURS = {"#f00": (63, 102, 240), "#0f0": (173, 42, 26), "#00f": (32, 240, 118), "#fff": (235, 128, 128)}


async def find_interposer(binary: Path, graphics: Graphics) -> Interposer:
    """Return the library through which a browser hands over raw frames; the first call on a machine takes a second.

    Args:
        binary: The browser.
        graphics: What it draws with.

    Raises:
        Missing: bubblewrap is not there, or may not isolate.
    """
    try:
        find_compiler(_PACKAGES)
        seen = await asyncio.to_thread(binary.stat)
    except CompileFailed as error:
        return Interposer(None, str(error))
    except OSError as error:
        return Interposer(None, f"{binary}: {error.strerror}")
    root = await asyncio.to_thread(own_folder, "koda-interposer")
    told = f"{interposer_digest()} {binary} {seen.st_size} {seen.st_mtime_ns} {' '.join(graphics.flags)}"
    library = root / f"interposer-{hashlib.sha256(told.encode()).hexdigest()[:16]}.so"
    refused = library.with_suffix(".refused")
    for path in (library, refused):
        with contextlib.suppress(FileNotFoundError):
            kept = await asyncio.to_thread(path.read_bytes)
            return Interposer(kept) if path is library else Interposer(None, kept.decode())
    try:
        made = await _make(binary, graphics)
    except (CompileFailed, _Trouble) as trouble:  # another time it may work: nothing is kept
        return Interposer(None, str(trouble))
    kept = made.why.encode() if made.library is None else made.library
    await asyncio.to_thread(write_whole, refused if made.library is None else library, kept)
    return made


class _Trouble(Exception):
    """It could not be tried."""


async def _make(binary: Path, graphics: Graphics) -> Interposer:
    """Compile the library and try it."""
    made = Interposer(await asyncio.to_thread(compile_library, interposer_source(), packages=_PACKAGES))
    try:
        async with asyncio.timeout(_TRY_S):
            why = await _try(binary, replace(graphics, interposer=made))
    except TimeoutError:
        raise _Trouble(f"nothing came within {_TRY_S:g} s") from None
    except RenderError as error:
        raise _Trouble(error.message[:_MAX_WORDS]) from error
    return Interposer(None, why) if why else made


async def _try(binary: Path, graphics: Graphics) -> str:
    """Take a raw frame of four known colours; return what is wrong with it."""
    fields = "".join(f'<i style="background:{colour}"></i>' for colour in _COLOURS)
    page = (
        "<!doctype html><style>body{margin:0;display:grid;grid:repeat(2,32px)/repeat(2,32px)}</style>"
        f"<body>{fields}</body>"
    )
    bundle = Bundle({"index.html": page.encode()})
    async with await Browser.launch(chromium_path=binary, graphics=graphics, timeout_s=_TRY_S) as browser:
        shown = await LoadedPage.open(browser, bundle, PageSetup(width=_SIDE, height=_SIDE))
        await shown.wait_ready(_TRY_S)
        await shown.go(0, Fraction(30))
        assert browser.frames is not None
        frame = browser.frames.read(await shown.picture(image="jpeg", quality=RAW_QUALITY))
        await shown.close()
    if frame is None:
        return "the browser's JPEG encoder is its own"
    chroma = _SIDE * _SIDE
    for index, (colour, wanted) in enumerate(_COLOURS.items()):
        x, y = (16 + 32 * (index % 2), 16 + 32 * (index // 2))
        half = y // 2 * (_SIDE // 2) + x // 2
        got = (frame[y * _SIDE + x], frame[chroma + half], frame[chroma + chroma // 4 + half])
        if any(abs(one - two) > 1 for one, two in zip(got, wanted, strict=True)):
            return f"{colour} came out as {got} in place of {wanted}"
    return ""
