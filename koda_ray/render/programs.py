"""The programs that rendering needs: where they are, which version, and how to get what is missing.

FFmpeg is the one in the package imageio-ffmpeg, which is linked into one file. A system's is linked to 200 libraries
(Debian's), and starting it costs more than encoding a second of a small video: of the 150 ms of a processor that 15
frames of 640x360 take, 100 are its start, where this one's are 17. And all machines that were set up from one lock have
the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from koda_ray.errors import Missing

__all__ = [
    "BrowserBinary",
    "BrowserKind",
    "check_programs",
    "find_browser",
    "find_program",
    "misnamed",
    "name_of",
    "version_of",
]

BrowserKind = Literal["shell", "full"]

_PACKAGES = {
    "ffmpeg": "ffmpeg",
    "ffprobe": "ffmpeg",
    "bwrap": "bubblewrap",
    "setpriv": "util-linux",
    "fc-list": "fontconfig",
}
# the real binaries behind Debian's launcher scripts come first: a script would need its shell inside the isolation
_SHELL_PATHS = ("/usr/lib/chromium/chromium-headless-shell",)
_FULL_PATHS = ("/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser", "/opt/google/chrome/chrome")
_SHELL_NAMES = ("chromium-headless-shell", "chrome-headless-shell")
# Ubuntu's chromium-browser is not among them: it is a script that calls a snap
_FULL_NAMES = ("chromium", "google-chrome-stable", "google-chrome")
_VERSION_TIMEOUT_S = 20


@dataclass(frozen=True)
class BrowserBinary:
    """A Chromium: the headless shell, which takes frames one by one, or the full browser."""

    path: Path
    kind: BrowserKind


def check_programs(chromium_path: Path | None = None) -> None:
    """Check that everything a video takes is installed here, before work is begun that would fail for it.

    Args:
        chromium_path: The configured browser, if any.

    Raises:
        Missing: Something is not; the message names its Debian package.
    """
    find_browser(chromium_path)
    for name in ("ffmpeg", "ffprobe", "bwrap"):
        find_program(name)


def name_of(program: str) -> str:
    """Return what a program is sought by: its name, or the path of an FFmpeg that came with a package.

    ``IMAGEIO_FFMPEG_EXE`` names another, by its path or as one on PATH; where the package has none for this machine, or
    it does not run, PATH's is taken. The first call starts it.
    """
    if program != "ffmpeg":
        return program
    import imageio_ffmpeg

    try:
        return imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError:  # there is none on PATH either
        return program


def misnamed(program: str) -> tuple[str, str] | None:
    """Return what is wrong with the setting that names a program which is not there, and the way out.

    None where no setting names it.
    """
    sought = name_of(program)
    if sought == program:
        return None
    remedy = "name an FFmpeg, ffmpeg for the one on PATH, or leave it out for the one that came along"
    return f"IMAGEIO_FFMPEG_EXE={sought} is not an executable", remedy


def find_program(name: str) -> str:
    """Return a program's path.

    Raises:
        Missing: It is not there; the message names the Debian package.
    """
    path = shutil.which(name_of(name))
    if path is None and (wrong := misnamed(name)):
        raise Missing(": ".join(wrong))
    if path is None:
        package = _PACKAGES.get(name, name)
        raise Missing(
            f"{name} is not installed: apt-get install {package}", context={"program": name, "package": package}
        )
    return path


def find_browser(configured: Path | None = None) -> BrowserBinary:
    """Return the best Chromium of this machine: a headless shell, the system's or Playwright's, else the full browser.

    A snap's is none: it cannot run inside another isolation.

    Args:
        configured: Take this one (``KODA_CHROMIUM_PATH``); its name says which kind it is.

    Raises:
        Missing: There is none; the message names the Debian package.
    """
    if configured is not None:
        if not os.access(configured, os.X_OK):
            raise Missing(
                f"KODA_CHROMIUM_PATH={configured} is not an executable: name a Chromium, or leave it out for the one "
                "that is found"
            )
        return BrowserBinary(configured, "shell" if "headless" in configured.name else "full")
    shells = (*_SHELL_PATHS, *map(shutil.which, _SHELL_NAMES), *_downloaded())
    whole = (*_FULL_PATHS, *map(shutil.which, _FULL_NAMES))
    for path in map(Path, filter(None, (*shells, *whole))):
        if os.access(path, os.X_OK) and not _is_snap(path):
            return BrowserBinary(path, "shell" if str(path) in shells else "full")
    raise Missing(
        "no Chromium is installed: apt-get install chromium-headless-shell (or chromium), "
        "or with an open network: playwright install chromium-headless-shell",
        context={"program": "chromium", "package": "chromium-headless-shell"},
    )


def _is_snap(path: Path) -> bool:
    real = path.resolve()
    return real.name == "snap" or real.is_relative_to("/snap")


def _downloaded() -> list[str]:
    root = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    found = [
        *root.glob("chromium_headless_shell-*/*/*headless*shell"),
        *root.glob("chromium_headless_shell-*/*/headless_shell"),
    ]
    return sorted(map(str, found), reverse=True)


@cache
def version_of(program: str, *arguments: str) -> str:
    """Return the first line that a program prints about itself.

    Raises:
        Missing: It does not run.
    """
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"{program} does not run: {error}", context={"program": program}) from error
    return (done.stdout or done.stderr).strip().partition("\n")[0].strip()
