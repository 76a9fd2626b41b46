"""Amounts as files write them: bytes with Docker's and Kubernetes' units, spans of time with Docker's."""

from __future__ import annotations

import re

__all__ = ["bytes_in", "seconds_in"]

_DOCKER = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_KUBERNETES = {"K": 1000, "k": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_SPANS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def bytes_in(text: str | None, *, kubernetes: bool = False) -> float | None:
    """Read an amount of memory; None where it is none.

    Args:
        text: ``512m``, ``2gb`` (Docker, in powers of 1024), ``2Gi``, ``2G`` (Kubernetes).
        kubernetes: Whether ``2G`` means 1000 to the third, as Kubernetes has it.

    Source: the Compose specification, byte values; Kubernetes, resource quantities.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", (text or "").strip().strip("'\""))
    if found is None:
        return None
    number, unit = float(found[1]), found[2]
    if unit.endswith("i") and unit[:-1].lower() in _DOCKER:
        return number * _DOCKER[unit[:-1].lower()]
    if kubernetes:
        return number * _KUBERNETES[unit] if unit in _KUBERNETES else number if not unit else None
    unit = unit.lower()
    unit = unit.removesuffix("b") if len(unit) > 1 else unit
    return number * _DOCKER[unit] if unit in _DOCKER else None


def seconds_in(text: str | None) -> float | None:
    """Read a span of time such as ``1m30s``; None where it is none. Source: the Compose specification, durations."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)", (text or "").strip())
    if not parts or "".join(number + unit for number, unit in parts) != (text or "").strip():
        return None
    return sum(float(number) * _SPANS[unit] for number, unit in parts)
