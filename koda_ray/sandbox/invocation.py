"""A program as it is called inside a sandbox, before any walls are put around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Invocation"]


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """What is run, where, and with what.

    Args:
        argv: The program and its arguments, as they are seen inside.
        cwd: A checked path relative to the project.
        env: Added to the small environment that every process starts with.
        pass_fds: Descriptors that it is given besides its input and outputs.
    """

    argv: Sequence[str]
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    pass_fds: Sequence[int] = ()
