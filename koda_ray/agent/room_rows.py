"""A room's rows: the transcript as messages, where members stand as beads, what people said under a key as commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from koda_ray.agent.room_questions import RoomQuestions
from koda_ray.agent.room_rules import ROOM, MemberStanding, RoomMessage, standings_among
from koda_ray.errors import Conflict
from koda_ray.events import NewEvent
from koda_ray.state.records import Batch, BeadRecord, CommandRecord, MessageRecord, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import new_id, now

__all__ = ["RoomRows", "StoredRoom"]


@dataclass(frozen=True, kw_only=True)
class StoredRoom:
    """A room as it is stored.

    Args:
        transcript: What was said, in order.
        standings: Where its members stand, in their order. One that was not there when something was said has heard
            nothing of it, and is told with its first turn.
        agents: Who is no person: members, those that were, and the room itself.
        questions: What people are asked.
    """

    transcript: list[RoomMessage]
    standings: dict[str, MemberStanding]
    agents: set[str]
    questions: RoomQuestions


@dataclass(frozen=True, kw_only=True)
class RoomRows:
    """The rows of a room that is open.

    Args:
        store: Where they are.
        row: The room's, as its present owner has it.
        members: The names of its members, in their order.
    """

    store: Store
    row: SessionRecord
    members: tuple[str, ...]

    async def read(self) -> StoredRoom:
        """Read transcript, standings and questions."""
        said = await self.store.messages(self.row.id, agent=ROOM)
        stored = standings_among(await self.store.beads(self.row.id))
        return StoredRoom(
            transcript=[RoomMessage.model_validate(record.content[0]) for record in said],
            standings={name: stored.get(name) or MemberStanding(name=name) for name in self.members},
            agents={ROOM, *stored, *self.members},
            questions=RoomQuestions.among(await self.store.approvals(self.row.id, pending=True), self.members),
        )

    async def commit(self, batch: Batch) -> None:
        """Write. Raises Fenced where another process has the room."""
        await self.store.commit(self.row.id, self.row.epoch, batch)

    async def posted(self, key: str, text: str, author: str) -> int | None:
        """Find where in the transcript stands what was said under a key; None where nothing was.

        Raises:
            Conflict: Something else was.
        """
        before = await self.store.find_command(self.row.id, key)
        if before is None:
            return None
        if before.body != {"text": text, "author": author}:
            raise Conflict(f"something else was said under the key {key!r}; use a new key", context={"key": key})
        return cast("int", before.result["position"])

    def command(self, key: str, text: str, author: str, *, position: int) -> CommandRecord:
        """Make the row by which what is said under a key is said once."""
        body: dict[str, JsonValue] = {"text": text, "author": author}
        return CommandRecord(
            id=new_id("cmd"), session_id=self.row.id, user_id=self.row.user_id, key=key, name="post", body=body,
            result={"position": position}, created_at=now(),
        )  # fmt: skip

    def said(self, message: RoomMessage) -> Batch:
        """Make a message's row, and announce it."""
        record = MessageRecord(
            id=new_id("msg"),
            session_id=self.row.id,
            user_id=self.row.user_id,
            agent=ROOM,
            position=message.position,
            role="user",
            content=[message.model_dump(mode="json", by_alias=True)],
            created_at=message.at,
        )
        data: dict[str, JsonValue] = {
            "position": message.position,
            "author": message.author,
            "to": list(message.to),
            "text": message.text,
        }
        return Batch(messages=[record], events=[NewEvent(type="room_message", data=data, cause_id=record.id)])

    def bead(self, standing: MemberStanding) -> BeadRecord:
        """Make a member's row."""
        place = self.members.index(standing.name)
        return standing.bead(self.row.id, self.row.user_id, position=place, at=self.row.created_at)
