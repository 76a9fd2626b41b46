"""The live preview: the sandbox's dev server, shown on an origin of its own to whoever holds a signed address.

What comes out of the sandbox is hostile. So it is never served by the API's origin, every response puts the page in
an opaque origin (CSP ``sandbox``) where it can neither read cookies nor reach another session's preview, and it may
talk to nothing but this proxy. In an opaque origin cookies do not work either, which is why the token is part of the
path: ``/p/<token>/...``. A browser that opens it gets a page of ours, in whose frame the hostile one is shown under a
passing address, ``/v/<address>/...`` (`showing`): it never learns the token. Programs are answered directly.

The dev server runs under a base path that occurs nowhere else, and in texts that base is replaced by the path that was
asked for, so Vite's absolute module addresses and its HMR socket come back here.

A port of a person's own sandbox is shown in the same way, but what listens there knows of no base path. Its addresses
that begin with a slash come here without a token; where the page's own address is sent along, it tells where they
belong, and they are sent there. Browsers send none for a document without an origin (Referrer Policy, "determine
request's referrer"), whatever the page's policy says; Chromium does for what its modules import, and programs may.

A page that is open keeps that socket, and whoever looks at it follows the session like a reader of its events: the
session is told, so it does not go to sleep under an audience that is only looking. Where it sleeps all the same (its
video is finished), the page stays as it is, and is loaded anew when there is a dev server again.
"""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httpx
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from koda_ray.errors import InvalidInput, KodaError, NotFound, ServerFailed
from koda_ray.logs import get_logger
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.preview import BAD_GATEWAY, LOCATION, MAX_FRAME_BYTES, http_client, open_socket
from koda_ray.serve.deps import SessionDirectory
from koda_ray.serve.ending import carried_out, ended
from koda_ray.serve.limits import BodyLimit
from koda_ray.serve.looking import only_looks
from koda_ray.serve.preview_quota import PreviewQuota
from koda_ray.serve.preview_sources import NOTHING_ELSE, ON_ITS_OWN, Sources, Surroundings
from koda_ray.serve.preview_texts import with_replaced
from koda_ray.serve.problem import error_response
from koda_ray.serve.rates import SAFE_METHODS
from koda_ray.serve.showing import GRACE_S, REFUSED, Showing, page_around
from koda_ray.serve.signing import Forbidden, Grant, Signer
from koda_ray.serve.stalls import BodyDeadline
from koda_ray.serve.streams import Watchers
from koda_ray.serve.unread import ReadingDeadline
from koda_ray.types import now

__all__ = ["create_preview_app"]

MAX_BODY_BYTES = 4 * 1024 * 1024
TOO_BIG = 1009
"""How a socket ends that a message was too large for. Source: RFC 6455, section 7.4.1."""
_PING = "vite-ping"
"""What Vite's client calls the sockets with which it asks whether a dev server that went away is there again."""
_ENDPOINT_TTL_S = 10.0
_UNUSED_S = 600.0
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
# named, not forwarded but for a list: cookies, keys and hop-by-hop headers have no business on the other side
_REQUEST_HEADERS = frozenset({"accept", "accept-language", "content-type", "range", "if-range"})
_RESPONSE_HEADERS = frozenset({"content-type", "cache-control", "content-range", "accept-ranges", "last-modified"})
_ALLOWED = "(response-origin);redirects=allow"
"""What the policy of content does not hold: WebRTC, and connections and names that a page asks for ahead.

Redirects are this proxy's own. Source: WICG, Connection Allowlists; Chromium has them.
"""
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,255}")
_LEADS_ON = (301, 302, 303, 307, 308)
_TEXTS = ("text/", "application/javascript", "application/json", "application/manifest+json", "image/svg")
_log = get_logger(__name__)


_Key = tuple[str, str, int | None]


@dataclass
class _Upstream:
    """One session's dev server, asked for again after a while or when it no longer answers."""

    endpoint: PreviewEndpoint
    client: httpx.AsyncClient
    until: float


