"""What the `anthropic` SDK raises, read into our words.

The SDK is imported inside, because this module is loaded with the provider and the SDK only at the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koda_ray.errors import ModelError
from koda_ray.llm.failures import Endpoint, Meaning, ProviderFailure, is_transport, retry_after_s

if TYPE_CHECKING:
    from anthropic import APIStatusError

__all__ = ["translated"]

_OVERLOADED_TYPES = frozenset({"overloaded_error", "rate_limit_error"})


def translated(error: Exception, peer: Endpoint, model: str) -> Exception:
    """Return the error of our tree that says the same; one that is nobody's but a bug comes back as it is."""
    import anthropic

    if isinstance(error, ModelError):
        return error
    if isinstance(error, anthropic.APIStatusError):
        return peer.failed(_failure(error), model)
    timed_out = is_transport(error) and type(error).__name__.endswith("Timeout")
    if timed_out or isinstance(error, anthropic.APITimeoutError | TimeoutError):
        return peer.silent()
    if isinstance(error, anthropic.APIConnectionError):
        return peer.unreachable()
    if is_transport(error):
        return peer.cut(error)
    if isinstance(error, ValueError):
        return peer.garbled(error)
    return error


def _failure(error: APIStatusError) -> ProviderFailure:
    inner = _inner(error.body)
    kind, message, headers = inner.get("type"), inner.get("message"), error.response.headers
    kind = kind if isinstance(kind, str) else "unknown"
    said = message if isinstance(message, str) else error.message
    return ProviderFailure(
        meaning=_meaning(error.status_code, kind, said),
        status=error.status_code,
        kind=kind,
        said=said,
        retry_after_s=retry_after_s(headers),
        request_id=headers.get("request-id"),
    )


def _meaning(status: int, kind: str, said: str) -> Meaning:
    if status in (401, 402, 403):
        return "auth"
    if kind in _OVERLOADED_TYPES or status in (408, 429) or status >= 500:
        return "overloaded"
    if status < 400:
        return "broken"
    if status == 413 or (status == 400 and "prompt is too long" in said):
        return "overflow"
    return "unknown_model" if status == 404 else "refused"


def _inner(body: object) -> dict[str, object]:
    """Dig out ``error`` of ``{"type": "error", "error": {...}}``."""
    error = body.get("error") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return {str(key): value for key, value in error.items()} if isinstance(error, dict) else {}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
