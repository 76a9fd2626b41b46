"""What an agent may spend: reserved before a call, settled with its answer, given back when nothing came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koda_ray.agent import Agent, Member, Permissions, Policy, Room, Runtime, tool
from koda_ray.agent.limits import Limits, LoopOutcome
from koda_ray.agent.purse import month
from koda_ray.agent.toolkit import ToolCall
from koda_ray.budgets import Amounts, Exceeded
from koda_ray.errors import BudgetExceeded, Cancelled, InvalidInput, ModelAuth, ModelRefused, ModelStreamBroken
from koda_ray.llm.base import Completed, ModelEvent, ModelRequest, TextDelta, Usage
from koda_ray.prices import Price, Prices
from koda_ray.state.sql import SqlStore
from koda_ray.types import Budget
from tests.agent.children import run_module
from tests.agent.lives import store_at
from tests.agent.scripted import Break, Provider, calls, says
from tests.agent.spender import ANSWERS, COST_MICROUSD, TOKENS, touch
from tests.books import check_sums

PRICES = {"m": Price(input=1000, output=2000)}
SHORT = Limits(max_tokens=10, first_wait_s=0.001)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(tmp_path / "agents.db")
    await store.open()
    yield store
    await store.close()


def agent(
    store: SqlStore,
    provider: Any,
    budget: Budget | None = None,
    *,
    prices: Mapping[str, Price] = PRICES,
    limits: Limits = SHORT,
    model: str = "m",
) -> Agent:
    runtime = Runtime(provider=provider, store=store, budget=budget, prices=prices)
    return Agent("a", [touch], model=model, runtime=runtime, policy=Policy(limits=limits))


def touches(*numbers: int) -> list[Any]:
    return [[calls("touch", {"number": number})] for number in numbers]


# --- a whole life: warned, paused, asked, gone on ---------------------------------------------------------------------


async def test_a_budget_warns_then_pauses_and_asks_and_goes_on_when_a_person_says_so(store: SqlStore) -> None:
    provider = Provider([*touches(1, 2, 3), [says("Done.")]])
    async with agent(store, provider, Budget(cost_usd=0.09, warn_at=0.6)) as one:
        paused = await one.run("Go.")
        assert paused.kind == "paused" and paused.exceeded is not None and paused.exceeded.resource == "cost"
        assert "$0.09" in paused.text and "$0.06 spent" in paused.text and "raise the limit" in paused.text
        (asked,) = await one.approvals()
        assert (asked.kind, asked.payload["spent"], asked.payload["limit"]) == ("budget", 60_000, 90_000)
        again = await one.run()
        assert again.kind == "paused" and await one.approvals() == [asked], "it is asked once"
        assert len(provider.requests) == 3, "nothing was begun"
        done = await one.extend(Budget(cost_usd=0.2))
        assert done.text == "Done." and await one.approvals() == []
        (answered,) = await one.approvals(pending=False)
        assert answered.status == "approved" and answered.answer is not None and answered.answer["costUsd"] == 0.2
        assert await one.usage() == Amounts(tokens=60, cost_microusd=80_000)
        told = [event.type for event in await store.events(one.id, limit=1000)]
        assert told.count("budget_warning") == 1
        assert told.index("budget_warning") < told.index("approval_requested") < told.index("approval_resolved")
        await check_sums(store, "local", one.id)


async def test_what_a_person_agreed_to_outlives_the_program(store: SqlStore) -> None:
    async with agent(store, Provider([*touches(1), [says("One.")]]), Budget(tokens=40)) as first:
        outcome = await first.run("Go.")
        while outcome.exceeded is not None:
            outcome = await first.extend(Budget(tokens=outcome.exceeded.limit + 500))
        with pytest.raises(InvalidInput, match="extended, not cut"):
            await first.extend(Budget(tokens=10))
        with pytest.raises(InvalidInput, match="cost has no limit already"):
            await first.extend(Budget(cost_usd=10))
    async with agent(store, Provider([[says("Two.")]]), Budget(tokens=20)) as second:
        assert (await second.run("More.")).text == "Two."


async def test_a_program_with_a_larger_budget_has_answered(store: SqlStore) -> None:
    async with agent(store, Provider([]), Budget(tokens=1)) as one:
        assert (await one.run("Go.")).kind == "paused"
    async with agent(store, Provider([[says("Hello.")]]), Budget(tokens=10_000)) as two:
        assert (await two.run()).text == "Hello."
        assert [each.status for each in await two.approvals(pending=False)] == ["superseded"]


async def test_without_limits_everything_is_counted_and_nothing_is_held(store: SqlStore) -> None:
    async with agent(store, Provider([*touches(1), [says("Done.")]])) as one:
        await one.run("Go.")
        charges = await one.charges()
        assert [c.id for c in charges] == [m.id for m in await one.messages() if m.role == "assistant"]
        assert all(c.status == "settled" and c.created_at == c.updated_at for c in charges)
        accounts = {row.id: Amounts.of(row.spent) for row in await store.accounts("local")}
        assert accounts == dict.fromkeys((one.id, month()), Amounts(tokens=30, cost_microusd=40_000))
        usage = [event.data["costUsd"] for event in await store.events(one.id) if event.type == "usage"]
        assert usage == [0.02, 0.02]


class Uncounting(Provider):
    """A server that says nothing of what was used, as some that speak OpenAI's API do."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            yield replace(event, usage=Usage()) if isinstance(event, Completed) else event


