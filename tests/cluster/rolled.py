"""``rolling`` of `tests.cluster.cut`: the version of what serves and works is replaced, node by node, in the midst.

The newer version is this one, by another number, with another version of what captures, so that what was rendered
before does not go with what is rendered then, and with a migration, so that the older one can open the database no
more. A machine with it joins; a server of it takes the old one's place behind
one address, which is asked and followed all the time; then the old machine is stopped as `systemctl stop` would.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from koda_ray.cancellation import end_all
from koda_ray.client import KodaClient
from koda_ray.config import REPO_ROOT
from koda_ray.state.schema import SCHEMA_VERSION
from tests.cluster.asking import KEY, asked
from tests.cluster.machines import HEAD, HERE, PORT, CutMachine, Door
from tests.cluster.told import numbers
from tests.cluster.work import LARGE, World, at_work, comes_true

NEWER = "999.0"
FRONT = 8420
_TREE = Path("/tmp/newer")
_MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "9990", "{SCHEMA_VERSION}", None, None

def upgrade():
    op.add_column("sessions", sa.Column("newer", sa.Text()))
"""
_SERVER = """
import sys
import ray, uvicorn
from koda_ray.config import Settings
from koda_ray.serve.app import application

address, own, host, port = sys.argv[1:]
ray.init(address=address, namespace="koda", log_to_driver=False, logging_level="ERROR", _node_ip_address=own)
app = application(Settings(), None)
server = uvicorn.Server(
    uvicorn.Config(app, host=host, port=int(port), log_level="warning", timeout_graceful_shutdown=60)
)
end = server.handle_exit

def leave(number, frame):
    app.state.deps.draining.set()
    end(number, frame)

server.handle_exit = leave
server.run()
"""


def newer() -> Path:
    """Make the newer version, and return where it is."""
    shutil.copytree(REPO_ROOT / "koda_ray", _TREE / "koda_ray", ignore=shutil.ignore_patterns("__pycache__"))
    for name, what, instead in (
        ("__init__.py", '    __version__ = version("koda-ray")', f'    __version__ = "{NEWER}"'),
        ("render/page.py", 'CAPTURE_VERSION = "', 'CAPTURE_VERSION = "newer '),
        ("state/schema.py", f'SCHEMA_VERSION = "{SCHEMA_VERSION}"', 'SCHEMA_VERSION = "9990"'),
    ):
        file = _TREE / "koda_ray" / name
        text = file.read_text()
        assert what in text, f"{what} is not in {name}"
        file.write_text(text.replace(what, instead))
    (_TREE / "koda_ray" / "state" / "migrations" / "versions" / "9990_newer.py").write_text(_MIGRATION)
    return _TREE


class VersionServer:
    """A server of one version, in a process of its own.

    Args:
        env: What it is started with.
        port: Where it listens.
        head: The address of the head of its cluster.
        machine: The machine of that cluster that it is on; the one that this process is on when None.
    """

    def __init__(self, env: dict[str, str], port: int, *, head: str = HEAD, machine: CutMachine | None = None) -> None:
        inside, own, host = [], HERE, "127.0.0.1"
        if machine is not None:
            inside, own, host = machine.inside, machine.address, machine.address
        self.url = f"http://{host}:{port}"
        with Path(f"/tmp/server{port}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*inside, sys.executable, "-P", "-c", _SERVER, f"{head}:{PORT}", own, host, str(port)],
                env=env, cwd="/tmp", stdout=log, stderr=log,
            )  # fmt: skip

    async def version(self) -> str:
        """Return its version, once it answers."""
        told: list[str] = []

        async def answers() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                async with httpx.AsyncClient(trust_env=False) as http:
                    told.append((await http.get(f"{self.url}/v1/health")).json()["version"])
            return bool(told)

        await comes_true(answers, f"a server answers at {self.url}")
        return told[0]

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    async def stop(self) -> int:
        """Have it end in good order; return its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self._process.wait)


async def upgrade(world: World, first: CutMachine, env: dict[str, str]) -> dict[str, Any]:
    """Put work on the first machine, and replace it, and the server, by what is newer."""
    store = world.store
    newer_env = {**env, "PYTHONPATH": str(await asyncio.to_thread(newer))}
    port = FRONT + 1
    door = Door(FRONT, lambda: asyncio.open_connection("127.0.0.1", port))
    await door.open()
    old_server = VersionServer(env, port)
    versions = [await old_server.version()]
    url = f"http://{HERE}:{FRONT}"
    async with (
        at_work(world, size=LARGE) as (session, job),
        _following(url, session) as followed,
        asked(world, session, url) as asks,
    ):
        held = await store.get_job(job)
        second = CutMachine.worker(2, newer_env)

        async def joined() -> bool:
            return await asyncio.to_thread(second.is_alive)

        await comes_true(joined, "the newer machine joins")
        new_server = VersionServer(newer_env, FRONT + 2)
        versions.append(await new_server.version())
        port = FRONT + 2
        old_ended = await old_server.stop()
        await asyncio.to_thread(first.stop)
        began = time.monotonic()

        async def moved() -> bool:
            return (await store.get_job(job)).epoch > held.epoch and (await store.get_session(session)).host is None

        moved_s = await comes_true(moved, "the session leaves, and the render goes on elsewhere")
        await world.say(session)
        done = await world.over(job)
        last = (await numbers(store, session))[-1]

        async def heard() -> bool:
            return bool(followed) and followed[-1] >= last

        await comes_true(heard, "who follows has heard all")
    return {
        **asks.seen,
        **await world.account(),
        "versions": versions,
        "old_server_ended": old_ended,
        "moved_s": moved_s,
        "began_s": time.monotonic() - began,
        "followed": followed[:last],
        "render": done,
    }


@asynccontextmanager
async def _following(url: str, session_id: str) -> AsyncGenerator[list[int]]:
    """Follow a session by the client that people have; gives the numbers of its events, as they come."""
    heard: list[int] = []

    async def follow() -> None:
        async with KodaClient(url, key=KEY) as client:
            async for event in client.follow(session_id):
                heard.append(event.seq)

    task = asyncio.create_task(follow())
    try:
        yield heard
    finally:
        await end_all((task,))
