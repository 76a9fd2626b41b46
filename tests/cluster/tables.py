"""What a cluster's tables say, for whoever waited in vain for something: who has which place, and who works on what."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, cast

import psutil
import ray
from ray._private.state import state
from ray.core.generated import gcs_pb2

from koda_ray.resources import SESSION_RESOURCE
from koda_ray.state.store import Store

__all__ = ["tables"]

_WITHIN_S = 10.0
_LOGS, _LAST_LINES, _LAST_CHARS = Path("/tmp/r/session_latest/logs"), 12, 400
_JOBS = 5


async def tables(store: Store, sessions: list[str]) -> str:
    """Say, a line each, what the rows have of sessions, the head of nodes and actors, and this machine of workers."""
    lines: list[str] = []
    for session_id in sessions:
        row, waiting = await store.get_session(session_id), await store.inbox(session_id)
        lines.append(f"row {session_id}: epoch {row.epoch}, host {row.host}, {row.lease_until}, {len(waiting)} wait")
    for job in await store.list_jobs(limit=_JOBS):
        lines.append(f"job {job.id}: {job.status}, epoch {job.epoch}, {job.lease_until}")
    try:
        async with asyncio.timeout(_WITHIN_S):
            lines += await asyncio.to_thread(_of_head)
    except Exception as error:
        lines.append(f"the head says nothing: {error!r}")
    for process in psutil.process_iter(["cmdline", "create_time"]):
        title = (process.info["cmdline"] or [""])[0]
        if title.startswith("ray::"):
            lines.append(f"process {process.pid}: {title}, {time.time() - process.info['create_time']:.0f} s old")
    return "\n".join([*lines, *_last_words()])


def _last_words() -> list[str]:
    """What Ray's workers said last, those of all nodes that keep their files here."""
    said: list[str] = []
    for log in sorted(_LOGS.glob("worker-*.err"), key=lambda file: file.stat().st_mtime):
        if last := log.read_text(errors="replace").splitlines()[-_LAST_LINES:]:
            said += [
                f"{log.name}, {time.time() - log.stat().st_mtime:.0f} s ago:",
                *(f"  {line[:400]}" for line in last),
            ]
    return said


def _of_head() -> list[str]:
    data = cast("Any", gcs_pb2).ActorTableData
    rows = (data.FromString(row) for row in cast("Any", state)._connect_and_get_accessor().get_actor_table(None, None))
    said = [
        f"actor {row.name}: {data.ActorState.Name(row.state)}, {dict(row.required_resources)} on "
        f"{row.address.node_id.hex()[:8]}, process {row.pid}"
        for row in rows
        if row.state != data.DEAD
    ]
    left = cast("Any", state).available_resources_per_node()
    for node in ray.nodes():
        name = node["NodeID"]
        there, free = node["Resources"].get(SESSION_RESOURCE), left.get(name, {}).get(SESSION_RESOURCE)
        said.append(f"node {name[:8]}: {'alive' if node['Alive'] else 'gone'}, {free} of {there} places left")
    return said
