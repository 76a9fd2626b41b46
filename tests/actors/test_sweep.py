"""The sweep over real storage, on disk and in a bucket, and a real database; only time is handed in."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from koda_ray.actors.removal import remove_unneeded
from koda_ray.actors.sweep import REST
from koda_ray.errors import NotFound, StorageError
from koda_ray.render.bundle import Bundle, store_bundle
from koda_ray.render.protocol import UnitResult
from koda_ray.render.retry import RetryingStorage
from koda_ray.render.spec import Unit
from koda_ray.render.stored import TOUCH_AFTER, read_unit, write_unit
from koda_ray.state import checkpoint
from koda_ray.state.keys import (
    asset_key,
    blob_key,
    bundle_key,
    claim_key,
    film_key,
    manifest_key,
    picture_key,
    report_key,
    unit_key,
    unit_meta_key,
    video_key,
)
from koda_ray.state.records import AssetRecord, Batch, JobRecord, JobStatus, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage, Stored
from koda_ray.types import Preview, new_id, now
from tests.actors.sweeping import *  # noqa: F403 - fixtures
from tests.actors.sweeping import (
    NEW,
    OLD,
    PAGES,
    SESSIONS,
    UNITS,
    SweepClock,
    SweepCounts,
    in_a_bucket_too,
    put,
    sweep_of,
)
from tests.state import records


def aged(storage: Storage, key: str, by: timedelta) -> None:
    """Have a file on disk be as old as if it had been written so long ago."""
    path = storage.local_path(key)
    assert path is not None
    at = (now() - by).timestamp()
    os.utime(path, (at, at))


async def test_what_older_checkpoints_keep_is_counted(store: SqlStore, storage: Storage, clock: SweepClock) -> None:
    mine = await records.active_session(store)
    for seq, files in enumerate(({"a": b"a" * 100}, {"a": b"a" * 100, "b": b"b" * 50}, {"c": b"c"}), 1):
        tree = checkpoint.CheckpointTree(files=files)
        made, key = await checkpoint.save(storage, tree, state=mine.state, event_seq=seq)
        pointer = replace(records.checkpoint(mine, seq), id=made.id, manifest_key=key)
        await store.commit(mine.id, mine.epoch, Batch(checkpoint=pointer))
    await storage.put(pointer.manifest_key, b"no manifest")
    await sweep_of(store, storage, clock).step()
    assert await store.unheld() == [], "what is lost is known to be so"
    lists = [await storage.size(each.manifest_key) for each in (await store.checkpoints(mine.id))[:2]]
    assert await store.stored_bytes("ann") == 150 + sum(lists)


async def kept(store: SqlStore, storage: Storage, name: str, *, is_old: bool = False) -> tuple[SessionRecord, str]:
    """Make a session with a checkpoint of a file of its own; the key is that of its list."""
    session = await records.active_session(store)
    tree = checkpoint.CheckpointTree(files={"f": name.encode() * 100})
    prepared = await checkpoint.prepare(tree, state=session.state, event_seq=1)
    await checkpoint.store(storage, prepared)
    pointer = replace(records.checkpoint(session, 1), id=prepared.manifest.id, manifest_key=prepared.manifest.key)
    await store.commit(session.id, session.epoch, Batch(checkpoint=pointer))
    if not is_old:
        await store.hold("ann", prepared.sizes, holder=session.id, checkpoint=pointer.id)
    return session, prepared.manifest.key


async def removed(store: SqlStore, storage: Storage, session: SessionRecord) -> list[str]:
    """Have a session's files go as its deletion has them go; return what was freed."""
    await store.close_session(session.id, user_id="ann")
    freed = await remove_unneeded("ann", session.id, store=store, storage=storage)
    await store.delete_session(session.id, user_id="ann")
    return freed


