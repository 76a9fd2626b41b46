"""The helper's terminal, by itself: it ends with whoever it serves, also where nobody says that they are gone."""

from __future__ import annotations

import asyncio
import sys

import psutil
import pytest

from koda_ray.sandbox.frames import send

_SERVE = """
import sys
from koda_ray.sandbox import inside_terminal
inside_terminal.SILENCE_S = float(sys.argv[1])
inside_terminal.serve(["/bin/sh", "-c", "echo up; trap '' HUP; exec sleep 1001"], rows=24, columns=80)
"""


async def _served(silence_s: float) -> tuple[asyncio.subprocess.Process, psutil.Process]:
    pipe = asyncio.subprocess.PIPE
    helper = await asyncio.create_subprocess_exec(sys.executable, "-c", _SERVE, str(silence_s), stdin=pipe, stdout=pipe)
    assert helper.stdout is not None
    async with asyncio.timeout(60):
        assert await helper.stdout.readline() == b"up\r\n"
    [command] = psutil.Process(helper.pid).children()
    return helper, command


async def _both_end(helper: asyncio.subprocess.Process, command: psutil.Process) -> None:
    async with asyncio.timeout(60):
        assert await helper.wait() == 0
    assert not command.is_running()


@pytest.mark.full
async def test_a_command_ends_when_nothing_is_heard_of_whoever_it_is_for() -> None:
    helper, command = await _served(5)
    assert helper.stdin is not None
    for _ in range(5):  # as long as something is said, it stays
        await send(helper.stdin, {"size": 0})
        await asyncio.sleep(1.2)
        assert command.is_running()
    await _both_end(helper, command)


async def test_a_command_ends_with_the_connection() -> None:
    helper, command = await _served(600)
    assert helper.stdin is not None
    helper.stdin.close()
    await _both_end(helper, command)