@dataclass
class _Proxy:
    """What the routes share."""

    directory: SessionDirectory | None
    signer: Signer
    api_port: int
    watchers: Watchers | None
    sources: Sources
    around: Surroundings
    showing: Showing
    upstreams: dict[_Key, _Upstream] = field(default_factory=dict["_Key", _Upstream])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def sessions(self) -> SessionDirectory:
        """Who finds sessions; NotFound where none are shown."""
        if self.directory is None:
            raise NotFound("no sessions are shown here")
        return self.directory

    async def upstream(self, grant: Grant, *, failed: _Upstream | None = None) -> _Upstream:
        """Return where a session's dev server answers; whose token it is has been asked with it."""
        key = (grant.session_id, grant.user_id, grant.port)
        known = self.upstreams.get(key)
        if known is not None and known.until > time.monotonic() and known is not failed:
            return known
        endpoint = await self._endpoint(grant)
        async with self.lock:
            known = self.upstreams.get(key)
            if known is not None and known.endpoint == endpoint and known is not failed:
                known.until = time.monotonic() + _ENDPOINT_TTL_S
                return known
            await self._forget(key)
            client = http_client(endpoint, timeout=_TIMEOUT)
            found = _Upstream(endpoint, client, time.monotonic() + _ENDPOINT_TTL_S)
            self.upstreams[key] = found
            return found

    async def _endpoint(self, grant: Grant) -> PreviewEndpoint:
        if grant.port is None:
            return await self.sessions.preview(session_id=grant.session_id, user_id=grant.user_id)
        if self.sources.reach is None:
            raise ServerFailed("sandboxes of one's own are not shown here")
        return await self.sources.reach(grant.session_id, grant.user_id, grant.port)

    async def _forget(self, key: _Key) -> None:
        """Close what is replaced, and what nobody has asked for in a while."""
        old = [other for other, upstream in self.upstreams.items() if upstream.until < time.monotonic() - _UNUSED_S]
        for gone in {key, *old}:
            if (upstream := self.upstreams.pop(gone, None)) is not None:
                await upstream.client.aclose()

    async def close(self) -> None:
        if self.watchers is not None:
            await self.watchers.close()
        for upstream in self.upstreams.values():
            await upstream.client.aclose()
        self.upstreams.clear()


def create_preview_app(
    directory: SessionDirectory | None,
    signer: Signer,
    *,
    api_port: int,
    sources: Sources = NOTHING_ELSE,
    around: Surroundings = ON_ITS_OWN,
    grace_s: float = GRACE_S,
) -> Starlette:
    """Build the preview's application.

    Args:
        directory: Finds (and starts) a session's dev server, and hears how many look at it; None to show no sessions.
        signer: Checks the addresses that the API handed out.
        api_port: The API's port: pages of that port on the same host may show the preview in a frame.
        sources: What is shown beside sessions' dev servers.
        around: Where browsers find this application, and which pages beside the API's may show it.
        grace_s: How long a page is shown that nobody is known to look at, in seconds.
    """
    watchers = None if directory is None else Watchers(directory)
    proxy = _Proxy(directory, signer, api_port, watchers, sources, around, Showing(grace_s=grace_s))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await proxy.close()

    app = Starlette(routes=_routes(proxy), exception_handlers={KodaError: _refused}, lifespan=lifespan)
    app.add_middleware(BodyDeadline)
    app.add_middleware(BodyLimit, limit_bytes=lambda _: MAX_BODY_BYTES)
    app.add_middleware(PreviewQuota, whose=lambda connection: _whose(proxy, connection), refused=_refused)
    app.add_middleware(ReadingDeadline)
    return app


