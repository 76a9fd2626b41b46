"""Commands to a session of this process, on the way that the product has them go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koda_ray.actors.intake import new_command, record_command
from koda_ray.actors.session import Session
from koda_ray.state.records import CommandRecord

__all__ = ["submit"]


async def submit(
    session: Session, name: str, body: Mapping[str, Any], *, key: str, user_id: str = "local"
) -> CommandRecord:
    """Record a command in the session's database, and have the session take it."""
    store = session.core.store
    await record_command(
        store, new_command(session_id=session.session_id, user_id=user_id, name=name, body=body, key=key)
    )
    return await session.intake.take(key)