async def test_what_a_server_does_not_count_is_estimated_and_comes_to_an_end(store: SqlStore) -> None:
    provider = Uncounting(touches(*range(1, 60)))
    async with agent(store, provider, Budget(tokens=3_000), limits=Limits(max_tokens=10)) as one:
        paused = await one.run("Go. " * 100)
        assert paused.kind == "paused" and paused.exceeded is not None and paused.exceeded.resource == "tokens"
        used, asked = await one.usage(), len(provider.requests)
        assert 2 < asked < 25 and 2_000 < used.tokens <= 3_000 and used.cost_microusd > 0
        await check_sums(store, "local", one.id)


async def test_what_cannot_be_paid_for_is_not_asked_about_unseen(store: SqlStore) -> None:
    """Showing what a call would change may cost something, too; a person is asked about money first."""
    shown, wrote = list[str](), list[int]()

    async def preview(given: Any, call: ToolCall) -> str:
        if not shown_to:
            shown_to.append(call.id)
            raise Exceeded(account=one.id, resource="tokens", limit=2000, spent=15, held=0, wanted=5000).error()
        shown.append(f"+{given.number}")
        return shown[-1]

    @tool(effect="unsafe", preview=preview)
    def write(number: int) -> str:
        """Write."""
        wrote.append(number)
        return "written"

    shown_to: list[str] = []
    provider = Provider([[calls("write", {"number": 1})], [says("Done.")]])
    asks = Permissions(mode="ask")
    runtime = Runtime(provider=provider, store=store, budget=Budget(tokens=2000), prices=PRICES)
    one = Agent("b", [write], model="m", runtime=runtime, policy=Policy(permissions=asks, limits=Limits(max_tokens=10)))
    async with one:
        assert (await one.run("Go.")).kind == "paused" and shown_to and wrote == []
        assert [each.kind for each in await one.approvals()] == ["budget"]
        waits = await one.extend(Budget(tokens=10_000))
        (asked,) = await one.approvals()
        assert waits.kind == "suspended" and (asked.kind, asked.payload["shown"]) == ("tool_call", "+1")
        assert (await one.approve(shown_to[0])).text == "Done." and wrote == [1]


# --- what is asked of the model ---------------------------------------------------------------------------------------


async def test_an_answer_is_as_long_as_what_is_left_pays_for(store: SqlStore) -> None:
    provider = Provider([[says("Short.")]])
    budget = Budget(cost_usd=20)  # 10,000 tokens of an answer at most
    async with agent(store, provider, budget, limits=Limits(max_tokens=32_000)) as one:
        assert (await one.run("Go.")).text == "Short."
    (request,) = provider.requests
    assert 9_000 < request["max_tokens"] < 10_000


async def test_an_answer_that_would_be_too_short_is_not_asked_for(store: SqlStore) -> None:
    provider = Provider([])
    async with agent(store, provider, Budget(tokens=4_000), limits=Limits(max_tokens=32_000)) as one:
        assert (await one.run("Go.")).kind == "paused"
    assert provider.requests == []