def _routes(proxy: _Proxy) -> Sequence[BaseRoute]:
    async def socket(websocket: WebSocket) -> None:
        await _socket(proxy, websocket)

    async def opened(request: Request) -> Response:
        return _around(proxy, request) if _is_opened(request) else await _http(proxy, request)

    async def framed(request: Request) -> Response:
        if request.headers.get("sec-fetch-dest") == "document":
            raise Forbidden("this is the inside of a preview; open the preview's own address", code="NOT_SHOWN")
        return await _http(proxy, request)

    async def hold(websocket: WebSocket) -> None:
        await _hold(proxy, websocket)

    async def bare(request: Request) -> Response:
        return RedirectResponse(f"/p/{request.path_params['token']}/")

    async def lost(request: Request) -> Response:
        return _belongs(proxy, request)

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return [
        Route("/p/{token}", bare, methods=["GET"]),
        Route("/p/{token}/{path:path}", opened, methods=methods),
        WebSocketRoute("/p/{token}/{path:path}", socket),
        Route("/v/{shown}/{path:path}", framed, methods=methods),
        WebSocketRoute("/v/{shown}/{path:path}", socket),
        WebSocketRoute("/h/{token}/{shown}", hold),
        Route("/{path:path}", lost, methods=methods),
    ]


def _grant(proxy: _Proxy, connection: HTTPConnection) -> Grant:
    given = connection.path_params
    if "shown" in given:
        return proxy.showing.grant(given["shown"], peer=_peer(proxy, connection))
    return proxy.signer.check(given["token"])


def _whose(proxy: _Proxy, connection: HTTPConnection) -> str | None:
    """Return whose preview an address shows."""
    start, _, rest = connection.scope["path"].removeprefix("/").partition("/")
    given = rest.partition("/")[0]
    with suppress(KodaError):
        if start in ("p", "h"):
            return proxy.signer.check(given).user_id
        if start == "v":
            return proxy.showing.grant(given, peer=_peer(proxy, connection)).user_id
    return None


def _peer(proxy: _Proxy, connection: HTTPConnection) -> str | None:
    """Return who asks, by its address; None where somebody stands in front, who may be several and take turns."""
    return connection.client.host if connection.client is not None and proxy.around.origin is None else None


def _home(connection: HTTPConnection) -> str:
    """Return the path that everything of a page lies below, as it was asked for."""
    given = connection.path_params
    return f"/v/{given['shown']}/" if "shown" in given else f"/p/{given['token']}/"


def _is_opened(request: Request) -> bool:
    """Whether somebody opens a page, in a browser: programs ask for no page, or for anything."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _around(proxy: _Proxy, request: Request) -> Response:
    """Answer with the page of ours in whose frame the page that was asked for is shown."""
    token, grant = str(request.path_params["token"]), _grant(proxy, request)
    address = proxy.showing.begin(grant, peer=_peer(proxy, request))
    # a desktop's page is told in its query where its socket is
    inside = _target(request, f"/v/{address}/").replace(f"p/{token}/", f"v/{address}/")
    page, headers = page_around(
        shown=inside, hold=f"/h/{token}/{address}", sockets=_sockets(proxy, request), parents=_parents(proxy, request)
    )
    return HTMLResponse(page, headers=headers)


async def _hold(proxy: _Proxy, websocket: WebSocket) -> None:
    """Keep what is shown in a page's frame there for as long as the page is open."""
    await websocket.accept()
    why = "TOKEN_EXPIRED"
    try:
        grant = proxy.signer.check(websocket.path_params["token"])
        with proxy.showing.held(websocket.path_params["shown"], grant, peer=_peer(proxy, websocket)):
            async with asyncio.timeout(max(0.0, (grant.expires_at - now()).total_seconds())):
                while (await websocket.receive())["type"] != "websocket.disconnect":
                    pass  # it has nothing to say
        return
    except KodaError as error:
        why = error.code
    except TimeoutError:
        pass
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.close(REFUSED, why)


