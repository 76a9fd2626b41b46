"""Calls that failed: when it is no use to make them again, and what they failed of in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from koda_ray.roles.offline.conversation import Exchange
from koda_ray.roles.offline.given import mapping, parsed, text
from koda_ray.roles.offline.language import said

__all__ = ["MAX_ATTEMPTS", "error_words", "failed_too_often", "why"]

MAX_ATTEMPTS = 3


def failed_too_often(past: Sequence[Exchange], name: str, since: int) -> bool:
    """Return whether a tool has failed `MAX_ATTEMPTS` times in a row after the turn ``since``."""
    failures = [e for e in past if e.call.name == name and e.turn > since][-MAX_ATTEMPTS:]
    return len(failures) == MAX_ATTEMPTS and all(e.failed for e in failures)


def why(past: Sequence[Exchange]) -> str:
    """Return what the last call failed of."""
    failed = [e for e in past if e.failed]
    return error_words(failed[-1].result or "") if failed else said("failed.no_reason")


def error_words(content: str) -> str:
    """Return the words of an error, as JSON or as they stand, in one line."""
    value = parsed(content)
    inner = mapping(value.get("error")) or value
    message = text(inner.get("message")) or text(value.get("error")) or content
    return re.sub(r"\s+", " ", message).strip()[:400]
