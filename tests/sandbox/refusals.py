"""What the log says that sandboxes were refused."""

from __future__ import annotations

import re

import pytest

__all__ = ["refusals", "refused_calls"]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def refusals(capsys: pytest.CaptureFixture[str], sandbox_id: str) -> set[str]:
    """Read what a sandbox was refused since this was last asked."""
    lines = _lines(capsys, sandbox_id)
    return {found[1] for line in lines if (found := re.search(r" refused=(\w+)", line)) is not None}


def refused_calls(capsys: pytest.CaptureFixture[str], sandbox_id: str, *, beside: str = "") -> set[str]:
    """Read which system calls a sandbox was refused since this was last asked; asserts that nothing else was.

    Args:
        capsys: What was logged.
        sandbox_id: Whose.
        beside: A kind of refusal that may be there as well.
    """
    lines = [line for line in _lines(capsys, sandbox_id) if not beside or f" refused={beside} " not in line]
    found = {call[1] for line in lines if (call := re.search(r" call=(\w+) +refused=call ", line)) is not None}
    assert len(found) == len(lines), lines
    return found


def _lines(capsys: pytest.CaptureFixture[str], sandbox_id: str) -> list[str]:
    said = "".join(capsys.readouterr())  # logs go where the tests before this one left them
    lines = _COLOUR.sub("", said).splitlines()
    return [line for line in lines if "sandbox refused" in line and f"sandbox_id={sandbox_id}" in line]
