"""What the `openai` SDK raises, read into our words; from OpenAI and from the servers that speak like it.

The SDK is imported inside, because this module is loaded with the provider and the SDK only at the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koda_ray.errors import ModelError
from koda_ray.llm.failures import Endpoint, Meaning, ProviderFailure, is_transport, retry_after_s

if TYPE_CHECKING:
    from openai import APIError

__all__ = ["translated"]

_OVERLOADED = frozenset(
    {
        "429",
        "503",
        "529",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_overloaded",
        "slow_down",
    }
)
_UNPAID = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_TOO_LONG = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_TOO_LONG_WORDS = ("maximum context length", "context length exceeded", "exceeds the available context size")


def translated(error: Exception, peer: Endpoint, model: str, *, streaming: bool) -> Exception:
    """Return the error of our tree that says the same; one that is nobody's but a bug comes back as it is.

    Args:
        error: What was raised.
        peer: Who was asked.
        model: For what.
        streaming: The answer had begun; the SDK raises the same when there was no connection and when it broke.
    """
    import openai

    if isinstance(error, ModelError):
        return error
    timed_out = is_transport(error) and type(error).__name__.endswith("Timeout")
    if timed_out or isinstance(error, openai.APITimeoutError | TimeoutError):
        return peer.silent()
    if isinstance(error, openai.APIConnectionError):
        return (
            peer.cut(error.__cause__ if isinstance(error.__cause__, Exception) else error)
            if streaming
            else (peer.unreachable())
        )
    if isinstance(error, openai.APIStatusError):
        headers = error.response.headers
        return peer.failed(
            _failure(error, error.status_code, retry_after=retry_after_s(headers), request_id=error.request_id), model
        )
    if isinstance(error, openai.APIError):
        return peer.failed(_failure(error, 200, retry_after=None, request_id=None), model)
    if is_transport(error):
        return peer.cut(error)
    if isinstance(error, ValueError):
        return peer.garbled(error)
    return error


def _failure(error: APIError, status: int, *, retry_after: float | None, request_id: str | None) -> ProviderFailure:
    said = _said(error)
    return ProviderFailure(
        meaning=_meaning(status, {str(error.code), str(error.type)}, said, error.param),
        status=status,
        kind=error.code or error.type or "unknown",
        said=said,
        retry_after_s=retry_after,
        request_id=request_id,
    )


def _said(error: APIError) -> str:
    body = error.body
    message = body.get("message") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return message if isinstance(message, str) else error.message


def _meaning(status: int, kinds: set[str], said: str, param: str | None) -> Meaning:
    if status in (401, 402, 403) or kinds & _UNPAID:
        return "auth"
    if status in (408, 429) or status >= 500 or (status < 400 and kinds & _OVERLOADED):
        return "overloaded"
    if status < 400:
        return "broken"
    # a limit of the answer that does not fit says the same words, and a shorter conversation would not help it
    about_answer = param in ("max_tokens", "max_completion_tokens") or "is too large" in said
    if status == 413 or kinds & _TOO_LONG or (any(w in said for w in _TOO_LONG_WORDS) and not about_answer):
        return "overflow"
    return "unknown_model" if status == 404 else "refused"
