"""Processes that end once nobody is at their terminal any more: shells of pages, to which nobody comes back.

A page says good-bye where it can; one that was cut off, or whose browser crashed, cannot. Who is there the sandbox's
own tmux says, so whoever came back meanwhile, on another server too, has it go on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from koda_ray.errors import NotFound, SandboxNotFound
from koda_ray.sandbox.tmux import Tmux
from koda_ray.sandbox.workshop import Workshop

__all__ = ["end_left"]


async def end_left(
    workshop: Workshop, sandbox_id: str, name: str, run: str, *, after_s: float, over: asyncio.Event
) -> None:
    """Wait, then end a process with all that it started, and forget it, unless somebody is at its terminal.

    Args:
        workshop: Its person's.
        sandbox_id: Where it runs.
        name: Its name.
        run: Tells it from others that had, or will have, its name.
        after_s: How long it is waited for somebody, in seconds.
        over: Once this is set nobody is waited for any longer: the server stops.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(after_s):
            await over.wait()
    with suppress(NotFound, SandboxNotFound):  # it was ended, or its sandbox was
        if await Tmux(await workshop.connect(sandbox_id)).is_left(name, run):
            await workshop.kill(sandbox_id, name)