async def test_a_list_that_is_lost_keeps_no_deletion_from_freeing(
    store: SqlStore, storage: Storage, clock: SweepClock
) -> None:
    leaving, _ = await kept(store, storage, "a")
    mine, damaged = await kept(store, storage, "b", is_old=True)
    await store.hold("ann", {"mine": 7}, holder=mine.id)
    gone, missing = await kept(store, storage, "c", is_old=True)
    await storage.put(damaged, b"no manifest")
    await storage.delete(missing)
    assert await removed(store, storage, leaving) == [], "nobody knows yet"
    seen = SweepCounts()
    swept = await sweep_of(store, storage, clock, metrics=seen).step()
    assert seen.unread == [2.0] and await store.unheld() == []
    assert len(swept) == 2 and await store.stored_bytes("ann") == 7, "what was left is freed, and the session's is kept"
    assert await removed(store, storage, gone) == [] and await removed(store, storage, mine) == ["mine"]


async def test_a_list_that_cannot_be_read_for_now_keeps_what_there_is_for_its_session(
    store: SqlStore, tmp_path: Path, clock: SweepClock
) -> None:
    class Unreadable(Storage):
        wrong = ""

        async def get(self, key: str) -> bytes:
            if key == self.wrong:
                raise StorageError(f"{key} could not be read: input/output error")
            return await super().get(key)

    storage = Unreadable(str(tmp_path / "storage"))
    leaving, _ = await kept(store, storage, "a")
    mine, storage.wrong = await kept(store, storage, "b", is_old=True)
    seen = SweepCounts()
    sweep = sweep_of(store, storage, clock, metrics=seen)
    await sweep.step()
    assert len(await store.unheld()) == 1, "it is looked at once more"
    clock.at += REST * 2
    await sweep.step()
    assert await store.unheld() == [] and seen.unread == [1.0, 1.0]
    later, _ = await kept(store, storage, "d")
    assert await removed(store, storage, leaving) == [], "it may be what that names"
    assert len(await removed(store, storage, later)) == 2
    assert len(await removed(store, storage, mine)) == 2, "with its session all of it goes"
    assert await store.stored_bytes("ann") == 0


async def test_a_page_that_is_swept_counts_no_more(store: SqlStore, storage: Storage, clock: SweepClock) -> None:
    await store.ensure_user("ann")
    name = await store_bundle(storage, "ann", Bundle({"index.html": b"<p>"}), hold=partial(store.hold, "ann"))
    sizes = [await storage.size(bundle_key("ann", name, each)) for each in ("bundle", "contents.json")]
    assert await store.stored_bytes("ann") == sum(sizes)
    await sweep_of(store, storage, clock).step()
    assert await store.stored_bytes("ann") > 0
    clock.at += PAGES * 2
    await sweep_of(store, storage, clock).step()
    assert (await store.stored_bytes("ann"), await storage.list()) == (0, [])


async def test_a_part_that_is_swept_counts_no_more(store: SqlStore, storage: Storage, clock: SweepClock) -> None:
    await storage.put(unit_key("ann", OLD), b"x" * 70)
    await storage.put(unit_meta_key("ann", OLD), b"{}")
    await sweep_of(store, storage, clock).step()
    assert await store.stored_bytes("ann") == 70, "of a render without rows, or from before it was counted"
    clock.at += UNITS * 2
    assert await sweep_of(store, storage, clock).step() == [unit_key("ann", OLD).rpartition("/")[0]]
    assert await store.stored_bytes("ann") == 0


async def test_what_was_counted_and_never_stored_counts_no_more_after_two_rounds(
    store: SqlStore, storage: Storage, clock: SweepClock
) -> None:
    await store.ensure_user("ann")
    await put(storage, unit_key("ann", NEW), asset_key("ann", "p", "ast_1", "cat.png"))
    await store.hold("ann", {bundle_key("ann", OLD): 500, unit_key("ann", OLD): 40, unit_key("ann", NEW): 1})
    sweep = sweep_of(store, storage, clock)
    await sweep.step()
    assert await store.stored_bytes("ann") == 541, "it may be on its way"
    clock.at += REST * 2
    await storage.put(bundle_key("ann", OLD), b"x" * 500)
    await sweep.step()
    assert await store.stored_bytes("ann") == 501
    clock.at += REST * 2
    await sweep.step()
    assert await store.stored_bytes("ann") == 501


