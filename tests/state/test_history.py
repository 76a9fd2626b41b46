"""Whatever is said, saved, put back, undone and forked, in any order: a session is exactly what it was there."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import tracemalloc
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koda_ray.errors import Conflict, NotFound
from koda_ray.state.json_store import JSONStore
from koda_ray.state.past import UNDO, cut, spans_of
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.state.store import Store
from koda_ray.types import new_id
from tests import tiers
from tests.state import records
from tests.state.conformance.history import back, forked, past_at
from tests.state.records import SOON, active_session, say

_MEMORY = Path("/dev/shm")
"""Where syncing costs nothing; what a kill leaves is another test's matter."""


@dataclass(frozen=True)
class Seen:
    """What somebody who looks sees of a session."""

    messages: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    beads: tuple[tuple[str, str], ...]
    checkpoint: str | None
    prompt: str


class Lives(RuleBasedStateMachine):
    """One session and its forks, and beside them what each should be at every point."""

    def store(self, folder: Path) -> Store:
        return JSONStore(folder, compact_bytes=4_000)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
        self.runner = asyncio.Runner()
        self.kept = self.store(self.folder / "store")
        self.runner.run(self.kept.open())
        self.count = 0

    def teardown(self) -> None:
        self.runner.run(self.kept.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self) -> None:
        self.row = self.runner.run(active_session(self.kept))
        self.points: dict[str, Seen] = {}  # by message, checkpoint or head
        self.then: dict[str, dict[str, Seen]] = {}  # by head: the points there, where each has a moment of its own
        self.open: list[str] = []  # points whose moment goes on: what is done now is theirs too
        self.undos: list[tuple[str, bool]] = []  # heads, and whether a rewind (not an undo) that stands left them
        self.seen = self.look(self.row)

    def look(self, row: SessionRecord) -> Seen:
        async def read() -> Seen:
            pointer = await self.kept.latest_checkpoint(row.id)
            return Seen(
                tuple(message.id for message in await self.kept.messages(row.id)),
                tuple((call.id, call.status) for call in await self.kept.tool_calls(row.id)),
                tuple((bead.id, bead.status) for bead in await self.kept.beads(row.id)),
                None if pointer is None else pointer.id,
                (await self.kept.get_session(row.id)).state.prompt,
            )

        return self.runner.run(read())

    def commit(self, batch: Batch, *, ends: str = "") -> None:
        """Commit; ``ends`` is a prefix of the points whose moment this ends."""
        for point in [point for point in self.open if ends and point.startswith(tuple(ends.split()))]:
            self.open.remove(point)
        self.runner.run(self.kept.commit(self.row.id, self.row.epoch, batch))
        self.seen = self.look(self.row)

    def moved(self) -> None:
        for point in self.open:
            self.points[point] = self.seen

    @rule(calls=st.integers(0, 2), thinks=st.booleans(), loud=st.booleans())
    def says(self, calls: int, thinks: bool, loud: bool) -> None:
        self.count += 1
        message = records.message(self.row, self.count)
        made = [replace(records.tool_call(self.row), message_id=message.id, status="succeeded") for _ in range(calls)]
        batch = Batch(messages=[message], tool_calls=made, events=[say("x")] if loud else [])
        if thinks:
            batch.state = self.row.state.model_copy(update={"prompt": f"said {self.count}"})
        self.commit(batch, ends="msg_ ckp_")
        self.open.append(message.id)
        self.moved()

    @rule(loud=st.booleans())
    def thinks(self, loud: bool) -> None:
        self.count += 1
        state = self.row.state.model_copy(update={"prompt": f"thought {self.count}"})
        self.commit(Batch(state=state, events=[say("x")] if loud else []))
        self.moved()

    @rule()
    def saves(self) -> None:
        self.count += 1
        pointer = records.checkpoint(self.row, self.count)
        self.commit(Batch(checkpoint=pointer), ends="ckp_")
        self.open.append(pointer.id)
        self.moved()

    @rule(status=st.sampled_from(["open", "in_progress", "closed"]), bead=st.integers(1, 3))
    def moves_a_bead(self, status: str, bead: int) -> None:
        self.commit(Batch(beads=[replace(records.bead(self.row, f"b{bead}", bead), status=status)]))  # type: ignore[arg-type]

    def rewind(self, point: str, head_of: str = "") -> None:
        before, head = self.seen, new_id("hed")
        self.runner.run(
            self.kept.rewind(self.row.id, self.row.epoch, point, lambda past: replace(back(past), head_id=head))
        )
        self.points[head] = before
        self.then[head] = dict(self.points)
        self.points |= self.at(head_of or point)
        self.seen = self.look(self.row)
        self.heads = head

    def at(self, point: str) -> dict[str, Seen]:
        """Return what the points are in the history that a point is of."""
        then = self.then.get(point, self.points)
        return {name: seen for name, seen in then.items() if not name.startswith("hed_")}

    def goes_on(self) -> None:
        """Once it was put back, the moment of what was said and saved last there goes on."""
        pointers = {pointer.id for pointer in self.runner.run(self.kept.checkpoints(self.row.id))}
        made = sorted((p for p in self.points if p in {*self.seen.messages, *pointers}), key=lambda p: p[4:])
        said = [place for place, point in enumerate(made) if point.startswith("msg_")]
        since = made[said[-1] :] if said else made
        saved = [point for point in since if point.startswith("ckp_")]
        self.open = [*(since[:1] if said else []), *saved[-1:]]
        self.moved()

    def live_points(self) -> list[str]:
        pointers = {pointer.id for pointer in self.runner.run(self.kept.checkpoints(self.row.id))}
        return [p for p in self.points if p in self.seen.messages or p in pointers or p.startswith("hed_")]

    @precondition(lambda self: self.points)
    @rule(data=st.data())
    def is_put_back(self, data: st.DataObject) -> None:
        point = data.draw(st.sampled_from(sorted(self.live_points())))
        expected = self.points[point]
        self.rewind(point)
        self.undos.append((self.heads, True))
        self.undos = [(head, stands and head != point) for head, stands in self.undos]
        beads = self.seen.beads if not point.startswith("hed_") else expected.beads
        assert self.seen == replace(expected, beads=beads)
        self.goes_on()

    @precondition(lambda self: any(stands for _, stands in self.undos))
    @rule()
    def is_undone(self) -> None:
        last = [head for head, stands in self.undos if stands][-1]
        expected = self.points[last]
        self.rewind(UNDO, last)
        self.undos = [(head, stands and head != last) for head, stands in self.undos]
        assert self.seen == expected
        self.goes_on()

    @precondition(lambda self: self.points)
    @rule(data=st.data())
    def is_forked(self, data: st.DataObject) -> None:
        point = data.draw(st.sampled_from(sorted(self.live_points())))
        made, _ = self.runner.run(
            self.kept.fork(self.row.id, user_id="ann", point=point, key=new_id("cmd"), body={}, plan=forked)
        )
        expected, found = self.points[point], self.look(made)
        beads = found.beads if not point.startswith("hed_") else expected.beads
        assert found == replace(expected, beads=beads)
        # every point of the source up to there is one of the fork, and it is the same there
        row = self.runner.run(self.kept.activate(made.id, host="h", lease_until=records.now() + SOON))
        earlier = [message for message in expected.messages if message in self.at(point)]
        if earlier:
            there = data.draw(st.sampled_from(earlier))
            was = self.at(point)[there]
            self.runner.run(self.kept.rewind(row.id, row.epoch, there, back))
            assert self.look(row).messages == was.messages
            if there != expected.messages[-1]:
                assert self.look(row).prompt == was.prompt

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "row"):
            return
        events = self.runner.run(self.kept.events(self.row.id, limit=10_000))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert self.look(self.row) == self.seen

    @rule(data=st.data())
    def whoever_asks_for_a_point_is_answered_as_who_reads_it(self, data: st.DataObject) -> None:
        points = [UNDO, "msg_nonsense", "hed_nonsense", *sorted(self.points)]
        with suppress(NotFound):
            self.runner.run(past_at(self.kept, self.row.id, point=data.draw(st.sampled_from(points))))

    @rule()
    def is_opened_again(self) -> None:
        self.runner.run(self.kept.close())
        self.runner.run(self.kept.open())
        assert self.look(self.row) == self.seen


