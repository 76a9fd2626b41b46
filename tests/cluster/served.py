"""``served`` of `tests.cluster.cut`: what `cluster/serve.yaml`, as it is shipped, has Serve run on two machines.

`serve deploy` hands it to the head. Each machine has a replica of the API, and Serve's proxy before it at port 8000.
Both are asked; then the machine on which the session is, or else the second one, is killed, and the other answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from pathlib import Path
from typing import Any, cast

import httpx
import yaml
from ray._private.state import state

from koda_ray.client import KodaClient
from koda_ray.config import REPO_ROOT
from koda_ray.types import new_id
from tests.cluster.asking import KEY
from tests.cluster.machines import RAY_START, CutMachine
from tests.cluster.told import numbers
from tests.cluster.work import RENDERED_S, USER, World, comes_true

__all__ = ["ENV", "answers", "serve_both"]

ENV = {
    "KODA_PREVIEW_ORIGIN": "https://previews.example",
    "KODA_OPERATORS": USER,
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "koda_ray.serve.inflow.in_proxies",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
}
"""What all machines are started with, besides what every cluster here has; Serve's as the image has it."""
_DASHBOARD, _PORT = "http://127.0.0.1:8265", 8000
_REPLICA = "SERVE_REPLICA::koda#api#"
_AT_ONCE, _TIMEOUT_S = 20, 60.0
_PROMPT = {"prompt": "a bouncing ball, 2 seconds, playful"}


async def serve_both(world: World, first: CutMachine, env: dict[str, str]) -> dict[str, Any]:
    """Have Serve run the file on two machines, ask both, and lose one."""
    second = CutMachine.worker(2, env)
    machines = [first, second]
    await comes_true(lambda: asyncio.to_thread(second.is_alive), "the second machine joins")
    statuses: dict[str, str] = {}

    async def deployed() -> bool:
        file = str(REPO_ROOT / "cluster" / "serve.yaml")
        return await asyncio.to_thread(_serve, env, "deploy", file) is not None

    async def all_run() -> bool:
        said = yaml.safe_load(await asyncio.to_thread(_serve, env, "status") or "applications: {}")["applications"]
        statuses.update({name: each["status"] for name, each in said.items()})
        return bool(said) and all(each["status"] == "RUNNING" for each in said.values())

    await comes_true(deployed, "the head takes the file")
    await comes_true(all_run, "all applications run", within_s=RENDERED_S)
    on = await asyncio.to_thread(_replicas_on)
    where = [(await asyncio.to_thread(lambda each=machine: each.node)) in on for machine in machines]
    urls = [f"http://{machine.address}:{_PORT}" for machine in machines]
    for url in urls:
        await comes_true(lambda at=url: answers(at), f"a proxy answers at {url}")
    made = (await _ask(urls[0], "POST", "/v1/sessions", _PROMPT))["sessionId"]

    async def rests() -> bool:
        return all([(await _ask(url, "GET", f"/v1/sessions/{made}"))["state"]["owes"] is None for url in urls])

    await comes_true(rests, "the session's agents come to rest")
    row, told = await world.store.get_session(made), await numbers(world.store, made)
    heard = await asyncio.gather(*(_follow(url, made, told[-1]) for url in urls))
    janitors = [(await _ask(url, "GET", "/v1/cluster"))["janitor"] for url in urls]

    lost = first if row.host is not None and first.does(row.host) else second
    (left,) = (url for machine, url in zip(machines, urls, strict=True) if machine is not lost)
    await asyncio.to_thread(lost.kill)
    await comes_true(lambda: answers(left), "the other one answers")
    said = await _ask(left, "POST", f"/v1/sessions/{made}/messages", {"text": "slower, please"})

    async def taken() -> bool:
        moved = await world.store.get_session(made)
        return moved.epoch > row.epoch and not await world.store.inbox(made)

    await comes_true(taken, "the session goes on, on the machine that is left")
    await comes_true(lambda: answers(left), "the other one still answers")
    return {
        "statuses": statuses,
        "replicas": where,
        "heard": [each == told for each in heard],
        "janitors": [each is not None for each in janitors],
        "said": said["sessionId"] == made,
        "hosts": [row.host, (await world.store.get_session(made)).host],
        "events": await numbers(world.store, made),
    }


def _serve(env: dict[str, str], *words: str) -> str | None:
    """Run a command of Serve's on the head's machine; None where that fails, as it does before the head takes any."""
    line = ["ip", "netns", "exec", "m0", str(Path(RAY_START[0]).with_name("serve")), *words, "--address", _DASHBOARD]
    done = subprocess.run(line, env=env, cwd="/tmp", capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _replicas_on() -> set[str]:
    """Return Ray's ids of the nodes on which there are replicas of the API."""
    actors = cast("Any", state).actor_table(None, None, "ALIVE").values()
    return {actor["Address"]["NodeID"] for actor in actors if actor["Name"].startswith(_REPLICA)}


async def answers(url: str) -> bool:
    """Whether a proxy answers so many people at once, each with what the API says."""
    with contextlib.suppress(httpx.HTTPError):
        healthy = await asyncio.gather(*(_get(url, "/-/healthz") for _ in range(_AT_ONCE)))
        listed = await asyncio.gather(*(_get(url, "/v1/sessions") for _ in range(_AT_ONCE)))
        return all(each.text == "success" for each in healthy) and all(each.status_code == 200 for each in listed)
    return False


async def _get(url: str, path: str) -> httpx.Response:
    async with _client(url) as http:
        return await http.get(path)


async def _ask(url: str, method: str, path: str, body: Any = None) -> Any:
    async with _client(url) as http:
        answer = await http.request(method, path, json=body, headers={"Idempotency-Key": new_id("cmd")})
        return answer.raise_for_status().json()


def _client(url: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT_S, trust_env=False)


async def _follow(url: str, session_id: str, last: int) -> list[int]:
    """Follow a session until its last event; return the numbers of all."""
    heard: list[int] = []
    async with KodaClient(url, key=KEY) as client:
        async for event in client.follow(session_id):
            heard.append(event.seq)
            if event.seq >= last:
                break
    return heard