async def test_a_folder_of_parts_or_pages_is_listed_once_in_a_round(
    store: SqlStore, tmp_path: Path, clock: SweepClock
) -> None:
    listed = Counter[str]()

    class Listed(Storage):
        async def look_below(self, prefix: str) -> list[Stored]:
            listed[prefix] += 1
            return await super().look_below(prefix)

    storage = Listed(str(tmp_path / "storage"))
    there = [make("ann", name) for name in (OLD, NEW) for make in (unit_key, bundle_key)]
    await put(storage, *there)
    absent = [make("ann", "c" * 64) for make in (unit_key, bundle_key)]
    await store.ensure_user("ann")
    await store.hold("ann", dict.fromkeys([*there, *absent], 1))
    sweep = sweep_of(store, storage, clock)
    shards = {key.rpartition("/")[0].rpartition("/")[0] for key in there}
    for found in (there + absent, there):
        listed.clear()
        await sweep.step()
        assert {prefix: listed[prefix] for prefix in listed if "/units/" in prefix or "/bundles/" in prefix} == (
            dict.fromkeys(shards, 1)
        ), "and one that is not there is not listed at all"
        assert await store.stored_bytes("ann") == len(found)
        clock.at += REST * 2


async def test_pictures_from_before_they_were_counted_are_counted_once(
    store: SqlStore, tmp_path: Path, clock: SweepClock
) -> None:
    class Listed(Storage):
        wrong = True
        pictures = 0

        async def look_below(self, prefix: str) -> list[Stored]:
            if prefix.endswith("/pictures"):
                self.pictures += 1
                if self.wrong:
                    raise StorageError("the bucket is away")
            return await super().look_below(prefix)

    storage = Listed(str(tmp_path / "storage"))
    mine, other = await records.active_session(store), await records.active_session(store)
    older, newer = (picture_key("ann", mine.project_id, mine.id, name) for name in (OLD, NEW))
    await storage.put_many({older: b"x" * 300, newer: b"x" * 20})
    await store.hold("ann", {newer: 20}, holder=mine.id)
    await put(storage, picture_key("ann", other.project_id, other.id, OLD), "users/ann/projects/no id/sessions/s/x")
    await store.close_session(other.id, user_id="ann")  # what is its goes with it
    sweep = sweep_of(store, storage, clock)
    seen: list[tuple[int, int]] = []
    for _ in range(3):
        await sweep.step()
        seen.append((await store.stored_bytes("ann"), storage.pictures))
        storage.wrong = False
        clock.at += REST * 2
    assert seen == [(20, 2), (320, 4), (320, 4)], "once they could be read, and then no more"
    assert await removed(store, storage, mine) != [] and await store.stored_bytes("ann") == 0


async def test_what_goes_with_videos_from_before_it_was_counted_is_counted(
    store: SqlStore, storage: Storage, clock: SweepClock
) -> None:
    def ended(*, stored: int, size: int, status: JobStatus = "succeeded") -> JobRecord:
        job = replace(records.job(), kind="render", status=status, stored_bytes=stored)
        return replace(job, result={"videoKey": video_key("ann", job.id, "mp4"), "fileSize": size})

    before, unknown, known = (ended(stored=stored, size=50) for stored in (50, 0, 51))
    failed, running = ended(stored=0, size=0, status="failed"), ended(stored=0, size=0, status="running")
    for job in (before, unknown, known, failed, running):
        await store.create_job(job)
        await storage.put_many({video_key("ann", job.id, "mp4"): b"x" * 50, report_key("ann", job.id): b"{}"})
    await sweep_of(store, storage, clock).step()
    found = [(await store.get_job(job.id)).stored_bytes for job in (before, unknown, known, failed, running)]
    assert found == [52, 52, 51, 52, 0]
    assert await store.stored_bytes("ann") == sum(found)


