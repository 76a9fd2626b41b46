"""Doing what is done again soon, whatever becomes of it this time."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from koda_ray.errors import KodaError
from koda_ray.logs import get_logger

__all__ = ["logged"]

_T = TypeVar("_T")
_log = get_logger()


async def logged(work: Awaitable[_T], what: str, **names: str) -> _T | None:
    """Do something that is done again soon: a failure is logged, and the rest goes on.

    Args:
        work: What is done.
        what: Its name, as in "could not clear sandboxes".
        names: What the log's line names besides.

    Returns:
        What it came to; None where it failed.
    """
    try:
        return await work
    except KodaError as error:
        _log.warning(f"could not {what}", code=error.code, error=error.message, **names)
    except Exception:
        _log.exception(f"could not {what}", **names)
    return None
