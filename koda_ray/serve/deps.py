"""What the HTTP application needs from below, as parameters: the store, the storage and a directory of sessions.

The application is the same whether the directory reaches Ray actors or a test's own sessions: it records commands
through it and reads everything else from the store, so no read ever wakes an actor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import JsonValue

from koda_ray.actors.janitor_round import JanitorRound
from koda_ray.actors.nodes import NodesSeen
from koda_ray.config import Settings
from koda_ray.metrics import MetricsSink, NoMetrics
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.serve.auth import Authenticator
from koda_ray.serve.signing import Signer
from koda_ray.state.records import CommandRecord, JobRecord
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from koda_ray.tools.workbench import Picture

__all__ = ["ApiDeps", "ClusterEyes", "SessionDirectory"]


class SessionDirectory(Protocol):
    """Finds or activates the one actor of a session, or of a page render, on whichever machine."""

    def submit(
        self, *, session_id: str, user_id: str, name: str, body: Mapping[str, JsonValue], key: str
    ) -> Coroutine[Any, Any, CommandRecord]:
        """Have a session record a command; once this returns, it survives every crash.

        Raises:
            NotFound: No such session of this user.
            InvalidTransition: The session's phase does not take the command.
            Conflict: The key was used for another body.
        """
        ...

    def wake(self, session_id: str) -> Coroutine[Any, Any, None]:
        """Activate a session because its row owes work."""
        ...

    def preview(self, *, session_id: str, user_id: str) -> Coroutine[Any, Any, PreviewEndpoint]:
        """Activate a session and return its running dev server, started where needed."""
        ...

    def picture(
        self, *, session_id: str, user_id: str, at_s: float, size: tuple[int, int]
    ) -> Coroutine[Any, Any, Picture]:
        """Activate a session and have a frame of its page pictured and kept, ``size`` pixels large.

        Raises:
            SandboxError: CAPTURE_FAILED or SEEK_FAILED, with what is wrong in the project.
        """
        ...

    def shown(self, *, session_id: str, user_id: str) -> Coroutine[Any, Any, PreviewEndpoint | None]:
        """Return a session's dev server while its project is open; never activates, and None where there is none."""
        ...

    def watch(self, session_id: str, watchers: int) -> Coroutine[Any, Any, None]:
        """Say how many subscribers follow a session here; never activates."""
        ...

    def fork(self, *, session_id: str, user_id: str, point: str | None, key: str) -> Coroutine[Any, Any, str]:
        """Make a session of another one's past, without holding that past here; returns its id.

        Raises:
            NotFound: There is no such session of this user, or it has no such point.
            Conflict: The key was used for something else; retryable where it is being used right now.
            LimitReached: The user has as many sessions as one may.
            Unavailable: It was not made in time.
        """
        ...

    def passivate(self, session_id: str) -> Coroutine[Any, Any, None]:
        """Have a discarded session save what it has, and end its actor; nothing happens to one that was had back."""
        ...

    def delete(self, *, session_id: str, user_id: str) -> Coroutine[Any, Any, None]:
        """Remove a session with its actor, sandbox and rows. Idempotent for its owner; NotFound for others."""
        ...

    def wake_render(self, job_id: str) -> Coroutine[Any, Any, bool]:
        """Have a page render worked on, if there is room now; says whether it is."""
        ...

    def cancel_render(self, job_id: str, *, user_id: str) -> Coroutine[Any, Any, JobRecord]:
        """Cancel a page render and end its processes; one that is over stays as it is. NotFound for others."""
        ...

    def cancel_renders(self, *, user_id: str, id_prefix: str) -> Coroutine[Any, Any, None]:
        """Cancel a user's page renders whose ids begin so: none begins any more, and the processes of others end."""
        ...


class ClusterEyes(Protocol):
    """Sees the cluster that a server is in; each answer is there in some seconds, or is Unavailable."""

    def nodes(self) -> Coroutine[Any, Any, NodesSeen]:
        """Say which nodes there are, and what waits for room on them."""
        ...

    def janitor(self) -> Coroutine[Any, Any, JanitorRound]:
        """Say what the janitor did last."""
        ...


@dataclass(frozen=True, kw_only=True)
class ApiDeps:
    """The parts of a running application.

    The live preview answers at the origin that the settings name, else on ``preview_port`` of the host that the API was
    asked at; with neither it is turned off.
    ``eyes`` see the Ray cluster; None outside one.
    ``draining`` is set before shutdown: open event streams end, and clients come back to whoever serves next.
    """

    settings: Settings
    store: Store
    storage: Storage
    directory: SessionDirectory
    auth: Authenticator
    signer: Signer
    preview_port: int | None = None
    eyes: ClusterEyes | None = None
    metrics: MetricsSink = field(default_factory=NoMetrics)
    draining: asyncio.Event = field(default_factory=asyncio.Event)
