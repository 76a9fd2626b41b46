"""The sweep over previews, and over what a copy of one shows: real storage and a real database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from koda_ray.actors.sweep import REST
from koda_ray.state.keys import thumbnail_key, video_key
from koda_ray.state.records import Batch, JobRecord, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from koda_ray.types import FinalFormat, Output, Phase, Preview
from tests.actors.sweeping import *  # noqa: F403 - fixtures
from tests.actors.sweeping import OLD, PAGES, PREVIEWS, SweepClock, SweepCounts, put, sweep_of
from tests.state import records
from tests.state.conformance.links import link


async def test_what_jobs_show_is_asked_as_often_for_many_as_for_one(
    store: SqlStore, disk_storage: Storage, clock: SweepClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, list[tuple[str, ...]]] = {"ann": [], "bob": []}
    job_ids, copies = store.job_ids, store.copies

    async def counted_ids(user_id: str, **narrowed: Any) -> list[str]:
        asked[user_id].append(tuple(narrowed))
        return await job_ids(user_id, **narrowed)

    async def counted_copies(user_id: str) -> dict[str, list[str]]:
        asked[user_id].append(("copies",))
        return await copies(user_id)

    async def made(user_id: str, count: int) -> list[str]:
        """Make as many results of nobody, results that a copy alone shows, and old previews that have a copy."""
        of = await records.active_session(store, user_id)
        lost, left = [[video_key(user_id, f"job_{name}_{n}", "mp4") for n in range(count)] for name in ("lost", "left")]
        rows = [replace(records.job(user_id, of), result={"videoKey": key}, stored_bytes=1) for key in left]
        for _ in range(count):
            row = replace(records.job(user_id, of), kind="preview")
            row = replace(row, result={"videoKey": video_key(user_id, row.id, "mp4")})
            rows += [row, replace(records.job(user_id, of), kind="preview", result=row.result)]
        previews = {str((row.result or {})["videoKey"]) for row in rows if row.kind == "preview"}
        await put(disk_storage, *lost, *left, *previews)
        await store.commit(of.id, of.epoch, Batch(jobs=[replace(row, status="succeeded") for row in rows]))
        return [*(key.rpartition("/")[0] for key in lost), *previews]

    gone = [*await made("ann", 1), *await made("bob", 9)]
    monkeypatch.setattr(store, "job_ids", counted_ids)
    monkeypatch.setattr(store, "copies", counted_copies)
    clock.at += PAGES * 2
    sweep = sweep_of(store, disk_storage, clock)
    assert sorted(await sweep.step()) == sorted(gone)
    assert asked["bob"] == asked["ann"] and ("showing",) not in asked["ann"]
    shown = video_key("ann", "job_late", "mp4")
    await put(disk_storage, shown)
    await store.create_job(replace(records.job(), result={"videoKey": shown}, status="succeeded"))
    clock.at += PAGES * 2
    assert await sweep.step() == [] and await disk_storage.exists(shown), "the next round looks anew"


async def test_what_counts_for_a_copy_that_was_made_amid_a_round_is_counted_once(
    store: SqlStore, disk_storage: Storage, clock: SweepClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await records.active_session(store)
    shown, copies = video_key("ann", "job_gone", "mp4"), store.copies
    await put(disk_storage, shown)
    copy, late = [replace(records.job(of=session), result={"videoKey": shown}, status="succeeded") for _ in range(2)]
    await store.commit(session.id, session.epoch, Batch(jobs=[copy]))

    async def asked_before(user_id: str) -> dict[str, list[str]]:
        found = await copies(user_id)
        await store.commit(session.id, session.epoch, Batch(jobs=[replace(late, stored_bytes=1)]))
        return found

    monkeypatch.setattr(store, "copies", asked_before)
    sweep = sweep_of(store, disk_storage, clock)
    for _ in range(2):
        await sweep.step()
        assert await store.stored_bytes("ann") == 1, "what it took has come to count for the later one"
        clock.at += REST


@pytest.mark.parametrize("discarded", [False, True])
async def test_old_videos_of_previews_go_but_for_those_that_somebody_is_to_judge(
    store: SqlStore, storage: Storage, clock: SweepClock, discarded: bool
) -> None:
    asked, done, gif, lost = [await records.active_session(store) for _ in range(4)]

    async def made(session: SessionRecord, kind: Literal["preview", "final"], size: int = 50) -> JobRecord:
        job = replace(records.job(of=session), kind=kind, status="succeeded", stored_bytes=size)
        job = replace(job, result={"videoKey": video_key("ann", job.id, "mp4")})
        await put(storage, video_key("ann", job.id, "mp4"), thumbnail_key("ann", job.id))
        await store.commit(session.id, session.epoch, Batch(jobs=[job]))
        return job

    def showing(
        session: SessionRecord, job: JobRecord, phase: Phase, final: str = "job_none", form: FinalFormat = "mp4"
    ) -> Batch:
        preview = Preview(video_url="/v", job_id=job.id, bundle=OLD, duration=5.0)
        output = Output(job_id=final, video_url="/f", format=form) if phase == "complete" else None
        state = session.state.model_copy(update={"phase": phase, "preview": preview, "output": output})
        return Batch(state=state)

    earlier, judged = await made(asked, "preview"), await made(asked, "preview")
    accepted, final = await made(done, "preview"), await made(done, "final")
    await store.commit(asked.id, asked.epoch, showing(asked, judged, "preview"))
    await store.commit(done.id, done.epoch, showing(done, accepted, "complete", final.id))
    stands_in = await made(gif, "preview")  # for a final that browsers do not play
    await store.commit(gif.id, gif.epoch, showing(gif, stands_in, "complete", (await made(gif, "final")).id, "gif"))
    left = await made(lost, "preview")  # for a final that was deleted
    await store.commit(lost.id, lost.epoch, showing(lost, left, "complete"))
    shown = await made(done, "preview")  # of a session that is gone but for what another shows
    fork = replace(records.job(of=asked), kind="final", status="succeeded", result=shown.result)
    await store.commit(asked.id, asked.epoch, Batch(jobs=[fork]))
    copy = replace(records.job(of=gif), kind="preview", status="succeeded", result=earlier.result)
    await store.commit(gif.id, gif.epoch, Batch(jobs=[copy]))
    linked = await made(done, "preview")
    await store.create_share(replace(link(done), job_id=linked.id), most=9)
    if discarded:
        await store.discard_session(asked.id, user_id="ann", delete_at=clock.at + PREVIEWS * 9)
    counted = SweepCounts()
    sweep = sweep_of(store, storage, clock, metrics=counted)
    assert await sweep.step() == []
    clock.at += PREVIEWS * 2
    gone = {video_key("ann", job.id, "mp4") for job in (earlier, accepted)}
    assert set(await sweep.step()) == gone and counted.of == {"previews": 2}
    for job in (earlier, judged, accepted, final, stands_in, left, shown, linked):
        assert await storage.exists(video_key("ann", job.id, "mp4")) == (job not in (earlier, accepted))
        assert await storage.exists(thumbnail_key("ann", job.id))
        assert (await store.get_job(job.id)).stored_bytes == (1 if job in (earlier, accepted) else 50), (
            "its picture stays"
        )
    kept = await store.job_ids("ann", unswept=True)
    assert set(await store.job_ids("ann")).difference(kept) == {earlier.id, accepted.id, copy.id}
    clock.at += REST
    assert await sweep.step() == []


async def test_what_an_older_deletion_left_to_a_copy_counts_with_it_again(
    store: SqlStore, storage: Storage, clock: SweepClock
) -> None:
    session = await records.active_session(store)
    shown = video_key("ann", "job_gone", "mp4")
    await storage.put_many({shown: b"x" * 50, thumbnail_key("ann", "job_gone"): b"x" * 7})
    copies = [replace(records.job(of=session), result={"videoKey": shown}, status="succeeded") for _ in range(2)]
    await store.commit(session.id, session.epoch, Batch(jobs=copies))
    sweep = sweep_of(store, storage, clock)
    for _ in range(2):
        assert await sweep.step() == [] and await store.stored_bytes("ann") == 57
        clock.at += REST
