"""What one idempotency key makes once: what that is called, and what a link's token is.

No table holds these keys. A link's id is its session and the key, hashed, and a comment's its link and the key; those
of renders, batches and takes are of their user and the key. So two requests at once meet at one row. A file's id sorts
by time, as those of a list do, and ends with its user and the key, hashed. How ids are made of keys never changes: a
request that is repeated after an upgrade finds what it made. Whoever knows the key can tell the id, and nothing by it:
a link's token is made with the server's own key. It is made of the row's time too, so that what was revoked does not
come back where its key is used again; and of what was asked for, so that for anything else the token is not the one
whose hash the row has.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

from koda_ray.errors import Conflict
from koda_ray.state.records import AssetRecord
from koda_ray.state.rows import key_hash
from koda_ray.state.shares import ShareComment, ShareRecord
from koda_ray.types import new_id
from koda_ray.wire import MakeShare

__all__ = [
    "asset_ending",
    "asset_name",
    "check_same_asset",
    "check_same_comment",
    "comment_name",
    "group_name",
    "keyed_digits",
    "same_token",
    "share_name",
    "share_token",
]

_ENDING_CHARS = 15
"""Random digits at the end of an id: what is before them says when it was made. Source: RFC 9562, section 5.7."""


def keyed_digits(key: str, *within: str, count: int = 32) -> str:
    """Return the hexadecimal digits that an idempotency key stands for, for ids.

    Args:
        key: The key.
        within: Whose it is, and where one key may make several things, of which kind: the same key is another there.
        count: How many digits, 64 at most.
    """
    return hashlib.sha256("\0".join((*within, key)).encode()).hexdigest()[:count]


def group_name(user_id: str, key: str) -> str:
    """Return the id of the group of takes that a user makes with a key."""
    return f"grp_{keyed_digits(key, user_id)}"


def share_name(session_id: str, key: str) -> str:
    """Return the id of the link that a key makes of a session."""
    return f"shr_{keyed_digits(key, session_id, 'share')}"


def comment_name(share_id: str, key: str) -> str:
    """Return the id of the comment that a key leaves with a link."""
    return f"cmt_{keyed_digits(key, share_id, 'comment')}"


def asset_ending(user_id: str, key: str) -> str:
    """Return how the ids of all files end that a key uploads for a user, of which there is one."""
    return keyed_digits(key, user_id, "asset", count=_ENDING_CHARS)


def asset_name(ending: str) -> str:
    """Return an id for a file that is uploaded now, with the ending of its key."""
    return new_id("ast")[: -len(ending)] + ending


def share_token(signing_key: bytes, share_id: str, made_at: datetime, *, key: str, asked: MakeShare) -> str:
    """Return a link's token: 256 bits, for addresses, that only this server can tell, once more where it is asked to.

    Args:
        signing_key: The server's own.
        share_id: The link.
        made_at: When it was made, as its row says.
        key: The idempotency key that it was made with.
        asked: What was asked for.
    """
    at = made_at.astimezone(UTC).isoformat(timespec="microseconds")
    # what a later version may ask for beside is not there where it is not used
    body = json.dumps([share_id, at, key, asked.model_dump(mode="json", exclude_defaults=True)], sort_keys=True)
    digest = hmac.new(signing_key, b"koda share v1\0" + body.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def same_token(signing_key: bytes, share: ShareRecord, *, key: str, asked: MakeShare) -> str:
    """Return the token of a link that a key made.

    Raises:
        Conflict: It was made of something else, or with another key of the server's.
    """
    token = share_token(signing_key, share.id, share.created_at, key=key, asked=asked)
    if key_hash(token) != share.token_hash:
        raise Conflict(
            f"the idempotency key {key!r} was used for another link ({share.id}); use a new key",
            context={"share": share.id},
        )
    return token


def check_same_comment(made: ShareComment, wanted: ShareComment, key: str) -> None:
    """Raise Conflict where a key had left another comment with the link already."""
    if (made.name, made.text, made.at_s) != (wanted.name, wanted.text, wanted.at_s):
        raise Conflict(f"the idempotency key {key!r} was used for another comment with this link; use a new key")


def check_same_asset(made: AssetRecord, wanted: AssetRecord, key: str) -> None:
    """Raise Conflict where a key had uploaded another file already, or that into another project.

    It may have been given to a session since.
    """
    is_elsewhere = wanted.session_id is not None and wanted.session_id != made.session_id
    if (made.name, made.sha256, made.purpose) != (wanted.name, wanted.sha256, wanted.purpose) or is_elsewhere:
        raise Conflict(
            f"the idempotency key {key!r} was used for another file ({made.id}); use a new key",
            context={"asset": made.id},
        )
    if made.project_id != wanted.project_id:
        raise Conflict(
            f"the idempotency key {key!r} was used for a file ({made.id}) in the project {made.project_id!r}, which is "
            f"not {wanted.project_id!r}; use a new key",
            context={"asset": made.id},
        )
