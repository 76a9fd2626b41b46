"""What an agent's loop is made of.

Each part is a value that goes on whole: into the loop's calls, its summaries, and the loops of its subagents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from koda_ray.agent.answer import LoopEvent
from koda_ray.agent.hooks import Hook
from koda_ray.agent.limits import Limits
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.purse import Purse
from koda_ray.agent.voice import Voice
from koda_ray.llm.base import ModelProvider

__all__ = ["ModelAccess", "Observers", "Policy", "Prompt"]


def _nothing() -> str:
    return ""


async def _at_once() -> None:
    """Have nothing to do first."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """What a model is told around the conversation.

    Args:
        system: The system prompt in parts, stable first.
        context: Called before each request; its text is appended to the last message as a block of its own (such as
            ``<state>...</state>``) and never stored. Empty for none.
        briefing: Called before each request; its text is the last system part and never stored: what is true for a long
            time, such as an agreed plan. Empty for none.
        todo: Says what is to be done next on the agent's list of things to do; empty where nothing is.
        ready: Awaited before each look at the history, for whoever has something to put there first: what it does is
            in the history, and so durable, before a request holds it.
    """

    system: tuple[str, ...] = ()
    context: Callable[[], str] = _nothing
    briefing: Callable[[], str] = _nothing
    todo: Callable[[], str] = _nothing
    ready: Callable[[], Awaitable[None]] = _at_once


@dataclass(frozen=True, kw_only=True)
class ModelAccess:
    """What answers an agent, and what it is told.

    Args:
        provider: Answers requests.
        model: The provider's name of the model.
        purse: Pays; nothing is counted when None.
        prompt: What the model is told around the conversation.
    """

    provider: ModelProvider
    model: str
    purse: Purse | None = None
    prompt: Prompt = field(default_factory=Prompt)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What bounds an agent.

    Args:
        limits: Bounds of one run.
        permissions: What it may do by itself, or a function that says so for each call; everything when left out.
        hooks: Who is heard before and after model and tool calls, in this order.
    """

    limits: Limits = field(default_factory=Limits)
    permissions: Permissions | Callable[[], Permissions] = field(default_factory=Permissions)
    hooks: Sequence[Hook] = ()

    def allowed(self) -> Permissions:
        """Return what it may do by itself, as of now."""
        return self.permissions if isinstance(self.permissions, Permissions) else self.permissions()


def _never() -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Observers:
    """Who follows an agent.

    Args:
        on_event: Awaited with each delta as it streams.
        voice: Tells who follows it what it says and that it is done; nobody when None.
        goes_on: Whether a run goes on after its last word, as that of an agent does whose subagents are at work; it is
            not told then that the agent is done.
    """

    on_event: Callable[[LoopEvent], Awaitable[None]] | None = None
    voice: Voice | None = None
    goes_on: Callable[[], bool] = _never
