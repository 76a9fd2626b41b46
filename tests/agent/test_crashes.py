"""Killed at every instant, an agent goes on: no effect twice, none missing, no outcome lost, every history valid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.agent.approvals import is_approval
from koda_ray.agent.breakpoints import Breakpoint, derive
from koda_ray.agent.ledger import recorded_result
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.permissions import Mode, Permissions
from koda_ray.agent.spec import ModelAccess, Observers, Policy, Prompt
from koda_ray.agent.voice import Voice
from koda_ray.state.records import MessageRecord
from tests.agent.journals import ME, Crash, Disk, MemoryJournal
from tests.agent.scripted import Provider
from tests.agent.world import PUTS, MemoryWorld, job, toolkit


class Clock:
    """Counts instants and crashes at the chosen ones."""

    def __init__(self, *crashes: int) -> None:
        self.now = 0
        self._crashes = set(crashes)
        self.crashed_at: list[str] = []

    def tick(self, what: str) -> None:
        self.now += 1
        if self.now in self._crashes:
            self.crashed_at.append(what)
            raise Crash(what)


class Watched(AgentLoop):
    """A loop that can be killed on entering any breakpoint."""

    tick: Callable[[str], None]

    def _move(self, to: Breakpoint) -> None:
        super()._move(to)
        self.tick(f"at {to}")


class Life:
    """One job, lived through as many processes as it takes; in ``mode`` ask a person agrees to each change."""

    def __init__(self, *crashes: int, mode: Mode = "auto") -> None:
        self.mode: Mode = mode
        self.disk = Disk()
        self.world = MemoryWorld()
        self.clock = Clock(*crashes)
        self.lives = 0
        self.text = ""

    async def live(self) -> None:
        """One process: from whatever is on disk to the end, or to a crash."""
        self.lives += 1
        provider = Provider(job, tick=self.clock.tick)
        loop = Watched(
            ME,
            access=ModelAccess(
                provider=provider,
                model="m",
                prompt=Prompt(system=("Do the job.",), context=lambda: "<state>{}</state>"),
            ),
            toolkit=toolkit(self.world, self.clock.tick),
            journal=MemoryJournal(self.disk, self.clock.tick),
            policy=Policy(permissions=Permissions(mode=self.mode)),
            # each piece, whenever it comes: the same instants each time
            observers=Observers(voice=Voice("orchestrator", piece_s=0)),
        )
        loop.tick = self.clock.tick
        if not self.disk.messages:
            await loop.add_user("Do the job.")
        while True:
            outcome = await loop.run()
            if outcome.kind != "suspended":
                break
            assert outcome.suspended_call_id is not None
            assert loop.breakpoint is Breakpoint.AWAITING_APPROVAL
            if is_approval(self.disk.calls[outcome.suspended_call_id]):
                assert await loop.approve(outcome.suspended_call_id)
            else:
                await loop.resolve(outcome.suspended_call_id, '{"status": "accepted"}')
        assert outcome.kind == "end_turn"
        self.text = outcome.text

    def run(self) -> None:
        while True:
            try:
                asyncio.run(self.live())
            except Crash:
                self._sound()
                assert self.lives < 60
                continue
            self._sound()
            return

    def _sound(self) -> None:
        """What holds after every crash and at the end."""
        history = self.disk.history()
        answered = [
            block["tool_use_id"]
            for message in history
            for block in message.content
            if isinstance(block, dict) and block["type"] == "tool_result"
        ]
        assert len(answered) == len(set(answered)), "a call has two results"
        for record in self.disk.calls.values():
            assert (recorded_result(record) is not None) == (record.id in answered), "an outcome without its message"
        derive(history, self.disk.calls)
        for batch in self.disk.batches:
            said = [message.id for message in batch.messages if message.role == "assistant"]
            told = [event.cause_id for event in batch.events if event.type == "message"]
            assert said == told, "what was said is told with it"
            waits = [call.id for call in batch.tool_calls if call.status == "waiting"]
            over = [event.data["outcome"] for event in batch.events if event.type == "done"]
            last = bool(said) and not any(self._calls(message) for message in batch.messages)
            assert over == ["suspended"] * len(waits) + ["end_turn"] * last, "that a run is over is told with why"

    @staticmethod
    def _calls(message: MessageRecord) -> bool:
        return message.role == "user" or any(
            isinstance(block, dict) and block["type"] == "tool_use" for block in message.content
        )

    def check(self) -> None:
        assert self.text == "Done."
        assert sorted(self.world.charges) == ["a", "b"], f"charged {self.world.charges}"
        assert sorted(put.partition(":")[0] for put in self.world.puts) == [*PUTS]
        assert derive(self.disk.history(), self.disk.calls) is Breakpoint.READY
        assert all(recorded_result(record) is not None for record in self.disk.calls.values())
        ends = [event.data["outcome"] for event in self.disk.events if event.type == "done"]
        assert ends.count("end_turn") == 1 and ends[-1] == "end_turn"


def lived(*crashes: int, mode: Mode = "auto") -> Life:
    life = Life(*crashes, mode=mode)
    life.run()
    life.check()
    return life


INSTANTS = lived().clock.now
INSTANTS_ASKED = lived(mode="ask").clock.now


def test_a_crash_at_every_instant_repeats_nothing_and_loses_nothing() -> None:
    where: set[str] = set()
    for instant in range(1, INSTANTS + 1):
        life = lived(instant)
        assert life.lives == 2
        where.update(life.clock.crashed_at)
    at = {name.removeprefix("at ") for name in where if name.startswith("at ")}
    assert at == {str(point) for point in Breakpoint}
    assert {"before commit", "after commit", "model asked", "model streaming", "charge begins", "charge done"} <= where


def test_a_crash_while_a_person_is_asked_repeats_nothing_and_loses_nothing() -> None:
    assert INSTANTS_ASKED > INSTANTS
    for instant in range(1, INSTANTS_ASKED + 1):
        life = lived(instant, mode="ask")
        agreed = [
            approval.call_id
            for batch in life.disk.batches
            for approval in batch.approvals
            if approval.status == "approved"
        ]
        assert len(agreed) == len(set(agreed)), "one call was agreed to twice"
        assert len(agreed) in (4, 5)  # two charges and two puts; and a charge again that nobody knew the end of


@pytest.mark.full
@settings(max_examples=150, deadline=None)
@given(st.sets(st.integers(1, INSTANTS * 3), min_size=2, max_size=12))
def test_many_crashes_repeat_nothing_and_lose_nothing(instants: set[int]) -> None:
    lived(*instants)


def test_what_a_crash_leaves_says_where_to_go_on() -> None:
    resumed: dict[str, Breakpoint] = {}
    for instant in range(1, INSTANTS + 1):
        life = Life(instant)
        try:
            asyncio.run(life.live())
        except Crash as crash:
            resumed.setdefault(str(crash), derive(life.disk.history(), life.disk.calls))
    assert resumed["at STREAMING_MODEL"] is Breakpoint.PRE_MODEL
    assert resumed["model streaming"] is Breakpoint.PRE_MODEL
    assert resumed["at PRE_TOOL"] is Breakpoint.TOOL_PENDING
    assert resumed["charge begins"] is Breakpoint.TOOL_EXECUTING
    assert resumed["charge done"] is Breakpoint.TOOL_EXECUTING
    assert resumed["at AWAITING_APPROVAL"] is Breakpoint.AWAITING_APPROVAL


@pytest.mark.parametrize("effect_done", [False, True])
def test_an_unsafe_call_that_was_cut_off_is_sealed_and_the_model_is_told(effect_done: bool) -> None:
    what = "charge done" if effect_done else "charge begins"
    instant = next(n for n in range(1, INSTANTS) if lived(n).clock.crashed_at == [what])
    life = lived(instant)
    first = next(record for record in life.disk.calls.values() if record.name == "charge")
    assert first.status == "interrupted"
    content, is_error = recorded_result(first) or ("", False)
    assert is_error
    assert "INTERRUPTED" in content and "all, part or none" in content
