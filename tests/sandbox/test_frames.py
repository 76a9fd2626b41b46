"""What a container's owner takes from inside, where the other end may be a liar: sizes and objects."""

from __future__ import annotations

import asyncio
import json
import struct

import pytest

from koda_ray.errors import SandboxError
from koda_ray.sandbox.frames import receive_bytes, receive_object


def stream(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


def framed(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


async def test_an_object_comes_through_as_it_was() -> None:
    value = {"path": "src/\ud800.ts", "size": 3, "end": None}
    assert await receive_object(stream(framed(json.dumps(value).encode()))) == value


@pytest.mark.parametrize(
    "data",
    [struct.pack(">I", 2**32 - 1), framed(b"\xff\xfe"), framed(b"[1]"), framed(b"[" * 100_000), framed(b"")],
    ids=["endless", "no text", "no object", "nested", "empty"],
)
async def test_what_is_no_object_is_an_error_of_the_sandbox(data: bytes) -> None:
    with pytest.raises(SandboxError) as caught:
        await receive_object(stream(data))
    assert caught.value.code == "PROVIDER_ERROR"


async def test_an_end_in_the_middle_is_told_from_a_lie() -> None:
    for data in (b"", b"\0\0", framed(b'{"a": 1}')[:-1]):
        with pytest.raises(EOFError):
            await receive_object(stream(data))


async def test_more_bytes_than_agreed_are_not_read() -> None:
    assert await receive_bytes(stream(b"abcde"), [2, 0, 3], most=5) == [b"ab", b"", b"cde"]
    for sizes in ([6], [3, 3], [-1, 2]):
        with pytest.raises(SandboxError):
            await receive_bytes(stream(b"abcdef"), sizes, most=5)