@in_a_bucket_too
async def test_what_nobody_used_goes_when_its_time_is_over(
    store: SqlStore, storage: Storage, clock: SweepClock
) -> None:
    units = [key(user, OLD) for user in ("ann", "bob") for key in (unit_key, unit_meta_key)]
    pages = [bundle_key("ann", OLD), bundle_key("ann", OLD, "replay.json"), film_key("ann", OLD)]
    pages += [claim_key("ann", NEW, "job_1"), video_key("ann", "job_1", "mp4")]
    own = [blob_key("ann", OLD), manifest_key("ann", "p", "s", "c"), "users/ann/projects/p/assets/a/logo.png"]
    await put(storage, *units, *pages, *own, "users/not an id/units/aa/x/y", "other/file")
    session = await records.new_session(store)
    await store.add_asset(replace(records.asset(of=session), key=own[-1]))
    sweep = sweep_of(store, storage, clock)
    assert await sweep.step() == []
    clock.at += UNITS - timedelta(minutes=1)
    assert await sweep.step() == []
    clock.at += REST
    gone = await sweep.step()
    assert gone == [unit_key(user, OLD).rpartition("/")[0] for user in ("ann", "bob")]
    assert set(await storage.list()) == {*pages, *own, "users/not an id/units/aa/x/y", "other/file"}
    clock.at += PAGES
    assert len(await sweep.step()) == 4  # two notes, the bundle, the result
    assert set(await storage.list()) == {*own, "users/not an id/units/aa/x/y", "other/file"}


@in_a_bucket_too
async def test_what_somebody_needs_stays(store: SqlStore, storage: Storage, clock: SweepClock) -> None:
    shown, queued, over, done = (letter * 64 for letter in "cdef")
    session = await records.active_session(store)
    preview = Preview(video_url="/", job_id="job_0", bundle=shown, duration=1.0)
    await store.commit(session.id, session.epoch, Batch(state=session.state.model_copy(update={"preview": preview})))
    waiting = await store.create_job(replace(records.job(), kind="render", spec={"bundle": queued}))
    ended = await store.create_job(replace(records.job(), kind="render", spec={"bundle": over}))
    await store.cancel_job(ended.id, user_id="ann")
    running = await store.claim_job(waiting.id, lease_until=now())
    unit = unit_key("ann", NEW)
    await store.update_job(running, chunks=[replace(records.chunk(waiting, 0), key=unit)])
    named = [bundle_key("ann", bundle) for bundle in (shown, queued, over, done)]
    results = [video_key("ann", job.id, "mp4") for job in (waiting, ended)]
    await put(storage, *named, *results, unit, unit_key("ann", OLD), video_key("ann", "job_unknown", "mp4"))
    clock.at += PAGES * 2
    assert len(await sweep_of(store, storage, clock).step()) == 4
    assert set(await storage.list()) == {*named[:2], *results, unit}
    # another user's session keeps nothing of ann's
    await put(storage, bundle_key("bob", shown))
    assert len(await sweep_of(store, storage, clock).step()) == 1


async def test_a_pass_is_bounded_and_the_next_goes_on_where_it_ended(
    store: SqlStore, storage: Storage, clock: SweepClock
) -> None:
    names = [f"{number:02x}{'0' * 62}" for number in range(30)]
    await put(storage, *(unit_key("ann", name) for name in names))
    clock.at += UNITS * 2
    sweep = sweep_of(store, storage, clock, size=200)
    passes: list[int] = []
    while await storage.list("users/ann/units"):
        passes.append(len(await sweep.step()))
    assert sum(passes) == 30 and max(passes) <= 6
    await sweep.close()


