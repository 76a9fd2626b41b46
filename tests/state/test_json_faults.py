"""The JSON store and everything that can go wrong with a disk: kills, errors, short writes, torn and damaged files."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from koda_ray.errors import StorageError
from koda_ray.state.json_files import Files
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import Batch
from tests.state.json_child import COMPACT_BYTES, Acknowledged, Writers, rows_of, start
from tests.state.records import active_session, say

SEED = int(os.environ.get("KODA_TEST_SEED", "1"))


def report(child: subprocess.Popen[str]) -> dict[str, float]:
    output, _ = child.communicate(timeout=240)
    assert child.returncode == 0, f"{output}\nKODA_TEST_SEED={SEED} makes the same kills"
    return json.loads(output.splitlines()[-1])


@pytest.mark.full
async def test_two_hundred_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    done = await asyncio.to_thread(report, start("kills", tmp_path, SEED, 200))
    assert done["kills"] >= 200
    assert done["commits"] > 200 and done["in_recovery"] > 5


@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.full
async def test_a_kill_at_every_call_to_the_disk(tmp_path: Path, when: str) -> None:
    done = await asyncio.to_thread(report, start("every_call", tmp_path, when))
    assert done["calls"] > 40
    assert done["generations"] >= ["snapshot-000003.json"]  # type: ignore[operator]


class Failing(Files):
    """A disk that fails at one call, having done half of it, and from then on as well where it is ``for_good``."""

    def __init__(self, at: int, error: int, *, for_good: bool = False, size: int = 1 << 30) -> None:
        self.left = at
        self.error = error
        self.for_good = for_good
        self.size = size
        self.failed = 0

    def _call(self, half: Callable[[], object] = lambda: None) -> None:
        self.left -= 1
        if self.left == 0 or (self.for_good and self.left < 0):
            self.failed += 1
            half()
            raise OSError(self.error, os.strerror(self.error))

    def write(self, descriptor: int, data: memoryview) -> int:
        self._call(lambda: super(Failing, self).write(descriptor, data[: len(data) // 2]))
        return super().write(descriptor, data[: self.size])

    def sync(self, descriptor: int) -> None:
        self._call()
        super().sync(descriptor)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._call()
        super().truncate(descriptor, size_bytes)

    def rename(self, source: Path, target: Path) -> None:
        self._call()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._call()
        super().remove(path)

    def create(self, path: Path) -> int:
        self._call()
        return super().create(path)

    def open(self, path: Path) -> int:
        self._call()
        return super().open(path)


async def write_with(folder: Path, files: Files, turns: int, acknowledged: Acknowledged) -> None:
    """Open, look, write; an error of the disk ends it."""
    store = JSONStore(folder, files=files, compact_bytes=COMPACT_BYTES)

    def acknowledge(writer: int, turn: int) -> None:
        acknowledged[writer] = turn + 1

    try:
        await store.open()
        writers = Writers(store, acknowledge)
        there = await writers.check(acknowledged)
        acknowledged.update(there)
        await writers.write(there, turns)
    except StorageError as error:
        assert isinstance(files, Failing) and files.failed, error
        assert error.code in ("STORAGE_FAILED", "DISK_FULL"), error
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("error", "for_good"), [(errno.EIO, False), (errno.ENOSPC, False), (errno.EIO, True)], ids=["io", "full", "dead"]
)
@pytest.mark.full
async def test_an_error_at_every_call_to_the_disk(tmp_path: Path, error: int, for_good: bool) -> None:
    at = 0
    while True:
        at += 1
        folder, acknowledged = tmp_path / str(at), Acknowledged()
        files = Failing(at, error, for_good=for_good)
        await write_with(folder, files, 8, acknowledged)
        for _ in range(2):
            await write_with(folder, Files(), 1, acknowledged)
            assert set(acknowledged) == {0, 1, 2}
        shutil.rmtree(folder)
        if not files.failed:
            break
    assert at > 30


class PowerCut(Failing):
    """A disk that keeps what was synced and nothing else: names of a synced folder, bytes of synced files.

    Other disks keep more than they were asked for: the newest name before older ones, or all names before any bytes.
    """

    def __init__(self, folder: Path, at: int, *, kept: str) -> None:
        super().__init__(at, errno.EIO, for_good=True)
        self.folder = folder
        self.kept = kept
        self.newest: dict[str, int] = {}
        self.names: dict[str, int] = {}
        self.bytes: dict[int, bytes] = {}

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        about = os.fstat(descriptor)
        if not stat.S_ISDIR(about.st_mode):
            self.bytes[about.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()
        elif self.folder.exists() and about.st_ino == self.folder.stat().st_ino:
            self.names = self._listed()

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.newest = {target.name: target.stat().st_ino}

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        self.bytes[os.fstat(descriptor).st_ino] = b""
        return descriptor

    def remove(self, path: Path) -> None:
        self.left -= 1
        if self.left <= 0:
            raise OSError(errno.EIO, "off")
        path.rename(path.with_name(f"removed-{path.name}-{self.left}"))  # its number must not be given to another

    def _listed(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self.folder.iterdir() if not path.name.startswith("removed-")}

    def restore(self) -> None:
        """Leave what the next one finds when there is power again."""
        names = {"synced": self.names, "newest": self.names | self.newest, "all": self._listed()}[self.kept]
        found = {name: self.bytes.get(number, b"") for name, number in names.items() if name != "lock"}
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for name, data in found.items():
            (self.folder / name).write_bytes(data)


@pytest.mark.parametrize("kept", ["synced", "newest", "all"])
@pytest.mark.full
async def test_a_power_cut_at_every_call_to_the_disk(tmp_path: Path, kept: str) -> None:
    at = 0
    while True:
        at += 1
        folder, acknowledged = tmp_path / str(at), Acknowledged()
        disk = PowerCut(folder, at, kept=kept)
        await write_with(folder, disk, 8, acknowledged)
        disk.restore()
        for _ in range(2):
            await write_with(folder, Files(), 1, acknowledged)
            assert set(acknowledged) == {0, 1, 2}
        shutil.rmtree(folder)
        if not disk.failed:
            break
    assert at > 30


async def test_a_store_goes_on_after_a_write_that_failed(tmp_path: Path) -> None:
    files = Failing(1 << 30, errno.EIO)
    store = JSONStore(tmp_path / "store", files=files)
    await store.open()
    mine = await active_session(store)
    memory = rows_of(store)
    files.left = 1
    with store.notifier.subscribe(mine.id) as changed:
        with pytest.raises(StorageError, match="Input/output error"):
            await store.commit(mine.id, 1, Batch(events=[say("lost")]))
        assert rows_of(store) == memory and not changed.is_set()
    (made,) = await store.commit(mine.id, 1, Batch(events=[say("kept")]))
    assert made.seq == 2
    files.left = 2  # now the sync: what the disk holds is not known any more
    with pytest.raises(StorageError, match="Input/output error"):
        await store.commit(mine.id, 1, Batch(events=[say("perhaps")]))
    with pytest.raises(StorageError, match=r"takes no more writes: .*; open it anew") as caught:
        await store.commit(mine.id, 1, Batch(events=[say("no")]))
    assert not caught.value.retryable
    assert len(await store.events(mine.id)) == 2
    health = await store.health()
    assert not health.ok and "open it anew" in health.detail
    assert (await store.metrics()).failures == 3
    await store.close()
    await store.open()
    assert [event.data.get("text") for event in await store.events(mine.id, after=1)] == ["kept"]
    await store.commit(mine.id, 1, Batch(events=[say("again")]))
    await store.close()


async def test_a_disk_that_takes_a_few_bytes_at_a_time(tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    for _ in range(3):
        await write_with(tmp_path / "store", Failing(1 << 30, 0, size=7), 5, acknowledged)
    assert acknowledged == {0: 15, 1: 15, 2: 15}


# --- files that are not as they were written


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A store that was closed: a snapshot, and in its log a first line, an activation and ten commits."""
    store = JSONStore(tmp_path / "store", compact_bytes=1)
    await store.open()
    mine = await active_session(store)
    await store.close()
    store = JSONStore(tmp_path / "store")
    await store.open()
    for index in range(10):
        await store.commit(mine.id, 1, Batch(events=[say(str(index))]))
    await store.close()
    return tmp_path / "store"


