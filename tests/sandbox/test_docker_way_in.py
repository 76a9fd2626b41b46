"""Requests to a first process that is stopped, slow or gone, with the real connections and no engine."""

from __future__ import annotations

import asyncio
import inspect
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koda_ray.errors import SandboxError, SandboxNotFound
from koda_ray.sandbox import docker_way_in
from koda_ray.sandbox.baits import Baits
from koda_ray.sandbox.docker_way_in import WayIn
from koda_ray.sandbox.engine import Container
from koda_ray.sandbox.link import Link

_FIRST = """
import asyncio, sys
from koda_ray.sandbox.frames import send
from koda_ray.sandbox.owners import Owners

async def serve(request, reader, writer):
    if request["op"] == "slow":
        await asyncio.sleep(600)
    await send(writer, {})
    writer.close()

asyncio.run(Owners(sys.argv[1], secret=sys.argv[2], serve=serve).answer())
"""


class Place:
    """A first process, and what an engine says of it: that it runs, until it has noticed that it does not."""

    def __init__(self, folder: Path) -> None:
        self.secret = secrets.token_hex(32)
        self.link = Link(folder, secret=self.secret)
        self.folder = folder
        self.looks_left: int | None = None
        self.way_in = WayIn("sbx_a", self.link, look=self._look, is_known=lambda: True, trace=None, decoys=Baits([]))
        self.process: asyncio.subprocess.Process

    async def start(self) -> None:
        await self.link.open()
        line = (sys.executable, "-c", _FIRST, str(self.folder), self.secret)
        self.process = await asyncio.create_subprocess_exec(*line)
        self.way_in.living.filled()

    async def _look(self) -> Container:
        if self.looks_left is not None:
            self.looks_left -= 1
        ended = self.looks_left is not None and self.looks_left < 0
        return Container(name="a", labels={}, environment={}, state="out_of_memory" if ended else "running")


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    await made.start()
    yield made
    if made.process.returncode is None:
        made.process.kill()
    await made.process.wait()
    await made.link.close()


async def test_one_that_is_stopped_is_unresponsive_and_may_answer_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await place.way_in.is_alive()
    os.kill(place.process.pid, signal.SIGSTOP)
    with monkeypatch.context() as impatient:
        impatient.setattr(docker_way_in, "_ANSWER_S", 0.2)
        impatient.setattr(docker_way_in, "_LOOK_S", 0.05)
        impatient.setattr(docker_way_in, "_TIMEOUT_S", 0.3)
        impatient.setitem(inspect.unwrap(WayIn.exchange).__kwdefaults__, "timeout_s", 0.2)
        for _ in range(3):  # with those connections that wait already, and then without any
            assert not await place.way_in.is_alive()
            with pytest.raises(SandboxError, match=r"does not answer; try again, or destroy it") as caught:
                await place.way_in.ask("hello", {})
            assert not isinstance(caught.value, SandboxNotFound)
            assert caught.value.context["reason"] == "unresponsive"
    os.kill(place.process.pid, signal.SIGCONT)
    assert await place.way_in.is_alive() and place.way_in.living.state == "ready"
    assert await place.way_in.ask("hello", {}) == {}


async def test_one_that_is_slow_at_something_is_alive(place: Place) -> None:
    with pytest.raises(SandboxError, match="did not answer 'slow' in time") as caught:
        async with place.way_in.exchange("slow", {}, timeout_s=0.1) as (reader, _):
            await reader.read()
    assert "reason" not in caught.value.context


async def test_one_that_has_ended_is_not_called_unresponsive_though_the_engine_is_late(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_way_in, "_LOOK_S", 0.05)
    assert await place.way_in.is_alive()
    place.process.kill()
    await place.process.wait()
    place.looks_left = 3
    assert not await place.way_in.is_alive() and place.way_in.living.state == "stopped"
    with pytest.raises(SandboxNotFound) as caught:
        await place.way_in.ask("hello", {})
    assert caught.value.context["reason"] == "out_of_memory"
