"""A virtual machine for one command: this machine's files under Debian's kernel, with control groups of version 2.

For what a kernel has for all that runs on it, or for nobody: a machine whose controllers are in version 1 lends version
2 none. The processors are emulated, which needs no right and takes ten times as long: a machine that is virtual itself
seldom lends its own. The files are seen read-only, and what is written is gone with the machine.
"""

from __future__ import annotations

import lzma
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from koda_ray.config import REPO_ROOT

__all__ = ["run", "why_not"]

_PROGRAM = "qemu-system-x86_64"
_MODULES = (
    "virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "netfs", "fscache",
    "9pnet", "9pnet_virtio", "9p", "overlay",
)  # fmt: skip
_WAY_OUT = "apt-get install qemu-system-x86 linux-image-amd64"
_ENDED = re.compile(r"^ended (\d+)\r?$", re.MULTILINE)
_MEMORY_MB = 4096


def why_not() -> str | None:
    """Say why there can be none here; None where there can."""
    missing = [name for name in (_PROGRAM, "gcc") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not on PATH: {_WAY_OUT}"
    if _kernel() is None:
        return f"no kernel in /boot with modules of 9p and overlay: {_WAY_OUT}"
    if REPO_ROOT.is_relative_to("/tmp"):
        return "it has a /tmp of its own, and the repository is in this one"
    return None


def run(line: Sequence[str], *, folder: Path, environment: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """Run a command as root in the repository.

    Args:
        line: The command.
        folder: Where the machine's own files are made.
        environment: The command's, whole.
        timeout_s: When the machine is ended.

    Returns:
        Its exit code, and what came out of the console.

    Raises:
        subprocess.TimeoutExpired: It has not ended.
        RuntimeError: It never began, or the machine ended before it did.
    """
    kernel = _kernel()
    assert kernel is not None  # as why_not says
    begun = shlex.join(["env", "-i", *(f"{name}={text}" for name, text in environment.items()), *line])
    script = f"ip link set lo up; cd {shlex.quote(str(REPO_ROOT))}; {begun}; echo ended $?"
    initrd = folder / "initrd"
    initrd.write_bytes(b"".join(_archive(_first_files(folder, kernel, script))))
    machine = [
        _PROGRAM, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(_MEMORY_MB),
        "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio",
        "-kernel", f"/boot/vmlinuz-{kernel}", "-initrd", str(initrd), "-append", "console=ttyS0 quiet panic=-1",
        "-virtfs", "local,path=/,mount_tag=around,security_model=none,readonly=on,multidevs=remap",
    ]  # fmt: skip
    done = subprocess.run(
        machine,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=timeout_s,
    )
    ended = _ENDED.search(done.stdout)
    if ended is None:
        raise RuntimeError(f"the virtual machine ended too early: {done.stderr[-1000:]}{done.stdout[-4000:]}")
    return int(ended[1]), done.stdout


def _kernel() -> str | None:
    """Find the newest kernel that has what it takes, by its release."""
    found = (path.name.removeprefix("vmlinuz-") for path in sorted(Path("/boot").glob("vmlinuz-*"), reverse=True))
    return next((name for name in found if {"9p", "overlay"} <= _modules(name).keys()), None)


def _modules(kernel: str) -> dict[str, Path]:
    files = Path("/lib/modules", kernel, "kernel").rglob("*.ko*")
    return {path.name.partition(".")[0]: path for path in files if path.name.partition(".")[0] in _MODULES}


def _first_files(folder: Path, kernel: str, script: str) -> Iterator[tuple[str, int, bytes]]:
    init = folder / "init"
    subprocess.run(["gcc", "-static", "-O1", "-o", init, Path(__file__).with_name("virtual_init.c")], check=True)
    yield "init", stat.S_IFREG | 0o755, init.read_bytes()
    yield "dev", stat.S_IFDIR | 0o755, b""
    yield "script", stat.S_IFREG | 0o644, script.encode()
    modules = _modules(kernel)
    there = [name for name in _MODULES if name in modules]  # what is not, is in the kernel itself
    for name in there:
        data = modules[name].read_bytes()
        yield name, stat.S_IFREG | 0o644, lzma.decompress(data) if modules[name].suffix == ".xz" else data
    yield "modules", stat.S_IFREG | 0o644, "".join(f"/{name}\n" for name in there).encode()


def _archive(files: Iterable[tuple[str, int, bytes]]) -> Iterator[bytes]:
    """Write files as the kernel reads those that it begins with.

    Source: Linux, Documentation/driver-api/early-userspace/buffer-format.rst.
    """
    for number, (name, mode, data) in enumerate((*files, ("TRAILER!!!", 0, b"")), 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
        yield head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
