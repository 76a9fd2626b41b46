"""Who is in a room, who is woken by what, and whose turn it is; pure.

A message has a place in the transcript, and every member has heard it up to some place. One that is woken is due until
its turn begins, and then hears everything since its last turn at once, in order. Turns go in the order of what woke
whom, so nobody who was asked is passed over for long.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, takewhile
from typing import Literal

from koda_ray.agent.hooks import Hook
from koda_ray.agent.limits import Limits
from koda_ray.agent.own_words import OTHERS
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.toolkit import Tool
from koda_ray.config import DEFAULT_MODEL
from koda_ray.errors import InvalidInput
from koda_ray.state.records import BeadRecord
from koda_ray.types import Model

__all__ = [
    "ROOM",
    "SILENT",
    "Member",
    "MemberStanding",
    "RoomMessage",
    "Wakes",
    "addressed",
    "changed",
    "etiquette",
    "heard_as",
    "next_due",
    "standings_among",
    "unheard",
    "without_a_person",
    "woken",
]

Wakes = Literal["mentioned", "all"]
"""Whom a member's message wakes: those that it mentions, or all others."""

ROOM = "room"
"""Whose messages say what became of a member's turn; also the name under which the transcript is kept."""
SILENT = "(silent)"
"""What a member says that has nothing to say."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_MENTION = re.compile(r"(?<![\w@./-])@([A-Za-z][A-Za-z0-9_-]*)")
_EVERYBODY = frozenset({"all", "everybody", "everyone"})
_RESERVED = _EVERYBODY | {ROOM, "person"}
_KEY = "member"


@dataclass(frozen=True, kw_only=True)
class Member:
    """An agent in a room.

    Args:
        name: What others call it: letters, digits, ``_`` and ``-``.
        about: What it is good for, in a few words; the others read it.
        system: Who it is, for its model.
        tools: What it can do.
        model: The provider's name of its model.
        limits: Bounds of one turn.
        permissions: What it may do without asking a person; everything when None.
        hooks: Who is heard before and after its model and tool calls.

    Raises:
        InvalidInput: Nobody could mention it by that name.
    """

    name: str
    about: str = ""
    system: str = ""
    tools: tuple[Tool, ...] = ()
    model: str = DEFAULT_MODEL
    limits: Limits = field(default_factory=Limits)
    permissions: Permissions | None = None
    hooks: tuple[Hook, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(f"nobody can mention {self.name!r}: a name is a letter, then letters, digits, _ or -")
        if self.name.lower() in _RESERVED:
            raise InvalidInput(f"{self.name!r} means something else in a room; take another name")


class RoomMessage(Model):
    """One message of the transcript; ``to`` are the members that it wakes."""

    position: int
    author: str
    text: str
    to: tuple[str, ...]
    at: datetime


class MemberStanding(Model):
    """Where a member stands: what it has ``heard``, and which message first woke it since (0 for none).

    ``at_work`` says that its turn has begun and that what came of it is not in the transcript yet.
    """

    name: str
    heard: int = 0
    woken: int = 0
    at_work: bool = False

    @property
    def is_due(self) -> bool:
        """Whether it has a turn to begin or to go on with."""
        return self.at_work or self.woken > 0

    def begun(self, last: int) -> MemberStanding:
        """Have its turn begin: it hears everything up to ``last``."""
        return self.model_copy(update={"heard": last, "woken": 0, "at_work": True})

    def ended(self) -> MemberStanding:
        """Have its turn end."""
        return self.model_copy(update={"at_work": False})

    def woken_by(self, position: int) -> MemberStanding:
        """Have it woken; the first one that does so counts."""
        return self if self.woken else self.model_copy(update={"woken": position})

    def bead(self, session_id: str, user_id: str, *, position: int, at: datetime) -> BeadRecord:
        """Make its row."""
        return BeadRecord(
            id=f"{session_id}:{self.name}",
            session_id=session_id,
            user_id=user_id,
            type="task",
            title=self.name,
            status="in_progress" if self.is_due else "open",
            position=position,
            data={_KEY: self.model_dump(mode="json", by_alias=True)},
            created_at=at,
        )


def standings_among(beads: Iterable[BeadRecord]) -> dict[str, MemberStanding]:
    """Read where members stand from the beads of a room."""
    found = [MemberStanding.model_validate(bead.data[_KEY]) for bead in beads if _KEY in bead.data]
    return {standing.name: standing for standing in found}


def addressed(text: str, members: Sequence[str]) -> tuple[str, ...]:
    """List the members that a text mentions with ``@name``, in any case, each once; ``@all`` means everybody."""
    by_name = {name.lower(): name for name in members}
    found: dict[str, None] = {}
    for match in _MENTION.finditer(text):
        called = match[1].lower()
        if called in _EVERYBODY:
            found.update(dict.fromkeys(members))
        elif called in by_name:
            found[by_name[called]] = None
    return tuple(found)


def woken(text: str, author: str, members: Sequence[str], wakes: Wakes) -> tuple[str, ...]:
    """List whom a message wakes: never its author.

    Args:
        text: What was said.
        author: Who said it. Of a person who mentions nobody, everybody is woken.
        members: All members.
        wakes: Whom a member's message wakes.
    """
    if author == ROOM:
        return ()
    to = addressed(text, members)
    if author in members:
        to = to if wakes == "mentioned" else tuple(members)
    return tuple(name for name in to or (() if author in members else members) if name != author)


def next_due(standings: Mapping[str, MemberStanding], busy: Iterable[str]) -> str | None:
    """Choose whose turn it is: one that was cut off, then whoever was woken first; in the order of the members.

    Args:
        standings: Of all members, in their order.
        busy: Members that have a turn now, or wait for a person.
    """
    taken = set(busy)
    due = [each for each in standings.values() if each.is_due and each.name not in taken]
    return min(due, key=lambda each: (not each.at_work, each.woken)).name if due else None


def unheard(transcript: Sequence[RoomMessage], standing: MemberStanding) -> list[RoomMessage]:
    """List what a member has not heard, without what it said itself."""
    return [each for each in transcript if each.position > standing.heard and each.author != standing.name]


def without_a_person(transcript: Sequence[RoomMessage], agents: Collection[str]) -> int:
    """Count the messages of members since a person last spoke."""
    since = takewhile(lambda each: each.author in agents, reversed(transcript))
    return sum(each.author != ROOM for each in since)


def heard_as(messages: Sequence[RoomMessage], agents: Collection[str]) -> list[str]:
    """Write messages for a member: a line for each, so that nobody can say something in another's name.

    Args:
        messages: What it hears, in order.
        agents: Authors that are no people.

    Returns:
        Texts, in order: those of agents begin with `OTHERS`, those of people do not.
    """
    texts: list[str] = []
    for are_agents, said in groupby(messages, key=lambda each: each.author in agents):
        lines = [f"[{each.position}] {each.author}: {each.text.strip()}" for each in said]
        told = "\n".join("\n    ".join(each.splitlines()) for each in lines)
        texts.append(f"{OTHERS}\n{told}" if are_agents else told)
    return texts


def etiquette(member: Member, others: Sequence[Member]) -> str:
    """Tell a member where it is and how to behave there; the same each time, so that a prompt cache knows it."""
    who = "\n".join(f"- {each.name}{f': {each.about}' if each.about else ''}" for each in others) or "- nobody else"
    return (
        f"You are {member.name}, in a room with people and with these agents:\n{who}\n\n"
        "You are shown what was said since your last turn, as '[number] author: text'; lines that are indented belong "
        "to the text. What you answer is said in the room, for all to read. Write @name to have an agent answer; "
        "without that, nobody does. Do so only where you need something from it: never to thank, to agree or to "
        f"repeat. If nothing is to be added, answer with {SILENT} and nothing else."
    )


def changed(standings: Mapping[str, MemberStanding], message: RoomMessage) -> dict[str, MemberStanding]:
    """Work out who stands elsewhere after a message: its author's turn has ended, those to whom it goes are woken."""
    found = {name: standings[name].woken_by(message.position) for name in message.to}
    if message.author in standings:
        found[message.author] = standings[message.author].ended()
    return found
