"""Objects in a bucket, or in anything else that fsspec opens by URL.

An S3 put is atomic by itself, so this is a thin, synchronous face of an fsspec file system with the same methods as
`Disk`. Listings are never cached: other machines write to the same bucket.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import fsspec  # pyright: ignore[reportMissingTypeStubs]
from pydantic import JsonValue

from koda_ray.errors import Missing
from koda_ray.state.disk import Stored
from koda_ray.state.pace import KeyPace
from koda_ray.state.silence import bucket_options

__all__ = ["Bucket"]


class Bucket:
    """A bucket, or a folder in one.

    Args:
        url: ``s3://bucket`` or ``s3://bucket/folder``, or another URL that fsspec knows.
        options: The file system's own options: keys, endpoint.
        apart_s: How far apart writes of one key have to be, in seconds.

    Raises:
        Missing: The package for this kind of URL is not installed.
    """

    parallel = 32
    """How many objects are worth moving at once: each waits for the network most of its time."""

    def __init__(self, url: str, options: Mapping[str, JsonValue], *, apart_s: float = 0.0) -> None:
        tries = None
        if url.startswith("s3://"):
            options, tries = bucket_options(options)
        try:
            fs, root = fsspec.core.url_to_fs(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                url, use_listings_cache=False, **options
            )
        except ImportError as error:
            scheme = url.partition("://")[0]
            raise Missing(
                f"storage at {scheme}:// needs a package: pip install 'koda-ray[{scheme}]' ({error})"
            ) from error
        # fsspec ships no types: its dynamic surface stays inside this class
        self._fs: Any = fs
        if tries is not None:
            self._fs.retries = tries
        self._root = str(cast(str, root)).rstrip("/")
        self._pace = KeyPace(apart_s) if apart_s else None

    def put(self, key: str, data: bytes, *, synced: bool = True) -> None:
        """Write an object."""
        with self._turn(key):
            self._fs.pipe_file(self._at(key), data)

    def put_file(self, key: str, source: Path) -> None:
        """Upload a file."""
        with source.open("rb"), self._turn(key):  # an unreadable source is an error here, before anything is sent
            self._fs.put_file(str(source), self._at(key))

    def get(self, key: str) -> bytes:
        """Read an object whole."""
        return bytes(self._fs.cat_file(self._at(key)))

    def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Read bytes ``[start, stop)``, fewer where the object ends first."""
        stop = min(stop, self.size(key))
        if start >= stop:
            return b""  # asked for nothing, a bucket would send everything
        return bytes(self._fs.cat_file(self._at(key), start=start, end=stop))

    def get_file(self, key: str, target: Path) -> None:
        """Download an object, replacing ``target`` in one step."""
        target.parent.mkdir(parents=True, exist_ok=True)
        temp = target.with_name(f".{uuid.uuid4().hex}.part")
        try:
            self._fs.get_file(self._at(key), str(temp))
            temp.replace(target)
        finally:
            temp.unlink(missing_ok=True)

    def signed_url(self, key: str, *, ttl_s: int, media_type: str, disposition: str) -> str:
        """Sign an address of an object; nothing is asked of the bucket."""
        answered = {"ResponseContentType": media_type, "ResponseContentDisposition": disposition}
        return str(self._fs.sign(self._at(key), expiration=ttl_s, **answered))

    def copy(self, source: str, key: str) -> None:
        """Copy an object inside the bucket."""
        with self._turn(key):
            self._fs.cp_file(self._at(source), self._at(key))

    def size(self, key: str) -> int:
        """Return an object's size in bytes."""
        return self.look(key).size_bytes

    def exists(self, key: str) -> bool:
        """Whether the object is there."""
        try:
            self.size(key)
        except FileNotFoundError:
            return False
        return True

    def list(self, prefix: str) -> list[str]:
        """List the keys below a prefix, unsorted."""
        skip = len(self._root) + 1
        keys = [str(path)[skip:] for path in self._fs.find(self._at(prefix))]
        return [key for key in keys if _is_below(key, prefix)]

    def look(self, key: str) -> Stored:
        """Return an object's size and age."""
        info = self._fs.info(self._at(key))
        if info["type"] != "file":
            raise FileNotFoundError(key)
        return Stored(key, int(info["size"]), _written(info))

    def look_below(self, prefix: str) -> list[Stored]:
        """Look at everything below a prefix, unsorted."""
        skip = len(self._root) + 1
        found = cast("dict[str, dict[str, Any]]", self._fs.find(self._at(prefix), detail=True))
        objects = [(path[skip:], info) for path, info in found.items() if _is_below(path[skip:], prefix)]
        return [Stored(key, int(info["size"]), _written(info)) for key, info in objects]

    def folders(self, prefix: str) -> list[str]:
        """List the folders right below a prefix, unsorted."""
        try:
            found = cast("list[dict[str, Any]]", self._fs.ls(self._at(prefix), detail=True))
        except FileNotFoundError:
            return []
        return [str(info["name"]).rstrip("/").rpartition("/")[2] for info in found if info["type"] == "directory"]

    def touch(self, key: str) -> None:
        """Have an object count as written now: it is copied onto itself, inside the bucket, with a note about when."""
        with self._turn(key):
            self._fs.setxattr(self._at(key), touched=datetime.now(UTC).isoformat())

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens when it is not there."""
        try:
            self._fs.rm_file(self._at(key))
        except FileNotFoundError:
            return

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a prefix."""
        paths = [self._at(key) for key in self.list(prefix)]
        if paths:
            self._fs.rm(paths)

    def wait_s(self, key: str) -> float:
        """Return how long a write of a key would wait, in seconds."""
        return 0.0 if self._pace is None else self._pace.wait_s(key)

    def _turn(self, key: str) -> AbstractContextManager[None]:
        return nullcontext() if self._pace is None else self._pace.turn(key)

    def _at(self, key: str) -> str:
        return f"{self._root}/{key}" if key else self._root


def _written(info: Mapping[str, Any]) -> datetime:
    """Return when an object was written: buckets say it under this name, other file systems of fsspec under others."""
    at = cast("datetime", info.get("LastModified") or info.get("mtime") or info.get("created"))
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _is_below(key: str, prefix: str) -> bool:
    """Whether what a bucket lists is an object below a prefix.

    Asked below an object, a bucket names the object itself; and some keep a mark of a folder of which all was deleted,
    which no key of ours is called: it ends with a slash, or is empty.
    """
    return key != "" and not key.endswith("/") and key.startswith(f"{prefix}/" if prefix else "")
