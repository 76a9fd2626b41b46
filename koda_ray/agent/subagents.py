"""The subagents of one session: started when their row is stored, run beside each other, and taken up after a crash.

A subagent is a loop of its own over the session's journal, under its own name. It begins because a commit held its
row, never before, and it ends with a commit that closes the row; whoever is killed in between finds the row open and
goes on. So none is spawned twice and no result is lost. Their tasks are this object's: it keeps, cancels and awaits
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from pydantic import JsonValue

from koda_ray.agent.delegation import Delegation, Subagent, SubagentStatus, subagents_among
from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.limits import LoopOutcome
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.own_words import REPORTS, is_a_persons
from koda_ray.agent.purse import STOPPED
from koda_ray.agent.runner import MAX_RESULT_CHARS
from koda_ray.agent.toolkit import Tool, Toolkit
from koda_ray.agent.transcript import Journal, merged
from koda_ray.errors import Fenced, InvalidInput, KodaError
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.phases import NOTHING_OWED
from koda_ray.state.records import Batch, BeadRecord, MessageRecord, ToolCallRecord
from koda_ray.types import now

__all__ = ["BeadJournal", "Subagents"]

_ENDS = ("limit", "stuck", "stopped")
_WAITS = ("suspended", "paused")
_PARENT_ENDED = "The agent that asked for it has ended."
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_log = get_logger(__name__)


class BeadJournal(Journal, Protocol):
    """A journal that also has the session's beads."""

    async def beads(self) -> list[BeadRecord]:
        """Read the session's beads by position."""
        ...


