"""Reads what a client asks the proxy for, and rewrites it for the server: one reading, by h11, on both sides.

A request whose end two programs could see in two places is refused, not repaired. What goes on is written anew from
what was read, so nothing that only one of the two understands gets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import h11

from koda_ray.sandbox.egress.addresses import Address
from koda_ray.sandbox.egress.rules import Refused, plain_host

__all__ = ["Destination", "read_target", "rewritten", "rewritten_response"]

Headers = Iterable[tuple[bytes, bytes]]

_ABSOLUTE = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"(\[[0-9a-f:.%]*\]|[^:@\[\]]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect", b"host",
     b"content-length"}
)  # fmt: skip


@dataclass(frozen=True)
class Destination:
    """Where a request wants to go; ``path`` only where the proxy reads the request."""

    how: Literal["connect", "http"]
    host: str | Address
    port: int
    path: bytes = b""

    @property
    def authority(self) -> str:
        """The host and port as a Host header has them."""
        host = self.host if isinstance(self.host, str) or self.host.version == 4 else f"[{self.host}]"
        return str(host) if self.port == 80 else f"{host}:{self.port}"


def read_target(request: h11.Request, *, within: Destination | None = None) -> Destination:
    """Find out where a request wants to go.

    Args:
        request: As h11 read it.
        within: The tunnel that it came through, where it did: then it may name no other host.

    Raises:
        Refused: BAD_REQUEST.
    """
    names = [name for name, _ in request.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise _bad("Content-Length and Transfer-Encoding contradict each other")
    if b"transfer-encoding" in names and request.http_version < b"1.1":
        raise _bad("HTTP/1.0 has no Transfer-Encoding")
    text = request.target.decode("ascii")
    if request.method == b"CONNECT":
        if within is not None:
            raise _bad("a tunnel holds no other tunnel")
        if b"content-length" in names or b"transfer-encoding" in names:
            raise _bad("a CONNECT request has no body")
        host, port = _authority(text, default=None)
        return Destination("connect", host, port)
    if within is not None and text.startswith("/"):
        host, port = _authority(_header(request, b"host"), default=80)
        path = text
    else:
        absolute = _ABSOLUTE.fullmatch(text)
        if absolute is None:
            raise _bad("this is a proxy; ask it for http://HOST/..., or by CONNECT HOST:443")
        scheme, authority, path, fragment = absolute.groups()
        if scheme.lower() != "http":
            raise _bad(f"{scheme[:20]}:// is not spoken here; use http://, or CONNECT HOST:443 for https://")
        if fragment is not None:
            raise _bad("a request names no fragment (#)")
        host, port = _authority(authority, default=80)
    if within is not None and (host, port) != (within.host, within.port):
        raise _bad(f"this tunnel leads to {within.authority} and nowhere else")
    return Destination("http", host, port, (path if path.startswith("/") else f"/{path}").encode("ascii"))


def rewritten(request: h11.Request, target: Destination) -> h11.Request:
    """The request as the server gets it: host from the target, no header that was meant for the proxy."""
    headers = [(b"host", target.authority.encode("ascii")), *_end_to_end(request.headers), *_framing(request.headers)]
    return h11.Request(method=request.method, target=target.path, headers=[*headers, (b"connection", b"close")])


def rewritten_response(response: h11.Response) -> h11.Response:
    """The response as the client gets it.

    Raises:
        Refused: UPSTREAM_BROKEN when its end could be seen in two places.
    """
    names = [name for name, _ in response.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise Refused(
            "UPSTREAM_BROKEN",
            502,
            "the server's answer has both Content-Length and Transfer-Encoding: two ends",
        )
    length = [(name, value) for name, value in response.headers if name == b"content-length"]
    return h11.Response(
        status_code=response.status_code, reason=response.reason, headers=[*_end_to_end(response.headers), *length]
    )


def _end_to_end(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers that go further than one connection, without those that say where the body ends."""
    pairs = list(headers)
    named = {word.strip().lower() for name, value in pairs if name == b"connection" for word in value.split(b",")}
    return [
        (name, value)
        for name, value in pairs
        if name not in _HOP_BY_HOP and name not in named and not name.startswith(b"proxy-")
    ]


def _framing(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name in (b"content-length", b"transfer-encoding")]


def _authority(text: str, *, default: int | None) -> tuple[str | Address, int]:
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise _bad(f"{text[:253]!r} is not HOST:PORT" + ("; a user and password are not passed on" * ("@" in text)))
    host, port = found.groups()
    if port is None and default is None:
        raise _bad("CONNECT needs a port, as in HOST:443")
    return plain_host(host), int(port) if port is not None else default or 0


def _header(request: h11.Request, name: bytes) -> str:
    return next((value for key, value in request.headers if key == name), b"").decode("latin-1")


def _bad(words: str) -> Refused:
    return Refused("BAD_REQUEST", 400, words)
