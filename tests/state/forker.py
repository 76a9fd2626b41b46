"""A process that makes a session of another's past: ``python -m tests.state.forker DATABASE SESSION USER``.

Prints by how many bytes its memory grew at most while it did, and the new session's id.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from koda_ray.actors.timeline import fork_session
from koda_ray.state.sql import SqlStore


def most_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(database: Path, session_id: str, user_id: str) -> None:
    store = SqlStore(database)
    await store.open()
    await store.get_session(session_id)
    before = most_bytes()
    made = await fork_session(store, session_id, user_id=user_id, point=None, key="fork")
    sys.stdout.write(f"{most_bytes() - before} {made}\n")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:4]))
