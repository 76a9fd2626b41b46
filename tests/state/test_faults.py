"""Processes that fight, and processes that are killed."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koda_ray.errors import Fenced
from koda_ray.state import checkpoint
from koda_ray.state.keys import blob_key
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage, sha256
from koda_ray.types import now
from tests.state.child import generation, start
from tests.state.records import SOON, active_session, new_session, say
from tests.state.records import checkpoint as pointer

KILLS = 25
"""At random instants of saving one checkpoint after the other."""

_LIBSQL = pytest.param("libsql", marks=pytest.mark.full)
most_databases = pytest.mark.parametrize("database", ["sqlite", "postgres", _LIBSQL], indirect=True, scope="session")
"""Of which libSQL has one writer, as SQLite has, and takes longer."""
# of what takes seconds on each, one has it with every change
_SQLITE, _POSTGRES = (pytest.param(name, marks=pytest.mark.full) for name in ("sqlite", "postgres"))
most_of_all_postgres = pytest.mark.parametrize(
    "database", [_SQLITE, "postgres", _LIBSQL], indirect=True, scope="session"
)
most_of_all_sqlite = pytest.mark.parametrize("database", ["sqlite", _POSTGRES, _LIBSQL], indirect=True, scope="session")


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if database != "sqlite":
        return request.getfixturevalue(f"{database}_url")
    return f"sqlite:///{tmp_path / 'koda.db'}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[SqlStore]:
    store = SqlStore(url)
    await store.open()
    yield store
    await store.close()


def hear(child: subprocess.Popen[str]) -> dict[str, object]:
    assert child.stdout is not None
    line = child.stdout.readline()
    try:
        return json.loads(line)
    except ValueError:
        pytest.fail(f"the child ended: {line}{child.stdout.read()}")


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


@most_of_all_postgres
async def test_two_processes_fight_for_a_session(store: SqlStore, url: str) -> None:
    mine = await new_session(store)
    children = [start("fight", url, mine.id, name, 12) for name in ("left", "right")]
    try:
        for child in children:
            await asyncio.to_thread(hear, child)
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        reports = [await asyncio.to_thread(hear, child) for child in children]
    finally:
        for child in children:
            end(child)
    acknowledged = sorted(tuple(item) for report in reports for item in report["acknowledged"])  # type: ignore[attr-defined]
    stored = await store.events(mine.id, after=1, limit=10_000)
    assert [(event.seq, event.epoch, event.data["text"]) for event in stored] == acknowledged
    assert [event.seq for event in stored] == list(range(2, len(stored) + 2))
    assert [event.epoch for event in stored] == sorted(event.epoch for event in stored)
    after = await store.get_session(mine.id)
    assert after.epoch == sum(int(str(report["turns"])) for report in reports)
    assert after.seq == len(stored) + 1
    assert sum(int(str(report["fenced"])) for report in reports) > 0


@most_of_all_sqlite
async def test_a_partitioned_twin_cannot_write(store: SqlStore, url: str) -> None:
    mine = await active_session(store)
    child = start("append", url, mine.id)
    try:
        await asyncio.to_thread(hear, child)
        newer = await store.activate(mine.id, host="elsewhere", lease_until=now() + SOON)
        output, _ = await asyncio.to_thread(child.communicate)
    finally:
        end(child)
    assert Fenced.__name__ in output
    told = [json.loads(line)["seq"] for line in output.splitlines() if line.startswith('{"seq"')]
    last = (await store.get_session(mine.id)).seq
    assert not told or told[-1] == last
    (made,) = await store.commit(mine.id, newer.epoch, Batch(events=[say("mine")]))
    assert made.seq == last + 1


@most_databases
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
async def test_what_was_acknowledged_survives_a_kill(store: SqlStore, url: str, seed: int) -> None:
    mine = await active_session(store)
    child = start("append", url, mine.id)
    try:
        told = 0
        for _ in range(random.Random(seed).randint(1, 60)):
            told = int(str((await asyncio.to_thread(hear, child))["seq"]))
    finally:
        child.kill()
        output, _ = await asyncio.to_thread(child.communicate)
    for line in output.splitlines():
        if line.endswith("}"):
            told = json.loads(line)["seq"]
    survivor = SqlStore(url)
    await survivor.open()
    stored = await survivor.events(mine.id, limit=10_000)
    assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
    assert len(stored) >= told
    assert (len(stored) - 1) % 3 == 0  # a batch is there whole or not at all
    assert (await survivor.get_session(mine.id)).seq == len(stored)
    await survivor.commit(mine.id, 1, Batch(events=[say("goes on")]))
    await survivor.close()


@pytest.mark.parametrize("step", ["blob", "manifest", "pointer", "done"])
@pytest.mark.full
async def test_a_kill_inside_a_checkpoint_leaves_the_one_before(
    store: SqlStore, url: str, tmp_path: Path, step: str
) -> None:
    storage, mine = Storage(str(tmp_path / "storage")), await active_session(store)
    files = {"src/App.tsx": b"app", "src/old.tsx": b"old"}
    first, key = await checkpoint.save(
        storage,
        checkpoint.CheckpointTree(files=files, modes={"src/App.tsx": 0o755}, folders=["public/old"]),
        state=mine.state,
        event_seq=1,
    )
    record = pointer(mine, 0)
    await store.commit(mine.id, 1, Batch(checkpoint=type(record)(**(vars(record) | {"manifest_key": key}))))
    child = start("checkpoint", url, tmp_path / "storage", mine.id, step)
    try:
        assert await asyncio.to_thread(hear, child) == {"stopped": step}
    finally:
        await asyncio.to_thread(end, child)
    latest = await store.latest_checkpoint(mine.id)
    assert latest is not None
    manifest = await checkpoint.load(storage, latest.manifest_key)
    restored = await checkpoint.read_files(storage, manifest)
    if step == "done":
        assert (manifest.modes, manifest.folders) == ({"src/new0.tsx": 0o755}, ("public/new",))
        assert latest.manifest_key != key
        assert "src/old.tsx" not in restored
        assert len(restored) == 21
    else:
        assert latest.manifest_key == key
        assert (restored, manifest.modes, manifest.folders) == (files, {"src/App.tsx": 0o755}, ("public/old",))
        # and whoever takes over saves on top of what the killed one left
        second, _ = await checkpoint.save(
            storage,
            checkpoint.CheckpointTree(files={f"src/new{n}.tsx": f"new {n}".encode() for n in range(20)}),
            state=mine.state,
            event_seq=2,
            previous=first,
        )
        assert len(await checkpoint.read_files(storage, second)) == 20


@pytest.mark.full
async def test_killed_at_any_instant_a_checkpoint_is_the_one_before_or_whole(
    store: SqlStore, url: str, tmp_path: Path
) -> None:
    storage, mine = Storage(str(tmp_path / "storage")), await active_session(store)
    told = begun = 0
    for seed in range(KILLS):
        chance = random.Random(seed)
        child = start("generations", url, tmp_path / "storage", mine.id)
        try:
            for _ in range(chance.randint(1, 4)):
                told = int(str((await asyncio.to_thread(hear, child))["number"]))
            await asyncio.sleep(chance.uniform(0, 0.03))
        finally:
            child.kill()
            output, _ = await asyncio.to_thread(child.communicate)
        told = max([told, *(json.loads(line)["number"] for line in output.splitlines() if line.endswith("}"))])
        latest = await store.latest_checkpoint(mine.id)
        assert latest is not None
        manifest = await checkpoint.load(storage, latest.manifest_key)
        files = await checkpoint.read_files(storage, manifest)
        number = int(files["src/number"])
        wanted = generation(number)
        assert told <= number <= told + 1, f"seed {seed}"
        assert (files, [*manifest.folders]) == (wanted.files, wanted.folders), f"seed {seed}"
        assert manifest.modes == {path: mode for path, mode in wanted.modes.items() if mode != 0o644}, f"seed {seed}"
        following = generation(number + 1).files[f"src/{number + 1}/0.tsx"]
        begun += await storage.exists(blob_key(mine.user_id, sha256(following)))
        told = number
    assert begun > 0, "no kill was in the middle of one"
