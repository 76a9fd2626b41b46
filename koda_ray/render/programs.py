"""The programs that rendering needs: where they are, which version, and how to get what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from koda_ray.errors import Missing

__all__ = ["BrowserBinary", "BrowserKind", "find_browser", "find_program", "version_of"]

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
_FULL_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_VERSION_TIMEOUT_S = 20


@dataclass(frozen=True)
class BrowserBinary:
    """A Chromium: the headless shell, which takes frames one by one, or the full browser."""

    path: Path
    kind: BrowserKind


def find_program(name: str) -> str:
    """Return a program's path.

    Raises:
        Missing: It is not on PATH; the message names the Debian package.
    """
    path = shutil.which(name)
    if path is None:
        package = _PACKAGES.get(name, name)
        raise Missing(
            f"{name} is not installed: apt-get install {package}", context={"program": name, "package": package}
        )
    return path


def find_browser(configured: Path | None = None) -> BrowserBinary:
    """Return the best Chromium of this machine: the headless shell, else the full browser, else Playwright's own.

    Args:
        configured: Take this one (``KODA_CHROMIUM_PATH``); its name says which kind it is.

    Raises:
        Missing: There is none; the message names the Debian package.
    """
    if configured is not None:
        if not os.access(configured, os.X_OK):
            raise Missing(f"KODA_CHROMIUM_PATH={configured} is not an executable: install chromium-headless-shell")
        return BrowserBinary(configured, "shell" if "headless" in configured.name else "full")
    candidates: tuple[tuple[BrowserKind, tuple[str, ...], tuple[str, ...]], ...] = (
        ("shell", _SHELL_PATHS, _SHELL_NAMES),
        ("full", _FULL_PATHS, _FULL_NAMES),
    )
    for kind, paths, names in candidates:
        for path in (*paths, *filter(None, map(shutil.which, names))):
            if os.access(path, os.X_OK):
                return BrowserBinary(Path(path), kind)
    for path in _downloaded():
        return BrowserBinary(path, "shell")
    raise Missing(
        "no Chromium is installed: apt-get install chromium-headless-shell (or chromium), "
        "or with an open network: playwright install chromium-headless-shell",
        context={"program": "chromium", "package": "chromium-headless-shell"},
    )


def _downloaded() -> list[Path]:
    root = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    found = [
        *root.glob("chromium_headless_shell-*/*/*headless*shell"),
        *root.glob("chromium_headless_shell-*/*/headless_shell"),
    ]
    return sorted((path for path in found if os.access(path, os.X_OK)), reverse=True)


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
