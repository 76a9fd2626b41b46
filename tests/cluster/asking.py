"""A server of its own that is asked all the time, while a cluster loses something."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field

import httpx

from koda_ray.cancellation import end_all
from koda_ray.serve.app import application
from koda_ray.types import new_id
from tests.cluster.work import World
from tests.serve.world import serving

__all__ = ["KEY", "AskedServer", "asked"]

KEY = "0123456789abcdef" * 2
READ_EVERY_S, SAID_EVERY_S = 0.1, 0.5
_TIMEOUT_S = 60.0


@dataclass
class AskedServer:
    """What was asked, and what of it was not answered as it should be.

    Attributes:
        spoken_to: The session that it commands.
    """

    spoken_to: str
    counted: Counter[str] = field(default_factory=Counter[str])
    why: list[str] = field(default_factory=list[str])

    @property
    def seen(self) -> dict[str, object]:
        """All of it, by name."""
        names = ("gets", "get_failures", "commands", "commands_refused")
        return {**{name: self.counted[name] for name in names}, "why_refused": self.why[:5]}

    def note(self, kind: str, why: str | None) -> None:
        """Count a request of a kind, and why it was not answered as it should be, if so."""
        self.counted[kind] += 1
        if why is not None:
            self.counted["get_failures" if kind == "gets" else "commands_refused"] += 1
            self.why.append(why)


@asynccontextmanager
async def asked(world: World, session_id: str, url: str | None = None) -> AsyncGenerator[AskedServer]:
    """Have a server read a session, and command another one, for as long as the block lasts.

    All that was asked is answered at its end.

    Args:
        world: Where the sessions are.
        session_id: What is read.
        url: Which server; one of this process when None.
    """
    spoken_to = await world.asleep()
    found, over = AskedServer(spoken_to), asyncio.Event()
    # each on a connection of its own, as many people have
    limits = httpx.Limits(max_keepalive_connections=0)
    headers = {"Authorization": f"Bearer {KEY}"}
    own = serving(application(world.settings, None), graceful_s=int(_TIMEOUT_S)) if url is None else nullcontext(url)
    async with (
        own as base,
        httpx.AsyncClient(base_url=base, limits=limits, headers=headers, timeout=_TIMEOUT_S, trust_env=False) as http,
    ):

        async def read() -> None:
            answer = await http.get(f"/v1/sessions/{session_id}")
            found.note("gets", None if answer.is_success else answer.text)

        async def say() -> None:
            key = new_id("cmd")
            path, words = f"/v1/sessions/{spoken_to}/plan", world.words(spoken_to, key)
            answer = await http.post(path, json=words, headers={"Idempotency-Key": key})
            if answer.is_success:
                world.answered(spoken_to, key)
            found.note("commands", None if answer.is_success else answer.text)

        async def often(kind: str, every_s: float, ask: Callable[[], Awaitable[None]]) -> None:
            while not over.is_set():
                try:
                    await ask()
                except httpx.HTTPError as error:
                    found.note(kind, repr(error))
                await asyncio.sleep(every_s)

        tasks = [
            asyncio.create_task(often("gets", READ_EVERY_S, read)),
            asyncio.create_task(often("commands", SAID_EVERY_S, say)),
        ]
        try:
            yield found
            over.set()
            await asyncio.gather(*tasks)
        finally:
            await end_all(tasks)