def _belongs(proxy: _Proxy, request: Request) -> Response:
    """Send an address of a page that knows of no base path to where that page is."""
    found = urlsplit(request.headers.get("referer", ""))
    start, _, rest = found.path.removeprefix("/").partition("/")
    token = rest.partition("/")[0]
    ours = urlsplit(proxy.around.origin).netloc if proxy.around.origin is not None else request.headers.get("host")
    if start not in ("p", "v") or found.netloc != ours:
        raise NotFound("there is no page at this address")
    peer = _peer(proxy, request)
    grant = proxy.signer.check(token) if start == "p" else proxy.showing.grant(token, peer=peer)
    if grant.port is None:
        raise NotFound("there is no page at this address")
    raw = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("latin-1")
    query = request.scope["query_string"].decode("latin-1")
    address = f"/{start}/{token}{raw}{'?' if query else ''}{query}"
    return RedirectResponse(address, status_code=307, headers=_guard(proxy, request, port=True))


def _target(connection: HTTPConnection, base: str) -> str:
    """Return the dev server's address for one of ours, escaped as it was."""
    raw = connection.scope.get("raw_path") or connection.scope["path"].encode()
    rest = raw.decode("latin-1").split("/", 3)[3]
    query = connection.scope["query_string"].decode("latin-1")
    return f"{base}{rest}{'?' if query else ''}{query}"


async def _http(proxy: _Proxy, request: Request) -> Response:
    grant = _grant(proxy, request)
    if request.method not in SAFE_METHODS and not grant.edit:
        raise Forbidden(
            "this address is for looking only; ask for one that may edit, with ?edit=true: "
            f"POST /v1/{'sessions' if grant.port is None else 'sandboxes'}/<id>/preview",
            code="READ_ONLY",
        )
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=_guard(proxy, request, port=bool(grant.port)))
    if grant.bundle is not None:
        return await _stored(proxy, request, grant, grant.bundle)
    body = await request.body()
    upstream = await proxy.upstream(grant)
    try:
        answer = await _ask(upstream, request, body)
    except httpx.TransportError:
        # the sandbox moved or its dev server was started anew: ask once more where it is
        upstream = await proxy.upstream(grant, failed=upstream)
        try:
            answer = await _ask(upstream, request, body)
        except httpx.TransportError as error:
            raise ServerFailed(f"the session's dev server does not answer ({type(error).__name__})") from error
    return await _respond(proxy, request, upstream, answer)


async def _stored(proxy: _Proxy, request: Request, grant: Grant, bundle: str) -> Response:
    """Answer with a file of a built page, which nothing runs for."""
    if proxy.sources.pages is None:
        raise NotFound("no pages out of storage are shown here")
    return await proxy.sources.pages.respond(
        request,
        user_id=grant.user_id,
        bundle=bundle,
        path=str(request.path_params["path"]),
        headers=_guard(proxy, request, port=False),
    )


async def _ask(upstream: _Upstream, request: Request, body: bytes) -> httpx.Response:
    headers = _passed_on(request.headers.raw, _REQUEST_HEADERS) | {"accept-encoding": "identity"}
    target = _target(request, upstream.endpoint.base)
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    built = upstream.client.build_request(request.method, "/", headers=sent, content=body or None)
    built.url = built.url.copy_with(raw_path=target.encode("latin-1"))
    answer = await upstream.client.send(built, stream=True)
    if upstream.endpoint.url is not None and answer.status_code == BAD_GATEWAY:
        await answer.aclose()  # the sandbox's gateway says so, not a page of ours
        raise httpx.ConnectError("nobody answers behind the sandbox's gateway")
    return answer


def _passed_on(raw: Iterable[tuple[bytes, bytes]], names: Collection[str]) -> dict[str, str]:
    """Return the headers that are let through, byte for byte: neither side's need be text."""
    decoded = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw)
    return {name: value for name, value in decoded if name in names}


def _path_of(location: str) -> str:
    """Return the path that a redirection leads to; nothing where it is no address."""
    try:
        return urlsplit(location).path
    except ValueError:
        return ""


