"""Run by root on the machine of an engine: lays files over those in a container's ``/proc`` that only attacks ask for.

An engine lets nothing stand in ``/proc``, but root may put something there once the container has started. Without it
the kernel refuses such a write or read as well, and tells nobody. With it the write goes into a file that nobody acts
upon, the read gets one that says so, and the kernel keeps when that was; the first process looks (``covered``).

The files are root's, on a file system of their own of a few pages, so nothing inside can fill it up, or set its times
back. Nothing of the container is run: its mounts are entered, and only what is named here is looked up in them, which
code without rights cannot have changed.
"""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["FIRST_ENVIRONMENT", "NEVER_NS", "TRIGGERS", "main"]

TRIGGERS = ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe")
"""What whoever writes there takes a machine down with, or over."""
FIRST_ENVIRONMENT = "/proc/1/environ"
"""Where the secrets of whoever started a container would be."""
NEVER_NS = 1
"""When one was last read or written that never was."""

_TEXT = "This is no environment. That it was read is written down.\n"
_HERE = "/tmp"  # of mounts that nobody else sees
_NEW_MOUNTS = 0x00020000
_PRIVATE = 0x44000  # and all below it; Source for these: linux/mount.h, linux/sched.h
_PLAIN = 0x0100000E  # without programs, devices and rights of others; each read is kept
_OPEN_TREE, _MOVE_MOUNT = 428, 429
_CLONE, _CLOSE_ON_EXEC, _EMPTY_PATH, _FROM_HERE = 1, os.O_CLOEXEC, 4, -100


def main() -> None:
    """Lay them; the arguments are the first process's number and the container's id."""
    number, container = sys.argv[1:]
    process = os.open(f"/proc/{number}", os.O_RDONLY | os.O_DIRECTORY)
    with open(os.open("cgroup", os.O_RDONLY, dir_fd=process)) as groups:
        if container not in groups.read():
            raise SystemExit(f"process {number} is none of the container's")
    mounts = os.open("ns/mnt", os.O_RDONLY, dir_fd=process)
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *args: object) -> int:
        done = int(getattr(libc, name)(*args))
        if done < 0:
            raise OSError(ctypes.get_errno(), f"{name} failed")
        return done

    def file(name: str, *, mode: int, text: str = "") -> str:
        path = f"{_HERE}/{name}"
        with open(path, "w") as made:
            made.write(text)
        os.chmod(path, mode)
        os.utime(path, ns=(NEVER_NS, NEVER_NS))
        return path

    call("unshare", _NEW_MOUNTS)
    call("mount", None, b"/", None, ctypes.c_ulong(_PRIVATE), None)
    call("mount", b"covers", _HERE.encode(), b"tmpfs", ctypes.c_ulong(_PLAIN), b"size=16k,nr_inodes=8,mode=755")
    written, environment = file("written", mode=0o222), file("environ", mode=0o444, text=_TEXT)
    trees = dict.fromkeys(TRIGGERS, written) | {FIRST_ENVIRONMENT: environment}
    opened = {
        place: call("syscall", _OPEN_TREE, _FROM_HERE, path.encode(), _CLONE | _CLOSE_ON_EXEC)
        for place, path in trees.items()
    }
    call("setns", mounts, _NEW_MOUNTS)
    for place, tree in opened.items():
        if os.path.exists(place):
            call("syscall", _MOVE_MOUNT, tree, b"", _FROM_HERE, place.encode(), _EMPTY_PATH)


if __name__ == "__main__":
    main()
