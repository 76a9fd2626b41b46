"""Sign-in for browsers: a key that is typed once becomes a cookie, which no script reads and no other page can use.

A browser's pictures, videos and sockets carry no ``Authorization``. The cookie says which key it stands for and when it
ends, with an HMAC of both; it needs no table, and is of no use once its key is revoked. It is ``HttpOnly`` and
``SameSite=Strict``, and it speaks for requests of our own pages alone: browsers send cookies whatever the port, and
what else listens on this host (a preview, say) is of the same site.

Source: RFC 6265bis, sections 4.1.2 and 5.2; W3C Fetch Metadata (``Sec-Fetch-Site``, which no script can set).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from koda_ray.serve.rates import SAFE_METHODS
from koda_ray.types import now

__all__ = ["LOGIN_TTL", "Login", "Logins", "is_own_page"]

LOGIN_TTL = timedelta(days=14)
"""How long a browser stays signed in that does not come back."""
_MAC_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class Login:
    """A browser that was signed in: the id of its key, and until when."""

    key_id: str
    expires_at: datetime


@dataclass(frozen=True)
class Logins:
    """Makes and reads the cookies of one installation.

    Args:
        key: The installation's signing key.
        clock: Tells the time.
    """

    key: bytes
    clock: Callable[[], datetime] = now

    @cached_property
    def cookie(self) -> str:
        """The cookie's name: another one for each installation, since those on one host share their cookies."""
        return f"koda_login_{self._mac('name')[:8]}"

    def sign_in(self, response: Response, key_id: str, *, secure: bool) -> datetime:
        """Give a browser its cookie; return when it ends.

        Args:
            response: The answer that sets it.
            key_id: Names the key, without being of use as one.
            secure: Whether the browser speaks TLS, and so must never send it without.
        """
        expires_at = (self.clock() + LOGIN_TTL).replace(microsecond=0)
        body = f"{key_id}.{int(expires_at.timestamp())}"
        self._set(response, f"{body}.{self._mac(body)}", max_age=int(LOGIN_TTL.total_seconds()), secure=secure)
        return expires_at

    def sign_out(self, response: Response, *, secure: bool) -> None:
        """Take the cookie from a browser."""
        self._set(response, "", max_age=0, secure=secure)

    def read(self, headers: Headers) -> Login | None:
        """Return who was signed in here with the cookie of a request; None without one, or where it is of no use."""
        sent = headers.get("cookie")  # most requests have none: what runs them has the key itself
        body, _, mac = cookie_parser(sent).get(self.cookie, "").rpartition(".") if sent else ("", "", "")
        if not body or not hmac.compare_digest(self._mac(body).encode(), mac.encode()):
            return None
        key_id, _, end = body.rpartition(".")
        expires_at = datetime.fromtimestamp(int(end), tz=UTC)
        return Login(key_id=key_id, expires_at=expires_at) if expires_at > self.clock() else None

    def _set(self, response: Response, value: str, *, max_age: int, secure: bool) -> None:
        response.set_cookie(self.cookie, value, max_age=max_age, httponly=True, samesite="strict", secure=secure)

    def _mac(self, body: str) -> str:
        digest = hmac.new(self.key, b"koda login v1\0" + body.encode(), hashlib.sha256).digest()
        return base64.b32encode(digest[:_MAC_BYTES]).decode().rstrip("=").lower()


def is_own_page(headers: Headers, method: str | None) -> bool:
    """Whether a request with a cookie comes from our own pages, or reads and comes from no page at all.

    Args:
        headers: The request's. The browser itself writes those that are looked at.
        method: HTTP's; None for a WebSocket, which needs as much as what writes.
    """
    reads = method in SAFE_METHODS
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin" or (site == "none" and reads)
    if origin is None:
        return reads
    place = _place(f"//{headers.get('host', '')}")
    return bool(place) and _place(origin) == place


def _place(address: str) -> str:
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:  # brackets that do not match
        return ""
