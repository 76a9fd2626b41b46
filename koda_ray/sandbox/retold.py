"""An error as one program tells it and another makes it anew: from inside a sandbox, or from a process of ours.

Where hostile code runs, anything may be told. So from there come only errors that a sandbox has: their classes, the
codes that the programs inside use, and words and numbers that can be stored and sent on. One that says to be a newer
activation's, or that this machine's disk is full, would be believed by whoever looks at codes; it is an error of the
sandbox and no more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import cast

from koda_ray import errors
from koda_ray.errors import (
    CommandBlocked,
    CommandTimeout,
    InvalidInput,
    InvalidPath,
    KodaError,
    NotFound,
    QuotaExceeded,
    SandboxError,
    SandboxNotFound,
    ServerFailed,
    TemplateNotFound,
)
from koda_ray.hearsay import LARGEST, plain

__all__ = ["CODES", "describe_error", "revive", "revive_ours"]

CODES = frozenset({"FILE_NOT_FOUND", "READ_FAILED", "WRITE_FAILED"})
"""What the programs inside give their errors as codes, beside those of the classes."""

_KINDS: dict[str, type[KodaError]] = {
    kind.__name__: kind
    for kind in (
        CommandBlocked, CommandTimeout, InvalidInput, InvalidPath, NotFound, QuotaExceeded, SandboxError,
        SandboxNotFound, ServerFailed, TemplateNotFound,
    )
}  # fmt: skip
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_MAX_WORDS, _MAX_NAME, _MAX_FACTS = 8000, 80, 32

_Value = str | int | float | bool | None


def describe_error(error: KodaError) -> dict[str, object]:
    """Put an error into words that ``revive`` reads."""
    return {
        "type": type(error).__name__,
        "message": error.message,
        "code": error.code,
        "context": error.context,
        "retryable": error.retryable,
    }


def revive(value: object) -> KodaError:
    """Make the error anew that was told from inside a sandbox; whatever else comes is a PROVIDER_ERROR."""
    found = _mapped(value)
    name, code = found.get("type"), found.get("code")
    kind = _KINDS.get(name, SandboxError) if isinstance(name, str) else SandboxError
    return _made(kind, code if isinstance(code, str) and code in CODES else None, found)


def revive_ours(value: object) -> KodaError:
    """Make the error anew that a process of ours has told, whichever of the tree it is."""
    found = _mapped(value)
    kind, code = getattr(errors, str(found.get("type")), None), found.get("code")
    if not (isinstance(kind, type) and issubclass(kind, KodaError)):
        kind = SandboxError
    return _made(kind, code if isinstance(code, str) and _CODE.fullmatch(code) else None, found)


def _made(kind: type[KodaError], code: str | None, found: Mapping[str, object]) -> KodaError:
    said, given, retryable = found.get("message"), found.get("context"), found.get("retryable")
    context: dict[str, _Value] = {}
    for name, value in _mapped(given).items():
        if len(context) < _MAX_FACTS and isinstance(value, str | int | float | None) and _is_held(value):
            context[plain(name, _MAX_NAME)] = plain(value, _MAX_WORDS) if isinstance(value, str) else value
    return kind(
        plain(said, _MAX_WORDS) if isinstance(said, str) else "the sandbox failed without saying why",
        code=code,
        context=context,
        retryable=retryable if isinstance(retryable, bool) else None,
    )


def _mapped(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _is_held(value: _Value) -> bool:
    """Whether every reader of JSON gets a value as it is."""
    match value:
        case float():
            return math.isfinite(value)
        case int():
            return -LARGEST <= value <= LARGEST
        case _:
            return True
