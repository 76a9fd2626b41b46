"""What columns hold beyond what databases know: JSON, times with a zone, and words from outside."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from pydantic import JsonValue
from sqlalchemy import DateTime, Dialect, Text, TypeDecorator

__all__ = ["Json", "Utc", "Words"]


class Json(TypeDecorator[JsonValue]):
    """A JSON value as ASCII text, so that no database's idea of Unicode is in the way."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: JsonValue, dialect: Dialect) -> str | None:
        """Encode; None is SQL's NULL."""
        return None if value is None else json.dumps(value, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> JsonValue:
        """Decode."""
        return None if value is None else json.loads(value)


class Utc(TypeDecorator[datetime]):
    """An aware time; SQLite, which knows no zones, stores it in UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC; a naive time is a mistake of the caller's."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"time {value.isoformat()} has no zone; use koda_ray.types.now()")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give the zone back."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Words(TypeDecorator[str]):
    """Text from outside: an id or a name that a model or a person chose.

    Postgres refuses NUL and no database takes half a surrogate pair; a title that holds one must not stop a session,
    so it is mended on the way in, and in comparisons alike.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what cannot be stored."""
        if value is None:
            return None
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
