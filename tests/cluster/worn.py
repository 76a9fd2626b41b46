"""Machines that are there and not well, or not wanted any more: what `tests.cluster.cut` has of them.

- ``disk``: the disk of the machine with all the work is filled, once another has joined; later there is room again
- ``behind``, ``ahead``: the machine with all the work, but for the janitor, has a clock that is a minute off
- ``judges-behind``, ``judges-ahead``: those have one that is ten minutes off that judge, the janitor's machine and a
  server, and not the machine with the work, whose link is taken down later
- ``rolling``: see `tests.cluster.rolled`
- ``served``: see `tests.cluster.served`
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import ray
from ray._private.state import state
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from koda_ray.actors.host import RENDERS_PREFIX, SESSION_PREFIX
from koda_ray.actors.leased_job import OVER
from koda_ray.actors.seeing import see_nodes
from koda_ray.render.presence import Presence
from koda_ray.resources import COORDINATOR_SHARE, SESSION_RESOURCE
from koda_ray.state.records import JobRecord, SessionRecord
from tests.cluster import served
from tests.cluster.asking import asked
from tests.cluster.machines import CutMachine
from tests.cluster.rolled import FRONT, VersionServer, upgrade
from tests.cluster.told import numbers
from tests.cluster.work import LARGE, RENDERED_S, World, at_work, comes_true, janitor_answers

OFF_S, JUDGES_OFF_S = 60, 600
"""Judges are off by more than anything is waited for here: who judges by such a clock gives up nothing in that time."""
DISK_MB, ROOM_MB = 512, 64
_MORE = 2  # with the first, as many as the other machine has places for beside the janitor
_SKEWED = Path(__file__).with_name("skewed.c")


@dataclass(frozen=True)
class Wear:
    """How a machine is worn: what starts the first one, and what becomes of the work.

    Attributes:
        first: Starts it.
        lose: Has it worn, and says what was seen.
        dashboard: Whether the head takes what Serve is to run.
        env: What all machines are started with besides.
    """

    first: Callable[[dict[str, str]], CutMachine]
    lose: Callable[[World, CutMachine, dict[str, str]], Awaitable[dict[str, Any]]]
    dashboard: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])


async def fill_disk(world: World, first: CutMachine, env: dict[str, str]) -> dict[str, Any]:
    """Put work on the first machine, have another join, and fill the first one's disk."""
    store = world.store
    async with at_work(world, size=LARGE) as (session, job):
        second = CutMachine.worker(2, env)

        async def joined() -> bool:
            return await asyncio.to_thread(second.is_alive)

        await comes_true(joined, "the second machine joins")
        before, held = await store.get_session(session), await store.get_job(job)
        assert held.status == "running", held.status
        full = await asyncio.to_thread(lambda: first.node)
        await asyncio.to_thread(first.fill)
        began = time.monotonic()

        async def told() -> bool:
            return any(node.id == full and node.unfit == "full" for node in (await see_nodes()).nodes)

        async def render_taken() -> bool:
            row = await store.get_job(job)
            return row.epoch > held.epoch or row.status in OVER

        async def nobody_there() -> bool:
            return not await asyncio.to_thread(_works_on, full)

        told_s, taken_s = await asyncio.gather(
            comes_true(told, "the status says that the disk is full"),
            comes_true(render_taken, "the render is taken elsewhere"),
        )
        await comes_true(nobody_there, "all leave the machine")
        left_s = time.monotonic() - began
        await world.say(session)
        more = [await world.session() for _ in range(_MORE - len(world.working))]
        chosen = await asyncio.to_thread(_works_on, full)
        assert await asyncio.to_thread(first.is_alive), "it was there all the time"
        await comes_true(janitor_answers, "there is a janitor")
        done, after = await world.over(job), await store.get_session(session)
        workers = await world.captured_by(job) if done[0] == "succeeded" else []
        await asyncio.to_thread(first.empty)

        async def has_room() -> bool:
            return not await told() and await Presence().count(SESSION_RESOURCE) == 2

        room_s = await comes_true(has_room, "it is seen that there is room again")
    return {
        **await world.account(),
        "told_s": told_s,
        "render_taken_s": taken_s,
        "left_s": left_s,
        "chosen_while_full": chosen,
        "captured_while_full": sum(map(first.does, workers)),
        "captured_elsewhere": sum(map(second.does, workers)),
        "more_sessions": len(more),
        "room_s": room_s,
        "session_epochs": [before.epoch, after.epoch],
        "events": await numbers(store, session),
        "render": done,
    }


