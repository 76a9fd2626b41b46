"""A server inside of another process, beside a port that is held: what it takes, finishes, and leaves."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from koda_ray.serve import listening
from koda_ray.serve.held_port import beside_port, hold_port
from koda_ray.serve.listening import api_listening


class Slow:
    """An application that answers when it is let, and says which requests came."""

    def __init__(self) -> None:
        self.came, self.let = asyncio.Event(), asyncio.Event()
        self.app = Starlette(routes=[Route("/", self.answer)])

    async def answer(self, _: Request) -> PlainTextResponse:
        self.came.set()
        await self.let.wait()
        return PlainTextResponse("done")


async def let_once_refused(slow: Slow, host: str, port: int) -> None:
    """Have it answer once nobody is let in any more."""
    while True:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except ConnectionError:
            slow.let.set()
            return
        writer.close()
        await asyncio.sleep(0.01)


async def test_what_is_under_way_is_answered_and_nothing_else_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "GRACE_S", 60)
    slow = Slow()
    with hold_port("127.0.0.1", 0, name="PORT") as held:
        host, port = held.getsockname()
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False, timeout=60) as http:
            async with api_listening(slow.app, beside_port(host, port)) as served:
                answer = asyncio.create_task(http.get("/"))
                await slow.came.wait()
                letting = asyncio.create_task(let_once_refused(slow, host, port))
            await letting
            assert (await answer).text == "done" and served.done()
            with pytest.raises(httpx.ConnectError):
                await http.get("/")
            async with api_listening(slow.app, beside_port(host, port)):  # as a replica that comes after it
                assert (await http.get("/")).text == "done"


def test_a_port_of_somebody_elses_is_not_shared() -> None:
    with socket.create_server(("127.0.0.1", 0)) as theirs, pytest.raises(OSError, match="in use"):
        beside_port(*theirs.getsockname())