async def test_prompts_are_estimated_by_what_the_last_one_came_to(store: SqlStore) -> None:
    provider = Provider([*touches(*range(6)), [says("Done.")]])
    held: list[int] = []

    async def look(_: ModelRequest) -> None:
        held.extend(Amounts.of(c.held).tokens for c in await store.charges(one.id) if c.status == "reserved")

    class Looking(Provider):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            await look(request)
            async for event in provider.stream(request):
                yield event

    async with agent(store, Looking([]), Budget(tokens=100_000)) as one:
        await one.run("Go.")
    assert len(held) == 7 and held[0] > 60
    assert all(20 <= each < 80 for each in held[1:]), "10 tokens of prompt, 10 of answer, and what is new"


async def test_dollars_of_a_model_without_a_price_are_refused_before_it_is_asked(store: SqlStore) -> None:
    provider = Provider([[says("Hello.")]])
    async with agent(store, provider, Budget(cost_usd=1), model="openai:qwen3") as one:
        with pytest.raises(InvalidInput, match=r"'openai:qwen3' has no known price.*KODA_MODEL_PRICES") as caught:
            await one.run("Go.")
        assert caught.value.code == "NO_PRICE" and provider.requests == []
    async with agent(store, provider, Budget(tokens=500), model="openai:qwen3") as two:
        assert (await two.run()).text == "Hello."
        assert await two.usage() == Amounts(tokens=15, unpriced_tokens=15)
        (usage,) = [event.data for event in await store.events(two.id) if event.type == "usage"]
        assert usage["costUsd"] is None


@pytest.mark.parametrize("answers", ["unknown", "cheap"])
async def test_an_answer_of_another_model_costs_what_that_one_does_or_the_one_asked_for(
    store: SqlStore, answers: str
) -> None:
    class Fallback(Provider):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            async for event in super().stream(request):
                yield replace(event, model=answers) if isinstance(event, Completed) else event

    prices = {**PRICES, "cheap": Price(input=1, output=2)}
    async with agent(store, Fallback([[says("Hello.")]]), Budget(cost_usd=1), prices=prices) as one:
        assert (await one.run("Go.")).text == "Hello."
        cost = 20_000 if answers == "unknown" else 20
        assert await one.usage() == Amounts(tokens=15, cost_microusd=cost)
        assert [charge.model for charge in await one.charges()] == [answers]


# --- what nobody pays for ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "raised"),
    [(ModelStreamBroken("cut off"), ModelStreamBroken), (ModelAuth("no key"), ModelAuth), (OSError("bug"), OSError)],
)
async def test_a_call_that_fails_is_given_back(store: SqlStore, error: Exception, raised: type[Exception]) -> None:
    broken = Break(error, says("Hel"))
    async with agent(store, Provider([broken] * 3), Budget(tokens=10_000)) as one:
        with pytest.raises(raised):
            await one.run("Go.")
        charges = await one.charges()
        assert {c.status for c in charges} == {"refunded"} and len(charges) == (3 if raised is ModelStreamBroken else 1)
        assert charges[0].reason in ("MODEL_STREAM_BROKEN", "MODEL_AUTH", "OSError")
        assert await one.usage() == Amounts()
        await check_sums(store, "local", one.id)


class Hangs(Provider):
    """Says something and never ends."""

    def __init__(self, text: str = "Hm") -> None:
        super().__init__([])
        self.text = text
        self.began = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta(text=self.text)
        self.began.set()
        await asyncio.Event().wait()


async def test_a_call_that_is_stopped_is_given_back(store: SqlStore) -> None:
    async with agent(store, hangs := Hangs(), Budget(tokens=10_000)) as one:
        running = asyncio.create_task(one.run("Go."))
        await asyncio.wait_for(hangs.began.wait(), 60)
        assert [c.status for c in await one.charges()] == ["reserved"]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [(c.status, c.reason) for c in await one.charges()] == [("refunded", "CancelledError")]
        await check_sums(store, "local", one.id)


@pytest.mark.parametrize("budget", [Budget(tokens=10_000), None])
async def test_what_a_person_stops_is_paid_for_as_far_as_it_came(store: SqlStore, budget: Budget | None) -> None:
    """Else asking and stopping would cost nothing, and the provider is paid."""
    async with agent(store, hangs := Hangs("Well, " * 50), budget) as one:
        running = asyncio.create_task(one.run("Go."))
        await asyncio.wait_for(hangs.began.wait(), 60)
        await one.cancel()
        with pytest.raises(Cancelled):
            await running
        (charge,) = await one.charges()
        used = await one.usage()
        assert charge.status == "settled" and used.tokens > 100
        assert used.cost_microusd >= 100 * 2000, "a hundred tokens of answer, and the prompt"
        await check_sums(store, "local", one.id)