async def test_a_round_is_followed_by_a_rest(store: SqlStore, disk_storage: Storage, clock: SweepClock) -> None:
    sweep = sweep_of(store, disk_storage, clock)
    clock.at += UNITS * 2
    assert await sweep.step() == []
    await put(disk_storage, unit_key("ann", OLD))
    assert await sweep.step() == []
    clock.at += REST
    assert len(await sweep.step()) == 1


async def test_one_that_cannot_be_removed_holds_up_none_of_the_others(
    store: SqlStore, tmp_path: Path, clock: SweepClock
) -> None:
    class Stuck(Storage):
        async def delete_prefix(self, prefix: str) -> None:
            if OLD in prefix:
                raise StorageError("the bucket is away")
            await super().delete_prefix(prefix)

    stuck = Stuck(str(tmp_path / "storage"))
    await put(stuck, unit_key("ann", OLD), unit_key("ann", NEW), film_key("ann", OLD))
    clock.at += PAGES * 2
    assert await sweep_of(store, stuck, clock).step() == [unit_key("ann", NEW).rpartition("/")[0]]


def unit(key: str, data: bytes) -> UnitResult:
    return UnitResult(
        unit=Unit(0, 0, 1),
        key=key,
        mode="seek",
        frame_hashes=("1",),
        before_hash=None,
        sha256="0" * 64,
        size_bytes=len(data),
        worker="w",
    )


async def test_a_unit_that_is_found_counts_as_used(store: SqlStore, disk_storage: Storage, clock: SweepClock) -> None:
    for name in (OLD, NEW):
        await write_unit(RetryingStorage(disk_storage), "ann", unit(name, b"frames"), b"frames")
        aged(disk_storage, unit_key("ann", name), UNITS * 2)
        aged(disk_storage, unit_meta_key("ann", name), UNITS * 2)
    assert await read_unit(RetryingStorage(disk_storage), "ann", NEW) is not None
    assert await sweep_of(store, disk_storage, clock).step() == [unit_key("ann", OLD).rpartition("/")[0]]
    assert await read_unit(RetryingStorage(disk_storage), "ann", OLD) is None
    # what was used a moment ago is not touched again
    aged(disk_storage, unit_key("ann", NEW), TOUCH_AFTER / 2)
    before = await disk_storage.look(unit_key("ann", NEW))
    assert await read_unit(RetryingStorage(disk_storage), "ann", NEW) is not None
    assert await disk_storage.look(unit_key("ann", NEW)) == before


async def aged_folder(storage: Storage, key: str) -> None:
    for each in await storage.list(key.rpartition("/")[0]):
        aged(storage, each, PAGES * 2)


async def test_a_bundle_that_is_stored_again_counts_as_used(
    store: SqlStore, disk_storage: Storage, clock: SweepClock
) -> None:
    page = Bundle({"index.html": b"<h1>"})
    key = bundle_key("ann", await store_bundle(disk_storage, "ann", page))
    await aged_folder(disk_storage, key)
    await store_bundle(disk_storage, "ann", page)
    assert await sweep_of(store, disk_storage, clock).step() == []
    await aged_folder(disk_storage, key)
    assert await sweep_of(store, disk_storage, clock).step() == [key.rpartition("/")[0]]
    await store_bundle(disk_storage, "ann", page)
    assert await disk_storage.exists(key)


async def test_a_result_that_a_fork_shows_outlives_the_job_that_made_it(
    store: SqlStore, disk_storage: Storage, clock: SweepClock
) -> None:
    shown, other = video_key("ann", "job_gone", "mp4"), video_key("ann", "job_gone_too", "mp4")
    await put(disk_storage, shown, other)
    await store.create_job(replace(records.job(), result={"videoKey": shown}, status="succeeded"))
    clock.at += PAGES * 2
    assert await sweep_of(store, disk_storage, clock).step() == [other.rpartition("/")[0]]
    assert await disk_storage.exists(shown)


