"""Killed anywhere on the way back or to a fork: the store has what was or what comes, and nothing between."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.state.json_store import JSONStore
from koda_ray.state.past import UNDO
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from tests.state import records
from tests.state.child import REPOSITORY
from tests.state.conformance.history import back, forked, saved, told
from tests.state.records import SOON, active_session


@pytest.fixture(scope="module")
def victims() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.state.history_victim"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory: who is killed needs no disk to survive on."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


def store_at(kind: str, folder: Path) -> Store:
    return JSONStore(folder) if kind == "json" else SqlStore(folder / "koda.db")


async def made(kind: str, folder: Path) -> tuple[str, str]:
    """A session with two answers, calls, two checkpoints, a todo and an upload; returns its id and the first point."""
    folder.mkdir()
    store = store_at(kind, folder)
    await store.open()
    mine = await active_session(store)
    await store.add_asset(records.asset(of=mine))
    first = await told(store, mine, 1, state="one", calls=2)
    await saved(store, mine, 2)
    await told(store, mine, 2, state="two", calls=1)
    await saved(store, mine, 3)
    await store.commit(
        mine.id, mine.epoch, Batch(beads=[records.bead(mine, "b", 1)], approvals=[records.approval(mine)])
    )
    await store.close()
    return mine.id, first.id


async def look(store: Store, session_id: str) -> tuple[object, ...]:
    row = await store.get_session(session_id)
    return (
        row.state.prompt,
        [m.position for m in await store.messages(session_id)],
        [(c.id, c.status) for c in await store.tool_calls(session_id)],
        [b.id for b in await store.beads(session_id)],
        [a.status for a in await store.approvals(session_id)],
        [c.manifest_key for c in await store.checkpoints(session_id)],
        [(h.point, h.undone) for h in await store.heads(session_id)],
        [e.seq for e in await store.events(session_id)],
        sorted((await store.named_keys(session_id)).values()),
    )


@pytest.mark.parametrize("action", ["rewind", "fork"])
@pytest.mark.parametrize("kind", ["sql", "json"])
@pytest.mark.full
async def test_killed_at_every_instant_it_is_the_old_or_the_new(
    victims: subprocess.Popen[str], kind: str, action: str, folder: Path
) -> None:
    assert victims.stdin is not None and victims.stdout is not None
    session_id, point = await made(kind, folder / "whole")
    seen: dict[str, list[tuple[object, ...]]] = {"old": [], "new": []}
    instant = 0
    while True:
        place = folder / str(instant)
        await asyncio.to_thread(shutil.copytree, folder / "whole", place)
        victims.stdin.write(f"{kind} {place} {action} {session_id} {point} {instant}\n")
        victims.stdin.flush()
        status = int(await asyncio.to_thread(victims.stdout.readline))
        assert status in (0, -signal.SIGKILL)
        store = store_at(kind, place)
        await store.open()
        sessions = [row.id for row in await store.list_sessions("ann")]
        happened = len(sessions) == 2 if action == "fork" else bool(await store.heads(session_id))
        found = await look(store, session_id)
        if action == "fork" and happened:
            (other,) = set(sessions) - {session_id}
            found = (*found, await look(store, other))
        seen["new" if happened else "old"].append(found)
        # whatever it is, from there it goes on
        row = await store.activate(session_id, host="h", lease_until=records.now() + SOON)
        if action == "fork":
            again, _ = await store.fork(session_id, user_id="ann", point=point, key="fork", body={}, plan=forked)
            assert (
                len(await store.list_sessions("ann")) == 2 and (await store.get_session(again.id)).state.prompt == "one"
            )
        elif happened:
            await store.rewind(session_id, row.epoch, UNDO, back)
            assert (await store.get_session(session_id)).state.prompt == "two"
        else:
            await store.rewind(session_id, row.epoch, point, back)
            assert (await store.get_session(session_id)).state.prompt == "one"
        await store.close()
        await asyncio.to_thread(shutil.rmtree, place)
        instant += 1
        if status == 0 and instant > 1:
            break
    assert len(seen["old"]) >= (12 if kind == "sql" else 2) and len(seen["new"]) >= 3, seen
    for name, all_ in seen.items():
        assert all(each == all_[0] for each in all_), f"{name} is not one thing: {all_}"
