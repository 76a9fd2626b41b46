"""Sessions that are broken on purpose, in their own processes: what they do wrong with what is said has to be counted.

`KODA_HOOKS` names one of these, as ``tests.cluster.broken:twice``: a session's process calls it before it takes
anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from koda_ray.actors.core import SessionCore
from koda_ray.agent.named_hooks import HookedSession
from koda_ray.commands import EditPlan, Effect
from koda_ray.state.records import Batch

__all__ = ["BROKEN", "dropped", "twice", "untold"]

_commit = SessionCore.commit


def _edits(batch: Batch) -> bool:
    return batch.command is not None and any(isinstance(each, EditPlan) for each in batch.phase_commands)


def twice(_: HookedSession) -> tuple[()]:
    """Apply what is said before it is taken out, and once more with that."""

    async def commit(self: SessionCore, batch: Batch, *, patch: Mapping[str, object] | None = None) -> None:
        if _edits(batch):
            await _commit(self, Batch(phase_commands=[*batch.phase_commands]))
        await _commit(self, batch, patch=patch)

    SessionCore.commit = commit  # type: ignore[method-assign]
    return ()


def dropped(_: HookedSession) -> tuple[()]:
    """Take out what is said without applying it."""

    async def commit(self: SessionCore, batch: Batch, *, patch: Mapping[str, object] | None = None) -> None:
        if _edits(batch):
            batch.phase_commands = []
        await _commit(self, batch, patch=patch)

    SessionCore.commit = commit  # type: ignore[method-assign]
    return ()


_write = SessionCore._write


def untold(_: HookedSession) -> tuple[()]:
    """Apply what is said without telling of it."""

    async def write(self: SessionCore, batch: Batch, effects: list[Effect]) -> None:
        if batch.command is not None and batch.command.name == "plan":
            batch.events = [event for event in batch.events if event.type != "state_change"]
        await _write(self, batch, effects)

    SessionCore._write = write  # type: ignore[method-assign]
    return ()


BROKEN = {"twice": "repeated_effects", "dropped": "lost_events", "untold": "lost_events"}
"""What each is counted as, and as nothing else."""
