"""A server of its own that is asked all the time, while a cluster loses something."""

from __future__ import annotations

import asyncio
import base64
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import httpx

from koda_ray.cancellation import end_all
from koda_ray.serve.app import application
from koda_ray.serve.problem import PROBLEM_TYPE
from koda_ray.types import new_id
from tests.cluster.work import USER, World
from tests.serve.world import serving
from tests.state import records

__all__ = ["KEY", "AskedServer", "asked"]

KEY = "0123456789abcdef" * 2
READ_EVERY_S, SAID_EVERY_S = 0.1, 0.5
_TIMEOUT_S = 60.0
_PICTURE = base64.b64decode("R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==")  # one pixel


@dataclass
class AskedServer:
    """What was asked, and what of it was not answered as it should be."""

    counted: Counter[str] = field(default_factory=Counter[str])
    codes: Counter[str] = field(default_factory=Counter[str])
    why: list[str] = field(default_factory=list[str])
    longest_get_s: float = 0.0

    @property
    def seen(self) -> dict[str, object]:
        """All of it, by name."""
        names = ("gets", "get_failures", "commands", "commands_refused")
        told = {"codes": dict(self.codes), "longest_get_s": self.longest_get_s, "why_refused": self.why[:5]}
        return {**{name: self.counted[name] for name in names}, **told}

    def note(self, kind: str, answer: httpx.Response | httpx.HTTPError) -> None:
        """Count a request of a kind, and why it was not answered as it should be, if so."""
        self.counted[kind] += 1
        if isinstance(answer, httpx.Response) and answer.is_success:
            return
        self.counted["get_failures" if kind == "gets" else "commands_refused"] += 1
        is_told = isinstance(answer, httpx.Response) and answer.headers["content-type"] == PROBLEM_TYPE
        self.codes[answer.json()["code"] if is_told else type(answer).__name__] += 1
        self.why.append(answer.text if isinstance(answer, httpx.Response) else repr(answer))


@asynccontextmanager
async def asked(
    world: World,
    session_id: str,
    url: str | None = None,
    *,
    reads: Literal["session", "file"] = "session",
    commands: bool = True,
) -> AsyncGenerator[AskedServer]:
    """Have a server read a session, and command another one, for as long as the block lasts.

    All that was asked is answered at its end.

    Args:
        world: Where the sessions are.
        session_id: What is read.
        url: Which server; one of this process when None.
        reads: What is read: a row of the database, or a file in the bucket.
        commands: Whether another is commanded.
    """
    found, over = AskedServer(), asyncio.Event()
    spoken_to = (await records.new_session(world.store, USER)).id
    # each on a connection of its own, as many people have
    limits = httpx.Limits(max_keepalive_connections=0)
    headers = {"Authorization": f"Bearer {KEY}"}
    own = serving(application(world.settings, None), graceful_s=int(_TIMEOUT_S)) if url is None else nullcontext(url)
    async with (
        own as base,
        httpx.AsyncClient(base_url=base, limits=limits, headers=headers, timeout=_TIMEOUT_S, trust_env=False) as http,
    ):
        path = f"/v1/sessions/{session_id}"
        if reads == "file":
            made = await http.post("/v1/assets", files={"file": ("one.gif", _PICTURE, "image/gif")})
            path = f"/v1/assets/{made.raise_for_status().json()['id']}/file"

        async def read() -> None:
            began = time.monotonic()
            try:
                found.note("gets", await http.get(path))
            finally:
                found.longest_get_s = max(found.longest_get_s, time.monotonic() - began)

        async def say() -> None:
            key = new_id("cmd")
            path, words = f"/v1/sessions/{spoken_to}/permissions", world.words(spoken_to, key)
            found.note("commands", await http.post(path, json=words, headers={"Idempotency-Key": key}))

        async def often(kind: str, every_s: float, ask: Callable[[], Awaitable[None]]) -> None:
            while not over.is_set():
                try:
                    await ask()
                except httpx.HTTPError as error:
                    found.note(kind, error)
                await asyncio.sleep(every_s)

        tasks = [asyncio.create_task(often("gets", READ_EVERY_S, read))]
        if commands:
            tasks.append(asyncio.create_task(often("commands", SAID_EVERY_S, say)))
        try:
            yield found
            over.set()
            await asyncio.gather(*tasks)
        finally:
            await end_all(tasks)
