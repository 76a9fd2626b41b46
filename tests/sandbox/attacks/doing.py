"""How the attacks are done: by a shell, and by system calls."""

from __future__ import annotations

from tests.sandbox.conftest import AnySandbox
from tests.services import need

__all__ = ["perl", "sh"]


async def sh(sandbox: AnySandbox, text: str, *, timeout_s: float = 90.0) -> tuple[int, str]:
    done = await sandbox.run(("sh", "-c", text), timeout_s=timeout_s)
    return done.exit_code, done.stdout + done.stderr


async def perl(sandbox: AnySandbox, text: str) -> str:
    need("perl")  # which makes system calls by number
    done = await sandbox.run(("perl", "-e", text), timeout_s=90)
    return done.stdout + done.stderr
