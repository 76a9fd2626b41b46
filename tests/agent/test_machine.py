"""Whatever is said, called, agreed to, refused, stopped and killed, in whatever order: what holds of an agent always.

Hypothesis plays the model, the person and the crashes against the real loop; the journal outlives each loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import BaseModel, JsonValue

from koda_ray.agent.approvals import is_approval
from koda_ray.agent.breakpoints import Breakpoint, derive
from koda_ray.agent.ledger import recorded_result
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.messages import from_records, open_calls, repair
from koda_ray.agent.permissions import Permissions, Rule
from koda_ray.agent.spec import ModelAccess, Policy, Prompt
from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.llm.base import Block
from koda_ray.state.records import MessageRecord, SideEffect, ToolCallRecord
from tests.agent.histories import pairs_hold
from tests.agent.journals import ME, Crash, Disk, MemoryJournal
from tests.agent.scripted import Given, Provider, calls, says

TOOLS = ["charge", "sign", "put", "look", "ask", "fail", "chat"]
INPUTS = st.fixed_dictionaries({"item": st.sampled_from(["a", "b", "c", 7])})
ANSWERS = st.lists(
    st.builds(calls, st.sampled_from(["charge", *TOOLS, "charge", "nonsense"]), INPUTS), min_size=1, max_size=4
)
SCRIPTS = st.lists(ANSWERS, min_size=1, max_size=3)
# where a process is killed: as a tool begins or has acted, around a commit, while the model answers; and which time
INSTANTS = st.tuples(
    st.sampled_from(["done", "begins", "before commit", "after commit", "asked", "streaming"]),
    st.sampled_from([1, 1, 2, 3]),
)
CRASHES = st.one_of(st.none(), INSTANTS)


class Thing(BaseModel):
    item: str


class Lives(RuleBasedStateMachine):
    """One agent on one disk; ``loop`` is the process that has it, if one does."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.loop: AgentLoop | None = None
        self.script: list[list[Block]] = []
        self.crash: tuple[str, int] | None = None
        self.ran: list[tuple[str, str, str]] = []
        self.agreed: dict[str, str] = {}
        self.over: set[str] = set()
        self.wrong: list[str] = []
        self.said: dict[str, MessageRecord] = {}
        self.outcomes: dict[str, tuple[str, bool]] = {}

    # --- the world ----------------------------------------------------------------------------------------------------

    def tick(self, what: str) -> None:
        if self.crash is not None and what.endswith(self.crash[0]):
            self.crash = (self.crash[0], self.crash[1] - 1)
            if self.crash[1] == 0:
                raise Crash(what)

    def model(self, request: Given) -> list[Block]:
        return self.script.pop(0) if self.script else [says("Done.")]

    def toolkit(self) -> Toolkit:
        def make(name: str, effect: SideEffect, *, asks: bool = False) -> Tool:
            async def run(given: Thing, call: ToolCall) -> ToolOutcome:
                self.begins(name, effect, given.item, call)
                self.tick(f"{name} begins")
                self.ran.append((name, call.id, given.item))
                if name == "chat":
                    assert self.loop is not None
                    await self.loop.add_user("Meanwhile?")
                self.tick(f"{name} done")
                if name == "fail":
                    return ToolOutcome.failure("NO", "It cannot be done.")
                return ToolOutcome(content=f"{name} {given.item} {len(self.ran)}", suspend=asks)

            return Tool(name=name, description=name, input_model=Thing, effect=effect, run=run, asks=asks)

        return Toolkit(
            [
                *(make(name, "pure") for name in ("look", "fail", "chat")),
                make("put", "idempotent"),
                make("ask", "idempotent", asks=True),
                *(make(name, "unsafe") for name in ("charge", "sign")),
            ]
        )

    def begins(self, name: str, effect: SideEffect, item: str, call: ToolCall) -> None:
        """What holds whenever a tool begins; noted, for the loop takes what a tool raises for its outcome."""
        row = self.disk.calls.get(call.id)
        if row is None or (row.status, row.attempt, row.input) != ("started", call.attempt, {"item": item}):
            self.wrong.append(f"{name} began and its START was not stored: {row}")
        if effect == "unsafe" and any(call_id == call.id for _, call_id, _ in self.ran):
            self.wrong.append(f"{name} {call.id} ran twice")
        if name == "sign" and self.agreed.get(call.id) != item:
            self.wrong.append(f"signed {item}, agreed to {self.agreed.get(call.id)}")
        if call.id in self.over:
            self.wrong.append(f"{name} {call.id} ran after it was over")

    def live(self, work: Callable[[AgentLoop], Awaitable[object]], crash: tuple[str, int] | None) -> bool:
        """Do something in the process that has the agent, or in a new one; return whether it lived."""
        if self.loop is None:
            self.loop = AgentLoop(
                ME,
                access=ModelAccess(
                    provider=Provider(self.model, tick=self.tick), model="m", prompt=Prompt(system=("Work.",))
                ),
                toolkit=self.toolkit(),
                journal=MemoryJournal(self.disk, self.tick),
                policy=Policy(permissions=Permissions(rules=[Rule(decision="ask", tool="sign")])),
            )
        loop, self.crash = self.loop, crash

        async def run() -> None:
            await work(loop)

        try:
            asyncio.run(run())
        except Crash:
            self.loop = None
            return False
        finally:
            self.crash = None
        return True

    @property
    def history(self) -> list[MessageRecord]:
        return self.disk.history()

    @property
    def waiting(self) -> ToolCallRecord | None:
        """The call that waits for a person."""
        for each in open_calls(self.history):
            if (row := self.disk.calls.get(each.block["id"])) is not None and row.status == "waiting":
                return row
        return None

    # --- what can happen ----------------------------------------------------------------------------------------------

    @rule(crash=CRASHES)
    def say(self, crash: tuple[str, int] | None) -> None:
        self.live(lambda loop: loop.add_user("Go on."), crash)

    @precondition(lambda self: self.history)
    @rule(script=SCRIPTS)
    def run(self, script: list[list[Block]]) -> None:
        self.script = list(script)
        self.live(lambda loop: loop.run(), None)

    @precondition(lambda self: self.waiting is None)
    @rule(script=SCRIPTS, crash=INSTANTS)
    def be_killed_at_work(self, script: list[list[Block]], crash: tuple[str, int]) -> None:
        self.live(lambda loop: loop.add_user("Work."), None)
        self.script = list(script)
        self.live(lambda loop: loop.run(), crash)

    @precondition(lambda self: self.waiting is not None)
    @rule(crash=CRASHES, answer=st.sampled_from(["approve", "edit", "reject"]))
    def decide(self, crash: tuple[str, int] | None, answer: str) -> None:
        row = self.waiting
        assert row is not None
        if not is_approval(row):
            self.live(lambda loop: loop.resolve(row.id, answer, is_error=answer == "reject"), crash)
        elif answer == "reject":
            self.live(lambda loop: loop.reject(row.id, "No."), crash)
        else:
            edited: dict[str, JsonValue] | None = {"item": "edited"} if answer == "edit" else None
            self.live(lambda loop: loop.approve(row.id, edited), crash)
            if self.disk.calls[row.id].status == "approved":
                self.agreed[row.id] = str((edited or row.input)["item"])

    @precondition(lambda self: self.history)
    @rule(crash=CRASHES)
    def abandon(self, crash: tuple[str, int] | None) -> None:
        self.live(lambda loop: loop.abandon("A person stopped it."), crash)

    @precondition(lambda self: self.loop is not None)
    @rule()
    def end(self) -> None:
        self.loop = None

    # --- what holds ---------------------------------------------------------------------------------------------------

    @invariant()
    def nothing_happened_that_may_not(self) -> None:
        assert not self.wrong, self.wrong

    @invariant()
    def what_was_said_stays(self) -> None:
        now = {message.id: message for message in self.history}
        assert now | self.said == now
        self.said = now

    @invariant()
    def what_was_recorded_stays_and_is_in_the_history_once(self) -> None:
        now = {row.id: found for row in self.disk.calls.values() if (found := recorded_result(row)) is not None}
        assert now | self.outcomes == now
        self.outcomes, self.over = now, set(now)
        told: dict[str, tuple[str, bool]] = {}
        for message in self.history:
            for block in message.content:
                if isinstance(block, dict) and block["type"] == "tool_result":
                    assert block["tool_use_id"] not in told
                    told[str(block["tool_use_id"])] = (str(block["content"]), block["is_error"] is True)
        assert told == now
        ends = Counter(str(event.data["callId"]) for event in self.disk.events if event.type == "tool_end")
        assert ends == Counter(list(now))

    @invariant()
    def the_model_would_take_it(self) -> None:
        history = from_records(self.history)
        repaired = repair(history, self.disk.calls)
        pairs_hold(repaired)
        assert repair(repaired, self.disk.calls) == repaired

    @invariant()
    def where_it_stands_follows_from_what_is_stored(self) -> None:
        at = derive(self.history, self.disk.calls)
        open_ = open_calls(self.history)
        first = self.disk.calls.get(open_[0].block["id"]) if open_ else None
        assert (at is Breakpoint.AWAITING_APPROVAL) == (first is not None and first.status == "waiting")
        assert bool(open_) == (at in (Breakpoint.TOOL_PENDING, Breakpoint.TOOL_EXECUTING, Breakpoint.AWAITING_APPROVAL))

    def teardown(self) -> None:
        """Whatever was, it can be gone on with to an end, and everything that it called is answered."""
        if not self.history:
            return
        self.script = []
        for _ in range(100):
            while (row := self.waiting) is not None:
                waits: Any = row
                self.live(lambda loop, waits=waits: loop.abandon("Enough."), None)
            self.live(lambda loop: loop.run(), None)
            if derive(self.history, self.disk.calls) is Breakpoint.READY:
                break
        assert derive(self.history, self.disk.calls) is Breakpoint.READY
        assert all(recorded_result(row) is not None for row in self.disk.calls.values())
        self.nothing_happened_that_may_not()
        self.what_was_recorded_stays_and_is_in_the_history_once()


TestLives = pytest.mark.full(Lives.TestCase)
TestLives.settings = settings(max_examples=100, stateful_step_count=25)
