"""What a person says to agents at work, until those hear it.

It stands in the state (`NodeState.unread`) and nowhere else: neither in the agents' history nor among the changes of
which each request tells, the code generator's included. Before the agents' loop looks at its history, each such message
goes there, out of the state, in a commit of its own. So no model was asked with what can still be taken back, whoever
is killed when; and what was taken back is not there to be heard.
"""

from __future__ import annotations

from koda_ray.actors.core import SessionCore
from koda_ray.actors.pointed import pictures_of
from koda_ray.agent.lead import Lead
from koda_ray.commands import Heed, Say
from koda_ray.errors import InvalidTransition
from koda_ray.state.records import Batch
from koda_ray.state.storage import Storage

__all__ = ["UnreadWords"]


class UnreadWords:
    """One session's messages that its agents have not heard.

    Args:
        core: The session, under its fence.
        agents: Who hear them.
        storage: Where the pictures of notes lie.
    """

    def __init__(self, core: SessionCore, agents: Lead, storage: Storage) -> None:
        self._core = core
        self._agents = agents
        self._storage = storage

    async def heed(self) -> None:
        """Have the agents hear them, oldest first; nothing happens where there are none.

        Raises:
            Fenced: Another activation has the session.
            StorageError: The database is away; what was not heard waits on.
        """
        core = self._core
        while core.state.unread:
            said = core.state.unread[0]
            asked = Say(said.words, said.notes)
            seen = await pictures_of(asked, user_id=core.user_id, store=core.store, storage=self._storage)
            try:
                await self._agents.add_user(said.told, Batch(phase_commands=[Heed(said.id)]), pictures=seen)
            except InvalidTransition:
                if said in core.state.unread:
                    raise
                continue  # it was taken back meanwhile, or heard
