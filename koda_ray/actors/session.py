"""A session: one animation from its first sentence to its video, as a plain class without Ray.

The database and storage are the session; this object is its cache, and only while its epoch is the newest. Commands
are recorded in one transaction with the phase they lead to and the words the agents are told; the work itself runs in
a task of this object, so no request ever owns it. Left alone for a while, it saves, destroys its sandbox and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Self

from koda_ray import phases
from koda_ray.actors.command_parser import command_of
from koda_ray.actors.core import After, SessionCore
from koda_ray.actors.crowding import Crowding
from koda_ray.actors.heard import answer_of, heard_words, stops
from koda_ray.actors.intake import Intake
from koda_ray.actors.journal import ORCHESTRATOR, SessionJournal
from koda_ray.actors.meaning import judged
from koda_ray.actors.permits import permissions_of
from koda_ray.actors.pointed import pictures_of
from koda_ray.actors.project import Project, ProjectBounds
from koda_ray.actors.session_jobs import SessionJobs
from koda_ray.actors.session_parts import SessionParts
from koda_ray.actors.spending import SandboxMinutes, purse_of, too_much_stored
from koda_ray.actors.subagents import session_subagents
from koda_ray.actors.unread import UnreadWords
from koda_ray.actors.work import Work
from koda_ray.actors.workbench import PageTrial, SessionWorkbench
from koda_ray.agent.hooks import Hooks
from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.lead import Lead
from koda_ray.agent.limits import Limits
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.named_hooks import HookedSession
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.purse import STOPPED
from koda_ray.agent.spec import ModelAccess, Policy, Prompt
from koda_ray.agent.toolkit import Toolkit
from koda_ray.commands import (
    Approve,
    CancelJob,
    Command,
    Refuse,
    ReleaseSandbox,
    Rewind,
    Say,
    StopWork,
)
from koda_ray.config import Settings
from koda_ray.errors import Fenced, InvalidTransition, KodaError, NotFound, SandboxNotFound, ServerFailed, StorageError
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.roles.codegen import CodeGenerator
from koda_ray.roles.orchestrator import instructions, orchestrator_tools, session_block, state_block
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.reading_memory import ReadingMemory
from koda_ray.state.charges import Release
from koda_ray.state.records import AssetRecord, Batch, CommandRecord, SessionRecord
from koda_ray.tools.workbench import Picture
from koda_ray.types import NodeState, now

__all__ = ["HELD_S", "Session"]

LIMITS = Limits(turns=300, tool_calls=800)
"""Bounds of one run: a plan of forty scenes with a component each, a call at a time; going in circles ends sooner."""
HELD_S = 12.0
"""For how long a process holds a session whose lease it does not renew, in seconds; or as long as the lease is."""
_LONGEST_SETBACK_S = 30.0
_log = get_logger()


class Session:
    """The one activation of a session. `open` it, have its `intake` take what it is asked, `close` it.

    Attributes:
        session_id: Which.
        core: Its row, and every write to it.
        intake: What is asked of it.
        project: Its files, in a sandbox and in checkpoints.
        jobs: Its renders.
        workbench: What its agents' tools do.
        agents: Its orchestrator, with its subagents.
    """

    def __init__(self, record: SessionRecord, parts: SessionParts) -> None:
        settings = parts.settings
        self.session_id = record.id
        self._parts = parts
        self._tasks: set[asyncio.Task[None]] = set()
        self._work: asyncio.Task[None] | None = None
        self._watchers = 0
        self._active_at = self._renewed_at = self._parts.clock()
        self._closed = False
        self._leaving = False
        self._closing: asyncio.Task[None] | None = None
        self._holding: asyncio.Task[None] | None = None
        self._opened = False
        self._held = False
        self._todos_done = 0
        self._setbacks = 0
        self._not_before = 0.0
        self._putting_away: asyncio.Task[None] | None = None
        self._put_away_at = 0.0
        settings = parts.settings
        self._crowding = Crowding(settings.idle_timeout_s, high=settings.memory_high, clock=parts.clock)
        self.core = SessionCore(
            store=parts.store, record=record, after=self._after, changed=self._committed, fenced=self._fenced
        )
        self.intake = Intake(self.core, self._apply)
        state = record.state
        hooks = parts.hooks(
            HookedSession(session_id=self.session_id, user_id=state.user_id, project_id=state.project_id)
        )
        self._purse = purse_of(self.core, settings)
        self._minutes = SandboxMinutes(self._purse, every_s=settings.lease_s, clock=parts.clock)
        self.project = Project(
            self.core,
            provider=parts.sandboxes,
            storage=parts.storage,
            minutes=self._minutes,
            bounds=ProjectBounds(
                lifetime_s=settings.sandbox_lifetime_s,
                reading_memory=ReadingMemory(
                    settings.sandbox_path / "reading",
                    total_bytes=settings.reading_mb << 20,
                    user_id=state.user_id,
                ),
                full=lambda: too_much_stored(self.core, settings.user_stored_mb << 20),
            ),
        )
        self.jobs = SessionJobs(self.core, storage=parts.storage, executor=parts.executor, purse=self._purse)
        self.workbench = SessionWorkbench(
            self.core,
            project=self.project,
            jobs=self.jobs,
            generator=CodeGenerator(
                provider=parts.provider,
                model=settings.codegen_model,
                instructions=instructions("code_generator"),
                purse=self._purse,
                hooks=Hooks(hooks, self.core.emit),
            ),
            storage=parts.storage,
            trial=PageTrial(parts.executor, settings.page_ready_timeout_s),
        )
        self._journal = SessionJournal(self.core)
        self._assets: list[AssetRecord] = []
        tools = orchestrator_tools(self.workbench)
        policy = Policy(
            limits=replace(LIMITS, context_tokens=settings.context_tokens), permissions=self._permissions, hooks=hooks
        )
        access = ModelAccess(provider=parts.provider, model=settings.orchestrator_model, purse=self._purse)
        crew = session_subagents(
            self.core,
            self._journal,
            tools=tools,
            access=replace(access, model=settings.subagent_model),
            policy=policy,
        )
        orchestrator = AgentLoop(
            AgentIdentity(agent=ORCHESTRATOR, session_id=self.session_id, user_id=record.user_id, epoch=record.epoch),
            access=replace(
                access,
                prompt=Prompt(
                    system=instructions("orchestrator"),
                    context=self._context,
                    briefing=lambda: session_block(self.state, self._assets),
                    todo=self._next_todo,
                    ready=lambda: self._unread.heed(),
                ),
            ),
            toolkit=Toolkit([*tools, *crew.tools(ORCHESTRATOR, 0)]),
            journal=crew,
            policy=policy,
        )
        self.agents = Lead(orchestrator, crew)
        self._unread = UnreadWords(self.core, self.agents, parts.storage)

    @classmethod
    async def open(cls, session_id: str, parts: SessionParts, *, activation: int | None = None) -> Self:
        """Take a session over, and take up whatever waits for it and it owes.

        Args:
            session_id: Which.
            parts: What it is made with.
            activation: Under which number this process is sought; None where nobody seeks it by one.

        Raises:
            NotFound: There is no such session.
            Fenced: It is sought under another number by now.
        """
        record = await parts.store.activate(
            session_id, host=parts.host, lease_until=_lease_until(parts.settings), activation=activation
        )
        session = cls(record, parts)
        await session._begin()
        return session

    @property
    def is_held(self) -> bool:
        """Whether its lease was renewed of late, or it saves at its end: who cannot do so is no use to anybody."""
        return self._leaving or self._parts.clock() - self._renewed_at < max(HELD_S, self._parts.settings.lease_s)

    async def _begin(self) -> None:
        activated = NewEvent(type="activated", data={"host": self._parts.host, "epoch": self.core.epoch})
        dead = Release(kinds=("model",), reason="its process ended")
        await self.core.commit(Batch(events=[activated], charges=[dead]))
        self._holding = self._spawn(self._hold())
        self._spawn(self._heartbeat())
        try:
            await self.intake.begin()
        except BaseException:  # it does not begin, so it must not hold the lease either
            self._closed = True
            await self._end_tasks()
            raise
        self._opened = True
        self._kick()

    def _permissions(self) -> Permissions:
        return permissions_of(self.state)

    @property
    def working(self) -> bool:
        """Whether its agents or a render are at work, or on their way to rest."""
        return self._work is not None and not self._work.done()

    @property
    def state(self) -> NodeState:
        """The state as last committed."""
        return self.core.state

    @property
    def closed(self) -> bool:
        """Whether this activation is over."""
        return self._closed

    # --- commands -------------------------------------------------------------------------------------------------

    async def _apply(self, asked: CommandRecord) -> CommandRecord:
        """Apply a command that waited, with what follows from it."""
        self._active_at = self._parts.clock()
        self.core.trace = asked.trace or self.core.trace
        command, waits = command_of(asked), False
        try:
            # refused before anything is stopped
            if isinstance(command, Rewind):
                await self._parts.store.see_point(self.session_id, command.point)
                return await self._rewind(command, asked)
            if stops(command, self.state):
                phases.apply(self.state, command, now())
                await self._hold_work(STOPPED)
            return await self._record(command, asked)
        except StorageError:  # it is tried again; what agents did until then would be undone by going back
            waits = isinstance(command, Rewind)
            raise
        finally:
            self._held = self._held and waits
            self._setbacks, self._not_before = 0, 0.0
            self._kick()

    async def _record(self, command: Command, asked: CommandRecord) -> CommandRecord:
        """Store a command with what it is judged to be and to lead to; refused before anything is told or stored.

        The commit applies it to the state of its own moment, which agents at work may have moved on: a message is then
        what it was judged to be, or is refused, and judged anew.
        """
        told, after = judged(command, self.state, now())
        while True:
            record = replace(asked, result={"phase": after.phase, "owes": after.owes})
            try:
                await self._tell(told, Batch(phase_commands=[told], command=record, touch=True))
                return record
            except InvalidTransition:
                before, (told, after) = told, judged(command, self.state, now())
                if told == before:
                    raise  # else the agents came to rest meanwhile, or began: it means something else then

    async def _rewind(self, command: Rewind, asked: CommandRecord) -> CommandRecord:
        """Stop what is under way, save what is in the sandbox, and put the session back.

        Killed before the one transaction, nothing has happened but that, and the next activation does it; killed after
        it, the next sandbox is filled from the files of that time.
        """
        from koda_ray.actors.timeline import back_at  # most sessions never go back, and each would pay for it

        await self._hold_work(STOPPED)
        async with self.project.put_away("rewind"):
            await self.core.rewind(command.point, lambda past: back_at(past, command=asked, at=now()))
        await self.agents.reload()
        await self.jobs.leave()
        recorded = await self._parts.store.find_command(self.session_id, asked.key)
        assert recorded is not None
        return recorded

    async def _tell(self, command: Command, batch: Batch) -> None:
        """Commit a command together with what the agents hear of it."""
        pending = {call.approval_id: call.call_id for call in phases.pending_calls(self.state)}
        if isinstance(command, Approve):
            await self.agents.approve(pending[command.approval_id], command.arguments, batch)
            return
        if isinstance(command, Refuse):
            await self.agents.reject(pending[command.approval_id], command.reason, batch)
            return
        if stops(command, self.state):
            await self._unread.heed()
            left = await self.jobs.left()
            batch.jobs, batch.charges = [*batch.jobs, *left.jobs], [*batch.charges, *left.charges]
            await self.agents.abandon("The person cancelled.", batch)
            return
        waits = await self.agents.waiting() if self.state.paused is None else None
        asked = self.state.phase in ("question", "plan") and self.state.owes is None and not pending
        if waits is not None and asked and (result := answer_of(command, self.state)) is not None:
            await self._unread.heed()
            await self.agents.resolve(waits.id, json.dumps(result, ensure_ascii=False), batch)
            return
        paused = self.state.paused is not None
        if paused:  # about money, which does not concern the agents
            await self.core.commit(batch)
            return
        words = heard_words(command, self.state)
        if words is None:
            await self.core.commit(batch)
        elif isinstance(command, Say) and command.waits:
            await self.core.commit(batch)
            self.agents.notice()
        else:
            await self._unread.heed()
            parts = self._parts
            seen = await pictures_of(command, user_id=self.core.user_id, store=parts.store, storage=parts.storage)
            await self.agents.add_user(words, batch, pictures=seen)

    # --- what others ask ------------------------------------------------------------------------------------------

    async def preview(self, user_id: str) -> PreviewEndpoint:
        """Return the live dev server, started where needed."""
        self._check_owner(user_id)
        self._active_at = self._parts.clock()
        return await self.workbench.endpoint()

    async def picture(self, user_id: str, at_s: float, size: tuple[int, int]) -> Picture:
        """Picture a frame of the page, ``size`` pixels large, and keep it."""
        self._check_owner(user_id)
        self._active_at = self._parts.clock()
        return await self.workbench.picture(at_s, width_px=size[0], height_px=size[1])

    async def shown(self, user_id: str) -> PreviewEndpoint | None:
        """Return the live dev server while there is a sandbox; a page that asks so is no reason to stay awake."""
        self._check_owner(user_id)
        if self._closed:
            return None
        try:
            return await self.workbench.open_endpoint()
        except (SandboxNotFound, ServerFailed):
            return None

    def _check_owner(self, user_id: str) -> None:
        if user_id != self.core.user_id:
            raise NotFound(f"there is no session {self.session_id}", context={"session_id": self.session_id})

    async def watch(self, watchers: int) -> None:
        """Note how many people follow; when the last one leaves, the work so far is saved."""
        left = self._watchers > 0 and watchers == 0
        self._watchers = watchers
        self._active_at = self._parts.clock()
        if left:
            self._spawn(self.project.save("disconnect"))

    # --- work -----------------------------------------------------------------------------------------------------

    def _context(self) -> str:
        self._journal.telling()
        return state_block(self.state)

    def _next_todo(self) -> str:
        execution = self.state.execution if self.state.phase == "executing" else None
        return next((todo.label for todo in execution.todos if todo.status != "done"), "") if execution else ""

    def _committed(self) -> None:
        """After each commit: look at what is owed, and save when a todo is done."""
        execution = self.state.execution
        done = sum(todo.status == "done" for todo in execution.todos) if execution else 0
        if done > self._todos_done:
            self._spawn(self.project.save("todo"))
        self._todos_done = done
        self._kick()

    def _kick(self) -> None:
        if (
            self._closed
            or not self._opened
            or self._held
            or self.core.lost
            or not (self.state.owes or self.state.closing)
        ):
            return
        if self._parts.clock() < self._not_before:
            return
        if not self.working:
            self._active_at = self._parts.clock()
            self._work = self._spawn(self._do_owed())
            self._work.add_done_callback(lambda _: self._kick_later())

    async def _do_owed(self) -> None:
        try:
            await self._work_on()
        except (Fenced, asyncio.CancelledError):
            raise
        except Exception:
            # it could not even be recorded that it failed: wait longer each time before it is tried again
            wait_s = min(_LONGEST_SETBACK_S, 0.5 * 2**self._setbacks)
            self._setbacks, self._not_before = self._setbacks + 1, self._parts.clock() + wait_s
            asyncio.get_running_loop().call_later(wait_s, self._kick)
            raise
        self._setbacks = 0

    async def _work_on(self) -> None:
        self._assets = await self.project.assets()
        await Work(self.core, loop=self.agents, jobs=self.jobs, unread=self._unread).run()
        await self.jobs.leave()
        self._parts.rested()

    def _kick_later(self) -> None:
        self._active_at = self._parts.clock()
        with contextlib.suppress(RuntimeError):  # the event loop is closing
            asyncio.get_running_loop().call_soon(self._kick)

    async def _hold_work(self, word: str | None = None) -> None:
        """End the work under way, and let none begin until the command that follows is recorded."""
        self._held = True
        work = self._work
        if work is not None and not work.done():
            work.cancel(word)
            await asyncio.wait({work})
        await self.agents.close()

    def _after(self, effect: After) -> None:
        match effect:
            case StopWork():
                if self._work is not None:
                    self._work.cancel(STOPPED)
            case CancelJob(job_id=job_id):
                self._spawn(self.jobs.cancelled(job_id))
            case ReleaseSandbox(linger=False):
                self._spawn(self.project.release("destroy"))
            case ReleaseSandbox():
                self._spawn(self._linger())

    async def _linger(self) -> None:
        """Destroy the sandbox some minutes after the final video, if nobody went on working."""
        finished = self.state.completed_at
        await asyncio.sleep(self._parts.settings.sandbox_linger_s)
        if self.state.phase == "complete" and self.state.completed_at == finished:
            await self.project.release("destroy")

    # --- life -----------------------------------------------------------------------------------------------------

    async def _hold(self) -> None:
        """Keep the lease, whatever else this activation does or waits for, and hear with it whether something waits."""
        while not self._closed:
            await asyncio.sleep(self._parts.settings.lease_s / 3)
            await self._try(self._renew())

    async def _renew(self) -> None:
        waits = await self.core.renew(_lease_until(self._parts.settings))
        self._renewed_at = self._parts.clock()
        if waits and not self.intake.busy:  # whoever recorded it may not have reached this process
            self._spawn(self.intake.look())

    async def _heartbeat(self) -> None:
        """Charge what goes on, save now and then, and end when nobody needs this activation."""
        settings = self._parts.settings
        saved_at = self._parts.clock()
        while not self._closed:
            await asyncio.sleep(settings.lease_s / 3)
            await self._try(self._charge())
            if self._parts.clock() - saved_at >= settings.heartbeat_s:
                saved_at = self._parts.clock()
                self._spawn(self.project.save("heartbeat"))
            if not self._is_idle():
                continue
            if not self.project.is_open:
                if self._holding is not None:
                    self._holding.cancel()
                self._parts.ended()
                return
            self._put_away("idle")

    def _put_away(self, trigger: str) -> None:
        """Have the sandbox saved and destroyed. One that cannot be saved is kept, and tried again with the heartbeats.

        Nobody asks for it to live on meanwhile: where its provider ends it by itself, that is when this ends.
        """
        busy = self._putting_away is not None and not self._putting_away.done()
        if not busy and self._parts.clock() >= self._put_away_at:
            self._put_away_at = self._parts.clock() + self._parts.settings.heartbeat_s
            self._putting_away = self._spawn(self.project.release(trigger))

    async def _charge(self) -> None:
        """Charge what goes on, and keep the sandbox while somebody needs it."""
        entries = self._minutes.going()
        if entries:
            await self.core.commit(Batch(charges=entries))
        if self.state.owes is not None or self._watchers:
            self._spawn(self.project.extend())
        if not entries or self.state.owes is not None:  # whoever works finds out at the next step
            return
        if await self._purse.used_up(self._parts.store, self.core.user_id, ("sandbox",)) is not None:
            self._put_away("budget")

    async def _try(self, work: Coroutine[object, object, None]) -> None:
        """Do something that is done again soon: what fails is logged, and the next round goes on."""
        try:
            await work
        except Fenced:
            raise
        except Exception as error:
            _log.warning("heartbeat", session_id=self.session_id, error=str(error)[:200])

    def _is_idle(self) -> bool:
        if self.state.owes is not None or self.working or self.intake.delayed:
            return False
        waits = self.state.phase in ("question", "plan", "preview") or self.state.approval is not None
        if self._watchers and waits:
            return False
        return self._parts.clock() - self._active_at >= self._crowding.stay_s()

    def _fenced(self) -> None:
        """Stop at once, touching nothing: another activation owns row and sandbox."""
        _log.warning("fenced", session_id=self.session_id, epoch=self.core.epoch)
        self._closed = True
        self.project.forget()
        for task in self._tasks:
            task.cancel()
        self._parts.ended()

    async def close(self) -> None:
        """End this activation: stop work, save, destroy the sandbox, give the lease up.

        May be called again, also meanwhile: nobody returns before it has ended, and it ends whoever is cancelled. A
        sandbox that cannot be saved is left as it is: the janitor wakes the session again to save it.
        """
        if self._closing is None or self._closing.done():
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._closed:
            await self._end_tasks()
            return
        self._closed = self._leaving = True
        try:
            await self._hold_work()
            await self._end_tasks()
        except Exception:
            _log.exception("work did not end in good order", session_id=self.session_id)
        try:
            await self.project.leave("idle")
            await self.core.emit(NewEvent(type="passivated", data={"epoch": self.core.epoch}))
            await self._parts.store.release(self.session_id, self.core.epoch)
        except (Fenced, NotFound):
            self.project.forget()
        finally:
            self._leaving = False

    async def _end_tasks(self) -> None:
        current = asyncio.current_task()
        others = {task for task in self._tasks if task is not current}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)
        await self.agents.close()

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # where it was cancelled before it could begin
        return task

    async def _guard(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except (Fenced, asyncio.CancelledError):
            pass
        except KodaError as error:
            _log.warning("background task failed", session_id=self.session_id, code=error.code, error=error.message)
        except Exception:
            _log.exception("background task failed", session_id=self.session_id)


def _lease_until(settings: Settings) -> datetime:
    return now() + timedelta(seconds=settings.lease_s)
