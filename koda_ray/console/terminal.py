"""Lends this process's own terminal to a process in a sandbox: keys go there, what it shows comes here."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.process import wait_readable

if TYPE_CHECKING:
    from koda_ray.sandbox.base import Terminal

__all__ = ["check_screen", "lend", "size_of_screen", "term_of_screen"]

_KEYS_BYTES = 4096


def check_screen() -> None:
    """Make sure that there is a terminal to lend.

    Raises:
        InvalidInput: INVALID_INPUT, stdin or stdout is none.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInput(
            "attaching needs a terminal, and stdin or stdout is none; read what a process writes with "
            "`koda process output`, or follow it with `koda process follow`"
        )


def size_of_screen() -> tuple[int, int]:
    """Return the terminal's rows and columns; see `check_screen`."""
    check_screen()
    rows, columns = termios.tcgetwinsize(sys.stdout.fileno())
    return (rows, columns) if rows and columns else (24, 80)


def term_of_screen() -> str:
    """Return which kind of terminal this is."""
    return os.environ.get("TERM", "")


async def lend(terminal: Terminal) -> None:
    """Lend the terminal until the other end ends; then it is as it was, and the other end is closed."""
    try:
        async with _raw():
            tasks = [asyncio.create_task(work(terminal)) for work in (_show, _type, _follow_size)]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
    finally:
        await terminal.close()


@asynccontextmanager
async def _raw() -> AsyncGenerator[None]:
    """Have every key arrive as it is, Ctrl-C too."""
    before = termios.tcgetattr(sys.stdin.fileno())
    tty.setraw(sys.stdin.fileno())
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, before)


async def _show(terminal: Terminal) -> None:
    out = sys.stdout.fileno()
    while data := await terminal.read():
        while data:
            try:
                data = data[os.write(out, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.005)


async def _type(terminal: Terminal) -> None:
    keys = sys.stdin.fileno()
    while True:
        await wait_readable(keys)
        data = os.read(keys, _KEYS_BYTES)
        if not data:
            return
        await terminal.write(data)


async def _follow_size(terminal: Terminal) -> None:
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            await changed.wait()
            changed.clear()
            rows, columns = termios.tcgetwinsize(sys.stdout.fileno())
            with suppress(InvalidInput):
                await terminal.resize(rows=rows, columns=columns)
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