async def test_what_a_dearer_model_may_answer_is_held_at_its_price(store: SqlStore) -> None:
    class Substituted(Provider):
        substitutes = ("dear", "cheap")

    prices = {**PRICES, "dear": Price(input=10_000, output=20_000), "cheap": Price(input=1, output=2)}
    async with agent(store, Substituted([[says("Hello.")]]), Budget(cost_usd=0.5), prices=prices) as one:
        paused = await one.run("Go.")
        assert paused.exceeded is not None and paused.exceeded.resource == "cost"
    async with agent(store, Provider([[says("Hello.")]]), Budget(cost_usd=0.5), prices=prices) as two:
        assert (await two.run()).text == "Hello."


async def test_an_answer_that_was_refused_is_paid_for(store: SqlStore) -> None:
    async with agent(store, Provider([[says("No.")]], stop="refusal"), Budget(tokens=10_000)) as one:
        with pytest.raises(ModelRefused):
            await one.run("Go.")
        assert await one.usage() == Amounts(tokens=15, cost_microusd=20_000)


async def test_what_a_twin_held_is_free_once_another_has_taken_over(store: SqlStore) -> None:
    async with agent(store, hangs := Hangs(), Budget(tokens=300)) as one:
        running = asyncio.create_task(one.run("Go."))
        await asyncio.wait_for(hangs.began.wait(), 60)
        async with agent(store, Provider([[says("Mine.")]]), Budget(tokens=300)) as two:
            assert (await two.run()).text == "Mine."
            assert [c.reason for c in await two.charges()] == ["its process ended", None]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await check_sums(store, "local", one.id)


async def test_a_tool_that_needs_more_waits_and_runs_once_there_is_more(store: SqlStore) -> None:
    ran: list[int] = []
    allowed = False

    async def costly(number: int) -> str:
        """Cost."""
        if not allowed:
            raise BudgetExceeded(
                "no",
                context={"account": "x", "resource": "render", "limit": 1, "spent": 1, "held": 0, "wanted": 1},
            )
        ran.append(number)
        return "ok"

    provider = Provider([[calls("costly", {"number": 1})], [says("Done.")]])
    async with Agent("t", [costly], runtime=Runtime(provider=provider, store=store), model="m") as one:
        for _ in range(4):  # more often than a call that brings its process down is begun
            outcome: LoopOutcome = await one.run("Go." if not await one.messages() else None)
            assert outcome.kind == "paused" and outcome.exceeded is not None
            assert [(c.status, c.attempt) for c in await one.calls()] == [("approved", 0)]
        allowed = True
        assert (await one.run()).text == "Done." and ran == [1]
        assert [c.attempt for c in await one.calls()] == [1], "a pause is no attempt"


# --- forks and rooms --------------------------------------------------------------------------------------------------


async def test_a_fork_may_use_what_is_left(store: SqlStore) -> None:
    script = iter([*touches(1, 2), [says("Done.")]])
    provider = Provider(lambda _: next(script, [calls("touch", {"number": 1})]))
    async with agent(store, provider, Budget(cost_usd=0.2, tokens=1000)) as one:
        await one.run("Go.")
        assert (await one.usage()).cost_microusd == 60_000
        fork = await one.fork("fork")
        async with fork:
            paused = await fork.run("Go on.")
            assert paused.exceeded is not None and paused.exceeded.limit == 140_000
            assert (await fork.usage()).cost_microusd <= 140_000 < 200_000
            row = await store.get_session(fork.id)
            assert row.state.budget == Budget(cost_usd=0.14, tokens=1000 - 45)
            await check_sums(store, "local", fork.id, one.id)
        assert (await one.usage()).cost_microusd == 60_000, "its own is not used up by its fork"


