"""A Docker engine of the tests' own: data and socket in a folder of theirs, no bridge, no rules of a firewall."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from koda_ray.config import REPO_ROOT
from koda_ray.sandbox.engine import Engine
from koda_ray.sandbox.image import SLIM_PACKAGES, SUITE, import_base, make_base
from tests import leaks
from tests.small_base import make_small_base

__all__ = [
    "BASE_IMAGE",
    "SMALL_BASE_IMAGE",
    "WHOLE_BASE_IMAGE",
    "archive",
    "give_base",
    "give_small_base",
    "give_whole_base",
    "started",
    "why_no_base",
    "why_not",
]

BASE_IMAGE = f"koda-test/base:{'-'.join(SLIM_PACKAGES)}"
"""An engine that is kept from one run to the next may have one of other packages."""
SMALL_BASE_IMAGE = "koda-test/small-base:1"
WHOLE_BASE_IMAGE = "koda-test/whole-base:1"

_ARCHIVE = REPO_ROOT / ".koda" / "sandbox-image" / f"{SUITE}-{'-'.join(SLIM_PACKAGES)}.tar"
_WHOLE_ARCHIVE = _ARCHIVE.with_name(f"{SUITE}-whole.tar")
# no KVM here; sockets of the machine can be dialled, not made, and only the one in the container's folder is there
_RUNSC = ("--platform=ptrace", "--network=none", "--host-uds=open")
_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 60.0


def why_not() -> str | None:
    """Say why no engine can be started here; None where one can."""
    missing = [name for name in ("dockerd", "containerd", "runc") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not on PATH: apt-get install docker.io"
    if os.geteuid() != 0:
        return "dockerd takes root"
    return None


def why_no_base() -> str | None:
    """Say why Debian's base cannot be made here; None where it can, or was."""
    if _ARCHIVE.exists() or shutil.which("debootstrap") is not None:
        return None
    return "debootstrap not on PATH, which makes the image's base: apt-get install debootstrap"


@contextmanager
def started(folder: Path, *arguments: str, data: Path | None = None) -> Iterator[str]:
    """Start an engine with its files in a folder, which is empty again at the end.

    Args:
        folder: With a short path, since sockets lie in it.
        arguments: Further ones for ``dockerd``.
        data: Where its images and containers lie, and stay, for the next one; in the folder when None.

    Yields:
        Its address.
    """
    address = f"unix://{folder}/docker.sock"
    settings = folder / "daemon.json"
    runtimes = {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": list(_RUNSC)}} if shutil.which("runsc") else {}
    settings.write_text(json.dumps({"runtimes": runtimes}))
    line = ["dockerd", "--config-file", str(settings), "--host", address, "--pidfile", str(folder / "pid")]
    line += ["--data-root", str(data or folder / "data"), "--exec-root", str(folder / "exec")]
    line += ["--bridge=none", "--iptables=false", "--ip6tables=false", *arguments]
    environment = {**os.environ, "TMPDIR": str(_temporary(folder))}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            line, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    leaks.adopt(process.pid)
    leaks.keep(folder)
    try:
        _wait(process, address, folder / "log")
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _clear(folder)


def archive() -> Path:
    """Debian's base as a tar archive: made by debootstrap once, and kept beside the packages of set-up."""
    _make_once(_ARCHIVE, lambda target: make_base(target, packages=SLIM_PACKAGES))
    return _ARCHIVE


def give_base(engine: Engine) -> None:
    """Give an engine Debian's base of its images."""
    import_base(engine, archive(), name=BASE_IMAGE)


def give_small_base(engine: Engine) -> None:
    """Give an engine a base that is made of this machine's programs, which takes seconds."""
    target = REPO_ROOT / ".koda" / "sandbox-image" / f"small-{os.getpid()}.tar"
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        make_small_base(target)
        import_base(engine, target, name=SMALL_BASE_IMAGE)
    finally:
        target.unlink(missing_ok=True)


def give_whole_base(engine: Engine) -> None:
    """Give an engine the base of the image as it is shipped; made once, which takes minutes."""
    _make_once(_WHOLE_ARCHIVE, make_base)
    import_base(engine, _WHOLE_ARCHIVE, name=WHOLE_BASE_IMAGE)


def _make_once(target: Path, make: Callable[[Path], None]) -> None:
    """Make a base that is not there; who comes meanwhile waits for it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            make(target)


def _temporary(folder: Path) -> Path:
    """Make a folder for what the engine's programs leave, such as the stacks of a containerd that was replaced.

    A container of gVisor goes through it as nobody, so others may walk there.
    """
    made = folder / "tmp"
    made.mkdir(exist_ok=True)
    for path in (made, *made.parents):
        if not path.is_relative_to(tempfile.gettempdir()):
            break
        path.chmod(path.stat().st_mode | 0o011)
    return made


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            probe.connect(address.removeprefix("unix://"))
            probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            if b" 200 " in probe.recv(64):
                return
        time.sleep(0.05)
    raise RuntimeError(f"dockerd did not start: {log.read_text()[-2000:]}")


def _clear(folder: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in sorted((path for path in mounted if path.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", path], check=False)
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
