"""A built page as one content-addressed object: the same files give the same hash and the same bytes.

A bundle is untrusted (generated code built it), so what goes in and what comes out are both held to limits on paths,
sizes and counts, and a stored bundle is checked against its hash each time it is read.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import mimetypes
import re
import zipfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, cast

from koda_ray.errors import InvalidInput, InvalidPath, NotFound, StorageError
from koda_ray.render.retry import RetryingStorage
from koda_ray.state.holdings import HoldObjects
from koda_ray.state.keys import bundle_key
from koda_ray.state.storage import Storage
from koda_ray.zips import open_zip

__all__ = [
    "MAX_BUNDLE_BYTES",
    "MAX_FILES",
    "Bundle",
    "bundle_bytes",
    "bundle_contents",
    "keep_bundle",
    "load_bundle",
    "store_bundle",
    "stored_bundle",
]

MAX_BUNDLE_BYTES = 256 * 1024 * 1024
MAX_FILES = 4096
MAX_PATH_BYTES = 512
_CONTENTS = "contents.json"
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)

# mimetypes reads the machine's tables, which differ; these decide whether a browser runs a file
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".woff": "font/woff",
    ".ttf": "font/ttf",
    ".otf": "font/otf",
    ".glb": "model/gltf-binary",
    ".gltf": "model/gltf+json",
    ".hdr": "application/octet-stream",
    ".exr": "application/octet-stream",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".apng": "image/apng",
    ".avif": "image/avif",
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".ogg": "audio/ogg",
    ".wav": "audio/wav",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}
# a picture's beginning, and what is in it where it moves; the last is any of them inside a text
_MOVING = ((b"GIF8", b"NETSCAPE2.0"), (b"\x89PNG", b"acTL"), (b"RIFF", b"ANIM"), (b"\0\0\0", b"ftypavis"))
_MOVING_TEXT = re.compile(rb"data:image/(?:gif|apng|webp|avif)")
_MOVING_DRAWING = re.compile(rb"<(?:\w+:)?(?:animate|set)|@keyframes|@starting-style")
_TEXTS = frozenset({".html", ".css", ".js", ".mjs", ".json", ".svg"})
_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Bundle:
    """The files of a built page, by relative path with forward slashes.

    Raises:
        InvalidInput: Empty, too many files or too many bytes.
        InvalidPath: A path that is absolute, leaves the bundle or is too long.
    """

    files: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if not self.files:
            raise InvalidInput("the bundle has no files: build the project first")
        if len(self.files) > MAX_FILES:
            raise InvalidInput(f"the bundle has {len(self.files)} files; at most {MAX_FILES} can be rendered")
        total = sum(map(len, self.files.values()))
        if total > MAX_BUNDLE_BYTES:
            raise InvalidInput(f"the bundle has {total} bytes; at most {MAX_BUNDLE_BYTES} can be rendered")
        for path in self.files:
            _check_path(path)

    @property
    def hash(self) -> str:
        """SHA-256 over the sorted paths and the files' own hashes."""
        digest = hashlib.sha256()
        for path, its in sorted(self.digests.items()):
            digest.update(f"{path}\0{its}\n".encode())
        return digest.hexdigest()

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Each file's SHA-256, by path."""
        return {path: hashlib.sha256(data).hexdigest() for path, data in self.files.items()}

    @property
    def traits(self) -> Mapping[str, str]:
        """What decides, beside the files that a page reads, which scripts of ours it gets; no file has such names."""
        return {f"//{name}": str(getattr(self, name)) for name in ("moves", "draws", "sandboxes")}

    @cached_property
    def moves(self) -> bool:
        """Whether a picture among the files, or inside one, may move by itself (GIF, APNG, WebP, AVIF)."""
        return any(_moves(path, data) for path, data in self.files.items())

    @cached_property
    def draws(self) -> bool:
        """Whether a drawing (SVG) among the files, or inside one, may move by itself."""
        return any(_draws(path, data) for path, data in self.files.items())

    @cached_property
    def sandboxes(self) -> bool:
        """Whether a text among the files speaks of sandboxed frames, whose scripts may be off."""
        return any(
            Path(path).suffix.lower() in _TEXTS and b"sandbox" in _letters(data) for path, data in self.files.items()
        )

    @cached_property
    def shadows(self) -> bool:
        """Whether a page among the files may have a shadow root in its text; no script sees one that is closed."""
        pages = (data for path, data in self.files.items() if Path(path).suffix.lower() in (".html", ".htm"))
        return any(b"shadowrootmode" in _letters(data).lower() for data in pages)

    def pack(self) -> bytes:
        """Return the bundle as a zip whose bytes depend on the files alone."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(self.files):
                archive.writestr(zipfile.ZipInfo(path, _ZIP_EPOCH), self.files[path], zipfile.ZIP_DEFLATED, 1)
        return buffer.getvalue()

    @classmethod
    def unpack(cls, data: bytes | IO[bytes]) -> Bundle:
        """Read what `pack` wrote, or another zip of a built page, which may lie in an open file.

        Raises:
            InvalidInput: Not a zip, or over a limit; nothing is unpacked beyond one.
            InvalidPath: As the constructor.
        """
        with _reading(data) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > MAX_FILES:
                raise InvalidInput(f"the zip has {len(entries)} files; at most {MAX_FILES} can be rendered")
            files: dict[str, bytes] = {}
            left = MAX_BUNDLE_BYTES
            for entry in entries:
                # the sizes in a zip's directory are claims: read one byte beyond what is left and see
                with archive.open(entry) as file:
                    content = file.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise InvalidInput(f"the zip unpacks to over {MAX_BUNDLE_BYTES} bytes")
                files[entry.filename] = content
        return cls(files)

    @staticmethod
    def content_type(path: str) -> str:
        """Return the media type to serve a file with."""
        suffix = Path(path).suffix.lower()
        return _TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"


def bundle_bytes(data: bytes | IO[bytes]) -> int:
    """Return how many bytes `Bundle.unpack` will hold of a zip at most. Raises InvalidInput as that."""
    with _reading(data) as archive:
        # more than an entry says of itself is never unpacked
        return min(MAX_BUNDLE_BYTES, sum(entry.file_size for entry in archive.infolist()))


def _reading(data: bytes | IO[bytes]) -> AbstractContextManager[zipfile.ZipFile]:
    """Open a page's zip: as many folders as files may be in it."""
    return open_zip(io.BytesIO(data) if isinstance(data, bytes) else data, most_entries=2 * MAX_FILES)


