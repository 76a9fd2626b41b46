"""One process: it opens the agent, looks whether everything is as it was told, and goes on until the job is done.

The job is that of `tests.faults.kernel.work`, asked for under a key; a person answers its question, agrees to charge b
and, of a wide job, to more than the budget that it begins with and to another charge with an input of their own, puts
the agent back once, and makes another one of its past. Hooks hear a wide job's calls, and change one and that input.
The model is behind HTTP and the real SDK.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import os
import random
import signal
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog
from pydantic import JsonValue

from koda_ray.agent import Agent, Policy, Runtime, voice, window
from koda_ray.agent.breakpoints import Breakpoint, derive
from koda_ray.agent.delegation import Delegation, subagents_among
from koda_ray.agent.hooks import Hook
from koda_ray.agent.ledger import recorded_result
from koda_ray.agent.limits import Limits, LoopOutcome
from koda_ray.agent.loop import LoopEvent
from koda_ray.agent.memory import is_summary, stream_of
from koda_ray.agent.messages import from_records, repair, text_of
from koda_ray.agent.permissions import Permissions, Rule
from koda_ray.agent.toolkit import ToolCall, ToolOutcome
from koda_ray.budgets import with_limit
from koda_ray.errors import Conflict, Fenced
from koda_ray.events import Envelope
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import Block, Completed, ModelRequest
from koda_ray.state.json_store import JSONStore
from koda_ray.state.past import HeadRecord
from koda_ray.state.records import MessageRecord, ToolCallRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from koda_ray.types import Budget
from tests.agent.histories import pairs_hold
from tests.agent.world import toolkit
from tests.faults.kernel.outside import RemoteWorld
from tests.faults.kernel.points import HalfWriting, Points, watch_loop, watch_store
from tests.faults.kernel.work import AGAIN, DONE, FIRST, MORE, SENT
from tests.faults.story import outcomes_of, unbalanced, unpaid, unsound

__all__ = ["KernelJob", "KernelLife", "fork", "live", "look"]

_LIFE_S = 300
_PR_SET_PDEATHSIG = 1
_READS = 50
_COMPACT_BYTES = 12_000  # the log of a job is turned over once or twice
_SLOW_S = 0.3
_LIMITS = Limits(max_tokens=100, context_tokens=5_000)  # only the longest of what the person says is too long
_KEPT_MESSAGES = 4
_BUDGET = Budget(tokens=6_000)
_ENOUGH_TOKENS = 10_000_000
_ASKED = Permissions(rules=[Rule(decision="ask", tool="charge", arguments={"item": item}) for item in ("b", SENT["e"])])
_EDITED: dict[str, JsonValue] = {"item": "E"}


@dataclass(frozen=True)
class KernelJob:
    """What is to be done, and where.

    Args:
        name: The agent's, and the job's in the world outside.
        store: A JSON store's folder, or a database's URL.
        outside: The socket of the world outside.
        model: Where the model is.
        wide: Whether there is a budget, a subagent, a way back and another agent in it.
    """

    name: str
    store: Path | str
    outside: Path
    model: str
    wide: bool = False


@dataclass(frozen=True)
class KernelLife:
    """How one process lives.

    Args:
        dies_at: The point at which it kills itself.
        seen: The number of the last event that was read before.
        outcomes: What was recorded of calls when somebody looked last, by the calls' ids.
        returns: Whether it takes the agent back from whoever took it over.
    """

    dies_at: str | None = None
    seen: int = 0
    outcomes: dict[str, str] = field(default_factory=dict[str, str])
    returns: bool = False


def fork(work: Callable[[int], None], *, limit_s: int = _LIFE_S) -> tuple[int, int]:
    """Run something in a fork, with the end of a pipe to tell of it; return the process and the other end.

    It is killed when its parent ends, and after ``limit_s`` seconds; 0 for no limit. Source: prctl(2).
    """
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(told)
            signal.alarm(limit_s)
            work(tell)
            status = 0
        except BaseException:
            Points(tell).tell("failed", traceback.format_exc())
        finally:
            os._exit(status)  # whatever happens, what is the parent's to do is not done here too
    os.close(tell)
    return pid, told


def live(job: KernelJob, life: KernelLife, tell: int) -> None:
    """Do the job, or what is left of it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    voice.PIECE_S = math.inf  # what comes by the clock would be more points in one life than in another
    window.KEEP_LAST = window._LEAST_NEW = _KEPT_MESSAGES  # what is summed up is short
    points = Points(tell, life.dies_at, seen=life.seen)
    watch_loop(points)
    asyncio.run(_live(job, life, points))
    points.tell("done", None)