class SqlLives(Lives):
    def store(self, folder: Path) -> Store:
        return SqlStore(folder)


_quick = settings(deadline=None, suppress_health_check=list(HealthCheck))
TestJsonLives = Lives.TestCase
TestJsonLives.settings = settings(_quick, max_examples=tiers.examples(25), stateful_step_count=20)
TestSqlLives = pytest.mark.full(SqlLives.TestCase)
TestSqlLives.settings = settings(_quick, max_examples=8, stateful_step_count=20)


async def test_whether_there_is_a_point_and_which_there_are_is_found_out_without_the_past(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    mine = await active_session(store)
    said = [replace(records.message(mine, n), content=[{"type": "text", "text": "x" * 500_000}]) for n in range(40)]
    for message in said:
        batch = Batch(messages=[message], state=mine.state.model_copy(update={"prompt": "y" * 50_000}))
        await store.commit(mine.id, mine.epoch, batch)
    await store.rewind(mine.id, mine.epoch, said[30].id, back)

    async def peak_bytes(asked: Awaitable[object]) -> int:
        tracemalloc.start()
        try:
            await asked
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    await store.see_point(mine.id, said[2].id)  # what is made once, such as a connection
    past = await peak_bytes(store.past(mine.id, point=said[2].id))
    points = [await peak_bytes(store.see_point(mine.id, point)) for point in (said[2].id, said[29].id, UNDO)]
    listed = await peak_bytes(store.points(mine.id, limit=100))
    await store.close()
    assert past > 20_000_000 and max(points) < 500_000 and listed < 3_000_000, (past, points, listed)


async def test_a_point_from_before_states_were_kept_is_refused(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    mine = await active_session(store)
    for n in (1, 2):
        state = mine.state.model_copy(update={"prompt": str(n)})
        await store.commit(mine.id, mine.epoch, Batch(messages=[records.message(mine, n)], state=state))
    first, second = await store.messages(mine.id)
    with sqlite3.connect(tmp_path / "koda.db") as there:
        there.execute("DELETE FROM states")
    there.close()
    with pytest.raises(Conflict, match="before states were kept"):
        await past_at(store, mine.id, point=first.id)
    await past_at(store, mine.id, point=second.id)
    await store.close()


def test_stretches_are_cut_where_they_are_told() -> None:
    spans = spans_of([[0, 8, 1, 5], [21, None, 9, None]])
    assert cut(spans, rev=30, seq=12) == spans_of([[0, 8, 1, 5], [21, 31, 9, 13]])
    assert cut(spans, rev=4, seq=3) == spans_of([[0, 5, 1, 4]])
    assert cut(spans, rev=21, seq=8) == spans_of([[0, 8, 1, 5], [21, 22, 9, 9]])
