"""What the `anthropic` SDK raises, turned into our error tree: by what a caller can do about it.

The SDK is imported inside, because this module is loaded with the provider and the SDK only at the first call.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from koda_ray.errors import ModelAuth, ModelError, ModelOverloaded, ModelStreamBroken
from koda_ray.llm.retry import RETRY_AFTER

if TYPE_CHECKING:
    from anthropic import APIError, APIStatusError

__all__ = ["Translator"]

_SAID_CHARS = 400
_OVERLOADED_TYPES = frozenset({"overloaded_error", "rate_limit_error"})
_TRANSPORT = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})


@dataclass(frozen=True, repr=False)
class Translator:
    """Knows what to keep out of messages (the key) and what to name in them (host, limits).

    Args:
        api_key: Taken out of anything the server said.
        base_url: Where requests go; the API's own address when None.
        idle_timeout_s: Named when it was reached.
        call_timeout_s: Named when it was reached.
    """

    api_key: str
    base_url: str | None
    idle_timeout_s: float
    call_timeout_s: float

    def translated(self, error: Exception, model: str) -> Exception:
        """Return the error of our tree that says the same; one that is nobody's but a bug comes back as it is."""
        import anthropic

        if isinstance(error, ModelError):
            return error
        if isinstance(error, anthropic.APIStatusError):
            return self._of_status(error, model)
        transport = type(error).__module__.partition(".")[0] in _TRANSPORT
        timed_out = transport and type(error).__name__.endswith("Timeout")
        if timed_out or isinstance(error, anthropic.APITimeoutError | TimeoutError):
            return ModelStreamBroken(
                f"no word from the model for {self.idle_timeout_s:g} s, or no end after {self.call_timeout_s:g} s"
            )
        if isinstance(error, anthropic.APIConnectionError):
            host = urlsplit(str(self.base_url or "https://api.anthropic.com")).netloc.rpartition("@")[2]
            return ModelOverloaded(
                f"cannot reach the model at {host}: check the network and ANTHROPIC_BASE_URL", code="MODEL_UNREACHABLE"
            )
        if transport:
            return ModelStreamBroken(f"the connection broke while the model was answering ({type(error).__name__})")
        if isinstance(error, ValueError):
            return ModelStreamBroken(f"the model's server sent something that is no event ({type(error).__name__})")
        return error

    def _of_status(self, error: APIStatusError, model: str) -> ModelError:
        status, kind, said = error.status_code, _kind(error), self._said(error)
        context: dict[str, str | int | float | bool | None] = {"status": status, "type": kind, "model": model}
        if (request_id := error.response.headers.get("request-id")) is not None:
            context["request_id"] = request_id
        if (asked := _retry_after(error)) is not None:
            context[RETRY_AFTER] = asked
        if status in (401, 402, 403):
            return ModelAuth(
                f"Anthropic does not accept the API key ({status}): {said}. Set ANTHROPIC_API_KEY to a key that may "
                f"use {model}, or unset it for the offline director",
                context=context,
            )
        if kind in _OVERLOADED_TYPES or status in (408, 429) or status >= 500:
            return ModelOverloaded(
                f"Anthropic is overloaded or limits this key ({status} {kind}): {said}", context=context
            )
        if status < 400:
            return ModelStreamBroken(f"the stream ended with an error ({kind}): {said}", context=context)
        if status == 413 or (status == 400 and "prompt is too long" in said):
            return ModelError(
                f"the conversation is too long for {model}: {said}", code="MODEL_CONTEXT_OVERFLOW", context=context
            )
        if status == 404:
            return ModelError(
                f"{model!r} is not a model of this server: {said}. Set KODA_ORCHESTRATOR_MODEL and KODA_CODEGEN_MODEL",
                context=context,
            )
        return ModelError(f"Anthropic refused the request ({status} {kind}): {said}", context=context)

    def _said(self, error: APIError) -> str:
        inner = _inner(error.body).get("message")
        said = inner if isinstance(inner, str) else error.message
        if self.api_key:
            said = said.replace(self.api_key, "[key]")
        return said[:_SAID_CHARS].rstrip(".")


def _inner(body: object) -> dict[str, object]:
    """Dig out ``error`` of ``{"type": "error", "error": {...}}``."""
    error = body.get("error") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return {str(key): value for key, value in error.items()} if isinstance(error, dict) else {}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _kind(error: APIStatusError) -> str:
    kind = _inner(error.body).get("type")
    return kind if isinstance(kind, str) else "unknown"


def _retry_after(error: APIStatusError) -> float | None:
    """Read how long to wait, in seconds: a number or an HTTP date.

    Source: RFC 9110, section 10.2.3.
    """
    value = error.response.headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
