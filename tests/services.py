"""The services that tests may need, and how to tell whether this machine has them."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.errors import Missing
from koda_ray.render.graphics import software_graphics
from koda_ray.render.interposing import find_interposer
from koda_ray.render.isolation import trial_arguments
from koda_ray.render.programs import find_browser
from tests import pgbouncer, postgres, redis_server, seaweed, sqld, virtual

__all__ = ["HEADLESS_SHELL", "SERVICES", "demand", "need", "why_missing"]

HEADLESS_SHELL = Path("/usr/lib/chromium/chromium-headless-shell")
"""Debian's, the program itself."""


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


def _interposer() -> str | None:
    """Compile it and take a picture through it, as rendering does."""
    try:
        binary = find_browser(Settings().chromium_path).path
        found = asyncio.run(find_interposer(binary, software_graphics()))
    except Missing as error:
        return error.message
    return None if found.library else found.why


def _bwrap() -> str | None:
    if shutil.which("bwrap") is None:
        return "bwrap not on PATH"
    command = ["bwrap", *trial_arguments(), "true"]
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


def _netns() -> str | None:
    try:
        done = subprocess.run(
            ["unshare", "--net", "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"unshare cannot be run: {error}"
    return None if done.returncode == 0 else f"no network name space, which takes root and ip: {done.stderr.strip()}"


def _iptables() -> str | None:
    if (why := _netns()) is not None:
        return why
    rule = ["iptables", "-I", "INPUT", "-p", "tcp", "--dport", "1", "-j", "DROP"]
    try:
        done = subprocess.run(["unshare", "--net", *rule], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"unshare cannot be run: {error}"
    return None if done.returncode == 0 else f"no packet can be dropped: {done.stderr.strip()}"


def _npm() -> str | None:
    found = shutil.which("npm")
    # a sandbox sees /usr, and a stand-in of its own for what is elsewhere
    return None if found is not None and found.startswith("/usr/") else f"npm is not below /usr: {found}"


def _docker() -> str | None:
    if importlib.util.find_spec("docker") is None:
        return "the Docker SDK is not installed"
    from tests import dockerd

    return dockerd.why_not()


def _sshd() -> str | None:
    """A server, which Debian keeps off PATH, and the programs that Ray's launcher calls."""
    if shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        return "sshd not there: apt-get install openssh-server"
    return _program("ssh", "ssh-keygen", "rsync")()


def _debootstrap() -> str | None:
    from tests import dockerd

    return dockerd.why_no_base()


def _headless_shell() -> str | None:
    return (
        None if HEADLESS_SHELL.exists() else f"Debian's Chromium, to put into an image: {HEADLESS_SHELL} is not there"
    )


def _node() -> str | None:
    if shutil.which("node") is None:
        return "node not on PATH"
    vite = Settings().node_modules_path / "vite"
    return None if vite.is_dir() else f"{vite} is not there: run ./koda setup"


def _s3() -> str | None:
    missing = [name for name in ("s3fs", "moto") if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} not installed" if missing else None


def _e2b() -> str | None:
    """The real SDK, and machines for its server: name spaces with a root and users of their own."""
    if importlib.util.find_spec("e2b") is None:
        return "e2b not installed"
    if os.geteuid() != 0:
        return "the machines of the server that speaks E2B's protocols take root"
    return _program("bwrap", "unshare", "setpriv", "prlimit", "bash")() or _bwrap() or _node()


def _package(name: str, extra: str) -> Callable[[], str | None]:
    def look() -> str | None:
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        return None if found is not None else f"{name} is not installed: it comes with the extra {extra}"

    return look


def _web() -> str | None:
    index = Settings().web_path / "index.html"
    return None if index.is_file() else f"{index} is not there: ./koda setup builds the page"


SERVICES: dict[str, Callable[[], str | None]] = {
    "bwrap": _bwrap,
    "chromium": _chromium,
    "e2b": _e2b,
    "gemini": _package("google.genai", "gemini"),
    "openai": _package("openai", "openai"),
    "curl": _program("curl"),
    "debootstrap": _debootstrap,
    "docker": _docker,
    "docker_compose": _program("docker-compose"),
    "ffmpeg": _program("ffmpeg", "ffprobe"),
    "gvisor": _program("runsc"),
    "headless_shell": _headless_shell,
    "interposer": _interposer,
    "iptables": _iptables,
    "jq": _program("jq"),
    "kubernetes": _package("kubernetes_validate", "kubernetes"),
    "libsql": sqld.why_missing,
    "mount": _mount,
    "netns": _netns,
    "node": _node,
    "npm": _npm,
    "openssl": _program("openssl"),
    "otlp": _package("opentelemetry.exporter.otlp.proto.http.trace_exporter", "tracing"),
    "perl": _program("perl"),
    "prometheus": _program("prometheus", "promtool"),
    "pgbouncer": pgbouncer.why_missing,
    "postgres": postgres.why_missing,
    "redis": redis_server.why_missing,
    "s3": _s3,
    "seaweedfs": seaweed.why_missing,
    "sshd": _sshd,
    "tmux": _program("tmux"),
    "virtual_machine": virtual.why_not,
    "web": _web,
}


@cache
def why_missing(name: str) -> str | None:
    """Return why a service is not there; None when it is."""
    if name not in SERVICES:
        raise ValueError(f"unknown service {name!r}: one of {', '.join(SERVICES)}")
    return SERVICES[name]()


def demand(*names: str) -> None:
    """Fail where a service is missing that KODA_TEST_REQUIRE names."""
    required = {name.strip() for name in os.environ.get("KODA_TEST_REQUIRE", "").split(",")}
    for name in names:
        if (name in required or "all" in required) and (why := why_missing(name)) is not None:
            pytest.fail(f"needs {name}, which KODA_TEST_REQUIRE asks for: {why}", pytrace=False)


def need(*names: str) -> None:
    """Skip the running test where a service is missing; fail it where KODA_TEST_REQUIRE names the service."""
    demand(*names)
    for name in names:
        why = why_missing(name)
        if why is None:
            continue
        pytest.skip(f"needs {name}: {why}")
