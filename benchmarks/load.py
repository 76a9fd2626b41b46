"""A server that is used by many while it renders, on this machine: a part of ``benchmarks.cluster``.

- ``alive_50_mb_each``: memory of its own of each session's process, with 50 sessions awake; mean
- ``get_p95_ms``, ``command_p95_ms``: a session's state, and a command that it takes, at 50 requests a second (one of
  ten is a command) with 100 streams open and a render under way; from when each was due
- ``load_refused``: how many of these were not answered as they should be
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import httpx
import psutil

from benchmarks.main_job import until
from benchmarks.scenes import bundle_of
from benchmarks.server import Server
from koda_ray.client import KodaClient
from koda_ray.state.sql import SqlStore
from koda_ray.types import new_id
from koda_ray.wire import PageOptions

__all__ = ["figures"]

PROMPT = "a bouncing ball, 2 seconds, playful"
SESSIONS, STREAMS, RATE, SECONDS = 50, 100, 50.0, 20.0
COMMANDS = 10
"""One of so many requests is a command."""
_MADE_AT_ONCE = 5
_ASLEEP_S = "3600"
_RENDER_S = 300.0
_IN_TIME_S = 300.0


async def figures(*, sessions: int = SESSIONS, streams: int = STREAMS, seconds: float = SECONDS) -> dict[str, float]:
    """Measure; see this module's words for the keys.

    Args:
        sessions: How many are awake.
        streams: How many follow them.
        seconds: How long requests are made.
    """
    with tempfile.TemporaryDirectory(prefix="koda-bench-load-") as name:
        async with (
            Server(Path(name), KODA_IDLE_TIMEOUT_S=_ASLEEP_S, KODA_USER_CHANGES_PER_MIN="0") as server,
            KodaClient(server.url) as client,
        ):
            ids = await _awake(client, sessions)
            each_mb = statistics.fmean(await _memory_mb(server, ids))
            async with _followed(server.url, ids, streams), _rendering(client, Path(name)):
                gets, commands, refused = await _asked(server.url, ids, seconds)
    return {
        f"alive_{sessions}_mb_each": round(each_mb, 1),
        "get_p95_ms": round(statistics.quantiles(gets, n=20)[18], 1),
        "command_p95_ms": round(statistics.quantiles(commands, n=20)[18], 1),
        "load_refused": refused,
    }


async def _awake(client: KodaClient, count: int) -> list[str]:
    """Make sessions, and return them once each has its plan and waits for a person, awake."""
    gate = asyncio.Semaphore(_MADE_AT_ONCE)

    async def make() -> str:
        async with gate:
            session_id = (await client.create(PROMPT)).session_id
            await until(client, session_id, lambda s: s.owes is None and s.phase == "plan", limit_s=_IN_TIME_S)
            return session_id

    return await asyncio.gather(*(make() for _ in range(count)))


async def _memory_mb(server: Server, ids: list[str]) -> list[float]:
    store = SqlStore(server.data / "koda.db")
    await store.open()
    try:
        hosts = [(await store.get_session(each)).host for each in ids]
    finally:
        await store.close()
    if None in hosts:
        raise SystemExit(f"{hosts.count(None)} of {len(hosts)} sessions went to sleep before they were measured")
    pids = [int(str(host).rpartition(":")[2]) for host in hosts]
    return [psutil.Process(pid).memory_full_info().uss / 2**20 for pid in pids]


async def _until(so: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + _IN_TIME_S
    while not await so():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_IN_TIME_S:g} s: {what}")
        await asyncio.sleep(0.2)


@asynccontextmanager
async def _followed(url: str, ids: list[str], streams: int) -> AsyncGenerator[None]:
    async with AsyncExitStack() as opened:
        limits = httpx.Limits(max_connections=None)
        http = await opened.enter_async_context(httpx.AsyncClient(base_url=url, limits=limits, trust_env=False))
        for number in range(streams):
            path = f"/v1/sessions/{ids[number % len(ids)]}/events"
            stream = await opened.enter_async_context(http.stream("GET", path, timeout=None))
            stream.raise_for_status()
        yield


@asynccontextmanager
async def _rendering(client: KodaClient, folder: Path) -> AsyncGenerator[None]:
    """Have a page rendered, which takes longer than what is measured meanwhile."""
    page = folder / "page"
    for name, data in (await bundle_of("svg")).files.items():
        (page / name).parent.mkdir(parents=True, exist_ok=True)
        (page / name).write_bytes(data)
    made = await client.render_page(page, PageOptions(duration=_RENDER_S))

    async def captures() -> bool:  # its browsers' start is once, and this is of what goes on
        return bool((await client.page_render(made.id)).progress.get("framesDone"))

    await _until(captures, "the render has frames")
    yield
    if (await client.page_render(made.id)).status != "running":
        raise SystemExit("the render was over before what is measured beside it")
    await client.cancel_page_render(made.id)


async def _asked(url: str, ids: list[str], seconds: float) -> tuple[list[float], list[float], int]:
    """Make requests at a fixed rate, however long answers take; return how long, in ms, and how many were wrong.

    By a client that takes little of a processor: it shares them with the server.
    """
    gets: list[float] = []
    commands: list[float] = []
    refused = 0

    async def ask(http: aiohttp.ClientSession, number: int, due: float) -> None:
        nonlocal refused
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        path = f"/v1/sessions/{ids[number % len(ids)]}"
        try:
            if number % COMMANDS == 0:
                headers = {"Idempotency-Key": new_id("cmd")}
                asked = http.post(f"{path}/permissions", json={"mode": "auto"}, headers=headers)
            else:
                asked = http.get(path)
            async with asked as answer:
                await answer.read()
                refused += not answer.ok
        except (aiohttp.ClientError, TimeoutError):
            refused += 1
        (commands if number % COMMANDS == 0 else gets).append((time.perf_counter() - due) * 1000)

    timeout, many = aiohttp.ClientTimeout(60), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, timeout=timeout, connector=many) as http:
        began = time.perf_counter() + 1.0
        await asyncio.gather(*(ask(http, number, began + number / RATE) for number in range(int(seconds * RATE))))
    return gets, commands, refused


if __name__ == "__main__":
    print(asyncio.run(figures()))
