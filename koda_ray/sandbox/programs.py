"""Runs a program of this machine to its end, and says in our words what went wrong.

It has a session of its own, so that what it starts (debootstrap's apt, npm's node) ends with it when it takes too long
or whoever waits is interrupted.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from koda_ray.errors import Missing, SandboxError

__all__ = ["run_program"]

_MAX_CHARS = 800
_END_TIMEOUT_S = 5.0


def run_program(line: Sequence[str], *, timeout_s: float, way_out: str, cwd: Path | None = None) -> None:
    """Run a program; blocks.

    Args:
        line: Its name and arguments.
        timeout_s: After how long it is ended, with all that it started.
        way_out: What to do where it fails or takes too long, for the message.
        cwd: Where it runs; here when None.

    Raises:
        Missing: MISSING, it is not installed, or may not be run.
        SandboxError: PROVIDER_ERROR, with its last lines.
    """
    try:
        process = subprocess.Popen(
            line, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        if cwd is not None and not cwd.is_dir():
            raise SandboxError(f"{cwd} is not there any more, in which {line[0]} was to run; try again") from None
        raise Missing(
            f"{line[0]} cannot be run ({error.strerror}); install the package that has it, and see that it is on PATH"
        ) from None
    with process:  # closes what it said, however this ends
        try:
            out, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            out, errors = _killed(process)
            raise SandboxError(
                f"{line[0]} was ended because it took longer than {timeout_s:g} s; {way_out}; its last lines: "
                f"{_last(out, errors)}",
                retryable=True,
            ) from None
        except BaseException:
            _killed(process)
            raise
    if process.returncode != 0:
        raise SandboxError(f"{line[0]} ended with code {process.returncode}; {way_out}: {_last(out, errors)}")


def _killed(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End it with its whole session, and return what it had said."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:  # something left its session, and still holds what it writes to
        return "", ""


def _last(out: str, errors: str) -> str:
    return (errors.strip() or out.strip() or "none")[-_MAX_CHARS:]