async def _respond(proxy: _Proxy, request: Request, upstream: _Upstream, answer: httpx.Response) -> Response:
    base, ours = upstream.endpoint.base, _home(request)
    guard = _guard(proxy, request, port=base == "/")
    headers = _passed_on(answer.headers.raw, _RESPONSE_HEADERS) | guard
    if answer.status_code in _LEADS_ON and LOCATION in answer.extensions:
        path = _path_of(cast("bytes", answer.extensions[LOCATION]).decode("latin-1"))
        await answer.aclose()
        path = path.removeprefix(base) if path.startswith(base) else ""
        return RedirectResponse(f"{ours}{path}", status_code=307, headers=guard)
    kind = headers.get("content-type", "")
    if base != "/" and request.method != "HEAD" and kind.startswith(_TEXTS):
        return _Passing(answer, headers, with_replaced(answer.aiter_raw(), base.encode(), ours.encode()))
    if "content-length" in answer.headers:
        headers["content-length"] = answer.headers["content-length"]
    return _Passing(answer, headers, answer.aiter_raw())


class _Passing(StreamingResponse):
    """An answer of the dev server's, part by part; however it ends, that is closed."""

    def __init__(self, answer: httpx.Response, headers: Mapping[str, str], parts: AsyncIterator[bytes]) -> None:
        super().__init__(parts, status_code=answer.status_code, headers=headers)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await carried_out(self._answer.aclose())


def _host_of(proxy: _Proxy, connection: HTTPConnection) -> tuple[str, str, str]:
    """Return the scheme, the name, and the name with its port that this is asked at, which become part of policies.

    Raises:
        InvalidInput: They are no name and port.
    """
    url = connection.url if proxy.around.origin is None else urlsplit(proxy.around.origin)
    try:
        name, port = str(url.hostname), url.port
    except ValueError:
        name, port = "", None
    if not _HOST.fullmatch(name):
        raise InvalidInput("the Host header is no name and port; ask at the address that the API gave")
    return url.scheme, name, f"{name}:{port}" if port else name


def _sockets(proxy: _Proxy, connection: HTTPConnection) -> str:
    """Return the sources of this proxy's sockets; older browsers do not take them for 'self'."""
    _, _, own = _host_of(proxy, connection)
    return f"ws://{own} wss://{own}"


def _parents(proxy: _Proxy, connection: HTTPConnection) -> str:
    """Return the sources of pages that may show the preview in a frame: the API's, on the same host, and named ones."""
    scheme, name, _ = _host_of(proxy, connection)
    names = {name, "127.0.0.1", "localhost"} if name in ("127.0.0.1", "localhost") else {name}
    return " ".join([*(f"{scheme}://{each}:{proxy.api_port}" for each in sorted(names)), *proxy.around.framers])


def _guard(proxy: _Proxy, connection: HTTPConnection, *, port: bool) -> dict[str, str]:
    """Return the headers that keep the page where it is; one of a port tells this proxy, and nobody else, its own."""
    policy = (
        "sandbox allow-scripts; default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; "
        f"connect-src 'self' {_sockets(proxy, connection)} data: blob:; worker-src 'self' blob:; object-src 'none'; "
        f"base-uri 'self'; form-action 'none'; frame-ancestors 'self' {_parents(proxy, connection)}"
    )
    methods = {"access-control-allow-methods": "*"} if port else {}
    return {
        **methods,
        "content-security-policy": policy,
        "connection-allowlist": _ALLOWED,
        "referrer-policy": "same-origin" if port else "no-referrer",
        "x-content-type-options": "nosniff",
        "x-dns-prefetch-control": "off",
        # an opaque origin is nobody's, so its own modules need this; the address is the secret
        "access-control-allow-origin": "*",
        "access-control-allow-headers": "content-type",
        "cross-origin-resource-policy": "cross-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), usb=(), serial=(), payment=()",
        "x-robots-tag": "noindex",
    }


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, KodaError)
    if "text/html" in request.headers.get("accept", ""):
        page = (
            "<!doctype html><meta charset=utf-8><title>Preview</title><body style='font:16px system-ui;margin:4rem'>"
            f"<h1 style='font-size:1.2rem'>No preview here</h1><p>{html.escape(error.message)}</p>"
        )
        headers = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(page, status_code=error.status, headers={**headers, "referrer-policy": "no-referrer"})
    # never the path: it holds the token
    return error_response(error, "/p")


