"""What every request of the client has in common: repeats after lost answers, problems as errors, broken streams."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Self, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from koda_ray import errors
from koda_ray.errors import KodaError, NotFound
from koda_ray.events import Channel, Envelope, channels_named
from koda_ray.sse import SseDecoder
from koda_ray.types import Model, new_id

__all__ = ["ATTEMPTS", "DEFAULT_URL", "Transport", "Unreachable", "backoff_s", "escaped_path", "parse"]

DEFAULT_URL = "http://127.0.0.1:8420"
ATTEMPTS = 4
_HEARTBEATS_MISSED_S = 50.0
_BACKOFF_S = 0.25
_BACKOFF_MAX_S = 4.0
_RETRY_STATUSES = frozenset({502, 503, 504})
_CODES: dict[str, type[KodaError]] = {
    found.code: found for name in errors.__all__ if issubclass(found := getattr(errors, name), KodaError)
}
_STATUSES: dict[int, type[KodaError]] = {
    400: errors.InvalidInput,
    404: NotFound,
    409: errors.Conflict,
    413: errors.InvalidInput,
    415: errors.InvalidInput,
    422: errors.InvalidInput,
    503: errors.Missing,
}
M = TypeVar("M", bound=BaseModel)
Params: TypeAlias = Mapping[str, str | list[str]]


class _Parts(TypedDict, total=False):
    """What a request may have, as `httpx.AsyncClient.request` takes it."""

    json: dict[str, JsonValue] | None
    params: Params | None
    headers: Mapping[str, str] | None
    files: Mapping[str, tuple[str, bytes, str]] | None
    data: Mapping[str, str] | None
    content: bytes


class Unreachable(KodaError):
    """No server answers at this address."""

    code = "UNREACHABLE"
    status = 503
    default_retryable = True


class Transport:
    """A server at an address.

    Args:
        url: Its address, or ``KODA_SERVER``, or this machine's.
        key: Your key, or ``KODA_API_KEY``; none for a server of your own.
        timeout_s: Longest wait for one response, in seconds.
    """

    def __init__(self, url: str | None = None, *, key: str | None = None, timeout_s: float = 60.0) -> None:
        self.url = (url or os.environ.get("KODA_SERVER") or DEFAULT_URL).rstrip("/")
        key = key or os.environ.get("KODA_API_KEY")
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout_s, connect=5.0),
            trust_env=False,  # a proxy for the web has no business between a person and their own server
            verify=self.url.startswith("https:"),  # certificates are read in 40 ms, and no redirect is followed
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; may be called twice."""
        await self._http.aclose()

    async def _events(
        self,
        path: str,
        after: int,
        give_up_s: float,
        *,
        channels: Collection[Channel] | Channel | None = None,
        over: Callable[[], Awaitable[bool]] | None = None,
    ) -> AsyncGenerator[Envelope]:
        """Yield a stream's events, coming back whenever it ends, until what it tells of is ``over`` or gone."""
        loop = asyncio.get_running_loop()
        wanted = [] if channels is None else sorted(channels_named(channels))
        connected = False
        last_contact, failures = loop.time(), 0
        while True:
            try:
                async with aclosing(self._stream(path, after, wanted)) as events:
                    async for seq, envelope in events:
                        connected, last_contact, failures = True, loop.time(), 0
                        if seq <= after and not (envelope is not None and envelope.type == "resync"):
                            continue
                        after = seq
                        if envelope is not None:
                            yield envelope
                failures = 0
                if over is not None and await over():
                    return
            except NotFound:
                if connected:
                    return
                raise
            except (Unreachable, httpx.TransportError) as error:
                if loop.time() - last_contact > give_up_s:
                    raise self._unreachable(error) from error
                failures += 1
            await asyncio.sleep(backoff_s(failures))

    async def _stream(
        self, path: str, after: int, channels: Sequence[Channel]
    ) -> AsyncGenerator[tuple[int, Envelope | None]]:
        decoder = SseDecoder()
        asked: Params = {"channels": [str(channel) for channel in channels]}
        async with self._streaming(path, params=asked, headers={"Last-Event-ID": str(after)}) as response:
            yield after, None  # connected
            async for block in response.aiter_raw():
                for name, _, data in decoder.feed(block):
                    yield int(name or 0), _envelope(data)
                yield int(decoder.last_id or 0), None  # it may have come further than the last event

    async def _told(
        self, path: str, *, params: Params | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[tuple[str, str, str]]:
        """Yield the events of one stream, to its end: number, kind and text of each."""
        decoder = SseDecoder()
        try:
            async with self._streaming(path, params=params, headers=headers or {}) as response:
                async for block in response.aiter_raw():
                    for event in decoder.feed(block):
                        yield event
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def _streaming(
        self,
        path: str,
        *,
        params: Params | None,
        headers: Mapping[str, str],
        timeout_s: float | None = _HEARTBEATS_MISSED_S,
    ) -> AsyncGenerator[httpx.Response]:
        """Have an answer that comes bit by bit; nothing may come for so long."""
        timeout = httpx.Timeout(timeout_s, connect=5.0)
        given = {"Accept": "text/event-stream", **headers}
        async with self._http.stream(
            "GET", path, params=params, headers=given, timeout=timeout, follow_redirects=True
        ) as response:
            if response.status_code in _RETRY_STATUSES:
                raise Unreachable(f"{self.url} answers {response.status_code}")
            if response.is_error:
                await response.aread()
                raise _error(response)
            yield response

    async def _fetch(
        self,
        path: str,
        target: Path,
        *,
        params: Mapping[str, str] | None = None,
        on_bytes: Callable[[int, int], None] | None = None,
    ) -> int:
        """Save what is at an address, going on where a broken connection left off; return its size in bytes."""
        part = target.with_name(f".{target.name}.{new_id('cmd')}.part")
        target.parent.mkdir(parents=True, exist_ok=True)
        tag: str | None = None
        try:
            with part.open("wb") as file:
                for attempt in range(ATTEMPTS):
                    headers = {"Range": f"bytes={file.tell()}-", "If-Range": tag} if tag and file.tell() else {}
                    try:
                        # a large one may be in a bucket, which is not shown the key
                        async with self._http.stream(
                            "GET", path, params=params, headers=headers, follow_redirects=True
                        ) as response:
                            if response.is_error:
                                await response.aread()
                                raise _error(response)
                            if response.status_code == 200:
                                file.seek(0)
                                file.truncate()
                            tag = response.headers.get("etag")
                            total = file.tell() + int(response.headers.get("content-length", 0))
                            async for block in response.aiter_raw():
                                file.write(block)
                                if on_bytes is not None:
                                    on_bytes(file.tell(), total)
                            break
                    except httpx.TransportError as error:
                        if attempt == ATTEMPTS - 1:
                            raise self._unreachable(error) from error
                        await asyncio.sleep(backoff_s(attempt + 1))
                size = file.tell()
            part.replace(target)
            return size
        finally:
            part.unlink(missing_ok=True)

    async def _get(self, path: str, model: type[M], *, params: Params | None = None) -> M:
        return parse(model, await self._send("GET", path, params=params))

    async def _post(
        self,
        path: str,
        body: Model | dict[str, JsonValue] | None,
        model: type[M],
        *,
        key: str | None = None,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
    ) -> M:
        sent = body.model_dump(mode="json", exclude_none=True) if isinstance(body, Model) else body
        headers = {"Idempotency-Key": key or new_id("cmd")}
        answer = await self._send("POST", path, json=sent, headers=headers, attempts=attempts, timeout_s=timeout_s)
        return parse(model, answer)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        attempts: int = ATTEMPTS,
        timeout_s: float | None = None,
        **parts: Unpack[_Parts],
    ) -> httpx.Response:
        longer = self._http.timeout if timeout_s is None else httpx.Timeout(timeout_s, connect=5.0)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._http.request(method, path, timeout=longer, **parts)
            except httpx.TransportError as error:
                if attempt >= attempts:
                    raise self._unreachable(error) from error
            else:
                if not response.is_error:
                    return response
                found = _error(response)
                if attempt > 1:
                    found.context["attempt"] = attempt
                if attempt >= attempts or not (response.status_code in _RETRY_STATUSES and found.retryable):
                    raise found
            await asyncio.sleep(backoff_s(attempt))

    def _unreachable(self, error: Exception) -> Unreachable:
        why = "nothing listens there" if isinstance(error, httpx.ConnectError) else str(error) or type(error).__name__
        return Unreachable(f"no server answers at {self.url} ({why}); start one with: koda serve")


