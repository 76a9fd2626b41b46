from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koda_ray.errors import InvalidInput, StorageError
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import Batch
from tests.state.json_child import rows_of, start
from tests.state.records import active_session, new_session, say
from tests.state.store_conformance import Connect, StoreConformance

ALWAYS, USUAL = 1, 8 << 20


class TestJson(StoreConformance):
    """Once with a log that is never turned into a snapshot, once with one after every commit."""

    @pytest.fixture(params=[USUAL, pytest.param(ALWAYS, marks=pytest.mark.full)], ids=["log", "snapshots"])
    async def connect(self, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
        """One process has one store: whoever asks while it is open gets that one."""
        store = JSONStore(tmp_path / "store", compact_bytes=request.param)

        async def connect() -> JSONStore:
            await store.open()
            return store

        yield connect
        await store.open()
        before = rows_of(store)
        await store.close()
        await store.open()
        assert rows_of(store) == before, "what is read back is not what was in memory"
        await store.close()


async def test_files_are_for_their_user_only_and_can_be_read(tmp_path: Path) -> None:
    store = JSONStore(tmp_path / "new" / "store")
    await store.open()
    mine = await active_session(store)
    await store.commit(mine.id, 1, Batch(events=[say("a needle")]))
    key = await store.create_api_key("ann")
    await store.close()
    files = sorted((tmp_path / "new" / "store").iterdir())
    assert [path.name for path in files] == ["lock", "log-000001.json", "snapshot-000001.json"]
    assert {path.stat().st_mode & 0o077 for path in [*files, files[0].parent]} == {0}
    assert b"a needle" in files[1].read_bytes() and key.encode() not in files[1].read_bytes()


async def test_a_second_process_is_told_who_has_it(tmp_path: Path) -> None:
    store = JSONStore(tmp_path / "store")
    child = start("hold", tmp_path / "store")
    try:
        assert child.stdout is not None
        await asyncio.to_thread(child.stdout.readline)
        with pytest.raises(StorageError, match=rf"in use by process {child.pid} on .*json_child.*sqlite") as caught:
            await store.open()
        assert caught.value.code == "STORE_LOCKED"
    finally:
        child.kill()
        await asyncio.to_thread(child.communicate)
    await store.open()  # a killed process holds nothing
    with pytest.raises(StorageError, match="this very process"):
        await JSONStore(tmp_path / "store").open()
    assert len(await store.list_sessions("ann")) == 1
    await store.close()


async def test_it_does_not_travel(tmp_path: Path) -> None:
    store = JSONStore(tmp_path / "store")
    with pytest.raises(InvalidInput, match=r"Ray actor.*DATABASE_PROVIDER=sqlite"):
        pickle.dumps(store)
    with pytest.raises(RuntimeError, match="not open"):
        await store.list_sessions("ann")
    await store.open()
    child = os.fork()
    if child == 0:
        try:
            asyncio.set_event_loop(None)
            asyncio._set_running_loop(None)
            asyncio.run(store.list_sessions("ann"))
        except RuntimeError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1]) == 7
    await store.close()


async def test_a_cancelled_caller_still_announces(tmp_path: Path) -> None:
    store = JSONStore(tmp_path / "store")
    await store.open()
    mine = await active_session(store)
    for _ in range(30):
        before = len(await store.events(mine.id))
        with store.notifier.subscribe(mine.id) as changed:
            commit = asyncio.create_task(store.commit(mine.id, 1, Batch(events=[say("x")])))
            await asyncio.sleep(0)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            written = len(await store.events(mine.id)) > before  # reads come after the writes before them
            await asyncio.sleep(0)
            assert changed.is_set() == written
    await store.close()


async def test_the_log_becomes_a_snapshot_when_it_has_grown(tmp_path: Path) -> None:
    store = JSONStore(tmp_path / "store", compact_bytes=20_000)
    await store.open()
    mine = await active_session(store)
    for index in range(100):
        await store.commit(mine.id, 1, Batch(events=[say(str(index), filler="x" * 1000)]))
    await store.close()
    names = sorted(path.name for path in (tmp_path / "store").iterdir())
    assert len(names) == 3 and "log-000001.json" not in names
    await store.open()
    assert [event.data["text"] for event in await store.events(mine.id, after=1)] == [str(n) for n in range(100)]
    assert store.recovery is not None and store.recovery.rows > 50 and store.recovery.cut is None
    await store.close()


async def test_a_full_disk_is_named_and_loses_nothing(small_disk: Path) -> None:
    store = JSONStore(small_disk / "store", compact_bytes=100_000)
    await store.open()
    mine = await active_session(store)
    acknowledged = 1
    with pytest.raises(StorageError, match=r"store cannot grow: the disk is full") as caught:
        for index in range(200):
            await store.commit(mine.id, 1, Batch(events=[say("x" * 20_000, index=index)]))
            acknowledged += 1
    assert caught.value.code == "DISK_FULL" and caught.value.retryable
    assert acknowledged > 5
    assert [event.seq for event in await store.events(mine.id, limit=1000)] == list(range(1, acknowledged + 1))
    process = await asyncio.create_subprocess_exec("mount", "-o", "remount,size=8m", str(small_disk))
    assert await process.wait() == 0
    (made,) = await store.commit(mine.id, 1, Batch(events=[say("room again")]))  # not even opened anew
    assert made.seq == acknowledged + 1
    await store.close()
    await store.open()
    assert len(await store.events(mine.id, limit=1000)) == acknowledged + 1
    await store.close()


async def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match=r"file/store cannot be opened: "):
        await JSONStore(tmp_path / "file" / "store").open()
    (tmp_path / "file2").mkdir()
    (tmp_path / "file2" / "thesis.txt").write_text("x")
    with pytest.raises(StorageError, match=r"is no JSON store and holds other files \(thesis\.txt\)"):
        await JSONStore(tmp_path / "file2").open()
    assert (tmp_path / "file2" / "thesis.txt").read_text() == "x"


async def test_reopening_again_and_again_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    import threading

    store = JSONStore(tmp_path / "store")
    await store.open()
    await new_session(store)
    await store.close()
    before = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await store.open()
        await store.open()
        await store.close()
        await store.close()
    assert {thread.name for thread in threading.enumerate()} & {"koda-json-store"} == set()
    assert len(os.listdir("/proc/self/fd")) <= before[1]


async def test_whoever_opens_it_while_it_is_closed_gets_it_afterwards(tmp_path: Path) -> None:
    store = JSONStore(tmp_path / "store")
    await store.open()
    mine = await new_session(store)
    for _ in range(10):
        await asyncio.gather(store.close(), store.close(), store.open())
        assert (await store.get_session(mine.id)).id == mine.id
    await store.close()
