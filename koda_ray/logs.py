"""Loggers: structlog, without rich.

structlog loads rich for tracebacks in colour when it is there, which no log file shows and which costs each session's
process 4 MB. So rich is out of sight while structlog is imported, and only then.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Protocol, TextIO, cast

from koda_ray.tracing import trace_id

__all__ = ["FORMAT", "Writes", "get_logger", "lose_output", "name_process", "to_file", "warnings_to_stderr"]

FORMAT = "KODA_LOGS"
"""The variable that says how processes log to their output: ``json`` for a JSON object a line."""
_of_process: dict[str, str | int] = {}
_ABSENT = object()
_found = sys.modules.get("rich", _ABSENT)
sys.modules["rich"] = cast("Any", None)
try:
    import structlog
finally:
    if _found is _ABSENT:
        del sys.modules["rich"]
    else:
        sys.modules["rich"] = cast("Any", _found)

get_logger = structlog.get_logger


class Writes(Protocol):
    """What takes text."""

    def write(self, text: str, /) -> int:
        """Take some."""
        ...

    def flush(self) -> None:
        """Pass on what was taken."""
        ...


class _Lossy:
    """A place for what is logged whose failures stay its own: what cannot be written down stops nobody's work."""

    def __init__(self, place: Callable[[], Writes | None]) -> None:
        self._place = place

    def write(self, text: str, /) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            if (place := self._place()) is not None:
                place.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            if (place := self._place()) is not None:
                place.flush()


class _LossyOutput(_Lossy):
    """What a process says, to whoever has more to do with its file than to write."""

    def __init__(self, file: TextIO) -> None:
        super().__init__(lambda: file)
        self._file = file

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._file, name)


def lose_output() -> None:
    """Have nothing of this process fail because what it says cannot be written down, whoever in it says something."""
    sys.stdout, sys.stderr = (cast("TextIO", _LossyOutput(each)) for each in (sys.stdout, sys.stderr))


def warnings_to_stderr() -> None:
    """Keep what is logged out of a program's output, and only what a person should know of and is told nowhere else."""
    level = structlog.make_filtering_bound_logger(logging.WARNING)
    processors = [_unless_raised, *structlog.get_config()["processors"]]
    structlog.configure(processors=processors, wrapper_class=level, logger_factory=_to(lambda: sys.stderr))


def _unless_raised(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drop what is also an error that whoever asked is told in its own words."""
    if event.get("raised") and event.get("event") == "sandbox refused":
        raise structlog.DropEvent
    return event


def to_file(file: Writes) -> None:
    """Have everything that is logged in a file, a JSON object a line."""
    structlog.configure(processors=_as_json(), logger_factory=_to(lambda: file))


def name_process(**ids: str | int) -> None:
    """Have each JSON object that this process logs from now on name what is so of all that it does.

    Args:
        ids: By name: the ``node`` that it is on; of a process with one session ``session_id`` and ``epoch``. A line
            that says otherwise is right.
    """
    _of_process.update(ids)


def _as_json() -> list[Any]:
    return [
        _traced,
        _named,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(),
    ]


def _for_people() -> list[Any]:
    """As structlog does by itself, with tracebacks as Python writes them even where it was loaded with rich.

    Rich shows the variables of each frame, which may be anybody's prompt or key, and takes seconds for it.
    """
    processors = structlog.get_config()["processors"]
    for each in processors:
        if isinstance(each, structlog.dev.ConsoleRenderer):
            each.exception_formatter = structlog.dev.plain_traceback
    return processors


def _traced(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Name the trace that this belongs to, where there is one."""
    if (trace := trace_id()) is not None:
        event.setdefault("trace_id", trace)
    return event


def _named(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Name whose process this is."""
    for name, value in _of_process.items():
        event.setdefault(name, value)
    return event


def _to(place: Callable[[], Writes | None]) -> structlog.PrintLoggerFactory:
    return structlog.PrintLoggerFactory(cast("TextIO", _Lossy(place)))


if not structlog.is_configured():  # by whoever uses this package in a program of their own
    said = _as_json() if os.environ.get(FORMAT) == "json" else [_traced, *_for_people()]
    structlog.configure(processors=said, logger_factory=_to(lambda: sys.stdout))
