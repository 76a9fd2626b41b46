"""Values that come from outside as JSON: what is not what it has to be is taken as not there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from pydantic import ValidationError

from koda_ray.types import Answered, Pointed

__all__ = ["answers_in", "items", "mapping", "parsed", "pointed_in", "text"]


def parsed(words: str) -> Mapping[str, object]:
    """Return the JSON object that a text holds, or an empty one."""
    try:
        value: object = json.loads(words)
    except ValueError:
        return {}
    return mapping(value)


def mapping(value: object) -> Mapping[str, object]:
    """Return an object, or an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """Return a list, or an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def pointed_in(value: object) -> tuple[Pointed, ...]:
    """Return a list of changes that pointed at something; what is none is left out."""
    found: list[Pointed] = []
    for each in items(value):
        with suppress(ValidationError):
            found.append(Pointed.model_validate(each))
    return tuple(found)


def text(value: object) -> str | None:
    """Return a text that says something, or None."""
    return value if isinstance(value, str) and value.strip() else None


def answers_in(value: object) -> tuple[Answered, ...]:
    """Return a list of answers; what is none is left out."""
    found: list[Answered] = []
    for each in items(value):
        with suppress(ValidationError):
            found.append(Answered.model_validate(each))
    return tuple(found)
