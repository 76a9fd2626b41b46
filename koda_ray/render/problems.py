"""What goes wrong in a page, gathered from the browser's own reports and placed in the original source.

A report names places of the built files, and is kept so. Where those come from is told once their source maps were
read, which takes a moment and is done in a thread (`Problems.place`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote, urlsplit

from koda_ray.errors import PageError
from koda_ray.hearsay import plain, whole
from koda_ray.render.protocol import PageProblem, ProblemKind
from koda_ray.render.sourcemap import SourceMaps

__all__ = ["Problems", "storable_text"]

MAX_PROBLEMS = 50
MAX_MESSAGE_CHARS = 4000
MAX_STACK_LINES = 30
_NAME_CHARS = 200
_MAX_READ_CHARS = 100_000
_CAUSES, _CAUSE_CHARS, _WARNINGS = 2, 200, 5
_STACK_LINE = re.compile(
    r"^ +at (?:(?P<name>.+?) \()?(?P<url>[a-z][a-z0-9+.-]*://\S+?):(?P<line>\d+):(?P<column>\d+)\)?$", re.MULTILINE
)
_HARMLESS = ("ResizeObserver loop",)


def storable_text(text: str) -> str:
    """Return what a page says as text that can be stored and shown: no control characters, and not too long."""
    return plain(text, MAX_MESSAGE_CHARS)


@dataclass(frozen=True)
class _Place:
    """A place in a built file, and the function that it lies in."""

    path: str
    line: int
    column: int
    function: str


@dataclass(frozen=True)
class _Noted:
    """A problem as it was reported: where it happened, or its stack in words."""

    kind: ProblemKind
    message: str
    places: tuple[_Place, ...] = ()
    stack: str = ""


class Problems:
    """Takes the protocol's events and keeps the first fifty problems, without repeats.

    Args:
        files: The bundle's files, for their source maps.
        origin: The origin that the bundle is served at.
    """

    def __init__(self, files: Mapping[str, bytes], origin: str) -> None:
        self._maps = SourceMaps(files)
        self._files = files
        self._origin = origin
        self._found: list[_Noted] = []
        self._fatal: _Noted | None = None

    async def place(self) -> None:
        """Find out where what was reported so far comes from; until then it is said to lie in the built files."""
        noted = [*self._found, *([self._fatal] if self._fatal else [])]
        paths = dict.fromkeys(place.path for one in noted for place in one.places)
        await asyncio.to_thread(self._maps.read, paths)

    @property
    def all(self) -> tuple[PageProblem, ...]:
        """Everything so far, in order."""
        return tuple(dict.fromkeys(map(self._placed, self._found)))

    @property
    def fatal(self) -> PageProblem | None:
        """The first uncaught exception, if any."""
        return None if self._fatal is None else self._placed(self._fatal)

    @property
    def to_mend(self) -> PageProblem | None:
        """What failed, as near to the project's own files as it is known: a runtime throws again what it caught."""
        problems, fatal = self.all, self.fatal
        errors = [problem for problem in problems if problem.kind in ("exception", "console")]
        own = [problem for problem in errors if problem.file is not None and _is_own(problem.file)]
        if fatal is not None and fatal.file is not None and (_is_own(fatal.file) or not own):
            return fatal
        return own[-1] if own else fatal or (problems[-1] if problems else None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should hear of, in short: the first few problems."""
        messages = dict.fromkeys(problem.message[:_CAUSE_CHARS] for problem in self._found)
        return tuple(messages)[:_WARNINGS]

    async def error(self, message: str = "", *, frame: int | None = None) -> PageError:
        """Return the error that says what failed: where that is to be mended, and what else may be why.

        Args:
            message: What the page said; what it threw first, and where that was, when empty.
            frame: Which frame it showed.
        """
        await self.place()
        mend = self.to_mend if message else self.fatal
        message = message or (mend.message if mend else "")
        where = f" at {mend.file}:{mend.line}:{mend.column}" if mend and mend.file else ""
        when = "" if frame is None else f"frame {frame}: "
        return PageError(
            f"{when}{storable_text(message)}{where}{self.because(message)}",
            context={
                "frame": frame,
                "file": mend.file if mend else None,
                "line": mend.line if mend else None,
                "column": mend.column if mend else None,
            },
        )

    def because(self, message: str) -> str:
        """Return what the page did not get before it failed, which is often why, as words to follow a message."""
        causes = [problem.message for problem in self._found if problem.kind == "resource"]
        causes = [cause[:_CAUSE_CHARS] for cause in causes if cause not in message][:_CAUSES]
        return f" (before that: {'; '.join(causes)})" if causes else ""

    def add(self, kind: ProblemKind, message: str, *, stack: str = "") -> None:
        """Note a problem that the browser did not report itself."""
        self._keep(_Noted(kind, storable_text(message), stack=storable_text(stack)))

    def on_exception(self, event: Mapping[str, object]) -> None:
        """Take ``Runtime.exceptionThrown``."""
        if not self._full or self._fatal is None:
            self.take_exception(event)

    def take_exception(self, event: Mapping[str, object]) -> str:
        """Note what the browser says was thrown, and return its message."""
        details = _mapping(event.get("exceptionDetails"))
        exception = _mapping(details.get("exception"))
        description = str(exception.get("description") or exception.get("value") or details.get("text") or "error")
        # where the error was made, before where it was last thrown: boundaries and clocks throw again what they caught
        frames = [*_stack_frames(description[:_MAX_READ_CHARS]), *_frames(details.get("stackTrace"))]
        if not frames and details.get("url"):
            frames = [{**details, "functionName": ""}]
        return self._report("exception", description.partition("\n    at ")[0], frames)

    def on_console(self, event: Mapping[str, object]) -> None:
        """Take ``Runtime.consoleAPICalled``; only errors and failed assertions count."""
        if self._full or event.get("type") not in ("error", "assert"):
            return
        arguments = [_mapping(argument) for argument in _sequence(event.get("args"))]
        texts = [str(argument.get("value", argument.get("description", ""))) for argument in arguments]
        text = " ".join(texts)
        frames = [*_stack_frames(text[:_MAX_READ_CHARS]), *_frames(event.get("stackTrace"))]
        self._report("console", text.partition("\n    at ")[0], frames)

    def on_log(self, event: Mapping[str, object]) -> None:
        """Take ``Log.entryAdded``: scripts that the browser would not run. Of files that are not there others tell."""
        entry = _mapping(event.get("entry"))
        if entry.get("level") == "error" and entry.get("source") in ("javascript", "security") and not self._full:
            self._report("console", str(entry.get("text") or ""), [entry] if entry.get("url") else [])

    def _report(self, kind: ProblemKind, message: str, frames: Sequence[Mapping[str, object]]) -> str:
        places = [place for frame in frames[:MAX_STACK_LINES] if (place := self._place(frame)) is not None]
        noted = _Noted(kind, storable_text(message), tuple(places))
        if not any(word in message[:200] for word in _HARMLESS):
            self._keep(noted)
        return noted.message

    def _place(self, frame: Mapping[str, object]) -> _Place | None:
        url = str(frame.get("url") or "")
        if not url.startswith(self._origin):
            return None
        path = storable_text(unquote(urlsplit(url).path).lstrip("/") or "index.html")
        line, column = _number(frame.get("lineNumber")) + 1, _number(frame.get("columnNumber")) + 1
        return _Place(path, line, column, str(frame.get("functionName") or "(anonymous)")[:_NAME_CHARS])

    def _placed(self, noted: _Noted) -> PageProblem:
        lines: list[str] = []
        first: tuple[str | None, int | None, int | None] = (None, None, None)
        for place in noted.places:
            original = self._maps.original(place.path, place.line, place.column)
            file, line, column = (
                (place.path, place.line, place.column)
                if original is None
                else (storable_text(original.file), original.line, original.column)
            )
            lines.append(f"{place.function} ({file}:{line}:{column})")
            # the place to mend is in the project, not in a library that was handed something wrong
            own = original is None or _is_own(file)
            if first[0] is None or (own and not _is_own(first[0])):
                first = (file, line, column)
        return PageProblem(
            kind=noted.kind,
            message=noted.message,
            file=first[0],
            line=first[1],
            column=first[2],
            stack=storable_text("\n".join(lines)) if lines else noted.stack,
        )

    @property
    def _full(self) -> bool:
        return len(self._found) >= MAX_PROBLEMS

    def _keep(self, problem: _Noted) -> None:
        if problem.kind == "exception" and self._fatal is None:
            self._fatal = problem
        if problem not in self._found and not self._full:
            self._found.append(problem)


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _sequence(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def _frames(trace: object) -> list[Mapping[str, object]]:
    return [_mapping(frame) for frame in _sequence(_mapping(trace).get("callFrames"))]


def _is_own(file: str) -> bool:
    """Whether a file is the project's to mend, not a library's or the template's runtime."""
    return "node_modules/" not in file and not file.startswith("src/koda/")


def _stack_frames(text: str) -> list[Mapping[str, object]]:
    """Read the frames of an error's own stack text; lines and columns become the protocol's, which count from 0."""
    return [
        {
            "functionName": found["name"] or "",
            "url": found["url"],
            "lineNumber": (whole(found["line"]) or 1) - 1,
            "columnNumber": (whole(found["column"]) or 1) - 1,
        }
        for found in _STACK_LINE.finditer(text)
    ]


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
