"""Short-lived tokens that let whoever holds the address see one session's live preview, or a port of a sandbox.

To see and to edit are two grants: what is passed on so that others may look cannot write.

A token says what, user and expiry, and carries an HMAC of them. It needs no table, no cookie and no header, which
matters because the page it opens is hostile and runs in an opaque origin, where neither cookies nor storage work.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput, KodaError
from koda_ray.types import now

__all__ = ["DEV_SERVER", "PREVIEW_TTL_S", "Forbidden", "Grant", "Signer", "mac_of", "signing_key"]

PREVIEW_TTL_S = 3600.0
DEV_SERVER = 0
"""What stands for the dev server of a person's own sandbox, wherever it listens: no page has this port."""
_EDIT = ".edit"
_BUNDLE = "~"
_MAC_BYTES = 16
_MIN_KEY_BYTES = 16


class Forbidden(KodaError):
    """A token that was not signed here, was changed, has run out, or does not let its holder do or see this."""

    code = "FORBIDDEN"
    status = 403


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What a token lets its holder see: a session's page, or what a person's own sandbox serves on a port.

    ``port`` is ``DEV_SERVER`` of such a sandbox's dev server, and None of a session's page; ``bundle`` is the hash of
    the built page that is seen in place of the one that runs. ``edit`` says whether its holder may send anything but
    requests to read, and what Vite's client needs to say.
    """

    session_id: str
    user_id: str
    expires_at: datetime
    port: int | None = None
    bundle: str | None = None
    edit: bool = False


@dataclass(frozen=True)
class Signer:
    """Signs and checks preview tokens with one key."""

    key: bytes
    clock: Callable[[], datetime] = now

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Use ``KODA_SIGNING_KEY``, or a key of this installation's own. Raises as `signing_key`."""
        return cls(signing_key(settings))

    def sign(
        self,
        *,
        session_id: str,
        user_id: str,
        port: int | None = None,
        bundle: str | None = None,
        edit: bool = False,
        ttl_s: float = PREVIEW_TTL_S,
    ) -> tuple[str, datetime]:
        """Make a token that lives ``ttl_s`` seconds; return it with its end.

        Args:
            session_id: Of the session, or of the sandbox where there is a port.
            user_id: Whose.
            port: What is shown of a sandbox, or ``DEV_SERVER``.
            bundle: The built page that is shown of a session.
            edit: Whether its holder may write, too.
            ttl_s: How long.
        """
        expires_at = (self.clock() + timedelta(seconds=ttl_s)).replace(microsecond=0)
        what = session_id if port is None else f"{session_id}:{port}"
        if bundle is not None:
            what = f"{session_id}{_BUNDLE}{bundle}"
        body = f"{what}.{user_id}.{int(expires_at.timestamp())}{_EDIT if edit else ''}"
        return f"{body}.{self._mac(body)}", expires_at

    def check(self, token: str) -> Grant:
        """Read a token.

        Raises:
            Forbidden: It is not ours, was changed, or has run out.
        """
        body, _, mac = token.rpartition(".")
        parts = body.removesuffix(_EDIT).split(".")
        if not hmac.compare_digest(self._mac(body).encode(), mac.encode()) or len(parts) != 3:
            raise Forbidden("this preview address is not valid; ask for a new one: POST /v1/sessions/<id>/preview")
        expires_at = datetime.fromtimestamp(int(parts[2]), tz=UTC)
        if expires_at <= self.clock():
            raise Forbidden(
                f"this preview address ran out at {expires_at.isoformat()}; ask for a new one: "
                "POST /v1/sessions/<id>/preview",
                code="TOKEN_EXPIRED",
            )
        named, _, bundle = parts[0].partition(_BUNDLE)
        what, _, port = named.partition(":")
        return Grant(
            session_id=what,
            user_id=parts[1],
            expires_at=expires_at,
            port=int(port) if port else None,
            bundle=bundle or None,
            edit=body.endswith(_EDIT),
        )

    def _mac(self, body: str) -> str:
        return mac_of(self.key, "preview v1", body)


def mac_of(key: bytes, use: str, body: str) -> str:
    """Return what proves that whoever has a key wrote something for one use, as text for addresses."""
    digest = hmac.new(key, f"koda {use}\0{body}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest[:_MAC_BYTES]).decode().rstrip("=")


def signing_key(settings: Settings) -> bytes:
    """Return the key that signs preview addresses, made once for an installation where none is set.

    It is always visible ASCII, so that ``KODA_SIGNING_KEY`` can carry it to other processes byte for byte.

    Raises:
        InvalidInput: ``KODA_SIGNING_KEY`` is too short to be a secret.
    """
    if settings.signing_key is not None:
        key = settings.signing_key.get_secret_value().encode()
        if len(key) < _MIN_KEY_BYTES:
            raise InvalidInput(f"KODA_SIGNING_KEY has {len(key)} bytes and needs {_MIN_KEY_BYTES}")
        return key
    return _installation_key(settings.database_path.parent / "signing.key")


def _installation_key(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        os.link(temp, path)  # of two that start together, one key stays
    except FileExistsError:
        pass
    finally:
        temp.unlink(missing_ok=True)
    return path.read_bytes().hex().encode()
