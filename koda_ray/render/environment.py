"""The fingerprint of everything outside the bundle that decides a pixel or an encoded byte.

Two machines with one fingerprint give the same video; units of two fingerprints are never joined. It is made from
versions and file identities, so that asking for it costs no browser start.
"""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path

from koda_ray.render.browser import CHROMIUM_FLAGS
from koda_ray.render.clock import clock_text
from koda_ray.render.encode import ENCODER_VERSION
from koda_ray.render.graphics import Graphics, graphics_libraries
from koda_ray.render.page import CAPTURE_VERSION
from koda_ray.render.programs import find_browser, find_program, version_of
from koda_ray.render.protocol import Environment

__all__ = ["read_environment"]

_FONT_TIMEOUT_S = 30


@cache
def read_environment(chromium_path: Path | None, graphics: Graphics) -> Environment:
    """Return what this machine renders with. Blocks for about 0.3 s on the first call.

    Args:
        chromium_path: The configured browser, if any.
        graphics: What was chosen to draw and encode with.

    Raises:
        Missing: Browser or FFmpeg is not installed.
    """
    binary = find_browser(chromium_path)
    chromium = f"{binary.kind} {version_of(str(binary.path), '--version')}"
    ffmpeg = version_of(find_program("ffmpeg"), "-version")
    libraries = graphics_libraries()
    fonts = _fonts()
    backend = "begin-frame" if binary.kind == "shell" else "screenshot"
    digest = hashlib.sha256()
    for part in (
        CAPTURE_VERSION,
        ENCODER_VERSION,
        clock_text(),
        chromium,
        backend,
        " ".join((*CHROMIUM_FLAGS, *graphics.flags)),
        libraries,
        ffmpeg,
        fonts,
        *graphics.identity,
    ):
        digest.update(part.encode() + b"\0")
    return Environment(
        chromium=chromium,
        backend=backend,
        graphics=f"{graphics}, {libraries}",
        ffmpeg=ffmpeg,
        fonts=fonts,
        fingerprint=digest.hexdigest()[:32],
    )


def _fonts() -> str:
    try:
        done = subprocess.run(
            [find_program("fc-list"), "--format", "%{file}\n"],
            capture_output=True,
            text=True,
            timeout=_FONT_TIMEOUT_S,
            check=True,
        )
    except subprocess.SubprocessError:
        return "unknown"
    files = sorted({Path(line) for line in done.stdout.splitlines()})
    listing = "\n".join(f"{path}:{path.stat().st_size}" for path in files if path.is_file())
    return hashlib.sha256(listing.encode()).hexdigest()[:16]
