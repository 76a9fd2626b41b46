"""A preview is captured while its page is tried: heard of, and paid, only where the page passes."""

from __future__ import annotations

import asyncio

import pytest

from koda_ray.actors.session import Session
from koda_ray.budgets import Amounts
from koda_ray.errors import BudgetExceeded
from koda_ray.render.protocol import Captured, CaptureTask, Hear, ProbeReport, ProbeTask, UnitResult
from koda_ray.types import Preview
from tests.actors.conftest import SessionWorld
from tests.actors.script import GOOD_FILES, PROJECT, plan_of, scripted_model
from tests.actors.test_corrections import THROWING

pytestmark = [pytest.mark.sandbox, pytest.mark.browser]


class Watched:
    """The world's executor, whose tries begin once a unit was stored, or captured at least."""

    def __init__(self, world: SessionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.before_the_try: list[str] = []
        self.captures = self.probes = 0
        self.under_way = 0
        self._world = world
        self.stored = asyncio.Event()
        self._probe, self._capture = world.executor.probe, world.executor.capture
        monkeypatch.setattr(world.executor, "probe", self.probe)
        monkeypatch.setattr(world.executor, "capture", self.capture)

    async def probe(self, task: ProbeTask) -> ProbeReport:
        await self._until_stored()
        self.probes += 1
        return await self._probe(task)

    async def _until_stored(self) -> None:
        async with asyncio.timeout(60):
            await self.stored.wait()
        (session,) = self._world.sessions
        jobs = await self._world.store.list_jobs(session_id=session.session_id)
        self.before_the_try += [job.id for job in jobs]
        self.before_the_try += [str(event) for event in await self._world.events(session, "render_start")]

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        async def heard(told: Captured | UnitResult) -> None:
            assert hear is not None
            await hear(told)
            self.stored.set()

        self.captures += 1
        self.under_way += 1
        try:
            if task.trial is not None:
                await self._until_stored()
            await self._capture(task, heard)
        finally:
            self.under_way -= 1
            self.stored.set()


async def planned(
    world: SessionWorld, files: dict[str, str], *, duration_s: float = 2.0, **settings: object
) -> Session:
    """Make a session in the middle of its work on a plan, with files and without a preview."""
    row = await world.row(phase="executing", owes=None, execution={}, plan_accepted=True, plan=plan_of(duration_s))
    session = await world.activate(row, world.model(scripted_model()), **settings)
    await session.core.commit(await session.workbench.keep(files))
    return session


@pytest.mark.full
async def test_a_preview_is_captured_while_its_page_is_tried(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(world, monkeypatch)
    session = await planned(world, GOOD_FILES)
    shown = await session.workbench.preview(cause_id="call_1")
    assert isinstance(shown, Preview) and shown.duration == 2
    assert watched.before_the_try == []
    (job,) = await world.store.list_jobs(session_id=session.session_id)
    units = await world.store.chunks(job.id)
    assert (job.status, len(units)) == ("succeeded", 2)
    (paid,) = [each for each in await world.store.charges(session.session_id) if each.kind == "render"]
    assert paid.status == "settled"
    assert Amounts.of(paid.spent).render_ms == sum(unit.wall_ms for unit in units) > 0
    assert watched.under_way == 0


async def test_who_has_tried_a_page_captures_units_of_it_too(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(world, monkeypatch)
    files = {**GOOD_FILES, "src/theatre/project.ts": PROJECT.format(duration=5)}
    session = await planned(world, files, duration_s=5.0)
    shown = await session.workbench.preview(cause_id="call_1")
    assert isinstance(shown, Preview) and shown.duration == 5
    assert watched.before_the_try == [] and watched.probes == 0
    (job,) = await world.store.list_jobs(session_id=session.session_id)
    assert (job.status, len(await world.store.chunks(job.id))) == ("succeeded", 5)
    assert watched.under_way == 0


@pytest.mark.full
@pytest.mark.parametrize("duration_s", [2.0, 5.0])  # tried beside who captures it, and by one of them
async def test_nobody_hears_of_what_was_captured_of_a_page_that_fails(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch, duration_s: float
) -> None:
    watched = Watched(world, monkeypatch)
    files = {"src/theatre/project.ts": PROJECT.format(duration=duration_s), "src/App.tsx": THROWING}
    session = await planned(world, files, duration_s=duration_s)
    failed = await session.workbench.preview(cause_id="call_1")
    assert not isinstance(failed, Preview) and "the dot is lost" in str(failed)
    assert watched.captures > 0 and watched.under_way == 0
    assert await world.store.list_jobs(session_id=session.session_id) == []
    assert await world.events(session, "render_start", "render_progress") == []
    assert [each for each in await world.store.charges(session.session_id) if each.kind == "render"] == []


@pytest.mark.full
async def test_a_page_that_is_longer_than_its_plan_is_shown_whole(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(world, monkeypatch)
    session = await planned(world, {**GOOD_FILES, "src/theatre/project.ts": PROJECT.format(duration=3)})
    shown = await session.workbench.preview(cause_id="call_1")
    assert isinstance(shown, Preview) and shown.duration == 3
    (job,) = await world.store.list_jobs(session_id=session.session_id)
    assert (job.status, len(await world.store.chunks(job.id))) == ("succeeded", 3)
    assert len(await world.events(session, "render_start")) == 1
    assert watched.under_way == 0
    (paid,) = [each for each in await world.store.charges(session.session_id) if each.kind == "render"]
    units = await world.store.chunks(job.id)
    assert Amounts.of(paid.spent).render_ms == sum(unit.wall_ms for unit in units) > 0
    assert watched.before_the_try == []


@pytest.mark.full
async def test_nothing_is_captured_early_that_could_not_be_paid(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(world, monkeypatch)
    watched.stored.set()
    session = await planned(world, GOOD_FILES, budget_render_minutes=0.001)
    with pytest.raises(BudgetExceeded):
        await session.workbench.preview(cause_id="call_1")
    assert watched.captures == 0


@pytest.mark.full
async def test_a_preview_that_is_cancelled_while_its_page_is_tried_leaves_nothing(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(world, monkeypatch)
    session = await planned(world, GOOD_FILES)
    running = asyncio.create_task(session.workbench.preview(cause_id="call_1"))
    async with asyncio.timeout(60):
        await watched.stored.wait()
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled() and watched.under_way == 0
    assert await world.store.list_jobs(session_id=session.session_id) == []
    assert await world.events(session, "render_start") == []
    shown = await session.workbench.preview(cause_id="call_1")
    assert isinstance(shown, Preview)