def log_of(folder: Path) -> Path:
    (log,) = folder.glob("log-*.json")
    return log


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


async def texts(folder: Path) -> list[object]:
    store = JSONStore(folder)
    await store.open()
    (mine,) = await store.list_sessions("ann")
    found = [event.data["text"] for event in await store.events(mine.id, after=1)]
    await store.commit(mine.id, 1, Batch(events=[say("and on")]))
    await store.close()
    return found


async def refused(folder: Path) -> StorageError:
    before = files_of(folder)
    with pytest.raises(StorageError) as caught:
        await JSONStore(folder).open()
    assert files_of(folder) == before, "a refusal changed something"
    assert caught.value.code == "DAMAGED" and not caught.value.retryable
    return caught.value


@pytest.mark.full
async def test_a_log_that_ends_anywhere_loses_only_what_was_torn(folder: Path) -> None:
    log = log_of(folder)
    data = log.read_bytes()
    starts = [index + 1 for index, byte in enumerate(data) if byte == 0x0A]
    for stop in [*range(starts[-3] - 2, starts[-2] + 2), *range(starts[-2] + 2, len(data), 7)]:
        log.write_bytes(data[:stop])
        whole = sum(start <= stop for start in starts) - 2
        assert await texts(folder) == [str(index) for index in range(whole)], stop
        assert await texts(folder) == [*(str(index) for index in range(whole)), "and on"]