async def _socket(proxy: _Proxy, websocket: WebSocket) -> None:
    try:
        grant = _grant(proxy, websocket)
        if grant.bundle is not None:
            raise NotFound("nothing runs behind a page out of storage")
        server = await _dial(proxy, websocket, grant)
    except KodaError as error:
        await websocket.close(4000 + error.status, error.code)
        return
    left_s = (grant.expires_at - now()).total_seconds()
    tasks: list[asyncio.Task[None]] = []
    try:
        await websocket.accept(server.subprotocol)
        tasks = [
            asyncio.create_task(_inwards(websocket, server, edit=grant.edit)),
            asyncio.create_task(_outwards(websocket, server)),
        ]
        if "shown" in websocket.path_params:
            tasks.append(asyncio.create_task(proxy.showing.over(websocket.path_params["shown"])))
        watched = proxy.watchers if grant.port is None else None
        with watched.joined(grant.session_id) if watched is not None else nullcontext():
            await asyncio.wait(tasks, timeout=max(0.0, left_s), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await carried_out(_hang_up(server, tasks))
        with suppress(RuntimeError, WebSocketDisconnect):
            if _refused_message(server):
                await websocket.close(TOO_BIG, f"a message has at most {MAX_FRAME_BYTES:,} bytes")
            else:
                await websocket.close()


def _refused_message(server: ClientConnection) -> bool:
    """Whether the socket ended because what came was too large for us."""
    sent, answered = server.protocol.close_sent, server.protocol.close_rcvd_then_sent
    return sent is not None and sent.code == TOO_BIG and not answered


async def _hang_up(server: ClientConnection, tasks: Sequence[asyncio.Task[None]]) -> None:
    await ended(*tasks)
    await server.close()


async def _dial(proxy: _Proxy, websocket: WebSocket, grant: Grant) -> ClientConnection:
    """Open the dev server's side of a socket."""
    failures = (OSError, InvalidHandshake, TimeoutError)
    try:
        if _PING in websocket.scope["subprotocols"]:
            # a page that is left open when its session went to sleep asks each second: that must not wake it again
            if grant.port is not None:
                return await _connect(websocket, (await proxy.upstream(grant)).endpoint)
            endpoint = await proxy.sessions.shown(session_id=grant.session_id, user_id=grant.user_id)
            if endpoint is None:
                raise ServerFailed("the session sleeps: load the page anew to wake it")
            return await _connect(websocket, endpoint)
        upstream = await proxy.upstream(grant)
        try:
            return await _connect(websocket, upstream.endpoint)
        except failures:  # it may have been started anew
            return await _connect(websocket, (await proxy.upstream(grant, failed=upstream)).endpoint)
    except failures as error:
        raise ServerFailed(f"the session's dev server takes no socket ({type(error).__name__})") from error


async def _connect(websocket: WebSocket, endpoint: PreviewEndpoint) -> ClientConnection:
    protocols = [Subprotocol(name) for name in websocket.scope["subprotocols"]]
    return await open_socket(endpoint, _target(websocket, endpoint.base), protocols=protocols or None)


async def _inwards(websocket: WebSocket, server: ClientConnection, *, edit: bool) -> None:
    with suppress(WebSocketDisconnect, ConnectionClosed):
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            said = message["text"] if message.get("text") is not None else message["bytes"]
            passed_on = said if edit else only_looks(said)
            if passed_on is not None:
                await server.send(passed_on)


async def _outwards(websocket: WebSocket, server: ClientConnection) -> None:
    with suppress(WebSocketDisconnect, ConnectionClosed):
        async for message in server:
            if isinstance(message, str):
                await websocket.send_text(message)
            else:
                await websocket.send_bytes(message)
