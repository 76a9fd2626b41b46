"""Said, called, agreed to, put back, undone, forked and reopened in any order: what holds of agents that stand alone.

Hypothesis plays the model and the person against real agents on a real store. Going back changes what an agent has
before it and nothing that happened; a fork shares the past with its original and nothing else.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import JsonValue

from koda_ray.agent import Agent, Policy, Runtime, tool
from koda_ray.agent.breakpoints import Breakpoint, derive
from koda_ray.agent.ledger import recorded_result
from koda_ray.agent.messages import from_records, open_calls, repair, tool_results, tool_uses
from koda_ray.agent.permissions import Permissions, Rule
from koda_ray.agent.toolkit import Tool, ToolCall
from koda_ray.errors import NotFound
from koda_ray.llm.base import Block
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import ApprovalRecord, MessageRecord, ToolCallRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from tests.agent.histories import pairs_hold
from tests.agent.scripted import Given, Provider, calls, says

ANSWERS = st.lists(
    st.builds(calls, st.sampled_from(["charge", "charge", "sign", "look", "nonsense"]),
              st.fixed_dictionaries({"item": st.sampled_from(["a", "b", 7])})),
    min_size=1,
    max_size=3,
)  # fmt: skip
SCRIPTS = st.lists(ANSWERS, max_size=3)
PLACES = st.integers(0, 1_000)
MOST_FORKS = 3

T = TypeVar("T")
Seen = tuple[list[MessageRecord], list[ToolCallRecord], list[ApprovalRecord]]


@functools.cache
def empty() -> bytes:
    """Make a database with the newest schema, once: that takes longer than what is done with it."""

    async def migrate(path: Path) -> None:
        store = SqlStore(path)
        await store.open()
        await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(migrate(Path(folder) / "agents.db"))
        return (Path(folder) / "agents.db").read_bytes()


class Lives(RuleBasedStateMachine):
    """Agents of one store, ``agents`` by name; the first is the original, the others were made of one before them."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.agents: dict[str, Agent] = {}
        self.script: list[list[Block]] = []
        self.ran: list[tuple[str, str]] = []
        self.said: dict[str, list[str]] = {}
        self.spent: dict[str, int] = {}
        self.left: dict[str, dict[str, Seen]] = {}
        self.undos: dict[str, list[str]] = {}
        self.wrong: list[str] = []

    @initialize(kind=st.sampled_from(["sqlite", "json"]))
    def open(self, kind: str) -> None:
        path = Path(self.folder.name) / "agents"
        if kind == "sqlite":
            path.write_bytes(empty())
        self.store: Store = JSONStore(path) if kind == "json" else SqlStore(path)
        self.do(self.store.open())
        self.provider = Provider(self.model)
        self.begin(
            Agent(
                "ann",
                self.tools(),
                runtime=Runtime(provider=self.provider, store=self.store),
                policy=Policy(permissions=Permissions(rules=[Rule(decision="ask", tool="sign")])),
            )
        )

    def begin(self, agent: Agent) -> None:
        self.do(agent.open())
        self.agents[agent.name] = agent
        self.left[agent.name], self.undos[agent.name] = {}, []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asyncio.wait_for(work, 60))

    def model(self, request: Given) -> list[Block]:
        return self.script.pop(0) if self.script else [says("Done.")]

    def tools(self) -> list[Tool]:
        def acts(name: str, item: str, call: ToolCall) -> str:
            if (name, call.id) in self.ran:
                self.wrong.append(f"{name} {call.id} ran twice")
            self.ran.append((name, call.id))
            return f"{name} {item} {len(self.ran)}"

        @tool
        def charge(item: str, call: ToolCall) -> str:
            """Charge."""
            return acts("charge", item, call)

        @tool
        def sign(item: str, call: ToolCall) -> str:
            """Sign what a person agrees to."""
            return acts("sign", item, call)

        @tool(effect="pure")
        def look(item: str) -> str:
            """Look."""
            return f"seen {item}"

        return [charge, sign, look]

    def one(self, place: int) -> Agent:
        return list(self.agents.values())[place % len(self.agents)]

    def seen(self, agent: Agent) -> Seen:
        async def read() -> Seen:
            return await agent.messages(), await agent.calls(), await agent.approvals()

        return self.do(read())

    def waiting(self, agent: Agent) -> list[str]:
        return [each.call_id for each in self.do(agent.approvals()) if each.call_id is not None]

    def head(self, agent: Agent, before: Seen) -> str:
        """Note what was left by going back just now; return its id."""
        (new,) = {each.id for each in self.do(agent.heads())} - set(self.left[agent.name])
        self.left[agent.name][new] = before
        return new

    def is_again(self, agent: Agent, then: Seen) -> None:
        """Agent is what it was then; calls that were to begin after one that waits are closed."""
        messages, ledger, asked = self.seen(agent)
        assert messages[: len(then[0])] == then[0] and asked == then[2]
        closed = {
            block["tool_use_id"] for each in from_records(messages[len(then[0]) :]) for block in tool_results(each)
        }
        waits = {row.id for row in then[1] if row.status == "waiting"}
        assert closed == ({each.block["id"] for each in open_calls(then[0])} - waits if waits else set())
        assert [row for row in ledger if row.id not in closed] == then[1]

    # --- what can happen ----------------------------------------------------------------------------------------------

    @rule(place=PLACES, script=SCRIPTS)
    def say(self, place: int, script: list[list[Block]]) -> None:
        agent, self.script = self.one(place), list(script)
        self.do(agent.say("Go on."))
        self.do(agent.run())

    @precondition(lambda self: any(self.waiting(agent) for agent in self.agents.values()))
    @rule(place=PLACES, answer=st.sampled_from(["approve", "edit", "reject", "say", "stop"]), script=SCRIPTS)
    def answer(self, place: int, answer: str, script: list[list[Block]]) -> None:
        asked = [agent for agent in self.agents.values() if self.waiting(agent)]
        agent, self.script = asked[place % len(asked)], list(script)
        call = self.waiting(agent)[0]
        edited: dict[str, JsonValue] | None = {"item": "edited"} if answer == "edit" else None
        match answer:
            case "say":
                self.do(agent.run("Well?"))
            case "stop":
                self.do(agent.cancel("Enough."))
            case "reject":
                self.do(agent.reject(call, "No."))
            case _:
                self.do(agent.approve(call, edited))

    @precondition(lambda self: any(self.said.values()))
    @rule(place=PLACES, to=PLACES)
    def go_back(self, place: int, to: int) -> None:
        agent = self.one(place)
        points = self.said.get(agent.name) or []
        if not points:
            return
        before, ran = self.seen(agent), list(self.ran)
        point = points[to % len(points)]
        if point not in {message.id for message in before[0]}:
            with pytest.raises(NotFound, match="put back to before it"):
                self.do(agent.rewind(point))
            assert self.seen(agent) == before
            return
        self.do(agent.rewind(point))
        self.undos[agent.name].append(self.head(agent, before))
        messages, ledger, _ = self.seen(agent)
        ids = [message.id for message in messages]
        assert point in ids and len(ids) - ids.index(point) <= 2, "a point, and what closes the calls that were open"
        assert self.ran == ran, "going back does nothing"
        made = {block["id"] for message in from_records(messages) for block in tool_uses(message)}
        assert {row.id for row in ledger} <= made, "no row is left of calls that were not made yet"
        assert messages[: ids.index(point) + 1] == before[0][: ids.index(point) + 1]

    @precondition(lambda self: any(self.left.values()))
    @rule(place=PLACES, to=PLACES)
    def go_to_a_head(self, place: int, to: int) -> None:
        some = [agent for agent in self.agents.values() if self.left[agent.name]]
        agent = some[place % len(some)]
        heads = list(self.left[agent.name])
        head, before, ran = heads[to % len(heads)], self.seen(agent), list(self.ran)
        self.do(agent.rewind(head))
        self.is_again(agent, self.left[agent.name][head])
        assert self.ran == ran
        self.undos[agent.name] = [each for each in self.undos[agent.name] if each != head]
        self.undos[agent.name].append(self.head(agent, before))

    @rule(place=PLACES)
    def undo(self, place: int) -> None:
        agent = self.one(place)
        before, ran = self.seen(agent), list(self.ran)
        if not self.undos[agent.name]:
            with pytest.raises(NotFound, match="nothing to undo"):
                self.do(agent.undo())
            assert self.seen(agent) == before
            return
        self.do(agent.undo())
        self.is_again(agent, self.left[agent.name][self.undos[agent.name].pop()])
        assert self.ran == ran
        self.head(agent, before)

    @precondition(lambda self: len(self.agents) <= MOST_FORKS)
    @rule(place=PLACES, to=st.one_of(st.none(), PLACES))
    def fork(self, place: int, to: int | None) -> None:
        agent = self.one(place)
        before, ran = self.seen(agent), list(self.ran)
        points = [message.id for message in before[0]]
        at = points[to % len(points)] if to is not None and points else None
        made = self.do(agent.fork(f"bob {len(self.agents)}", at=at))
        self.begin(made)
        messages, ledger, asked = self.seen(made)
        assert self.seen(agent) == before and self.ran == ran
        assert {message.agent for message in messages} <= {made.name}
        theirs = {each.id for each in before[1] if each.status == "waiting"}
        assert not theirs & {row.id for row in ledger}, "what waits in both is another call in each"
        if at is None:
            assert len(asked) == len(before[2])
            # what had not begun, behind a call that waits, is told of as not done
            closed = {each.block["id"] for each in open_calls(before[0])} - theirs
            roles = [message.role for message in before[0]] + ["user"] * bool(closed)
            assert [message.role for message in messages] == roles

    @rule(place=PLACES)
    def reopen(self, place: int) -> None:
        agent = self.one(place)
        before = self.seen(agent)
        self.do(agent.close())
        self.do(agent.open())
        assert self.seen(agent) == before

    # --- what holds ---------------------------------------------------------------------------------------------------

    @invariant()
    def nothing_happened_that_may_not(self) -> None:
        assert not self.wrong, self.wrong
        assert all(count == 1 for count in Counter(self.ran).values())

    @invariant()
    def every_history_is_one_that_a_model_takes(self) -> None:
        for name, agent in self.agents.items():
            messages, ledger, asked = self.seen(agent)
            self.said[name] = sorted({*self.said.get(name, ()), *(message.id for message in messages)})
            rows = {row.id: row for row in ledger}
            assert [message.position for message in messages] == sorted({message.position for message in messages})
            pairs_hold(repair(from_records(messages), rows))
            told = [block["tool_use_id"] for message in from_records(messages) for block in tool_results(message)]
            assert len(told) == len(set(told)), "a call has one result"
            open_ = {each.block["id"] for each in open_calls(messages)}
            waits = {row.id for row in ledger if row.status == "waiting"}
            assert waits <= open_
            assert waits == {each.call_id for each in asked if each.call_id is not None}
            assert (derive(messages, rows) is Breakpoint.AWAITING_APPROVAL) <= bool(waits)

    @invariant()
    def what_was_spent_stays_spent(self) -> None:
        for name, agent in self.agents.items():
            spent = self.do(agent.usage()).tokens
            assert spent >= self.spent.get(name, 0)
            self.spent[name] = spent

    def teardown(self) -> None:
        """Whatever was, each can be gone on with to an end, beside what the others do."""
        try:
            for agent in self.agents.values():
                self.script = []
                while waits := self.waiting(agent):
                    self.do(agent.reject(waits[0], "Enough."))
                outcome = self.do(agent.run("And now?"))
                messages, ledger, _ = self.seen(agent)
                assert derive(messages, {row.id: row for row in ledger}) is Breakpoint.READY, outcome
                assert all(recorded_result(row) is not None for row in ledger)
            self.nothing_happened_that_may_not()
            for agent in self.agents.values():
                self.do(agent.close())
            if self.agents:
                self.do(self.store.close())
        finally:
            self.runner.close()
            self.folder.cleanup()


TestLives = pytest.mark.full(Lives.TestCase)
TestLives.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
