"""A kernel that is broken on purpose, in the processes that are killed: what it does wrong has to be counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from koda_ray.agent import calls, ledger
from koda_ray.agent.ledger import Step
from koda_ray.agent.purse import Purse
from koda_ray.agent.store_journal import StoreJournal
from koda_ray.agent.toolkit import ToolOutcome
from koda_ray.state.records import Batch, SideEffect, ToolCallRecord
from koda_ray.types import new_id, now

__all__ = ["BROKEN"]


def _again() -> None:
    """Run a call that was cut off once more, whatever its effect."""

    def next_step(record: ToolCallRecord | None, effect_now: SideEffect, *, max_attempts: int) -> Step:
        step = ledger.next_step(record, effect_now, max_attempts=max_attempts)
        return "run" if step == "seal" else step

    calls.next_step = next_step


def _trusting() -> None:
    """Take a call that was cut off for one that was done."""
    calls.sealed = lambda record, *, at: ledger.settled(record, ToolOutcome(content='{"charged": "?"}'), at=at)


def _untold() -> None:
    """Do not say which activation calls."""
    plain = calls.Calls._call
    calls.Calls._call = lambda self, row: replace(plain(self, row), epoch=0)  # type: ignore[method-assign]


def _unnamed() -> None:
    """Pay for an answer under another id than it was reserved and is recorded with."""
    plain = Purse.settle
    Purse.settle = lambda self, call_id, *given: plain(self, new_id("msg"), *given)  # type: ignore[method-assign]


def _silent() -> None:
    """Store what came of a call without telling of it."""
    plain = StoreJournal.commit

    async def commit(self: StoreJournal, batch: Batch) -> object:
        events = [event for event in batch.events if event.type != "tool_end"]
        return await plain(self, replace(batch, events=events))

    StoreJournal.commit = commit  # type: ignore[method-assign]


def _doubting() -> None:
    """With each call that ends, seal those that had ended before, whose outcomes are recorded."""
    plain = calls.Calls.settle

    async def settle(self: calls.Calls, row: ToolCallRecord, outcome: ToolOutcome) -> None:
        ended = [each for each in self._log.calls.values() if each.status == "succeeded"]
        await plain(self, row, outcome)
        again = [ledger.sealed(replace(each, status="started"), at=now()) for each in ended]  # else it is refused
        await self._log.commit(Batch(tool_calls=again))

    calls.Calls.settle = settle  # type: ignore[method-assign]


BROKEN: dict[str, Callable[[], None]] = {
    "again": _again,
    "trusting": _trusting,
    "untold": _untold,
    "unnamed": _unnamed,
    "silent": _silent,
    "doubting": _doubting,
}
