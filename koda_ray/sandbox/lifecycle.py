"""A sandbox's life as a pure machine, and the small object that goes through it.

    created -> ready        its project is there
    ready -> busy -> ready  a command runs; busy until the last of several has ended
    any -> stopped          it was destroyed, or is found to be gone; there is no way back

Background processes do not make it busy: a dev server runs for as long as somebody looks.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from koda_ray.errors import InvalidTransition, SandboxError
from koda_ray.sandbox.base import SandboxState

__all__ = ["Life", "LifeEvent", "Living", "let_go", "step"]

LifeEvent = Literal["filled", "began", "ended", "stopped"]


@dataclass(frozen=True)
class Life:
    """Where a sandbox is, and how many commands run in it."""

    state: SandboxState = "created"
    working: int = 0


def step(life: Life, event: LifeEvent) -> Life:
    """Return what becomes of a life.

    Raises:
        InvalidTransition: INVALID_TRANSITION, this cannot happen to a sandbox in that state.
    """
    match event, life.state:
        case "filled", "created":
            return replace(life, state="ready")
        case "began", "ready" | "busy":
            return Life("busy", life.working + 1)
        case "ended", "busy":
            return Life("busy" if life.working > 1 else "ready", life.working - 1)
        case "ended", "stopped" if life.working > 0:
            return replace(life, working=life.working - 1)
        case "stopped", _:
            return replace(life, state="stopped")
        case _:
            raise InvalidTransition(
                f"a sandbox that is {life.state} cannot be told {event!r}; connect to it again, or make another",
                context={"state": life.state, "event": event},
            )


class Living:
    """The life of one sandbox, as far as this process knows."""

    def __init__(self) -> None:
        self._life = Life()

    @property
    def state(self) -> SandboxState:
        """Where it is."""
        return self._life.state

    def filled(self) -> None:
        """Say that its project is there."""
        self._life = step(self._life, "filled")

    def stop(self) -> None:
        """Say that it is gone; may be said twice."""
        self._life = step(self._life, "stopped")

    @contextmanager
    def work(self) -> Generator[None]:
        """Be busy for the time of the block; one that is stopped is left so, the work finds out by itself."""
        if self._life.state not in ("ready", "busy"):
            yield
            return
        self._life = step(self._life, "began")
        try:
            yield
        finally:
            self._life = step(self._life, "ended")


def let_go(sandbox_id: str) -> SandboxError:
    """Make the error for an object that its provider, which was closed, has let go of; the sandbox itself is there."""
    return SandboxError(f"this program has let go of the sandbox {sandbox_id}; connect to it again")
