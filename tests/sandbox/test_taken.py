"""What processes take, counted from outside: each byte once, wherever it is."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from koda_ray.processes import family
from koda_ray.sandbox.disk import can_mount, mount_tmpfs, unmount
from koda_ray.sandbox.taken import memory_bytes, nameless
from tests.sandbox.conftest import MB

_READY = "print('ready', flush=True); sys.stdin.read()"
_MANY = 1 << 40


@contextmanager
def running(script: str, *words: str) -> Iterator[int]:
    """A Python that has run a script and then waits."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", f"import ctypes, mmap, os, sys, threading, time\n{script}\n{_READY}", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


def test_what_processes_share_is_counted_once() -> None:
    script = """
at = mmap.mmap(-1, 64 << 20); at.write(b"x" * (64 << 20))
own = bytearray(os.urandom(1 << 20) * 32)
hears, tells = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        at[:] = at[:]
        os.write(tells, b".")
        time.sleep(600)
for _ in range(3):
    os.read(hears, 1)
"""
    with running(script) as pid:
        assert len(family([pid])) == 4
        assert memory_bytes([pid], held={}, enough=_MANY) > 3 * 64 * MB, "the cheap count is of each process"
        assert 96 * MB < memory_bytes([pid], held={}, enough=0) < 290 * MB
        for child in family([pid])[1:]:
            os.kill(child, 9)


def test_a_process_whose_first_thread_has_ended_hides_nothing() -> None:
    script = """
def hold():
    held, fd = bytearray(os.urandom(1 << 20) * 64), os.memfd_create("x")
    os.write(fd, held)
    while os.path.exists("/proc/self/status") and "VmRSS" in open("/proc/self/status").read():
        time.sleep(0.01)
    print('ready', flush=True)
    sys.stdin.read()
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"""
    with running(script) as pid:
        for enough in (0, _MANY):
            assert 64 * MB < memory_bytes([pid], held={}, enough=enough) < 200 * MB
        assert list(nameless([pid]).values()) == [64 * MB]


def test_a_file_without_a_name_is_found_held_or_mapped(tmp_path: Path) -> None:
    script = """
fds = []
for name in sys.argv[1:]:
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * (4 << 20))
    os.fsync(fd)
    fds += [fd, os.dup(fd)]
    os.unlink(name)
at = [mmap.mmap(fds[0], 2 << 20), mmap.mmap(fds[0], 2 << 20, offset=2 << 20)]
os.close(fds[0]), os.close(fds[1])
"""
    with running(script, str(tmp_path / "mapped"), str(tmp_path / "held")) as pid:
        found = nameless(family([pid]), os.stat(tmp_path).st_dev)
        assert sorted(size // MB for size in found.values() if size) == [4, 4], "pytest's own capture is empty"
        assert nameless([pid], os.stat("/proc").st_dev) == {}
        assert nameless([pid]) == {}, "they are on a disk, not in memory"


def test_a_directory_in_memory_counts_with_what_is_mapped_of_it(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("needs the right to mount")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount_tmpfs(disk, size_bytes=64 * MB, inodes=16)
    try:
        (disk / "file").write_bytes(bytes(32 * MB))
        assert memory_bytes([], disks=[disk], held={}, enough=0) == 32 * MB
        with (disk / "file").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:] = mapped[:]
            before = memory_bytes([os.getpid()], held={}, enough=0)
            assert abs(memory_bytes([os.getpid()], disks=[disk], held={}, enough=0) - before) < 4 * MB
    finally:
        unmount(disk)