def look(job: KernelJob, life: KernelLife, session_id: str, tell: int) -> None:
    """Look what a finished job has left."""
    asyncio.run(_look(job, life, session_id, Points(tell)))


async def _live(job: KernelJob, life: KernelLife, points: Points) -> None:
    store = _store(job, points)
    await store.open()
    watch_store(store, points)
    provider = AnthropicProvider("test-key", base_url=job.model)
    takeovers, done = 0, False
    while not done:
        agent = _agent(job, life, store, provider, points)
        try:
            async with agent:
                points.tell("session", agent.id)
                await _sound(store, agent.id, points, life.outcomes if takeovers == 0 else {})
                reader = asyncio.create_task(_read(agent, points))
                try:
                    await _do(agent, wide=job.wide)
                    done = True
                    last = (await store.get_session(agent.id)).seq
                    async with asyncio.timeout(60):
                        while points.seen < last:
                            await asyncio.sleep(0.002)
                finally:
                    reader.cancel()
                    with suppress(asyncio.CancelledError):
                        await reader
        except Fenced:
            if not life.returns:
                raise
            takeovers += 1
            points.tell("fenced", takeovers)
            await asyncio.sleep(random.uniform(0.02, 0.1) * takeovers)
    await provider.close()
    await store.close()


def _store(job: KernelJob, points: Points) -> SqlStore | JSONStore:
    if isinstance(job.store, Path):
        return JSONStore(job.store, files=HalfWriting(points), compact_bytes=_COMPACT_BYTES)
    return SqlStore(job.store)


def _agent(job: KernelJob, life: KernelLife, store: Store, provider: AnthropicProvider, points: Points) -> Agent:
    async def streamed(_: LoopEvent) -> None:
        points.moment("streaming")

    world = RemoteWorld(job.outside, job.name, slow_s=_SLOW_S if life.returns else 0.0)
    tools = toolkit(world, points.moment)
    return Agent(
        job.name,
        [tool for spec in tools.specs if (tool := tools.get(spec.name)) is not None],
        system="Do the job.",
        model="m",
        runtime=Runtime(provider=provider, store=store, budget=_BUDGET if job.wide else None),
        policy=Policy(limits=_LIMITS, permissions=_ASKED, hooks=[_hook(points)] if job.wide else []),
        on_event=streamed,
        subagents=Delegation(limits=_LIMITS) if job.wide else None,
    )


def _hook(points: Points) -> Hook:
    """Hear every call, and write what is charged in small letters."""

    async def before_model(request: ModelRequest) -> None:
        points.moment("hook before model")

    async def after_model(request: ModelRequest, completed: Completed) -> None:
        points.moment("hook after model")

    async def before_tool(call: ToolCall, given: dict[str, JsonValue]) -> dict[str, JsonValue] | None:
        points.moment("hook before tool")
        item = given.get("item")
        return {**given, "item": item.lower()} if isinstance(item, str) and item.isupper() else None

    async def after_tool(call: ToolCall, outcome: ToolOutcome) -> None:
        points.moment("hook after tool")

    return Hook(
        name="letters",
        before_model=before_model,
        after_model=after_model,
        before_tool=before_tool,
        after_tool=after_tool,
    )


