"""What a database or a bucket is asked while it is silent: ``python -m tests.state.silent WHICH``, in a name space.

`WHICH` is ``postgres``, ``pgbouncer`` (before it), ``libsql`` or ``bucket``. What was answered is printed as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable
from typing import Any

from sqlalchemy import Connection, text, update

from koda_ray.errors import KodaError
from koda_ray.state.records import Batch
from koda_ray.state.schema import sessions
from koda_ray.state.sql import SqlStore
from koda_ray.state.storage import Storage
from tests import pgbouncer, postgres, seaweed, sqld
from tests.silence import fall_silent, speak_again
from tests.state import records

HERE = "127.0.0.1"
READS = 8
"""Several times as many as there are connections."""
NOTICING = {"tcp_keepidle": 5, "tcp_keepintvl": 2, "tcp_keepcnt": 3, "tcp_user_timeout": 10_000}
"""What is advised for PgBouncer, which knows nothing of what its clients ask its server."""
_LARGE = 64 << 20


async def ask_database(url: str, port: int, beside_url: str | None) -> dict[str, Any]:
    """Have it fall silent amid a transaction, ask it for what is there, and go on once it speaks again.

    Args:
        url: Where it is.
        port: What falls silent.
        beside_url: A way to it that does not, if there is one.
    """
    store = SqlStore(url, connections=2)
    await store.open()
    row = await records.active_session(store)
    said = Batch(events=[records.say("once")], command=records.command(row))
    held, silent = threading.Event(), threading.Event()
    touch = update(sessions).where(sessions.c.id == row.id).values(title="touched")

    def hold(connection: Connection) -> None:
        connection.execute(touch)
        held.set()
        silent.wait(60)
        connection.execute(text("SELECT 1"))

    holding = asyncio.create_task(_answer(store.database.write(hold)))
    await asyncio.to_thread(held.wait, 60)
    await asyncio.to_thread(fall_silent, port)
    silent.set()
    began = time.monotonic()
    reads = await asyncio.gather(*(_answer(store.get_session(row.id)) for _ in range(READS)))
    reads_s = time.monotonic() - began
    beside_s = None if beside_url is None else await _write_beside(beside_url, touch) - began
    commit = await _answer(store.commit(row.id, row.epoch, said))
    await asyncio.to_thread(speak_again, port)
    again = await _answer(store.commit(row.id, row.epoch, said))
    events = [event.data["text"] for event in await store.events(row.id) if event.type == "message"]
    await store.close()
    return {
        "held": await holding,
        "reads": reads,
        "reads_s": reads_s,
        "beside_s": beside_s,
        "commit": commit,
        "again": again,
        "events": events,
    }


async def _write_beside(url: str, change: Any) -> float:
    """Change the row that a transaction holds whose client is cut off; return when that was done."""
    beside = SqlStore(url, connections=1)
    await beside.open()
    await beside.database.write(lambda connection: connection.execute(change).rowcount)
    await beside.close()
    return time.monotonic()


async def ask_bucket(storage: Storage, port: int) -> dict[str, Any]:
    """Have it fall silent, ask it for what is there and give it something large, and do so again once it speaks."""
    large = bytes(_LARGE)
    await storage.put("small", b"kept")
    await asyncio.to_thread(fall_silent, port)
    began = time.monotonic()
    silent = await asyncio.gather(_answer(storage.get("small")), _answer(storage.put("large", large)))
    waited_s = time.monotonic() - began
    await asyncio.to_thread(speak_again, port)
    await storage.put("large", large)
    return {
        "silent": silent,
        "waited_s": waited_s,
        "small": (await storage.get("small")).decode(),
        "large": await storage.size("large"),
    }


async def _answer(asked: Awaitable[object]) -> dict[str, Any] | None:
    """Return what was refused, as a person would be told; None where it was done."""
    try:
        await asked
    except KodaError as error:
        return {"error": type(error).__name__, "message": error.message, **error.context}
    return None


async def main(which: str) -> dict[str, Any]:
    """Start it, and ask it."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with contextlib.ExitStack() as stack:
        match which:
            case "postgres":
                server = stack.enter_context(postgres.serve(HERE))
                name = server.create()
                return await ask_database(server.url_at(HERE, name), postgres.PORT, server.url(name))
            case "pgbouncer":
                server = stack.enter_context(postgres.serve())
                name = server.create()
                stack.enter_context(pgbouncer.serve(server.url(), listen_addr=HERE, **NOTICING))
                url = server.url_at(HERE, name, pgbouncer.PORT)
                return await ask_database(url, pgbouncer.PORT, server.url(name))
            case "libsql":
                libsql = stack.enter_context(sqld.serve())
                return await ask_database(libsql.url, libsql.port, None)
            case _:
                bucket = stack.enter_context(seaweed.serve())
                options = {
                    "key": bucket.key,
                    "secret": bucket.secret,
                    "client_kwargs": {"endpoint_url": bucket.endpoint},
                }
                return await ask_bucket(Storage(f"s3://{seaweed.BUCKET}", options), bucket.port)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1]))) + "\n")
