"""What a session may use: it is warned, stopped by its budget, asked about it, and goes on after a person said so."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from koda_ray.actors.job_owner import JobOwner
from koda_ray.actors.leased_job import JobParts, LeasedJob, row_spec
from koda_ray.actors.session import Session
from koda_ray.actors.session_jobs import JobRequest
from koda_ray.actors.spending import SLICE_MS, SandboxMinutes, pause_for, purse_of
from koda_ray.agent.purse import Purse, month
from koda_ray.budgets import Amounts, Exceeded
from koda_ray.errors import BudgetExceeded, InvalidInput
from koda_ray.render import environment
from koda_ray.render.options import JobOptions
from koda_ray.render.protocol import UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.charges import Accrue, ChargeRecord, Reserve, Settle
from koda_ray.state.records import Batch, JobRecord
from koda_ray.types import Budget, NodeState, new_id, now
from tests.actors.conftest import SessionWorld
from tests.actors.script import GOOD_FILES, scripted_model
from tests.books import Ledger, check_sums
from tests.llm.server import reply

pytestmark = [pytest.mark.sandbox, pytest.mark.browser]


async def spent(world: SessionWorld, account: str) -> Amounts:
    found = await world.store.accounts("local", [account])
    return Amounts.of(found[0].spent) if found else Amounts()


async def charges(world: SessionWorld, session: Session, kind: str) -> list[ChargeRecord]:
    return [each for each in await world.store.charges(session.session_id) if each.kind == kind]


async def answered(world: SessionWorld, session: Session, *, while_paused: Callable[[NodeState], None]) -> int:
    """Say yes to more, however often it is asked, until the preview is there; return how often that was."""
    times = 0
    while (await world.until(session, "question", "plan", "preview")).phase != "preview":
        if session.state.phase == "plan":
            await world.say(session, "accept")
            continue
        while_paused(session.state)
        times += 1
        await world.say(session, "answer", optionId="more")
    return times


@pytest.mark.full
async def test_a_session_is_stopped_by_its_budget_asks_and_goes_on_when_a_person_says_so(world: SessionWorld) -> None:
    provider = world.model(scripted_model())
    session = await world.activate(await world.row(), provider, budget_cost_usd=0.055, budget_warn_at=0.05)
    paused: list[NodeState] = []
    times = await answered(world, session, while_paused=paused.append)
    assert times >= 1
    first = paused[0]
    assert first.paused is not None and first.paused.resource == "cost" and first.question is not None
    assert (first.question.reason, first.question.custom_input) == ("budget", False)
    assert [option.id for option in first.question.options] == ["more", "stop"]
    assert "$0.0550" in first.question.text and "$0.11" in (first.question.options[0].description or "")
    assert session.state.budget is not None and session.state.budget.cost_usd == pytest.approx(0.055 * 2**times)
    assert session.state.paused is None
    asked = [a for a in await world.store.approvals(session.session_id) if a.kind == "question"]
    assert [a.status for a in asked] == ["approved"] * times
    said = json.dumps([m.content for m in await world.store.messages(session.session_id)])
    assert '"more"' not in said and "My answer" not in said, "the agents hear nothing of money"
    assert await world.events(session, "budget_warning")

    await world.say(session, "accept")
    done = await world.until(session, "complete")
    models, renders = await charges(world, session, "model"), await charges(world, session, "render")
    answers = [m.id for m in await world.store.messages(session.session_id) if m.role == "assistant"]
    paid = [c.id for c in models if c.status == "settled" and c.agent == "orchestrator"]
    assert sorted(paid) == sorted(answers)
    assert any(c.agent == "code_generator" and c.status == "settled" for c in models)
    assert done.preview is not None and done.output is not None
    assert {c.id: c.status for c in renders} == {done.preview.job_id: "settled", done.output.job_id: "settled"}
    units = [chunk for job in renders for chunk in await world.store.chunks(job.id)]
    assert sum(Amounts.of(c.spent).render_ms for c in renders) == sum(unit.wall_ms for unit in units) > 0
    await session.close()
    boxes = await charges(world, session, "sandbox")
    assert 1 <= len(boxes) <= 1 + times and all(c.status == "settled" for c in boxes)
    whole = await spent(world, session.session_id)
    assert 1_000 < whole.sandbox_ms < 240_000 and whole.cost_microusd > 0 and not whole.unpriced_tokens
    assert whole == await spent(world, month())
    usage = [event["costUsd"] for event in await world.events(session, "usage")]
    assert sum(usage) * 1_000_000 == pytest.approx(whole.cost_microusd)
    await check_sums(world.store, "local", session.session_id)


async def test_a_person_who_wants_no_more_is_back_where_they_can_act(world: SessionWorld) -> None:
    session = await world.activate(await world.row(), world.model(scripted_model()), budget_tokens=100)
    paused = await world.until(session, "question")
    assert paused.paused is not None and paused.paused.resource == "tokens"
    with pytest.raises(InvalidInput, match="more, stop"):
        await world.say(session, "message", text="make it red")
    with pytest.raises(InvalidInput, match="more, stop"):
        await world.say(session, "answer", text="yes")
    await world.say(session, "answer", optionId="stop")
    assert (session.state.phase, session.state.owes, session.state.paused) == ("idle", None, None)
    assert await charges(world, session, "model") == []
    assert (await spent(world, session.session_id)).tokens == 0


async def test_a_users_month_bounds_all_of_their_sessions_and_nobody_raises_it_by_answering(
    world: SessionWorld,
) -> None:
    row = await world.row()
    settle = Settle(id="old", spent=Amounts(tokens=5_000), bounds=Purse(None).bounds)
    await world.store.activate(row, host="x", lease_until=now() + timedelta(seconds=1))
    await world.store.commit(row, 1, Batch(charges=[settle]))
    session = await world.activate(await world.row(), world.model(scripted_model()), user_budget_tokens=5_000)
    paused = await world.until(session, "question")
    assert paused.paused is not None and paused.paused.account == month() and paused.paused.raise_to is None
    assert paused.question is not None and [o.id for o in paused.question.options] == ["again", "stop"]
    await world.say(session, "answer", optionId="again")
    assert (await world.until(session, "question")).budget is None
    await session.close()  # whoever runs the server raises it
    session = await world.activate(session.session_id, world.model(scripted_model()), user_budget_tokens=10**9)
    await world.say(session, "answer", optionId="again")
    await world.until(session, "plan")


@pytest.mark.full
async def test_render_time_that_is_used_up_pauses_a_render_and_what_is_done_stays(world: SessionWorld) -> None:
    session = await world.activate(
        await world.row(), world.model(scripted_model()), budget_render_minutes=0.001, budget_sandbox_minutes=60
    )
    times = await answered(world, session, while_paused=lambda state: None)
    assert times >= 1
    (render,) = await charges(world, session, "render")
    assert render.status == "settled"
    calls = await world.store.tool_calls(session.session_id)
    shown = [call for call in calls if call.name == "render_preview"]
    assert [(call.status, call.attempt) for call in shown] == [("succeeded", 1)], "one call, taken up again"
    jobs = await world.store.list_jobs(session_id=session.session_id)
    assert [job.status for job in jobs] == ["succeeded"]
    units = await world.store.chunks(jobs[0].id)
    assert Amounts.of(render.spent).render_ms == sum(unit.wall_ms for unit in units)
    await check_sums(world.store, "local", session.session_id)


@pytest.mark.full
async def test_a_paused_render_that_nobody_wants_any_more_is_settled(world: SessionWorld) -> None:
    session = await world.activate(await world.row(), world.model(scripted_model()), budget_sandbox_minutes=60)
    await world.until(session, "plan")
    await world.say(session, "accept")
    await world.until(session, "preview")
    spent_ms = (await spent(world, session.session_id)).render_ms
    await world.say(session, "budget", renderMinutes=(spent_ms + 300) / 60_000)
    await world.say(session, "accept")
    paused = await world.until(session, "question")
    assert paused.paused is not None and paused.paused.owes == "render_final" and paused.output is not None
    bounds = purse_of(session.core, world.settings).bounds  # as one is left that was paused between two of its units
    begun = Reserve(id=paused.output.job_id, kind="render", amounts=Amounts(render_ms=200), bounds=bounds)
    going = Accrue(id=paused.output.job_id, spent=Amounts(render_ms=150), held=Amounts(), bounds=bounds)
    await session.core.commit(Batch(charges=[begun, going]))
    await world.say(session, "answer", optionId="stop")
    left = await world.until(session, "preview")
    assert left.paused is None
    ended = {c.id: (c.status, c.spent) for c in await charges(world, session, "render")}
    assert ended[paused.output.job_id] == ("settled", {"render_ms": 150})
    assert {status for status, _ in ended.values()} == {"settled"}
    (account,) = await world.store.accounts("local", [session.session_id])
    assert "render_ms" not in account.held
    await check_sums(world.store, "local", session.session_id)


@pytest.mark.full
async def test_a_render_whose_process_ended_in_order_goes_on_and_is_paid_by_the_next_one(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, made = JobOwner.unit, set[int]()

    async def hear(owner: JobOwner, unit: UnitResult) -> None:
        if not unit.reused:  # one that was ready as the process ended, and that nobody heard of, costs nothing
            made.add(unit.unit.index)
        await told(owner, unit)

    monkeypatch.setattr(JobOwner, "unit", hear)
    session = await world.at_rest()
    await session.core.commit(await session.workbench.keep(GOOD_FILES))
    digest = await session.workbench.built()
    assert isinstance(digest, str)
    spec = RenderSpec.from_preset("preview", bundle=digest, duration_s=20, size=(1280, 720))
    running = asyncio.create_task(session.jobs.run(JobRequest(spec=spec, id="job_1", kind="preview")))
    deadline = time.monotonic() + 60
    while not await world.store.chunks("job_1"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.wait({running})
    await session.close()
    (left,) = await charges(world, session, "render")
    before = Amounts.of(left.spent).render_ms
    assert (left.status, left.held) == ("reserved", {}) and before > 0
    await world.store.close_charges(now() + timedelta(seconds=1))  # as after a long time
    (closed,) = await charges(world, session, "render")
    assert (closed.status, closed.spent) == ("settled", left.spent)

    limit = (before + 1) / 60_000  # the next one is bounded by what was spent before
    short = await world.activate(session.session_id, world.providers[0], budget_render_minutes=limit)
    with pytest.raises(BudgetExceeded):
        await short.jobs.run(JobRequest(spec=spec, id="job_1", kind="preview"))
    await short.close()
    again = await world.activate(session.session_id, world.providers[0])
    await again.jobs.run(JobRequest(spec=spec, id="job_1", kind="preview"))
    (paid,) = await charges(world, session, "render")
    units = await world.store.chunks("job_1")
    assert paid.status == "settled" and paid.reason is None
    assert Amounts.of(paid.spent).render_ms == sum(unit.wall_ms for unit in units if unit.unit in made) > before
    assert len(units) - len(made) <= 4, "more than two workers had under way as it ended twice"
    await check_sums(world.store, "local", session.session_id)


@pytest.mark.full
async def test_what_newer_nodes_capture_anew_is_paid_and_stands_with_its_units(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was spent stays spent: the time that a unit took is all of it, also what is not in the video."""
    session = await world.at_rest()
    await session.core.commit(await session.workbench.keep(GOOD_FILES))
    digest = await session.workbench.built()
    assert isinstance(digest, str)
    spec = RenderSpec.from_preset("preview", bundle=digest, duration_s=20, size=(1280, 720))
    running = asyncio.create_task(session.jobs.run(JobRequest(spec=spec, id="job_1", kind="preview")))
    deadline = time.monotonic() + 60
    while not (old := await world.store.chunks("job_1")):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.wait({running})
    await session.close()
    monkeypatch.setattr(environment, "CAPTURE_VERSION", "newer")
    environment.read_environment.cache_clear()
    try:
        again = await world.activate(session.session_id, world.providers[0])
        await again.jobs.run(JobRequest(spec=spec, id="job_1", kind="preview"))
    finally:
        environment.read_environment.cache_clear()
    units = {unit.unit: unit for unit in await world.store.chunks("job_1")}
    assert all(units[unit.unit].key != unit.key and units[unit.unit].wall_ms > unit.wall_ms for unit in old)
    (paid,) = await charges(world, session, "render")
    assert Amounts.of(paid.spent).render_ms == sum(unit.wall_ms for unit in units.values())
    await check_sums(world.store, "local", session.session_id)


