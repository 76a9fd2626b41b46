"""The data of videos: one object for one video, or rows for a batch of them, and what each of those is called."""

from __future__ import annotations

import csv
import json
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from koda_ray.errors import InvalidInput, NotFound

__all__ = ["MAX_ROWS", "Row", "name_rows", "read_props"]

Row = dict[str, JsonValue]
MAX_ROWS = 10_000
_INDEX = "index"
_UNFIT = re.compile(r"[\x00-\x1f\x7f/\\]+")
_NAME_BYTES = 200


def read_props(given: str | Path) -> JsonValue | list[Row]:
    """Read data from a file, or from JSON text that begins with ``{``.

    Args:
        given: A ``.json`` file (an object is one video's data, a list of objects a batch), a ``.jsonl`` file (a row a
            line), a ``.csv`` file (a row a line, the first line names the fields, every value is text), or JSON text.

    Returns:
        A list of rows for a batch, even of one; else the one video's data.

    Raises:
        NotFound: There is no such file.
        InvalidInput: It is not what its name says, or a batch's row is no object.
    """
    text = str(given)
    if isinstance(given, str) and text.lstrip().startswith("{"):
        return cast("JsonValue", _json(text, "the given props"))
    path = Path(given)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"there is no file {text!r} with props (JSON, JSON lines or CSV)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"props {path} cannot be read: {error}") from error
    match path.suffix.lower():
        case ".csv":
            return _rows(_csv(text, path), path)
        case ".jsonl" | ".ndjson":
            lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
            return _rows([_json(line, f"{path} line {number}") for number, line in lines], path)
        case _:
            found = _json(text, str(path))
            return _rows(cast("list[object]", found), path) if isinstance(found, list) else cast("JsonValue", found)


def name_rows(pattern: str, rows: Sequence[Mapping[str, JsonValue]]) -> list[Path]:
    """Name each row's video.

    Args:
        pattern: A path with fields of the row in braces, and ``{index}``, which counts from 1: ``card-{name}.mp4``.
        rows: The data.

    Raises:
        InvalidInput: A row lacks a field, or two rows get one name.
    """
    try:
        pieces = list(string.Formatter().parse(pattern))
    except ValueError as error:
        raise InvalidInput(f"output {pattern!r}: {error}; write a brace of its own twice") from None
    names: dict[str, int] = {}
    for index, row in enumerate(rows, 1):
        name = ""
        for literal, field, form, _ in pieces:
            name += literal
            if field is not None:
                name += _said(pattern, {_INDEX: index, **row}, field, form or "")
        if name in names:
            raise InvalidInput(
                f"rows {names[name]} and {index} would both be written to {name!r}: put a field that differs into the "
                f"name, or {{{_INDEX}}}"
            )
        names[name] = index
    return [Path(name) for name in names]


def _said(pattern: str, row: Mapping[str, JsonValue], field: str, form: str) -> str:
    if field not in row:
        raise InvalidInput(f"output {pattern!r}: the row has no field {field!r}; it has {', '.join(row)}")
    value = row[field]
    try:
        text = format(value, form) if form and isinstance(value, str | int | float) else str(value)
    except ValueError as error:
        raise InvalidInput(f"output {pattern!r}: {field!r} is {value!r}: {error}") from None
    text = _UNFIT.sub("-", text).strip(" .")
    while len(text.encode()) > _NAME_BYTES:
        text = text[:-1]
    if not text:
        raise InvalidInput(f"output {pattern!r}: {field!r} is empty in {json.dumps(row)[:120]}")
    return text


def _json(text: str, what: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


def _csv(text: str, path: Path) -> list[object]:
    try:
        reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
        rows = list(reader)
    except csv.Error as error:
        raise InvalidInput(f"{path} is not CSV: {error}") from None
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise InvalidInput(f"{path} row {number} has another number of fields than the first line names")
    return list(rows)


def _rows(found: list[object], path: Path) -> list[Row]:
    if not 0 < len(found) <= MAX_ROWS:
        raise InvalidInput(f"{path} has {len(found)} rows: give 1 to {MAX_ROWS}")
    for number, row in enumerate(found, 1):
        if not isinstance(row, dict):
            raise InvalidInput(f"{path}: row {number} is {json.dumps(row)[:80]}: a row is an object with fields")
    return cast("list[Row]", found)
