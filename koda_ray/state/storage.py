"""Where bytes are kept: local disk or a bucket, one set of methods. Their keys are built in `koda_ray.state.keys`.

A `Storage` is a URL and options and nothing more, so that it can be sent to a Ray worker, which opens its own.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from koda_ray.destinations import is_of_destination, not_written
from koda_ray.errors import BucketAway, InvalidInput, KodaError, NotFound, StorageError
from koda_ray.state.disk import Disk, Stored
from koda_ray.state.keys import check_key
from koda_ray.state.silence import is_no_answer

if TYPE_CHECKING:
    from koda_ray.config import Settings
    from koda_ray.state.bucket import Bucket

__all__ = ["Storage", "Stored", "sha256"]

R2_APART_S = 1.05
"""R2 takes one write a second of each key; a little more, for what a request's way takes longer once than again.

Source: developers.cloudflare.com/r2/platform/limits ("Maximum writes to the same object key").
"""
_SWEEP_AGE_S = 3600.0
_SILENT_S = 10.0
"""A call to a bucket that failed after so long, in seconds, waited for answers: another would, too."""


T = TypeVar("T")
Backend: TypeAlias = "Disk | Bucket"


class Storage:
    """Objects by key. Every method may be called from any task; blocking work runs in threads.

    Args:
        url: A folder's path or ``file://`` URL, or ``s3://bucket[/folder]``.
        options: fsspec's options for a bucket (``key``, ``secret``, ``client_kwargs``); never shown.
        apart_s: How far apart writes of one key have to be in a bucket, in seconds.
    """

    def __init__(self, url: str, options: Mapping[str, JsonValue] | None = None, apart_s: float = 0.0) -> None:
        self.url = url
        self._options = dict(options or {})
        self._apart_s = apart_s
        self._disk: Disk | None = None
        self._bucket: Bucket | None = None
        self._silent: tuple[float, BucketAway] | None = None  # when a call failed for that, and how
        split = urlsplit(url)
        if split.scheme in ("", "file", "local"):
            folder = unquote(split.path) if split.scheme else url
            self._disk = Disk(Path(folder).expanduser().absolute())

    @classmethod
    def from_settings(cls, settings: Settings) -> Storage:
        """Build the storage that the settings name; nothing is opened yet."""
        if settings.storage_provider == "local":
            return cls(str(settings.storage_path))
        options: dict[str, JsonValue] = {
            "key": settings.r2_access_key.get_secret_value() if settings.r2_access_key else None,
            "secret": settings.r2_secret_key.get_secret_value() if settings.r2_secret_key else None,
            # R2 refuses the checksums that newer SDKs add to every request, and parts of unequal size
            "config_kwargs": {
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
                # for signed addresses too, where SDKs still take what R2 and buckets with keys of KMS refuse
                "signature_version": "s3v4",
            },
            "fixed_upload_size": True,
        }
        if settings.storage_encryption != "none":
            sent: dict[str, JsonValue] = {"ServerSideEncryption": settings.storage_encryption}
            if settings.storage_kms_key is not None:
                sent["SSEKMSKeyId"] = settings.storage_kms_key
            options["s3_additional_kwargs"] = sent
        client: dict[str, JsonValue] = {}
        if settings.r2_endpoint:
            client["endpoint_url"] = settings.r2_endpoint
        if settings.storage_provider == "r2":
            client["region_name"] = "auto"
        if client:
            options["client_kwargs"] = client
        return cls(f"s3://{settings.r2_bucket}", options, R2_APART_S if settings.storage_provider == "r2" else 0.0)

    def __repr__(self) -> str:
        return f"Storage({self.url!r}{', options hidden' if self._options else ''})"

    def __reduce__(self) -> tuple[type[Storage], tuple[str, dict[str, JsonValue], float]]:
        return (Storage, (self.url, self._options, self._apart_s))

    @property
    def is_local(self) -> bool:
        """Whether objects are files of this machine."""
        return self._disk is not None

    def local_path(self, key: str) -> Path | None:
        """Return the file that holds an object, to serve or hand to FFmpeg without a copy; None for a bucket.

        The file may not be there. Read it only: objects are never changed in place.
        """
        check_key(key)
        return None if self._disk is None else self._disk.path(key)

    async def await_turn(self, key: str) -> None:
        """Wait until a key may be written without waiting, where a bucket wants its writes apart."""
        if self._bucket is not None:
            await asyncio.sleep(self._bucket.wait_s(key))

    async def put(self, key: str, data: bytes, *, synced: bool = True) -> None:
        """Write an object in one step: a reader sees the old bytes or the new ones.

        Args:
            key: Its key.
            data: Its bytes.
            synced: Whether it outlives a power cut of this machine; else, on its disk, a killed process alone, and
                whoever reads it takes it for what it may be then: any bytes.

        Raises:
            InvalidPath: The key is not one.
            StorageError: It could not be written; code DISK_FULL where that is why.
        """
        await self._run("put", key, lambda backend: backend.put(key, data, synced=synced))

    async def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write many objects in parallel; after an error, some of them may be there.

        Raises:
            InvalidPath: One of the keys is not one; nothing was written.
            StorageError: As `put`, for the first that failed.
        """
        for key in objects:
            check_key(key)
        items = list(objects.items())

        def work(share: list[tuple[str, bytes]]) -> None:
            for key, data in share:
                self._call("put", key, lambda backend: backend.put(key, data))  # noqa: B023 - called before the next

        await self._spread(work, items)

    async def put_file(self, key: str, path: Path) -> None:
        """Store a file's bytes without reading them into memory. Raises as `put`."""
        await self._run("put", key, lambda backend: backend.put_file(key, path))

    async def get(self, key: str) -> bytes:
        """Read an object whole.

        Raises:
            NotFound: There is no such object.
            BucketAway: The bucket does not answer, here and of each other method.
            StorageError: It could not be read.
        """
        return await self._run("get", key, lambda backend: backend.get(key))

    async def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Read many objects in parallel. Raises as `get`, for the first that failed."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, bytes] = {}

        def work(share: list[str]) -> None:
            for key in share:
                found[key] = self._call("get", key, lambda backend: backend.get(key))  # noqa: B023 - as above

        for key in wanted:
            check_key(key)
        await self._spread(work, wanted)
        return found

    async def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Read bytes ``[start, stop)``, fewer where the object ends first.

        Raises:
            InvalidInput: The range is none: ``0 <= start <= stop``.
            KodaError: As `get`.
        """
        if start < 0 or stop < start:
            raise InvalidInput(f"byte range [{start}, {stop}) of {key!r} is not one: 0 <= start <= stop")
        return await self._run("get_range", key, lambda backend: backend.get_range(key, start, stop))

    async def get_file(self, key: str, path: Path) -> None:
        """Copy an object to a file, which appears whole or not at all.

        Raises:
            NotFound: There is no such object.
            StorageError: It could not be read, or the file could not be written: then the message names the file.
        """

        def call(backend: Backend) -> None:
            try:
                backend.get_file(key, path)
            except OSError as error:
                if is_of_destination(error) and backend.exists(key):
                    raise not_written(path, error, way_out="free some space or name another place") from error
                raise

        await self._run("get", key, call)

    async def signed_url(self, key: str, *, ttl_s: int, media_type: str, disposition: str) -> str | None:
        """Return an address at which whoever has it reads an object from the bucket itself; None on local disk.

        Args:
            key: Its key. Whether there is such an object is not looked at.
            ttl_s: How long the address is good for, in seconds.
            media_type: What the bucket says that it is.
            disposition: Its ``Content-Disposition``.

        Raises:
            InvalidPath: The key is not one.
            StorageError: This kind of bucket signs no addresses.
        """

        def call(backend: Backend) -> str | None:
            if isinstance(backend, Disk):
                return None
            return backend.signed_url(key, ttl_s=ttl_s, media_type=media_type, disposition=disposition)

        return await self._run("sign", key, call)

    async def copy(self, source: str, key: str) -> None:
        """Give an object's content a second key without moving its bytes through here. Raises as `get` and `put`."""
        check_key(source)
        await self._run("get", key, lambda backend: backend.copy(source, key))

    async def size(self, key: str) -> int:
        """Return an object's size in bytes. Raises as `get`."""
        return await self._run("size", key, lambda backend: backend.size(key))

    async def exists(self, key: str) -> bool:
        """Whether the object is there."""
        return await self._run("exists", key, lambda backend: backend.exists(key))

    async def list(self, prefix: str = "") -> list[str]:
        """List the keys below a prefix (a folder: ``users/a`` does not match ``users/ab/...``), sorted."""
        prefix = prefix.removesuffix("/")
        if prefix:
            check_key(prefix)
        return sorted(await asyncio.to_thread(self._call, "list", prefix, lambda backend: backend.list(prefix)))

    async def look(self, key: str) -> Stored:
        """Return an object's size and when it was written or last touched. Raises as `get`."""
        return await self._run("look at", key, lambda backend: backend.look(key))

    async def look_below(self, prefix: str) -> list[Stored]:
        """Look at every object below a prefix, sorted by key."""
        prefix = prefix.removesuffix("/")
        return sorted(await self._run("list", prefix, lambda backend: backend.look_below(prefix)))

    async def folders(self, prefix: str) -> list[str]:
        """List the names of the folders right below a prefix, sorted; buckets may keep those that had something."""
        prefix = prefix.removesuffix("/")
        return sorted(await self._run("list", prefix, lambda backend: backend.folders(prefix)))

    async def touch(self, key: str) -> None:
        """Have an object count as written now; its bytes stay. Raises as `get`."""
        await self._run("touch", key, lambda backend: backend.touch(key))

    async def delete(self, key: str) -> None:
        """Remove an object; nothing happens when it is not there."""
        await self._run("delete", key, lambda backend: backend.delete(key))

    async def delete_many(self, keys: Iterable[str]) -> None:
        """Remove many objects in parallel; those that are not there are no error. Raises as `delete`, for the first."""
        wanted = [check_key(key) for key in keys]

        def work(share: list[str]) -> None:
            for key in share:
                self._call("delete", key, lambda backend: backend.delete(key))  # noqa: B023 - called before the next

        await self._spread(work, wanted)

    async def delete_prefix(self, prefix: str) -> None:
        """Remove every object below a prefix; nothing happens when there is none.

        Raises:
            InvalidPath: The prefix is empty: all of storage is never removed by one call.
            StorageError: Some could not be removed; calling again goes on.
        """
        prefix = prefix.removesuffix("/")
        await self._run("delete", prefix, lambda backend: backend.delete_prefix(prefix))

    async def sweep(self, *, older_than_s: float = _SWEEP_AGE_S) -> int:
        """Remove files that killed writers left unfinished; return how many. A bucket has none."""
        disk = self._disk
        return 0 if disk is None else await asyncio.to_thread(disk.sweep, older_than_s)

    async def _run(self, operation: str, key: str, call: Callable[[Backend], T]) -> T:
        check_key(key)
        asked_at = time.monotonic()

        def run() -> T:
            # threads are few: who waited for one while a silent bucket was waited for would find out one by one
            if (silent := self._silent) is not None and asked_at < silent[0]:
                raise BucketAway(silent[1].message, context=silent[1].context)
            began = time.monotonic()
            try:
                return self._call(operation, key, call)
            except BucketAway as error:
                if (at := time.monotonic()) - began >= _SILENT_S:
                    self._silent = at, error
                raise

        return await asyncio.to_thread(run)

    def _call(self, operation: str, key: str, call: Callable[[Backend], T]) -> T:
        try:
            return call(self._backend())
        except KodaError:
            raise
        except (FileNotFoundError, IsADirectoryError) as error:
            if operation == "put":
                raise self._failed(operation, key, error) from error
            raise NotFound(f"no object {key!r} in storage", context={"key": key}) from error
        except Exception as error:  # botocore and aiohttp have trees of their own, and s3fs lets both through
            raise self._failed(operation, key, error) from error

    async def _spread(self, work: Callable[[list[T]], None], items: list[T]) -> None:
        """Share items out over threads and wait for all of them, also when one fails."""
        if not items:
            return
        backend = await asyncio.to_thread(self._backend)
        shares = [share for start in range(backend.parallel) if (share := items[start :: backend.parallel])]
        # threads of its own: the loop's few are for everybody's single calls
        threads = ThreadPoolExecutor(len(shares), thread_name_prefix="koda-storage")
        try:
            loop = asyncio.get_running_loop()
            calls = [loop.run_in_executor(threads, work, share) for share in shares]
            results = await asyncio.gather(*calls, return_exceptions=True)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _backend(self) -> Backend:
        if self._disk is not None:
            return self._disk
        if self._bucket is None:
            # a process that stores on disk never pays for fsspec
            from koda_ray.state.bucket import Bucket

            self._bucket = Bucket(self.url, self._options, apart_s=self._apart_s)
        return self._bucket

    def _failed(self, operation: str, key: str, error: Exception) -> StorageError:
        context: dict[str, str | int | float | bool | None] = {"operation": operation, "key": key}
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StorageError(
                f"storage {operation} of {key!r} in {self.url}: the disk is full; free some space and try again",
                code="DISK_FULL",
                context=context,
            )
        why = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
        if self._bucket is not None and is_no_answer(error):
            return BucketAway(f"{self.url} does not answer (storage {operation} of {key!r}: {why})", context=context)
        return StorageError(f"storage {operation} of {key!r} failed: {why}", context=context)


def sha256(data: bytes) -> str:
    """Return the lower-case hexadecimal SHA-256 of bytes: a blob's name."""
    return hashlib.sha256(data).hexdigest()