@pytest.mark.full
async def test_sandbox_time_is_charged_while_it_passes_and_ends_an_idle_sandbox(world: SessionWorld) -> None:
    session = await world.activate(
        await world.row(phase="executing", owes=None, execution={}, plan_accepted=True),
        world.model(scripted_model()),
        budget_sandbox_minutes=1.03,
        lease_s=0.6,
    )
    await session.preview("local")
    (box,) = await charges(world, session, "sandbox")
    assert (box.status, box.held) == ("reserved", {"sandbox_ms": SLICE_MS})
    world.ahead_s = 58  # nobody waits for a minute
    deadline = time.monotonic() + 60
    while session.project.alive:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await world.event(session, "sandbox", 3)
    (box,) = await charges(world, session, "sandbox")
    assert box.status == "settled" and 61_800 <= Amounts.of(box.spent).sandbox_ms < 121_800
    with pytest.raises(Exception, match=r"1\.0 min of sandbox does not cover"):
        await session.preview("local")
    await check_sums(world.store, "local", session.session_id)


async def test_a_process_that_dies_charges_what_it_saw_and_the_next_counts_on(world: SessionWorld) -> None:
    session = await world.at_rest()
    await session.preview("local")
    world.ahead_s = 10
    async with asyncio.timeout(60):
        while Amounts.of((await charges(world, session, "sandbox"))[0].spent).sandbox_ms < 10_000:
            await asyncio.sleep(0.02)
    next_one = await world.activate(session.session_id, world.providers[0])  # the first writes nothing any more
    before = Amounts.of((await charges(world, session, "sandbox"))[0].spent).sandbox_ms
    await next_one.preview("local")
    await next_one.close()
    (box,) = await charges(world, next_one, "sandbox")
    assert box.status == "settled" and before <= Amounts.of(box.spent).sandbox_ms < before + 60_000
    await check_sums(world.store, "local", session.session_id)