@pytest.mark.parametrize("zeros", [1, 40, 9000])
async def test_blocks_that_were_never_written_are_cut(folder: Path, zeros: int) -> None:
    log = log_of(folder)
    data = log.read_bytes()
    log.write_bytes(data + bytes(zeros))
    assert len(await texts(folder)) == 10
    last = data.rindex(b"\n", 0, -1) + 1
    log.write_bytes(data[:last] + bytes(30) + data[last + 30 :])
    assert len(await texts(folder)) == 9
    (aside,) = folder.glob("torn-*")  # it was of full length, so it may have been acknowledged: it is kept
    assert aside.read_bytes() == bytes(30) + data[last + 30 :]


@pytest.mark.full
async def test_a_changed_byte_in_the_middle_is_refused_with_the_place_and_a_way_out(folder: Path) -> None:
    log = log_of(folder)
    data = log.read_bytes()
    starts = [0, *(index + 1 for index, byte in enumerate(data) if byte == 0x0A)]
    for place in [*range(starts[3], starts[4]), *range(0, starts[1], 5)]:
        log.write_bytes(data[:place] + bytes([data[place] ^ 0x11]) + data[place + 1 :])
        error = await refused(folder)
        line = 4 if place >= starts[3] else 1
        assert (error.context["line"], error.context["offset"]) == (line, starts[line - 1]), place
        assert str(log) in error.message and f"line {line}" in error.message
    # the way out that it names loses what follows, and nothing else
    log.write_bytes(data[: starts[3] + 50] + b"?" + data[starts[3] + 51 :])
    command = (await refused(folder)).message.rpartition(": ")[2]
    subprocess.run(shlex.split(command), check=True)
    assert await texts(folder) == ["0"]


@pytest.mark.parametrize("where", ["middle", "end"])
@pytest.mark.parametrize("what", [b"\n", b"hello\n", b"{}\n", b"00000002 00000000 {}\n00000002 00000000 {}\n"])
async def test_lines_of_somebody_else_are_refused(folder: Path, what: bytes, where: str) -> None:
    log = log_of(folder)
    lines = log.read_bytes().splitlines(keepends=True)
    place = 5 if where == "middle" else len(lines)
    log.write_bytes(b"".join([*lines[:place], what, *lines[place:]]))
    assert (await refused(folder)).context["line"] == place + 1


async def test_whole_lines_in_the_wrong_place_are_refused(folder: Path, tmp_path: Path) -> None:
    log = log_of(folder)
    data = log.read_bytes()
    lines = data.splitlines(keepends=True)
    for wrong in (lines[:3] + lines[4:], [*lines, lines[-1]], [*lines[:3], lines[4], lines[3], *lines[5:]]):
        log.write_bytes(b"".join(wrong))
        assert "should follow" in (await refused(folder)).message
    other = JSONStore(tmp_path / "other")
    await other.open()
    await active_session(other)
    await other.close()
    theirs = (tmp_path / "other" / "log-000001.json").read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], theirs[1], *lines[4:]]))
    assert (await refused(folder)).context["line"] == 4
    log.write_bytes(b"".join(theirs))
    assert "another store or generation" in (await refused(folder)).message
    log.write_bytes(data)
    assert len(await texts(folder)) == 10


async def test_missing_and_empty_files_are_refused(folder: Path, tmp_path: Path) -> None:
    log = log_of(folder)
    (snapshot,) = folder.glob("snapshot-*")
    for path, why in ((log, "is not there"), (snapshot, "has commits, and")):
        data = path.read_bytes()
        path.unlink()
        assert why in (await refused(folder)).message
        path.write_bytes(b"")
        assert "the file is empty" in (await refused(folder)).message
        path.write_bytes(data)
    whole = snapshot.read_bytes()
    for damaged in (whole[:-1], whole[: whole.rindex(b"\n", 0, -1) + 1], whole + b"x\n", whole.replace(b"ann", b"bob")):
        snapshot.write_bytes(damaged)
        assert (await refused(folder)).context["path"] == str(snapshot)
    snapshot.write_bytes(whole)
    assert len(await texts(folder)) == 10


async def test_a_newer_format_is_left_alone(folder: Path) -> None:
    from koda_ray.state.json_files import frame

    (snapshot,) = folder.glob("snapshot-*")
    header, rest = snapshot.read_bytes().split(b"\n", 1)
    about = json.loads(header[18:])
    snapshot.write_bytes(frame(json.dumps({**about, "version": 99}), 0) + rest)
    with pytest.raises(StorageError, match=r"version 99, newer than 2 .* upgrade koda_ray") as caught:
        await JSONStore(folder).open()
    assert caught.value.code == "SCHEMA_NEWER"
