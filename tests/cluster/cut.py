"""Something of a cluster is lost: ``python -m tests.cluster.cut LOSS [TIMES [agents]]``, in name spaces of its own.

The head and the nodes have a network each, on one bridge, with PostgreSQL and SeaweedFS behind it. This process is
on a node of its own, which no work is put on; all work is on the first. What is lost, with a session awake and a render
under way:

- ``link``: a second node joins, then the first one's link is taken down: nothing is closed, nobody is told, and what it
  runs goes on running without a way to anybody; once others have the work, the link is taken up again, with all of it
- ``machine``: as that, but everything on the first node is killed
- ``spot``: as that, but its cloud gives notice first: `NOTICE_S`, and takes it away once all have left
- ``head``: all of the head is killed, is away for `AWAY_S`, and is started again with what it had written down
- ``head-redis``: as that, but it writes to Redis, which is killed with it the last time, and is there again before it
- ``database``: all processes of PostgreSQL are killed, it is away for `AWAY_S`, and recovers
- ``bucket``: SeaweedFS, which serves it, is killed with uploads under way, is away for as long, and has what it had
- ``database-silent``, ``bucket-silent``: what it is sent, and what it sends, is dropped for `SILENT_S`, and nobody is
  told; a server is asked meanwhile for what is there
- ``process``: processes are killed, of the session, of the render's coordinator, of captures, in turns
- ``disk``, ``behind``, ``ahead``, ``rolling`` and others: see `tests.cluster.worn`

With ``agents`` those of another session work meanwhile (`tests.cluster.agents`), which takes longer, and the figures
are of a machine that is busier. What became of the work, and when, is printed as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from typing import Any, Literal, cast

import psutil
import ray
from ray._private.state import state

from koda_ray.actors.host import NAMESPACE, RENDERS_PREFIX, SESSION_PREFIX, session_name
from koda_ray.actors.leased_job import OVER
from koda_ray.config import Settings
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE
from koda_ray.state.stores import store_from
from koda_ray.types import new_id, now
from tests import postgres, redis_server, seaweed
from tests.cluster.agents import model_door, reach_model, serve_model
from tests.cluster.asking import KEY, asked
from tests.cluster.machines import (
    BUCKET,
    HEAD,
    HERE,
    NETWORK,
    NOTICE,
    PORT,
    RAY_START,
    SANDBOXES,
    CutMachine,
    Door,
    network,
    reach,
    start,
)  # fmt: skip
from tests.cluster.tables import tables
from tests.cluster.told import numbers
from tests.cluster.work import USER, NotInTimeError, World, at_work, comes_true, janitor_answers
from tests.cluster.worn import WORN
from tests.redis_server import Redis
from tests.silence import fall_silent, speak_again

AWAY_S, SHORT_S, SILENT_S = 10.0, 3.0, 30.0
KINDS = {"session": "ray::_SessionHost", "coordinator": "ray::_CoordinatorHost", "capture": "ray::_capture"}
"""How the processes of a session, of renders' coordinators and of captures are called."""
_STAY = (KINDS["session"], KINDS["coordinator"], "ray::_JanitorHost")
"""Those that would work on for as long as nothing ends them."""
_TURNS, _THERE_S = 2, 20.0
_SAID = 3
_MOST_JOBS, _AT_REST_S = 500, 600.0
_ASKED_AWAY = 50
"""How many commands are asked while the head is away, at least."""
_OFFERS: dict[str, dict[str, float]] = {
    loss: {SESSION_RESOURCE: 24, CHROMIUM_RESOURCE: 1} for loss in ("head", "head-redis")
}
"""What the first machine has more of than others: with the head away, sessions are made."""
_LONGER = {"rolling": 4.0}
"""Of what takes so long to be lost that agents would be done before, how many times as long they are at work."""
NOTICE_S = 120.0
_WATCHED_S = 15.0


