"""The main job from end to end, as a person has it: prompt, plan, preview, final video, and what happens in between.

    python -m benchmarks.main_job [--quick] --json FILE

A server of its own, over HTTP, with the offline director. Figures: ``plan_to_preview_cold_s`` (from the moment when the
plan was accepted until the preview plays: its first second is here while the others are rendered, of the first film
that this server makes); of the next one ``plan_to_preview_s`` (the same), ``plan_to_whole_preview_s`` (until all of it
is there, verified), ``preview_s`` (that from the prompt on), ``total_s`` (prompt to the verified final video),
``state_read_ms`` (median GET of a session's state; ``state_read_busy_ms`` while a render uses
both cores), ``recover_s`` (SIGKILL of the session's process in the middle of a tool to the next durable event of
another one), ``session_actor_mb`` (memory that is the session process's own) and ``activation_s`` (a command
to a session that was put away, answered). ``--quick`` renders a shorter film at 720p30.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.server import Server
from koda_ray.client import KodaClient
from koda_ray.events import Envelope
from koda_ray.render.ffmpeg import run
from koda_ray.types import NodeState, RenderOptions, SessionOptions

__all__ = ["main"]

PROMPT = "Create a bouncing ball animation, playful"
FIRST_PROMPT = "Create a bouncing blue ball animation, smooth"
READS = 60
PREVIEW_FPS = 15
JobFigures = dict[str, float]


async def until(client: KodaClient, session_id: str, done: Callable[[NodeState], bool], *, limit_s: float) -> NodeState:
    """Poll a session's state until it is as wanted."""
    deadline = time.monotonic() + limit_s
    while True:
        state = (await client.session(session_id)).state
        if state.phase == "error" and state.error is not None:
            raise SystemExit(f"the job failed: {state.error.code}: {state.error.message}\n{state.error.details or ''}")
        if done(state):
            return state
        if time.monotonic() > deadline:
            raise SystemExit(f"after {limit_s:g} s the session is still in {state.phase} owing {state.owes}")
        await asyncio.sleep(0.05)


@dataclass
class PreviewSeen:
    """When a preview is seen, on the monotonic clock: its first second, whose bytes are kept, and all of it."""

    plays_at: float = 0.0
    whole_at: float = 0.0
    first: bytes = b""


async def see(client: KodaClient, session_id: str, *, limit_s: float) -> PreviewSeen:
    """Follow a session until its preview is there, and watch that from its first frames on, as the studio does."""
    seen = PreviewSeen()

    async def watch(job_id: str) -> None:
        async for piece in client.footage(job_id):
            seen.plays_at = seen.plays_at or time.monotonic()
            seen.first += piece

    async with asyncio.timeout(limit_s), asyncio.TaskGroup() as watching:
        async for event in client.follow(session_id):
            if event.type == "render_start":
                watching.create_task(watch(str(event.data["jobId"])))
            elif event.type == "preview_ready":
                seen.whole_at = time.monotonic()
                break
            elif event.type == "state_change" and event.data["phase"] == "error":
                await until(client, session_id, lambda _: False, limit_s=0)
    with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
        file.write(seen.first)
        file.flush()
        told = await run("ffmpeg", ["-v", "error", "-i", file.name, "-f", "framecrc", "-"], timeout_s=60)
    if sum(not line.startswith(b"#") for line in told.splitlines()) < PREVIEW_FPS:
        raise SystemExit(f"the preview's first second was watched, and has no {PREVIEW_FPS} frames: {told!r:.300}")
    return seen


async def read_times(client: KodaClient, session_id: str) -> list[float]:
    """Time reads of a state, in milliseconds."""
    times: list[float] = []
    for _ in range(READS):
        begun = time.perf_counter()
        await client.session(session_id)
        times.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(0.02)
    return times


async def first_film(client: KodaClient) -> JobFigures:
    """Make the first film's preview, after which the server is warm."""
    session_id = (await client.create(FIRST_PROMPT, options=SessionOptions(duration=3.0))).session_id
    await until(client, session_id, lambda s: s.phase == "plan" and s.owes is None, limit_s=60)
    accepted = time.monotonic()
    await client.accept(session_id)
    seen = await see(client, session_id, limit_s=240)
    await client.delete(session_id)
    return {"plan_to_preview_cold_s": seen.plays_at - accepted}


