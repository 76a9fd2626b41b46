"""How a container's first process is asked for something, and what is said where it does not answer any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from koda_ray.errors import SandboxError, SandboxNotFound
from koda_ray.sandbox.baits import Baits
from koda_ray.sandbox.engine import Container
from koda_ray.sandbox.frames import Message, receive_object, send
from koda_ray.sandbox.gvisor_trace import GvisorTrace
from koda_ray.sandbox.lifecycle import Living, let_go
from koda_ray.sandbox.link import Connection, Link
from koda_ray.sandbox.refused import note, noted
from koda_ray.sandbox.retold import revive

__all__ = ["WayIn", "answer_or_error"]

_TIMEOUT_S = 120.0
_LOOK_S = 1.0
_ENDING_S = 10.0
_ANSWER_S = 10.0  # a container that a bomb keeps busy takes seconds
_PROBE_PERIOD_S = 0.05


class WayIn:
    """Requests to one container.

    Args:
        sandbox_id: Its sandbox's.
        link: The connections to its first process.
        look: Looks at the container; None when it is gone.
        is_known: Whether there still is a record of the sandbox.
        trace: What the container's kernel tells; None where it does not.
        decoys: What the container sees in place of this program's own.

    Attributes:
        living: Where the sandbox is in its life, as far as is known here.
    """

    def __init__(
        self,
        sandbox_id: str,
        link: Link,
        *,
        look: Callable[[], Awaitable[Container | None]],
        is_known: Callable[[], bool],
        trace: GvisorTrace | None,
        decoys: Baits,
    ) -> None:
        self._id = sandbox_id
        self.link = link
        self._look = look
        self.living = Living()
        self._is_known = is_known
        self.trace = trace
        self._decoys = decoys
        self._decoys_read = decoys.total()

    def decoys_read(self) -> int:
        """Say how often what is in place of this program's own was found to have been read since the last time."""
        before, self._decoys_read = self._decoys_read, self._decoys.total()
        return self._decoys_read - before

    async def is_alive(self) -> bool:
        """Whether the container runs and its first process answers; one that does not may again."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + _ANSWER_S
        while True:
            found = await self._find()
            if found is None or found.state != "running":
                self.living.stop()
                return False
            if self.link.closed or await self._answers(deadline):
                return True
            if clock() >= deadline:
                return False

    async def ask(self, operation: str, request: Message) -> Message:
        """Send a request and wait for its answer."""
        async with self.exchange(operation, request) as (reader, _):
            return answer_or_error(await receive_object(reader))

    @asynccontextmanager
    async def exchange(
        self,
        operation: str,
        request: Message,
        blobs: Sequence[bytes] = (),
        *,
        timeout_s: float | None = _TIMEOUT_S,
    ) -> AsyncGenerator[Connection]:
        """Send a request and leave the answer to the block; errors of the way become ones that say what happened."""
        reader, writer = await self.connection()
        try:
            async with asyncio.timeout(timeout_s):
                await send(writer, {"op": operation, **request}, blobs)
                with noted(self._id):
                    yield reader, writer
        except TimeoutError:
            await self.check_alive()
            if not await self.is_alive():
                raise self._unresponsive() from None
            raise SandboxError(
                f"the sandbox {self._id} did not answer {operation!r} in time; destroy it and make another"
            ) from None
        except (EOFError, OSError) as error:
            await self.check_ending()
            raise SandboxError(f"the sandbox {self._id} broke off {operation!r} ({error}); try again") from error
        finally:
            await self.link.release(writer)

    async def connection(self) -> Connection:
        """Take a connection on which the first process waits for one request; the link takes it back."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT_S
        timeout_s = 0.05
        while loop.time() < deadline:
            found = await self.link.connection(timeout_s=timeout_s)
            if found is not None:
                return found
            await self.check_alive()
            if self.link.closed:
                raise let_go(self._id)
            timeout_s = _LOOK_S
        raise self._unresponsive()

    async def check_ending(self) -> None:
        """As ``check_alive``, for one that may be about to end: a busy engine knows seconds later than its socket."""
        deadline = asyncio.get_running_loop().time() + _ENDING_S
        while asyncio.get_running_loop().time() < deadline:
            await self.check_alive()
            if self.link.closed:
                return
            found = await self.link.connection(timeout_s=_PROBE_PERIOD_S)
            if found is not None:
                await self.link.release(found[1])
                return

    async def check_alive(self) -> None:
        """Look at the container.

        Raises:
            SandboxNotFound: SANDBOX_NOT_FOUND, with how it ended in ``context["reason"]``.
        """
        found = await self._find()
        if found is None or found.state != "running":
            if found is not None and found.state == "out_of_memory" and self.living.state != "stopped":
                note(self._id, "memory", words=found.why)
            self.living.stop()
            reason = "removed" if found is None else found.state
            why = "it was removed" if found is None else found.why
            raise SandboxNotFound(
                f"the sandbox {self._id} is gone ({why}); make another and restore the last checkpoint into it",
                context={
                    "sandbox_id": self._id,
                    "reason": reason,
                    "exit_code": None if found is None else found.exit_code,
                },
            )

    async def _answers(self, deadline: float) -> bool:
        """Whether the first process answers; one that has just ended breaks off, before the engine knows."""
        found = await self.link.connection(timeout_s=_LOOK_S)
        if found is None:
            return False
        reader, writer = found
        try:
            async with asyncio.timeout_at(deadline):
                await send(writer, {"op": "hello"})
                await receive_object(reader)
        except (TimeoutError, EOFError, OSError):
            return False
        finally:
            await self.link.release(writer)
        return True

    def _unresponsive(self) -> SandboxError:
        return SandboxError(
            f"the sandbox {self._id} runs, and its first process does not answer; try again, or destroy it and make "
            "another",
            context={"sandbox_id": self._id, "reason": "unresponsive"},
        )

    async def _find(self) -> Container | None:
        return await self._look() if self._is_known() else None


def answer_or_error(answer: Message) -> Message:
    """Return an answer; raise the error that it is."""
    if "error" in answer:
        raise revive(answer["error"])
    return answer
