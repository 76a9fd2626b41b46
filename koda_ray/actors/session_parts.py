"""What a session is made with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from koda_ray.agent.hooks import Hook
from koda_ray.agent.named_hooks import HookedSession
from koda_ray.config import Settings
from koda_ray.llm.base import ModelProvider
from koda_ray.render.protocol import RenderExecutor
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store

__all__ = ["SessionParts"]


@dataclass(frozen=True, kw_only=True)
class SessionParts:
    """What a session is made with.

    ``host`` names the process in its row; ``rested`` is called when its work has come to rest, ``ended`` once it is
    over; ``hooks`` says who is heard before and after its agents' model and tool calls; ``clock`` tells the time, in
    seconds, by which it is idle and what goes on is charged.
    """

    settings: Settings
    store: Store
    storage: Storage
    sandboxes: SandboxProvider
    provider: ModelProvider
    executor: RenderExecutor
    host: str
    rested: Callable[[], None]
    ended: Callable[[], None]
    hooks: Callable[[HookedSession], Sequence[Hook]] = field(default=lambda _: ())
    clock: Callable[[], float] = time.monotonic
