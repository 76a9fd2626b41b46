"""What going back reads of a session's past."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from koda_ray.actors.timeline import back_at
from koda_ray.state.past import Past
from koda_ray.state.records import MessageRecord
from koda_ray.state.sql import SqlStore
from koda_ray.types import now
from tests.state.conformance.history import told
from tests.state.conformance.versions import shown
from tests.state.records import active_session, command


class Counted:
    """Messages that know how often they were gone through."""

    def __init__(self, messages: list[MessageRecord]) -> None:
        self.messages = messages
        self.times = 0

    def __iter__(self) -> Iterator[MessageRecord]:
        self.times += 1
        return iter(self.messages)


async def test_all_that_was_said_is_gone_through_once_where_nobody_was_asked_anything(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    try:
        mine = await active_session(store)
        said = await told(store, mine, 1)
        await shown(store, mine, 1)
        past: Past = await store.past(mine.id)
    finally:
        await store.close()
    messages = Counted([said])
    change, _ = back_at(replace(past, messages=messages), command=command(mine, name="rewind"), at=now())
    assert change.state.preview is not None and change.batch.messages == []
    assert messages.times == 1
