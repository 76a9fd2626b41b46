"""What gVisor's kernel tells of calls: messages as a real one sends them, and nonsense."""

from __future__ import annotations

import errno
import platform
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.sandbox.gvisor_points import Tried, read_point

_X86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
_COMPILED = "/usr/lib/python3/__pycache__/base64.cpython-311.pyc.140410930054624"
_AT = b" \x9c\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # AT_FDCWD


def _sent(kind: int, payload: bytes, *, dropped: int = 0) -> bytes:
    return struct.pack("=HHI", 8, kind, dropped) + payload


def _opened(path: str, *, error: int = 0, flags: int = 0) -> bytes:
    name = path.encode()
    ended = b"\x12\x02" + (b"\x10" + bytes([error]) if error else b"\x08\x03")
    size = len(name).to_bytes(1, "little")
    return _sent(7, ended + b"\x18\x81\x02" + _AT + b"2" + size + name + b"8" + _varint(flags) + b"@\xb6\x03")


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def test_an_open_that_was_refused_outside_of_the_sandboxs_own_is_told_of() -> None:
    # as it was sent
    message = _sent(7, b"\x12\x02\x10\r\x18\x81\x02" + _AT + b"2\x13/proc/sysrq-trigger8\xc1\x04@\xb6\x03", dropped=3)
    assert read_point(message) == (Tried("path", "/proc/sysrq-trigger"), 3)
    for path in ("/etc/cron.d/evil", "../../../../usr/evil", "/opt/koda/../koda/evil"):
        assert read_point(_opened(path, error=errno.EROFS, flags=0o101)) == (Tried("path", path), 0)
        assert read_point(_opened(path))[0] is None
        assert read_point(_opened(path, error=errno.ENOENT))[0] is None
    for own in ("src/closed", "/home/user/project/src/closed", "/tmp/x", "/proc/self/setgroups", _COMPILED):
        assert read_point(_opened(own, error=errno.EACCES))[0] is None


def test_who_looks_for_what_is_private_is_told_of_whatever_came_of_it() -> None:
    for path in ("/proc/1/environ", "/etc/shadow", "/srv/koda/koda.db", "/etc/../srv/koda/koda.db"):
        for error in (0, errno.ENOENT, errno.EACCES):
            assert read_point(_opened(path, error=error), private=("/srv/koda",))[0] == Tried("path", path)
    assert read_point(_opened("/srv/kodas", error=errno.ENOENT), private=("/srv/koda",))[0] is None
    folder = _opened("/root/.ssh", error=errno.EACCES, flags=0o200000)
    assert read_point(folder)[0] is None, "to look what is there is nobody's business"


@_X86_64
def test_a_call_that_needs_rights_is_told_of_where_it_was_refused() -> None:
    def called(number: int, *, kind: int, error: int) -> bytes:
        ended = b"\x12\x02" + (b"\x10" + bytes([error]) if error else b"\x08\x08")
        return _sent(6, ended + b" " + _varint(number) + b"(\x02" + b"0" + _varint(kind))

    assert read_point(called(165, kind=0, error=errno.EPERM))[0] == Tried("call", "mount")
    assert read_point(called(105, kind=0, error=errno.EPERM))[0] == Tried("call", "setuid")
    assert read_point(called(41, kind=3, error=errno.EPERM))[0] == Tried("call", "socket")
    assert read_point(called(41, kind=0x80001, error=errno.EACCES))[0] is None, "no raw socket"
    assert read_point(called(105, kind=0, error=0))[0] is None
    assert read_point(called(2, kind=0, error=errno.EPERM))[0] is None, "nobody asked for it"
    # as it was sent
    assert read_point(_sent(6, b"\x12\x02\x08\x08 )(\x010\x81\x80 H\x01")) == (None, 0)


@given(st.integers(0, 8), st.binary(max_size=200))
def test_nonsense_says_nothing(kind: int, payload: bytes) -> None:
    told, dropped = read_point(_sent(kind, payload))
    assert told is None or (told.what and kind in (6, 7))
    assert dropped == 0
    read_point(payload)