def backoff_s(failures: int) -> float:
    """Seconds to wait before trying again: doubling, with a spread so that clients do not come back together."""
    longest = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** max(0, failures - 1))
    return longest * (0.5 + random.random() / 2)


def escaped_path(path: str) -> str:
    """Escape a file's path for an address; dots too, where they would be tidied away instead of refused."""
    parts = [part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="") for part in path.split("/")]
    return "/".join(parts)


def parse(model: type[M], response: httpx.Response) -> M:
    """Read a response's body; raises KodaError with code UNEXPECTED_RESPONSE where it is none of that kind."""
    try:
        return model.model_validate_json(response.content, extra="ignore")
    except ValidationError as error:
        raise KodaError(
            f"{response.url} answered with something that is not a {model.__name__}; is it a koda server, and of this "
            f"version? ({error.error_count()} problems)",
            code="UNEXPECTED_RESPONSE",
        ) from error


def _envelope(data: str) -> Envelope | None:
    """Read an event; None for one of a kind that this client does not know."""
    try:
        return Envelope.model_validate_json(data, extra="ignore")
    except ValidationError:
        return None


def _error(response: httpx.Response) -> KodaError:
    """Rebuild the error that the server raised."""
    status = response.status_code
    try:
        problem = response.json()
        code, detail = str(problem["code"]), str(problem["detail"])
        context: dict[str, str | int | float | bool | None] = dict(problem.get("context") or {})
        retryable = bool(problem.get("retryable"))
    except (ValueError, KeyError, TypeError):
        text = response.text.strip()[:200]
        return KodaError(
            f"{response.url} answered {status}: {text}", code=f"HTTP_{status}", retryable=status in _RETRY_STATUSES
        )
    found = _CODES.get(code) or _STATUSES.get(status, KodaError)
    return found(detail, code=code, context={"status": status, **context}, retryable=retryable)
