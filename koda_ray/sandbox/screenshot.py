"""A picture of the project's page at one time, taken inside its sandbox by the Chromium that is there.

Nothing leaves the sandbox but the picture: no bundle is stored and no browser of this machine opens the page. The page
is built where it has changed, served from its files, moved by the clock that a render gives it, and pictured when we
say so. So the picture is the frame that a render would show. Clock and flags belong to the renderer, so whoever asks
brings them (``PageClock``); the program that does it comes in with each call (``guest/still.mjs``), and so works in
whatever holds node and Chromium.

It is a command of the project's like any other: with the sandbox's limits, without a network, and ended with all that
it started.
"""

from __future__ import annotations

import base64
import json
import secrets
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from koda_ray.errors import InvalidInput, KodaError, NotFound, SandboxError
from koda_ray.hearsay import LARGEST, plain
from koda_ray.sandbox.base import CommandResult, Sandbox
from koda_ray.sandbox.isolation import GUEST
from koda_ray.sandbox.problems import parse_build
from koda_ray.sandbox.refused import note

__all__ = ["MAX_SIDE_PX", "PageClock", "Screenshot", "is_picture", "screenshot"]

MAX_SIDE_PX = 4096
_MAX_AT_S = 3600.0
_MAX_PNG_BYTES = 64 * 1024 * 1024
_FOLDER = ".vite/koda-still"
_BUILD = ("node_modules/vite/bin/vite.js", "build", "--emptyOutDir", "--logLevel", "warn")
_DOES_NOT_BUILD, _NO_BROWSER, _DOES_NOT_SEEK = 65, 69, 75
# node runs a module that it is given in the command line; texts are packed, because arguments have an end
_LOADER = (
    'import { inflateSync } from "node:zlib"; '
    'const [code, asked] = process.argv.slice(-2).map((text) => inflateSync(Buffer.from(text, "base64url"))); '
    "globalThis.kodaAsked = asked.toString(); "
    'await import("data:text/javascript;base64," + code.toString("base64"));'
)
_PNG = b"\x89PNG\r\n\x1a\n"
_FPS = 30.0
_MOST_REFUSED = 20
_SAID_CHARS = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class PageClock:
    """What a render gives a page and its browser, so that it shows the same: scripts, and Chromium's flags."""

    page: str
    unscripted: str
    worker: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Screenshot:
    """A picture: ``png`` of ``width_px`` by ``height_px`` at ``at_s``, and the page's length where it says one."""

    png: bytes
    at_s: float
    width_px: int
    height_px: int
    duration_s: float | None


async def screenshot(
    sandbox: Sandbox,
    at_s: float,
    *,
    clock: PageClock,
    width_px: int = 1920,
    height_px: int = 1080,
    timeout_s: float = 120.0,
) -> Screenshot:
    """Take a picture of the project's page inside its sandbox.

    Args:
        sandbox: The project's.
        at_s: The time that it shows, in seconds; what lies after the page's end shows as the page decides.
        clock: The renderer's.
        width_px: The page's width.
        height_px: The page's height.
        timeout_s: For the build, the page and the picture together.

    Raises:
        InvalidInput: INVALID_INPUT, no such time or size.
        SandboxError: CAPTURE_FAILED, the project does not build, or there is no picture; SEEK_FAILED, the page is not
            ready, or throws on the way to that time.
        CommandTimeout: TIMEOUT.
        QuotaExceeded: QUOTA_EXCEEDED, it passed a limit of the sandbox.
        SandboxNotFound: SANDBOX_NOT_FOUND.
    """
    if not 0 <= at_s <= _MAX_AT_S:
        raise InvalidInput(f"there is no picture at {at_s:g} s; give seconds from the start, 0 to {_MAX_AT_S:g}")
    if not (1 <= width_px <= MAX_SIDE_PX and 1 <= height_px <= MAX_SIDE_PX):
        raise InvalidInput(f"no picture has {width_px}x{height_px} pixels; give 1 to {MAX_SIDE_PX} for each side")
    name = f"{secrets.token_hex(8)}.png"
    asked = {
        "atS": at_s, "width": width_px, "height": height_px, "fps": _FPS, "readyMs": timeout_s * 500, "name": name,
        "folder": _FOLDER, "build": _BUILD, "clock": clock.page, "frameClock": clock.unscripted,
        "workerClock": clock.worker, "flags": clock.flags,
    }  # fmt: skip
    line = ("node", "--input-type=module", "-e", _LOADER, "--", _program(), _packed(json.dumps(asked).encode()))
    path = f"{_FOLDER}/{name}"
    try:
        done = await sandbox.run(line, timeout_s=timeout_s)
        for url in _refused(done.stdout):
            note(sandbox.id, "page", words=url)
        if done.exit_code != 0:
            raise _failed(done, at_s)
        (png,) = (await sandbox.read_files([path], most_bytes=_MAX_PNG_BYTES)).values()
    except NotFound:
        raise _capture_failed(
            "the picture went before it was read: something in the sandbox removes files; end that, and try again"
        ) from None
    finally:
        await _remove(sandbox, path)
    if not is_picture(png, width_px, height_px):
        raise _capture_failed(f"what came back is no picture of {width_px}x{height_px} pixels; try again")
    return Screenshot(png=png, at_s=at_s, width_px=width_px, height_px=height_px, duration_s=_duration(done.stdout))


