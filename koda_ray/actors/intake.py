"""How a command gets into a session: recorded as a row by whoever hears it, taken in order by the session's process.

There is no other way in, and it needs no process: `record_command` judges a command by the session's row and by what
waits before it, in the transaction that records it, so what the phase does not take is refused at once, also to one
that sleeps. What is recorded is durable. `Intake` takes it, when it is told to (`take`), when something waits as the
lease is renewed, and before anything else of an activation, in the order in which it was recorded; the commit that
applies a command takes it out. So none is lost, none is applied twice, and what one client says after another's answer
comes after it.

Between the two the agents may have changed the phase. What it does not take any more is refused then: whoever still
waits for the answer gets the error, and the log has it as ``command_refused`` for whoever had a 202 already. Nothing
else is left of it: said again, it is a new command. What cannot be applied because storage is away waits on, with all
that comes after it; the log has it once, as ``command_delayed``.

What waits can be taken back, in that transaction as well, but nothing on which it depends what a message behind it
means: what was said to something that begins would begin something itself, or be the answer that nobody gave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from pydantic import JsonValue

from koda_ray import phases
from koda_ray.actors.command_parser import command_of, parse_command
from koda_ray.actors.core import SessionCore
from koda_ray.actors.meaning import Meant, judged, meant
from koda_ray.commands import Command, RequestChanges, Rewind, Say, TakeBack
from koda_ray.errors import Conflict, Fenced, InvalidTransition, KodaError, StorageError
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.pointing import in_words, pictures_named
from koda_ray.state.records import Batch, CommandRecord
from koda_ray.state.store import Store
from koda_ray.tracing import trace_parent
from koda_ray.types import NodeState, Plan, Unread, new_id, now

__all__ = ["Intake", "new_command", "record_command", "words_waiting"]

_REMEMBERED = 100
_log = get_logger()


def new_command(*, session_id: str, user_id: str, name: str, body: Mapping[str, JsonValue], key: str) -> CommandRecord:
    """Return what is asked of a session, as it is given to `record_command`."""
    return CommandRecord(
        id=new_id("cmd"),
        session_id=session_id,
        user_id=user_id,
        key=key,
        name=name,
        body=dict(body),
        result={},
        trace=trace_parent(),
        created_at=now(),
    )


async def record_command(
    store: Store, asked: CommandRecord, *, most_awake: int | None = None, most_video_s: float | None = None
) -> tuple[CommandRecord, bool]:
    """Record a command for whoever has the session, or will have it.

    Args:
        store: The database.
        asked: The command, from `new_command`.
        most_awake: How many sessions of the user may be awake, this one with them.
        most_video_s: How many seconds of video of the user may wait or be under way, with the one that this asks for;
            behind a `Rewind` that waits nobody can tell whether it does, and it is taken.

    Returns:
        The command under this key, recorded now or before, and whether it still waits. The result of one that waits
        is what it will lead to as far as the row tells.

    Raises:
        NotFound: There is no such session of this user, or no such point to go back to.
        Conflict: The key was used for something else, or for what was taken back.
        InvalidInput: The command or its body is not known.
        InvalidTransition: The phase does not take it.
        LimitReached: Too many wait already, so many sessions are awake, or so much video waits.
    """
    command = parse_command(asked.name, asked.body)
    if isinstance(command, Rewind) and not await _is_known(store, asked.session_id, asked.key):
        await store.see_point(asked.session_id, command.point, user_id=asked.user_id)
    recorded, waits = await store.receive(
        asked,
        lambda row, waiting: _foreseen(row.state, waiting, command),
        pictures=pictures_named(command.notes) if isinstance(command, Say | RequestChanges) else (),
        most_awake=most_awake,
        most_video_s=most_video_s,
    )
    if waits and recorded.id != asked.id and recorded.id in _taken_back(await store.inbox(asked.session_id)):
        raise _was_taken_back(recorded)
    return recorded, waits


async def _is_known(store: Store, session_id: str, key: str) -> bool:
    if any(each.key == key for each in await store.inbox(session_id)):  # first: what is taken out is applied then
        return True
    return await store.find_command(session_id, key) is not None


def words_waiting(waiting: Sequence[CommandRecord], plan: Plan | None) -> tuple[Unread, ...]:
    """Return what was said that waits, and is not taken back, as what nobody has read yet; oldest first.

    Args:
        waiting: All that waits for a session (`Store.inbox`).
        plan: The session's, which names what is pointed at.
    """
    taken_back, found = _taken_back(waiting), list[Unread]()
    for each in _can_be(waiting):
        if each.id in taken_back:
            continue
        with suppress(KodaError):  # what cannot be read is refused in its turn
            match command_of(each):
                case Say(text=words, notes=notes) | RequestChanges(feedback=words, notes=notes):
                    told = in_words(words, notes, plan)
                    found.append(Unread(id=each.id, words=words.strip(), notes=notes, told=told, at=each.created_at))
                case _:
                    pass
    return tuple(found)


def _foreseen(
    state: NodeState, waiting: Sequence[CommandRecord], command: Command | Rewind | None
) -> dict[str, JsonValue]:
    """Say what a command leads to once what waits before it is taken; raises what refuses it."""
    at, taken_back = now(), _taken_back(waiting)
    waiting = [each for each in waiting if each.id not in taken_back]
    if isinstance(command, TakeBack) and any(each.id == command.id for each in _can_be(waiting)):
        left = [each for each in waiting if each.id != command.id]
        _check_meanings(command, _meanings(state, waiting, at), _meanings(state, left, at))
        waiting, command = left, None
    for each in waiting:
        with suppress(KodaError):
            before = command_of(each)
            if isinstance(before, Rewind):  # where that leads is known when it is taken, and whether this may follow
                return {}
            state, _ = phases.apply(state, before, at)
    if isinstance(command, Rewind):
        return {}
    if command is not None:
        state, _ = phases.apply(state, command, at)
    return {"phase": state.phase, "owes": state.owes}


def _meanings(state: NodeState, waiting: Sequence[CommandRecord], at: datetime) -> dict[str, Meant]:
    """Say what each message or change that waits will mean, by its id; of those behind a `Rewind` nobody can tell."""
    found: dict[str, Meant] = {}
    for each in waiting:
        with suppress(KodaError):
            before = command_of(each)
            if isinstance(before, Rewind):
                break
            said, after = judged(before, state, at)
            if (meaning := meant(said, state)) is not None:
                found[each.id] = meaning
            state = after
    return found


def _check_meanings(command: TakeBack, was: Mapping[str, Meant], would_be: Mapping[str, Meant]) -> None:
    """Refuse to take back what something that was said after it depends on: that would become what nobody said."""
    for said, meaning in was.items():
        instead = would_be.get(said)
        if said != command.id and instead != meaning:
            what = "nothing" if instead is None else f"the {instead}"
            raise InvalidTransition(
                f"cannot take back message {command.id} by itself: message {said}, which waits behind it, is "
                f"said to it and would be {what} then; take back message {said} first",
                context={"id": command.id, "first": said},
            )


def _can_be(waiting: Sequence[CommandRecord]) -> list[CommandRecord]:
    """Return what waits that can be taken back: what only says something."""
    return [each for each in waiting if each.name in ("message", "changes")]


def _taken_back(waiting: Sequence[CommandRecord]) -> dict[str, CommandRecord]:
    """Return what takes back what, of all that waits: the two by the ids of both."""
    said = {each.id: each for each in _can_be(waiting)}
    found: dict[str, CommandRecord] = {}
    for each in waiting:
        # not parsed here: what cannot be is refused in its turn, and stands in the way of nothing else
        if each.name == "takeback" and (of := said.get(str(each.body.get("id")))) is not None:
            found |= {each.id: of, of.id: each}
    return found


class Intake:
    """Takes what waits for one session, one after the other.

    Args:
        core: The session, under its fence.
        apply: Applies a command and commits it, and returns it with what it led to; raises what refuses it.
    """

    def __init__(self, core: SessionCore, apply: Callable[[CommandRecord], Awaitable[CommandRecord]]) -> None:
        self._core = core
        self._apply = apply
        self._turn = asyncio.Lock()
        self._refused: dict[str, KodaError] = {}
        self._delayed: str | None = None

    @property
    def delayed(self) -> bool:
        """Whether a command waits because storage kept it from being applied, which its person was told."""
        return self._delayed is not None

    @property
    def busy(self) -> bool:
        """Whether something is being taken now."""
        return self._turn.locked()

    async def take(self, key: str) -> CommandRecord:
        """Take what waits, and return the command under a key.

        Raises:
            Fenced: A newer activation has the session; what waits is for that one.
            StorageError: The database or the storage is away; what waits stays.
            KodaError: What refused this command.
        """
        async with self._turn:
            taken = await self._take_all()
            if (error := self._refused.pop(key, None)) is not None:
                raise error
            found = taken.get(key) or await self._core.store.find_command(self._core.session_id, key)
        if found is None:
            raise Conflict(f"the command under the key {key!r} was refused; the session's events say why")
        return found

    async def begin(self) -> None:
        """Take what waits, as the first thing of an activation; what storage delays is no reason not to begin.

        Raises:
            Fenced: As `take`.
            StorageError: The database is away.
        """
        try:
            await self.look()
        except StorageError:
            if not self.delayed:
                raise

    async def look(self) -> None:
        """Take what waits. Raises Fenced and StorageError as `take`."""
        async with self._turn:
            await self._take_all()

    async def _take_all(self) -> dict[str, CommandRecord]:
        taken: dict[str, CommandRecord] = {}
        waiting = await self._core.store.inbox(self._core.session_id)
        taken_back = _taken_back(waiting)
        for asked in waiting:
            self._refused.pop(asked.key, None)  # what was refused under this key was another
            try:
                if (other := taken_back.get(asked.id)) is None:
                    taken[asked.key] = await self._apply(asked)
                elif asked.name == "takeback":
                    taken[asked.key] = await self._leave_out(other, asked)
            except KodaError as error:
                if self._core.lost or isinstance(error, Fenced):
                    raise
                if isinstance(error, StorageError):
                    await self._delay(asked, error)
                    raise
                await self._refuse(asked, error)
            except Exception as error:  # a mistake of ours must not stand in the way of all that comes after it
                _log.exception("command failed", session_id=self._core.session_id, command=asked.name)
                await self._refuse(asked, KodaError(f"an internal error: {type(error).__name__}; nothing was changed"))
        self._delayed = None
        return taken

    async def _leave_out(self, said: CommandRecord, asked: CommandRecord) -> CommandRecord:
        """Take out what waits unheard, and that it is taken back, in one commit."""
        state = self._core.state
        record = replace(asked, result={"phase": state.phase, "owes": state.owes})
        error = _was_taken_back(said)
        told = _told(said, error)
        await self._core.commit(Batch(command=record, refused=said.key, events=[told], touch=True))
        self._remember(said, error)
        return record

    async def _delay(self, asked: CommandRecord, error: StorageError) -> None:
        """Say once that a command waits; raises StorageError where that cannot be written either."""
        if self._delayed != asked.id:
            data: dict[str, JsonValue] = {"command": asked.name, "code": error.code, "message": error.message}
            await self._core.emit(NewEvent(type="command_delayed", data=data, cause_id=asked.id))
            self._delayed = asked.id

    async def _refuse(self, asked: CommandRecord, error: KodaError) -> None:
        await self._core.commit(Batch(refused=asked.key, events=[_told(asked, error)]))
        self._remember(asked, error)

    def _remember(self, asked: CommandRecord, error: KodaError) -> None:
        while len(self._refused) >= _REMEMBERED:
            del self._refused[next(iter(self._refused))]
        self._refused[asked.key] = error


def _was_taken_back(said: CommandRecord) -> Conflict:
    return Conflict(f"{said.name} {said.id} was taken back before anybody heard it", code="TAKEN_BACK")


def _told(asked: CommandRecord, error: KodaError) -> NewEvent:
    data: dict[str, JsonValue] = {"command": asked.name, "code": error.code, "message": error.message}
    return NewEvent(type="command_refused", data=data, cause_id=asked.id)
