"""Opens what lies beneath a directory that hostile code writes to, without a moment to slip a symbolic link in.

A path that was checked and then opened by name can change in between. So every open here is one system call that the
kernel confines (``openat2`` with RESOLVE_BENEATH): links are followed, but not out. Where the kernel has no ``openat2``
(before 5.6, gVisor) the path is walked one name at a time with O_NOFOLLOW, and links are refused altogether.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["Escapes", "open_beneath", "opened_beneath", "path_of"]

_SYS_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_RESOLVE = _RESOLVE_NO_XDEV | _RESOLVE_NO_MAGICLINKS | _RESOLVE_BENEATH
_ATTEMPTS = 64  # EAGAIN: a rename or mount went on somewhere while the kernel resolved

_libc = ctypes.CDLL(None, use_errno=True)


class Escapes(OSError):
    """The path leads out of the directory it should stay in."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root_fd: int, path: str, flags: int) -> int:
    """Open a path that must resolve beneath a directory.

    Args:
        root_fd: The directory, opened (O_PATH is enough).
        path: Relative, already checked by ``policy``; ``"."`` opens the directory itself.
        flags: As of ``os.open``; O_CLOEXEC is added. Nothing is created here.

    Returns:
        A file descriptor, the caller's to close.

    Raises:
        Escapes: A symbolic link, or a mount, leads out.
        OSError: As of ``os.open``.
    """
    flags |= os.O_CLOEXEC
    how = _OpenHow(flags, 0, _RESOLVE)
    for _ in range(_ATTEMPTS):
        fd: int = _libc.syscall(_SYS_OPENAT2, root_fd, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code == errno.EXDEV:
            raise Escapes(code, "leads out of the project", path)
        if code in (errno.ENOSYS, errno.EPERM) and not _has_openat2():
            return _walk(root_fd, path, flags)
        if code not in (errno.EAGAIN, errno.EINTR):
            raise OSError(code, os.strerror(code), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


@contextmanager
def opened_beneath(root_fd: int, path: str, flags: int) -> Generator[int]:
    """Open as ``open_beneath`` does, and close at the end of the block."""
    fd = open_beneath(root_fd, path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def path_of(fd: int, root_fd: int) -> str | None:
    """Say where an open file really lies, relative to the root; None when it lies elsewhere or was removed."""
    root = os.readlink(f"/proc/self/fd/{root_fd}")
    real = os.readlink(f"/proc/self/fd/{fd}")
    if real == root:
        return "."
    return real[len(root) + 1 :] if real.startswith(f"{root}/") else None


def _has_openat2() -> bool:
    fd = os.open("/", os.O_PATH | os.O_CLOEXEC)
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH)
    try:
        opened: int = _libc.syscall(_SYS_OPENAT2, fd, b".", ctypes.byref(how), ctypes.sizeof(how))
    finally:
        os.close(fd)
    if opened < 0:
        return False
    os.close(opened)
    return True


def _walk(root_fd: int, path: str, flags: int) -> int:
    device = os.fstat(root_fd).st_dev
    names = path.split("/")
    held = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root_fd)
    try:
        for name in names[:-1]:
            below = _open_plain(held, name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            os.close(held)
            held = below
        fd = _open_plain(held, names[-1], flags)
    finally:
        os.close(held)
    if os.fstat(fd).st_dev != device:
        os.close(fd)
        raise Escapes(errno.EXDEV, "leads out of the project", path)
    return fd


def _open_plain(dir_fd: int, name: str, flags: int) -> int:
    if name == "..":
        raise Escapes(errno.EXDEV, "leads out of the project", name)
    try:
        fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, dir_fd):
            raise Escapes(errno.EXDEV, "leads through a symbolic link", name) from error
        raise
    if (
        flags & os.O_PATH
        and not flags & os.O_DIRECTORY
        and os.readlink in os.supports_dir_fd
        and _is_link(name, dir_fd)
    ):
        os.close(fd)
        raise Escapes(errno.EXDEV, "leads through a symbolic link", name)
    return fd


def _is_link(name: str, dir_fd: int) -> bool:
    try:
        os.readlink(name, dir_fd=dir_fd)
    except OSError:
        return False
    return True
