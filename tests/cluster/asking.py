"""A server of its own that is asked all the time, while a cluster loses something."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Literal

import httpx

from koda_ray.cancellation import end_all
from koda_ray.serve.app import application
from tests.cluster.commanding import AskedServer, Commanding, answer_of
from tests.cluster.work import World
from tests.serve.world import serving

__all__ = ["KEY", "asked"]

KEY = "0123456789abcdef" * 2
READ_EVERY_S, SAID_EVERY_S, RENDER_EVERY_S = 0.1, 0.25, 1.0
_TIMEOUT_S = 150.0
_PREVIEWS = 8421
"""Where previews would be seen; nobody looks."""
_PICTURE = base64.b64decode("R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==")  # one pixel


@asynccontextmanager
async def asked(
    world: World,
    session_id: str,
    url: str | None = None,
    *,
    reads: Literal["session", "file"] = "session",
    commands: Literal["none", "one", "all"] = "one",
) -> AsyncGenerator[AskedServer]:
    """Have a server read a session, and command another one, for as long as the block lasts.

    All that was asked is answered at its end.

    Args:
        world: Where the sessions are.
        session_id: What is read.
        url: Which server; one of this process when None.
        reads: What is read: a row of the database, or a file in the bucket.
        commands: Which commands there are: of all, those that are not said to a session that is awake are asked once
            for each time that something is `away`, and renders of a page all that while.
    """
    found, over = AskedServer(), asyncio.Event()
    # each on a connection of its own, as many people have
    limits = httpx.Limits(max_keepalive_connections=0)
    headers = {"Authorization": f"Bearer {KEY}"}
    served = serving(application(world.settings, _PREVIEWS), graceful_s=int(_TIMEOUT_S))
    own = served if url is None else nullcontext(url)
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
            answer = await answer_of(http, "GET", path)
            found.longest_get_s = max(found.longest_get_s, time.monotonic() - began)
            found.note("gets", answer)

        async def often(every_s: float, ask: Callable[[], Awaitable[None]]) -> None:
            while not over.is_set():
                await ask()
                await asyncio.sleep(every_s)

        asking, commanding = [often(READ_EVERY_S, read)], Commanding(world, http, found)
        if commands != "none":
            await commanding.begin(each=commands == "all")
            asking.append(often(SAID_EVERY_S, commanding.say))
        if commands == "all":
            asking.append(often(RENDER_EVERY_S, commanding.render))
        tasks = [asyncio.create_task(each) for each in asking]
        try:
            yield found
            over.set()
            await asyncio.gather(*tasks)
            await commanding.end()
        finally:
            await end_all(tasks)
