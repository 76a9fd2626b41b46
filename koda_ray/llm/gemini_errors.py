"""What the `google-genai` SDK raises, read into our words.

The SDK is imported inside, because this module is loaded with the provider and the SDK only at the first call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from koda_ray.errors import ModelError
from koda_ray.llm.failures import Endpoint, Meaning, ProviderFailure, is_transport, retry_after_s

if TYPE_CHECKING:
    from google.genai.errors import APIError

__all__ = ["translated"]

_UNREACHABLE = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
_BUSY = (408, 429, 503, 529)
_BAD_KEY = ("API_KEY_INVALID", "API key not valid", "API key expired")


def translated(error: Exception, peer: Endpoint, model: str, *, streaming: bool) -> Exception:
    """Return the error of our tree that says the same; one that is nobody's but a bug comes back as it is.

    Args:
        error: What was raised.
        peer: Who was asked.
        model: For what.
        streaming: The answer had begun: a failure of theirs is then a broken stream, not a refusal to begin.
    """
    from google.genai import errors

    if isinstance(error, ModelError):
        return error
    if isinstance(error, errors.APIError):
        return peer.failed(_failure(error, streaming=streaming), model)
    if is_transport(error):
        if type(error).__name__ in _UNREACHABLE:
            return peer.unreachable()
        return peer.silent() if type(error).__name__.endswith("Timeout") else peer.cut(error)
    if isinstance(error, TimeoutError):
        return peer.silent()
    if isinstance(error, ValueError):
        return peer.garbled(error)
    return error


def _failure(error: APIError, *, streaming: bool) -> ProviderFailure:
    # the SDK's own types leave open what an answer and its details are
    details, response = cast("object", cast("Any", error).details), cast("object", cast("Any", error).response)
    said = error.message or "no reason given"
    status = error.code or 0
    headers = getattr(response, "headers", None)
    asked = retry_after_s(headers) if headers is not None and not streaming else None
    return ProviderFailure(
        meaning=_meaning(status, said, str(details), streaming=streaming),
        status=status,
        kind=error.status or "unknown",
        said=said,
        retry_after_s=_retry_delay_s(details) if asked is None else asked,
    )


def _meaning(status: int, said: str, details: str, *, streaming: bool) -> Meaning:
    if status in (401, 402, 403) or (status == 400 and any(word in details for word in _BAD_KEY)):
        return "auth"
    if status in _BUSY or (status >= 500 and not streaming):
        return "overloaded"
    if streaming:
        return "broken"
    if status == 413 or (status == 400 and "token count" in said and "exceeds" in said):
        return "overflow"
    return "unknown_model" if status == 404 else "refused"


def _retry_delay_s(details: object) -> float | None:
    """Find how long to wait in an error's details, where Gemini writes it in place of the header.

    Source: google.rpc.RetryInfo, a duration such as ``17.5s``.
    """
    for detail in _details(details):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (found := re.fullmatch(r"(\d+(?:\.\d+)?)s", delay)) is not None:
            return float(found[1])
    return None


def _details(details: object) -> Iterator[dict[str, object]]:
    error = cast("dict[str, object]", details).get("error") if isinstance(details, dict) else None
    listed = cast("dict[str, object]", error).get("details") if isinstance(error, dict) else None
    for each in cast("list[object]", listed) if isinstance(listed, list) else []:
        if isinstance(each, dict):
            yield cast("dict[str, object]", each)
