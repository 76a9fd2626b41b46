"""What goes wrong between us and a model's server, said alike for all providers: by what a caller can do about it.

A provider reads its SDK's exception into a `ProviderFailure`; the words, the class and the code are made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import urlsplit

from koda_ray.errors import Missing, ModelAuth, ModelError, ModelOverloaded, ModelStreamBroken
from koda_ray.llm.retry import RETRY_AFTER

__all__ = ["Endpoint", "Meaning", "ProviderFailure", "is_transport", "missing_sdk", "retry_after_s", "usable_key"]

Meaning = Literal["auth", "overloaded", "overflow", "broken", "unknown_model", "refused"]

_SAID_CHARS = 400
_TRANSPORT = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})


@dataclass(frozen=True, kw_only=True)
class ProviderFailure:
    """What a server answered in place of a message, or in the middle of one.

    Args:
        meaning: What it comes to.
        status: HTTP status, or the one that an event in the stream names.
        kind: The server's own word for it.
        said: The server's own words.
        retry_after_s: How long it asks to be left alone.
        request_id: By which its operators find the call.
    """

    meaning: Meaning
    status: int
    kind: str
    said: str
    retry_after_s: float | None = None
    request_id: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Endpoint:
    """Who is spoken to: what messages name (host, settings, limits), and what is kept out of them (the key).

    Args:
        name: For people, such as ``Anthropic``.
        api_key: Taken out of anything that the server said.
        key_setting: The variable that holds the key.
        base_url: Where requests go.
        url_setting: The variable that holds the address.
        idle_timeout_s: Longest silence, named when it was reached.
        call_timeout_s: Longest call, named when it was reached.
    """

    name: str
    api_key: str
    key_setting: str
    base_url: str
    url_setting: str
    idle_timeout_s: float
    call_timeout_s: float

    def silent(self) -> ModelStreamBroken:
        """Nothing came for too long."""
        return ModelStreamBroken(
            f"no word from the model for {self.idle_timeout_s:g} s, or no end after {self.call_timeout_s:g} s"
        )

    def unreachable(self) -> ModelOverloaded:
        """There was no connection."""
        host = urlsplit(self.base_url).netloc.rpartition("@")[2]
        return ModelOverloaded(
            f"cannot reach the model at {host}: check the network and {self.url_setting}", code="MODEL_UNREACHABLE"
        )

    def cut(self, error: Exception) -> ModelStreamBroken:
        """The connection broke inside the answer."""
        return ModelStreamBroken(f"the connection broke while the model was answering ({type(error).__name__})")

    def garbled(self, error: Exception) -> ModelStreamBroken:
        """What came was no event."""
        return ModelStreamBroken(f"the model's server sent something that is no event ({type(error).__name__})")

    def failed(self, failure: ProviderFailure, model: str) -> ModelError:
        """Make the error of our tree that says the same as the server did."""
        said = failure.said.replace(self.api_key, "[key]") if self.api_key else failure.said
        said, status, kind = said[:_SAID_CHARS].rstrip("."), failure.status, failure.kind
        context: dict[str, str | int | float | bool | None] = {"status": status, "type": kind, "model": model}
        if failure.request_id is not None:
            context["request_id"] = failure.request_id
        if failure.retry_after_s is not None:
            context[RETRY_AFTER] = failure.retry_after_s
        match failure.meaning:
            case "auth":
                return ModelAuth(
                    f"{self.name} does not accept the API key ({status}): {said}. Set {self.key_setting} to a key that "
                    f"may use {model}, or unset it for the offline director",
                    context=context,
                )
            case "overloaded":
                return ModelOverloaded(
                    f"{self.name} is overloaded or limits this key ({status} {kind}): {said}", context=context
                )
            case "overflow":
                return ModelError(
                    f"the conversation is too long for {model}: {said}", code="MODEL_CONTEXT_OVERFLOW", context=context
                )
            case "broken":
                return ModelStreamBroken(f"the stream ended with an error ({kind}): {said}", context=context)
            case "unknown_model":
                return ModelError(
                    f"{model!r} is not a model of this server: {said}. Set KODA_ORCHESTRATOR_MODEL and "
                    "KODA_CODEGEN_MODEL",
                    context=context,
                )
            case "refused":
                return ModelError(f"{self.name} refused the request ({status} {kind}): {said}", context=context)


def usable_key(key: str, setting: str) -> str:
    """Return a key that can be one.

    Raises:
        ModelAuth: MODEL_AUTH, it is empty, or holds what no header may.
    """
    if not key or not key.isascii() or any(not char.isprintable() or char == " " for char in key):
        raise ModelAuth(f"{setting} holds nothing, or characters that no key has: copy the key again")
    return key


def missing_sdk(extra: str, package: str) -> Missing:
    """Say which extra brings an SDK that is not installed."""
    return Missing(
        f"models of {extra} need the package {package}, which is not installed: pip install 'koda-ray[{extra}]'",
        context={"extra": extra, "package": package},
    )


def is_transport(error: BaseException) -> bool:
    """Tell whether the HTTP library raised it, whichever of its names it has."""
    return type(error).__module__.partition(".")[0] in _TRANSPORT


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read how long to wait, in seconds: a number or an HTTP date.

    Source: RFC 9110, section 10.2.3.
    """
    value = headers.get("retry-after")
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
