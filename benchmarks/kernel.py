"""The agents' kernel by itself, without a model: what a step costs, how much one process holds, how fast it comes back.

    python -m benchmarks.kernel [--quick] [--check] --json FILE

On SQLite, every commit synced. A step is a model's answer with one tool call, the call, and its result: three commits.
Keys: ``step_overhead_ms`` (median; the model answers at once and the tool does nothing), ``events_per_s`` (appended one
commit after the other, ten in each; ``events_alone_per_s`` has one in each, and ``sqlite_commits_per_s`` is what SQLite
itself does on the same disk, a row by a statement: the limit of the latter), ``agents_100_mb`` (the most that a process
ever holds, all of Python and Claude's SDK in it, in which a hundred agents of a pool are in the middle of a call at the
same time), ``resume_2000_ms`` (open an agent with 2,000 messages, half of them results of calls in the ledger, and be
ready to ask the model) and ``replay_10000_ms`` (read 10,000 events in order). ``cached_share`` is of all prompts of a
long session: what a server with the API's own cache rules counts as read from its cache, old turns being summed up
meanwhile.
``bars`` says of each figure that has one which bar it is measured by, and whether it holds; ``--check`` ends with 1
where one does not. Timings are those of the machine as it is: run it where nothing else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from koda_ray.agent.alone import Agent
from koda_ray.agent.functions import tool
from koda_ray.agent.hooks import Hook, Stop
from koda_ray.agent.limits import Limits
from koda_ray.agent.pool import AgentPool, PoolBounds
from koda_ray.agent.runtime import Runtime
from koda_ray.agent.spec import Policy
from koda_ray.events import Envelope, NewEvent
from koda_ray.llm.base import Completed, Message, ModelEvent, ModelRequest
from koda_ray.state.records import Batch, MessageRecord, SessionRecord, ToolCallRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.stream import follow
from koda_ray.types import now

__all__ = ["LEAST", "MOST", "bars", "lines", "main"]

AGENTS = 100
MESSAGES = 2000
EVENTS = 10_000
PER_COMMIT = 10
MOST = {"step_overhead_ms": 10.0, "agents_100_mb": 250.0, "resume_2000_ms": 300.0, "replay_10000_ms": 500.0}
"""What a quiet machine of two cores is under."""
LEAST = {"events_per_s": 5000.0, "cached_share": 0.9}
"""What it reaches."""
_KB_PER_MB = 1024


@tool(effect="idempotent")
async def touch(number: int) -> str:
    """Do nothing."""
    return str(number)


class Ready:
    """A model that has its answer ready: a call for each step, then a word."""

    name = "ready"

    def __init__(self, steps: int) -> None:
        self._left = steps
        self._steps = steps

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer at once."""
        self._left -= 1
        if self._left < 0:
            self._left = self._steps
            yield Completed(message=_words("Done."), stop_reason="end_turn")
            return
        block: Any = {"type": "tool_use", "id": "1", "name": "touch", "input": {"number": self._left}}
        yield Completed(message=Message(role="assistant", content=(block,)), stop_reason="tool_use")

    async def close(self) -> None:
        """Nothing to release."""


def _words(text: str) -> Message:
    return Message(role="assistant", content=({"type": "text", "text": text},))


async def step_overhead_ms(folder: Path, steps: int) -> float:
    """Time steps one by one, from the second on."""
    moments: list[float] = []

    async def note(_request: ModelRequest) -> None:
        moments.append(time.perf_counter())

    runtime = Runtime(provider=Ready(steps), store=folder / "steps.db")
    policy = Policy(limits=Limits(turns=steps + 1, tool_calls=steps), hooks=[Hook(name="clock", before_model=note)])
    async with Agent("steps", [touch], runtime=runtime, policy=policy) as agent:
        await agent.run("Go.")
    return statistics.median((after - before) * 1000 for before, after in pairwise(moments[1:]))


