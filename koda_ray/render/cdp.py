"""A typed edge to the browser's protocol: calls that answer with JSON or fail as our errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from koda_ray.errors import BrowserCrashed, KodaError, PageError

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

__all__ = ["ProtocolSession", "crash_error"]

_MAX_MESSAGE_CHARS = 300


class ProtocolSession:
    """One target's protocol session.

    Args:
        session: Playwright's.
    """

    def __init__(self, session: CDPSession) -> None:
        self._session = cast("Any", session)
        self._calls: set[asyncio.Future[dict[str, Any]]] = set()
        self._why_over: str | None = None

    async def send(self, method: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Call a method.

        Raises:
            PageError: The page navigated away meanwhile.
            BrowserCrashed: The browser ended or refused.
        """
        from playwright.async_api import Error

        if self._why_over is not None:
            raise BrowserCrashed(self._why_over)
        call = asyncio.ensure_future(self._session.send(method, dict(parameters or {})))
        self._calls.add(call)
        try:
            return cast("dict[str, Any]", await call)
        except Error as error:
            raise crash_error(error) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._why_over is not None and not (task and task.cancelling()):
                raise BrowserCrashed(self._why_over) from None
            raise
        finally:
            self._calls.discard(call)

    def end(self, why: str) -> None:
        """Fail the calls under way and those to come: the browser never answers for a target that has gone.

        Args:
            why: The failure's message.
        """
        self._why_over = why
        for call in self._calls:
            call.cancel()

    def on(self, event: str, listener: Callable[[Mapping[str, object]], None]) -> None:
        """Hear an event until the target closes."""
        self._session.on(event, listener)


def crash_error(error: Exception) -> KodaError:
    """Say in our terms what Playwright reports when a call cannot be answered."""
    first = (str(error).strip().splitlines() or [""])[0][:_MAX_MESSAGE_CHARS]
    if "context was destroyed" in first or "Cannot find context" in first:
        return PageError("the page navigated away or reloaded while it was rendered")
    return BrowserCrashed(f"the browser ended or refused: {first or type(error).__name__}")
