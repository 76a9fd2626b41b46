"""From files to something that runs: build, try in a browser, correct, at most three times.

What went wrong is taken from the real tools, with file, line and message as they say it, and goes to the code
generator together with the files. A project that still fails after three corrections ends in a clear error that a
person can retry or answer, with its files as they were in the last preview that worked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

__all__ = ["MAX_CORRECTIONS", "ProjectProblem", "Verification", "Verified", "correct_until_good", "describe_problems"]

MAX_CORRECTIONS = 3


@dataclass(frozen=True, kw_only=True)
class ProjectProblem:
    """One thing that the build or the page said; lines and columns count from 1."""

    stage: Literal["build", "page", "ready"]
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def place(self) -> str:
        """``file:line:column`` as far as it is known."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A built bundle that became ready and threw nothing; duration in seconds as the page itself reports it."""

    bundle: str
    duration_s: float
    width: int
    height: int
    moves: bool


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The end of the matter: a good bundle, or the problems that three corrections, or fewer, did not mend."""

    good: Verified | None
    problems: tuple[ProjectProblem, ...] = ()
    corrections: int = 0

    @property
    def code(self) -> str:
        """The error code of a bad verdict."""
        stages = {problem.stage for problem in self.problems}
        return "BUILD_FAILED" if "build" in stages else "PAGE_NOT_READY" if "ready" in stages else "PAGE_ERROR"


Attempt = Callable[[], Awaitable["Verified | Sequence[ProjectProblem]"]]
Correct = Callable[[Mapping[str, JsonValue]], Awaitable[bool]]


async def correct_until_good(attempt: Attempt, correct: Correct) -> Verification:
    """Try, and have what failed corrected, until it works or three corrections were not enough.

    Args:
        attempt: Builds and probes; gives a `Verified`, or what went wrong.
        correct: Has the code generator mend the files for a ``modify_existing`` request that holds ``errors``; False
            where that may not be, and then the problems stay.
    """
    corrections = 0
    while not isinstance(outcome := await attempt(), Verified):
        if corrections == MAX_CORRECTIONS or not await correct(_request(outcome)):
            return Verification(good=None, problems=tuple(outcome), corrections=corrections)
        corrections += 1
    return Verification(good=outcome, corrections=corrections)


def describe_problems(problems: Sequence[ProjectProblem], *, most: int = 5) -> str:
    """Say problems in lines that a person can act on."""
    lines = [f"{p.place}: {p.message}" if p.place else p.message for p in problems[:most]]
    rest = len(problems) - most
    return "\n".join([*lines, f"and {rest} more"] if rest > 0 else lines)


def _request(problems: Sequence[ProjectProblem]) -> dict[str, JsonValue]:
    errors: list[JsonValue] = [
        {"stage": p.stage, "file": p.file, "line": p.line, "column": p.column, "message": p.message} for p in problems
    ]
    files: list[JsonValue] = [*sorted({p.file for p in problems if p.file is not None})]
    return {
        "task": "modify_existing",
        "files": files,
        "change": "Mend the errors below; change nothing else.\n" + describe_problems(problems),
        "errors": errors,
    }
