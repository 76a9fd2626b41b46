"""The janitor over a real database, real storage and real sandboxes; only waking is written down here."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest

from koda_ray.actors.janitor import Chores, Janitor
from koda_ray.actors.janitor_host import StandIn
from koda_ray.actors.owed_waker import OwedWaker
from koda_ray.actors.parts import sandbox_provider
from koda_ray.actors.reaper import Reaped, Reaper
from koda_ray.actors.sweep import Retention, Sweep
from koda_ray.actors.waking import WAKES, Waking, WakingPace, in_turn
from koda_ray.errors import NotFound, StorageError, Unavailable
from koda_ray.metrics import Figure
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.service import REAP_GRACE_S
from koda_ray.sandbox.unfinished import clear_own
from koda_ray.state.keys import unit_key
from koda_ray.state.records import Batch, OwedWork
from koda_ray.types import new_id, now
from tests.actors.house import SOON, House, filled
from tests.barriers import held_file, until_waiting
from tests.state import records

# --- waking ---------------------------------------------------------------------------------------------------------


async def test_owed_work_is_woken_when_nobody_holds_it(house: House) -> None:
    fresh = await house.session()
    expired = await house.session(lease=-timedelta(seconds=1))
    await house.session(lease=SOON)  # held
    await house.session(owes=False)  # rests
    begun = await house.janitor().wake_owed()
    await house.until(lambda: len(house.woken) == 2)
    assert set(begun) == set(house.woken) == {fresh.id, expired.id}
    assert await house.janitor().wake_owed() == []


async def test_renders_of_their_own_are_woken_the_longest_waiting_first_until_there_is_no_room(house: House) -> None:
    jobs = [await house.store.create_job(records.job()) for _ in range(4)]
    held = await house.store.claim_job(jobs[1].id, lease_until=now() + SOON)
    begun: list[str] = []

    async def wake_render(job_id: str) -> bool:
        if len(begun) == 2:
            return False
        begun.append(job_id)
        await house.store.claim_job(job_id, lease_until=now() + SOON)
        return True

    janitor = house.janitor(wake_render=wake_render)
    await janitor.wake_owed()
    await house.until(lambda: len(begun) == 2)
    waiting = {job.id for job in jobs} - {held.id, *begun}
    await janitor.wake_owed()
    (left,) = waiting
    await house.until(lambda: janitor.waking == 0)
    assert [work.id for work in await house.store.owed(now())] == [left]
    begun.pop()
    await janitor.wake_owed()  # it was not given a pause for finding no room
    await house.until(lambda: left in begun)


async def test_those_that_hang_hold_up_nobody_and_are_given_up(house: House) -> None:
    stuck = {(await house.session()).id for _ in range(WAKES - 1)}
    well = [(await house.session()).id for _ in range(3)]
    given_up: list[str] = []

    async def wake(session_id: str) -> None:
        if session_id in stuck:
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append(session_id)
        await house.wake(session_id)

    running = asyncio.create_task(house.janitor(wake, wake_s=600).run())
    await house.until(lambda: sorted(house.woken) == sorted(well))
    late = (await house.session()).id  # comes while the others hang
    await house.until(lambda: late in house.woken)
    assert given_up == []
    running.cancel()
    await asyncio.wait({running})
    assert set(given_up) == stuck
    given_up.clear()
    running = asyncio.create_task(house.janitor(wake, wake_s=0.2).run())
    await house.until(lambda: set(given_up) == stuck)
    running.cancel()
    await asyncio.wait({running})


async def test_one_that_fails_is_tried_again_ever_more_seldom(house: House) -> None:
    session_id, tried = (await house.session()).id, list[float]()

    async def wake(_: str) -> None:
        tried.append(time.monotonic())
        if len(tried) < 6:
            raise StorageError("the database is locked")
        await house.wake(session_id)

    running = asyncio.create_task(house.janitor(wake).run())
    await house.until(lambda: house.woken == [session_id])
    running.cancel()
    await asyncio.wait({running})
    pauses = [after - before for before, after in pairwise(tried)]
    for number, pause in enumerate(pauses):
        assert pause >= house.settings.janitor_s * 2**number * 0.9, pauses


def test_users_take_turns_where_their_sessions_are_to_be_woken() -> None:
    owing = [
        OwedWork(kind="session", id=f"ses_{number}", user_id=user, epoch=1, updated_at=now())
        for number, user in enumerate(("ann", "ann", "ann", "bob", "bob", "cleo"))
    ]
    assert [work.id for work in in_turn(owing)] == ["ses_0", "ses_3", "ses_5", "ses_1", "ses_4", "ses_2"]


async def test_what_hangs_gives_its_place_to_the_next_and_goes_on(house: House) -> None:
    hangs, goes_on, woken = [f"hangs_{number}" for number in range(2 * WAKES)], asyncio.Event(), list[str]()

    async def wake(work_id: str) -> None:
        if work_id in hangs:
            await goes_on.wait()
        woken.append(work_id)

    waking = Waking("session_id", wake, WakingPace(first_pause_s=1, limit_s=600, held_s=0.05))
    assert all(waking.begin(work_id) for work_id in (*hangs, "well")) and not waking.begin("well")
    assert waking.free == 0
    await house.until(lambda: woken == ["well"] and waking.free == WAKES)
    assert waking.count == len(hangs)
    goes_on.set()
    await house.until(lambda: waking.count == 0)
    assert sorted(woken) == sorted([*hangs, "well"])
    await waking.close()


async def test_renders_are_begun_however_many_sessions_and_renders_cannot_be(house: House) -> None:
    """Neither those that fail nor those that hang stand before the others."""
    for _ in range(2 * WAKES):
        await house.session()
    jobs = [(await house.store.create_job(records.job())).id for _ in range(2 * WAKES + 2)]
    *hopeless, first, second = jobs
    begun: list[str] = []

    async def hang(session_id: str) -> None:
        await asyncio.Event().wait()

    async def wake_render(job_id: str) -> bool:
        if job_id in hopeless:
            raise StorageError("its bundle is gone")
        begun.append(job_id)
        await house.store.claim_job(job_id, lease_until=now() + SOON)
        return True

    house.settings = house.settings.model_copy(update={"janitor_s": 60.0})  # between two tries of one
    janitor = house.janitor(hang, wake_render=wake_render, wake_s=600)
    async with asyncio.timeout(60):
        while sorted(begun) != sorted([first, second]):
            await janitor.wake_owed()
            await asyncio.sleep(0.01)


async def test_two_janitors_begin_no_more_renders_than_there_is_room_for_and_each_once(house: House) -> None:
    """As there are while one is lost and another was started, or as a cluster takes over from an old one."""
    for _ in range(8):
        await house.store.create_job(records.job())
    begun: list[str] = []

    async def wake_render(job_id: str) -> bool:
        if await house.store.admit_job(job_id, most=3, lease_until=now() + SOON) is None:
            return False
        begun.append(job_id)
        return True

    janitors = [house.janitor(wake_render=wake_render) for _ in range(2)]
    await asyncio.gather(*(janitor.wake_owed() for janitor in janitors))
    await house.until(lambda: not any(janitor.waking for janitor in janitors))
    assert len(begun) == len(set(begun)) == 3


async def test_two_janitors_finish_a_deletion_between_them(house: House) -> None:
    session = await filled(house, "a" * 64)
    await house.store.close_session(session.id, user_id=session.user_id)
    await asyncio.gather(*(house.janitor().clear() for _ in range(2)))
    await house.janitor().clear()  # what both stood in the way of
    assert await house.store.closed_sessions() == [] and await house.storage.list() == []


# --- sandboxes ------------------------------------------------------------------------------------------------------


async def test_a_deletion_that_could_be_undone_is_carried_out_when_its_time_has_come(house: House) -> None:
    due, kept = [await filled(house, digest * 64) for digest in "ab"]
    await house.store.discard_session(due.id, user_id=due.user_id, delete_at=now())
    await house.store.discard_session(kept.id, user_id=kept.user_id, delete_at=now() + SOON)
    await house.janitor().clear()
    left = await house.storage.list()
    assert any(kept.id in key for key in left) and not any(due.id in key for key in left)
    with pytest.raises(NotFound):
        await house.store.get_session(due.id)
    assert (await house.store.restore_session(kept.id, user_id=kept.user_id)).id == kept.id


async def test_a_discarded_session_that_goes_on_is_told_to_end_until_it_has(house: House) -> None:
    held, other, asleep = [await house.session(lease=lease) for lease in (SOON, SOON, -SOON)]
    for row in (held, asleep):
        await house.store.discard_session(row.id, user_id=row.user_id, delete_at=now() + 9 * SOON)
    told, answers = list[str](), asyncio.Event()

    async def passivate(session_id: str) -> None:
        told.append(session_id)
        if len(told) == 1:
            raise Unavailable("the head is away")
        await answers.wait()
        await house.store.release(session_id, held.epoch)

    janitor = house.janitor(passivate=passivate)
    await janitor.clear()
    await house.until(lambda: len(told) == 1)
    await asyncio.sleep(2 * house.settings.janitor_s)  # the pause after a failure
    for _ in range(2):  # it takes its time, and the janitor goes on
        await janitor.clear()
    await house.until(lambda: len(told) == 2)
    assert (await house.store.census(now())).awake == 2
    answers.set()
    async with asyncio.timeout(60):
        while await house.store.discarded_held(now()):
            await asyncio.sleep(0.005)
    await janitor.clear()
    assert told == [held.id] * 2 and other.id not in told
    assert (await house.store.census(now())).awake == 1


@pytest.mark.sandbox
async def test_the_sandbox_of_a_discarded_session_stays_and_nobody_is_woken_for_it(house: House) -> None:
    asleep = await house.session(owes=False, lease=-timedelta(days=1))
    box = await house.sandbox(asleep)
    await house.store.discard_session(asleep.id, user_id=asleep.user_id, delete_at=now() + SOON)
    janitor = house.janitor()
    assert await janitor.clear() == [] and janitor.waking == 0 and house.woken == []
    assert await box.is_alive()
    await house.store.restore_session(asleep.id, user_id=asleep.user_id)
    assert await janitor.clear() == []
    await house.until(lambda: house.woken == [asleep.id])


@pytest.mark.sandbox
async def test_sandboxes_that_nobody_needs_go_and_the_others_stay(house: House) -> None:
    held = await house.sandbox(await house.session(owes=False, lease=SOON))
    owing = await house.sandbox(await house.session(lease=-timedelta(days=1)))
    young = await house.sandbox(await house.session(lease=SOON), age_s=0, named=False)  # its row is on its way
    left = await house.sandbox(await house.session(lease=SOON), named=False)
    forgotten = await house.session(owes=False, lease=-timedelta(days=1))
    asleep = await house.sandbox(forgotten)
    put_away = await house.session(owes=False)
    unsaved = await house.sandbox(put_away)
    gone = await house.session(owes=False, lease=SOON)
    deleted = await house.sandbox(gone)
    await house.store.delete_session(gone.id, user_id=gone.user_id)
    assert set(await house.janitor().clear()) == {left.id, deleted.id}
    assert {info.id for info in await house.sandboxes.list()} == {held.id, owing.id, young.id, asleep.id, unsaved.id}
    assert [row.status for row in await house.store.sandboxes(session_id=forgotten.id, live=False)] == ["ready"]
    # whoever left files in one is woken to save them, whether its process was killed or could not save them itself
    await house.until(lambda: set(house.woken) == {forgotten.id, put_away.id})
    assert await house.janitor().clear() == [] and len(house.woken) == 2


@pytest.mark.sandbox
async def test_janitors_of_two_databases_below_one_folder_leave_each_others_sandboxes_alone(tmp_path: Path) -> None:
    houses: list[House] = []
    try:
        for name in ("one", "two"):
            await asyncio.to_thread((tmp_path / name).mkdir)
            houses.append(House(tmp_path / name))
            await houses[-1].store.open()
            settings = houses[-1].settings.model_copy(update={"sandbox_path": tmp_path / "shared"})
            houses[-1].sandboxes = sandbox_provider(settings, deployment=await houses[-1].store.deployment())
        one, two = houses
        held = await one.sandbox(await one.session(owes=False, lease=SOON))
        asleep = await one.sandbox(await one.session(owes=False, lease=-timedelta(days=1)))
        for _ in range(2):
            assert await two.janitor().clear() == []
        assert await two.sandboxes.list() == [] and two.woken == []
        assert await held.is_alive() and await asleep.is_alive()
        assert await held.read_file("package.json") == await asleep.read_file("package.json")
    finally:
        for house in houses:
            await house.close()


@pytest.mark.sandbox
async def test_a_sandbox_waits_for_a_session_that_cannot_be_woken(house: House) -> None:
    asleep = await house.session(owes=False, lease=-timedelta(days=1))
    box = await house.sandbox(asleep)
    tried: list[str] = []

    async def wake(session_id: str) -> None:
        tried.append(session_id)
        raise StorageError("the database is locked")

    janitor = house.janitor(wake)
    for count in (1, 2):
        async with asyncio.timeout(60):
            while len(tried) < count:
                assert await janitor.clear() == []
                await asyncio.sleep(0.01)
    assert [info.id for info in await house.sandboxes.list()] == [box.id]


@pytest.mark.sandbox
async def test_of_peoples_own_only_what_is_unfinished_or_over_here_goes(house: House, tmp_path: Path) -> None:
    """They have no session that could say whether they are needed: their rows do, with a lease while they are made."""
    providers = Providers(house.settings, house.store)
    house.sandboxes = await providers.get("local")
    location, over = await house.sandboxes.location(), now() - timedelta(seconds=1)

    async def own(status: Literal["creating", "ready"], expires_at: datetime | None, *, made: bool = True) -> str:
        sandbox_id = f"sbx_{int((time.time() - 2 * REAP_GRACE_S) * 1000):012x}{secrets.token_hex(10)}"
        row = replace(
            records.own_sandbox(), id=sandbox_id, status=status, expires_at=expires_at, place=location.id,
            host=location.words,
        )  # fmt: skip
        await house.store.put_sandbox(row)
        if made:
            await house.sandboxes.create(sandbox_id=sandbox_id, session_id="", user_id="ann")
        return sandbox_id

    async def elsewhere() -> str:
        row = replace(records.own_sandbox(), expires_at=over)  # in another place
        await house.store.put_sandbox(row)
        return row.id

    ready, making = await own("ready", None), await own("creating", now() + SOON)
    half, never = await own("creating", over), await own("creating", over, made=False)
    ended = await own("ready", over)
    away = await elsewhere()
    image = replace(records.image(), expires_at=over, place=location.id, host=location.words)
    await house.store.put_image(image)
    copy = house.settings.sandbox_path / await house.store.deployment() / "images" / f".{image.id}"
    copy.mkdir(parents=True)
    janitor = house.janitor(own=lambda: clear_own(house.store, providers))
    assert set(await janitor.clear()) == {half, never, ended, image.id}
    assert {info.id for info in await house.sandboxes.list()} == {ready, making}
    assert {row.id for row in await house.store.own_sandboxes()} == {ready, making, away}
    assert await house.store.images() == [] and not copy.exists()


@pytest.mark.sandbox
async def test_one_whose_record_is_lost_is_its_rows_by_what_its_provider_calls_it(house: House) -> None:
    """As a container that was made ahead, whose labels say another id than the row that it was handed out to."""
    location = await house.sandboxes.location()
    row = replace(records.own_sandbox(), status="ready", place=location.id, host=location.words)
    ahead = f"sbx_{int((time.time() - 2 * REAP_GRACE_S) * 1000):012x}{secrets.token_hex(10)}"
    made = await house.sandboxes.create(sandbox_id=ahead, session_id="", user_id="ann")
    row = replace(row, provider_id=made.provider_id)
    await house.store.put_sandbox(row)
    assert await house.janitor().clear() == []
    await house.store.put_sandbox(replace(row, expires_at=now()))
    assert set(await house.janitor().clear()) == {ahead, row.id}
    assert await house.sandboxes.list() == [] and await house.store.own_sandboxes() == []


async def test_a_sessions_row_of_another_machine_is_left_to_that_machine(house: House) -> None:
    session = await house.session(owes=False, lease=SOON)
    here = await house.sandboxes.location()
    old = replace(records.sandbox(session), created_at=now() - timedelta(days=1), place=here.id, host=here.words)
    away = replace(old, id=new_id("sbx"), place="elsewhere", host="build7:/srv/koda")
    await house.store.commit(session.id, session.epoch, Batch(sandboxes=[old, away]))
    await house.janitor().clear()
    assert [row.id for row in await house.store.sandboxes()] == [away.id]


@pytest.mark.sandbox
async def test_a_janitor_that_stands_still_before_it_destroys_takes_nothing_that_a_session_came_back_to(
    house: House, tmp_path: Path
) -> None:
    """It has listed the sandboxes and knows which are needed; minutes go by, in which their sessions come back."""
    asleep, moved = [await house.session(owes=False, lease=-timedelta(days=1)) for _ in range(2)]
    left = await house.sandbox(moved, named=False, age_s=4 * REAP_GRACE_S)  # its turn comes first
    listed = await house.sandbox(asleep, age_s=3 * REAP_GRACE_S)
    await listed.write_files({"src/kept.ts": b"before"})
    elsewhere = sandbox_provider(house.settings, deployment="dep_test")  # of the process that a session wakes in
    with held_file(house.settings.sandbox_path / "dep_test" / left.id / ".lock"):
        janitor = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.actors.clearer", str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        try:
            await until_waiting(janitor.pid)  # to destroy the first
            # one comes back to its sandbox, works there and rests anew; the other makes one, which is not young any
            # more once the janitor goes on
            await house.store.activate(asleep.id, host="test", lease_until=now() + SOON)
            back = await elsewhere.connect(listed.id)
            await back.write_files({"src/kept.ts": b"after"})
            again = await house.store.activate(moved.id, host="test", lease_until=now() + SOON)
            made = await house.sandbox(again, age_s=2 * REAP_GRACE_S)
        except BaseException:
            janitor.kill()
            await janitor.wait()
            raise
    said, _ = await asyncio.wait_for(janitor.communicate(), 120)
    told = json.loads(said.decode().strip().splitlines()[-1])
    assert (told["gone"], told["unsaved"], janitor.returncode) == ([left.id], [asleep.id], 0)
    assert await back.is_alive() and await back.read_file("src/kept.ts") == b"after"
    assert await made.is_alive() and not await left.is_alive()
    assert {row.id for row in await house.store.sandboxes()} == {listed.id, made.id}
    assert await house.janitor().clear() == []  # nor does the next round
    await elsewhere.close()


async def test_whoever_left_files_on_another_node_is_woken_too_and_what_went_there_is_told(house: House) -> None:
    left = await house.session(owes=False)

    async def elsewhere() -> list[Reaped]:
        return [Reaped(gone=["sbx_there"]), Reaped(unsaved=[left.id], standing=1)]

    assert await house.janitor(elsewhere=elsewhere).clear() == ["sbx_there"]
    await house.until(lambda: house.woken == [left.id])


async def test_the_rest_is_cleared_where_nobody_says_which_nodes_there_are(house: House) -> None:
    closed = await filled(house, "a" * 64)
    await house.store.close_session(closed.id, user_id=closed.user_id)

    async def elsewhere() -> list[Reaped]:
        raise Unavailable("the cluster's head does not answer")

    assert await house.janitor(elsewhere=elsewhere).clear() == []
    assert await house.store.closed_sessions() == []


async def test_what_there_is_is_noted(house: House) -> None:
    noted: dict[tuple[str, str], float] = {}

    class Sink:
        def note(self, figure: Figure, value: float, **labels: str) -> None:
            noted[figure.name, labels.get("state") or labels.get("kind", "")] = value

    await house.session()
    await house.session(owes=False, lease=SOON)
    janitor = Janitor(
        store=house.store, chores=Chores(wake=house.wake, finish=house.removal.finish), settings=house.settings,
        reaper=Reaper(store=house.store, sandboxes=house.sandboxes, settings=house.settings), metrics=Sink(),
    )  # fmt: skip
    await janitor.clear()
    await janitor.wake_owed()
    assert noted.pop(("koda_cost_usd_total", "")) == 0 and noted.pop(("koda_janitor_looks_total", "")) == 1
    assert noted.pop(("koda_janitor_owed", "session")) == 1 and noted.pop(("koda_janitor_owed", "job")) == 0
    states = {"active": 1, "asleep": 1, "owing": 1, "closing": 0}
    assert noted == {("koda_sessions", state): count for state, count in states.items()}
    await house.until(lambda: janitor.waking == 0)


async def test_storage_is_swept_with_each_clearing(house: House) -> None:
    key = unit_key("ann", "a" * 64)
    await house.storage.put(key, b"frames")
    days = timedelta(days=7)
    sweep = Sweep(
        store=house.store,
        storage=house.storage,
        kept=Retention(units=days, pages=days, assets=days, previews=days),
        clock=lambda: now() + 2 * days,
    )
    await house.janitor(sweep=sweep.step).clear()
    assert await house.storage.list() == []


# --- what was cut off -----------------------------------------------------------------------------------------------


async def test_a_row_whose_sandbox_was_never_made_is_closed_and_one_on_its_way_is_not(house: House) -> None:
    session = await house.session(owes=False, lease=SOON)
    old, young = (replace(records.sandbox(session), id=new_id("sbx"), status="creating") for _ in range(2))
    old = replace(old, created_at=now() - timedelta(seconds=2 * REAP_GRACE_S), provider=house.sandboxes.name)
    young = replace(young, created_at=now(), provider=house.sandboxes.name)
    elsewhere = replace(old, id=new_id("sbx"), provider="e2b")  # this janitor cannot look there
    wanted = await house.session(lease=SOON)
    held = replace(old, id=new_id("sbx"), session_id=wanted.id, user_id=wanted.user_id)
    state = wanted.state.model_copy(update={"sandbox_id": held.id})
    await house.store.commit(session.id, session.epoch, Batch(sandboxes=[old, young, elsewhere]))
    await house.store.commit(wanted.id, wanted.epoch, Batch(sandboxes=[held], state=state))
    await house.janitor().clear()
    assert {row.id for row in await house.store.sandboxes()} == {young.id, elsewhere.id, held.id}


async def test_what_a_provider_left_that_is_not_taken_any_more_goes_too(house: House, tmp_path: Path) -> None:
    """``auto`` took local while the engine was away; now it is back, and takes all new ones."""
    left = await house.sandbox(await house.session(lease=SOON), named=False)
    session = await house.session(owes=False, lease=SOON)
    held = await house.sandbox(session)
    former = house.sandboxes
    there = await former.location()
    ended = replace(records.sandbox(session), id=new_id("sbx"), created_at=now() - timedelta(days=1))
    ended = replace(ended, provider=former.name, place=there.id, host=there.words)
    await house.store.commit(session.id, session.epoch, Batch(sandboxes=[ended]))
    house.sandboxes = LocalProvider.of(
        house.settings.model_copy(update={"sandbox_path": tmp_path / "elsewhere"}), deployment="dep_test"
    )
    back: list[SandboxProvider] = []

    async def others() -> list[SandboxProvider]:
        return back

    janitor = house.janitor(others=others)
    assert await janitor.clear() == []
    back.append(former)  # it comes back while the janitor runs
    assert await janitor.clear() == [left.id]
    assert [info.id for info in await former.list()] == [held.id]
    assert [row.id for row in await house.store.sandboxes()] == [held.id], "nor a row of what has ended there by itself"
    house.sandboxes = former


async def test_whoever_keeps_a_janitor_wakes_what_owes_work_until_another_answers(house: House) -> None:
    """Not only for as long as one try to start another takes."""
    owing = (await house.session()).id
    waker = OwedWaker(house.store, wake=house.wake, wake_render=None, pace=WakingPace(first_pause_s=1))
    stand_in = StandIn(waker)

    async def fails() -> None:
        stand_in.begin()
        raise TimeoutError

    await stand_in.until(fails())
    await house.until(lambda: house.woken == [owing])
    late = (await house.session()).id
    await house.until(lambda: late in house.woken)
    running = asyncio.all_tasks()
    await stand_in.until(asyncio.sleep(0))
    await waker.close()
    assert [task.done() for task in running - asyncio.all_tasks()], "what stood in has ended"
