"""What a person has let an agent do since its program said what it may do: kept with the agent, newest last.

It holds for as long as the program says the same as it did then. A program that was changed since has its own word.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import count

from pydantic import TypeAdapter

from koda_ray.agent.permissions import Permissions
from koda_ray.state.records import Batch, CommandRecord, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import new_id, now

__all__ = ["Agreed"]

_FORM: TypeAdapter[Permissions] = TypeAdapter(Permissions)


@dataclass(frozen=True)
class Agreed:
    """What was agreed to in place of some permissions.

    Args:
        store: Where it is kept.
        row: The agent's, as its present owner has it.
        given: What the program says that it may do.
    """

    store: Store
    row: SessionRecord
    given: Permissions

    async def newest(self) -> Permissions:
        """Return what holds: what was agreed to last, or what the program says."""
        _, found = await self._last()
        return self.given if found is None else _FORM.validate_python(found.body["permissions"])

    async def add(self, permissions: Permissions) -> None:
        """Keep an agreement. Raises Fenced where another process has the agent."""
        number, _ = await self._last()
        command = CommandRecord(
            id=new_id("cmd"),
            session_id=self.row.id,
            user_id=self.row.user_id,
            key=self._key(number),
            name="permit",
            body={"permissions": _FORM.dump_python(permissions, mode="json")},
            result={},
            created_at=now(),
        )
        await self.store.commit(self.row.id, self.row.epoch, Batch(command=command))

    async def _last(self) -> tuple[int, CommandRecord | None]:
        """Find the newest agreement, and the number of the next."""
        last: CommandRecord | None = None
        for number in count(1):
            found = await self.store.find_command(self.row.id, self._key(number))
            if found is None:
                return number, last
            last = found
        raise AssertionError("numbers do not end")

    def _key(self, number: int) -> str:
        said = json.dumps(_FORM.dump_python(self.given, mode="json"), sort_keys=True)
        return f"permissions:{hashlib.sha256(said.encode()).hexdigest()[:16]}:{number}"
