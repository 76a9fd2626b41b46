"""A session's past is long: what takes it along holds a little of it at a time."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from koda_ray.events import NewEvent
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.types import Execution, now
from tests.state import records

COUNT = 400
SIZE = 200_000


async def forked(database: Path, session: SessionRecord) -> str:
    """Make a session of another one's past, in a process that grows by less than all that is there."""
    line = (sys.executable, "-m", "tests.state.forker", str(database), session.id, session.user_id)
    forking = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(forking.communicate(), 200)
    grown, made = said.decode().split()[-2:]
    assert int(grown) < COUNT * SIZE, f"it grew by {int(grown) >> 20} MB"
    return made


@pytest.mark.full
async def test_a_fork_holds_a_few_of_the_states_at_a_time(tmp_path: Path) -> None:
    """There are eighty megabytes of them, which each is there as text and read, of the one session and the other."""
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    session = await records.active_session(store)
    for number in range(COUNT):
        execution = Execution(thinking=f"{number}".ljust(SIZE, "x"))
        state = session.state.model_copy(update={"execution": execution})
        message = records.message(session, number)
        await store.commit(session.id, session.epoch, Batch(state=state, messages=[message]))
    made = await forked(tmp_path / "koda.db", session)
    past = [each for each in await store.points(made, limit=1000) if each.kind == "message"]
    assert len(past) == COUNT
    middle = await store.past(made, point=past[COUNT // 2].id)
    assert middle.state.execution is not None
    assert middle.state.execution.thinking.rstrip("x") == str(COUNT // 2 - 1)
    assert (middle.state.session_id, middle.state.forked_from) == (made, session.id)
    await store.close()


@pytest.mark.full
async def test_a_fork_holds_a_few_of_the_messages_at_a_time(tmp_path: Path) -> None:
    """There are eighty megabytes of them, and as many of what was said aloud."""
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    session = await records.active_session(store)
    for number in range(COUNT):
        text = f"{number}".ljust(SIZE, "x")
        message = replace(records.message(session, number), content=[{"type": "text", "text": text}])
        aloud = NewEvent(type="message", data={"role": "assistant", "content": text})
        await store.commit(session.id, session.epoch, Batch(messages=[message], events=[aloud]))
    made = await forked(tmp_path / "koda.db", session)
    mine, theirs = await store.messages(made), await store.messages(session.id)
    assert [each.content for each in mine] == [each.content for each in theirs] and len(mine) == COUNT
    first, last = (await store.said(made, limit=COUNT))[-1], (await store.said(made, limit=1))[0]
    assert (first.seq, last.seq) == (1, COUNT) and str(last.data["content"]).rstrip("x") == str(COUNT - 1)
    numbers = [each.seq for each in mine]
    assert numbers == sorted(numbers) and (numbers[0], numbers[-1]) == (0, COUNT - 1)
    await store.close()


@pytest.mark.full
async def test_a_fork_holds_a_few_of_the_calls_at_a_time(tmp_path: Path) -> None:
    """Eighty megabytes are what they were given, and as much is what they gave."""
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    session = await records.active_session(store)
    message = records.message(session, 0)
    await store.commit(session.id, session.epoch, Batch(messages=[message]))
    for number in range(COUNT):
        text = f"{number}".ljust(SIZE, "x")
        call = replace(records.tool_call(session), message_id=message.id, status="succeeded", ended_at=now())
        call = replace(call, input={"text": text}, result={"text": text})
        await store.commit(session.id, session.epoch, Batch(tool_calls=[call]))
    made = await forked(tmp_path / "koda.db", session)
    mine, theirs = await store.tool_calls(made), await store.tool_calls(session.id)
    assert mine == [replace(each, session_id=made) for each in theirs] and len(mine) == COUNT
    await store.close()
