"""What a shell line that starts Ray says: options of ``ray start``, variables and limits set before it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from koda_ray.errors import InvalidInput

__all__ = ["RayStart", "find_ray_start", "variables_in"]

_UNKNOWN = (re.compile(r"\$(?:\{\w+\}|\w+)"), re.compile(r"\$\([^()]*\)"), re.compile(r"\$\(\(.*?\)\)"))
"""What a shell puts something else for: a variable, then a command, then a sum of those."""
_START = re.compile(r"\bray\s+start\b([^;&|\n]*)")
_OPEN_FILES = re.compile(r"\bulimit\s+(?:-[SH]*n|-n)\s+(\d+)")
_VARIABLE = re.compile(r"(?:^|[\s;&(])(?:export\s+)?([A-Z][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S*)")


@dataclass(frozen=True)
class RayStart:
    """A ``ray start``.

    Args:
        head: Whether it starts a head.
        cpus: ``--num-cpus``.
        memory_bytes: ``--memory``.
        store_bytes: ``--object-store-memory``.
        resources: ``--resources``.
        blocks: ``--block``: it stays, and drains its node when it is told to end.
        open_files: What ``ulimit -n`` before it says.
        reports: Whether it may tell Ray's makers how it is used.
    """

    head: bool
    cpus: float | None = None
    memory_bytes: float | None = None
    store_bytes: float | None = None
    resources: Mapping[str, int] = field(default_factory=dict[str, int])
    blocks: bool = False
    open_files: float | None = None
    reports: bool = True


def find_ray_start(command: str) -> RayStart | None:
    """Find the ``ray start`` in a shell line; None where there is none.

    What the shell would put in (a variable, a command's answer) counts as 1 where an amount stands.

    Raises:
        InvalidInput: Its resources are no JSON object of numbers.
    """
    line = command.replace("\\\n", " ")
    for unknown in _UNKNOWN:
        line = unknown.sub("1", line)
    found = _START.search(line)
    if found is None:
        return None
    options = _options(found[1])
    limit = _OPEN_FILES.search(command)
    return RayStart(
        head="--head" in options,
        cpus=_amount(options.get("--num-cpus")),
        memory_bytes=_amount(options.get("--memory")),
        store_bytes=_amount(options.get("--object-store-memory")),
        resources=_resources(options.get("--resources")),
        blocks="--block" in options,
        open_files=float(limit[1]) if limit else None,
        reports="--disable-usage-stats" not in options,
    )


def variables_in(command: str) -> dict[str, str]:
    """Return what a shell line sets in the environment."""
    return {name: value.strip("'\"") for name, value in _VARIABLE.findall(command)}


def _options(arguments: str) -> dict[str, str]:
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise InvalidInput(f"the shell cannot read {arguments.strip()!r}: {error}") from None
    options: dict[str, str] = {}
    for place, word in enumerate(words):
        name, given, value = word.partition("=")
        if not name.startswith("--"):
            continue
        follows = words[place + 1] if place + 1 < len(words) and not words[place + 1].startswith("--") else ""
        options[name] = value if given else follows
    return options


def _amount(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _resources(text: str | None) -> dict[str, int]:
    if text is None:
        return {}
    try:
        found = cast("object", json.loads(text))
    except ValueError as error:
        raise InvalidInput(f"--resources={text!r} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"--resources={text!r} is no JSON object")
    return {name: int(float(amount)) for name, amount in cast("dict[str, str | float]", found).items()}
