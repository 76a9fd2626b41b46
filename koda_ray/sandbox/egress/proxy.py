"""A sandbox's way out: a proxy (HTTP CONNECT, plain HTTP/1.1) on one Unix socket, closed unless a rule opens it.

One proxy serves one sandbox, so its budget is that sandbox's. It never looks at what a tunnel carries, keeps no cache,
and holds no secret. It runs in a process of its own (`process`); here is what that process does.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from functools import partial

from koda_ray.sandbox.egress.audit import Audit, EgressEvent
from koda_ray.sandbox.egress.budget import TrafficBudget, Way
from koda_ray.sandbox.egress.conversation import Conversation, Terms
from koda_ray.sandbox.egress.resolve import Resolver, SystemResolver
from koda_ray.sandbox.egress.rules import EgressLimits, EgressRules, Refused
from koda_ray.sandbox.egress.wire import close, linger

__all__ = ["EgressProxy"]

_RETRY_S = 0.1


class EgressProxy:
    """Serves one listening Unix socket from ``start`` to ``close``.

    Args:
        listener: Bound and listening; owned and closed here.
        rules: What may be reached.
        limits: How much of it.
        used: What was let through of them before.
        resolver: Looks names up; the machine's own name service when None. What it says is judged all the same.
        audit: Hears of each decision.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        rules: EgressRules,
        limits: EgressLimits | None = None,
        used: Mapping[Way, int] | None = None,
        resolver: Resolver | None = None,
        audit: Audit,
    ) -> None:
        self._listener = listener
        self._limits = limits or EgressLimits()
        self._terms = Terms(
            rules=rules,
            limits=self._limits,
            resolver=resolver or SystemResolver(),
            budget=TrafficBudget(self._limits, tell=self._tell, used=used),
            audit=audit,
        )
        self._serving: set[asyncio.Task[None]] = set()
        self._held = 0
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to accept connections."""
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(), name="egress-accept")

    async def close(self) -> None:
        """Cut every connection and close the socket; may be called twice."""
        tasks = [*self._serving, *([self._accepting] if self._accepting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    def _tell(self) -> None:
        self._terms.note(EgressEvent(verdict="progress"))

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._terms.budget.pace()
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError:  # no descriptor is left: those who wait keep waiting until one is
                await asyncio.sleep(_RETRY_S)
                continue
            # decided now: by the time that the task runs, many more may have been accepted
            full = self._held >= self._limits.connections
            self._held += not full
            task = loop.create_task(self._serve(connection, full=full), name="egress-connection")
            self._serving.add(task)
            task.add_done_callback(partial(self._served, connection, full))

    def _served(self, connection: socket.socket, full: bool, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        self._held -= not full
        connection.close()  # also where the task was cancelled before it began

    async def _serve(self, connection: socket.socket, *, full: bool) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            conversation = Conversation(self._terms, reader, writer)
            if full:
                words = f"{self._limits.connections} connections are open already; close one, or wait and try again"
                await conversation.refuse(Refused("TOO_MANY_CONNECTIONS", 503, words))
            else:
                await conversation.hold()
            if len(self._serving) <= 2 * self._limits.connections:
                await linger(reader, writer)
        except OSError:
            pass  # whoever it was has gone before it could be told
        finally:
            await close(writer)
