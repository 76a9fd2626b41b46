"""How it is told that a command was ended before its end: the same words wherever it ran."""

from __future__ import annotations

from koda_ray.errors import CommandTimeout, QuotaExceeded

__all__ = ["out_of_memory", "passed", "timed_out"]

_LAST_CHARS = 500
_SHELLS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash"})  # which whoever gave it a line need not know of


def timed_out(program: str, *, timeout_s: float, said: str) -> CommandTimeout:
    """Make the error for a command that did not end in time.

    Args:
        program: The command's first word.
        timeout_s: The time that it had.
        said: What it wrote; the end of it is shown.
    """
    command = "the command" if program in _SHELLS else f"`{program[:100]}`"
    return CommandTimeout(
        f"{command} was ended with all that it started after {timeout_s:g} s; give it less to do, or more time. Its "
        f"last output was: {said[-_LAST_CHARS:].strip() or 'nothing'}",
        context={"timeout_s": timeout_s},
    )


def passed(limit: str, words: str) -> QuotaExceeded:
    """Make the error for a command that passed a limit; the words say how, and what to do."""
    return QuotaExceeded(
        f"the command was ended because it passed the sandbox's limit of {limit}: {words}", context={"limit": limit}
    )


def out_of_memory(allowed_bytes: int) -> QuotaExceeded:
    """Make the error for a command that the kernel ended since there was no more memory for it."""
    return passed("memory", f"{allowed_bytes >> 20} MB are allowed; use less, or raise SANDBOX_MEMORY_MB")
