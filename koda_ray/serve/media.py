"""A stored object as an HTTP response: ranges, validators and lengths, without ever holding the object in memory.

Objects never change under their key, so one strong validator serves caching and resumed downloads alike. Local
objects are read from their file, those in a bucket by ranged reads.

A large object of a bucket may be fetched from there: whoever may have it is sent to an address that is signed for a
while, with the range that was asked for. Ray Serve holds an answer whole for whoever reads it slowly (`unread`), and a
bucket does not.

Source: RFC 9110, sections 13 (conditional requests), 14 (range requests) and 15.4.8 (307 Temporary Redirect).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Literal
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.problem import problem_of, problem_response
from koda_ray.state.storage import Storage

__all__ = [
    "REDIRECTED",
    "ByteRange",
    "Representation",
    "ascii_name",
    "blob_response",
    "bucket_origin",
    "matches_tag",
    "parse_range",
]

REDIRECTED: dict[int | str, dict[str, Any]] = {
    307: {
        "description": "It is large, and in a bucket that you reach: `Location` is its address there, good for an hour",
        "headers": {"Location": {"schema": {"type": "string", "format": "uri"}}},
    }
}
"""What a route's description says of an object that may be fetched elsewhere."""
REDIRECTED_BYTES = 8 * 1024 * 1024
"""From this size on; below it, a second connection takes longer than the object."""
SIGNED_S = 3600
"""How long an address in a bucket is good for: whoever stops a film comes back to it."""

_BLOCK_BYTES = 256 * 1024
_REMOTE_BLOCK_BYTES = 2 * 1024 * 1024
_DIGITS = 18
_RANGE = re.compile(r"bytes=\s*([0-9]*)-([0-9]*)\s*")


@dataclass(frozen=True)
class ByteRange:
    """Bytes ``[start, stop)``."""

    start: int
    stop: int


def ascii_name(path: str) -> str:
    """Return the last part of a path as a name that stands in a header between quotes."""
    name = path.rpartition("/")[2]
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "_" for c in name)


def parse_range(header: str | None, size: int) -> ByteRange | Literal["unsatisfiable"] | None:
    """Read a ``Range`` header for an object of ``size`` bytes.

    Returns:
        The span; None for the whole object, also where the header is malformed, has another unit or asks for several
        ranges (which a server may ignore); ``unsatisfiable`` where nothing of it is in the object.
    """
    found = _RANGE.fullmatch(header) if header else None
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        length = _number(found[2])
        return ByteRange(max(0, size - length), size) if length and size else "unsatisfiable"
    start = _number(found[1])
    if found[2] and _number(found[2]) < start:
        return None
    if start >= size:
        return "unsatisfiable"
    return ByteRange(start, min(size, _number(found[2]) + 1) if found[2] else size)


def _number(digits: str) -> int:
    """Read a position; one with more digits than any file has bytes is as good as endless."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= _DIGITS else 10**_DIGITS


@dataclass(frozen=True, kw_only=True, slots=True)
class Representation:
    """What a stored object is sent as.

    Args:
        media_type: Its type.
        etag: Its validator, without quotes: anything that changes with the object.
        filename: The name to save it under, ASCII.
        download: Whether a browser should save it rather than show it.
        redirects: Whether it may be fetched from a bucket where it is large.
    """

    media_type: str
    etag: str
    filename: str
    download: bool = False
    redirects: bool = False

    @property
    def disposition(self) -> str:
        """What a browser is told to do with it."""
        return f'{"attachment" if self.download else "inline"}; filename="{self.filename}"'


async def blob_response(request: Request, storage: Storage, key: str, shown: Representation) -> Response:
    """Answer GET or HEAD for a stored object.

    Args:
        request: What was asked: method, ``Range``, ``If-Range`` and ``If-None-Match``.
        storage: Where the object is.
        key: Its key.
        shown: What it is sent as.

    Raises:
        NotFound: There is no such object.
        StorageError: It could not be read.
    """
    size = await storage.size(key)
    tag = f'"{shown.etag}"'
    headers = {
        "ETag": tag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=0, must-revalidate",
        "Content-Disposition": shown.disposition,
        "X-Content-Type-Options": "nosniff",
    }
    if matches_tag(request.headers.get("if-none-match"), tag):
        return Response(status_code=304, headers=headers)
    span = parse_range(request.headers.get("range"), size)
    if request.headers.get("if-range") not in (None, tag):
        span = None  # another version was begun: start over
    if span == "unsatisfiable":
        return problem_response(
            problem_of(
                416,
                "RANGE_NOT_SATISFIABLE",
                detail=f"the file has {size} bytes, and Range {request.headers['range'][:60]!r} asks for none of them",
                instance=request.url.path,
                context={"sizeBytes": size},
            ),
            {"Content-Range": f"bytes */{size}", "Accept-Ranges": "bytes"},
        )
    if request.method == "GET" and shown.redirects and size >= REDIRECTED_BYTES:
        url = await storage.signed_url(key, ttl_s=SIGNED_S, media_type=shown.media_type, disposition=shown.disposition)
        if url is not None:
            # of what is behind it, nothing is told to the bucket, and nobody else is given it
            private = {"Location": url, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
            return Response(status_code=307, headers=private)
    status = 200
    if span is not None:
        status = 206
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
    span = span or ByteRange(0, size)
    headers["Content-Length"] = str(span.stop - span.start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=shown.media_type)
    return StreamingResponse(
        _read(storage, key, span), status_code=status, headers=headers, media_type=shown.media_type
    )


async def bucket_origin(deps: ApiDeps) -> str | None:
    """Return the origin that redirects lead to, for policies that name it; None where there are none."""
    if not deps.settings.redirects_to_bucket:
        return None
    url = await deps.storage.signed_url("any", ttl_s=1, media_type="video/mp4", disposition="inline")
    return None if url is None else "{0.scheme}://{0.netloc}".format(urlsplit(url))


def matches_tag(header: str | None, tag: str) -> bool:
    """Whether ``If-None-Match`` names a validator, which is in its quotes."""
    return header is not None and (
        header.strip() == "*" or tag in {part.strip().removeprefix("W/") for part in header.split(",")}
    )


async def _read(storage: Storage, key: str, span: ByteRange) -> AsyncIterator[bytes]:
    path = storage.local_path(key)
    if path is None:
        for start in range(span.start, span.stop, _REMOTE_BLOCK_BYTES):
            yield await storage.get_range(key, start, min(span.stop, start + _REMOTE_BLOCK_BYTES))
        return
    file = await _opened(path)
    try:
        for start in range(span.start, span.stop, _BLOCK_BYTES):
            yield await asyncio.to_thread(_read_at, file, start, min(span.stop, start + _BLOCK_BYTES))
    finally:
        file.close()


async def _opened(path: Path) -> BinaryIO:
    """Open a file in a thread; where whoever reads gives up meanwhile, it is closed as soon as it is open."""
    opening = asyncio.ensure_future(asyncio.to_thread(path.open, "rb"))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close)
        raise


def _close(opening: asyncio.Future[BufferedReader]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _read_at(file: BinaryIO, start: int, stop: int) -> bytes:
    file.seek(start)
    return file.read(stop - start)
