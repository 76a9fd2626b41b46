"""A folder of JSON as two calls, ``read`` and ``write``, like `Database`: all rows in memory, every commit in a log.

One thread does everything, so nothing else has to be locked. It takes what is waiting at once: all writes, one after
the other and each whole or not at all, then one line in the log and one sync for the group, then the reads. Nobody
sees what is not on the disk.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from koda_ray.errors import StorageError
from koda_ray.logs import get_logger
from koda_ray.state.json_files import Files, FolderLock
from koda_ray.state.json_log import COMPACT_BYTES, Log, Recovery
from koda_ray.state.json_recovery import LOCK_NAME
from koda_ray.state.json_tables import Tables, Transaction
from koda_ray.state.meter import Meter

__all__ = ["JsonDatabase"]

T = TypeVar("T")
_log = get_logger(__name__)
_GROUP = 256


@dataclass(eq=False)
class _Call:
    """Something that waits for the thread: a read, or a write with what follows it."""

    read: Callable[[Tables], Any] | None = None
    write: Callable[[Transaction], Any] | None = None
    then: Callable[[Any], None] | None = None
    future: Future[Any] = field(default_factory=Future[Any])


@dataclass
class _Open:
    """What there is while the store is open."""

    tables: Tables
    log: Log
    lock: FolderLock
    thread: threading.Thread
    process: int


class JsonDatabase:
    """A folder, its thread, and what is in it.

    Args:
        folder: Where; made when it is not there.
        files: How the operating system is called.
        compact_bytes: How large the log grows, at least, before it is turned into a snapshot.
    """

    def __init__(self, folder: Path, files: Files, *, compact_bytes: int = COMPACT_BYTES) -> None:
        self.folder = folder
        self.meter = Meter()
        self.recovery: Recovery | None = None
        self._files = files
        self._compact_bytes = compact_bytes
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._open: _Open | None = None
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"JsonDatabase({str(self.folder)!r})"

    async def open(self) -> None:
        """Take the lock and read everything; nothing happens when it is open.

        Raises:
            StorageError: Another process has it (code STORE_LOCKED), it cannot be read, or it is damaged.
        """
        async with self._turn:
            if self._open is None:
                await asyncio.to_thread(self._start)

    async def close(self) -> None:
        """Finish what is waiting and give the folder up; may be called twice."""
        async with self._turn:
            with self._gate:
                opened, self._open = self._open, None
                if opened is not None:
                    self._queue.put(None)
            if opened is not None:
                await asyncio.to_thread(self._stop, opened)

    async def read(self, work: Callable[[Tables], T]) -> T:
        """Look at the rows."""
        with self.meter.timed("read"):
            return await self._submit(_Call(read=work))

    async def write(self, work: Callable[[Transaction], T], then: Callable[[T], None] | None = None) -> T:
        """Run one transaction; it is undone when ``work`` raises.

        Args:
            work: What to do.
            then: Called with the result once it is durable, in the store's thread: it runs also when the caller was
                cancelled meanwhile.

        Raises:
            StorageError: It could not be written; code DISK_FULL where that is why.
        """
        with self.meter.timed("write"):
            return await self._submit(_Call(write=work, then=then))

    async def check(self) -> None:
        """Ask the disk for an answer. Raises StorageError."""
        log = self._require().log
        await self._submit(_Call(read=lambda _: log.check()))

    async def size_bytes(self) -> int:
        """Return how large the store is on the disk."""
        log = self._require().log
        return await self._submit(_Call(read=lambda _: log.size_bytes))

    async def _submit(self, call: _Call) -> Any:
        with self._gate:
            opened = self._require()
            if opened.process != os.getpid():
                raise RuntimeError(f"{self!r} is open in process {opened.process}; a fork of that has no part in it")
            self._queue.put(call)
        return await asyncio.wrap_future(call.future)

    def _require(self) -> _Open:
        if self._open is None:
            raise RuntimeError(f"{self!r} is not open: await open() first")
        return self._open

    def _start(self) -> None:
        lock, tables = FolderLock(self.folder / LOCK_NAME), Tables()
        log = Log(self.folder, self._files, compact_bytes=self._compact_bytes)
        began = time.perf_counter()
        try:
            missing = [place for place in (self.folder, *self.folder.parents) if not place.exists()]
            # prompts and hashes of keys: for this user only
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for place in missing:
                self._files.sync_folder(place.parent)  # a name is on the disk when the folder that holds it is
            lock.take(self.folder)
            self.recovery = log.open(tables.apply)
        except BaseException as error:
            log.close()
            lock.release()
            if isinstance(error, OSError):
                why = error.strerror or error
                raise StorageError(f"the JSON store {self.folder} cannot be opened: {why}") from error
            raise
        if self.recovery.cut is not None:
            _log.warning("json store mended", cut=self.recovery.cut, seconds=round(time.perf_counter() - began, 3))
        thread = threading.Thread(target=self._run, args=(tables, log), name="koda-json-store", daemon=True)
        self._open = _Open(tables, log, lock, thread, os.getpid())
        thread.start()

    def _stop(self, opened: _Open) -> None:
        opened.thread.join()
        opened.log.close()
        opened.lock.release()

    # --- in the thread ----------------------------------------------------------------------------------------------

    def _run(self, tables: Tables, log: Log) -> None:
        while True:
            waiting = [self._queue.get()]
            while len(waiting) < _GROUP:
                try:
                    waiting.append(self._queue.get_nowait())
                except Empty:
                    break
            calls = [call for call in waiting if call is not None and call.future.set_running_or_notify_cancel()]
            self._write(tables, log, [call for call in calls if call.write is not None])
            for call in calls:
                if call.read is not None:
                    _answer(call, *_attempt(call.read, tables))
            if None in waiting:
                return
            if log.wants_compaction:
                self._compact(tables, log)

    def _write(self, tables: Tables, log: Log, calls: list[_Call]) -> None:
        done: list[tuple[_Call, Transaction, Any, BaseException | None]] = []
        for call in calls:
            assert call.write is not None
            transaction = Transaction(tables)
            result, error = _attempt(call.write, transaction)
            if error is not None:
                transaction.undo()
            done.append((call, transaction, result, error))
        texts = [transaction.text for _, transaction, _, _ in done]
        try:
            if any(texts):
                log.append([text for text in texts if text is not None])
        except Exception as error:
            for _, transaction, _, _ in reversed(done):
                transaction.undo()
            for call in calls:  # refusals too: they may rest on what was just undone
                call.future.set_exception(error)
            return
        for call, _, result, error in done:
            if error is None and call.then is not None:
                call.then(result)
            _answer(call, result, error)

    def _compact(self, tables: Tables, log: Log) -> None:
        try:
            log.compact(tables.lines())
        except (OSError, MemoryError) as error:
            _log.warning("json store not compacted", folder=str(self.folder), error=str(error))


def _attempt(work: Callable[[Any], Any], argument: object) -> tuple[Any, BaseException | None]:
    try:
        return work(argument), None
    except BaseException as error:
        return None, error


def _answer(call: _Call, result: object, error: BaseException | None) -> None:
    if error is not None:
        call.future.set_exception(error)
    else:
        call.future.set_result(result)
