"""Many idle event streams of one user, and what they cost everybody's requests: a part of ``benchmarks.trust``.

The API runs in a process of its own, over SQLite and without Ray; ``python -m benchmarks.streams FOLDER`` is that
process, which prints its address and then each second how often it has read its database. One takes `MAX_STREAMS`;
where there are more, several have an equal share each, and their reads are added up.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx

from koda_ray.serve.quotas import MAX_STREAMS
from koda_ray.types import new_id
from tests.serve.world import world
from tests.state import records

__all__ = ["figures"]

USER, KEY, OTHER, OTHER_KEY = "ada", "a" * 32, "bob", "b" * 32
SESSIONS = 20


async def figures(streams: int, *, seconds: float) -> dict[str, float]:
    """Measure a GET of another user's while one user follows sessions that sleep.

    Args:
        streams: How many are open.
        seconds: How long to measure; half of it more for reads, while nobody asks anything.

    Returns:
        ``streams_{streams}_p50_ms``, ``_p99_ms`` and ``_reads_per_s``.
    """
    async with AsyncExitStack() as opened:
        servers = math.ceil(streams / MAX_STREAMS)
        share = math.ceil(streams / servers)
        limits = httpx.Limits(max_connections=None)
        http = await opened.enter_async_context(httpx.AsyncClient(limits=limits, timeout=60, trust_env=False))
        urls, counts = list[str](), list[list[int]]()
        for number in range(servers):
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="koda-streams-"))
            url, reads = await opened.enter_async_context(_server(Path(folder), share))
            urls.append(url)
            counts.append(reads)
            listed = (await http.get(f"{url}/v1/sessions", headers=_key(KEY))).raise_for_status().json()["sessions"]
            ids = [each["id"] for each in listed]
            for index in range(min(share, streams - number * share)):
                path = f"{url}/v1/sessions/{ids[index % len(ids)]}/events"
                response = await opened.enter_async_context(http.stream("GET", path, headers=_key(KEY)))
                response.raise_for_status()
        await asyncio.sleep(2)  # until what is there has been sent
        first = [len(reads) for reads in counts]
        await asyncio.sleep(max(3.0, seconds / 2))
        told = [reads[at - 1 :] for at, reads in zip(first, counts, strict=True)]  # one number each second
        began, taken = time.perf_counter(), list[float]()
        while time.perf_counter() - began < seconds:
            asked = time.perf_counter()
            (await http.get(f"{urls[0]}/v1/sessions", headers=_key(OTHER_KEY))).raise_for_status()
            taken.append((time.perf_counter() - asked) * 1000)
            await asyncio.sleep(0.02)
    return {
        f"streams_{streams}_p50_ms": round(statistics.median(taken), 2),
        f"streams_{streams}_p99_ms": round(statistics.quantiles(taken, n=100)[98], 2),
        f"streams_{streams}_reads_per_s": round(sum((each[-1] - each[0]) / (len(each) - 1) for each in told), 1),
    }


def _key(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@asynccontextmanager
async def _server(folder: Path, streams: int) -> AsyncGenerator[tuple[str, list[int]]]:
    """Start the API; yields its address, and a list to which it adds how often it has read."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.streams", str(folder), str(streams), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    lines, reads = process.stdout, [0]

    async def listen() -> None:
        while line := await lines.readline():
            reads.append(int(line))

    url = (await lines.readline()).decode().strip()
    listening = asyncio.create_task(listen())
    try:
        yield url, reads
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await listening


async def _serve(folder: Path, streams: int) -> None:
    keys = f"{USER}={KEY},{OTHER}={OTHER_KEY}"
    async with world(folder, KODA_API_KEYS=keys, KODA_USER_STREAMS=streams) as koda:
        for _ in range(SESSIONS):
            await koda.store.create_session(records.state(USER), key=new_id("cmd"), body={})
        print(koda.url, flush=True)
        while True:
            await asyncio.sleep(1)
            print(koda.store._database.meter.metrics("", {}, None).reads, flush=True)  # pyright: ignore[reportPrivateUsage]


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