async def _remove(sandbox: Sandbox, path: str) -> None:
    try:
        await sandbox.run(("rm", "-f", path))
    except KodaError:
        return  # it is a file in a sandbox; what was said before is what matters


def _failed(done: CommandResult, at_s: float) -> SandboxError:
    raw = done.stderr.strip()[-_SAID_CHARS:]
    said = plain(raw, _SAID_CHARS)
    if done.exit_code == _DOES_NOT_BUILD:
        problems = parse_build(raw)  # which knows colours by what begins them
        words = "; ".join(f"{one.file}:{one.line}: {one.message}" if one.file else one.message for one in problems[:3])
        return _capture_failed(f"the project does not build, so there is no page; mend it: {words or said[-800:]}")
    if done.exit_code == _NO_BROWSER:
        return _capture_failed(
            "there is no Chromium in the sandbox: build its image without --slim (koda image build), "
            "or for local sandboxes apt-get install chromium-headless-shell"
        )
    if done.exit_code == _DOES_NOT_SEEK:
        return SandboxError(
            f"the page did not show {at_s:g} s: {said[-1500:]}; mend what it says, and try again", code="SEEK_FAILED"
        )
    why = said[-1500:] or f"exit code {done.exit_code}"
    return _capture_failed(f"the browser gave no picture; mend what it says, or try again: {why}")


def _capture_failed(why: str) -> SandboxError:
    return SandboxError(why, code="CAPTURE_FAILED")


def is_picture(data: bytes, width_px: int, height_px: int) -> bool:
    """Whether bytes that come from where hostile code runs begin as such a PNG does."""
    if len(data) > _MAX_PNG_BYTES or data[:8] != _PNG or data[12:16] != b"IHDR" or len(data) < 24:
        return False
    return struct.unpack(">II", data[16:24]) == (width_px, height_px)


def _refused(text: str) -> list[str]:
    """Read what the page asked for and did not get, as far as what the inside says can be read."""
    found = _said(text, "refused")
    listed = cast("list[object]", found) if isinstance(found, list) else []
    return [plain(str(one), 200) for one in listed[:_MOST_REFUSED]]


def _said(text: str, name: str) -> object:
    try:
        return json.loads(text).get(name)
    except (ValueError, AttributeError, RecursionError):
        return None


def _duration(text: str) -> float | None:
    value = _said(text, "duration")
    return float(value) if isinstance(value, int | float) and 0 < value <= LARGEST else None


@lru_cache(maxsize=1)
def _program() -> str:
    return _packed((GUEST / "still.mjs").read_bytes())


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(data, 9)).decode()
