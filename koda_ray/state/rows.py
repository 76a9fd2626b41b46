"""Records to rows and back: a record's fields are its table's columns of the same names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from pydantic import JsonValue

from koda_ray.events import CHANNELS, Envelope, NewEvent
from koda_ray.state.records import SessionRecord
from koda_ray.types import NodeState, now

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sqlalchemy import Row

__all__ = [
    "KEY_ID",
    "KEY_ID_CHARS",
    "body_hash",
    "columns",
    "envelope",
    "field_names",
    "key_hash",
    "number",
    "one_page",
    "record",
    "session",
]

_PAGE_CHARS = 1 << 21
KEY_ID_CHARS = 16
"""So much of a key's hash is its id: it names the key and is of no use as one."""
KEY_ID = re.compile(rf"[0-9a-f]{{{KEY_ID_CHARS}}}")

R = TypeVar("R", bound="DataclassInstance")


def body_hash(body: JsonValue) -> str:
    """Return a hash that two bodies share when they say the same, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def key_hash(key: str) -> str:
    """Return what is kept of an API key: of 256 random bits a plain hash is enough, there is no dictionary to try."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def one_page(sizes: Sequence[int], limit: int) -> int:
    """Return how many rows, from the first, are one page: ``limit`` at most, and together not too large for memory.

    Args:
        sizes: How many characters each has.
        limit: How many at most.
    """
    together = accumulate(sizes[:limit])
    return max(1, sum(chars <= _PAGE_CHARS for chars in together)) if sizes else 0


def columns(value: DataclassInstance) -> dict[str, object]:
    """Return a record's fields as column values."""
    return {name: getattr(value, name) for name in field_names(type(value))}


def record(cls: type[R], row: Row[*tuple[object, ...]]) -> R:
    """Build a record from a row; columns that it does not know are the store's own."""
    values = row._mapping  # pyright: ignore[reportPrivateUsage] - public API with an underscore
    return cls(**{name: values[name] for name in field_names(cls)})


def session(row: Row[*tuple[object, ...]]) -> SessionRecord:
    """Build a session's record; its state is kept as the model's own JSON."""
    there = row._mapping  # pyright: ignore[reportPrivateUsage]
    values = {name: there[name] for name in field_names(SessionRecord)}
    values["state"] = NodeState.model_validate_json(values["state"])
    return SessionRecord(**values)


def number(stream_id: str, last_seq: int, epoch: int, events: list[NewEvent]) -> list[Envelope]:
    """Number events so that the last of them is ``last_seq``."""
    at, first = now(), last_seq - len(events) + 1
    return [
        Envelope(
            stream_id=stream_id,
            seq=first + index,
            channel=CHANNELS.get(event.type, "progress"),
            type=event.type,
            data=event.data,
            cause_id=event.cause_id,
            epoch=epoch,
            at=at,
        )
        for index, event in enumerate(events)
    ]


def envelope(row: Row[*tuple[object, ...]]) -> Envelope:
    """Build an event as it was stored, on the channel that its type has now."""
    values = row._mapping  # pyright: ignore[reportPrivateUsage]
    kept = {name: values[name] for name in _EVENT_COLUMNS}
    return Envelope(channel=CHANNELS.get(kept["type"], "progress"), **kept)


_EVENT_COLUMNS = ("id", "stream_id", "seq", "type", "data", "cause_id", "epoch", "at")


@cache
def field_names(cls: type[DataclassInstance]) -> tuple[str, ...]:
    """Return the names of a record's fields, which are its columns."""
    return tuple(field.name for field in fields(cls))