async def events_per_s(folder: Path, count: int, *, per_commit: int) -> tuple[float, float]:
    """Append events and read them again; return how many a second, and milliseconds to read them."""
    store = SqlStore(folder / f"events{per_commit}.db")
    await store.open()
    async with Agent("events", runtime=Runtime(provider=Ready(0), store=store)) as agent:
        row = await store.get_session(agent.id)
        begun = time.perf_counter()
        for _ in range(count // per_commit):
            events = [NewEvent(type="thinking", data={"text": "x" * 80}) for _ in range(per_commit)]
            await store.commit(agent.id, row.epoch, Batch(events=events))
        took = time.perf_counter() - begun
        begun, seen = time.perf_counter(), 0
        async for event in follow(store, agent.id, until=lambda event: event.seq > count):
            seen += isinstance(event, Envelope)
        replayed = time.perf_counter() - begun
    await store.close()
    if seen != count + 1:  # and the one of its making
        raise SystemExit(f"{seen} of {count + 1} events were read")
    return count / took, replayed * 1000


def sqlite_commits_per_s(path: Path, count: int) -> float:
    """Insert rows of an event's size with nothing around SQLite, each synced; return how many a second."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, data TEXT)")
        begun = time.perf_counter()
        for number in range(count):
            database.execute("INSERT INTO events VALUES (?, ?)", (number, "x" * 200))
        return count / (time.perf_counter() - begun)


def agents_mb(folder: Path, count: int) -> float:
    """Have as many agents in one new process, and see what it holds at most."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_hold_agents, folder / "agents.db", count).result()


def _hold_agents(path: Path, count: int) -> float:
    from anthropic import AsyncAnthropic

    _ = AsyncAnthropic(api_key="unused").messages  # its parts are imported when they are first asked for
    asyncio.run(_run_agents(path, count))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KB_PER_MB


async def _run_agents(path: Path, count: int) -> None:
    """Have a pool bring agents in and do a few steps with each; in each step all wait for all others."""
    all_there = asyncio.Barrier(count)

    @tool(name="touch", effect="idempotent")
    async def meet(number: int) -> str:
        """Wait for the others."""
        async with asyncio.timeout(60):
            await all_there.wait()
        return str(number)

    store = SqlStore(path)
    await store.open()
    models = {f"agent {number}": Ready(3) for number in range(count)}

    def make(name: str, runtime: Runtime) -> Agent:
        return Agent(name, [meet], runtime=replace(runtime, provider=models[name]))

    bounds = PoolBounds(open=count, running=count, idle_s=600)
    async with AgentPool(make, runtime=Runtime(store=store), bounds=bounds) as pool:
        done = await asyncio.gather(*(pool.ask(name, "Go.") for name in models))
        if any(outcome.text != "Done." for outcome in done) or len(pool.status.idle) != count:
            raise SystemExit("not every agent came to its end and stayed")
    await store.close()


async def resume_ms(folder: Path, messages: int) -> float:
    """Open an agent with a long history, up to the moment when the model would be asked."""
    store = SqlStore(folder / "resume.db")
    await store.open()
    async with Agent("long", runtime=Runtime(provider=Ready(0), store=store)) as agent:
        row = await store.get_session(agent.id)
        for start in range(1, messages, 500):
            await store.commit(agent.id, row.epoch, _history(row, range(start, min(start + 500, messages))))
    times: list[float] = []

    async def asked(_request: ModelRequest) -> Stop:
        times.append(time.perf_counter())
        return Stop("measured")

    taken: list[float] = []
    for _ in range(5):
        begun = time.perf_counter()
        async with Agent(
            "long",
            runtime=Runtime(provider=Ready(0), store=store),
            policy=Policy(hooks=[Hook(name="clock", before_model=asked)]),
        ) as agent:
            await agent.run()
        taken.append((times[-1] - begun) * 1000)
    await store.close()
    return statistics.median(taken)


def _history(row: SessionRecord, positions: range) -> Batch:
    """Make messages, in turn a call and its result, with the calls' rows."""
    batch = Batch()
    for position in positions:
        call_id, is_call = f"cal_{(position + 1) // 2}", position % 2 == 1
        words = f"Message {position}. " + "Words of usual length. " * 12
        block: Any = (
            {"type": "tool_use", "id": call_id, "name": "touch", "input": {"number": position, "why": words}}
            if is_call
            else {"type": "tool_result", "tool_use_id": call_id, "content": words, "is_error": False}
        )
        message = MessageRecord(
            id=f"msg_{position}", session_id=row.id, user_id=row.user_id, agent="long", position=position,
            role="assistant" if is_call else "user", content=[block], created_at=now(),
        )  # fmt: skip
        batch.messages.append(message)
        if is_call:
            call = ToolCallRecord(
                id=call_id, session_id=row.id, user_id=row.user_id, message_id=message.id, name="touch",
                input=block["input"], effect="idempotent", status="succeeded", attempt=1,
                result={"content": words, "isError": False}, started_at=now(), ended_at=now(),
            )  # fmt: skip
            batch.tool_calls.append(call)
    return batch


async def cached(folder: Path, turns: int) -> float:
    """Go through a long session and say which part of its prompts was read from the cache."""
    from koda_ray.llm.anthropic import AnthropicProvider
    from tests.agent.long_session import LongSession, cached_share
    from tests.llm.server import ModelServer, ScriptedModel

    session = LongSession()
    with ModelServer(ScriptedModel(session.respond)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        async with session.agent(provider, folder / "cached.db", context_tokens=14_000) as agent:
            for turn in range(turns):
                await session.say(agent, turn)
        await provider.close()
    return cached_share(server.requests)


async def measure(*, quick: bool) -> dict[str, float]:
    """Take all figures."""
    with tempfile.TemporaryDirectory(prefix="koda-bench-kernel-") as name:
        folder = Path(name)
        held = await asyncio.to_thread(agents_mb, folder, AGENTS)
        rate, replayed = await events_per_s(folder, EVENTS, per_commit=PER_COMMIT)
        alone, _ = await events_per_s(folder, 300 if quick else 1000, per_commit=1)
        raw = await asyncio.to_thread(sqlite_commits_per_s, folder / "raw.db", 300 if quick else 1000)
        return {
            "step_overhead_ms": await step_overhead_ms(folder, 60 if quick else 300),
            "events_per_s": rate,
            "events_alone_per_s": alone,
            "sqlite_commits_per_s": raw,
            "agents_100_mb": held,
            "resume_2000_ms": await resume_ms(folder, MESSAGES),
            "replay_10000_ms": replayed,
            "cached_share": await cached(folder, 20 if quick else 60),
        }


def bars(figures: Mapping[str, float]) -> dict[str, dict[str, float | bool]]:
    """Say of each figure that has a bar whether it holds: below the most, or no less than the least."""
    below = {name: {"bar": most, "holds": figures[name] < most} for name, most in MOST.items() if name in figures}
    above = {name: {"bar": least, "holds": figures[name] >= least} for name, least in LEAST.items() if name in figures}
    return {**below, **above}


def lines(figures: Mapping[str, float]) -> list[str]:
    """Say each figure in a line, with its bar where it has one."""
    found, said = bars(figures), list[str]()
    for name, value in figures.items():
        bar = found.get(name)
        word = "under" if name in MOST else "at least"
        held = "" if bar is None else f"  {word} {bar['bar']:g}: {'holds' if bar['holds'] else 'MISSED'}"
        said.append(f"{name:>20} {value:10g}{held}")
    return said


def main() -> None:
    """Run the benchmark and write its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel", description="Time the agents' kernel.")
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--check", action="store_true", help="end with 1 where a bar is missed")
    parser.add_argument("--json", type=Path, required=True, help="where to write the figures")
    given = parser.parse_args()
    figures = {name: round(value, 3) for name, value in asyncio.run(measure(quick=given.quick)).items()}
    found = bars(figures)
    given.json.write_text(json.dumps({**figures, "bars": found}, indent=1) + "\n")
    for line in lines(figures):
        print(line)
    if given.check and not all(bar["holds"] for bar in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