def _letters(data: bytes) -> bytes:
    """Return a text so that what is of ASCII in it is found, also where each letter has two bytes (UTF-16)."""
    return data.replace(b"\0", b"") if data[:2] in (b"\xff\xfe", b"\xfe\xff") else data


def _moves(path: str, data: bytes) -> bool:
    if Path(path).suffix.lower() in _TEXTS:
        return _MOVING_TEXT.search(_letters(data)) is not None
    return any(data.startswith(begin) and mark in data[:_HEAD_BYTES] for begin, mark in _MOVING)


def _draws(path: str, data: bytes) -> bool:
    suffix = Path(path).suffix.lower()
    if suffix == ".svg":
        return _MOVING_DRAWING.search(_letters(data)) is not None
    return suffix in _TEXTS and b"data:image/svg" in _letters(data)


def _check_path(path: str) -> None:
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or "\0" in path or any(p in ("", ".", "..") for p in parts):
        raise InvalidPath(f"bundle path {path[:200]!r} must be relative, with forward slashes and without '..'")
    if len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        raise InvalidPath(f"bundle path {path[:80]!r}... is longer than {MAX_PATH_BYTES} bytes")


async def store_bundle(storage: Storage, user_id: str, bundle: Bundle, *, hold: HoldObjects | None = None) -> str:
    """Put a bundle into storage, unless it is there; then it counts as used now.

    Args:
        storage: Where to.
        user_id: Whose it is.
        bundle: What it is.
        hold: Counts it before it is stored.

    Returns:
        Its content hash.
    """
    content_hash = await asyncio.to_thread(lambda: bundle.hash)
    await keep_bundle(storage, user_id, content_hash, bundle, hold=hold)
    return content_hash


async def keep_bundle(
    storage: Storage, user_id: str, content_hash: str, bundle: Bundle, *, hold: HoldObjects | None = None
) -> None:
    """Make sure that a bundle is in storage, under the hash that is known of it; it counts as used now."""
    key = bundle_key(user_id, content_hash)
    try:
        await storage.touch(key)
    except NotFound:
        contents = await asyncio.to_thread(lambda: json.dumps({**bundle.traits, **bundle.digests}).encode())
        packed = await asyncio.to_thread(bundle.pack)
        if hold is not None:
            await hold({key: len(packed) + len(contents)})
        await storage.put(bundle_key(user_id, content_hash, _CONTENTS), contents)
        await storage.put(key, packed)


async def bundle_contents(storage: RetryingStorage, user_id: str, content_hash: str) -> Mapping[str, str] | None:
    """Return each of a stored bundle's files' hash by its path, and its traits; None where nobody wrote that down.

    Raises:
        StorageError: Storage could not be read.
    """
    try:
        found: object = json.loads(await storage.get(bundle_key(user_id, content_hash, _CONTENTS)))
    except (NotFound, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    return {str(path): str(digest) for path, digest in cast("dict[object, object]", found).items()}


async def load_bundle(storage: RetryingStorage, user_id: str, content_hash: str) -> Bundle:
    """Read a bundle and check that it is what its name says.

    Raises:
        NotFound: There is no such bundle.
        StorageError: Storage failed, or the bytes are not those that were stored.
    """
    data = await storage.get(bundle_key(user_id, content_hash))
    return await asyncio.to_thread(stored_bundle, data, content_hash)


def stored_bundle(data: bytes | IO[bytes], content_hash: str) -> Bundle:
    """Unpack a bundle as it lies in storage, or in an open file, and check that it is what its name says; blocks.

    Raises:
        StorageError: Its bytes are not those that were stored.
    """
    bundle = Bundle.unpack(data)
    if bundle.hash != content_hash:
        raise StorageError(f"bundle {content_hash} in storage is damaged: store it again", retryable=False)
    return bundle