def _works_on(node: str) -> list[str]:
    """Name the sessions and coordinators of renders on a node."""
    return [
        actor["Name"]
        for actor in cast("Any", state).actor_table(None, None, "ALIVE").values()
        if actor["Address"]["NodeID"] == node and actor["Name"].startswith((SESSION_PREFIX, RENDERS_PREFIX))
    ]


def skewed(env: dict[str, str], off_s: int) -> dict[str, str]:
    """Return what a machine is started with whose clock is off."""
    library = Path("/tmp/skewed.so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SKEWED), "-ldl"], check=True)
    return {**env, "LD_PRELOAD": str(library), "KODA_TEST_SKEW_S": str(off_s)}


def skew(off_s: int) -> Callable[[World, CutMachine, dict[str, str]], Awaitable[dict[str, Any]]]:
    """Return what puts work on a machine whose clock is off, beside a janitor and a reader whose clocks are right."""

    async def lose(world: World, first: CutMachine, env: dict[str, str]) -> dict[str, Any]:
        store = world.store

        async def joined() -> bool:
            await asyncio.to_thread(lambda: _take_rest(first.node))
            other = CutMachine.worker(2, skewed(env, off_s))
            await comes_true(lambda: asyncio.to_thread(other.is_alive), "the machine joins")
            others.append(other)
            return True

        others: list[CutMachine] = []
        async with at_work(world, before=joined) as (session, job):
            node = await asyncio.to_thread(lambda: others[0].node)
            there = await asyncio.to_thread(_works_on, node)
            leases: list[float] = []
            epochs: set[tuple[int, int]] = set()

            async def over() -> bool:
                row, work = await store.get_session(session), await store.get_job(job)
                epochs.add((row.epoch, work.epoch))
                # this machine's clock is the database's, too
                for lease in (row.lease_until, work.lease_until):
                    leases.extend([] if lease is None else [(lease - datetime.now(UTC)).total_seconds()])
                return work.status in OVER

            await comes_true(over, "the render is over", within_s=RENDERED_S)
            said_s = await world.say(session)
            done = await world.over(job)
        return {
            **await world.account(),
            "clock_off_s": off_s,
            "works_there": len(there),
            "times_taken": len(epochs),
            "leases_s": [min(leases), max(leases)],
            "lease_s": world.settings.lease_s,
            "said_s": said_s,
            "events": await numbers(store, session),
            "render": done,
        }

    return lose


def skew_judges(off_s: int) -> Callable[[World, CutMachine, dict[str, str]], Awaitable[dict[str, Any]]]:
    """Return what puts work on a machine whose clock is right, for a janitor and a server whose clocks are off.

    First they have no reason to give it up. Then its link is taken down, and they have one.
    """

    async def lose(world: World, first: CutMachine, env: dict[str, str]) -> dict[str, Any]:
        store = world.store
        others: list[CutMachine] = []

        async def join(number: int) -> None:
            others.append(other := CutMachine.worker(number, env))
            await comes_true(lambda: asyncio.to_thread(other.is_alive), "the machine joins")

        async def joined() -> bool:
            await asyncio.to_thread(lambda: _take_rest(first.node))
            await join(2)
            return True

        server = VersionServer(skewed(env, off_s), FRONT)
        await server.version()
        async with at_work(world, before=joined) as (session, job), asked(world, session, server.url) as asks:
            spoken_to = asks.spoken_to

            async def awake() -> bool:
                return (await store.get_session(spoken_to)).host is not None

            await comes_true(awake, "the server has a session awake")
            epochs: set[tuple[int, int, int]] = set()

            async def over() -> bool:
                work = await store.get_job(job)
                rows = [await store.get_session(name) for name in (session, spoken_to)]
                epochs.add((rows[0].epoch, rows[1].epoch, work.epoch))
                return work.status in OVER

            await comes_true(over, "the render is over", within_s=RENDERED_S)
            done = await world.over(job)
            second = await world.render(LARGE)
            await join(3)
            rows = {"session": lambda: store.get_session(spoken_to), "render": lambda: store.get_job(second)}
            held = {name: await row() for name, row in rows.items()}
            units = len(await store.chunks(second))
            await asyncio.to_thread(others[0].cut)
            late_s = await asyncio.gather(*(_given_up(held[name].epoch, row) for name, row in rows.items()))
            await comes_true(lambda: world.has_more(second, units), "the render has one unit more")
        return {
            **asks.seen,
            **await world.account(),
            "clock_off_s": off_s,
            "times_taken": len(epochs),
            "given_up_s": dict(zip(rows, late_s, strict=True)),
            "render": done,
        }

    return lose


async def _given_up(epoch: int, read: Callable[[], Awaitable[SessionRecord | JobRecord]]) -> float:
    """Wait until somebody else takes something; return how long its last lease was over by then, in seconds."""
    lease = [datetime.now(UTC)]

    async def taken() -> bool:
        row = await read()
        if row.epoch == epoch and row.lease_until is not None:
            lease[:] = [row.lease_until]
        return row.epoch > epoch

    await comes_true(taken, "somebody else takes it")
    return (datetime.now(UTC) - lease[0]).total_seconds()  # this machine's clock is the database's, too


def _for_the_janitor(env: dict[str, str]) -> CutMachine:
    """Start a machine that renders nothing; Ray has no machine offer a part of a place."""
    return CutMachine.worker(1, env, offers={SESSION_RESOURCE: 1})


def _take_rest(node: str) -> None:
    """Leave room for nothing on a machine with one place, on which the janitor is."""

    class Taken:
        def is_there(self) -> bool:
            return True

    there = cast("Any", NodeAffinitySchedulingStrategy)(node_id=node, soft=False)
    options = {"num_cpus": 0, "resources": {SESSION_RESOURCE: 1 - COORDINATOR_SHARE}, "scheduling_strategy": there}
    taken = cast("Any", ray.remote(**options)(Taken)).options(name="taken", lifetime="detached").remote()
    assert ray.get(taken.is_there.remote())


def _small(env: dict[str, str]) -> CutMachine:
    env["KODA_NODE_ROOM_MB"] = os.environ["KODA_NODE_ROOM_MB"] = str(ROOM_MB)  # this process's settings go to others
    return CutMachine.worker(1, env, disk_mb=DISK_MB)


WORN = {
    "rolling": Wear(lambda env: CutMachine.worker(1, env), upgrade),
    "served": Wear(lambda env: CutMachine.worker(1, env), served.serve_both, dashboard=True, env=served.ENV),
    "disk": Wear(_small, fill_disk),
    "behind": Wear(_for_the_janitor, skew(-OFF_S)),
    "ahead": Wear(_for_the_janitor, skew(OFF_S)),
    "judges-behind": Wear(lambda env: _for_the_janitor(skewed(env, -JUDGES_OFF_S)), skew_judges(-JUDGES_OFF_S)),
    "judges-ahead": Wear(lambda env: _for_the_janitor(skewed(env, JUDGES_OFF_S)), skew_judges(JUDGES_OFF_S)),
}
"""Each by its name."""
