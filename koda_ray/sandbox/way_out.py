"""A sandbox's egress proxy: started by a command that asks for the network, ended with its owner at the latest.

One that has died is not missed until a command asks again; until then, and for the commands that it served, there is no
way out. What it decides goes to the log, with the sandbox's id. What it let through counts for those after it, also of
one that was killed while it did: hostile code may bring that about.

What outlives whoever started it has nobody who asks again. Its holder tends its way out: when the proxy ends, another
follows on the very socket that the process has, after longer and longer pauses where it ends again and again. In
between, and where none can be started, nothing gets out.

A sandbox whose commands each see a socket of their own keeps its proxy (``open``). Where all commands share what is
inside, the proxy is there only while one runs that asked for it (``held``): others could use its socket as well.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from koda_ray.cancellation import finish
from koda_ray.errors import SandboxError
from koda_ray.sandbox.egress.audit import EgressEvent
from koda_ray.sandbox.egress.budget import PROGRESS_BYTES, Way
from koda_ray.sandbox.egress.process import EgressProcess, EgressSocket
from koda_ray.sandbox.egress.rules import Egress, EgressRules
from koda_ray.sandbox.refused import note

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

__all__ = ["WayOut"]

_PAUSE_S = 0.1
_MOST_PAUSE_S = 30.0
_STEADY_S = 60.0


class WayOut:
    """The way out of one sandbox.

    Args:
        sandbox_id: For the log.
        at: Where the proxy listens, and who may connect there.
        egress: What may be reached.
        launch: Wraps the proxy's command line, so that it counts as the sandbox's and is found as its.
    """

    def __init__(
        self,
        sandbox_id: str,
        *,
        at: EgressSocket,
        egress: Egress,
        launch: Callable[[Sequence[str]], Sequence[str]],
    ) -> None:
        self._sandbox_id = sandbox_id
        self._at = at
        self._egress = egress
        self._launch = launch
        self._process: EgressProcess | None = None
        self._tended = False
        self._listener: socket.socket | None = None
        self._tending: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._holders = 0
        self._used: dict[Way, int] = {"sent": 0, "received": 0}

    @property
    def rules(self) -> EgressRules:
        """What may be reached, and so named by commands."""
        return self._egress.rules

    @property
    def leads(self) -> bool:
        """Whether anything may be reached; where nothing may, no proxy is needed."""
        return bool(self._egress.rules.hosts)

    @property
    def process(self) -> EgressProcess | None:
        """The proxy, where one was started."""
        return self._process

    def tend(self) -> None:
        """Have a proxy that ends by itself followed by another from now on, on the same socket, until ``close``."""
        self._tended = True

    async def open(self) -> str:
        """Return the socket of a proxy that runs, starting one where there is none.

        Raises:
            SandboxError: PROVIDER_ERROR, it could not be started.
        """
        async with self._opening:
            if self._process is None or not self._process.running:
                await self._start()
            return self._at.path

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[str]:
        """Have a proxy for the block, which the last block that has it ends.

        Yields:
            Its socket.

        Raises:
            SandboxError: PROVIDER_ERROR, it could not be started.
        """
        self._holders += 1
        try:
            yield await self.open()
        finally:
            self._holders -= 1
            if self._holders == 0:
                await finish(self._let_go())

    async def _let_go(self) -> None:
        async with self._opening:
            if self._holders == 0:
                await self._end()

    async def close(self) -> None:
        """End the proxy; may be called twice."""
        async with self._opening:
            await self._end()

    # inside; the first two in the turn of whoever opens or closes

    async def _start(self) -> None:
        untold = 0
        if self._process is not None:
            await self._process.close()
            untold = PROGRESS_BYTES  # at most, of what it has passed on
            _logger().error(
                "the egress proxy ended by itself, and is started again",
                sandbox_id=self._sandbox_id,
                last_lines=self._process.last_lines,
            )
        if self._tended and self._listener is None:
            self._listener = self._at.listen()
        used: dict[Way, int] = {way: count + untold for way, count in self._used.items()}
        self._process = await EgressProcess.start(
            self._at, egress=self._egress, audit=self._note, used=used, launch=self._launch, listener=self._listener
        )
        self._used = used
        if self._tended and self._tending is None:
            self._tending = asyncio.create_task(self._tend(self._process), name=f"way-out-of-{self._sandbox_id}")

    async def _end(self) -> None:
        tending, self._tending = self._tending, None
        if tending is not None:
            tending.cancel()
            await asyncio.wait({tending})
        process, self._process = self._process, None
        if process is not None:
            await process.close()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            with suppress(FileNotFoundError):
                os.unlink(self._at.path)

    async def _tend(self, process: EgressProcess) -> None:
        """Replace a proxy that has ended, again and again, until cancelled by whoever ends it on purpose."""
        clock = asyncio.get_running_loop().time
        pause_s = _PAUSE_S
        while True:
            began = clock()
            await process.ended()
            if clock() - began > _STEADY_S:
                pause_s = _PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
            async with self._opening:
                if self._process is process:
                    try:
                        await self._start()
                    except SandboxError as error:
                        _logger().error(
                            "the egress proxy could not be started again; nothing gets out until it can",
                            sandbox_id=self._sandbox_id,
                            error=error.message,
                            again_in_s=pause_s,
                        )
                process = self._process or process

    def _note(self, event: EgressEvent) -> None:
        self._used = {"sent": event.spent_sent_bytes, "received": event.spent_received_bytes}
        if event.verdict == "progress":
            return
        _logger().info("sandbox egress", sandbox_id=self._sandbox_id, **asdict(event))
        if event.verdict == "refused":
            note(self._sandbox_id, "egress", code=event.code, how=event.how, host=event.host, port=event.port)


def _logger() -> FilteringBoundLogger:
    from koda_ray.logs import get_logger  # imported by the first who has something to say

    return get_logger(__name__)
