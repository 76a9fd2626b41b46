"""Session actors on a real Ray: starts that fail, deletions, calls that are not answered, and who follows."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sqlite3
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.exceptions import RayError
from ray.util import list_named_actors

from koda_ray.actors import directory as directories
from koda_ray.actors import session_calls
from koda_ray.actors.directory import RayDirectory
from koda_ray.actors.host import NAMESPACE, SESSION_OPTIONS, SessionHost, session_name
from koda_ray.actors.parts import sandbox_provider
from koda_ray.config import Settings
from koda_ray.errors import KodaError, NotFound, StorageError, Unavailable
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.serve import ray_folder
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import now
from tests.state import records

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    folder = ray_folder.make()
    ray.init(
        address="local", namespace=NAMESPACE, num_cpus=2, resources={CHROMIUM_RESOURCE: 1, SESSION_RESOURCE: 100},
        include_dashboard=False, logging_level="ERROR", log_to_driver=False, _temp_dir=folder,
    )  # fmt: skip
    yield
    ray.shutdown()
    ray_folder.remove(folder)


class Place:
    """A database, reached by actors through a link that a test may turn elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.real = folder / "real.db"
        self.link = folder / "koda.db"
        self.link.symlink_to(self.real)
        self.settings = Settings(
            storage_path=folder / "storage", database_path=self.link, sandbox_path=folder / "boxes", lease_s=0.6
        )
        self.store = SqlStore(self.real)
        self.directory = RayDirectory(
            self.settings,
            store=self.store,
            storage=Storage.from_settings(self.settings),
            sandboxes=self.sandboxes,
        )

    async def sandboxes(self) -> SandboxProvider:
        return sandbox_provider(self.settings, deployment=await self.store.deployment())

    async def until(self, done: Callable[[], bool], *, limit_s: float = 60) -> None:
        deadline = time.monotonic() + limit_s
        while not await asyncio.to_thread(done):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)

    async def pid(self, session_id: str) -> int:
        host = (await self.store.get_session(session_id)).host or ""
        return int(host.rpartition(":")[2])

    async def freeze(self, pid: int) -> None:
        """Stop a process, at a moment when it is not writing to the database."""
        async with asyncio.timeout(60):
            while True:
                os.kill(pid, signal.SIGSTOP)
                while psutil.Process(pid).status() != psutil.STATUS_STOPPED:  # it runs on for a moment
                    await asyncio.sleep(0.001)
                with contextlib.closing(sqlite3.connect(self.real, timeout=0, isolation_level=None)) as look:
                    try:
                        look.execute("BEGIN IMMEDIATE")
                        return
                    except sqlite3.OperationalError:
                        os.kill(pid, signal.SIGCONT)
                await asyncio.sleep(0.01)


def actors() -> set[str]:
    return {str(found["name"]) for found in list_named_actors(all_namespaces=True)}


