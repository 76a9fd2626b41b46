"""What is wrong with a value, in our own words: what it has to be, and what it is.

Pydantic says it for whoever wrote the model. Its kinds that a person meets have words here; all others keep its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

__all__ = ["in_our_words"]

_WANTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_too_short": "at least {min_length} character{s}",
    "string_too_long": "at most {max_length} characters",
    "too_short": "give at least {min_length}",
    "too_long": "give at most {max_length}",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
"""What is wanted, by the kind of error. Source: Pydantic's list of validation errors (2.x), with their ``ctx``."""
_SPELT = {"^[A-Za-z0-9_-]+$": "only letters from A to Z, digits, - and _"}
"""What is wanted, by the pattern that a text has to have."""
_BY_ITSELF = {"missing": "it is required", "extra_forbidden": "there is no such field"}
_SHORT_CHARS = 40


def in_our_words(item: Mapping[str, object]) -> str | None:
    """Say what a value has to be and what it is, as in ``at least 0.5, not -3``.

    Args:
        item: One of Pydantic's errors: its ``type``, ``ctx`` and, where it may be repeated, ``input``.

    Returns:
        The words; None for a kind that has none here.
    """
    kind = str(item["type"])
    if kind in _BY_ITSELF:
        return _BY_ITSELF[kind]
    context = cast("Mapping[str, object]", item.get("ctx") or {})
    wanted = _WANTED.get(kind) or _SPELT.get(str(context.get("pattern")))
    if wanted is None:
        return None
    figures = {name: _figure(value) for name, value in context.items()}
    told = wanted.format(**figures, s="" if context.get("min_length") == 1 else "s")
    seen = _seen(kind, context, item)
    return f"{told}, not {seen}" if seen else told


def _figure(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{int(value):,}" if isinstance(value, int) or value.is_integer() else repr(value)


def _seen(kind: str, context: Mapping[str, object], item: Mapping[str, object]) -> str:
    """Say what a value is, or how long a text or list is; nothing where it is long, for it may be a prompt."""
    value = item.get("input")
    if "actual_length" in context:
        return _figure(context["actual_length"])
    if kind.startswith("string_too") and isinstance(value, str):
        return _figure(len(value))
    if value is None:
        return "null" if "input" in item else ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return repr(value) if len(str(value)) <= _SHORT_CHARS else ""
    return "a list" if isinstance(value, list | tuple) else "an object" if isinstance(value, dict) else ""
