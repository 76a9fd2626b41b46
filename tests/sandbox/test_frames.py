"""What a container's owner takes from inside, where the other end may be a liar: sizes, objects and errors."""

from __future__ import annotations

import asyncio
import json
import struct

import pytest

from koda_ray.errors import InvalidPath, KodaError, QuotaExceeded, SandboxError
from koda_ray.sandbox.frames import describe, receive, receive_bytes, revive


def stream(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


def framed(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


async def test_an_object_comes_through_as_it_was() -> None:
    value = {"path": "src/\ud800.ts", "size": 3, "end": None}
    assert await receive(stream(framed(json.dumps(value).encode()))) == value


@pytest.mark.parametrize(
    "data",
    [struct.pack(">I", 2**32 - 1), framed(b"\xff\xfe"), framed(b"[1]"), framed(b"[" * 100_000), framed(b"")],
    ids=["endless", "no text", "no object", "nested", "empty"],
)
async def test_what_is_no_object_is_an_error_of_the_sandbox(data: bytes) -> None:
    with pytest.raises(SandboxError) as caught:
        await receive(stream(data))
    assert caught.value.code == "PROVIDER_ERROR"


async def test_an_end_in_the_middle_is_told_from_a_lie() -> None:
    for data in (b"", b"\0\0", framed(b'{"a": 1}')[:-1]):
        with pytest.raises(EOFError):
            await receive(stream(data))


async def test_more_bytes_than_agreed_are_not_read() -> None:
    assert await receive_bytes(stream(b"abcde"), [2, 0, 3], most=5) == [b"ab", b"", b"cde"]
    for sizes in ([6], [3, 3], [-1, 2]):
        with pytest.raises(SandboxError):
            await receive_bytes(stream(b"abcdef"), sizes, most=5)


def test_an_error_comes_through_with_its_class_code_and_context() -> None:
    for error in (
        InvalidPath("no", context={"rule": "escape"}),
        SandboxError("full", code="WRITE_FAILED", context={"reason": "disk_full", "size": 3}),
        QuotaExceeded("pids", context={"limit": "pids"}, retryable=True),
    ):
        again = revive(json.loads(json.dumps(describe(error))))
        assert type(again) is type(error)
        assert (again.message, again.code, again.context) == (error.message, error.code, error.context)
        assert again.retryable == error.retryable


@pytest.mark.parametrize(
    "value",
    [None, [], "x", {}, {"type": "Exception"}, {"type": "annotations"}, {"type": "_rebuild"}, {"type": ["x"]},
     {"type": "SandboxError", "context": {"a": {"b": 1}, "c": [1]}, "message": {"x": 1}}],
)  # fmt: skip
def test_anything_else_becomes_an_error_of_the_sandbox(value: object) -> None:
    error = revive(value)
    assert type(error) is SandboxError and isinstance(error, KodaError)
    assert error.context == {} and isinstance(error.message, str)


def test_words_from_inside_have_a_length() -> None:
    error = revive({"type": "SandboxError", "message": "x" * 100_000, "context": {"k" * 999: "v" * 99_999}})
    assert len(error.message) <= 8000
    assert all(len(key) <= 80 and len(str(word)) <= 8000 for key, word in error.context.items())
