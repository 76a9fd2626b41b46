"""What is said between a sandbox's first process and its owner: a JSON object with its length, then plain bytes.

Both ends are ours, but one of them lives among hostile code. So every length is bounded, an object of an unexpected
form is an error of the sandbox. How an error itself is told stands in ``retold``.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from koda_ray.errors import SandboxError

__all__ = ["HELLO_BYTES", "Message", "Writer", "receive_bytes", "receive_object", "relay", "send"]

HELLO_BYTES = 64
"""The length of the secret that whoever dials says first, in hexadecimal digits."""

Message = dict[str, object]

_MAX_JSON_BYTES = 32 * 1024 * 1024
_PIECE_BYTES = 128 * 1024
_LENGTH = struct.Struct(">I")
_ANEW = "make another sandbox and restore the last checkpoint into it"


class Writer(Protocol):
    """Where messages go: a connection, or what stands for one."""

    def write(self, data: bytes) -> object:
        """Take bytes."""
        ...

    async def drain(self) -> None:
        """Wait until they are on their way."""
        ...


async def send(writer: Writer, value: Mapping[str, object], blobs: Sequence[bytes] = ()) -> None:
    """Send an object and, after it, bytes whose sizes it tells."""
    text = json.dumps(value).encode()
    writer.write(_LENGTH.pack(len(text)) + text)
    for blob in blobs:
        for start in range(0, len(blob), _PIECE_BYTES):
            writer.write(blob[start : start + _PIECE_BYTES])
            await writer.drain()
    await writer.drain()


async def receive_object(reader: asyncio.StreamReader) -> Message:
    """Read one object.

    Raises:
        EOFError: The other end is gone (``asyncio.IncompleteReadError``).
        SandboxError: PROVIDER_ERROR, what came is no object of ours.
    """
    (size,) = cast("tuple[int]", _LENGTH.unpack(await reader.readexactly(_LENGTH.size)))
    if size > _MAX_JSON_BYTES:
        raise SandboxError(f"a message from the sandbox has {size} bytes, more than {_MAX_JSON_BYTES}; {_ANEW}")
    try:
        value = json.loads(await reader.readexactly(size))
    except (ValueError, RecursionError):
        raise SandboxError(f"a message from the sandbox is not JSON; {_ANEW}") from None
    if not isinstance(value, dict):
        raise SandboxError(f"a message from the sandbox is not an object but {type(value).__name__}; {_ANEW}")
    return cast("Message", value)


async def receive_bytes(reader: asyncio.StreamReader, sizes: Sequence[int], *, most: int) -> list[bytes]:
    """Read the bytes that follow an object.

    Args:
        reader: Where they come from.
        sizes: How many, for each of them.
        most: How many they may be together.

    Raises:
        SandboxError: PROVIDER_ERROR, a size is none, or they are more.
    """
    if any(size < 0 for size in sizes) or sum(sizes) > most:
        raise SandboxError(
            f"the sandbox wants to send {sum(sizes)} bytes, more than the {most} that its disk holds; {_ANEW}"
        )
    return [await reader.readexactly(size) for size in sizes]


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until their end, then the end; a broken connection ends the other one too."""
    try:
        while data := await reader.read(_PIECE_BYTES):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()
