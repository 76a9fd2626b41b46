"""Exit statuses, and errors as one clear line with the way out: never a traceback for what was to be expected."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum

from koda_ray.console.text import clean
from koda_ray.errors import (
    CommandTimeout,
    Conflict,
    InvalidInput,
    InvalidTransition,
    KodaError,
    Missing,
    NotFound,
    QuotaExceeded,
)

__all__ = ["EXITS", "Exit", "Left", "as_inside", "reported"]


class Exit(IntEnum):
    """The CLI's exit statuses; they are API, like error codes."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_SERVER = 3
    NOT_FOUND = 4
    WAITING = 5
    REFUSED = 6
    MISSING = 7
    TIMED_OUT = 124
    NOT_RUN = 125
    KILLED = 137
    INTERRUPTED = 130


EXITS = """
Exit status: 0 done, 1 the job or the command failed, 2 a wrong option or value, 3 no server answers, 4 no such session
or file, 5 the session waits for you, 6 the session cannot do that now, 7 something is missing on this machine
(see: koda doctor), 130 interrupted.
What runs in a sandbox (koda sandbox run, koda process follow) ends with its own status: 128 and more for a signal, 124
where its time was over, 137 where it was killed or passed a limit, 125 where koda could not run it.
"""


class Left(Exception):
    """End the program with a status, which may be another program's; everything there was to say has been said."""

    def __init__(self, status: int) -> None:
        super().__init__(int(status))
        self.status = status


@contextmanager
def reported() -> Generator[None]:
    """Turn expected errors into a line on stderr and an exit status.

    Raises:
        SystemExit: With that status, in place of the error.
    """
    try:
        yield
    except Left as left:
        raise SystemExit(int(left.status)) from None
    except KodaError as error:
        sys.stderr.write(f"koda: {clean(error.message)}\n")
        raise SystemExit(int(_status(error))) from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        sys.stderr.write(f"koda: {error.strerror or error}{where}\n")
        raise SystemExit(int(Exit.FAILED)) from None
    except KeyboardInterrupt:
        raise SystemExit(int(Exit.INTERRUPTED)) from None


@contextmanager
def as_inside() -> Generator[None]:
    """Turn errors round a program that runs in a sandbox into statuses that are none of the program's own.

    Raises:
        Left: TIMED_OUT, KILLED where it passed a limit, or NOT_RUN, after the line that says why.
    """
    try:
        yield
    except KodaError as error:
        sys.stderr.write(f"koda: {clean(error.message)}\n")
        match error:
            case CommandTimeout():
                raise Left(Exit.TIMED_OUT) from None
            case QuotaExceeded():
                raise Left(Exit.KILLED) from None
            case _:
                raise Left(Exit.NOT_RUN) from None


def _status(error: KodaError) -> Exit:
    if error.code in ("UNREACHABLE", "SERVER_FAILED") and error.status == 503:
        return Exit.NO_SERVER
    match error:
        case InvalidTransition() | Conflict():
            return Exit.REFUSED
        case NotFound():
            return Exit.NOT_FOUND
        case InvalidInput():
            return Exit.USAGE
        case Missing():
            return Exit.MISSING
        case _:
            return Exit.FAILED
