"""Making a session of another one's past, in a process of its own, beside the one that was asked.

A past is all that was ever said in a session, every call, and every state that it was in, one for each commit: those
pass through a few at a time. At a point that was left (a head) the calls are one row and all held, which a process that
answers everybody is not to do. The process is no work of Ray's: a fork is rows alone, and is made as ever while a
cluster's head is away. A few are made at once, and one of a user's at a time.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakValueDictionary

from koda_ray.actors.timeline import fork_session
from koda_ray.config import Settings
from koda_ray.errors import KodaError, Unavailable
from koda_ray.own_process import own_environment
from koda_ray.state.records import SessionQuota

__all__ = ["FORKS_AT_ONCE", "FORK_S", "Forks", "main"]

FORK_S = 60.0
"""How long a fork may take, in seconds, with waiting for its turn."""
FORKS_AT_ONCE = 2
"""How many a process has made at the same time: each is a process that may hold a session's calls."""
_PROGRAM = "koda_ray.actors.forking"


@dataclass(frozen=True)
class _Asked:
    """What is to be forked; it is pickled, from one process of ours to another."""

    public: Mapping[str, object]
    session_id: str
    user_id: str
    point: str | None
    key: str


class Forks:
    """Makes sessions of others.

    Args:
        public: What `public_settings` gave; the process that forks has the secrets in its environment, as this one has.
    """

    def __init__(self, public: Mapping[str, object]) -> None:
        self._public = dict(public)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._places = asyncio.Semaphore(FORKS_AT_ONCE)

    async def fork(self, *, session_id: str, user_id: str, point: str | None, key: str) -> str:
        """Make a session of another one's past; see `fork_session`, whose errors this raises.

        Returns:
            Its id.

        Raises:
            Unavailable: It was not made within `FORK_S` seconds, or its process was ended.
        """
        turn = self._turns.setdefault(user_id, asyncio.Lock())
        try:
            async with asyncio.timeout(FORK_S), turn, self._places:
                return await _made(_Asked(self._public, session_id, user_id, point, key))
        except TimeoutError as error:
            raise _not_made(session_id, f"not within {FORK_S:.0f} s") from error


def _not_made(session_id: str, why: str) -> Unavailable:
    return Unavailable(
        f"session {session_id} was not forked ({why}); try again with the same key", context={"session_id": session_id}
    )


async def _made(asked: _Asked) -> str:
    """Have a process make it; it ends with whoever waits here."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", _PROGRAM),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=own_environment(os.environ),
            cwd="/",
        )
    except OSError as error:  # no memory, or no more processes
        raise _not_made(asked.session_id, f"no process could be started: {error}") from error
    try:
        said, _ = await process.communicate(pickle.dumps(asked))
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    status = await process.wait()
    if status < 0:
        raise _not_made(asked.session_id, f"its process was ended by signal {-status}")
    if status != 0:  # no failure that we foresaw: trying again would show it again
        raise RuntimeError(f"forking {asked.session_id} failed ({status}); the log says how")
    made: str | KodaError = pickle.loads(said)
    if isinstance(made, KodaError):
        raise made
    return made


def main() -> None:
    """Run as ``python -m koda_ray.actors.forking``: read what is asked, and write the new session's id, or why not."""
    out = os.dup(1)
    os.dup2(2, 1)  # whatever else says something says it to the log
    asked: _Asked = pickle.loads(sys.stdin.buffer.read())
    made: str | KodaError
    try:
        made = asyncio.run(_forked(asked))
    except KodaError as error:
        made = error
    with os.fdopen(out, "wb") as answer:
        pickle.dump(made, answer)


async def _forked(asked: _Asked) -> str:
    from koda_ray.actors.parts import open_store

    settings = Settings.model_validate(asked.public)
    async with asyncio.timeout(FORK_S):  # whoever asked may be gone
        store = await open_store(settings)
        try:
            quota = SessionQuota(sessions=settings.max_sessions_per_user or None)
            return await fork_session(
                store, asked.session_id, user_id=asked.user_id, point=asked.point, key=asked.key, quota=quota
            )
        finally:
            await store.close()


if __name__ == "__main__":
    main()
