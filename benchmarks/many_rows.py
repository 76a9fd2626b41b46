"""What questions about ten thousand sessions take: a part of ``benchmarks.cluster``.

Over PostgreSQL where that is here, as on a cluster, else SQLite; both with what syncing costs left out.

- ``sessions_10000_list_p95_ms``: a page of a user's list of sessions, over HTTP, of 10,000
- ``janitor_round_ms``: all that the janitor asks in a round, at 10,000 sessions and as many renders, a tenth of which
  are at work: its look for owed work, and its clearing, once a minute (what is to be removed, old events, charges that
  nobody goes on with, the count of all), without machines and storage; median. ``janitor_look_ms`` is the look alone,
  which it has twice a second
- ``census_10000_ms``, ``metrics_10000_ms``: what `koda cluster status` and a scrape ask beside that; medians
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx
from sqlalchemy import Connection, Table, insert, select

from koda_ray.actors.janitor import Chores, Janitor
from koda_ray.actors.reaper import Reaped, Reaper
from koda_ray.state import schema
from koda_ray.state.records import JobRecord
from koda_ray.state.sql import SqlStore
from koda_ray.types import new_id, now
from tests import postgres
from tests.serve.world import world
from tests.state import records

__all__ = ["figures"]

USER, KEY, ROWS, AT_WORK = "ada", "a" * 32, 10_000, 10
"""Of ``AT_WORK`` rows one is at work."""
ASKED = 200
_LEASE = timedelta(hours=1)
_PART = 1_000
_HEADERS = {"Authorization": f"Bearer {KEY}"}


async def figures(*, asked: int = ASKED, rows: int = ROWS) -> dict[str, float]:
    """Measure; see this module's words for the keys.

    Args:
        asked: How often each question is asked.
        rows: How many sessions there are, and renders.
    """
    with tempfile.TemporaryDirectory(prefix="koda-bench-rows-") as folder, _database() as database:
        settings: dict[str, Any] = {"KODA_API_KEYS": f"{USER}={KEY}", **database}
        async with world(Path(folder), **settings) as koda:
            await _fill(koda.store, rows)
            async with httpx.AsyncClient(base_url=koda.url, headers=_HEADERS, trust_env=False) as http:
                listed = await _timed(asked, lambda: _list(http))
            chores, nothing_to_clear = Chores(wake=_nothing, finish=_nothing), cast("Reaper", _Idle())
            janitor = Janitor(store=koda.store, chores=chores, reaper=nothing_to_clear, settings=koda.settings)
            look = await _timed(asked, janitor.wake_owed)
            whole = await _timed(max(3, asked // 4), lambda: _round(janitor))
            census = await _timed(max(3, asked // 10), lambda: koda.store.census(now()))
            metrics = await _timed(max(3, asked // 10), koda.store.metrics)
            await janitor.close()
    return {
        f"sessions_{rows}_list_p95_ms": round(statistics.quantiles(listed, n=20)[18], 2),
        "janitor_look_ms": round(statistics.median(look), 2),
        "janitor_round_ms": round(statistics.median(whole), 2),
        f"census_{rows}_ms": round(statistics.median(census), 2),
        f"metrics_{rows}_ms": round(statistics.median(metrics), 2),
    }


class _Idle:
    """A machine with nothing to clear."""

    async def keep_warm(self) -> None:
        return None

    async def clear(self) -> Reaped:
        return Reaped()


async def _round(janitor: Janitor) -> None:
    await janitor.wake_owed()
    await janitor.clear()


async def _nothing(_of: object) -> None:
    return None


async def _timed(times: int, ask: Callable[[], Awaitable[object]]) -> list[float]:
    taken: list[float] = []
    for _ in range(times + 1):
        began = time.perf_counter()
        await ask()
        taken.append((time.perf_counter() - began) * 1000)
    return taken[1:]  # the first one makes statements


async def _list(http: httpx.AsyncClient) -> None:
    answer = (await http.get("/v1/sessions")).raise_for_status()
    if not answer.json()["sessions"]:
        raise SystemExit("nothing was listed")


async def _fill(store: SqlStore, rows: int) -> None:
    """Make one session that is at work, one that is not, the same of renders, and as many more like them."""
    await store.ensure_user(USER)
    await store.ensure_project(f"prj-{USER}", USER, USER)
    asleep = await records.new_session(store, USER)
    awake = await records.new_session(store, USER)
    until = now() + _LEASE
    await store.activate(awake.id, host="bench:1", lease_until=until)
    done, running = (_job() for _ in range(2))
    for job in (done, running):
        await store.create_job(job)
    await store.claim_job(running.id, lease_until=until)
    claimed = await store.claim_job(done.id, lease_until=until)
    await store.update_job(replace(claimed, status="succeeded", lease_until=None))

    def work(connection: Connection) -> None:
        for table, kind, resting, busy in (
            (schema.sessions, "ses", asleep.id, awake.id),
            (schema.jobs, "job", done.id, running.id),
        ):
            _multiply(connection, table, kind, (resting, busy), rows)

    await store.database.write(work)


def _multiply(connection: Connection, table: Table, kind: Any, ids: tuple[str, str], rows: int) -> None:
    resting, busy = (dict(connection.execute(select(table).where(table.c.id == each)).mappings().one()) for each in ids)

    def another(number: int) -> dict[str, object]:
        own = {name: new_id("cmd") for name in ("create_key",) if name in table.c}
        return {**(busy if number % AT_WORK == 0 else resting), **own, "id": new_id(kind)}

    for start in range(2, rows, _PART):
        connection.execute(insert(table), [another(number) for number in range(start, min(rows, start + _PART))])


def _job() -> JobRecord:
    return JobRecord(
        id=new_id("job"), user_id=USER, project_id=f"prj-{USER}", session_id=None, kind="render", spec={},
        status="queued", created_at=now(), updated_at=now(),
    )  # fmt: skip


@contextmanager
def _database() -> Generator[dict[str, str]]:
    if postgres.why_missing() is not None:
        yield {}
        return
    with postgres.serve() as server:
        yield {"DATABASE_PROVIDER": "postgres", "DATABASE_URL": server.url(server.create())}


if __name__ == "__main__":
    print(asyncio.run(figures()))