async def lose_one(
    world: World, first: CutMachine, join: Callable[[], CutMachine], *, comes_back: bool
) -> dict[str, Any]:
    """Put work on the first machine, have another join, and lose the first one.

    Args:
        world: Where.
        first: All the work is on it.
        join: Starts the other.
        comes_back: Whether it is cut off, and is there again while what it had goes on elsewhere; else it is killed.
    """
    store = world.store
    async with at_work(world) as (session, job):
        second = join()

        async def joined() -> bool:
            return await asyncio.to_thread(second.is_alive)

        await comes_true(joined, "the second machine joins")
        before, held = await store.get_session(session), await store.get_job(job)
        assert held.status == "running", held.status
        units = len(await store.chunks(job))
        had = await asyncio.to_thread(first.processes, _STAY)
        await asyncio.to_thread(first.cut if comes_back else first.kill)
        began = time.monotonic()

        async def render_taken() -> bool:
            return (await store.get_job(job)).epoch > held.epoch

        async def render_goes_on() -> bool:
            return (await store.get_job(job)).epoch > held.epoch and await world.has_more(job, units)

        back = await asyncio.gather(
            world.say(session),
            comes_true(render_taken, "the render is taken"),
            comes_true(janitor_answers, "there is a janitor"),
        )
        still_alive = await asyncio.to_thread(first.is_alive)
        taken = await store.get_session(session)
        waited_s = time.monotonic() - began
        going_on = asyncio.create_task(comes_true(render_goes_on, "the render has one unit more"))
        back_again = await come_back(world, first, session, had) if comes_back else {}
        next_unit_s = waited_s + await going_on
        done, after = await world.over(job), await store.get_session(session)
    return {
        **back_again,
        **await world.account(),
        "session_s": back[0],
        "render_taken_s": back[1],
        "janitor_s": back[2],
        "render_unit_s": next_unit_s,
        "ray_took_it_for_alive": still_alive,
        "session_epochs": [before.epoch, after.epoch],
        "same_host_since": after.host == taken.host,
        "events": await numbers(store, session),
        "render": done,
    }


async def come_back(world: World, first: CutMachine, session: str, had: Sequence[psutil.Process]) -> dict[str, Any]:
    """Give a machine its link again, with what it ran still running, and speak to its session meanwhile.

    Args:
        world: Where.
        first: The machine.
        session: What was on it, and is elsewhere by now.
        had: Its processes that do not end by themselves; all are to end now.
    """
    still = [process for process in had if _lives(process)]
    await asyncio.to_thread(first.mend)

    async def ended() -> bool:
        return not any(map(_lives, had))

    async def say() -> None:
        for _ in range(_SAID):
            await world.say(session)

    ended_s, _ = await asyncio.gather(comes_true(ended, "what ran on the machine that is back ends"), say())
    await world.say(session)
    janitor_s = await comes_true(janitor_answers, "there is a janitor, still")
    return {"ran_on": len(still), "ended_s": ended_s, "janitor_again_s": janitor_s}