async def main_job(client: KodaClient, server: Server, *, quick: bool) -> tuple[JobFigures, str]:
    """Make one film and measure on the way."""
    figures: JobFigures = {}
    options = SessionOptions(duration=3.0 if quick else 5.0)
    render = RenderOptions(resolution="720p", fps=30) if quick else RenderOptions()
    begun = time.monotonic()
    session_id = (await client.create(PROMPT, options=options, render=render)).session_id
    await until(client, session_id, lambda s: s.phase == "plan" and s.owes is None, limit_s=60)
    accepted = time.monotonic()
    await client.accept(session_id)
    seen = await see(client, session_id, limit_s=240)
    figures["preview_s"] = seen.whole_at - begun
    figures["plan_to_whole_preview_s"] = seen.whole_at - accepted
    figures["plan_to_preview_s"] = seen.plays_at - accepted
    idle = await read_times(client, session_id)
    figures["session_actor_mb"] = psutil.Process(await server.session_pid(session_id)).memory_full_info().uss / 2**20
    await client.accept(session_id)
    await until(client, session_id, lambda s: s.owes == "render_final", limit_s=10)
    await asyncio.sleep(1.0)
    busy = await read_times(client, session_id)
    await until(client, session_id, lambda s: s.phase == "complete", limit_s=900)
    figures["total_s"] = time.monotonic() - begun - len(idle) * 0.02
    figures["state_read_ms"] = statistics.median(idle)
    figures["state_read_busy_ms"] = statistics.median(busy)
    figures["session_actor_mb_after"] = (
        psutil.Process(await server.session_pid(session_id)).memory_full_info().uss / 2**20
    )
    return figures, session_id


async def recover(client: KodaClient, server: Server) -> JobFigures:
    """Kill the session's process while a tool runs, and wait for the next event of another one."""
    session_id = (await client.create(PROMPT, options=SessionOptions(duration=3.0))).session_id
    await until(client, session_id, lambda s: s.phase == "plan" and s.owes is None, limit_s=60)
    await client.accept(session_id)
    killed_at = 0.0
    epoch = 0
    seen: list[Envelope] = []
    async for event in client.follow(session_id):
        seen.append(event)
        if not killed_at and event.type == "tool_start" and event.data["name"] == "render_preview":
            await asyncio.sleep(0.5)
            epoch = event.epoch
            os.kill(await server.session_pid(session_id), signal.SIGKILL)
            killed_at = time.monotonic()
        elif killed_at and event.epoch > epoch:
            break
    recovered = time.monotonic() - killed_at
    await until(client, session_id, lambda s: s.phase == "preview", limit_s=240)
    await client.delete(session_id)
    return {"recover_s": recovered}


async def activation(client: KodaClient) -> JobFigures:
    """Wait until an idle session has been put away, then give it a command."""
    session_id = (await client.create("Create a bouncing ball animation")).session_id
    await until(client, session_id, lambda s: s.phase == "question" and s.owes is None, limit_s=60)
    deadline = time.monotonic() + 60
    while (await client.session(session_id)).status != "suspended":
        if time.monotonic() > deadline:
            raise SystemExit("the idle session was never put away")
        await asyncio.sleep(0.1)
    begun = time.monotonic()
    await client.answer(session_id, option_id="playful")
    figures = {"activation_s": time.monotonic() - begun}
    await client.delete(session_id)
    return figures


async def measure(*, quick: bool) -> JobFigures:
    """Start a server in a folder of its own and take all figures."""
    with tempfile.TemporaryDirectory(prefix="koda-bench-", ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder), KODA_IDLE_TIMEOUT_S="3", KODA_DIRECTOR="offline")
        async with server, KodaClient(server.url) as client:
            figures = await first_film(client)
            made, session_id = await main_job(client, server, quick=quick)
            figures |= made
            await client.delete(session_id)
            figures |= await recover(client, server)
            figures |= await activation(client)
    return {name: round(value, 2) for name, value in figures.items()}


def main() -> None:
    """Run the benchmark and write its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.main_job", description="Time the main job.")
    parser.add_argument("--quick", action="store_true", help="a shorter film at 720p30")
    parser.add_argument("--json", type=Path, required=True, help="where to write the figures")
    given = parser.parse_args()
    figures = asyncio.run(measure(quick=given.quick))
    given.json.write_text(json.dumps({"quick": given.quick, **figures}, indent=2) + "\n")
    for name, value in figures.items():
        print(f"{name:>24} {value:g}")


if __name__ == "__main__":
    main()
