"""Processes in a person's own sandboxes over HTTP: launched, listed, read, followed and killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from koda_ray import errors
from koda_ray.client.boxes import sandbox_path
from koda_ray.client.transport import Transport, Unreachable, backoff_s
from koda_ray.wire import LaunchProcess, ProcessList, ProcessOutput, ProcessView

__all__ = ["OwnProcesses"]


class OwnProcesses(Transport):
    """The part of the client that has to do with processes in sandboxes of your own."""

    async def launch_process(self, sandbox_id: str, name: str, command: str) -> ProcessView:
        """Start a line for a shell in the background, in a terminal of its own.

        Asked for once: where the answer is lost, `process` says whether it was started.

        Raises:
            NotFound: There is no such sandbox.
            Conflict: A process of this name runs.
            InvalidInput: The name or the command.
        """
        body = LaunchProcess.model_construct(name=name, command=command)
        return await self._post(f"{sandbox_path(sandbox_id)}/processes", body, ProcessView, attempts=1)

    async def processes(self, sandbox_id: str, *, everything: bool = False) -> ProcessList:
        """List a sandbox's processes that run; with ``everything`` those that ended, too. Raises NotFound."""
        params = {"all": "true"} if everything else None
        return await self._get(f"{sandbox_path(sandbox_id)}/processes", ProcessList, params=params)

    async def process(self, sandbox_id: str, name: str) -> ProcessView:
        """Read a process, also one that has ended. Raises NotFound."""
        return await self._get(_process(sandbox_id, name), ProcessView)

    async def process_output(self, sandbox_id: str, name: str, *, max_bytes: int = 65536) -> bytes:
        """Read the end of what a process wrote. Raises NotFound."""
        params = {"maxBytes": str(max_bytes)}
        return (await self._send("GET", f"{_process(sandbox_id, name)}/output", params=params)).content

    async def follow_process(
        self, sandbox_id: str, name: str, *, give_up_s: float = 60.0
    ) -> AsyncGenerator[ProcessOutput]:
        """Yield what a process wrote and writes until it ends, coming back after every broken connection.

        The last one has its ``exit_code``, None for one that was killed.

        Raises:
            NotFound: There is no such sandbox or process.
            Unreachable: No server answered for ``give_up_s`` seconds.
        """
        loop = asyncio.get_running_loop()
        place, last_contact, failures = "0", loop.time(), 0
        while True:
            try:
                told = self._told(f"{_process(sandbox_id, name)}/events", headers={"Last-Event-ID": place})
                async with aclosing(told) as events:
                    async for number, kind, data in events:
                        place, last_contact, failures = number or place, loop.time(), 0
                        yield ProcessOutput.model_validate_json(data, extra="ignore")
                        if kind == "end":
                            return
            except Unreachable:
                if loop.time() - last_contact > give_up_s:
                    raise
            failures += 1
            await asyncio.sleep(backoff_s(failures))

    async def kill_process(self, sandbox_id: str, name: str) -> None:
        """End a process with all that it started, and forget what it wrote. Raises NotFound."""
        try:
            await self._send("DELETE", _process(sandbox_id, name))
        except errors.NotFound as error:
            if "attempt" not in error.context:  # else the try before did it, and only its answer was lost
                raise


def _process(sandbox_id: str, name: str) -> str:
    return f"{sandbox_path(sandbox_id)}/processes/{quote(name, safe='')}"
