"""Other processes for tests: ``python -m tests.state.child NAME ARGUMENTS``."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koda_ray.state.checkpoint import CheckpointTree

REPOSITORY = Path(__file__).resolve().parents[2]


def start(name: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a child; its output and errors come through one pipe."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.state.child", name, *map(str, arguments)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def say(**values: object) -> None:
    """Tell the parent something; it is through when this returns."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def open_store(path: str, index: str) -> None:
    from koda_ray.state.sql import SqlStore
    from tests.state.records import new_session

    store = SqlStore(path)
    await store.open()
    await new_session(store, f"user-{index}")
    await store.close()


async def cost(path: str) -> None:
    import koda_ray.state.store

    assert koda_ray.state.store
    before = own_mb()
    from koda_ray.state.sql import SqlStore
    from koda_ray.types import new_id

    store = SqlStore(path)
    await store.open()
    await store.events(new_id("ses"))
    await store.ensure_user("ann")
    loaded = {name: any(module.split(".")[0] == name for module in sys.modules) for name in ("alembic", "fsspec")}
    say(own_mb=own_mb() - before, orm="sqlalchemy.orm" in sys.modules, **loaded)
    await store.close()


def own_mb() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))) / 1024


async def fight(path: str, session_id: str, name: str, rounds: str) -> None:
    """Take a session again and again, and write until fenced; report what was acknowledged and what was refused.

    Not before the other one took it too: a busy machine may let it begin late.
    """
    from koda_ray.errors import Fenced
    from koda_ray.state.records import Batch
    from koda_ray.state.sql import SqlStore
    from koda_ray.types import now
    from tests.state.records import SOON
    from tests.state.records import say as event

    store = SqlStore(path)
    await store.open()
    say(ready=True)
    await asyncio.to_thread(sys.stdin.readline)
    acknowledged: list[tuple[int, int, str]] = []
    fenced = turn = 0
    alone = True
    while turn < int(rounds) or alone:
        mine = await store.activate(session_id, host=name, lease_until=now() + SOON)
        turn += 1
        alone = mine.epoch == turn
        for step in range(15):
            text = f"{name}-{turn}-{step}"
            try:
                made = await store.commit(session_id, mine.epoch, Batch(events=[event(text), event(text)]))
            except Fenced:
                fenced += 1
                break
            acknowledged += [(item.seq, item.epoch, text) for item in made]
    await store.close()
    say(acknowledged=acknowledged, fenced=fenced, turns=turn)


async def append(path: str, session_id: str) -> None:
    """Write events for ever, and tell each that was acknowledged."""
    from koda_ray.state.records import Batch
    from koda_ray.state.sql import SqlStore
    from tests.state.records import say as event

    store = SqlStore(path)
    await store.open()
    mine = await store.get_session(session_id)
    count = 0
    while True:
        made = await store.commit(session_id, mine.epoch, Batch(events=[event(str(count), filler="x" * 3000)] * 3))
        count += 1
        say(seq=made[-1].seq)


async def checkpoint(path: str, folder: str, session_id: str, stop_at: str) -> None:
    """Save a second checkpoint over the first and stop dead at one of its steps, for the parent to kill."""
    from koda_ray.state import checkpoint
    from koda_ray.state.records import Batch, CheckpointRecord
    from koda_ray.state.sql import SqlStore
    from koda_ray.state.storage import Storage
    from koda_ray.types import new_id, now

    class Stopping(Storage):
        puts = 0

        async def put(self, key: str, data: bytes, *, synced: bool = True) -> None:
            if stop_at == "manifest":
                await stop()
            await super().put(key, data, synced=synced)

        async def put_many(self, objects: object) -> None:
            assert isinstance(objects, dict)
            keys = list(objects)
            if stop_at == "blob":
                await super().put_many({key: objects[key] for key in keys[: len(keys) // 2]})
                await stop()
            await super().put_many(objects)

    async def stop() -> None:
        say(stopped=stop_at)
        await asyncio.Event().wait()

    store, storage = SqlStore(path), Stopping(folder)
    await store.open()
    mine = await store.get_session(session_id)
    pointer = await store.latest_checkpoint(session_id)
    assert pointer is not None
    previous = await checkpoint.load(storage, pointer.manifest_key)
    files = await checkpoint.read_files(storage, previous)
    del files["src/old.tsx"]
    modes, folders = {"src/App.tsx": 0o644, "src/new0.tsx": 0o755}, ["public/new"]
    files |= {f"src/new{index}.tsx": f"new {index}".encode() for index in range(20)}
    manifest, key = await checkpoint.save(
        storage,
        checkpoint.CheckpointTree(files=files, modes=modes, folders=folders),
        state=mine.state,
        event_seq=mine.seq,
        previous=previous,
    )
    if stop_at == "pointer":
        await stop()
    record = CheckpointRecord(
        id=new_id("ckp"),
        session_id=mine.id,
        user_id=mine.user_id,
        manifest_key=key,
        trigger="todo",
        event_seq=manifest.event_seq,
        file_count=len(files),
        total_bytes=manifest.total_bytes,
        created_at=now(),
    )
    await store.commit(mine.id, mine.epoch, Batch(checkpoint=record))
    say(stopped="done")
    await stop()


def generation(number: int) -> CheckpointTree:
    """What a project holds in its n-th state: no two have a file, a mode or a folder in common but one that stays."""
    from koda_ray.state.checkpoint import CheckpointTree

    files = {f"src/{number}/{index}.tsx": f"{number} {index}".encode() * 400 for index in range(12)}
    return CheckpointTree(
        files={**files, "src/App.tsx": b"app", "src/number": str(number).encode()},
        modes={"src/App.tsx": 0o755 if number % 2 else 0o644},
        folders=[f"public/{number}"],
    )


async def generations(path: str, folder: str, session_id: str) -> None:
    """Save one state after the other for ever, and tell each that was acknowledged."""
    from koda_ray.state import checkpoint
    from koda_ray.state.records import Batch
    from koda_ray.state.sql import SqlStore
    from koda_ray.state.storage import Storage
    from koda_ray.types import new_id
    from tests.state.records import checkpoint as pointer

    store, storage = SqlStore(path), Storage(folder)
    await store.open()
    mine = await store.get_session(session_id)
    latest = await store.latest_checkpoint(session_id)
    previous = await checkpoint.load(storage, latest.manifest_key) if latest is not None else None
    number = 0 if previous is None else int(await checkpoint.read_file(storage, previous, "src/number"))
    while True:
        number += 1
        tree = generation(number)
        previous, key = await checkpoint.save(storage, tree, state=mine.state, event_seq=number, previous=previous)
        record = replace(pointer(mine, number), id=new_id("ckp"), manifest_key=key)
        await store.commit(mine.id, mine.epoch, Batch(checkpoint=record))
        say(number=number)


CHILDREN = {
    "open": open_store,
    "cost": cost,
    "fight": fight,
    "append": append,
    "checkpoint": checkpoint,
    "generations": generations,
}

if __name__ == "__main__":
    asyncio.run(CHILDREN[sys.argv[1]](*sys.argv[2:]))