def _lives(process: psutil.Process) -> bool:
    """Whether a process runs; one whose parent is gone stays a zombie here."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def move_one(world: World, first: CutMachine, join: Callable[[], CutMachine]) -> dict[str, Any]:
    """Put work on the first machine, have another join, and give the first one notice."""
    store = world.store
    first.await_notice()
    placed = asyncio.create_task(placed_last(first))
    async with at_work(world) as (session, job):
        second = join()

        async def joined() -> bool:
            return await asyncio.to_thread(second.is_alive)

        await comes_true(joined, "the second machine joins")
        held = await store.get_job(job)
        assert held.status == "running", held.status
        give_notice()
        began = time.monotonic()

        async def session_left() -> bool:
            return (await store.get_session(session)).host is None

        async def render_taken() -> bool:
            return (await store.get_job(job)).epoch > held.epoch

        left_s, taken_s = await asyncio.gather(
            comes_true(session_left, "the session leaves"), comes_true(render_taken, "the render is taken")
        )
        await world.say(session)
        moved_s = time.monotonic() - began
        # the machine may be gone by now, since nothing is left on it: that they left in good order, their epochs say
        janitor_s = await comes_true(janitor_answers, "there is a janitor")
        no_new_work_s = await placed
        await asyncio.to_thread(first.kill)
        done, row = await world.over(job), await store.get_session(session)
    return {
        **await world.account(),
        "no_new_work_s": no_new_work_s,
        "session_left_s": left_s,
        "render_taken_s": taken_s,
        "moved_s": moved_s,
        "janitor_s": janitor_s,
        "session_epoch": row.epoch,
        "events": await numbers(store, session),
        "render": done,
    }


def give_notice() -> None:
    """Tell a machine that it is taken away."""
    written = NOTICE.with_suffix(".new")
    written.write_text((now() + timedelta(seconds=NOTICE_S)).isoformat())
    written.rename(NOTICE)


async def placed_last(machine: CutMachine) -> float:
    """Put small work on all machines; return when the last of it began on one, in seconds after its notice."""

    def begin() -> tuple[str, float]:
        return str(ray.get_runtime_context().get_node_id()), time.time()

    function = ray.remote(num_cpus=0, resources={SESSION_RESOURCE: 0.001}, scheduling_strategy="SPREAD")(begin)
    node = await asyncio.to_thread(lambda: machine.node)
    begun: list[Any] = []
    while not NOTICE.exists() or time.time() < NOTICE.stat().st_mtime + _WATCHED_S:
        begun.append(function.remote())
        await asyncio.sleep(0.1)
    places = [await place for place in begun]
    assert {there == node for there, _ in places} == {True, False}, "both machines had some"
    return max(at for there, at in places if there == node) - NOTICE.stat().st_mtime


async def lose_head(world: World, head: CutMachine, times: int, redis: Redis | None = None) -> dict[str, Any]:
    """Put work on the machine, have a session sleep, and take the head away for a while, with a server asked meanwhile.

    Further times it is taken away before, each time once it is there, with commands of all kinds asked meanwhile: what
    these make is work for all. The last time nothing more is made, once they are answered and renders are over.

    Args:
        world: Where.
        head: What is lost.
        times: How often.
        redis: Where the head writes, if so: that is lost with it the last time.
    """
    store = world.store
    async with at_work(world) as (session, job), asked(world, session, commands="all") as asking:
        for _ in range(times - 1):
            with asking.away():
                await asyncio.to_thread(head.crash)
                await asyncio.sleep(SHORT_S)
                await asyncio.to_thread(head.recover)
            await world.say(session)
            # not only that it listens: Ray's clients wait longer from try to try, and count as one absence all that
            # lies between two answers; who got none for a minute is ended
            await asyncio.to_thread(ray.nodes)
            if (await store.get_job(job)).status in OVER:
                job = await world.render()

        async def at_rest() -> bool:
            rows = await store.list_jobs(user_id=USER, limit=_MOST_JOBS)
            return not asking.unanswered and all(row.status in OVER for row in rows if row.id != job)

        await comes_true(at_rest, "what was asked is answered, and other renders are over", within_s=_AT_REST_S)
        if (await store.get_job(job)).status in OVER:
            job = await world.render()
        sleeper = await world.asleep()
        units = len(await store.chunks(job))
        row = await store.get_session(session)
        name = session_name(session, row.activation)
        known = (await asyncio.to_thread(_actors))[name]

        async def asked_enough() -> bool:
            return asking.commands_away >= _ASKED_AWAY

        with asking.away(all_kinds=False):
            await asyncio.to_thread(head.crash)
            began = time.monotonic()
            if redis is not None:
                await asyncio.to_thread(redis.crash)
            said = {each: await asyncio.create_task(world.submit(each, new_id("cmd"))) for each in (session, sleeper)}
            await asyncio.sleep(max(0.0, began + AWAY_S - time.monotonic()))
            await comes_true(asked_enough, "so many commands are answered with the head away")
            if redis is not None:
                await asyncio.to_thread(redis.start)
            await asyncio.to_thread(head.recover)

        async def awake() -> bool:
            return not await store.inbox(sleeper)

        async def render_goes_on() -> bool:
            return await world.has_more(job, units)

        async def knows() -> bool:
            return (await asyncio.to_thread(_actors)).get(name) == known

        head_s, woken_s, unit_s = await asyncio.gather(
            comes_true(_head_is_there, "the head is back"),
            comes_true(awake, "the session that slept takes what was said"),
            comes_true(render_goes_on, "the render has one unit more"),
        )
        await comes_true(knows, "the head knows the session's actor, which is the one that it was")
        done = await world.over(job)
        after = await store.get_session(session)
    return {
        "redis_keys": 0 if redis is None else await asyncio.to_thread(redis.keys),
        "session_epochs": [row.epoch, after.epoch],
        **asking.seen,
        **await world.account(),
        "awake_waited": said[session],
        "asleep_waited": said[sleeper],
        "woken_s": woken_s - head_s,
        "render_unit_s": unit_s,
        "events": {name: await numbers(store, name) for name in (session, sleeper)},
        "render": done,
    }


def _actors() -> dict[str, str]:
    """Return Ray's ids of the actors of sessions and coordinators that the head takes for alive, by their names."""
    return {
        row["Name"]: row["ActorID"]
        for row in cast("Any", state).actor_table(None, None, "ALIVE").values()
        if row["Name"].startswith((SESSION_PREFIX, RENDERS_PREFIX))
    }