async def test_what_a_dead_process_held_for_a_model_is_free_again(world: SessionWorld) -> None:
    never_done = world.model(lambda _: reply("hm", hang=True))
    session = await world.activate(await world.row(), never_done, budget_tokens=10**6)
    deadline = time.monotonic() + 60
    while not [c for c in await charges(world, session, "model") if c.status == "reserved"]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    (held,) = [c.id for c in await charges(world, session, "model") if c.status == "reserved"]
    other = await world.activate(session.session_id, world.model(scripted_model()), budget_tokens=10**6)
    found = {c.id: (c.status, c.reason) for c in await charges(world, other, "model")}
    assert found[held] == ("refunded", "its process ended")
    await world.until(other, "plan")
    await check_sums(world.store, "local", other.session_id)


# --- a page render --------------------------------------------------------------------------------------------------


@pytest.mark.full
async def test_a_page_render_is_charged_to_the_users_month(world: SessionWorld) -> None:
    session = await world.open()
    await world.until(session, "plan")
    await world.say(session, "accept")
    shown = (await world.until(session, "preview")).preview
    assert shown is not None
    before = (await spent(world, month())).render_ms

    async def render(purse: Purse, seed: int) -> JobRecord:
        options = JobOptions.from_json({"duration_s": 1.0, "fps": "10", "size": [320, 180], "seed": seed})
        at = now()
        job = JobRecord(
            id=new_id("job"), user_id="local", project_id="local", session_id=None, kind="render",
            spec=row_spec(bundle=shown.bundle, entry="index.html", options=options), status="queued",
            created_at=at, updated_at=at,
        )  # fmt: skip
        await world.store.create_job(job)
        parts = JobParts(store=world.store, storage=world.storage, executor=world.executor, purse=purse)
        one = await LeasedJob.claim(job.id, parts, lease_s=4.0, ended=lambda: None)
        await one.wait()
        await one.close()
        return await world.store.get_job(job.id)

    made = await render(Purse(None, monthly=Budget(render_minutes=10)), 1)
    assert made.status == "succeeded", made.error
    preview = await world.store.get_job(shown.job_id)
    assert made.result is not None and preview.result is not None  # both are told of in one way
    assert made.result.keys() == preview.result.keys()
    assert made.progress == preview.progress == {"percent": 100.0}
    (charge,) = await world.store.charges(made.id)
    assert charge.status == "settled"
    assert (await spent(world, month())).render_ms == before + Amounts.of(charge.spent).render_ms > before
    refused = await render(Purse(None, monthly=Budget(render_minutes=before / 60_000)), 2)
    assert refused.status == "failed" and refused.error is not None and refused.error["code"] == "BUDGET_EXCEEDED"
    assert "the user's budget for" in str(refused.error["message"])
    assert await world.store.charges(refused.id) == []


