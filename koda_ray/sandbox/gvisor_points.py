"""What gVisor's kernel tells of system calls, message by message, and which of it is worth a word.

Calls that only those make who want rights are told of where they were refused. Opens are told of where the kernel
refused them outside of what is the sandbox's own, and where somebody looked for what is private, whatever came of it.
Looking into folders is nobody's business.

Source: github.com/google/gvisor, pkg/sentry/seccheck: sinks/remote/wire/wire.go, points/common.proto, syscall.proto.
"""

from __future__ import annotations

import errno
import posixpath
import socket
import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

from koda_ray import seccomp
from koda_ray.sandbox.policy import PROJECT_ROOT

__all__ = ["GREETING", "Tried", "read_point", "trace_config"]

GREETING = b"\x08\x01"
"""What both sides say first: version 1."""

_HEADER = struct.Struct("=HHI")
_RAW, _OPEN = 6, 7  # kinds of messages
_EXIT, _ERROR = 2, 2  # the field that says how a call ended, and in it the error
_NUMBER, _FIRST_ARGUMENT, _ARGUMENTS = 4, 5, 6
_PATH, _FLAGS = 6, 7
_FOLDER = 0o200000  # O_DIRECTORY of x86_64
_REFUSED = frozenset({errno.EPERM, errno.EACCES, errno.EROFS})
_OWN = (PROJECT_ROOT, "/home/user", "/tmp", "/dev", "/proc/self", "/proc/thread-self")
_PRIVATE = ("/proc/1/environ", "/proc/1/mem", "/etc/shadow", "/root/.ssh", "/root/.aws", "/root/.netrc")
_COMPILED = "/__pycache__/"  # where Python tries to keep what it has compiled
_VARINT, _LONG, _TEXT, _SHORT = 0, 1, 2, 5


@dataclass(frozen=True)
class Tried:
    """One attempt: the call's name, or the path that was opened; or what was not heard."""

    kind: Literal["call", "path", "dropped"]
    what: str


def trace_config(endpoint: str) -> dict[str, object]:
    """Describe what shall be told, and where, as ``runsc trace create`` reads it."""
    numbers = [f"syscall/sysno/{number}/exit" for number in sorted(seccomp.left_to_kernel())]
    opens = [f"syscall/{name}/exit" for name in ("open", "openat", "creat")]
    # a little time where nobody reads; then it is dropped and counted, and nothing in the sandbox waits
    sink = {"name": "remote", "config": {"endpoint": endpoint, "retries": 6}}
    points = [{"name": name} for name in (*numbers, *opens)]
    return {"trace_session": {"name": "Default", "points": points, "sinks": [sink]}}


def read_point(message: bytes, *, private: Sequence[str] = ()) -> tuple[Tried | None, int]:
    """Read one message.

    Args:
        message: As it came.
        private: Places of this machine that nobody inside has any business with.

    Returns:
        The attempt that it tells of, and how many messages were dropped until then, ever.
    """
    try:
        size, kind, dropped = _HEADER.unpack_from(message)
        if kind not in (_RAW, _OPEN):
            return None, dropped
        fields = _fields(message[size:])
        error = _number(_fields(_bytes(fields.get(_EXIT))).get(_ERROR))
    except (struct.error, IndexError, ValueError):
        return None, 0
    return (_call(fields, error) if kind == _RAW else _open(fields, error, private)), dropped


def _call(fields: dict[int, int | bytes], error: int) -> Tried | None:
    name = seccomp.left_to_kernel().get(_number(fields.get(_NUMBER)))
    args = [_number(fields.get(_FIRST_ARGUMENT + at)) for at in range(_ARGUMENTS)]
    if name is None or error not in _REFUSED:
        return None
    if name == "socket" and args[1] & 0xF != socket.SOCK_RAW:
        return None
    return Tried("call", name)


def _open(fields: dict[int, int | bytes], error: int, private: Sequence[str]) -> Tried | None:
    named = _bytes(fields.get(_PATH)).decode("utf-8", "backslashreplace")
    if _number(fields.get(_FLAGS)) & _FOLDER or not named.startswith(("/", "..")):
        return None
    path = posixpath.normpath(named)
    looked_for = _lies_in(path, (*_PRIVATE, *private))
    outside = named.startswith("..") or not _lies_in(path, _OWN)
    refused = outside and error in _REFUSED and _COMPILED not in path
    return Tried("path", named) if looked_for or refused else None


def _lies_in(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _number(value: int | bytes | None) -> int:
    return value if isinstance(value, int) else 0


def _bytes(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _fields(data: bytes) -> dict[int, int | bytes]:
    """Read a Protocol Buffers message: of each field the last value. Source: protobuf.dev, "Encoding"."""
    return dict(_each(data))


def _each(data: bytes) -> Generator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
        elif kind in (_LONG, _SHORT):
            at += 8 if kind == _LONG else 4
        elif kind == _TEXT:
            length, at = _varint(data, at)
            yield tag >> 3, data[at : at + length]
            at += length
        else:
            raise ValueError(kind)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1