async def _head_is_there() -> bool:
    """Whether it takes connections."""
    try:
        _, writer = await asyncio.open_connection(HEAD, PORT)
    except OSError:
        return False
    writer.close()
    return True


async def lose_for_a_while(
    world: World,
    lose: Callable[[], Awaitable[object]],
    bring: Callable[[], Awaitable[object]],
    times: int,
    *,
    away_s: float = AWAY_S,
    reads: Literal["session", "file"] | None = None,
) -> dict[str, Any]:
    """Put work on the machine, and take away for a while what keeps its results; further times for moments, before.

    Args:
        world: Where.
        lose: Takes it away.
        bring: Has it be there again.
        times: How often.
        away_s: How long it is away, the last time.
        reads: What a server is asked for meanwhile; nothing when None.
    """
    store = world.store
    async with at_work(world) as (session, job), AsyncExitStack() as stack:
        asking = None
        if reads is not None:
            asking = await stack.enter_async_context(asked(world, session, reads=reads, commands="none"))
        for _ in range(times - 1):
            await lose()
            await asyncio.sleep(SHORT_S)
            await bring()
            await world.say(session)
            if (await store.get_job(job)).status in OVER:
                job = await world.render()
        units = len(await store.chunks(job))
        await lose()
        await asyncio.sleep(away_s)
        await bring()

        async def render_goes_on() -> bool:
            return await world.has_more(job, units)

        back = await asyncio.gather(world.say(session), comes_true(render_goes_on, "the render has one unit more"))
        done = await world.over(job)
    return {
        **(asking.seen if asking is not None else {}),
        **await world.account(),
        "session_s": back[0],
        "render_unit_s": back[1],
        "events": await numbers(store, session),
        "render": done,
    }


async def kill_processes(world: World, times: int) -> dict[str, Any]:
    """Put work on the machine, and kill in turns the session's process, the coordinator's, and one that captures.

    Args:
        world: Where.
        times: How often each.
    """
    store = world.store
    killed: list[str] = []
    async with at_work(world) as (session, job):
        for number in range(_TURNS * times * len(KINDS)):  # now and then none is there in its turn
            kind = [*KINDS][number % len(KINDS)]
            if killed.count(kind) >= times:
                continue
            found = await asyncio.to_thread(_find, KINDS[kind])
            speaking = asyncio.create_task(world.say(session))  # what is on its way is in danger as well
            await asyncio.sleep(number % 4 * 0.05)
            killed += [kind] * _kill(found)
            await speaking
            if (await store.get_job(job)).status in OVER:
                job = await world.render()
        done = await world.over(job)
    return {**await world.account(), "killed": killed, "render": done}


def _find(title: str) -> psutil.Process | None:
    """Return a process of Ray's by what it works on; where there is none for long, None."""
    until = time.monotonic() + _THERE_S
    while time.monotonic() < until:
        for process in psutil.process_iter(["cmdline"]):
            if (process.info["cmdline"] or [""])[0].startswith(title):
                return process
        time.sleep(0.05)
    return None


