"""The process of one sandbox's proxy: reads what it shall do, gives its rights away, and serves until it is let go of.

Standard input: one line of JSON, then nothing until its owner ends. Standard output: one line for each event.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # what is imported on first use must be there before the rights to read it go
import ctypes
import json
import os
import signal
import socket
import sys
from typing import Any

from koda_ray.sandbox.egress.addresses import Network, own_networks
from koda_ray.sandbox.egress.audit import EgressEvent
from koda_ray.sandbox.egress.proxy import EgressProxy
from koda_ray.sandbox.egress.rules import EgressLimits, EgressRules

__all__ = ["main"]

# Source: linux/prctl.h
_PDEATHSIG, _DUMPABLE, _NO_NEW_PRIVS = 1, 4, 38


def main() -> None:
    """Run as ``python -m koda_ray.sandbox.egress``."""
    assert concurrent.futures.thread
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is meant for the owner, and its end is ours
    given = json.loads(sys.stdin.buffer.readline())
    own = own_networks()
    _give_up_rights(given["user"], parent=given["parent"])
    asyncio.run(_serve(given, own))


def _give_up_rights(user: int | None, *, parent: int) -> None:
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_NO_NEW_PRIVS, 1), (_DUMPABLE, 0), (_PDEATHSIG, signal.SIGKILL)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {option}")
    if os.getppid() != parent:
        sys.exit("the owner is gone")


async def _serve(given: dict[str, Any], own: tuple[Network, ...]) -> None:
    loop = asyncio.get_running_loop()
    let_go = asyncio.Event()
    loop.add_reader(0, let_go.set)  # nothing more is ever written there, so this is its end
    loop.add_signal_handler(signal.SIGTERM, let_go.set)
    denied = EgressRules.parse((), given["denied"]).denied
    proxy = EgressProxy(
        socket.socket(fileno=given["fd"]),
        rules=EgressRules(hosts=tuple(given["hosts"]), denied=(*denied, *own)),
        limits=EgressLimits(**given["limits"]),
        used=given["used"],
        audit=_write,
    )
    proxy.start()
    try:
        await let_go.wait()
    finally:
        loop.remove_reader(0)
        await proxy.close()


def _write(event: EgressEvent) -> None:
    """Write an event, and wait until there is room for it: what cannot be noted does not happen."""
    line = event.to_line()
    while line:
        try:
            line = line[os.write(1, line) :]
        except BrokenPipeError:
            os._exit(1)  # nobody hears of it any more


if __name__ == "__main__":
    main()
