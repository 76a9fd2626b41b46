"""Tokens with which a page shows one render's video and picture by address alone, for an hour.

What a page of another origin shows in ``<img>`` and ``<video>`` comes without its key, and a cookie is not for it. So
it asks once, with the key, for an address that is enough by itself: of this one video, and not for long. A browser
fetches parts of a video as it plays, and keeps what it has by its address; so the end is a whole quarter of an hour,
and whoever asks again within it gets the same address.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from koda_ray.serve.signing import Forbidden, mac_of
from koda_ray.types import now

__all__ = ["MediaGrant", "MediaSigner"]

_LEAST_S = 3600
_STEP_S = 900
_USE = "media v1"
_ASK = "ask for a new one: GET /v1/sessions/<id>/media"


@dataclass(frozen=True, kw_only=True)
class MediaGrant:
    """What a token lets its holder see: what one job of a session rendered."""

    session_id: str
    user_id: str
    job_id: str


@dataclass(frozen=True)
class MediaSigner:
    """Signs and checks such tokens with one key."""

    key: bytes
    clock: Callable[[], datetime] = now

    def sign(self, grant: MediaGrant) -> tuple[str, datetime]:
        """Make a token, the same for an hour's quarter; return it with its end, in 60 to 75 minutes."""
        end_s = -(-int(self.clock().timestamp() + _LEAST_S) // _STEP_S) * _STEP_S
        body = f"{grant.session_id}.{grant.user_id}.{grant.job_id}.{end_s}"
        return f"{body}.{mac_of(self.key, _USE, body)}", datetime.fromtimestamp(end_s, tz=UTC)

    def check(self, token: str) -> MediaGrant:
        """Read a token.

        Raises:
            Forbidden: It is not ours, was changed, or (TOKEN_EXPIRED) has run out.
        """
        body, _, mac = token.rpartition(".")
        parts = body.split(".")
        if not hmac.compare_digest(mac_of(self.key, _USE, body).encode(), mac.encode()) or len(parts) != 4:
            raise Forbidden(f"this address of a video is not valid; {_ASK}")
        session_id, user_id, job_id, end_s = parts
        expires_at = datetime.fromtimestamp(int(end_s), tz=UTC)
        if expires_at <= self.clock():
            raise Forbidden(
                f"this address of a video ran out at {expires_at.isoformat()}; {_ASK}", code="TOKEN_EXPIRED"
            )
        return MediaGrant(session_id=session_id, user_id=user_id, job_id=job_id)
