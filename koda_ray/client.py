"""The HTTP client: everything the API does, typed, in async (`KodaClient`) and plain (`Koda`) form.

Every request may be repeated: commands carry an idempotency key, so a retry after a lost response does nothing twice,
and `follow` comes back with the number of the last event it saw. It needs nothing of the server but its address.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from koda_ray import errors
from koda_ray.errors import KodaError, NotFound
from koda_ray.events import Envelope
from koda_ray.sse import SseDecoder
from koda_ray.types import Model, RenderOptions, SessionOptions, new_id
from koda_ray.wire import (
    Answer,
    AssetPage,
    AssetView,
    Changes,
    CommandAccepted,
    CommandName,
    CreateSession,
    FileList,
    Health,
    JobPage,
    JobView,
    Message,
    PreviewLink,
    Reject,
    SessionCreated,
    SessionPage,
    SessionView,
)

__all__ = ["DEFAULT_URL", "Koda", "KodaClient", "Unreachable"]

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
T = TypeVar("T")


class Unreachable(KodaError):
    """No server answers at this address."""

    code = "UNREACHABLE"
    status = 503
    default_retryable = True


class KodaClient:
    """Talks to a server.

    Args:
        url: Its address, or ``KODA_SERVER``, or this machine's.
        key: Your key, or ``KODA_API_KEY``; none for a server of your own.
        timeout_s: Longest wait for one response, in seconds.

    Example:
        async with KodaClient() as koda:
            made = await koda.create("Create a bouncing ball animation, playful")
            async for event in koda.follow(made.session_id):
                print(event.wire_name, event.data)
    """

    def __init__(self, url: str | None = None, *, key: str | None = None, timeout_s: float = 60.0) -> None:
        self.url = (url or os.environ.get("KODA_SERVER") or DEFAULT_URL).rstrip("/")
        key = key or os.environ.get("KODA_API_KEY")
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout_s, connect=5.0),
            trust_env=False,  # a proxy for the web has no business between a person and their own server
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; may be called twice."""
        await self._http.aclose()

    # sessions

    async def create(
        self,
        prompt: str,
        *,
        style: str | None = None,
        options: SessionOptions | None = None,
        render: RenderOptions | None = None,
        asset_ids: tuple[str, ...] = (),
        project_id: str | None = None,
        key: str | None = None,
    ) -> SessionCreated:
        """Make a session from a prompt. The same ``key`` makes it once, however often this is called.

        Raises:
            InvalidInput: The prompt or an option is not valid.
            NotFound: An asset is not there.
        """
        body = CreateSession.model_construct(  # the server says what is wrong with it, in one voice for all clients
            prompt=prompt,
            project_id=project_id,
            style=style,
            options=options or SessionOptions(),
            render=render,
            asset_ids=asset_ids,
        )
        return await self._post("/v1/sessions", body, SessionCreated, key=key)

    async def session(self, session_id: str) -> SessionView:
        """Read a session's state. Raises NotFound."""
        return await self._get(_session(session_id), SessionView)

    async def sessions(self, *, limit: int = 50, before: str | None = None) -> SessionPage:
        """Read a page of your sessions, newest first."""
        params: dict[str, str] = {"limit": str(limit), **({"before": before} if before else {})}
        return await self._get("/v1/sessions", SessionPage, params=params)

    async def delete(self, session_id: str) -> None:
        """Delete a session with everything in it. Raises NotFound."""
        try:
            await self._send("DELETE", _session(session_id))
        except NotFound as error:
            if "attempt" not in error.context:  # else the try before did it, and only its answer was lost
                raise

    # commands; each may raise NotFound, InvalidTransition, InvalidInput and Conflict

    async def answer(
        self, session_id: str, *, option_id: str | None = None, text: str | None = None, key: str | None = None
    ) -> CommandAccepted:
        """Answer the question."""
        return await self._command(session_id, "answer", Answer.model_construct(option_id=option_id, text=text), key)

    async def accept(self, session_id: str, *, key: str | None = None) -> CommandAccepted:
        """Accept the plan or the preview."""
        return await self._command(session_id, "accept", None, key)

    async def reject(self, session_id: str, *, feedback: str | None = None, key: str | None = None) -> CommandAccepted:
        """Reject the plan or the preview."""
        return await self._command(session_id, "reject", Reject.model_construct(feedback=feedback), key)

    async def changes(self, session_id: str, feedback: str, *, key: str | None = None) -> CommandAccepted:
        """Ask for something to be different."""
        return await self._command(session_id, "changes", Changes.model_construct(feedback=feedback), key)

    async def say(self, session_id: str, text: str, *, key: str | None = None) -> CommandAccepted:
        """Say something to the agents."""
        return await self._command(session_id, "message", Message.model_construct(text=text), key)

    async def cancel(self, session_id: str, *, key: str | None = None) -> CommandAccepted:
        """Stop the work under way."""
        return await self._command(session_id, "cancel", None, key)

    async def retry(self, session_id: str, *, key: str | None = None) -> CommandAccepted:
        """Try again after an error."""
        return await self._command(session_id, "retry", None, key)

    async def render(
        self, session_id: str, options: RenderOptions | None = None, *, key: str | None = None
    ) -> CommandAccepted:
        """Render the final video."""
        return await self._command(session_id, "render", options or RenderOptions(), key)

    # events

    async def follow(self, session_id: str, *, after: int = 0, give_up_s: float = 60.0) -> AsyncGenerator[Envelope]:
        """Yield events with ``seq > after``, coming back after every broken connection, until the session is deleted.

        Args:
            session_id: The session.
            after: The last number seen; 0 for all.
            give_up_s: How long to go on trying while no server answers, in seconds.

        Raises:
            NotFound: There is no such session.
            Unreachable: No server answered for ``give_up_s`` seconds.
        """
        loop = asyncio.get_running_loop()
        connected = False
        last_contact, failures = loop.time(), 0
        while True:
            try:
                async with aclosing(self._stream(session_id, after)) as events:
                    async for seq, envelope in events:
                        connected, last_contact, failures = True, loop.time(), 0
                        if seq <= after:
                            continue
                        after = seq
                        if envelope is not None:
                            yield envelope
                failures = 0
            except NotFound:
                if connected:
                    return
                raise
            except (Unreachable, httpx.TransportError) as error:
                if loop.time() - last_contact > give_up_s:
                    raise self._unreachable(error) from error
                failures += 1
            await asyncio.sleep(_pause(failures))

    async def _stream(self, session_id: str, after: int) -> AsyncGenerator[tuple[int, Envelope | None]]:
        decoder = SseDecoder()
        timeout = httpx.Timeout(_HEARTBEATS_MISSED_S, connect=5.0)
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        path = f"{_session(session_id)}/events"
        async with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
            if response.status_code in _RETRY_STATUSES:
                raise Unreachable(f"{self.url} answers {response.status_code}")
            if response.is_error:
                await response.aread()
                raise _error(response)
            yield after, None  # connected
            async for block in response.aiter_raw():
                for name, _, data in decoder.feed(block):
                    yield int(name or 0), _envelope(data)

    # what was made

    async def files(self, session_id: str) -> FileList:
        """List the project's files as of the newest checkpoint."""
        return await self._get(f"{_session(session_id)}/files", FileList)

    async def read_file(self, session_id: str, path: str) -> bytes:
        """Read one of the project's files. Raises NotFound and InvalidPath."""
        return (await self._send("GET", f"{_session(session_id)}/files/{_escaped(path)}")).content

    async def download(
        self,
        session_id: str,
        target: Path,
        *,
        what: Literal["video", "thumbnail"] = "video",
        kind: Literal["preview", "final"] | None = None,
        on_bytes: Callable[[int, int], None] | None = None,
    ) -> int:
        """Save a video or its still picture, going on where a broken connection left off.

        Args:
            session_id: The session.
            target: The file, replaced in one step once everything is there.
            what: The video or its thumbnail.
            kind: Which video; else the final one where there is one.
            on_bytes: Called with the bytes so far and in all.

        Returns:
            The file's size in bytes.

        Raises:
            NotFound: VIDEO_NOT_READY.
        """
        path = f"{_session(session_id)}/{what}"
        part = target.with_name(f".{target.name}.{new_id('cmd')}.part")
        target.parent.mkdir(parents=True, exist_ok=True)
        tag: str | None = None
        try:
            with part.open("wb") as file:
                for attempt in range(ATTEMPTS):
                    headers = {"Range": f"bytes={file.tell()}-", "If-Range": tag} if tag and file.tell() else {}
                    params = {"kind": kind} if kind else {}
                    try:
                        async with self._http.stream("GET", path, params=params, headers=headers) as response:
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
                        await asyncio.sleep(_pause(attempt + 1))
                size = file.tell()
            part.replace(target)
            return size
        finally:
            part.unlink(missing_ok=True)

    async def preview(self, session_id: str) -> PreviewLink:
        """Start the running page where needed, and get its address for an hour."""
        return await self._post(f"{_session(session_id)}/preview", None, PreviewLink)

    async def job(self, job_id: str) -> JobView:
        """Read a render job. Raises NotFound."""
        return await self._get(f"/v1/jobs/{quote(job_id, safe='')}", JobView)

    async def jobs(self, session_id: str) -> JobPage:
        """List a session's render jobs, newest first."""
        return await self._get(f"{_session(session_id)}/jobs", JobPage)

    # assets and health

    async def upload(self, path: Path, *, media_type: str | None = None, session_id: str | None = None) -> AssetView:
        """Upload a picture or a sound; name its id when making a session, or give it to one that exists.

        Raises:
            InvalidInput: UNSUPPORTED_TYPE, BODY_TOO_LARGE, or the file cannot be read.
        """
        try:
            data = await asyncio.to_thread(path.read_bytes)
        except OSError as error:
            raise errors.InvalidInput(f"cannot read {path}: {error.strerror or error}") from error
        files = {"file": (path.name, data, media_type or "application/octet-stream")}
        form = {"sessionId": session_id} if session_id else None
        return _parse(AssetView, await self._send("POST", "/v1/assets", files=files, data=form, attempts=1))

    async def assets(self, session_id: str) -> AssetPage:
        """List a session's uploaded files."""
        return await self._get(f"{_session(session_id)}/assets", AssetPage)

    async def health(self) -> Health:
        """Ask whether the server answers."""
        return _parse(Health, await self._send("GET", "/v1/health", attempts=1))

    # underneath

    async def _command(
        self, session_id: str, name: CommandName, body: Model | None, key: str | None
    ) -> CommandAccepted:
        path = f"{_session(session_id)}/{'messages' if name == 'message' else name}"
        return await self._post(path, body, CommandAccepted, key=key)

    async def _get(self, path: str, model: type[M], *, params: Mapping[str, str] | None = None) -> M:
        return _parse(model, await self._send("GET", path, params=params))

    async def _post(self, path: str, body: Model | None, model: type[M], *, key: str | None = None) -> M:
        sent = None if body is None else body.model_dump(mode="json", exclude_none=True)
        headers = {"Idempotency-Key": key or new_id("cmd")}
        return _parse(model, await self._send("POST", path, json=sent, headers=headers))

    async def _send(
        self,
        method: str,
        path: str,
        *,
        attempts: int = ATTEMPTS,
        json: dict[str, JsonValue] | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        files: Mapping[str, tuple[str, bytes, str]] | None = None,
        data: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._http.request(
                    method, path, json=json, params=params, headers=headers, files=files, data=data
                )
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
            await asyncio.sleep(_pause(attempt))

    def _unreachable(self, error: Exception) -> Unreachable:
        why = "nothing listens there" if isinstance(error, httpx.ConnectError) else str(error) or type(error).__name__
        return Unreachable(f"no server answers at {self.url} ({why}); start one with: koda serve")


class Koda:
    """The same without async: every method of `KodaClient` that a script needs, one at a time.

    Not for use inside a running event loop; use `KodaClient` there.

    Example:
        with Koda() as koda:
            made = koda.create("Create a bouncing ball animation, playful")
            print(koda.session(made.session_id).state.phase)
    """

    def __init__(self, url: str | None = None, *, key: str | None = None, timeout_s: float = 60.0) -> None:
        self._runner = asyncio.Runner()
        self._closed = False
        self._client = KodaClient(url, key=key, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; may be called twice."""
        if not self._closed:
            self._closed = True
            self._run(self._client.close())
            self._runner.close()

    def create(
        self,
        prompt: str,
        *,
        style: str | None = None,
        options: SessionOptions | None = None,
        render: RenderOptions | None = None,
        asset_ids: tuple[str, ...] = (),
        key: str | None = None,
    ) -> SessionCreated:
        """Make a session from a prompt."""
        made = self._client.create(prompt, style=style, options=options, render=render, asset_ids=asset_ids, key=key)
        return self._run(made)

    def session(self, session_id: str) -> SessionView:
        """Read a session's state."""
        return self._run(self._client.session(session_id))

    def sessions(self, *, limit: int = 50, before: str | None = None) -> SessionPage:
        """Read a page of your sessions."""
        return self._run(self._client.sessions(limit=limit, before=before))

    def delete(self, session_id: str) -> None:
        """Delete a session."""
        self._run(self._client.delete(session_id))

    def answer(self, session_id: str, *, option_id: str | None = None, text: str | None = None) -> CommandAccepted:
        """Answer the question."""
        return self._run(self._client.answer(session_id, option_id=option_id, text=text))

    def accept(self, session_id: str) -> CommandAccepted:
        """Accept the plan or the preview."""
        return self._run(self._client.accept(session_id))

    def reject(self, session_id: str, *, feedback: str | None = None) -> CommandAccepted:
        """Reject the plan or the preview."""
        return self._run(self._client.reject(session_id, feedback=feedback))

    def changes(self, session_id: str, feedback: str) -> CommandAccepted:
        """Ask for something to be different."""
        return self._run(self._client.changes(session_id, feedback))

    def say(self, session_id: str, text: str) -> CommandAccepted:
        """Say something to the agents."""
        return self._run(self._client.say(session_id, text))

    def cancel(self, session_id: str) -> CommandAccepted:
        """Stop the work under way."""
        return self._run(self._client.cancel(session_id))

    def retry(self, session_id: str) -> CommandAccepted:
        """Try again after an error."""
        return self._run(self._client.retry(session_id))

    def render(self, session_id: str, options: RenderOptions | None = None) -> CommandAccepted:
        """Render the final video."""
        return self._run(self._client.render(session_id, options))

    def follow(self, session_id: str, *, after: int = 0) -> Generator[Envelope]:
        """Yield events as they come, until the session is deleted."""
        events = self._client.follow(session_id, after=after)
        try:
            while True:
                try:
                    yield self._run(_next(events))
                except StopAsyncIteration:
                    return
        finally:
            self._run(events.aclose())

    def files(self, session_id: str) -> FileList:
        """List the project's files."""
        return self._run(self._client.files(session_id))

    def read_file(self, session_id: str, path: str) -> bytes:
        """Read one of the project's files."""
        return self._run(self._client.read_file(session_id, path))

    def download(
        self,
        session_id: str,
        target: Path,
        *,
        what: Literal["video", "thumbnail"] = "video",
        kind: Literal["preview", "final"] | None = None,
    ) -> int:
        """Save a video or its still picture; return its size in bytes."""
        return self._run(self._client.download(session_id, target, what=what, kind=kind))

    def preview(self, session_id: str) -> PreviewLink:
        """Get the running page's address."""
        return self._run(self._client.preview(session_id))

    def job(self, job_id: str) -> JobView:
        """Read a render job."""
        return self._run(self._client.job(job_id))

    def upload(self, path: Path, *, session_id: str | None = None) -> AssetView:
        """Upload a picture or a sound."""
        return self._run(self._client.upload(path, session_id=session_id))

    def health(self) -> Health:
        """Ask whether the server answers."""
        return self._run(self._client.health())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


async def _next(events: AsyncIterator[Envelope]) -> Envelope:
    return await anext(events)


def _session(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


def _escaped(path: str) -> str:
    """Escape a file's path for an address; dots too, where they would be tidied away instead of refused."""
    parts = [part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="") for part in path.split("/")]
    return "/".join(parts)


def _pause(failures: int) -> float:
    """Seconds to wait before trying again: doubling, with a spread so that clients do not come back together."""
    longest = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** max(0, failures - 1))
    return longest * (0.5 + random.random() / 2)


def _parse(model: type[M], response: httpx.Response) -> M:
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
