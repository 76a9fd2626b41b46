"""What goes wrong in a page, gathered from the browser's own reports and placed in the original source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast
from urllib.parse import unquote, urlsplit

from koda_ray.render.protocol import PageProblem, ProblemKind
from koda_ray.render.sourcemap import SourceMaps

__all__ = ["Problems", "clean"]

MAX_PROBLEMS = 50
MAX_MESSAGE_CHARS = 4000
MAX_STACK_LINES = 30
_MAX_READ_CHARS = 100_000
_CAUSES, _CAUSE_CHARS, _WARNINGS = 2, 200, 5
_STACK_LINE = re.compile(
    r"^ +at (?:(?P<name>.+?) \()?(?P<url>[a-z][a-z0-9+.-]*://\S+?):(?P<line>\d+):(?P<column>\d+)\)?$", re.MULTILINE
)
_HARMLESS = ("ResizeObserver loop",)
# what a terminal would obey, and what is half a character
_UNSPEAKABLE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")


def clean(text: str) -> str:
    """Return what a page says as text that can be stored and shown: no control characters, and not too long."""
    return _UNSPEAKABLE.sub("\ufffd", text[:MAX_MESSAGE_CHARS])


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
        self._found: list[PageProblem] = []
        self._fatal: PageProblem | None = None

    @property
    def all(self) -> tuple[PageProblem, ...]:
        """Everything so far, in order."""
        return tuple(self._found)

    @property
    def fatal(self) -> PageProblem | None:
        """The first uncaught exception, if any."""
        return self._fatal

    @property
    def to_mend(self) -> PageProblem | None:
        """What failed, as near to the project's own files as it is known: a runtime throws again what it caught."""
        errors = [problem for problem in self._found if problem.kind in ("exception", "console")]
        own = [problem for problem in errors if problem.file is not None and _is_own(problem.file)]
        if self._fatal is not None and self._fatal.file is not None and (_is_own(self._fatal.file) or not own):
            return self._fatal
        return own[-1] if own else self._fatal or (self._found[-1] if self._found else None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should hear of, in short: the first few problems."""
        messages = dict.fromkeys(problem.message[:_CAUSE_CHARS] for problem in self._found)
        return tuple(messages)[:_WARNINGS]

    def because(self, message: str) -> str:
        """Return what the page did not get before it failed, which is often why, as words to follow a message."""
        causes = [problem.message for problem in self._found if problem.kind == "resource"]
        causes = [cause[:_CAUSE_CHARS] for cause in causes if cause not in message][:_CAUSES]
        return f" (before that: {'; '.join(causes)})" if causes else ""

    def add(self, kind: ProblemKind, message: str, *, stack: str = "") -> None:
        """Note a problem that the browser did not report itself."""
        self._keep(PageProblem(kind=kind, message=clean(message), stack=clean(stack)))

    def on_exception(self, event: Mapping[str, object]) -> None:
        """Take ``Runtime.exceptionThrown``."""
        if not self._full or self._fatal is None:
            self.take_exception(event)

    def take_exception(self, event: Mapping[str, object]) -> PageProblem:
        """Note what the browser says was thrown, and return it."""
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

    def _report(self, kind: ProblemKind, message: str, frames: Sequence[Mapping[str, object]]) -> PageProblem:
        lines: list[str] = []
        first: tuple[str | None, int | None, int | None] = (None, None, None)
        for frame in frames[:MAX_STACK_LINES]:
            file, line, column, own = self._place(frame)
            if file is None:
                continue
            name = str(frame.get("functionName") or "(anonymous)")
            lines.append(f"{name} ({file}:{line}:{column})")
            # the place to mend is in the project, not in a library that was handed something wrong
            if first[0] is None or (own and not _is_own(str(first[0]))):
                first = (file, line, column)
        problem = PageProblem(
            kind=kind,
            message=clean(message),
            file=first[0],
            line=first[1],
            column=first[2],
            stack=clean("\n".join(lines)),
        )
        if not any(word in message[:200] for word in _HARMLESS):
            self._keep(problem)
        return problem

    def _place(self, frame: Mapping[str, object]) -> tuple[str | None, int, int, bool]:
        url = str(frame.get("url") or "")
        line, column = _number(frame.get("lineNumber")) + 1, _number(frame.get("columnNumber")) + 1
        if not url.startswith(self._origin):
            return None, line, column, False
        path = unquote(urlsplit(url).path).lstrip("/") or "index.html"
        original = self._maps.original(path, line, column)
        if original is not None:
            return original.file, original.line, original.column, _is_own(original.file)
        return path, line, column, True

    @property
    def _full(self) -> bool:
        return len(self._found) >= MAX_PROBLEMS

    def _keep(self, problem: PageProblem) -> None:
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
            "lineNumber": int(found["line"]) - 1,
            "columnNumber": int(found["column"]) - 1,
        }
        for found in _STACK_LINE.finditer(text)
    ]


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
