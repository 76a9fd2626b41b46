"""Whatever is followed over HTTP takes a place among its user's streams, whichever address it has."""

from __future__ import annotations

import pkgutil
from contextlib import AsyncExitStack, ExitStack
from importlib import import_module

import httpx
import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute
from fastapi.sse import EventSourceResponse
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray.serve import routes

from .test_batches import PAGE
from .test_renders import zipped
from .test_sandboxes import ADA, ada, make, served, url
from .world import World, reached

__all__ = ["ada", "served", "url"]

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux")]

HEAD = {"Authorization": f"Bearer {ADA}"}


def streams_and_sockets() -> tuple[list[str], list[str]]:
    """The addresses that are streams of events, and those that are WebSockets."""
    modules = [import_module(f"{routes.__name__}.{one.name}") for one in pkgutil.iter_modules(routes.__path__)]
    found = [route for module in modules for route in module.router.routes]
    events = [one.path for one in found if isinstance(one, APIRoute) and one.response_class is EventSourceResponse]
    return events, [one.path for one in found if isinstance(one, APIWebSocketRoute)]


async def ids(http: httpx.AsyncClient) -> dict[str, str]:
    """Make one of everything that there is to follow; returns what the addresses have to be filled with."""
    box = await make(http)
    launched = await http.post(f"{box}/processes", json={"name": "shell", "command": "exec sh"})
    assert launched.status_code == 201, launched.text
    session = (await http.post("/sessions", json={"prompt": "a red ball"})).json()
    page = {"file": ("page.zip", zipped({"index.html": PAGE}), "application/zip")}
    job = await http.post("/renders", files=page, data={"options": "{}"})
    assert job.status_code == 202, job.text
    return {
        "sandbox_id": box.rpartition("/")[2], "name": "shell", "session_id": session["sessionId"],
        "node_id": session["nodeId"], "job_id": job.json()["id"],
    }  # fmt: skip


async def test_every_stream_is_counted(ada: httpx.AsyncClient, served: World) -> None:
    streams, most = served.app.state.streams, served.settings.user_streams
    given = await ids(ada)
    events, sockets = streams_and_sockets()
    assert len(events) >= 6 and len(sockets) >= 2
    wanted = {"sessions": given["session_id"]}
    for path in (one.format(**given) for one in events):
        async with ada.stream("GET", f"{served.url}{path}", params=wanted) as answer:
            assert answer.status_code == 200, path
            assert streams.count("ada") == 1, path
        await reached(lambda: streams.count("ada") == 0)
    for path in (one.format(**given) for one in sockets):
        async with connect(f"ws{served.url[4:]}{path}", additional_headers=HEAD):
            assert streams.count("ada") == 1, path
        await reached(lambda: streams.count("ada") == 0)
    with ExitStack() as full:
        for _ in range(most):
            full.enter_context(streams.joined("ada"))
        for path in (one.format(**given) for one in events):
            async with ada.stream("GET", f"{served.url}{path}", params=wanted) as refused:
                assert refused.status_code == 429, path
                assert refused.headers["retry-after"] == "10"
        for path in (one.format(**given) for one in sockets):
            async with AsyncExitStack() as opened:
                with pytest.raises(InvalidStatus) as caught:
                    await opened.enter_async_context(connect(f"ws{served.url[4:]}{path}", additional_headers=HEAD))
                assert caught.value.response.status_code == 429, path