class Subagents:
    """All subagents under one agent, whatever their depth. It is also the journal that all of them write to.

    Args:
        root: The agent that a person talks to.
        journal: Where everything is kept, fenced.
        tools: What that one can do; subagents get some of it.
        delegation: What may be delegated; it names the models.
        equip: Makes the tools with which one agent looks after its subagents; gets this, its id and its depth.
        make: Makes a subagent's loop; gets this, which is its journal too, the subagent and its tools.

    Raises:
        InvalidInput: A tool that may be handed on is none of the agent's.
    """

    def __init__(
        self,
        root: AgentIdentity,
        *,
        journal: BeadJournal,
        tools: Sequence[Tool],
        delegation: Delegation,
        equip: Callable[[Subagents, str, int], list[Tool]],
        make: Callable[[Subagents, Subagent, Toolkit], AgentLoop],
    ) -> None:
        own = {tool.name: tool for tool in tools}
        names = tuple(own) if delegation.tools is None else delegation.tools
        if unknown := [name for name in names if name not in own]:
            raise InvalidInput(f"{', '.join(unknown)} cannot be handed on: the agent's tools are {', '.join(own)}")
        self.session_id = root.session_id
        self.user_id = root.user_id
        self.root = root.agent
        self.delegation = delegation
        self.offered = {name: own[name] for name in names}
        """The tools that may be handed on, by name."""
        self.known: dict[str, Subagent] = {}
        """Every subagent as stored, in the order in which they were spawned."""
        self._journal = journal
        self._equip = equip
        self._make = make
        self._loops: dict[str, AgentLoop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, LoopOutcome] = {}
        self._ending: set[str] = set()
        self._slots = {depth: asyncio.Semaphore(delegation.at_once) for depth in range(1, delegation.depth + 1)}
        self._news = asyncio.Event()
        self._loaded = False
        self._working = False
        self._answers = 0
        self._failure: KodaError | None = None
        self._spoken_at: datetime | None = None

    # --- the journal ----------------------------------------------------------------------------------------------

    async def messages(self, agent: str) -> list[MessageRecord]:
        """Read an agent's messages in order of position."""
        return await self._journal.messages(agent)

    async def tool_calls(self) -> list[ToolCallRecord]:
        """Read the session's ledger."""
        return await self._journal.tool_calls()

    async def entered(self, agent: str) -> JsonValue:
        """Read of which breakpoint of an agent was told last."""
        return await self._journal.entered(agent)

    async def commit(self, batch: Batch) -> None:
        """Commit, and then start the subagents whose rows are new."""
        try:
            await self._journal.commit(batch)
        except BaseException:
            self._loaded = False  # it may have happened: look before anything is decided on it
            raise
        if changed := subagents_among(batch.beads):
            self.known.update(changed)
            self._start_open()
            self._news.set()

    async def load(self) -> None:
        """Read the rows where memory may differ from them."""
        if not self._loaded:
            self.known = subagents_among(await self._journal.beads())
            self._loaded = True

    # --- what their parents ask -----------------------------------------------------------------------------------

    def tools(self, agent: str, depth: int) -> list[Tool]:
        """Make the tools with which an agent spawns subagents and looks after them; none at the greatest depth."""
        return self._equip(self, agent, depth) if depth < self.delegation.depth else []

    def may_change(self, names: JsonValue, *, delegates: bool) -> bool:
        """Whether a subagent with these tools, or one of its own if it may have any, can do more than look."""
        given = list(self.offered) if delegates or not isinstance(names, list) else [str(name) for name in names]
        return any(self.offered[name].effect != "pure" for name in given if name in self.offered)

    def of(self, parent: str) -> list[Subagent]:
        """List an agent's own subagents."""
        return [each for each in self.known.values() if each.parent == parent]

    def owes_reports(self, parent: str) -> bool:
        """Whether an agent has yet to hear of any of its own."""
        return any(not each.told for each in self.of(parent))

    def waits_for(self, subagent_id: str) -> LoopOutcome | None:
        """Return why a subagent, or one of its own, waits for a person."""
        return self._waiting.get(subagent_id)

    def at_work(self, parent: str | None = None) -> bool:
        """Whether any subagent, or any of one parent, is at work now: neither over nor waiting for a person."""
        return any(parent is None or self.known[each].parent == parent for each in self._tasks)

    async def news(self) -> None:
        """Wait until something has changed with any subagent, or `wake` was called."""
        self._news.clear()
        await self._news.wait()

    def spoken(self, at: datetime) -> None:
        """Note that a person has spoken: the count of what may be spawned starts anew."""
        self._spoken_at = at
        self._news.set()

    def wake(self) -> None:
        """Have whoever waits for news look again."""
        self._news.set()

    async def spawned(self) -> int:
        """Count what was spawned since a person last spoke."""
        if self._spoken_at is None:
            said = [message.created_at for message in await self.messages(self.root) if is_a_persons(message)]
            self._spoken_at = said[-1] if said else _LONG_AGO
        return sum(each.created_at >= self._spoken_at for each in self.known.values())

    async def resume(self) -> None:
        """Take up every subagent whose row is open."""
        self._working, self._failure = True, None
        self._answers += 1
        self._waiting.clear()  # a person may have answered; one that waits still says so at once
        await self.load()
        self._start_open()

    async def drive(self, loop: AgentLoop, agent: str, *, spoken: Callable[[], bool] = lambda: False) -> LoopOutcome:
        """Run an agent until it has said its last word and has heard of everything that it delegated.

        Args:
            loop: The agent's.
            agent: Its id.
            spoken: Whether somebody has said something to it since it was last asked.

        Returns:
            As the loop's run; where one of its subagents waits for a person, what that one returned.

        Raises:
            KodaError: As the loop's run; also what kept the end of a subagent from being stored.
        """
        while True:
            spoken()  # what was said so far is in the history that the run begins with
            outcome = await loop.run()
            if outcome.kind != "end_turn":
                return outcome
            await self.load()
            self._start_open()
            heard = spoken()
            while self.at_work(agent) and not heard:
                await self.news()
                heard = spoken()
            if self._failure is not None:
                raise self._failure
            if (ended := [each for each in self.of(agent) if each.status != "running" and not each.told]) != []:
                await loop.add_user(_report(ended), Batch(beads=[self.row(each, told=True) for each in ended]))
            elif not heard:
                waiting = [self._waiting[each.id] for each in self.of(agent) if each.id in self._waiting]
                return next((why for why in waiting if why.kind != "stopped"), outcome)

    async def cancel(self, subagent_id: str, reason: str) -> None:
        """End a subagent and all below it, durably; nothing happens to one that is over.

        Args:
            subagent_id: Which.
            reason: Why: one sentence.
        """
        await self._close(subagent_id, reason)

    async def all_closing(self, reason: str) -> Batch:
        """Make the changes that cancel every subagent; `stop` first, commit them with what cancels their parent.

        It is not told of each: whoever ended it ended them.
        """
        running = [each for each in self.known.values() if each.status == "running"]
        return await self._cancelling(running, reason, told=True)

    async def stop(self) -> None:
        """End the tasks and leave the rows as they are: `resume` reads them, and goes on. May be called twice."""
        self._working = self._loaded = False
        await self._end_tasks(list(self._tasks))
        self._loops.clear()
        self._waiting.clear()

    def forget(self) -> None:
        """Take nothing for known that was read before; after `stop`."""
        self.known, self._spoken_at = {}, None

    async def loop_of(self, call_id: str) -> AgentLoop | None:
        """Find the loop of the unfinished subagent that made a call."""
        await self.load()
        made_in = next((record.message_id for record in await self.tool_calls() if record.id == call_id), None)
        for each in self.known.values():
            if each.status == "running" and made_in in {message.id for message in await self.messages(each.id)}:
                return self._loop(each)
        return None

    def row(self, subagent: Subagent, **changes: object) -> BeadRecord:
        """Make the row of a subagent with something changed."""
        return subagent.model_copy(update=changes).bead(self.session_id, self.user_id)

    def closing(self, subagent: Subagent, status: SubagentStatus, result: str, code: str | None = None) -> Batch:
        """Make the changes with which a subagent ends."""
        result = result if len(result) <= MAX_RESULT_CHARS else result[:MAX_RESULT_CHARS] + " [...]"
        row = self.row(subagent, status=status, result=result, code=code, ended_at=now())
        data: dict[str, JsonValue] = {"subagentId": subagent.id, "name": subagent.name, "parent": subagent.parent}
        event = NewEvent(type="subagent_end", data={**data, "status": status, "code": code}, cause_id=subagent.id)
        return Batch(beads=[row], events=[event])

    # --- their work -----------------------------------------------------------------------------------------------

    def _start_open(self) -> None:
        if not self._working:
            return
        for each in self.known.values():
            held = each.id in self._tasks or each.id in self._waiting or each.id in self._ending
            if each.status == "running" and not held:
                task = asyncio.get_running_loop().create_task(self._work(each), name=each.id)
                self._tasks[each.id] = task
                task.add_done_callback(lambda _, id=each.id: self._ended(id))

    def again(self, call_id: str) -> None:
        """Have the subagents go on that waited for a person with this call."""
        self._answers += 1
        for each in [each for each, why in self._waiting.items() if why.suspended_call_id == call_id]:
            del self._waiting[each]
        self._start_open()

    def _ended(self, subagent_id: str) -> None:
        self._tasks.pop(subagent_id, None)
        self._news.set()

    async def _work(self, subagent: Subagent) -> None:
        loop = self._loop(subagent)
        try:
            async with self._slots[min(subagent.depth, self.delegation.depth)]:
                outcome = await self._driven(loop, subagent.id)
            if outcome.kind == "end_turn":
                closing = self.closing(subagent, "done", outcome.text)
            elif outcome.kind in _ENDS:
                closing = self.closing(subagent, "stopped", outcome.text, outcome.kind.upper())
                closing.events.extend(loop.told(outcome) if outcome.kind == "stuck" else [])
            else:
                self._waiting[subagent.id] = outcome
                return
        except Fenced as error:
            self._failure = error  # another activation goes on; the parent's run ends with it
            return
        except KodaError as error:
            if error.code == NOTHING_OWED:  # it asks again once its parent goes on
                self._waiting[subagent.id] = LoopOutcome(kind="stopped", text=error.message)
                return
            closing = self.closing(subagent, "failed", error.message, error.code)
        except Exception as error:
            _log.exception("subagent_bug", subagent=subagent.id, session_id=self.session_id)
            closing = self.closing(
                subagent, "failed", f"an internal error ended it: {type(error).__name__}", "INTERNAL"
            )
        try:
            await self._close(subagent.id, _PARENT_ENDED, closing)
        except KodaError as error:  # its row is open still: the parent's run ends with this, and the next takes it up
            self._failure = error

    async def _driven(self, loop: AgentLoop, agent: str) -> LoopOutcome:
        """Run a subagent to its end, or until it waits for a person.

        One that found so while a person answered tries again: its reason may be gone, and nobody would look.
        """
        while True:
            before = self._answers
            try:
                outcome = await self.drive(loop, agent)
            except KodaError as error:
                if error.code != NOTHING_OWED or before == self._answers:
                    raise
            else:
                if outcome.kind not in _WAITS or before == self._answers:
                    return outcome

    def _loop(self, subagent: Subagent) -> AgentLoop:
        if subagent.id not in self._loops:
            given = [self.offered[name] for name in subagent.tools if name in self.offered]
            own = self.tools(subagent.id, subagent.depth) if subagent.delegates else []
            self._loops[subagent.id] = self._make(self, subagent, Toolkit([*given, *own]))
        return self._loops[subagent.id]

    def _below(self, subagent_id: str) -> list[Subagent]:
        """List a subagent and all below it, parents first."""
        found = [self.known[subagent_id]]
        for each in found:  # grows while it is gone through
            found.extend(self.of(each.id))
        return found

    async def _close(self, subagent_id: str, reason: str, closing: Batch | None = None) -> None:
        """End a subagent and all below it in one transaction: no crash leaves one at work whose parent has ended.

        Args:
            subagent_id: Which.
            reason: Why those that are cancelled are.
            closing: How it ended by itself, where its own task asks; it is cancelled like the others when None.
        """
        ending: set[str] = set()
        try:
            while True:
                await self.load()
                below = self._below(subagent_id)[0 if closing is None else 1 :]
                doomed = [each for each in below if each.status == "running"]
                found = {each.id for each in doomed}
                self._ending |= found  # what others commit meanwhile must not start them again
                if found <= ending and not found & self._tasks.keys():
                    break
                ending |= found
                await self._end_tasks(list(found))  # and look again: one of them may have spawned another
            if doomed or closing is not None:
                await self.commit(merged(await self._cancelling(doomed, reason), closing))
        finally:
            self._ending -= ending

    async def _cancelling(self, doomed: Sequence[Subagent], reason: str, *, told: bool = False) -> Batch:
        """Make the changes that cancel subagents which have no tasks any more, the deepest first."""
        batch = Batch()
        for each in reversed(doomed):
            calls, _ = await self._loop(each).abandoning(reason)
            self._loops.pop(each.id)  # what is committed past it is read again
            closing = self.closing(each.model_copy(update={"told": told}), "cancelled", reason)
            batch = merged(merged(batch, calls), closing)
        return batch

    async def _end_tasks(self, ids: Sequence[str]) -> None:
        tasks = [self._tasks[each] for each in ids if each in self._tasks]
        for task in tasks:
            task.cancel(STOPPED)
        if tasks:
            await asyncio.wait(tasks)
        for each in ids:
            self._waiting.pop(each, None)


def _report(ended: Sequence[Subagent]) -> str:
    most_chars = MAX_RESULT_CHARS // len(ended)
    parts = [
        f'<subagent id="{each.id}" name="{each.name}" status="{each.status}">\n{each.result[:most_chars]}\n</subagent>'
        for each in ended
    ]
    return "\n\n".join([REPORTS, *parts])
