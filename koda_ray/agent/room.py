"""A room: agents that talk to each other by name, and people among them, over one transcript that is kept.

All of a room is one session: the transcript, where every member stands, and each member's own history. So a message
and whom it wakes are one transaction, a member hears each message once and in order, and a killed room goes on with the
turn that was cut off: what was said is not said twice, and nobody who was woken is forgotten.

Agents that answer each other would never stop by themselves. After so many messages without a person, one more wakes
nobody: the room stops, says so, and asks a person whether to go on. A member that goes in circles has no turn until a
person has spoken to it; the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import JsonValue

from koda_ray.agent.alone import project_of
from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.limits import LoopOutcome
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.purse import Purse
from koda_ray.agent.questions import Questions, extended, larger
from koda_ray.agent.room_questions import RoomQuestions, how_to_go_on, told_of, whether_to_go_on
from koda_ray.agent.room_rows import RoomRows
from koda_ray.agent.room_rules import (
    ROOM,
    SILENT,
    Member,
    MemberStanding,
    RoomMessage,
    Wakes,
    changed,
    etiquette,
    heard_as,
    next_due,
    unheard,
    without_a_person,
    woken,
)
from koda_ray.agent.runtime import Openable, OpenRuntime, Runtime
from koda_ray.agent.spec import ModelAccess, Observers, Policy, Prompt
from koda_ray.agent.store_journal import StoreJournal
from koda_ray.agent.toolkit import Toolkit
from koda_ray.agent.transcript import merged
from koda_ray.agent.voice import Voice
from koda_ray.budgets import Amounts, Exceeded
from koda_ray.errors import InvalidInput, InvalidTransition, NotFound
from koda_ray.events import Channel, Envelope, NewEvent, Selection
from koda_ray.state.records import (
    ApprovalRecord,
    Batch,
    MessageRecord,
)
from koda_ray.state.stream import follow
from koda_ray.types import Budget, NodeState, new_id, now

__all__ = ["Member", "Room", "RoomMessage", "RoomOutcome"]


@dataclass(frozen=True, kw_only=True)
class RoomOutcome:
    """Why a room came to rest.

    ``quiet``: nobody has anything to do. ``suspended``: the call ``suspended_call_id`` of a member waits for a person.
    ``stopped``: a person has to say whether members that wrote so many messages without one should go on, or how one
    that is stuck should; ``text`` asks that. ``paused``: what comes next does not fit the budget, in ``exceeded``; see
    `Room.extend`. ``said`` is what was said meanwhile.
    """

    kind: Literal["quiet", "suspended", "stopped", "paused"]
    text: str = ""
    exceeded: Exceeded | None = None
    suspended_call_id: str | None = None
    said: tuple[RoomMessage, ...] = ()


class Room(Openable):
    """Agents and people in one conversation. Use it as a context manager, one `run` at a time.

    Its options do not depend on each other: whoever needs one names it.

    Args:
        name: Its name in the store: the same name goes on with the same conversation.
        members: The agents in it.
        runtime: What it runs on: who answers its members, where it is remembered, whose it is, what it may spend.
        wakes: Whom a member's message wakes: those whom it mentions, or all others. A person's wakes those whom it
            mentions, and everybody where it mentions nobody.
        messages: Messages of members without one of a person, after which it stops and asks.
        at_once: Members that have their turn at the same time; they do not hear each other meanwhile.

    Raises:
        InvalidInput: Two members have one name, a bound is below one, or ``json:`` names no folder.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[Member],
        *,
        runtime: Runtime | None = None,
        wakes: Wakes = "mentioned",
        messages: int = 20,
        at_once: int = 1,
    ) -> None:
        self._members = {member.name: member for member in members}
        if len({name.lower() for name in self._members}) < len(members):
            raise InvalidInput(f"two of {', '.join(each.name for each in members)} have one name; @name must mean one")
        if messages < 1 or at_once < 1:
            raise InvalidInput(f"messages={messages} and at_once={at_once} must be 1 or more, or nobody says anything")
        self._name = name
        self._runtime = OpenRuntime(runtime or Runtime())
        self._store, self._user = self._runtime.store, self._runtime.user
        self._wakes: Wakes = wakes
        self._messages = messages
        self._at_once = at_once
        self._budget = self._runtime.given.budget or Budget()
        self._paused: LoopOutcome | None = None
        self._told: list[NewEvent] = []
        self._opened: RoomRows | None = None
        self._loops: dict[str, AgentLoop] = {}
        self._standings: dict[str, MemberStanding] = {}
        self._agents: set[str] = set()
        self._transcript: list[RoomMessage] = []
        self._questions = RoomQuestions()
        self._waiting: dict[str, str] = {}
        self._writing = asyncio.Lock()
        self._current = False
        self._news = asyncio.Event()
        self._running = False

    # --- life -----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Find or make it in the store, and take it.

        Raises:
            Missing: No provider was given and ``ANTHROPIC_API_KEY`` is not set.
            StorageError: The store cannot be opened.
        """
        provider = await self._runtime.open()
        node = f"room:{self._name}"
        state = NodeState(node_id=node, session_id=new_id("ses"), user_id=self._user, project_id=project_of(self._user))
        row = await self._runtime.take(state, key=node, body={"room": self._name})
        self._opened = RoomRows(store=self._store, row=row, members=tuple(self._members))
        self._budget = larger(self._budget, row.state.budget)
        async with self._changing():
            pass  # read what is there
        purse = Purse(row.id, budget=lambda: self._budget, prices=self._runtime.prices)
        for name, member in self._members.items():
            others = [each for each in self._members.values() if each is not member]
            policy = Policy(limits=member.limits, permissions=member.permissions or Permissions(), hooks=member.hooks)
            system = (*((member.system,) if member.system else ()), etiquette(member, others))
            self._loops[name] = AgentLoop(
                AgentIdentity(agent=name, session_id=row.id, user_id=self._user, epoch=row.epoch),
                access=ModelAccess(provider=provider, model=member.model, purse=purse, prompt=Prompt(system=system)),
                toolkit=Toolkit(member.tools),
                journal=StoreJournal(self._store, row),
                policy=policy,
                observers=Observers(voice=Voice(name)),
            )

    async def close(self) -> None:
        """Let go of store and provider, where they are its own; may be called twice."""
        opened, self._opened = self._opened, None
        try:
            if opened is not None:
                await self._store.release(opened.row.id, opened.row.epoch)
        finally:
            await self._runtime.close()

    # --- what people do -------------------------------------------------------------------------------------------

    async def post(self, text: str, *, author: str = "person", key: str | None = None) -> RoomMessage:
        """Say something in the room, also while members have their turns; it is stored when this returns.

        Args:
            text: What is said; ``@name`` and ``@all`` say to whom.
            author: Who says it: a person.
            key: Names what is said: under one key it is said once.

        Returns:
            The message, in its place.

        Raises:
            Conflict: Something else was said under this key.
            Fenced: Another process has taken the room over.
            InvalidInput: The text is blank, or the author is a member or the room.
        """
        rows = self._rows
        if not text.strip():
            raise InvalidInput("the message is empty; say something")
        if author in self._agents or not author.isprintable() or not author.strip():
            raise InvalidInput(f"a person cannot speak as {author!r}; give another author")
        async with self._changing():
            if key is None:
                return await self._write(author, text, Batch(touch=True))
            before = await rows.posted(key, text, author)
            if before is not None:
                return self._transcript[before - 1]
            command = rows.command(key, text, author, position=len(self._transcript) + 1)
            return await self._write(author, text, Batch(command=command, touch=True))

    async def run(self, text: str | None = None, *, key: str | None = None) -> RoomOutcome:
        """Say something, where there is something to say, and let members talk until the room comes to rest.

        Args:
            text: What a person says; None goes on with what is there.
            key: As of `post`.

        Raises:
            ModelError: A member's model cannot be reached or refused; the next run goes on with its turn.
            Fenced: Another process has taken the room over.
            InvalidTransition: It runs already.
            KodaError: As `post`.
        """
        if self._running:
            raise InvalidTransition(f"the room {self._name!r} runs already; post reaches it while it does")
        self._running, self._paused, begun = True, None, len(self._transcript)
        turns: dict[str, asyncio.Task[None]] = {}
        try:
            if text is not None:
                await self.post(text, key=key)
            async with self._changing():
                pass  # a run that was cut off may have left memory behind the store
            while True:
                self._news.clear()
                while len(turns) < self._at_once and (name := self._next(turns)) is not None:
                    turns[name] = asyncio.get_running_loop().create_task(self._turn(name), name=name)
                if not turns:
                    break
                await self._any(turns.values())
                for name in [name for name, task in turns.items() if task.done()]:
                    turns.pop(name).result()
        finally:
            try:
                await _ended(turns.values())
            finally:
                self._running = False
        questions = Questions(self._store, self._rows.row)
        if self._paused is not None:
            await questions.ask(self._paused, self._told)
        else:
            await questions.drop_money()
        return self._outcome(tuple(self._transcript[begun:]))

    async def answer(self, call_id: str, content: str, *, refused: bool = False) -> RoomOutcome:
        """Answer a member's call that waits (``suspended_call_id``), and go on; raises as `Agent.answer`."""
        await (await self._asked(call_id)).resolve(call_id, content, is_error=refused)
        return await self._go_on(call_id)

    async def approve(self, call_id: str, arguments: dict[str, JsonValue] | None = None) -> RoomOutcome:
        """Agree to a member's call that waits, and go on; raises as `Agent.approve`."""
        await (await self._asked(call_id)).approve(call_id, arguments)
        return await self._go_on(call_id)

    async def reject(self, call_id: str, reason: str = "") -> RoomOutcome:
        """Refuse a member's call that waits, and go on; raises as `Agent.reject`."""
        await (await self._asked(call_id)).reject(call_id, reason)
        return await self._go_on(call_id)

    async def extend(self, budget: Budget) -> RoomOutcome:
        """Agree to more, which is kept for every later run, and go on.

        Args:
            budget: The limits in all, not what is added; those that it does not name stay.

        Raises:
            InvalidInput: A limit is lower than the one there is.
        """
        agreed = extended(self._budget, budget)
        row = self._rows.row
        state = await Questions(self._store, row).agree(agreed)
        self._opened = replace(self._rows, row=replace(row, state=state))
        self._budget = agreed
        return await self.run()

    async def usage(self) -> Amounts:
        """Count what its members' model calls have used, in all of its life."""
        accounts = await self._store.accounts(self._user, [self.id])
        return Amounts.of(accounts[0].spent) if accounts else Amounts()

    @property
    def id(self) -> str:
        """The id under which the store has it."""
        return self._rows.row.id

    @property
    def runtime(self) -> Runtime:
        """What it runs on, for others that are to share its store while it is open."""
        return self._runtime.shared

    @property
    def transcript(self) -> tuple[RoomMessage, ...]:
        """What was said, in order, from its beginning."""
        return tuple(self._transcript)

    async def messages(self, member: str) -> list[MessageRecord]:
        """Read a member's own history: what it heard, did and said."""
        return await self._store.messages(self.id, agent=member)

    async def approvals(self, *, pending: bool = True) -> list[ApprovalRecord]:
        """Read what people are asked, or with ``pending=False`` also what they have answered."""
        return await self._store.approvals(self.id, pending=pending)

    async def events(
        self, *, after: int = 0, channels: Channel | Collection[Channel] | None = None
    ) -> AsyncGenerator[Envelope]:
        """Yield what happens, each once and in order, from ``after`` on; as `Agent.events`."""
        async with aclosing(follow(self._store, self.id, after, wanted=Selection.named(channels))) as stream:
            async for event in stream:
                if isinstance(event, Envelope):
                    yield event

    # --- turns ----------------------------------------------------------------------------------------------------

    def _next(self, turns: dict[str, asyncio.Task[None]]) -> str | None:
        """Choose whose turn begins; where the room has stopped, only turns that were cut off are ended."""
        if self._paused is not None:
            return None
        standings = self._standings
        if self._questions.whether is not None:
            standings = {name: each for name, each in standings.items() if each.at_work}
        return next_due(standings, [*turns, *self._waiting, *self._questions.stuck])

    async def _turn(self, name: str) -> None:
        """Have a member hear what it has not heard, and say what it answers."""
        loop, rows = self._loops[name], self._rows
        if not self._standings[name].at_work:
            async with self._changing():
                begun = self._standings[name].begun(len(self._transcript))
                heard = heard_as(unheard(self._transcript, self._standings[name]), self._agents)
                await loop.add_user(heard, Batch(beads=[rows.bead(begun)]))
                self._standings[name] = begun
        outcome = await loop.run()
        if outcome.kind == "suspended":
            self._waiting[name] = outcome.suspended_call_id or ""
            return
        if outcome.kind == "paused":  # its turn goes on once there is more
            self._paused, self._told = outcome, loop.told(outcome)
            return
        async with self._changing():
            ended = self._standings[name].ended()
            if outcome.kind != "end_turn":
                words = f"{name} stopped before its turn was over: {outcome.text}"
                batch = Batch(beads=[rows.bead(ended)], events=loop.told(outcome) if outcome.kind == "stuck" else [])
                asked = self._how_to_go_on(name, outcome)
                if asked is not None:
                    batch = merged(batch, Batch(approvals=[asked], events=told_of(asked)))
                await self._write(ROOM, words, batch)
                if asked is not None:
                    self._questions = self._questions.with_stuck(name, asked)
            elif (words := outcome.text.strip()) and words != SILENT:
                await self._write(name, words, Batch())
            else:
                await rows.commit(Batch(beads=[rows.bead(ended)]))
            self._standings[name] = ended

    async def _write(self, author: str, text: str, batch: Batch) -> RoomMessage:
        """Store a message with all that it changes; the caller has the room to itself."""
        rows = self._rows
        to, at = woken(text, author, list(self._members), self._wakes), now()
        message = RoomMessage(position=len(self._transcript) + 1, author=author, text=text, to=to, at=at)
        moved = changed(self._standings, message)
        questions, asked = self._questions_after(message)
        own = Batch(
            beads=[rows.bead(each) for each in moved.values()],
            approvals=asked,
            events=[event for each in asked for event in told_of(each)],
        )
        await rows.commit(merged(merged(rows.said(message), own), batch))
        self._transcript.append(message)
        self._standings.update(moved)
        self._questions = questions
        self._news.set()
        return message

    def _questions_after(self, message: RoomMessage) -> tuple[RoomQuestions, list[ApprovalRecord]]:
        """Work out what people are asked after a message, and which questions are new or answered.

        A person's message answers, a member's may be one too many.
        """
        asked = self._questions
        if message.author not in self._agents:
            return asked.left_by(message), asked.answered_by(message)
        count = without_a_person([*self._transcript, message], self._agents)
        if asked.whether is not None or count < self._messages or not message.to:
            return asked, []
        question = whether_to_go_on(self._rows.row, self._name, message, count)
        return replace(asked, whether=question), [question]

    def _how_to_go_on(self, name: str, outcome: LoopOutcome) -> ApprovalRecord | None:
        """Ask about a member that is stuck, where no person has spoken to it while it found that out."""
        missed = unheard(self._transcript, self._standings[name])
        if outcome.kind != "stuck" or any(each.author not in self._agents and name in each.to for each in missed):
            return None
        return how_to_go_on(self._rows.row, name, outcome.text)

    @asynccontextmanager
    async def _changing(self) -> AsyncGenerator[None]:
        """Have the room to oneself, as it is stored: a change that was cut off may have happened or not."""
        async with self._writing:
            if not self._current:
                found = await self._rows.read()
                self._transcript, self._standings = found.transcript, found.standings
                self._agents, self._questions = found.agents, found.questions
            self._current = False
            yield
            self._current = True

    # --- small parts ----------------------------------------------------------------------------------------------

    def _outcome(self, said: tuple[RoomMessage, ...]) -> RoomOutcome:
        if (paused := self._paused) is not None:
            return RoomOutcome(kind="paused", text=paused.text, exceeded=paused.exceeded, said=said)
        if (whether := self._questions.whether) is not None:
            return RoomOutcome(kind="stopped", text=str(whether.payload["text"]), said=said)
        if self._waiting:
            return RoomOutcome(kind="suspended", suspended_call_id=next(iter(self._waiting.values())), said=said)
        for asked in self._questions.stuck.values():
            return RoomOutcome(kind="stopped", text=str(asked.payload["text"]), said=said)
        return RoomOutcome(kind="quiet", text=said[-1].text if said else "", said=said)

    async def _asked(self, call_id: str) -> AgentLoop:
        for loop in self._loops.values():
            call = await loop.waiting()
            if call is not None and call.id == call_id:
                return loop
        raise NotFound(f"nobody in the room {self._name!r} waits with a call {call_id!r}")

    async def _go_on(self, call_id: str) -> RoomOutcome:
        for name in [name for name, call in self._waiting.items() if call == call_id]:
            del self._waiting[name]
        return await self.run()

    async def _any(self, turns: Iterable[asyncio.Task[None]]) -> None:
        """Wait until a turn has ended, or somebody has said something that may begin another."""
        news = asyncio.get_running_loop().create_task(self._news.wait())
        try:
            await asyncio.wait([*turns, news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            await asyncio.wait({news})

    @property
    def _rows(self) -> RoomRows:
        if self._opened is None:
            raise InvalidTransition(f"the room {self._name!r} is not open: async with Room(...) as room")
        return self._opened


async def _ended(turns: Iterable[asyncio.Task[None]]) -> None:
    """Cancel the turns that run and wait for them; the error of the first that failed is the run's."""
    turns = list(turns)
    running = [task for task in turns if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    for task in turns:
        if task.done() and not task.cancelled():
            task.exception()
