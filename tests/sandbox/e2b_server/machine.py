"""One machine: what E2B runs in a virtual machine runs here in namespaces of its own, with root and a user ``user``."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psutil

from koda_ray.sandbox.isolation import GUEST
from koda_ray.sandbox.node import find_node
from tests.walls import root_without

__all__ = ["Machine", "TemplateImage"]

_REPOSITORY = Path(__file__).resolve().parents[3]
_NODE = "/opt/node"
_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0
_USERS = count(1_850_000_000)


@dataclass(frozen=True)
class TemplateImage:
    """What a template is made of: a project and its installed packages; None for a template of something else.

    ``disk`` is what one was built to hold: folders ``home`` and ``opt``.
    """

    project: Path | None
    node_modules: Path | None
    disk: Path | None = None


class Machine:
    """A running machine, or a paused one.

    Args:
        folder: Its own on this machine; made by ``start`` and removed by ``end``.
        image: What its disk holds at first.
        token: What its inner server wants to see from whoever calls.
    """

    def __init__(self, folder: Path, image: TemplateImage, token: str) -> None:
        self.folder = folder
        self.token = token
        self.user = next(_USERS)
        self.paused = False
        self._image = image
        self._launcher: subprocess.Popen[bytes] | None = None
        self._first: psutil.Process | None = None

    @property
    def inner(self) -> Path:
        """The socket of the server inside: files and processes."""
        return self.folder / "run" / "envd.sock"

    @property
    def tunnel(self) -> Path:
        """The socket that leads to the machine's own loopback: a port and a line feed, then bytes."""
        return self.folder / "run" / "tunnel.sock"

    @property
    def pids(self) -> list[int]:
        """The processes that it has on this machine."""
        return [process.pid for process in self._processes()]

    def enter(self) -> list[str]:
        """Write the beginning of a command line that runs in it as root."""
        assert self._first is not None
        inside = ["--mount", "--pid", "--net", "--ipc", "--uts", "--wdns=/"]
        return ["nsenter", "--target", str(self._first.pid), *inside, "--"]

    async def start(self) -> None:
        """Lay out its disk and start it."""
        await asyncio.to_thread(self._lay_out)
        info_read, info_write = os.pipe()
        log = (self.folder / "log").open("wb")
        try:
            self._launcher = subprocess.Popen(
                self._command(info_write), pass_fds=(info_write,), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": "/usr/bin:/bin"},
            )  # fmt: skip
        finally:
            os.close(info_write)
            log.close()
        with os.fdopen(info_read) as info:
            text = await asyncio.to_thread(info.read)
        self._first = psutil.Process(json.loads(text)["child-pid"]) if text else None
        async with asyncio.timeout(_START_TIMEOUT_S):
            while not (self.folder / "run" / "ready").exists():
                if self._launcher.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-2000:])
                await asyncio.sleep(0.01)

    def pause(self) -> None:
        """Stop everything in it where it is."""
        self.paused = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
        self.paused = False

    async def end(self) -> None:
        """End everything in it and remove its disk; may be called twice."""
        launcher, self._launcher = self._launcher, None
        if launcher is not None:
            left = self._processes()
            with suppress(psutil.NoSuchProcess):
                if self._first is not None:
                    self._first.kill()
                else:
                    launcher.kill()
            await asyncio.to_thread(launcher.wait, _END_TIMEOUT_S)  # it waits for the first, whose end is that of all
            await asyncio.to_thread(psutil.wait_procs, left, _END_TIMEOUT_S)
        await asyncio.to_thread(shutil.rmtree, self.folder, True)

    def _processes(self) -> list[psutil.Process]:
        if self._first is None:
            return []
        with suppress(psutil.NoSuchProcess):
            return [self._first, *self._first.children(recursive=True)]
        return []

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def _lay_out(self) -> None:
        for name in ("run", "etc"):
            (self.folder / name).mkdir(parents=True)
        for name in ("home", "opt"):
            if self._image.disk is not None:
                shutil.copytree(self._image.disk / name, self.folder / name, symlinks=True)
            else:
                (self.folder / name).mkdir()
        if self._image.project is not None:
            ignored = shutil.ignore_patterns("node_modules", "dist", ".vite")
            shutil.copytree(self._image.project, self.folder / "home" / "project", ignore=ignored)
            (self.folder / "home" / "project" / "node_modules").mkdir()
        for path in (self.folder / "home", *(self.folder / "home").rglob("*")):
            os.chown(path, self.user, self.user, follow_symlinks=False)
        tools = self.folder / "tools"
        shutil.copytree(GUEST, tools)
        (tools / "bin" / "node").symlink_to(_NODE)
        (tools / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
        etc = self.folder / "etc"
        (etc / "passwd").write_text(
            f"root:x:0:0:root:/root:/bin/bash\nuser:x:{self.user}:{self.user}:user:/home/user:/bin/bash\n"
        )
        (etc / "group").write_text(f"root:x:0:\nuser:x:{self.user}:\n")
        (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")

    def _command(self, info_fd: int) -> list[str]:
        line = ["bwrap", "--die-with-parent", "--info-fd", str(info_fd), "--unshare-pid", "--unshare-ipc"]
        line += ["--unshare-uts", "--unshare-net", "--cap-add", "ALL"]
        line += [*root_without("dev", "proc", "tmp", "root", "home", "run"), "--dev", "/dev"]
        line += ["--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp"]
        line += [word for path in ("/root", "/home", "/run") for word in ("--perms", "0755", "--tmpfs", path)]
        for path in _closed_parents(Path(sys.executable).resolve(), _REPOSITORY):
            line += ["--perms", "0755", "--dir", str(path)]
        line += ["--ro-bind", sys.base_prefix, sys.base_prefix]
        line += ["--bind", str(self.folder / "opt"), "/opt", "--bind", str(self.folder / "home"), "/home/user"]
        if self._image.node_modules is not None:
            line += ["--ro-bind", str(self._image.node_modules), "/home/user/project/node_modules"]
        for name in ("passwd", "group", "hosts"):
            line += ["--ro-bind", str(self.folder / "etc" / name), f"/etc/{name}"]
        line += ["--ro-bind", str(find_node().host_path), _NODE]
        line += ["--ro-bind", str(self.folder / "tools"), "/usr/local", "--bind", str(self.folder / "run"), "/run"]
        for path in dict.fromkeys([str(_REPOSITORY), sys.prefix, *_own_paths()]):
            line += ["--ro-bind", path, path]
        line += ["--remount-ro", "/", "--hostname", "e2b", "--clearenv"]
        line += ["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"]
        line += ["--setenv", "PYTHONPATH", ":".join(_own_paths())]
        return [*line, "--", sys.executable, str(Path(__file__).with_name("envd.py")), self.token]


def _own_paths() -> Iterator[str]:
    """Where this run's packages lie."""
    for path in dict.fromkeys(sys.path):
        if path.startswith("/") and Path(path).is_dir() and not path.startswith("/usr/lib"):
            yield path


def _closed_parents(*paths: Path) -> list[Path]:
    """Directories below what is covered by an empty one, which bubblewrap would make for root's eyes only."""
    covered = (Path("/root"), Path("/home"), Path("/run"), Path("/tmp"))
    found = [parent for path in paths for parent in reversed(path.parents)]
    return [path for path in dict.fromkeys(found) if any(path.is_relative_to(top) and path != top for top in covered)]
