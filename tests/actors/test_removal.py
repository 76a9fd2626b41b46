"""What a deletion takes and what it leaves, over a real database and real storage; also what begins meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Generic, TypeVar

import pytest

from koda_ray.actors import removal
from koda_ray.actors.removal import Removal
from koda_ray.actors.timeline import fork_session
from koda_ray.errors import NotFound, StorageError
from koda_ray.render.bundle import Bundle, keep_bundle, load_bundle, store_bundle
from koda_ray.render.retry import RetryingStorage
from koda_ray.state import checkpoint
from koda_ray.state.keys import bundle_key, picture_key
from koda_ray.state.records import Batch, JobRecord, SessionRecord
from koda_ray.state.storage import Storage
from tests.actors.house import SOON, House, filled
from tests.state import records

T = TypeVar("T")


class Watched(Storage, Generic[T]):
    """Storage, before whose first removal of a kind of content something begins."""

    def __init__(self, url: str, *, kind: str, begin: Callable[[], Coroutine[object, object, T]]) -> None:
        super().__init__(url)
        self.begun: list[asyncio.Task[T]] = []
        self._kind, self._begin = kind, begin

    async def delete_prefix(self, prefix: str) -> None:
        if not self.begun and f"/{self._kind}" in prefix:
            self.begun.append(asyncio.create_task(self._begin()))
            await asyncio.wait(self.begun, timeout=1)  # it comes to an end, or waits
        await super().delete_prefix(prefix)


async def test_a_deletion_takes_everything_but_what_others_share(house: House) -> None:
    same, own = "a" * 64, "b" * 64
    first, second, third = [await filled(house, bundle) for bundle in (same, same, own)]

    async def delete(session: SessionRecord) -> list[str]:
        before = set(await house.storage.list())
        await house.removal.finish(await house.store.close_session(session.id, user_id=session.user_id))
        assert await house.store.closed_sessions() == []
        left = await house.storage.list()
        assert not any(session.id in key for key in left)
        return sorted(key.split("/")[2] for key in before - set(left))

    assert await delete(first) == ["projects", "projects", "renders"]  # upload, manifest, video
    assert await delete(third) == ["bundles", "projects", "projects", "renders", "units"]
    assert len([key for key in await house.storage.list() if "/blobs/" in key]) == 4
    await delete(second)  # the user's last
    assert await house.storage.list() == []


async def test_who_shows_a_sessions_videos_is_looked_up_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await filled(house, "a" * 64)
    for _ in range(2):
        await house.store.create_job(replace(records.job(session.user_id, session), status="succeeded"))
    for _ in range(2):
        await house.store.create_job(records.job(session.user_id))
    asked: list[int] = []
    list_jobs = house.store.list_jobs

    async def counted(**sought: Any) -> list[JobRecord]:
        found = await list_jobs(**sought)
        asked.append(len(found))
        return found

    monkeypatch.setattr(house.store, "list_jobs", counted)
    monkeypatch.setattr(removal, "_MOST_AT_ONCE", 2)
    await house.removal.finish(await house.store.close_session(session.id, user_id=session.user_id))
    assert asked == [3, 2, 2, 1], "its own, and all of the user's in pieces"


async def kept(house: House, files: dict[str, bytes]) -> SessionRecord:
    """A session with a checkpoint, stored as its process does."""
    session = await house.session(owes=False, lease=SOON)
    tree = checkpoint.CheckpointTree(files=files)
    prepared = await checkpoint.prepare(tree, state=session.state, event_seq=1)
    await house.store.hold(session.user_id, prepared.sizes, holder=session.id)
    await checkpoint.store(house.storage, prepared)
    manifest = prepared.manifest
    pointer = replace(records.checkpoint(session, 1), id=manifest.id, manifest_key=manifest.key, held=True)
    await house.store.commit(session.id, session.epoch, Batch(checkpoint=pointer))
    return session


async def lying(house: House) -> int:
    """How many bytes lie in storage."""
    return sum([await house.storage.size(key) for key in await house.storage.list()])


async def test_files_that_no_other_session_has_go_with_their_session(house: House) -> None:
    """What a user has stored is what lies there, and deleting a session makes room."""
    first = await kept(house, {"src/App.tsx": b"shared", "big.bin": b"x" * 100_000})
    second = await kept(house, {"src/App.tsx": b"shared", "src/own.ts": b"own"})
    assert await house.store.stored_bytes("ann") == await lying(house) > 100_000
    await house.removal.finish(await house.store.close_session(first.id, user_id="ann"))
    assert await house.store.stored_bytes("ann") == await lying(house) < 5_000
    pointer = await house.store.latest_checkpoint(second.id)
    assert pointer is not None
    files = await checkpoint.read_files(house.storage, await checkpoint.load(house.storage, pointer.manifest_key))
    assert files == {"src/App.tsx": b"shared", "src/own.ts": b"own"}
    await house.removal.finish(await house.store.close_session(second.id, user_id="ann"))
    assert (await house.store.stored_bytes("ann"), await house.storage.list()) == (0, [])


async def test_a_picture_that_went_with_its_session_counts_no_more_for_a_fork(house: House) -> None:
    first = await kept(house, {"a": b"a"})
    picture = picture_key("ann", first.project_id, first.id, "a" * 64)
    await house.store.hold("ann", {picture: 500}, holder=first.id)
    await house.storage.put(picture, b"x" * 500)
    fork = await fork_session(house.store, first.id, user_id="ann", point=None, key="fork")
    assert await house.store.stored_bytes("ann") == await lying(house) > 500
    await house.removal.finish(await house.store.close_session(first.id, user_id="ann"))
    assert 0 < await house.store.stored_bytes("ann") == await lying(house) < 5_000
    await house.removal.finish(await house.store.close_session(fork, user_id="ann"))
    assert (await house.store.stored_bytes("ann"), await house.storage.list()) == (0, [])


async def test_a_removal_of_files_that_was_cut_off_is_finished(house: House) -> None:
    leaving, _ = await kept(house, {"a": b"a", "b": b"b"}), await kept(house, {"c": b"c"})
    closed = await house.store.close_session(leaving.id, user_id="ann")

    class Away(Storage):
        async def delete_many(self, keys: Iterable[str]) -> None:
            raise StorageError("the bucket is away")

    away = Removal(store=house.store, storage=Away(house.storage.url), sandboxes=house.sandboxes)
    with pytest.raises(StorageError):
        await away.finish(closed)
    await house.removal.finish(closed)
    assert await house.store.stored_bytes("ann") == await lying(house)
    assert len([key for key in await house.storage.list() if "/blobs/" in key]) == 1


async def test_a_deletion_that_was_cut_off_is_finished(house: House) -> None:
    session = await filled(house, "a" * 64)
    closed = await house.store.close_session(session.id, user_id=session.user_id)

    class Full(Storage):
        async def delete_prefix(self, prefix: str) -> None:
            raise StorageError("the bucket is away")

    away = Removal(store=house.store, storage=Full(house.storage.url), sandboxes=house.sandboxes)
    with pytest.raises(StorageError):
        await away.finish(closed)
    with pytest.raises(NotFound):
        await house.store.get_session(session.id)
    assert [row.id for row in await house.store.closed_sessions()] == [session.id]
    await house.janitor().clear()
    assert await house.store.closed_sessions() == [] and await house.storage.list() == []
    with pytest.raises(NotFound):
        await house.store.close_session(session.id, user_id=session.user_id)


@pytest.mark.parametrize("what", ["session", "render"])
async def test_what_begins_while_the_last_session_is_removed_loses_nothing(house: House, what: str) -> None:
    """Begun in the moment between "is it the last" and the removal of what all sessions share."""
    last, bundle = await filled(house, "a" * 64), Bundle({"index.html": b"<p>"})

    async def begin() -> Awaitable[object]:
        if what == "session":
            new = await records.new_session(house.store)
            tree = checkpoint.CheckpointTree(files={"src/App.tsx": b"shared"})  # as the one that goes has it
            made, _ = await checkpoint.save(house.storage, tree, state=new.state, event_seq=1)
            return checkpoint.read_files(house.storage, made)
        name = await store_bundle(house.storage, "ann", bundle)
        await house.store.create_job(replace(records.job(), kind="render", spec={"bundle": name}))
        await keep_bundle(house.storage, "ann", name, bundle)
        return load_bundle(RetryingStorage(house.storage), "ann", name)

    storage = Watched(house.storage.url, kind="blobs", begin=begin)
    removal = Removal(store=house.store, storage=storage, sandboxes=house.sandboxes)
    await removal.finish(await house.store.close_session(last.id, user_id=last.user_id))
    assert await (await storage.begun[0])


@pytest.mark.parametrize("what", ["render", "session"])
async def test_what_begins_while_a_bundle_is_removed_has_it(house: House, what: str) -> None:
    """Begun in the moment between "does nobody name it" and its removal, by a user who has other sessions."""
    bundle = Bundle({"index.html": b"<p>"})
    leaving, other = await filled(house, name := bundle.hash), await house.session(owes=False, lease=SOON)
    await house.storage.put(bundle_key("ann", name), bundle.pack())

    async def begin() -> Bundle:
        job = replace(records.job(), kind="render", spec={"bundle": name})
        if what == "session":
            at_work = other.state.model_copy(update={"owes": "execute"})
            await house.store.commit(other.id, other.epoch, Batch(state=at_work))
            await house.store.use_content("ann")
            await store_bundle(house.storage, "ann", bundle)
            await house.store.commit(other.id, other.epoch, Batch(jobs=[replace(job, session_id=other.id)]))
        else:
            await store_bundle(house.storage, "ann", bundle)
            await house.store.create_job(job)
            await keep_bundle(house.storage, "ann", name, bundle)
        return await load_bundle(RetryingStorage(house.storage), "ann", name)

    storage = Watched(house.storage.url, kind="bundles/", begin=begin)
    removal = Removal(store=house.store, storage=storage, sandboxes=house.sandboxes)
    await removal.finish(await house.store.close_session(leaving.id, user_id=leaving.user_id))
    await storage.begun[0]
    assert (await load_bundle(RetryingStorage(house.storage), "ann", name)).hash == name


async def test_a_bundle_that_a_session_at_work_may_name_is_left_to_the_sweep(house: House) -> None:
    bundle = Bundle({"index.html": b"<p>"})
    leaving, _working = await filled(house, name := bundle.hash), await house.session(owes=True, lease=SOON)
    await house.storage.put(bundle_key("ann", name), bundle.pack())
    await house.removal.finish(await house.store.close_session(leaving.id, user_id=leaving.user_id))
    assert (await load_bundle(RetryingStorage(house.storage), "ann", name)).hash == name
    assert await house.store.closed_sessions() == []
