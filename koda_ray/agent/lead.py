"""An agent with subagents: the loop of `AgentLoop`, whose runs end when all that it delegated has ended too.

What is said to it, and what a person answers, goes where it belongs: to its own loop, or to the subagent that asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import JsonValue

from koda_ray.agent.limits import LoopOutcome
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.own_words import is_a_persons
from koda_ray.agent.subagents import Subagents
from koda_ray.agent.transcript import merged
from koda_ray.events import NewEvent
from koda_ray.llm.base import ImageBlock
from koda_ray.state.records import Batch, MessageRecord, ToolCallRecord

__all__ = ["Lead"]


class Lead:
    """An agent's loop together with its subagents; the methods are those of `AgentLoop`, and raise as they do.

    Subagents work on after a run that ended because a person is needed; a run that is cancelled ends their tasks, and
    the next one takes them up.

    Args:
        loop: The agent's own, over ``subagents`` as its journal and with their tools in its toolkit.
        subagents: All that are under it.
    """

    def __init__(self, loop: AgentLoop, subagents: Subagents) -> None:
        self._loop = loop
        self._subagents = subagents
        self._spoken = False

    @property
    def busy(self) -> bool:
        """Whether any subagent is at work."""
        return self._subagents.at_work()

    def told(self, outcome: LoopOutcome) -> list[NewEvent]:
        """Make the events that tell of a run's end."""
        return self._loop.told(outcome)

    async def add_user(
        self, text: str, batch: Batch | None = None, *, pictures: Sequence[ImageBlock] = ()
    ) -> MessageRecord:
        """Record what a person says, or the program; it is answered also while subagents work."""
        record = await self._loop.add_user(text, batch, pictures=pictures)
        self._spoken = True
        if is_a_persons(record):
            self._subagents.spoken(record.created_at)
        return record

    def notice(self) -> None:
        """Have a run that only waits for subagents look at its history again: something waits to be heard."""
        self._spoken = True
        self._subagents.wake()

    async def waiting(self) -> ToolCallRecord | None:
        """Find the agent's own call that waits for a person."""
        return await self._loop.waiting()

    async def resolve(self, call_id: str, content: str, batch: Batch | None = None, *, is_error: bool = False) -> bool:
        """Answer a waiting call, its own or a subagent's."""
        done = await (await self._of(call_id)).resolve(call_id, content, batch, is_error=is_error)
        self._subagents.again(call_id)
        return done

    async def approve(
        self, call_id: str, arguments: dict[str, JsonValue] | None = None, batch: Batch | None = None
    ) -> bool:
        """Let a call run that waits for agreement, its own or a subagent's."""
        done = await (await self._of(call_id)).approve(call_id, arguments, batch)
        self._subagents.again(call_id)
        return done

    async def reject(self, call_id: str, reason: str, batch: Batch | None = None) -> bool:
        """Refuse a call that waits for agreement, its own or a subagent's."""
        done = await (await self._of(call_id)).reject(call_id, reason, batch)
        self._subagents.again(call_id)
        return done

    async def place(self) -> int:
        """Take a place in the agent's own history."""
        return await self._loop.place()

    async def abandon(self, reason: str, batch: Batch | None = None, *, place: int | None = None) -> int:
        """Store that the work was stopped, close every open call, and cancel every subagent, in one transaction."""
        await self._subagents.stop()
        await self._subagents.load()
        closing = await self._subagents.all_closing(reason)
        return await self._loop.abandon(reason, merged(closing, batch), place=place)

    async def owes(self) -> bool:
        """Whether a subagent's row is open that waits for nobody."""
        await self._subagents.load()
        return any(
            each.status == "running" and self._subagents.waits_for(each.id) is None
            for each in self._subagents.known.values()
        )

    async def reload(self) -> None:
        """Read history, ledger and subagents again: somebody else changed them. Refused while it runs."""
        await self._loop.reload()
        await self._subagents.stop()
        self._subagents.forget()

    async def run(self) -> LoopOutcome:
        """Go on until the agent has said its last word and heard of all its subagents, or a person is needed."""
        await self._subagents.resume()
        try:
            return await self._subagents.drive(self._loop, self._subagents.root, spoken=self._take_spoken)
        except asyncio.CancelledError:
            await self._subagents.stop()
            raise

    async def close(self) -> None:
        """End the subagents' tasks; their rows stay as they are. May be called twice."""
        await self._subagents.stop()

    def _take_spoken(self) -> bool:
        spoken, self._spoken = self._spoken, False
        return spoken

    async def _of(self, call_id: str) -> AgentLoop:
        return await self._subagents.loop_of(call_id) or self._loop
