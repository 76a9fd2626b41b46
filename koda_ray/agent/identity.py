"""Who an agent is, which is written into every row that it makes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AgentIdentity"]


@dataclass(frozen=True, kw_only=True)
class AgentIdentity:
    """An agent of a session of a user.

    ``epoch`` is that of the activation that has the session; tools are told it.
    """

    agent: str
    session_id: str
    user_id: str
    epoch: int = 0
