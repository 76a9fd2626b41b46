"""Records to JSON rows and back: a record's fields are its row's, times are text in UTC that sorts by time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from pydantic import JsonValue

from koda_ray.events import CHANNELS, Envelope
from koda_ray.state.rows import columns
from koda_ray.types import NodeState

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["copy", "decode", "encode", "encode_event", "event", "is_seen", "moment", "state_row", "time_of", "words"]

R = TypeVar("R", bound="DataclassInstance")


def words(text: str) -> str:
    """Mend text from outside as the SQL stores do: without NUL and half surrogate pairs."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def moment(at: datetime) -> str:
    """Write a time; a naive one is a mistake of the caller's."""
    if at.tzinfo is None:
        raise ValueError(f"time {at.isoformat()} has no zone; use koda_ray.types.now()")
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def time_of(text: JsonValue) -> datetime:
    """Read a time."""
    return datetime.fromisoformat(str(text))


def is_seen(session: dict[str, JsonValue]) -> bool:
    """Whether a session is neither being deleted nor discarded; rows from before that could be say nothing of it."""
    return session["status"] != "closed" and session.get("delete_at") is None


def copy(value: JsonValue) -> JsonValue:
    """Copy JSON, so that whoever gets it may change it."""
    if isinstance(value, dict):
        return {name: copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value


def state_row(state: NodeState) -> JsonValue:
    """Write a session's state as the model's own JSON."""
    return json.loads(state.model_dump_json())


def encode(record: DataclassInstance, **more: JsonValue) -> dict[str, JsonValue]:
    """Build a record's row; ``more`` are columns of the store's own."""
    write = _writers(type(record))
    return {**{name: write[name](value) for name, value in columns(record).items()}, **more}


def decode(cls: type[R], row: dict[str, JsonValue]) -> R:
    """Build a record from its row; a field that an older koda_ray did not know has its default."""
    return cls(**{name: read(row[name]) for name, read in _readers(cls).items() if name in row})


def encode_event(envelope: Envelope, user_id: str) -> dict[str, JsonValue]:
    """Build an event's row."""
    return {
        "stream_id": words(envelope.stream_id),
        "seq": envelope.seq,
        "id": envelope.id,
        "user_id": user_id,
        "channel": envelope.channel,
        "type": envelope.type,
        "data": envelope.data,
        "cause_id": None if envelope.cause_id is None else words(envelope.cause_id),
        "epoch": envelope.epoch,
        "at": moment(envelope.at),
    }


def event(row: dict[str, JsonValue]) -> Envelope:
    """Build an event as it was stored, on the channel that its type has now."""
    values: dict[str, Any] = {**row, "data": copy(row["data"]), "at": time_of(row["at"])}
    values["channel"] = CHANNELS.get(values["type"], "progress")
    del values["user_id"]  # whose it is, the envelope does not say
    return Envelope(**values)


_KINDS: dict[str, type] = {"time": datetime, "state": NodeState, "text": str}


@cache
def _kinds(cls: type[DataclassInstance]) -> dict[str, str]:
    """Tell a record's fields apart by their types: times, states, text that may have to be mended, and JSON."""
    kinds: dict[str, str] = {}
    hints = get_type_hints(cls)
    for field in fields(cls):
        hint = hints[field.name]
        options = getattr(hint, "__args__", ()) if type(None) in getattr(hint, "__args__", ()) else (hint,)
        kinds[field.name] = next(
            (name for name, kind in (("time", datetime), ("state", NodeState), ("text", str)) if kind in options),
            "json",
        )
    return kinds


_WRITE: dict[str, Callable[[Any], JsonValue]] = {
    "time": lambda value: None if value is None else moment(value),
    "state": state_row,
    "text": lambda value: None if value is None else words(value),
    "json": lambda value: value,
}
_READ: dict[str, Callable[[Any], object]] = {
    "time": lambda value: None if value is None else time_of(value),
    "state": lambda value: NodeState.model_validate_json(json.dumps(value)),
    "text": lambda value: value,
    "json": copy,
}


@cache
def _writers(cls: type[DataclassInstance]) -> dict[str, Callable[[Any], JsonValue]]:
    return {name: _WRITE[kind] for name, kind in _kinds(cls).items()}


@cache
def _readers(cls: type[DataclassInstance]) -> dict[str, Callable[[Any], object]]:
    return {name: _READ[kind] for name, kind in _kinds(cls).items()}