@pytest.fixture
async def place(cluster: None, tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    await made.store.open()
    yield made
    for name in await asyncio.to_thread(actors):
        with contextlib.suppress(ValueError):
            ray.kill(ray.get_actor(name, namespace=NAMESPACE))
    await made.until(lambda: not actors())
    await made.store.close()


async def test_a_start_that_fails_is_told_and_poisons_nothing(place: Place) -> None:
    session = await records.new_session(place.store)
    broken = place.link.with_name("broken.db")
    broken.write_text("this is not a database" * 100)
    place.link.unlink()
    place.link.symlink_to(broken)
    with pytest.raises(StorageError, match="database"):
        await place.directory.wake(session.id)
    place.link.unlink()
    place.link.symlink_to(place.real)
    await place.directory.wake(session.id)  # the same name, a new process
    assert (await place.store.get_session(session.id)).epoch == 1

    with pytest.raises(NotFound):  # as when a wake comes after a deletion
        await place.directory.wake("ses_deleted")
    await place.until(lambda: actors() == {session_name(session.id, 0)})


async def test_a_deletion_ends_the_actor_and_later_calls_find_nothing(place: Place) -> None:
    session = await records.new_session(place.store)
    await place.directory.wake(session.id)
    for user_id, session_id in (("bob", session.id), ("ann", "ses_unknown")):
        with pytest.raises(NotFound) as refused:
            await place.directory.delete(session_id=session_id, user_id=user_id)
        assert refused.value.code == "NOT_FOUND"
    waking = asyncio.create_task(place.directory.wake(session.id))
    await place.directory.delete(session_id=session.id, user_id=session.user_id)
    await asyncio.wait({waking})
    with contextlib.suppress(KodaError):
        waking.result()
    await place.until(lambda: not actors())
    with pytest.raises(NotFound):
        await place.directory.delete(session_id=session.id, user_id=session.user_id)
    with pytest.raises(NotFound):
        await place.directory.preview(session_id=session.id, user_id=session.user_id)


async def test_a_discarded_session_ends_by_itself_once_it_has_saved(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await records.new_session(place.store, owes=None)
    await place.directory.wake(session.id)
    await place.directory.passivate(session.id)  # nobody discarded it
    pid = await place.pid(session.id)
    await place.store.discard_session(session.id, user_id="ann", delete_at=now() + timedelta(hours=1))
    monkeypatch.setattr(directories, "END_TIMEOUT_S", 0.1)
    await place.freeze(pid)
    ending = [asyncio.create_task(place.directory.passivate(session.id)) for _ in range(2)]
    try:
        assert not (await asyncio.wait(ending, timeout=3))[0]
        assert actors() == {session_name(session.id, 0)}
    finally:
        os.kill(pid, signal.SIGCONT)
    await asyncio.gather(*ending)
    row = await place.store.get_session(session.id)
    assert (row.status, row.host, row.lease_until) == ("suspended", None, None)
    await place.until(lambda: not actors())


async def test_a_call_that_is_not_answered_ends_and_may_be_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await records.new_session(place.store)
    await place.directory.wake(session.id)
    pid = await place.pid(session.id)
    monkeypatch.setattr(directories, "PREVIEW_TIMEOUT_S", 0.3)
    await place.freeze(pid)
    try:
        with pytest.raises(Unavailable) as error:
            await place.directory.preview(session_id=session.id, user_id=session.user_id)
        assert (error.value.status, error.value.retryable) == (503, True)
        assert session.id in error.value.message
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.setattr(directories, "END_TIMEOUT_S", 1.0)
    await place.freeze(pid)  # a deletion does not wait for it either
    await place.directory.delete(session_id=session.id, user_id=session.user_id)
    await place.until(lambda: not actors())


async def test_a_deletion_waits_for_no_head_and_is_finished_when_it_is_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await records.new_session(place.store)
    await place.directory.wake(session.id)
    is_back, named = threading.Event(), session_calls._named

    def hangs(*given: object, **options: object) -> object:
        is_back.wait(60)  # as it does while the head is away
        return named(*given, **options)

    monkeypatch.setattr(session_calls, "_named", hangs)
    monkeypatch.setattr(directories, "_HEAD_S", 0.1)
    monkeypatch.setattr(directories, "CALL_TIMEOUT_S", 0.1)
    try:
        await place.directory.delete(session_id=session.id, user_id=session.user_id)
        with pytest.raises(NotFound):
            await place.store.get_session(session.id, user_id=session.user_id)
        (closed,) = await place.store.closed_sessions()
        with pytest.raises(Unavailable, match="head does not answer") as error:
            await place.directory.finish(closed)
        assert error.value.retryable
    finally:
        is_back.set()
    monkeypatch.undo()
    await place.directory.finish(closed)
    assert await place.store.closed_sessions() == []
    await place.until(lambda: not actors())


async def test_a_session_is_forked_without_its_past_in_the_process_that_asks(place: Place) -> None:
    mine = await records.active_session(place.store)
    for n in range(40):
        long = [{"type": "text", "text": "x" * 500_000}]
        await place.store.commit(mine.id, mine.epoch, Batch(messages=[replace(records.message(mine, n), content=long)]))
    said = await place.store.messages(mine.id)
    asked: dict[str, Any] = {"session_id": mine.id, "user_id": mine.user_id, "key": "fork"}
    refused = {"point": "msg_nonsense", **asked, "key": "none"}
    with pytest.raises(NotFound) as caught:  # and whatever is loaded once is loaded
        await place.directory.fork(**refused)
    assert caught.value.code == "POINT_NOT_FOUND"
    tracemalloc.start()
    try:
        made = await place.directory.fork(point=said[29].id, **asked)
        here = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert here < 5_000_000
    assert [each.id for each in await place.store.messages(made)] == [each.id for each in said[:30]]
    assert await place.directory.fork(point=said[29].id, **asked) == made
    with pytest.raises(NotFound):
        await place.directory.fork(point=None, **{**asked, "user_id": "bob", "key": "bob"})


async def test_a_fork_whose_process_is_ended_may_be_made_again(place: Place) -> None:
    mine = await records.active_session(place.store)
    asked: dict[str, Any] = {"session_id": mine.id, "user_id": mine.user_id, "point": None, "key": "fork"}

    def processes() -> list[psutil.Process]:
        return [each for each in psutil.Process().children() if "koda_ray.actors.forking" in each.cmdline()]

    with contextlib.closing(sqlite3.connect(place.real, isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")  # so that it waits
        forking = asyncio.create_task(place.directory.fork(**asked))
        await place.until(lambda: bool(processes()))
        for each in processes():
            each.kill()
        with pytest.raises(Unavailable, match="try again with the same key") as caught:
            await forking
        assert caught.value.retryable
        busy.execute("ROLLBACK")
    made = await place.directory.fork(**asked)
    assert (await place.store.get_session(made)).state.forked_from == mine.id
    assert await place.directory.fork(**asked) == made


PERMISSIONS: dict[str, Any] = {"name": "permissions", "body": {"mode": "ask"}}


async def test_a_session_whose_process_falls_silent_is_taken_by_another_and_the_old_one_writes_no_more(
    place: Place,
) -> None:
    session = await records.new_session(place.store)
    await place.directory.wake(session.id)
    old = await place.pid(session.id)
    await place.freeze(old)  # as its machine's network does
    given = {"session_id": session.id, "user_id": session.user_id, **PERMISSIONS}
    try:
        await place.directory.submit(**given, key="k")
        await place.directory.wake(session.id)  # where the machine is slow, the command waited for this
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(old, signal.SIGCONT)
    row = await place.store.get_session(session.id)
    assert (row.activation, row.state.permissions.mode) == (1, "ask")
    assert await place.pid(session.id) != old
    assert await place.store.find_command(session.id, "k") is not None
    await place.until(lambda: not psutil.pid_exists(old))
    await place.until(lambda: actors() == {session_name(session.id, 1)})

    # one that Ray starts again under the old name gets no session, and ends
    twin = SessionHost.options(**SESSION_OPTIONS, name=session_name(session.id, 0)).remote(
        session.id, 0, directories.public_settings(place.settings)
    )
    with contextlib.suppress(RayError):
        await twin.ping.remote()
    await place.until(lambda: actors() == {session_name(session.id, 1)})
    assert (await place.store.get_session(session.id)).epoch == row.epoch
    epochs = [event.epoch for event in await place.store.events(session.id)]
    assert epochs == sorted(epochs) and {1, row.epoch} <= set(epochs)


async def test_a_session_is_spoken_to_while_the_clusters_head_is_dead(place: Place) -> None:
    awake, asleep = [await records.new_session(place.store) for _ in range(2)]
    line = [sys.executable, "-m", "tests.actors.headless", str(place.real), str(place.real.parent / "dead")]
    child = await asyncio.create_subprocess_exec(
        *line, awake.user_id, awake.id, asleep.id, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()
    answers = json.loads(out.splitlines()[-1])
    assert "waits" not in answers[awake.id], "whose process was known"
    assert answers[asleep.id]["waits"] is True
    assert await place.store.inbox(awake.id) == []
    (waiting,) = await place.store.inbox(asleep.id)
    assert asleep.id in {work.id for work in await place.store.owed(now())}
    await place.directory.wake(asleep.id)  # as the janitor does, once there is a head
    taken = await place.store.find_command(asleep.id, "k")
    assert taken is not None and taken.id == waiting.id
    assert (await place.store.get_session(asleep.id)).state.permissions.mode == "ask"
    given = {"session_id": asleep.id, "user_id": asleep.user_id, **PERMISSIONS}
    assert await place.directory.submit(**given, key="k") == taken


async def test_followers_of_several_servers_are_added_up(place: Place) -> None:
    session = await records.new_session(place.store)
    other = RayDirectory(
        place.settings, store=place.store, storage=Storage.from_settings(place.settings),
        sandboxes=place.sandboxes,
    )  # fmt: skip
    await place.directory.watch(session.id, 1)  # sleeps, and goes on sleeping
    assert await place.directory.shown(session_id=session.id, user_id=session.user_id) is None
    assert actors() == set()
    await place.directory.wake(session.id)
    assert await place.directory.shown(session_id=session.id, user_id=session.user_id) is None  # it has no sandbox
    handle = ray.get_actor(session_name(session.id, 0), namespace=NAMESPACE)
    for servers, count in ((place.directory, 2), (other, 3), (place.directory, 0)):
        await servers.watch(session.id, count)
    assert await handle.watch.remote(source="a third", watchers=1) == 4


UNWANTED = {
    "aiohttp", "alembic", "anthropic", "anyio", "botocore", "docker", "e2b", "fastapi", "fsspec", "google.genai",
    "httpx", "jiter", "modal", "numpy", "openai", "PIL", "playwright", "psycopg", "pydantic.v1", "ray.dashboard",
    "ray.serve", "rich", "s3fs", "sqlalchemy.dialects.postgresql", "sqlalchemy.orm", "starlette", "tenacity", "typer",
    "uvicorn", "websockets",
}  # fmt: skip
"""What not every session needs; see `koda_ray.actors.frugal`."""


async def test_a_sessions_process_loads_what_it_needs_and_can_load_anything(place: Place) -> None:
    session = await records.new_session(place.store, prompt="Create a bouncing ball animation, playful")
    given: dict[str, Any] = {"session_id": session.id, "user_id": session.user_id, "name": "start", "body": {}}
    await place.directory.submit(**given, key="k")
    async with asyncio.timeout(60):
        while (state := (await place.store.get_session(session.id)).state).phase != "plan" or state.owes is not None:
            await asyncio.sleep(0.05)
    handle = ray.get_actor(session_name(session.id, 0), namespace=NAMESPACE)
    loaded: dict[str, bool] = await handle.__ray_call__.remote(
        lambda _: {name: module is not None for name, module in sys.modules.items()}
    )
    assert "koda_ray.actors.session" in loaded
    assert UNWANTED & loaded.keys() == set()
    assert all(loaded.values()), "what was hidden from Ray can be imported again"
    assert await handle.__ray_call__.remote(lambda _: importlib.import_module("starlette").__name__) == "starlette"
