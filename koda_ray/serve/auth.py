"""Who is asking: bearer keys, kept as hashes, each of one user; or a browser's cookie that stands for one (`logins`).

Keys come from the setting or from the database. Where there never were any, the server is one person's own machine:
everything belongs to the user ``local``, and that is why it refuses to listen anywhere but on loopback.

Whether keys are required is decided once, when a server starts, and handed on to all of its processes as a setting. It
only ever turns to yes: on anything but loopback, and in a database that ever had keys, revoking the last one leaves the
server closed to everybody until there is another.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from starlette.datastructures import Headers

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput, KodaError
from koda_ray.serve.logins import Logins, is_own_page
from koda_ray.serve.signing import Forbidden, signing_key
from koda_ray.state.rows import KEY_ID_CHARS
from koda_ray.state.store import Store

__all__ = ["LOCAL_USER", "Authenticator", "KeyRing", "Unauthorized", "bearer", "decide_keys", "is_loopback"]

LOCAL_USER = "local"
MIN_KEY_CHARS = 16
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HASHED = re.compile(r"sha256:([0-9a-f]{64})")


class Unauthorized(KodaError):
    """No key, or one that is not known."""

    code = "UNAUTHORIZED"
    status = 401


@dataclass(frozen=True)
class KeyRing:
    """The keys of the setting, by the SHA-256 of each."""

    users: Mapping[bytes, str]

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Read ``KODA_API_KEYS``: ``key``, ``user=key`` or ``user=sha256:<hex>``, separated by commas.

        Raises:
            InvalidInput: An entry is not one of these, or a key is too short to be safe. It names the entry by its
                place, never by its value.
        """
        users: dict[bytes, str] = {}
        text = settings.api_keys.get_secret_value() if settings.api_keys else ""
        for place, entry in enumerate(filter(None, (part.strip() for part in text.split(","))), start=1):
            user, separator, key = entry.partition("=")
            if not separator:
                user, key = LOCAL_USER, entry
            if not _USER.fullmatch(user):
                raise InvalidInput(
                    f"KODA_API_KEYS, entry {place}: the user in user=key is letters, digits, '-' and '_', at most 64"
                )
            hashed = _HASHED.fullmatch(key)
            if hashed is None and len(key) < MIN_KEY_CHARS:
                raise InvalidInput(
                    f"KODA_API_KEYS, entry {place}: the key has {len(key)} characters and needs {MIN_KEY_CHARS}; "
                    'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
                )
            digest = bytes.fromhex(hashed[1]) if hashed else hashlib.sha256(key.encode()).digest()
            users[digest] = user
        return cls(users)

    def find(self, key: str) -> str | None:
        """Return whose key it is."""
        digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
        found: str | None = None
        for known, user in self.users.items():  # all of them, so that time says nothing about which
            if hmac.compare_digest(known, digest):
                found = user
        return found

    def find_id(self, key_id: str) -> str | None:
        """Return whose key it is that an id names."""
        return next((user for known, user in self.users.items() if known.hex()[:KEY_ID_CHARS] == key_id), None)


class Authenticator:
    """Tells who a request comes from.

    Args:
        ring: The keys of the setting.
        store: Where other keys are.
        logins: Makes and reads the cookies of browsers.
        closed: Whether requests without a key are refused whatever keys there are.
    """

    def __init__(self, ring: KeyRing, store: Store, *, logins: Logins, closed: bool) -> None:
        self._ring = ring
        self._store = store
        self.logins = logins
        self._closed = closed

    @classmethod
    def from_settings(cls, settings: Settings, store: Store) -> Self:
        """Be as closed as the server's start decided, and in any case on what others can reach."""
        closed = settings.keys_required or not is_loopback(settings.host)
        logins = Logins(signing_key(settings))
        return cls(KeyRing.from_settings(settings), store, logins=logins, closed=closed)

    async def check(self) -> None:
        """See that a process that has to ask for keys could know one.

        Raises:
            InvalidInput: It has none, and the database never had any: they are known to another process only.
        """
        if self._closed and not self._ring.users and not await self._store.has_api_keys(revoked=True):
            raise InvalidInput(
                "this server requires keys, and this node knows none: set KODA_API_KEYS in the environment of every "
                "node as it is where the server was started, or keep keys in the database: koda keys create USER"
            )

    async def required(self) -> bool:
        """Whether requests without a key are refused."""
        return self._closed or bool(self._ring.users) or await self._store.has_api_keys(revoked=True)

    async def user(self, headers: Headers, method: str | None = "GET") -> str:
        """Return the user that a request speaks for: by its key, else by its cookie.

        Args:
            headers: The request's.
            method: HTTP's; None for a WebSocket.

        Raises:
            Unauthorized: The key is not known; or there is none, and keys are required.
            Forbidden: WRONG_ORIGIN, it has a cookie, and comes from a page that is not ours.
        """
        if (key := bearer(headers.get("authorization"))) is not None:
            user = self._ring.find(key) or await self._store.user_for_key(key)
            if user is None:
                raise Unauthorized("this key is not known to the server; check it, or ask whoever runs the server")
            return user
        if (login := self.logins.read(headers)) is not None:
            user = self._ring.find_id(login.key_id) or await self._store.user_for_key_id(login.key_id)
            if user is not None and not is_own_page(headers, method):
                raise Forbidden(
                    "a browser's sign-in counts for this server's own pages: send the header 'Authorization: Bearer "
                    "<key>' from elsewhere",
                    code="WRONG_ORIGIN",
                )
            if user is not None:
                return user
        if await self.required():
            raise Unauthorized(
                "this server needs a key: send the header 'Authorization: Bearer <key>'; whoever runs the server makes "
                "one on its machine, with: koda keys create USER"
            )
        return LOCAL_USER


def bearer(authorization: str | None) -> str | None:
    """Return the key that an ``Authorization`` header has, if it has one."""
    scheme, _, key = (authorization or "").partition(" ")
    return (key.strip() or None) if scheme.lower() == "bearer" else None


async def decide_keys(settings: Settings, store: Store) -> Settings:
    """Decide whether a server that starts requires keys; return its settings with the answer.

    Raises:
        InvalidInput: It would have to, and there are none.
    """
    exposed = not is_loopback(settings.host)
    usable = bool(KeyRing.from_settings(settings).users) or await store.has_api_keys()
    if exposed and not usable:
        raise InvalidInput(
            f"KODA_HOST={settings.host} would let everybody on the network in: make a key with koda keys create USER, "
            "or set KODA_API_KEYS (user=key, separated by commas), or leave KODA_HOST out to serve this machine only"
        )
    if settings.keys_required and not usable:
        raise InvalidInput(
            "requests need a key here (KODA_KEYS_REQUIRED is set, or Serve's own file says where to listen), and there "
            "are none: make one with koda keys create USER, or set KODA_API_KEYS"
        )
    required = exposed or usable or settings.keys_required or await store.has_api_keys(revoked=True)
    return settings.model_copy(update={"keys_required": required})


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