def _kill(process: psutil.Process | None) -> bool:
    """Kill a process; return whether it was there."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if process is not None:
            process.kill()
            return True
    return False


async def main(loss: str, times: str = "1", more: str = "") -> None:
    """Start it all, lose something, and print what was seen; it ends with this process.

    Args:
        loss: What.
        times: How often, where it comes back; of processes, each kind so often.
        more: ``agents`` where some are to be at work.
    """
    network()
    redis: Redis | None = None
    with ExitStack() as stack:
        server = stack.enter_context(postgres.serve(HERE, NETWORK))
        bucket = stack.enter_context(seaweed.serve())
        model = stack.enter_context(serve_model(longer=_LONGER.get(loss, 1.0)))
        if loss == "head-redis":
            redis = stack.enter_context(redis_server.serve(HERE))
        door = Door(BUCKET, lambda: asyncio.open_connection("127.0.0.1", bucket.port))
        for each in (door, model_door(model)):
            await each.open()
        os.environ |= {
            "DATABASE_PROVIDER": "postgres",
            "DATABASE_URL": server.url_at(HERE, server.create()),
            **reach(bucket),
            **(reach_model() if more == "agents" else {}),
            "SANDBOX_PATH": SANDBOXES,
            "KODA_API_KEYS": f"{USER}={KEY}",
            "KODA_SIGNING_KEY": KEY,
            "KODA_JANITOR_S": "0.5",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
            **(WORN[loss].env if loss in WORN else {}),
            # as the image has it: else a worker that waits for a second for its next unit ends, and its browser with it
            "RAY_idle_worker_killing_time_threshold_ms": "20000",
            "RAY_worker_niceness": "0",  # as ready to work as whatever else this machine does, which is none of it
        }
        env = dict(os.environ)
        head = CutMachine.head(
            env, keeps="disk" if redis is None else "redis", dashboard=loss in WORN and WORN[loss].dashboard
        )
        first = WORN[loss].first(env) if loss in WORN else CutMachine.worker(1, env, offers=_OFFERS.get(loss))
        own = [f"--address={HEAD}:{PORT}", "--num-cpus=0", f"--node-ip-address={HERE}"]
        start([*RAY_START, *own], env, "here")

        async def connected() -> bool:
            with contextlib.suppress(ConnectionError, RuntimeError):
                await asyncio.to_thread(
                    lambda: ray.init(
                        address=f"{HEAD}:{PORT}", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR",
                        _node_ip_address=HERE,
                    )
                )  # fmt: skip
                return True
            return False

        await comes_true(connected, "the head is there")

        async def there() -> bool:
            return await asyncio.to_thread(first.is_alive)

        await comes_true(there, "the first machine joins")
        settings = Settings()
        store = store_from(settings, processes="many")
        await store.open()
        await store.ensure_user(USER)
        await store.ensure_project(f"prj-{USER}", USER, USER)
        world = World(settings, store, model if more == "agents" else None)
        try:
            match loss:
                case "link":
                    seen = await lose_one(world, first, lambda: CutMachine.worker(2, env), comes_back=True)
                case "machine":
                    seen = await lose_one(world, first, lambda: CutMachine.worker(2, env), comes_back=False)
                case "spot":
                    seen = await move_one(world, first, lambda: CutMachine.worker(2, env))
                case "head" | "head-redis":
                    seen = await lose_head(world, head, int(times), redis)
                case "database" | "bucket":
                    kept = server if loss == "database" else bucket
                    crash, start_again = (functools.partial(asyncio.to_thread, do) for do in (kept.crash, kept.start))
                    seen = await lose_for_a_while(world, crash, start_again, int(times))
                case "database-silent" | "bucket-silent":
                    port, reads = (postgres.PORT, "session") if loss == "database-silent" else (BUCKET, "file")
                    hush, let = (functools.partial(asyncio.to_thread, do, port) for do in (fall_silent, speak_again))
                    seen = await lose_for_a_while(world, hush, let, int(times), away_s=SILENT_S, reads=reads)
                case "process":
                    seen = await kill_processes(world, int(times))
                case _ if loss in WORN:
                    seen = await WORN[loss].lose(world, first, env)
                case _:
                    raise SystemExit(f"no loss: {loss}")
        except NotInTimeError as error:
            sys.stderr.write(f"{await tables(store, world.sessions)}\n{error}\n")
            sys.stderr.flush()
            os._exit(1)
        sys.stdout.write(json.dumps(seen) + "\n")
        sys.stdout.flush()
        os._exit(0)  # and all that it started with it


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