async def _do(agent: Agent, *, wide: bool) -> None:
    if not wide:
        assert await _through(agent, await agent.run(FIRST, key="first")) == DONE
        return
    if not await agent.heads():  # it was never put back
        await _through(agent, await agent.run(FIRST, key="first"))
        assert await _through(agent, await agent.run(MORE, key="more")) == "d is charged."
        await agent.rewind(await _point(agent))
    assert await _through(agent, await agent.run(AGAIN, key="again")) == "e is charged."
    with suppress(Conflict):  # it was made, and nobody heard of it
        await agent.fork(_fork(agent.name), at=await _point(agent))


async def _through(agent: Agent, outcome: LoopOutcome) -> str:
    """Be the person whom the agent waits for, until it has said what it has to say."""
    while outcome.kind in ("suspended", "paused"):
        if (found := outcome.exceeded) is not None:
            outcome = await agent.extend(with_limit(Budget(), found.resource, _ENOUGH_TOKENS))
            continue
        assert outcome.suspended_call_id is not None
        asked = [each.payload for each in await agent.approvals() if each.call_id == outcome.suspended_call_id]
        if asked:
            edited = _EDITED if asked[0]["proposed"] == {"item": SENT["e"]} else None
            outcome = await agent.approve(outcome.suspended_call_id, edited)
        else:
            outcome = await agent.answer(outcome.suspended_call_id, '{"status": "accepted"}')
    assert outcome.kind == "end_turn", outcome
    return outcome.text


async def _point(agent: Agent) -> str:
    """Find where the first job was done."""
    done: list[Block] = [{"type": "text", "text": DONE}]
    return next(message.id for message in await agent.messages() if message.content == done)


def _fork(name: str) -> str:
    return f"{name} another way"


async def _read(agent: Agent, points: Points) -> None:
    async for event in agent.events(after=points.seen):
        points.saw(event)


async def _all_of(
    store: Store, session_id: str
) -> tuple[list[MessageRecord], list[ToolCallRecord], list[HeadRecord], list[Envelope]]:
    """Read what belongs together, though a twin may write between two reads: again, until nothing has changed."""
    read = None
    for _ in range(_READS):
        was, read = read, (
            await store.messages(session_id),
            await store.tool_calls(session_id),
            await store.heads(session_id),
            await store.events(session_id, limit=100_000),
        )  # fmt: skip
        if read == was:
            return read
    raise AssertionError(f"{session_id} changed at each of {_READS} reads")


async def _sound(store: Store, session_id: str, points: Points, before: dict[str, str]) -> None:
    """Tell what is wrong with what a killed process has left, and what is recorded now."""
    history, calls, heads, events = await _all_of(store, session_id)
    history = [message for message in history if not is_summary(message)]
    ledger = {row.id: row for row in calls}
    left = {row.id: row for head in heads for row in head.tool_calls}
    wrong = [*unsound(history, ledger), *await unbalanced(store, session_id)]
    for what in wrong:
        points.tell("invalid", what)
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        points.tell("lost", f"events {[event.seq for event in events]}")
    outcomes = outcomes_of({**left, **ledger})  # what was gone back behind was done all the same
    ends = Counter(str(event.data["callId"]) for event in events if event.type == "tool_end")
    if ends != Counter(list(outcomes)):
        points.tell("lost", f"announced {ends}, recorded {sorted(outcomes)}")
    said = [message.id for message in history if message.role == "assistant"]
    told = Counter(event.cause_id for event in events if event.type == "message")
    if any(count != 1 for count in told.values()) or not set(said) <= told.keys():
        points.tell("lost", f"said {said}, told {told}")
    for call_id, outcome in before.items():
        if outcomes.get(call_id) != outcome:
            points.tell("rewritten", f"{call_id} was {outcome!r}, is {outcomes.get(call_id)!r}")
    points.tell("outcomes", outcomes)