# --- without any of that ----------------------------------------------------------------------------------------------


def test_time_is_said_in_all_so_far() -> None:
    clock = 100.0
    minutes = SandboxMinutes(Purse("ses_1"), every_s=4, clock=lambda: clock)
    ledger = Ledger()
    assert minutes.going() == []
    ledger.enter(minutes.begin("sbx_1"))
    minutes.ready("sbx_1")
    clock += 5
    said = minutes.going()
    ledger.enter(*said, *said)
    assert minutes.going() == []
    clock += 2
    assert ledger.sums("ses_1") == (Amounts(sandbox_ms=SLICE_MS), Amounts(sandbox_ms=5_000))
    ledger.enter(*minutes.end("sbx_1"))
    ledger.enter(*minutes.end("sbx_1"))
    assert ledger.sums("ses_1") == (Amounts(), Amounts(sandbox_ms=7_000))


def test_the_question_says_what_there_was_and_what_comes_of_each_answer() -> None:
    found = Exceeded(account="ses_1", resource="cost", limit=5_000_000, spent=4_970_000, held=0, wanted=60_000)
    pause = pause_for(found)
    assert pause.raise_to == 10_000_000
    assert pause.question.text == (
        "The budget of $5.00 does not cover what comes next: $4.97 spent, $0.06 more wanted. Go on?"
    )
    assert [(o.id, o.label) for o in pause.question.options] == [
        ("more", "Go on with $5.00 more"),
        ("stop", "Stop here"),
    ]
    none = pause_for(Exceeded(account="ses_1", resource="render", limit=0, spent=0, held=0, wanted=90_000))
    assert none.raise_to == 90_000