async def test_sessions_that_nobody_used_for_so_long_are_closed_a_few_in_a_pass(
    store: SqlStore, disk_storage: Storage, clock: SweepClock
) -> None:
    unused = [await records.new_session(store) for _ in range(150)]
    counted = SweepCounts()
    sweep = sweep_of(store, disk_storage, clock, size=1_000, metrics=counted)
    assert await sweep.step() == []
    clock.at += SESSIONS * 2
    assert len(await sweep.step()) == 100
    # the process ends: another one begins anew, and finds the rest
    after = sweep_of(store, disk_storage, clock, size=1_000, metrics=counted)
    assert len(await after.step()) == 50 and counted.of["sessions"] == 150
    assert {row.id for row in await store.closed_sessions(limit=200)} == {row.id for row in unused}


async def test_uploads_that_no_session_came_to_have_go(store: SqlStore, storage: Storage, clock: SweepClock) -> None:
    async def uploaded(*, days: float, session: SessionRecord | None = None) -> AssetRecord:
        asset = replace(records.asset(of=session), created_at=clock.at - timedelta(days=days))
        asset = replace(asset, key=asset_key("ann", asset.project_id, asset.id, "cat.png"))
        await put(storage, asset.key)
        await store.add_asset(asset)
        return asset

    session = await records.new_session(store)
    old, young, held = await uploaded(days=8), await uploaded(days=6), await uploaded(days=8, session=session)
    lost = asset_key("ann", old.project_id, "ast_lost", "cat.png")  # of an upload whose row was never written
    await put(storage, lost)
    assert old.key in await sweep_of(store, storage, clock).step()
    assert set(await storage.list("users/ann/projects")) == {young.key, held.key, lost}
    with pytest.raises(NotFound):
        await store.get_asset(old.id, user_id="ann")
    clock.at += timedelta(days=30)
    gone = await sweep_of(store, storage, clock).step()
    assert {young.key, lost} <= set(gone)
    assert await storage.list("users/ann/projects") == [held.key]


async def test_a_picture_that_no_note_named_goes_and_one_that_a_note_named_stays_with_its_session(
    store: SqlStore, storage: Storage, clock: SweepClock
) -> None:
    session = await records.new_session(store)
    sent, unsent = (replace(records.asset(of=session), id=new_id("ast"), purpose="note") for _ in range(2))
    for each in (sent, unsent):
        crop = replace(each, session_id=None, key=asset_key("ann", each.project_id, each.id, "note-f1.jpg"))
        await put(storage, crop.key)
        await store.add_asset(crop)
    await store.receive(records.command(session), lambda row, waiting: {}, pictures=[sent.id])
    clock.at += timedelta(days=8)
    await sweep_of(store, storage, clock).step()
    kept = await store.get_asset(sent.id, user_id="ann")
    assert await storage.list("users/ann/projects") == [kept.key]
    with pytest.raises(NotFound):
        await store.get_asset(unsent.id, user_id="ann")


async def test_an_upload_that_a_session_takes_meanwhile_stays(
    store: SqlStore, storage: Storage, clock: SweepClock
) -> None:
    asset = replace(records.asset(), created_at=clock.at - timedelta(days=8), key="users/ann/projects/p/assets/a/x")
    await put(storage, asset.key)
    await store.add_asset(asset)
    usual = store.loose_assets

    async def found_then_taken(before: datetime, *, limit: int = 100) -> list[AssetRecord]:
        found = await usual(before, limit=limit)
        if found:
            await records.new_session(store, asset_ids=(asset.id,))
        return found

    store.loose_assets = found_then_taken  # type: ignore[method-assign]
    await sweep_of(store, storage, clock).step()
    assert await storage.exists(asset.key)
