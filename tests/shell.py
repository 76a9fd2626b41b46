"""``koda`` as a person runs it: in this process, for what it prints, or in one of its own at a pseudo-terminal."""

from __future__ import annotations

import asyncio
import codecs
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path

import pytest

from koda_ray.cli import main

__all__ = ["KODA", "PROMPT", "KodaTerminal", "Shell", "ShellRun"]

PROMPT = "Create a bouncing ball animation, playful"
KODA = [sys.executable, "-m", "koda_ray"]


@dataclass
class ShellRun:
    status: int
    out: str
    err: str


@dataclass
class Shell:
    """Runs ``koda`` in a folder, against a server."""

    folder: Path
    url: str

    def environment(self) -> dict[str, str]:
        data = {"DATABASE_PATH": str(self.folder / "koda.db"), "STORAGE_PATH": str(self.folder / "storage")}
        return {**os.environ, **data, "KODA_SERVER": self.url, "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}

    async def __call__(self, *words: str, stdin: str = "", **environment: str) -> ShellRun:
        return await asyncio.to_thread(self._run, words, stdin, {**self.environment(), **environment})

    def _run(self, words: tuple[str, ...], stdin: str, environment: dict[str, str]) -> ShellRun:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["koda", *words])
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            patch.chdir(self.folder)
            for name, value in environment.items():
                patch.setenv(name, value)
            try:
                main()
                status = 0
            except SystemExit as ended:
                status = int(ended.code or 0)
        return ShellRun(status, out.getvalue(), err.getvalue())


class KodaTerminal:
    """A pseudo-terminal with ``koda`` in it. What was expected once is behind us: the next is looked for after it."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self._parent, child = pty.openpty()
        ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        environment = {**shell.environment(), "TERM": "xterm-256color"}
        environment.pop("NO_COLOR")
        self._process = subprocess.Popen(
            [*KODA, *words], cwd=shell.folder, env=environment, stdin=child, stdout=child, stderr=child, close_fds=True
        )
        os.close(child)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._raw = ""
        self._read_to = 0

    @property
    def seen(self) -> str:
        """All that was shown so far, without what only moves the cursor or colours."""
        return re.sub(r"\x1b(\[[0-9;?]*([A-Za-z]|$)|$)", "", self._raw)

    def expect(self, words: str, *, within_s: float = 60) -> None:
        deadline = time.monotonic() + within_s
        while (found := self.seen.find(words, self._read_to)) < 0:
            if time.monotonic() > deadline:
                raise AssertionError(f"never saw {words!r} in:\n{self.seen[self._read_to :][-3000:]}")
            if select.select([self._parent], [], [], 0.1)[0] and not self._read():
                raise AssertionError(f"ended without {words!r}:\n{self.seen[-3000:]}")
        self._read_to = found + len(words)

    def type(self, text: str) -> None:
        os.write(self._parent, text.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> int:
        while select.select([self._parent], [], [], 60)[0] and self._read():
            pass
        os.close(self._parent)
        return self._process.wait(60)

    def _read(self) -> bool:
        try:
            block = os.read(self._parent, 65536)
        except OSError:  # the other side is closed
            return False
        self._raw += self._decoder.decode(block)
        return True
