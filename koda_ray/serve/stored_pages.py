"""Built pages as they lie in storage, file by file: what a version shows is played without a sandbox, and wakes nobody.

A page is as hostile here as out of its sandbox, so it is given away by the preview's proxy alone, on its origin and
under its policy. Files are read out of the zip as they are asked for, and never held whole; of a bucket's zips a few
are kept, since every file of a page is asked for on its own.
"""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Self

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from koda_ray.errors import InvalidInput, NotFound
from koda_ray.render.bundle import MAX_FILES, Bundle
from koda_ray.serve.media import ByteRange, parse_range
from koda_ray.state.keys import bundle_key
from koda_ray.state.storage import Storage
from koda_ray.zips import open_zip

__all__ = ["StoredPages", "no_page"]

_INDEX = "index.html"
_BLOCK_BYTES = 256 * 1024
_KEPT_BYTES = 128 * 1024 * 1024
_LARGEST_BYTES = 64 * 1024 * 1024
"""The largest zip that is held in memory: one that lies on this machine's disk is not."""


def no_page(version: str = "this version") -> NotFound:
    """Say that a version's page is not kept any more."""
    return NotFound(
        f"the page of {version} is not kept any more: look at its video, or go back to it and have it made again",
        code="PAGE_NOT_KEPT",
    )


class StoredPages:
    """Gives away files of stored bundles.

    Args:
        storage: Where they are.
        kept_bytes: How much of a bucket's is kept in memory.
    """

    def __init__(self, storage: Storage, *, kept_bytes: int = _KEPT_BYTES) -> None:
        self._storage = storage
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._turn = asyncio.Lock()

    async def respond(
        self, request: Request, *, user_id: str, bundle: str, path: str, headers: Mapping[str, str]
    ) -> Response:
        """Answer GET or HEAD for a file, or the part of it that ``Range`` asks for.

        Args:
            request: What was asked.
            user_id: Whose bundle.
            bundle: Its hash.
            path: The file; the page itself where it is empty.
            headers: What else is answered: the policy.

        Raises:
            NotFound: There is no such file, or no such bundle any more.
            InvalidInput: The bundle is too large for this.
        """
        name = path or _INDEX
        source = await self._source(bundle_key(user_id, bundle))
        opened = await asyncio.to_thread(_Opened.find, source, name)
        size = opened.entry.file_size
        span = parse_range(request.headers.get("range"), size)
        told = {**headers, "content-type": Bundle.content_type(name), "accept-ranges": "bytes"}
        told["cache-control"] = "private, max-age=3600"
        if span == "unsatisfiable":
            opened.close()
            return Response(status_code=416, headers={**headers, "content-range": f"bytes */{size}"})
        if span is not None:
            told["content-range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
        shown = span or ByteRange(0, size)
        told["content-length"] = str(shown.stop - shown.start)
        status = 200 if span is None else 206
        if request.method == "HEAD":
            opened.close()
            return Response(status_code=status, headers=told)
        return _Unzipping(opened, shown, status=status, headers=told)

    async def _source(self, key: str) -> IO[bytes]:
        """Open a bundle's zip."""
        path = self._storage.local_path(key)
        try:
            if path is not None:
                return await asyncio.to_thread(path.open, "rb")
            return io.BytesIO(await self._packed(key))
        except (FileNotFoundError, NotFound):
            raise no_page() from None

    async def _packed(self, key: str) -> bytes:
        if (data := self._known(key)) is None:
            async with self._turn:  # a page asks for all its files at once
                if (data := self._known(key)) is None:
                    data = await self._fetch(key)
        return data

    def _known(self, key: str) -> bytes | None:
        """Return what is kept, used just now."""
        if (data := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
        return data

    async def _fetch(self, key: str) -> bytes:
        if (size := await self._storage.size(key)) > _LARGEST_BYTES:
            raise InvalidInput(
                f"the page has {size:,} bytes, more than the {_LARGEST_BYTES:,} that are played out of a "
                "bucket: look at its video",
                code="TOO_LARGE",
            )
        data = await self._storage.get(key)
        while self._kept and sum(map(len, self._kept.values())) + len(data) > self._kept_bytes:
            self._kept.popitem(last=False)
        self._kept[key] = data
        return data


@dataclass(frozen=True)
class _Opened:
    """A file in a zip that is open."""

    archive: zipfile.ZipFile
    entry: zipfile.ZipInfo
    stack: ExitStack

    @classmethod
    def find(cls, source: IO[bytes], name: str) -> Self:
        """Open a zip, and find a file in it; NotFound where there is none."""
        with ExitStack() as stack:
            stack.enter_context(source)
            archive = stack.enter_context(open_zip(source, most_entries=2 * MAX_FILES))
            if (entry := archive.NameToInfo.get(name)) is None:
                raise NotFound(f"the page has no file {name[:200]!r}")
            return cls(archive, entry, stack.pop_all())

    def close(self) -> None:
        """Close the zip; may be called twice."""
        self.stack.close()


class _Unzipping(StreamingResponse):
    """A file out of a zip, part by part; however it ends, the zip is closed."""

    def __init__(self, opened: _Opened, span: ByteRange, *, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(_parts(opened, span), status_code=status, headers=headers)
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._opened.close()


async def _parts(opened: _Opened, span: ByteRange) -> AsyncGenerator[bytes]:
    file = await asyncio.to_thread(opened.archive.open, opened.entry)
    await asyncio.to_thread(file.seek, span.start)
    left = span.stop - span.start
    while left > 0 and (data := await asyncio.to_thread(file.read, min(left, _BLOCK_BYTES))):
        left -= len(data)
        yield data
