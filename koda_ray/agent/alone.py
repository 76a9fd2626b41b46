"""An agent by itself: no server, no cluster, no sandbox; a model, some functions, and one file that remembers.

The file is the same store that sessions have, so the promises are the same: what was said and done is durable before
anything goes on, a killed program goes on where it was, and no side effect happens twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import timedelta

from pydantic import JsonValue

from koda_ray.agent.agreed import Agreed
from koda_ray.agent.answer import LoopEvent
from koda_ray.agent.breakpoints import Breakpoint, derive
from koda_ray.agent.delegation import Delegation, Subagent, brief, subagents_among
from koda_ray.agent.functions import tool
from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.lead import Lead
from koda_ray.agent.limits import LoopOutcome
from koda_ray.agent.loop import AgentLoop, Journal
from koda_ray.agent.own_words import is_a_persons
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.purse import STOPPED, Purse
from koda_ray.agent.questions import Questions, extended, larger
from koda_ray.agent.rewinding import agent_back, agent_fork
from koda_ray.agent.runtime import HELD, Openable, OpenRuntime, Runtime
from koda_ray.agent.spec import ModelAccess, Observers, Policy, Prompt
from koda_ray.agent.store_journal import StoreJournal
from koda_ray.agent.subagent_tools import subagent_tools
from koda_ray.agent.subagents import Subagents
from koda_ray.agent.toolkit import Tool, Toolkit
from koda_ray.agent.transcript import merged
from koda_ray.agent.voice import Voice
from koda_ray.budgets import Amounts, left_of
from koda_ray.config import DEFAULT_MODEL
from koda_ray.errors import Cancelled, Conflict, Fenced, InvalidTransition
from koda_ray.events import Channel, Envelope, NewEvent, Selection
from koda_ray.llm.base import ModelProvider
from koda_ray.state.charges import ChargeRecord
from koda_ray.state.past import UNDO, HeadRecord
from koda_ray.state.records import (
    ApprovalRecord,
    Batch,
    CommandRecord,
    MessageRecord,
    SessionRecord,
    ToolCallRecord,
)
from koda_ray.state.stream import follow
from koda_ray.types import Budget, NodeState, new_id, now

__all__ = ["Agent", "agent_node", "project_of"]

_PROJECT = "agents"


class Agent(Openable):
    """One agent, remembered by its name. Use it as a context manager, one `run` at a time.

    Opening an agent that another process has open takes it over: the other one's next step raises `Fenced`, and
    nothing that it does after that is recorded. Its options do not depend on each other: whoever needs one names it.

    Args:
        name: Its name in the store: the same name goes on with the same history.
        tools: What it can do: functions (see `koda_ray.agent.tool`) or tools.
        system: Who it is, for the model.
        model: The provider's name of the model.
        runtime: What it runs on: who answers it, where it is remembered, whose it is, what it may spend.
        policy: What bounds it. A function for the permissions is asked when it is made; see `permit`.
        subagents: What it may hand to subagents, through tools that it gets for that; nothing when None.
        on_event: Awaited with each piece of an answer as it streams.

    Raises:
        InvalidInput: Two tools have one name, a function makes no tool, or ``json:`` names no folder.
    """

    def __init__(
        self,
        name: str,
        tools: Iterable[Tool | Callable[..., object]] = (),
        *,
        system: str = "",
        model: str = DEFAULT_MODEL,
        runtime: Runtime | None = None,
        policy: Policy | None = None,
        subagents: Delegation | None = None,
        on_event: Callable[[LoopEvent], Awaitable[None]] | None = None,
    ) -> None:
        self._name = name
        self._tools = tuple(one if isinstance(one, Tool) else tool(one) for one in tools)
        self._toolkit = Toolkit(self._tools)
        self._system = (system,) if system else ()
        self._model = model
        self._runtime = OpenRuntime(runtime or Runtime())
        self._store, self._user = self._runtime.store, self._runtime.user
        self._policy = policy or Policy()
        self._permissions = self._first_permissions = self._policy.allowed()
        self._on_event = on_event
        self._delegation = subagents
        self._budget = self._runtime.given.budget or Budget()
        self._opened: tuple[SessionRecord, AgentLoop | Lead] | None = None
        self._running: asyncio.Task[LoopOutcome] | None = None
        self._speaking = asyncio.Lock()

    @property
    def id(self) -> str:
        """The id under which the store has it."""
        return self._now_open[0].id

    @property
    def name(self) -> str:
        """Its name in the store."""
        return self._name

    @property
    def user(self) -> str:
        """Whose it is."""
        return self._user

    @property
    def runtime(self) -> Runtime:
        """What it runs on, for others that are to share its store while it is open."""
        return self._runtime.shared

    async def open(self, *, lease: timedelta = HELD) -> None:
        """Find or make it in the store, and take it.

        Args:
            lease: How long it counts as held; see `renew`.

        Raises:
            Missing: No provider was given and ``ANTHROPIC_API_KEY`` is not set.
            StorageError: The store cannot be opened.
        """
        provider = await self._runtime.open()
        project = project_of(self._user)
        await self._store.ensure_project(self._user, project, _PROJECT)
        state = NodeState(
            node_id=agent_node(self._name), session_id=new_id("ses"), user_id=self._user, project_id=project
        )
        row = await self._runtime.take(state, key=_key(self._name), body=_body(self._name), lease=lease)
        self._budget = larger(self._budget, row.state.budget)
        self._permissions = await Agreed(self._store, row, self._first_permissions).newest()
        self._opened = row, self._loop(row, provider)

    async def renew(self, lease: timedelta) -> None:
        """Hold it for longer. Raises Fenced where another process has it."""
        row, _ = self._now_open
        await self._store.renew(row.id, row.epoch, lease_until=now() + lease)

    async def emit(self, event: NewEvent) -> None:
        """Store an event beside its own. Raises Fenced where another process has it."""
        row, _ = self._now_open
        await self._store.commit(row.id, row.epoch, Batch(events=[event]))

    async def close(self, *, unfinished: bool = False) -> None:
        """Let go of store and provider, where they are its own; may be called twice.

        Args:
            unfinished: Whether work is left that whoever looks for such work is to take up.
        """
        opened, self._opened = self._opened, None
        try:
            if opened is not None:
                if isinstance(opened[1], Lead):
                    await opened[1].close()
                await self._let_go(opened[0], unfinished)
        finally:
            await self._runtime.close()

    async def run(self, text: str | None = None, *, key: str | None = None) -> LoopOutcome:
        """Say something, and let it work until it is done, needs a person or reaches a bound.

        One that is stuck asks how to go on (`approvals`), and does nothing until something is said to it.

        Args:
            text: What is said; None goes on with what is there, which after a crash is what was left undone.
            key: Names what is said: under one key it is said once, however often a program that was killed says it.

        Returns:
            Why it stopped, with its last words.

        Raises:
            Conflict: Something else was said under this key.
            ModelError: The model cannot be reached, refused, or broke off too often; `run` goes on from there.
            Cancelled: Somebody called `cancel` meanwhile.
            Fenced: Another process has taken it over.
            InvalidInput: The text is blank, or there is nothing to go on with.
            InvalidTransition: It runs already, or is not open.
        """
        if text is not None:
            await self.say(text, key=key)
        return await self._go_on()

    async def say(self, text: str, *, key: str | None = None) -> None:
        """Say something and leave it at that: the run under way answers it, or the next.

        Args:
            text: What is said.
            key: As of `run`.

        Raises:
            Conflict: Something else was said under this key.
            Fenced: Another process has taken it over.
            InvalidInput: The text is blank.
        """
        row, loop = self._now_open
        async with self._speaking:
            await self._say(row, loop, text, key)

    async def place(self) -> int:
        """Take a place in its history, for `cancel`: what is said from now on follows it."""
        return await self._now_open[1].place()

    async def cancel(self, reason: str = "The person cancelled.", *, place: int | None = None) -> int:
        """Stop what is under way: no call that is open is waited for any more, and its subagents end.

        That is stored: what it was asked until then it does not owe any more, also after a crash. A tool that is a
        plain function goes on in its thread, which nothing can end; the model is told so. A `run` that waits for it
        raises `Cancelled`; the agent can be asked again at once.

        Args:
            reason: Why, for the model: one sentence.
            place: Until where what it was asked is cancelled, by `place`; until now when None.

        Returns:
            How many calls were closed.
        """
        _, loop = self._now_open
        batch, place = Batch(), await loop.place() if place is None else place
        if (running := self._running) is not None:
            running.cancel(STOPPED)
            await asyncio.wait({running})
            batch.events.extend(Voice(self._name).done("cancelled", reason) if running.cancelled() else [])
        return await loop.abandon(reason, merged(batch, await self._questions.dropped()), place=place)

    async def owes(self) -> bool:
        """Whether something is left undone that needs nobody, and that nobody cancelled: `run` goes on with it."""
        row, loop = self._now_open
        if await self._questions.about_being_stuck() is not None:
            return False
        ledger = {record.id: record for record in await self._store.tool_calls(row.id)}
        history = await self.messages()
        needs_nobody = derive(history, ledger) not in (Breakpoint.READY, Breakpoint.AWAITING_APPROVAL)
        return needs_nobody or (isinstance(loop, Lead) and await loop.owes())

    @property
    def busy(self) -> bool:
        """Whether it, or one of its subagents, is at work."""
        return self._running is not None or (isinstance(loop := self._now_open[1], Lead) and loop.busy)

    async def subagents(self) -> list[Subagent]:
        """Read its subagents and theirs, in the order in which they were spawned."""
        return list(subagents_among(await self._store.beads(self.id)).values())

    async def answer(self, call_id: str, content: str, *, refused: bool = False) -> LoopOutcome:
        """Answer the call that waits (``suspended_call_id``), and go on.

        Args:
            call_id: The call.
            content: The answer, for the model.
            refused: Whether the answer is no.

        Raises:
            NotFound: There is no such call.
            InvalidTransition: It does not wait for anybody.
        """
        _, loop = self._now_open
        await loop.resolve(call_id, content, is_error=refused)
        return await self._go_on()

    async def approve(self, call_id: str, arguments: dict[str, JsonValue] | None = None) -> LoopOutcome:
        """Agree to the call that waits, as proposed or with other arguments, and go on.

        Raises:
            InvalidInput: The arguments do not fit the tool, or a rule or a hook is against them; it waits on.
            NotFound: There is no such call.
            InvalidTransition: It does not wait for agreement.
        """
        _, loop = self._now_open
        await loop.approve(call_id, arguments)
        return await self._go_on()

    async def reject(self, call_id: str, reason: str = "") -> LoopOutcome:
        """Refuse the call that waits, and go on. Raises as `approve`."""
        _, loop = self._now_open
        await loop.reject(call_id, reason)
        return await self._go_on()

    async def permit(self, permissions: Permissions) -> None:
        """Change what it may do, from its next call on, such as once a plan is agreed; what waits already waits on.

        It is kept for later runs, for as long as the program gives the agent the same permissions to begin with.

        Args:
            permissions: What holds in place of what held.

        Raises:
            Fenced: Another process has taken it over.
        """
        await Agreed(self._store, self._now_open[0], self._first_permissions).add(permissions)
        self._permissions = permissions

    async def extend(self, budget: Budget) -> LoopOutcome:
        """Agree to more, which is kept for every later run, and go on.

        Args:
            budget: The limits in all, not what is added; those that it does not name stay.

        Raises:
            InvalidInput: A limit is lower than the one there is.
        """
        row, _ = self._now_open
        agreed = extended(self._budget, budget)
        state = await self._questions.agree(agreed)
        self._opened = replace(row, state=state), self._now_open[1]
        self._budget = agreed
        return await self._go_on()

    async def usage(self) -> Amounts:
        """Count what its model calls have used, in all of its life."""
        accounts = await self._store.accounts(self._user, [self.id])
        return Amounts.of(accounts[0].spent) if accounts else Amounts()

    async def charges(self) -> list[ChargeRecord]:
        """Read what each model call cost, oldest first."""
        return await self._store.charges(self.id)

    async def _go_on(self) -> LoopOutcome:
        while (waits := await self._questions.about_being_stuck()) is None:
            outcome = await self._run()
            async with self._speaking:  # nobody speaks between the look and the question
                if outcome.kind == "stuck" and await self._was_told_more():
                    continue
                await self._questions.ask(outcome, self._now_open[1].told(outcome))
            if outcome.exceeded is None:
                await self._questions.drop_money()  # a program that gave it a larger budget has answered
            return outcome
        return LoopOutcome(kind="stuck", text=str(waits.payload["text"]))

    @property
    def _questions(self) -> Questions:
        return Questions(self._store, self._now_open[0])

    async def _was_told_more(self) -> bool:
        """Whether its history ends with a person's words: they came while it was finding out that it is stuck."""
        return any(is_a_persons(message) for message in (await self.messages())[-1:])

    async def rewind(self, to: str) -> None:
        """Go back to a point: a message's id, or the id of a head that going back left (`heads`).

        It is then what it was just before the next message. A call that waited for a person there waits on; every
        other one without a result gets one that says what is known, so nothing is done a second time by itself.

        Raises:
            NotFound: There is no such point (code POINT_NOT_FOUND).
            InvalidTransition: It is running, be it only to wait for its subagents.
            Fenced: Another process has taken it over.
        """
        row, loop = self._now_open
        if self._running is not None:
            raise InvalidTransition(f"the agent {self._name!r} runs; await its cancel() before it goes back")
        await loop.reload()
        await self._store.rewind(row.id, row.epoch, to, lambda past: agent_back(past, at=now()))
        await loop.reload()

    async def undo(self) -> None:
        """Undo the newest `rewind` that was not undone. Raises as `rewind` (code NOTHING_TO_UNDO)."""
        await self.rewind(UNDO)

    async def fork(self, name: str, *, at: str | None = None) -> Agent:
        """Make another agent of this one's past, remembered beside it; this one is not changed.

        It may use what is left of this one's budget.

        Args:
            name: The new one's name.
            at: A message's or a head's id; where this one is now when None.

        Returns:
            The new agent, with the same model, tools and rules, to be opened.

        Raises:
            Conflict: There is an agent of that name.
            NotFound: There is no such point (code POINT_NOT_FOUND).
        """
        row, _ = self._now_open
        budget = left_of(self._budget, await self.usage())
        _, made = await self._store.fork(
            row.id,
            user_id=self._user,
            point=at,
            key=_key(name),
            body=_body(name),
            plan=lambda past: agent_fork(past, name=name, node=agent_node(name), budget=budget, at=now()),
        )
        if not made:
            raise Conflict(f"there is an agent {name!r} already: open it, or choose another name")
        return Agent(
            name,
            self._tools,
            system="".join(self._system),
            model=self._model,
            runtime=replace(self._runtime.given, budget=budget),
            policy=replace(self._policy, permissions=self._permissions),
            subagents=self._delegation,
            on_event=self._on_event,
        )

    async def heads(self) -> list[HeadRecord]:
        """Read where it was each time it went back, oldest first."""
        return await self._store.heads(self.id)

    async def approvals(self, *, pending: bool = True) -> list[ApprovalRecord]:
        """Read what a person is to agree to, or with ``pending=False`` also what they have answered."""
        return await self._store.approvals(self.id, pending=pending)

    async def messages(self) -> list[MessageRecord]:
        """Read its history, oldest first."""
        return await self._store.messages(self.id, agent=self._name)

    async def calls(self) -> list[ToolCallRecord]:
        """Read the ledger: every tool call with its outcome."""
        return await self._store.tool_calls(self.id)

    async def events(
        self, *, after: int = 0, channels: Channel | Collection[Channel] | None = None
    ) -> AsyncGenerator[Envelope]:
        """Yield what happens, each event once and in order, from ``after`` on; close it to stop.

        A ``resync`` says where progress events are left out; see `koda_ray.events.Resync`.

        Args:
            after: The number of the last event that is known; 0 for none.
            channels: Only what is on these: ``progress``, ``control``, ``monitor``; everything when None.
        """
        async with aclosing(follow(self._store, self.id, after, wanted=Selection.named(channels))) as stream:
            async for event in stream:
                if isinstance(event, Envelope):
                    yield event

    @property
    def _now_open(self) -> tuple[SessionRecord, AgentLoop | Lead]:
        if self._opened is None:
            raise InvalidTransition(f"the agent {self._name!r} is not open: async with Agent(...) as agent")
        return self._opened

    async def _let_go(self, row: SessionRecord, unfinished: bool) -> None:
        if not unfinished:
            await self._store.release(row.id, row.epoch)
            return
        with suppress(Fenced):
            await self._store.renew(row.id, row.epoch, lease_until=now())

    async def _run(self) -> LoopOutcome:
        """Run in a task of its own, so that `cancel` ends the run and not whoever waits for it."""
        if self._running is not None:
            raise InvalidTransition(f"the agent {self._name!r} runs already; say reaches it while it does")
        self._running = running = asyncio.get_running_loop().create_task(self._now_open[1].run())
        try:
            await asyncio.wait({running})
        finally:
            running.cancel()
            await asyncio.wait({running})
            self._running = None
        if running.cancelled():
            raise Cancelled(f"what the agent {self._name!r} was doing was cancelled")
        return running.result()

    def _loop(self, row: SessionRecord, provider: ModelProvider) -> AgentLoop | Lead:
        """Make its loop, with what it needs to delegate where it may; a subagent's is bound by what its own is."""
        journal = StoreJournal(self._store, row)
        purse = Purse(row.id, budget=lambda: self._budget, prices=self._runtime.prices)

        def loop(toolkit: Toolkit, journal: Journal, subagent: Subagent | None = None) -> AgentLoop:
            own = subagent is None
            agent = self._name if own else subagent.id
            limits = self._policy.limits if self._delegation is None or own else self._delegation.limits
            return AgentLoop(
                AgentIdentity(agent=agent, session_id=row.id, user_id=self._user, epoch=row.epoch),
                access=ModelAccess(
                    provider=provider,
                    model=self._model if own else subagent.model,
                    purse=purse,
                    prompt=Prompt(system=self._system if own else (brief(subagent),)),
                ),
                toolkit=toolkit,
                journal=journal,
                policy=replace(self._policy, limits=limits, permissions=lambda: self._permissions),
                observers=Observers(
                    on_event=self._on_event if own else None,
                    voice=Voice(agent),
                    goes_on=lambda: isinstance(journal, Subagents) and journal.owes_reports(agent),
                ),
            )

        if self._delegation is None:
            return loop(self._toolkit, journal)
        crew = Subagents(
            AgentIdentity(agent=self._name, session_id=row.id, user_id=self._user),
            journal=journal,
            tools=self._tools,
            delegation=self._delegation.on(self._model),
            equip=subagent_tools,
            make=lambda crew, subagent, toolkit: loop(toolkit, crew, subagent),
        )
        return Lead(loop(Toolkit([*self._tools, *crew.tools(self._name, 0)]), crew), crew)

    async def _say(self, row: SessionRecord, loop: AgentLoop | Lead, text: str, key: str | None) -> None:
        answer = await self._questions.answered_by(text)
        if key is None:
            await loop.add_user(text, answer)
            return
        before = await self._store.find_command(row.id, key)
        if before is None:
            command = CommandRecord(
                id=new_id("cmd"),
                session_id=row.id,
                user_id=self._user,
                key=key,
                name="say",
                body={"text": text},
                result={},
                created_at=now(),
            )
            await loop.add_user(text, replace(answer, command=command))
        elif before.body != {"text": text}:
            raise Conflict(f"something else was said under the key {key!r}; use a new key", context={"key": key})


def project_of(user: str) -> str:
    """Name the project that a user's agents are in."""
    return f"{_PROJECT}-{user}"


def _key(name: str) -> str:
    return f"agent:{name}"


def _body(name: str) -> dict[str, JsonValue]:
    return {"agent": name}


def agent_node(name: str) -> str:
    """Name the node of an agent: by it a row says whose it is."""
    return f"agent:{name}"