async def _look(job: KernelJob, life: KernelLife, session_id: str, points: Points) -> None:
    store = _store(job, points)
    await store.open()
    await _sound(store, session_id, points, life.outcomes)
    history, calls = await store.messages(session_id), await store.tool_calls(session_id)
    ledger = {row.id: row for row in calls}
    for agent in {message.agent for message in history if not is_summary(message)}:
        if derive([message for message in history if message.agent == agent], ledger) is not Breakpoint.READY:
            points.tell("invalid", f"the job has ended, and the history of {agent} has not")
    approvals = await store.approvals(session_id)
    agreed = {row.call_id for row in approvals if row.status == "approved"}
    asks = [{"item": "b"}, {"item": "e"}]
    ran = {row.id for row in calls if row.name == "charge" and row.input in asks and row.attempt > 0}
    if not ran <= agreed or any(row.status == "pending" for row in approvals):
        points.tell("invalid", f"agreed to {agreed}, ran {ran}, asked {[row.status for row in approvals]}")
    for what in await unpaid(store, session_id):  # all is over, so nothing is on its way
        points.tell("invalid", what)
    if job.wide:
        await _look_wider(job, life, store, session_id, points)
    points.tell("events", [[event.seq, event.id] for event in await store.events(session_id, limit=100_000)])
    await store.close()


async def _look_wider(job: KernelJob, life: KernelLife, store: Store, session_id: str, points: Points) -> None:
    """Tell whether the person was asked for more once, the subagent told once, and the agent put back once.

    And whether each charge is kept as it was proposed and as it was approved, and each summary was told.
    """
    approvals = await store.approvals(session_id)
    if [row.status for row in approvals if row.kind == "budget"] != ["approved"]:
        points.tell("invalid", f"asked for more than the budget: {[(row.kind, row.status) for row in approvals]}")
    crew = list(subagents_among(await store.beads(session_id)).values())
    if [(each.status, each.told) for each in crew] != [("done", True)]:
        points.tell("invalid", f"subagents {[(each.name, each.status, each.told) for each in crew]}")
    for proposed, edited in ({"item": "b"}, None), ({"item": SENT["e"]}, _EDITED):
        answers = [row.answer for row in approvals if row.kind == "tool_call" and row.payload["proposed"] == proposed]
        answer = {"approved": edited or proposed, "edited": edited is not None}
        if not answers or any(each != answer for each in answers):
            points.tell("invalid", f"{proposed} was approved as {answers}")
    if len(heads := await store.heads(session_id)) != 1:
        points.tell("invalid", f"put back {len(heads)} times")
    history = await store.messages(session_id)
    sums = [(message.agent, message.id) for message in history if is_summary(message)]
    told = [event.cause_id for event in await store.events(session_id, limit=100_000) if event.type == "summarized"]
    if {agent for agent, _ in sums} != {stream_of(job.name)} or [each for _, each in sums] != told:
        points.tell("invalid", f"summed up {sums}, told {told}")
    await _look_at_fork(job, life, store, history, points)


async def _look_at_fork(
    job: KernelJob, life: KernelLife, store: Store, history: list[MessageRecord], points: Points
) -> None:
    """Tell what is wrong with the other agent: it has what was said by then, and no more."""
    provider = AnthropicProvider("test-key", base_url=job.model)
    other = _agent(replace(job, name=_fork(job.name)), life, store, provider, points)
    async with other:
        said = [text_of(message) for message in from_records(await other.messages())]
        mine = from_records([message for message in history if message.agent == job.name])
        until = [text_of(message) for message in mine].index(DONE) + 1
        if said != [text_of(message) for message in mine[:until]]:
            points.tell("invalid", f"the other agent was told {said}")
        calls = {row.id: row for row in await other.calls()}
        if any(recorded_result(row) is None for row in calls.values()):
            points.tell("invalid", "the other agent has a call without an outcome")
        pairs_hold(repair(from_records(await other.messages()), calls))
    await provider.close()
