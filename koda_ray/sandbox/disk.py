"""A project's disk: a tmpfs of fixed size where this process may mount one, else a plain directory.

The tmpfs gives a hard limit on bytes and files that no racing writer passes, costs under a millisecond, and removing
a million files is one unmount. It is charged to the sandbox's memory. It outlives the process that mounted it, so a
session that moves to another process finds its files; it does not outlive the machine: that is what checkpoints do.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from koda_ray.errors import SandboxError

__all__ = ["can_mount", "mount_tmpfs", "remove_tree", "sweep_probes", "unmount"]

_PROBE = ".probe-"
_MS_NOSUID = 2
_MS_NODEV = 4
_MNT_DETACH = 2
_UMOUNT_NOFOLLOW = 8

_libc = ctypes.CDLL(None, use_errno=True)


def mount_tmpfs(path: Path, *, size_bytes: int, inodes: int) -> None:
    """Mount an empty tmpfs on a directory.

    Raises:
        OSError: As of mount(2); EPERM without the right to mount.
    """
    options = f"size={size_bytes},nr_inodes={inodes},mode=0711".encode()
    if _libc.mount(b"koda-sandbox", os.fsencode(path), b"tmpfs", _MS_NOSUID | _MS_NODEV, options) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(path))


def unmount(path: Path) -> None:
    """Take a mount away at once, whoever still holds it; nothing happens where none is."""
    while os.path.ismount(path):
        if _libc.umount2(os.fsencode(path), _MNT_DETACH | _UMOUNT_NOFOLLOW) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))


@lru_cache(maxsize=8)
def can_mount(root: Path) -> bool:
    """Whether a tmpfs can be mounted below a directory, tried once for real."""
    if os.geteuid() != 0:
        return False
    root.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=f"{_PROBE}{os.getpid()}-", dir=root))
    try:
        mount_tmpfs(path, size_bytes=65536, inodes=16)
    except OSError:
        return False
    else:
        unmount(path)
        return True
    finally:
        path.rmdir()


def sweep_probes(root: Path) -> None:
    """Remove what processes that were killed while they tried `can_mount` have left."""
    for path in root.glob(f"{_PROBE}*-*"):
        pid = path.name.removeprefix(_PROBE).partition("-")[0]
        if not Path("/proc", pid).exists():
            with suppress(OSError):  # somebody else was faster
                unmount(path)
                path.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a directory that hostile code has filled: any depth, any number, no link followed.

    Raises:
        SandboxError: PROVIDER_ERROR with what could not be removed.
    """
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        # rmtree recurses and obeys modes; a tree that is 100,000 deep or has mode 000 needs the real thing
        subprocess.run(["chmod", "-R", "u+rwX", str(path)], check=False, capture_output=True)
        done = subprocess.run(
            ["rm", "-rf", "--one-file-system", str(path)], check=False, capture_output=True, text=True
        )
        if path.exists():
            raise SandboxError(
                f"{path} could not be removed: {done.stderr.strip()[-300:]}; see who still "
                f"uses it (`fuser -vm {path}`) and whether this user may remove it, end or remove that, and try again"
            ) from None
