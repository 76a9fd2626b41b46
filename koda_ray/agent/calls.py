"""The calls of one answer, run or closed: START first, then the tool, then its outcome with its result.

The order of commits is the whole point. A call whose START is not stored has not run; one whose outcome is stored has
its result in the history, because both are one transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from koda_ray.agent.approvals import ApprovalRequest, changed_note, grant, request, resolved, unheard
from koda_ray.agent.breakpoints import Breakpoint
from koda_ray.agent.hooks import Hooks, Stop
from koda_ray.agent.ledger import (
    OpenCall,
    abandoned,
    deaths,
    done_so_far,
    kept,
    next_step,
    part_done,
    recorded_result,
    refused,
    result_block,
    sealed,
    settled,
    started,
    stopped,
    waiting,
    waiting_again,
    wanted,
)
from koda_ray.agent.limits import LoopOutcome
from koda_ray.agent.permissions import Verdict
from koda_ray.agent.runner import run_preview, run_tool
from koda_ray.agent.spec import Policy
from koda_ray.agent.toolkit import BoundCall, ToolCall, Toolkit, ToolOutcome
from koda_ray.agent.transcript import Transcript, merged
from koda_ray.budgets import Exceeded
from koda_ray.errors import BudgetExceeded, HookStopped, InvalidInput, KodaError
from koda_ray.events import NewEvent
from koda_ray.llm.base import Block
from koda_ray.state.records import Batch, ToolCallRecord
from koda_ray.types import now

__all__ = ["Calls"]


@dataclass(frozen=True)
class _Planned:
    """A call that may run: the tool with its checked input, and that input as it was sent, or as it was changed."""

    call: OpenCall
    bound: BoundCall
    given: dict[str, JsonValue]

    @property
    def effective(self) -> dict[str, JsonValue]:
        """The input as it is written down."""
        return self.bound.written(self.given)


class Calls:
    """Answers the open calls of an agent.

    Args:
        log: Its history and ledger.
        toolkit: What it can do.
        policy: What bounds it.
        hooks: Who is heard before and after.
        move: Told each breakpoint that is reached.
        told: Makes the events that tell of a run's end.
    """

    def __init__(
        self,
        log: Transcript,
        toolkit: Toolkit,
        policy: Policy,
        *,
        hooks: Hooks,
        move: Callable[[Breakpoint], None],
        told: Callable[[LoopOutcome], list[NewEvent]],
    ) -> None:
        self._log = log
        self._toolkit = toolkit
        self._policy = policy
        self._limits = policy.limits
        self._agent = log.agent
        self._hooks = hooks
        self._heard: dict[str, dict[str, JsonValue] | ToolOutcome | Stop] = {}  # of calls that have no row yet
        self._move = move
        self._told = told
        self.made = 0
        """Calls run or refused in this run."""

    async def answer(self, open_: Sequence[OpenCall]) -> LoopOutcome | None:
        """Answer the first open call, and those that may run beside it; say why the run must end, if it must."""
        first = open_[0]
        record = self._log.calls.get(first.block["id"])
        effect = self._toolkit.effect(first.block["name"])
        step = next_step(record, effect, max_attempts=self._limits.call_attempts)
        if record is not None and step == "wait":
            self._move(Breakpoint.AWAITING_APPROVAL)
            return LoopOutcome(kind="suspended", suspended_call_id=record.id)
        if record is not None and step == "ask":
            return await self._ask_again(record)
        if record is not None and step != "run":
            await self._close_call(record, seal=step == "seal")
            return None
        if self.made >= self._limits.tool_calls:
            self._move(Breakpoint.READY)
            return LoopOutcome(kind="limit", text=f"Stopped at the limit of one run: {self.made} tool calls.")
        planned = await self._plan(first)
        if isinstance(planned, Stop):
            self._move(Breakpoint.READY)
            return LoopOutcome(kind="stopped", text=planned.reason)
        if isinstance(planned, ToolOutcome):
            return await self._refuse(first, planned)
        verdict = self._verdict(planned)
        if verdict.decision == "deny":
            known = "Nothing was run."
            if record is not None and part_done(record):
                known = f"It may have done part of its work before. {done_so_far(record)}".rstrip()
            message = f"{planned.bound.tool.name} is not allowed: {verdict.reason}. {known}"
            return await self._refuse(first, ToolOutcome.failure("NOT_ALLOWED", message, retryable=False))
        if verdict.decision == "ask":
            return await self._ask_person(planned, verdict.reason)
        return await self._execute(await self._together(open_, planned))

    async def _plan(self, call: OpenCall) -> _Planned | ToolOutcome | Stop:
        """Check a call's input, and hear the hooks about one that they have not heard of; they are heard once."""
        block, record = call.block, self._log.calls.get(call.block["id"])
        # one that began, or that a person agreed to, has its input in the ledger
        given = block["input"] if record is None else record.input
        bound = self._toolkit.bind(block["name"], given)
        heard_of = record is not None and not unheard(record, self._hooks.guards)
        if isinstance(bound, ToolOutcome) or heard_of:
            return bound if isinstance(bound, ToolOutcome) else _Planned(call, bound, given)
        effective = bound.written(given)
        if block["id"] not in self._heard:
            row = record or started(call, name=bound.tool.name, effect=bound.tool.effect, attempt=0, at=now())
            self._heard[block["id"]] = await self._hooks.before_tool(self._call(row), effective)
        heard = self._heard[block["id"]]
        if isinstance(heard, Stop):
            del self._heard[block["id"]]  # the next run asks again
        if not isinstance(heard, dict):
            return heard
        if heard == effective:
            return _Planned(call, bound, given)
        bound = self._toolkit.bind(block["name"], heard)
        return bound if isinstance(bound, ToolOutcome) else _Planned(call, bound, heard)

    async def granted(self, record: ToolCallRecord, arguments: dict[str, JsonValue] | None) -> Batch:
        """Make the changes that let a waiting call run; hooks are heard about arguments that a person changed.

        Raises:
            InvalidInput: INVALID_INPUT, what it would run with does not fit the tool, or is not allowed.
        """
        given = record.input if arguments is None else arguments
        bound = self._allowed(record, given)
        proposed, effective = self._effective(record.name, record.input), bound.written(given)
        if effective == proposed:
            return grant(record, given, effective=effective, heard=None, at=now())
        heard = await self._hooks.before_tool(self._call(record), effective)
        if not isinstance(heard, dict):
            said = heard.reason if isinstance(heard, Stop) else heard.content
            raise InvalidInput(
                f"a hook does not let {record.name} run with this input: {said}; "
                "change it to something else, or reject the call"
            )
        if heard != effective:
            effective = self._allowed(record, heard).written(heard)
        return grant(record, given, effective=effective, heard=self._hooks.guards, at=now())

    def _allowed(self, record: ToolCallRecord, given: dict[str, JsonValue]) -> BoundCall:
        """Check what a waiting call would run with. Raises InvalidInput."""
        bound = self._toolkit.bind(record.name, given)
        if isinstance(bound, ToolOutcome):
            raise InvalidInput(f"the changed input of {record.name} does not fit: {bound.content}")
        if (verdict := self._policy.allowed().decide(bound, given)).decision == "deny":
            raise InvalidInput(
                f"the input of {record.name} is not allowed: {verdict.reason}; "
                "change it to something else, reject the call, or change the permissions first"
            )
        return bound

    def _effective(self, name: str, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Return an input as it would be written down; as it is where it does not fit the tool any more."""
        bound = self._toolkit.bind(name, given)
        return given if isinstance(bound, ToolOutcome) else bound.written(given)

    def _verdict(self, planned: _Planned) -> Verdict:
        """Decide about a call that may have been agreed to: what is forbidden since then does not begin."""
        record = self._log.calls.get(planned.call.block["id"])
        if record is not None and record.status == "started":  # it began when it was allowed, and is gone through with
            return Verdict(decision="allow")
        verdict = self._policy.allowed().decide(planned.bound, planned.given)
        return verdict if record is None or verdict.decision == "deny" else Verdict(decision="allow")

    async def _together(self, open_: Sequence[OpenCall], first: _Planned) -> list[_Planned]:
        """Pick the calls that run at once: the first, and those after it in its message that get in nobody's way."""
        found = [first]
        for call in open_[1 : min(self._limits.parallel, self._limits.tool_calls - self.made)]:
            record, tool = self._log.calls.get(call.block["id"]), self._toolkit.get(call.block["name"])
            if call.message.id != first.call.message.id or tool is None or not tool.may_run_beside(first.bound.tool):
                break
            if next_step(record, tool.effect, max_attempts=self._limits.call_attempts) != "run":
                break
            planned = await self._plan(call)
            if not isinstance(planned, _Planned) or self._verdict(planned).decision != "allow":
                break
            if not all(planned.bound.may_run_beside(each.bound) for each in found):
                break
            found.append(planned)
        return found

    async def _execute(self, calls: Sequence[_Planned]) -> LoopOutcome | None:
        self._move(Breakpoint.PRE_TOOL)
        self.made += len(calls)
        rows = [self._start(planned) for planned in calls]
        starts = [NewEvent(type="tool_start", data=_about(row, self._agent), cause_id=row.id) for row in rows]
        self._move(Breakpoint.TOOL_EXECUTING)  # before: it is stored with START
        try:
            await self._log.commit(Batch(tool_calls=rows, events=starts))
        except asyncio.CancelledError:
            await self._not_begun(rows)
            raise
        self._have_rows(rows)
        tasks = [
            asyncio.ensure_future(run_tool(planned.bound, self._call(row)))
            for planned, row in zip(calls, rows, strict=True)
        ]
        ends: list[LoopOutcome] = []
        stop: Stop | None = None
        heard: dict[str, ToolOutcome] = {}  # as hooks have left them
        unpaid: list[ToolCallRecord] = []
        try:
            # run beside each other, recorded one after the other: what a later call says must not overtake
            for planned, row, task in zip(calls, rows, tasks, strict=True):
                try:
                    outcome = await task
                except BudgetExceeded as error:
                    unpaid.append(row)
                    ends.append(LoopOutcome(kind="paused", text=error.message, exceeded=Exceeded.by(error)))
                    continue
                except HookStopped as error:
                    stop = stop or Stop(error.message)
                    outcome = ToolOutcome.failure(error.code, error.message, retryable=False)
                if outcome.suspend:
                    waits = Batch(tool_calls=[waiting(row, outcome)], events=self._suspend(row, ends))
                    await self._log.commit(merged(waits, outcome.batch))
                    continue
                if (wants := outcome.wants) is not None:
                    asked = ApprovalRequest.going_on(wants, agent=self._agent, proposed=planned.given)
                    asks = request(waiting_again(row), asked, at=now())
                    asks.events.extend(self._suspend(row, ends))
                    await self._log.commit(merged(asks, outcome.batch))
                    continue
                outcome, ended = await self._hooks.after_tool(self._call(row), outcome)
                stop, heard[row.id] = stop or ended, outcome
                await self._settle_ran(planned, row, outcome)
        except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
            # one that was cancelled by nobody here has ended by itself, and may do so each time
            cut = tasks if _is_cancelled() else [task for task in tasks if not task.done()]
            await _end(tasks, *(error.args if isinstance(error, asyncio.CancelledError) else ()))
            await self._settle_ended(calls, rows, tasks, heard)
            await self._note_stops([row for row, task in zip(rows, tasks, strict=True) if task in cut and _lived(task)])
            raise
        finally:
            await _end(tasks)
        if unpaid:  # they wait until there is more to spend, and run again then
            await self._log.commit(Batch(tool_calls=[waiting_again(row) for row in unpaid]))
        return self._after(ends, stop)

    async def _settle_ran(self, planned: _Planned, row: ToolCallRecord, outcome: ToolOutcome) -> None:
        """Store the outcome of a call that ran; the model is told where it ran with another input than it sent."""
        sent = planned.call.block["input"]
        if planned.given != sent and row.input != self._effective(row.name, sent):
            outcome = replace(outcome, content=changed_note(outcome.content))
        await self.settle(settled(row, outcome, at=now()), outcome)

    async def _settle_ended(
        self,
        calls: Sequence[_Planned],
        rows: Sequence[ToolCallRecord],
        tasks: Sequence[asyncio.Task[ToolOutcome]],
        heard: Mapping[str, ToolOutcome],
    ) -> None:
        """Store what tools gave back before the run was broken off, where that is not stored: it has happened."""
        with contextlib.suppress(KodaError):  # what was raised first says why the run ends
            await self._log.refresh()
            for planned, row, task in zip(calls, rows, tasks, strict=True):
                stored = self._log.calls.get(row.id)
                if task.cancelled() or task.exception() is not None or stored is None or stored.status != "started":
                    continue
                outcome = heard.get(row.id) or task.result()
                if not outcome.suspend and outcome.wants is None:
                    await self._settle_ran(planned, row, outcome)

    async def _note_stops(self, rows: Sequence[ToolCallRecord]) -> None:
        """Store that calls which may run again were stopped in good order, where they have no outcome."""
        with contextlib.suppress(KodaError):  # what was raised first says why the run ends
            if cut := [row for row in await self._still_started(rows) if row.effect != "unsafe"]:
                await self._log.commit(Batch(tool_calls=[stopped(row) for row in cut]))

    async def _not_begun(self, rows: Sequence[ToolCallRecord]) -> None:
        """Store that calls have not begun whose START became durable as the run was cancelled: that was no attempt."""
        with contextlib.suppress(KodaError):
            if still := await self._still_started(rows):
                await self._log.commit(Batch(tool_calls=[waiting_again(row) for row in still]))

    async def _still_started(self, rows: Sequence[ToolCallRecord]) -> list[ToolCallRecord]:
        await self._log.refresh()
        found = [(row, self._log.calls.get(row.id)) for row in rows]
        return [
            now_stored
            for row, now_stored in found
            if now_stored is not None and now_stored.status == "started" and now_stored.attempt == row.attempt
        ]

    def _suspend(self, row: ToolCallRecord, ends: list[LoopOutcome]) -> list[NewEvent]:
        """Note that a call waits for a person; what is told of that goes with its row, once for a run."""
        ends.append(LoopOutcome(kind="suspended", suspended_call_id=row.id))
        return self._told(ends[0]) if len(ends) == 1 else []

    def _after(self, ends: Sequence[LoopOutcome], stop: Stop | None) -> LoopOutcome | None:
        """Say why the run must end after some calls, if it must: the first that waits counts."""
        if ends and ends[0].kind == "suspended":
            self._move(Breakpoint.AWAITING_APPROVAL)
            return ends[0]
        self._move(Breakpoint.TOOL_PENDING if ends else Breakpoint.POST_TOOL)
        if not ends and stop is None:
            return None
        self._move(Breakpoint.READY)
        return ends[0] if ends else LoopOutcome(kind="stopped", text=stop.reason if stop is not None else "")

    async def _refuse(self, call: OpenCall, outcome: ToolOutcome) -> None:
        """Answer a call without running it; what was agreed to stays written down."""
        self.made += 1
        record = self._log.calls.get(call.block["id"])
        row = refused(call, outcome, at=now())
        await self.settle(row if record is None else settled(record, outcome, at=now()), outcome)
        self._move(Breakpoint.POST_TOOL)

    async def _ask_person(self, planned: _Planned, reason: str) -> LoopOutcome:
        """Have a call wait for a person's agreement; it has not begun."""
        call, tool, at = planned.call, planned.bound.tool, now()
        row = started(call, name=tool.name, effect=tool.effect, attempt=0, at=at, given=planned.effective)
        try:
            shown = await run_preview(planned.bound, self._call(row))
        except BudgetExceeded as error:
            self._move(Breakpoint.READY)
            return LoopOutcome(kind="paused", text=error.message, exceeded=Exceeded.by(error))
        outcome = LoopOutcome(kind="suspended", suspended_call_id=row.id)
        asked = ApprovalRequest(agent=self._agent, proposed=planned.given, reason=reason, shown=shown)
        asks = request(row, asked, at=at)
        asks.events.extend(self._told(outcome))
        self._move(Breakpoint.AWAITING_APPROVAL)  # before: it is stored with what it asks
        await self._log.commit(asks)
        self._have_rows([row])
        return outcome

    async def _ask_again(self, row: ToolCallRecord) -> LoopOutcome:
        """Have a call wait for a person's leave that ended its process so often; it then runs under the same id."""
        died = deaths(row)
        times = "each time" if died == row.attempt else f"{died} of those times"
        reason = (
            f"{row.name} has begun {row.attempt} times, and {times} its process ended before it did. It may have "
            "done part of its work. Agree and it runs once more, done once however often it runs; refuse and the "
            "agents go on without it"
        )
        outcome = LoopOutcome(kind="suspended", suspended_call_id=row.id)
        asks = request(row, ApprovalRequest(agent=self._agent, proposed=row.input, reason=reason), at=now())
        asks.events.extend(self._told(outcome))
        self._move(Breakpoint.AWAITING_APPROVAL)
        await self._log.commit(asks)
        return outcome

    def abandoning(self, open_: Sequence[OpenCall], reason: str, place: int | None = None) -> Batch:
        """Make the changes that close all open calls; ``place`` is the position of their results."""
        rows = [
            abandoned(
                call,
                self._log.calls.get(call.block["id"]),
                reason,
                at=now(),
                stops=self._toolkit.stops(call.block["name"]),
            )
            for call in open_
        ]
        self._have_rows(rows)
        own = Batch(tool_calls=[row for row in rows if row != self._log.calls.get(row.id)])
        for call in open_:
            if (before := self._log.calls.get(call.block["id"])) is not None:
                own = merged(own, resolved(before, "superseded", {"reason": reason}, at=now()))
        blocks: list[Block] = []
        for row in rows:
            content, is_error = recorded_result(row) or (reason, True)
            blocks.append(result_block(row.id, content, is_error=is_error))
            data = {**_about(row, self._agent), "status": row.status, "isError": is_error}
            own.events.append(NewEvent(type="tool_end", data=data, cause_id=row.id))
        if blocks:
            own.messages.append(self._log.record("user", blocks, place))
        return own

    async def settle(self, row: ToolCallRecord, outcome: ToolOutcome) -> None:
        """Store an outcome, its result and its changes in one transaction."""
        block = result_block(row.id, outcome.content, is_error=outcome.is_error)
        data = {**_about(row, self._agent), "status": row.status, "isError": outcome.is_error}
        if row.ended_at is not None:
            data["durationMs"] = round((row.ended_at - row.started_at).total_seconds() * 1000)
        own = Batch(tool_calls=[row], messages=[self._log.record("user", [block])])
        batch = merged(own, outcome.batch)
        batch.events = [*batch.events, NewEvent(type="tool_end", data=data, cause_id=row.id)]
        await self._log.commit(batch)
        self._have_rows([row])

    async def _close_call(self, record: ToolCallRecord, *, seal: bool) -> None:
        row = sealed(record, at=now()) if seal else record
        content, is_error = recorded_result(row) or ("", True)
        await self.settle(row, ToolOutcome(content=content, is_error=is_error))
        self._move(Breakpoint.POST_TOOL)

    def _have_rows(self, rows: Sequence[ToolCallRecord]) -> None:
        for row in rows:
            self._heard.pop(row.id, None)

    def _start(self, planned: _Planned) -> ToolCallRecord:
        call, tool = planned.call, planned.bound.tool
        before = self._log.calls.get(call.block["id"])
        attempt = 1 if before is None else before.attempt + 1
        row = started(call, name=tool.name, effect=tool.effect, attempt=attempt, at=now(), given=planned.effective)
        return replace(row, result=kept(before) or None) if before is not None else row

    def _call(self, row: ToolCallRecord) -> ToolCall:
        return ToolCall(
            id=row.id,
            attempt=row.attempt,
            agent=self._agent,
            name=row.name,
            session_id=self._log.identity.session_id,
            user_id=self._log.identity.user_id,
            epoch=self._log.identity.epoch,
            agreed=wanted(row),
        )


def _about(row: ToolCallRecord, agent: str) -> dict[str, JsonValue]:
    return {"callId": row.id, "name": row.name, "agent": agent, "attempt": row.attempt, "effect": row.effect}


def _is_cancelled() -> bool:
    """Whether whoever runs this task has asked it to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _lived(task: asyncio.Task[ToolOutcome]) -> bool:
    """Whether a task that was to end did so, rather than to end its process."""
    return task.cancelled() or isinstance(task.exception(), Exception)


async def _end(tasks: Sequence[asyncio.Task[ToolOutcome]], *why: object) -> None:
    """Cancel what still runs and wait for it: no tool outlives its call but a plain function, whose thread goes on."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel(*why)
    if running:
        await asyncio.wait(running)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()