async def test_a_room_has_one_budget_for_all_of_its_members(store: SqlStore) -> None:
    members = [Member(name=name, model="m", limits=Limits(max_tokens=10)) for name in ("ann", "bob")]
    budget = Budget(cost_usd=0.6, warn_at=0.5)

    def room(provider: Provider) -> Room:
        runtime = Runtime(provider=provider, store=store, budget=budget, prices=PRICES)
        return Room("desk", members, runtime=runtime, wakes="all", messages=1000)

    async with room(Provider(lambda _: [says("More.")])) as desk:
        paused = await desk.run("Count.")
        assert paused.kind == "paused" and paused.exceeded is not None and paused.exceeded.resource == "cost"
        assert {each.author for each in paused.said} == {"person", "ann", "bob"} and len(paused.said) < 31
        (asked,) = await desk.approvals()
        assert (asked.kind, asked.payload["limit"]) == ("budget", 600_000)
        spent = await desk.usage()
    async with room(nobody := Provider([])) as desk:  # another process
        again = await desk.run()
        assert again.kind == "paused" and await desk.approvals() == [asked], "it is asked once"
        assert nobody.requests == [] and await desk.usage() == spent
    async with room(Provider(lambda _: [says("(silent)")])) as desk:
        done = await desk.extend(Budget(cost_usd=10.0))
        assert done.kind == "quiet" and await desk.approvals() == []
        with pytest.raises(InvalidInput, match="extended, not cut"):
            await desk.extend(Budget(cost_usd=0.1))
        told = [event.type for event in await store.events(desk.id, limit=1000)]
        assert told.count("budget_warning") == 1 and told.count("approval_resolved") == 1
        await check_sums(store, "local", desk.id)
    async with room(Provider(lambda _: [says("(silent)")])) as desk:
        assert (await desk.run("Again.")).kind == "quiet", "what was agreed to is kept"


# --- killed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "json"])
@pytest.mark.full
async def test_killed_at_every_instant_each_answer_is_paid_for_once(kind: str, tmp_path: Path) -> None:
    url = f"json:{tmp_path / 'store'}" if kind == "json" else str(tmp_path / "agents.db")
    instants = int((await run_module("tests.agent.spender", url)).split()[-1])
    assert instants > 50
    store = store_at(url)
    await store.open()
    sessions = await store.list_sessions("local", limit=200)
    assert len(sessions) == instants
    for session in sessions:
        answers = [m.id for m in await store.messages(session.id) if m.role == "assistant"]
        charges = await store.charges(session.id)
        assert len(answers) == ANSWERS
        assert [c.id for c in charges if c.status == "settled"] == answers, "an answer was paid for twice, or not"
        assert {c.status for c in charges} == {"settled", "refunded"}, "something is held for ever"
        (account,) = await store.accounts("local", [session.id])
        assert Amounts.of(account.spent) == Amounts(tokens=ANSWERS * TOKENS, cost_microusd=ANSWERS * COST_MICROUSD)
        events = await store.events(session.id, limit=1000)
        assert [event.type for event in events].count("budget_warning") <= 2
        assert not await store.approvals(session.id, pending=True)
    await check_sums(store, "local", *(session.id for session in sessions))
    await store.close()


# --- prices -----------------------------------------------------------------------------------------------------------


def test_a_price_is_found_by_the_whole_name_and_never_guessed() -> None:
    prices = Prices({"openai:qwen3": Price(input=0, output=0), "claude-sonnet-5-5": Price(input=7, output=7)})
    assert prices.find("openai:qwen3") == Price(input=0, output=0) and prices.find("qwen3") is None
    own = prices.find("claude-sonnet-5-5-20260901")
    assert own is not None and own.input == 7
    known = Prices().find("anthropic:claude-sonnet-4-5-20250929")
    assert known is not None and (known.input, known.output) == (3, 15)
    assert Prices().find("claude-sonnet-4-5-turbo") is None
    assert Prices(all_free=True).need("anything").microusd(fresh=10**9) == 0


def test_caches_and_long_prompts_have_their_price() -> None:
    sonnet = Prices().need("claude-sonnet-5-5")
    assert sonnet.microusd(fresh=1_000_000, output=1_000_000) == 12_000_000
    assert sonnet.microusd(cache_read=1_000_000, cache_write=1_000_000) == 2_700_000
    assert sonnet.microusd(cache_read=1) == 1, "a part of a millionth is a millionth"
    sol = Prices().need("gpt-6.2-sol")
    assert sol.microusd(fresh=272_000, output=1000) == 544_000 + 10_000
    assert sol.microusd(fresh=272_001, output=1000) == 2 * 544_002 + 15_000
    assert Price(input=2, output=3).microusd(cache_read=10, cache_write=10) == 40
