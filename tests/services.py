"""The services that tests may need, and how to tell whether this machine has them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache

import pytest

from koda_ray.config import Settings
from koda_ray.errors import Missing
from koda_ray.render.programs import find_browser

__all__ = ["SERVICES", "need", "why_missing"]


def _program(*names: str) -> Callable[[], str | None]:
    def look() -> str | None:
        missing = [name for name in names if shutil.which(name) is None]
        return f"{', '.join(missing)} not on PATH" if missing else None

    return look


def _chromium() -> str | None:
    try:
        find_browser(Settings().chromium_path)
    except Missing as error:
        return error.message
    return None


def _bwrap() -> str | None:
    if shutil.which("bwrap") is None:
        return "bwrap not on PATH"
    command = ["bwrap", "--unshare-user", "--unshare-net", "--ro-bind", "/", "/", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"bwrap cannot make name spaces: {done.stderr.strip()}"


def _mount() -> str | None:
    with tempfile.TemporaryDirectory(prefix="mount-") as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        try:
            mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            return f"mount cannot be run: {error}"
        if mounted.returncode != 0:
            return f"no disk can be mounted, which takes root with CAP_SYS_ADMIN: {mounted.stderr.strip()}"
        subprocess.run(["umount", folder], check=True)
    return None


def _node() -> str | None:
    if shutil.which("node") is None:
        return "node not on PATH"
    vite = Settings().node_modules_path / "vite"
    return None if vite.is_dir() else f"{vite} is not there: run ./koda setup"


def _s3() -> str | None:
    missing = [name for name in ("s3fs", "moto") if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} not installed" if missing else None


SERVICES: dict[str, Callable[[], str | None]] = {
    "bwrap": _bwrap,
    "chromium": _chromium,
    "ffmpeg": _program("ffmpeg", "ffprobe"),
    "mount": _mount,
    "node": _node,
    "s3": _s3,
    "tmux": _program("tmux"),
}


@cache
def why_missing(name: str) -> str | None:
    """Return why a service is not there; None when it is."""
    if name not in SERVICES:
        raise ValueError(f"unknown service {name!r}: one of {', '.join(SERVICES)}")
    return SERVICES[name]()


def need(*names: str) -> None:
    """Skip the running test where a service is missing; fail it where KODA_TEST_REQUIRE names the service."""
    required = {name.strip() for name in os.environ.get("KODA_TEST_REQUIRE", "").split(",")}
    for name in names:
        why = why_missing(name)
        if why is None:
            continue
        if name in required or "all" in required:
            pytest.fail(f"needs {name}, which KODA_TEST_REQUIRE asks for: {why}", pytrace=False)
        pytest.skip(f"needs {name}: {why}")
