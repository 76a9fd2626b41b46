"""Many agents in one process: bounds that hold, places that change hands, and a crash after which all go on."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from koda_ray.agent import Agent, AgentPool, PoolBounds, Runtime, tool
from koda_ray.agent.limits import Limits
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.spec import Policy
from koda_ray.agent.whereabouts import here, is_gone
from koda_ray.errors import Cancelled, Conflict, InvalidInput, ModelError, NotFound, Unavailable
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.state.records import Batch
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from koda_ray.types import now
from tests.agent.everywhere import everywhere, everywhere_at_length
from tests.agent.lingering import Lingering
from tests.agent.outside import effects, record_effect
from tests.agent.pool_victim import NAMES, clerk
from tests.agent.warm import Warm
from tests.llm.server import Answer, ApiError, Call, ModelServer, ScriptedModel, reply, results, texts

Json = dict[str, Any]


@asynccontextmanager
async def pool_of(
    store: Store, model: Callable[[Json], Answer], tools: Any = (), bounds: PoolBounds | None = None, **policy: Any
) -> AsyncGenerator[AgentPool]:
    """A pool whose agents have any name but ``nobody``."""
    with ModelServer(ScriptedModel(model)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)

        def make(name: str, runtime: Runtime) -> Agent | None:
            return Agent(name, tools, runtime=runtime, policy=Policy(**policy)) if name != "nobody" else None

        async with AgentPool(make, runtime=Runtime(provider=provider, store=store), bounds=bounds) as pool:
            yield pool
        await provider.close()


class Gate:
    """A tool that waits until it is let through, and counts who is in it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = self.most = 0

        @tool(effect="idempotent")
        async def wait() -> str:
            """Wait."""
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                await self.open.wait()
            finally:
                self.inside -= 1
            return "waited"

        self.tool = wait

    async def full(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.inside < count:
                await asyncio.sleep(0.01)


def waits(request: Json) -> Answer:
    """Call the gate once for each thing that was said."""
    return reply("Through.") if len(results(request)) >= len(texts(request)) else Call("wait")


def echo(request: Json) -> Answer:
    return reply(" ".join(texts(request)))


async def statuses(store: Store) -> dict[str, str]:
    return {row.node_id.removeprefix("agent:"): row.status for row in await store.list_sessions("local")}


async def events(store: Store, name: str) -> list[str]:
    row = next(row for row in await store.list_sessions("local") if row.node_id == f"agent:{name}")
    return [event.type for event in await store.events(row.id)]


@everywhere_at_length
async def test_many_agents_share_few_places_and_remember_everything(store: Store) -> None:
    names = [f"agent {number}" for number in range(12)]
    most = 0
    async with pool_of(store, echo, bounds=PoolBounds(open=4, running=2, wait_s=200)) as pool:

        async def watch() -> None:
            nonlocal most
            while True:
                status = pool.status
                most = max(most, len(status.running))
                assert len(status.running) + len(status.queued) + len(status.idle) <= 4
                await asyncio.sleep(0.001)

        watching = asyncio.create_task(watch())
        first = await asyncio.gather(*(pool.ask(name, f"I am {name}.") for name in names))
        assert [outcome.text for outcome in first] == [f"I am {name}." for name in names]
        again = await asyncio.gather(*(pool.ask(name, "Who?") for name in names))
        assert [outcome.text for outcome in again] == [f"I am {name}. Who?" for name in names]
        watching.cancel()
        await asyncio.wait({watching})
        assert watching.cancelled() and most <= 2
        assert len([1 for status in (await statuses(store)).values() if status == "active"]) <= 4
    assert await statuses(store) == dict.fromkeys(names, "suspended")
    lives = {name: await events(store, name) for name in names}
    for name, types in lives.items():
        assert types[0] == "state_change" and types.count("usage") == 2, (name, types)
        stays = [type for type in types if type in ("activated", "passivated")]
        assert stays == ["activated", "passivated"] * (len(stays) // 2), (name, types)
    # who comes late, its store being slow, may be there still when it is asked again: four at most
    assert sum(types.count("activated") for types in lives.values()) >= 12 + 8


async def test_who_speaks_waits_for_a_place_and_is_told_when_there_is_none(store: Store) -> None:
    gate = Gate()
    bounds = PoolBounds(open=2, running=2, wait_s=2)
    async with pool_of(store, waits, [gate.tool], bounds) as pool:
        at_work = [asyncio.create_task(pool.ask(name, "Wait.")) for name in ("ann", "bob")]
        await gate.full(2)
        with pytest.raises(Unavailable, match="all 2 places are taken") as refused:
            await pool.send("cid", "Hello?")
        assert refused.value.retryable
        assert "cid" not in await statuses(store)
        gate.open.set()
        assert [(await each).text for each in at_work] == ["Through.", "Through."]
        assert (await pool.ask("cid", "Hello?")).text == "Through."


async def test_who_waits_for_an_agent_that_somebody_has_keeps_no_other_from_working(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "agents.db")
    await store.open()
    async with pool_of(store, echo, (), PoolBounds(running=2)) as pool:
        async with pool.use("ann"):
            for n in range(3):
                await pool.send("ann", str(n))
            async with asyncio.timeout(60):
                assert (await pool.ask("bob", "Hello?")).text == "Hello?"
        await pool.rest("ann")
    await store.close()


async def test_an_agent_that_does_not_come_to_answer_is_told_no_more(store: Store) -> None:
    gate = Gate()
    async with pool_of(store, waits, [gate.tool], PoolBounds(unanswered=2, wait_s=2)) as pool:
        first = asyncio.create_task(pool.ask("ann", "0"))
        await gate.full(1)
        await pool.send("ann", "1")
        await pool.send("ann", "2")
        with pytest.raises(Unavailable, match="2 messages to 'ann' are unanswered"):
            await pool.send("ann", "3")
        gate.open.set()
        assert (await first).text == "Through."
        await pool.rest("ann")
        await pool.send("ann", "3")
        await pool.rest()
        async with pool.use("ann") as agent:
            words: Any = [message.content[0] for message in await agent.messages() if message.role == "user"]
            said = [block["text"] for block in words if block["type"] == "text"]
        assert said == ["0", "1", "2", "3"]


@everywhere
async def test_one_key_is_one_message(store: Store) -> None:
    async with pool_of(store, echo) as pool:
        await pool.ask("ann", "Hello.", key="k")
        assert (await pool.ask("ann", "Hello.", key="k")).text == "Hello."
        with pytest.raises(Conflict):
            await pool.send("ann", "Bye.", key="k")
        async with pool.use("ann") as agent:
            assert len(await agent.messages()) == 2


async def test_one_that_has_nothing_to_do_is_let_go_by_itself(store: Store) -> None:
    async with pool_of(store, echo, bounds=PoolBounds(idle_s=0.1)) as pool:
        await pool.ask("ann", "Hello.")
        async with asyncio.timeout(60):
            while (await statuses(store))["ann"] == "active":
                await asyncio.sleep(0.02)
        assert pool.status.idle == ()
        assert (await pool.ask("ann", "Back?")).text == "Hello. Back?"


async def test_what_it_asks_a_person_is_answered_wherever_it_is(store: Store) -> None:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    paid: list[int] = []

    def model(request: Json) -> Answer:
        return reply("Paid.") if results(request) else Call("pay", {"amount": 40})

    bounds = PoolBounds(open=1)
    async with pool_of(store, model, [pay], bounds, permissions=Permissions(mode="ask")) as pool:
        asked = await pool.ask("ann", "Pay.")
        assert asked.kind == "suspended" and asked.suspended_call_id is not None
        await pool.ask("bob", "Pay.")  # takes her place
        async with pool.use("ann") as agent:
            assert (await agent.approve(asked.suspended_call_id)).text == "Paid."
        assert paid == [40]


async def test_one_that_cannot_go_on_is_let_go_and_says_why(store: Store) -> None:
    @tool(effect="idempotent")
    def step(number: int) -> str:
        """Step."""
        return str(number)

    def model(request: Json) -> Answer:
        if texts(request)[-1] == "Fail.":
            return ApiError(400, "invalid_request_error", "no such thing")
        return Call("step", {"number": len(results(request))}) if texts(request)[-1] == "Run." else reply("Yes.")

    async with pool_of(store, model, [step], limits=Limits(turns=2)) as pool:
        with pytest.raises(ModelError, match="no such thing"):
            await pool.ask("ann", "Fail.")
        assert (await pool.ask("bob", "Run.")).kind == "limit"
        async with asyncio.timeout(60):
            while "active" in (await statuses(store)).values():
                await asyncio.sleep(0.02)
        assert "error" in await events(store, "ann")
        assert (await pool.ask("ann", "And now?")).text == "Yes."


async def test_who_is_cancelled_stops_and_can_be_asked_again(store: Store) -> None:
    gate = Gate()

    def model(request: Json) -> Answer:
        return reply("Yes.") if texts(request)[-1] == "There?" else Call("wait")

    async with pool_of(store, model, [gate.tool], PoolBounds(running=1)) as pool:
        working = asyncio.create_task(pool.ask("ann", "Wait."))
        await gate.full(1)
        queued = asyncio.create_task(pool.ask("bob", "Wait."))
        async with asyncio.timeout(60):
            while pool.status.queued != ("bob",):
                await asyncio.sleep(0.01)
        for name, asked in (("bob", queued), ("ann", working)):
            await pool.cancel(name)
            with pytest.raises(Cancelled):
                await asked
        assert gate.inside == 0
        assert [(await pool.ask(name, "There?")).text for name in ("ann", "bob")] == ["Yes.", "Yes."]


class Held(SqlStore):
    """A store in which the words "There?" stay on their way until they are let go: not stored yet, or just stored."""

    def __init__(self, path: Path, *, stored: bool) -> None:
        super().__init__(path)
        self.stored = stored
        self.there, self.go = asyncio.Event(), asyncio.Event()

    async def commit(self, session_id: str, epoch: int, batch: Batch) -> Any:
        held = any(message.content == [{"type": "text", "text": "There?"}] for message in batch.messages)
        if not held:
            return await super().commit(session_id, epoch, batch)
        done = await super().commit(session_id, epoch, batch) if self.stored else None
        self.there.set()
        await self.go.wait()
        return done if self.stored else await super().commit(session_id, epoch, batch)


def asked_there(request: Json) -> Answer:
    return reply("Yes.") if "There?" in texts(request) else Call("wait")


@everywhere
async def test_what_was_cancelled_does_not_start_again_by_itself(store: Store) -> None:
    gate, asked = Gate(), 0

    def model(request: Json) -> Answer:
        nonlocal asked
        asked += 1
        return asked_there(request)

    async with pool_of(store, model, [gate.tool]) as pool:
        working = asyncio.create_task(pool.ask("ann", "Wait."))
        await gate.full(1)
        assert await pool.cancel("ann") == 1
        with pytest.raises(Cancelled):
            await working
        async with pool.use("ann") as agent:
            assert not await agent.owes()
        await pool.rest()
        assert asked == 1
    (row,), before = await store.list_sessions("local"), (await events(store, "ann")).count("activated")
    await store.activate(row.id, host="gone:1:1", lease_until=now())  # as if it had been killed before it let her go
    async with pool_of(store, model, [gate.tool]) as pool:
        await pool.rest()
        assert (await events(store, "ann")).count("activated") == before + 1 and asked == 1
        assert (await pool.ask("ann", "There?")).text == "Yes."


async def test_who_speaks_while_a_cancel_is_under_way_is_answered(store: Store) -> None:
    work = Lingering()
    async with pool_of(store, asked_there, [work.tool]) as pool:
        working = asyncio.create_task(pool.ask("ann", "Wait."))
        await work.begun.wait()
        cancelling = asyncio.create_task(pool.cancel("ann"))
        await work.ending.wait()
        late = asyncio.create_task(pool.ask("ann", "There?"))
        (row,) = await store.list_sessions("local")
        async with asyncio.timeout(60):
            while len(await store.messages(row.id, agent="ann")) < 3:
                await asyncio.sleep(0.01)
        assert not cancelling.done()
        work.end.set()
        assert await cancelling == 1
        with pytest.raises(Cancelled):
            await working
        assert (await late).text == "Yes."


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("queued", [False, True])
async def test_words_on_their_way_when_a_cancel_begins_are_answered(tmp_path: Path, stored: bool, queued: bool) -> None:
    gate, store = Gate(), Held(tmp_path / "agents.db", stored=stored)
    await store.open()
    async with pool_of(store, asked_there, [gate.tool], PoolBounds(running=1)) as pool:
        first = asyncio.create_task(pool.ask("bob" if queued else "ann", "Wait."))
        await gate.full(1)
        asked = asyncio.create_task(pool.ask("ann", "Wait.")) if queued else first
        async with asyncio.timeout(60):
            while "ann" not in (pool.status.queued if queued else pool.status.running):
                await asyncio.sleep(0.01)
        speaking = asyncio.create_task(pool.send("ann", "There?"))
        await store.there.wait()
        cancelling = asyncio.create_task(pool.cancel("ann"))
        await asyncio.sleep(0)  # it has begun
        store.go.set()
        with pytest.raises(Cancelled):
            await asked
        await asyncio.gather(speaking, cancelling)
        if queued:
            await pool.cancel("bob")
        await pool.rest()
        async with pool.use("ann") as agent:
            assert (await agent.messages())[-1].content == [{"type": "text", "text": "Yes."}]
        await asyncio.wait({first})
        assert isinstance(first.exception(), Cancelled)
    await store.close()


@everywhere
async def test_closing_waits_for_what_is_under_way_and_leaves_the_rest_to_the_next(store: Store) -> None:
    gate = Gate()
    async with pool_of(store, waits, [gate.tool], PoolBounds(drain_s=60)) as pool:
        quick = asyncio.create_task(pool.ask("ann", "Wait."))
        await gate.full(1)
        closing = asyncio.create_task(pool.close())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="closed"):
            await pool.send("bob", "Hello?")
        gate.open.set()
        await closing
        assert (await quick).text == "Through."
        await pool.close()
    gate.open.clear()
    async with pool_of(store, waits, [gate.tool], PoolBounds(drain_s=0.1)) as pool:
        slow = asyncio.create_task(pool.ask("ann", "Again."))
        await gate.full(1)
        await pool.close()
        with pytest.raises(Unavailable, match="it goes on"):
            await slow
    assert await statuses(store) == {"ann": "active"}
    gate.open.set()
    async with pool_of(store, waits, [gate.tool]) as pool:
        await pool.rest("ann")
        async with pool.use("ann") as agent:
            assert (await agent.messages())[-1].content == [{"type": "text", "text": "Through."}]
    assert await statuses(store) == {"ann": "suspended"}


@everywhere
async def test_what_another_pool_has_open_stays_there_until_its_lease_ends(store: Store) -> None:
    gate = Gate()
    async with pool_of(store, waits, [gate.tool], PoolBounds(lease_s=60)) as first:
        asked = asyncio.create_task(first.ask("ann", "Wait."))
        await gate.full(1)
        async with pool_of(store, waits, [gate.tool], PoolBounds(lease_s=0.3)) as second:
            await asyncio.sleep(0.3)
            assert second.status.running == () and gate.inside == 1
            (row,) = await store.list_sessions("local")
            assert is_gone(row.host) is False
            gate.open.set()
            assert (await asked).text == "Through."


@everywhere
async def test_a_row_whose_lease_has_ended_is_taken_up(store: Store) -> None:
    agent = Agent("ann", runtime=Runtime(provider=None, store=store))
    with ModelServer(ScriptedModel(echo)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        agent = Agent("ann", runtime=Runtime(provider=provider, store=store))
        await agent.open(lease=timedelta(seconds=0.05))
        await agent.say("Hello.")  # and then it hangs
        (held,) = await store.list_sessions("local")
        async with pool_of(store, echo, bounds=PoolBounds(lease_s=0.3)) as pool:
            async with asyncio.timeout(60):
                while "usage" not in await events(store, "ann"):
                    await asyncio.sleep(0.02)
            await pool.rest()
            (row,) = await store.list_sessions("local")
            assert row.lease_until is not None and held.lease_until is not None
            assert row.lease_until > held.lease_until
        await agent.close()
        await provider.close()


async def test_what_is_wrong_is_said(store: Store) -> None:
    async with pool_of(store, echo) as pool:
        with pytest.raises(NotFound, match="no agent 'nobody'"):
            await pool.send("nobody", "Hello?")
        with pytest.raises(InvalidInput, match="empty"):
            await pool.send("ann", " ")
    async with AgentPool(lambda name, runtime: Agent("other", runtime=runtime), runtime=Runtime(store=store)) as pool:
        with pytest.raises(InvalidInput, match=r"make\('ann'\) gave the agent 'other'"):
            await pool.send("ann", "Hello?")
    for wrong in ({"open": 0}, {"idle_s": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            PoolBounds(**wrong)  # type: ignore[arg-type]


def test_a_process_is_told_from_one_that_had_its_number_before() -> None:
    machine, pid, begun = here().split(":")
    assert not is_gone(here())
    assert is_gone(f"{machine}:{pid}:{int(begun) - 60}")
    assert is_gone(f"{machine}:4194304:{begun}") and is_gone(None)
    assert not is_gone(f"elsewhere:{pid}:{begun}")


# --- killed -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def warm() -> Any:
    warm = Warm("tests.agent.pool_victim")
    yield warm
    warm.close()


@pytest.mark.parametrize("kind", ["sqlite", "json"])
@pytest.mark.full
async def test_after_a_kill_every_agent_goes_on_and_nobody_has_to_ask(warm: Warm, tmp_path: Path, kind: str) -> None:
    with ModelServer(ScriptedModel(clerk)) as server:
        for dies_at in (3, 9, 14, 20, 27) if kind == "sqlite" else (6, 12, 17, 23, 30):
            folder = tmp_path / str(dies_at)
            folder.mkdir()
            outside = folder / "outside.db"
            record_effect(outside, "made", once=True)
            lives = [(dies_at, "send"), (dies_at, "send"), (0, "send")]
            ended = [
                warm.live(f"{kind}:{folder / 'agents'}", str(outside), server.base_url, at, how) for at, how in lives
            ]
            assert ended[0] == -signal.SIGKILL and ended[-1] == 0, f"killed at instant {dies_at}: {ended}"
            plain, _ = effects(outside)
            assert sorted(plain) == sorted(NAMES), f"killed at instant {dies_at}: charged {plain}"
        # everything was said before the kill: the next life only opens the pool
        folder = tmp_path / "silent"
        folder.mkdir()
        outside = folder / "outside.db"
        record_effect(outside, "made", once=True)
        store = f"{kind}:{folder / 'agents'}"
        assert warm.live(store, str(outside), server.base_url, -1, "send") == -signal.SIGKILL
        assert warm.live(store, str(outside), server.base_url, 0, "wait") == 0
        plain, _ = effects(outside)
        assert sorted(plain) == sorted(NAMES)
