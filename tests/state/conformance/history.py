"""What every Store must do about a session's past: put it back, undo that, and make other sessions of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic import JsonValue

from koda_ray.errors import Conflict, Fenced, KodaError, NotFound
from koda_ray.events import NewEvent
from koda_ray.state.past import UNDO, Change, ForkedSession, Past, PointRecord
from koda_ray.state.records import Batch, CheckpointRecord, CommandRecord, MessageRecord, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import NodeState, new_id
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import active_session, say

__all__ = ["HistoryConformance", "back", "forked", "past_at", "told"]


def back(past: Past, command: CommandRecord | None = None) -> Change:
    """Put a session back to just what it was."""
    return Change(
        head_id=new_id("hed"),
        state=past.state,
        tool_calls=past.tool_calls,
        approvals=past.approvals,
        beads=past.beads,
        batch=Batch(events=[say("back")], command=command, touch=True),
    )


def forked(past: Past) -> ForkedSession:
    """Make a session of just what it was."""
    ids = {"session_id": new_id("ses"), "node_id": new_id("nod")}
    state = past.state.model_copy(update=ids)
    session_id = state.session_id
    return ForkedSession(
        state=state,
        rev=past.rev + 1,
        messages=[replace(each, session_id=session_id) for each in past.messages],
        tool_calls=[replace(each, session_id=session_id) for each in past.tool_calls],
        approvals=[replace(each, session_id=session_id) for each in past.approvals],
        beads=[replace(each, session_id=session_id) for each in past.beads],
        checkpoints=[replace(each, session_id=session_id) for each in past.checkpoints],
        states=[(rev, each.model_copy(update=ids)) for rev, each in past.states],
        assets=[replace(each, id=new_id("ast"), session_id=session_id) for each in past.assets],
        jobs=[replace(each, id=new_id("job"), session_id=session_id) for each in past.jobs],
        versions=[replace(each, session_id=session_id, live=True) for each in past.versions],
        events=[say("forked")],
    )


def thinking(state: NodeState, words: str) -> NodeState:
    return state.model_copy(update={"prompt": words})


async def told(store: Store, mine: SessionRecord, position: int, *, state: str = "", calls: int = 0) -> MessageRecord:
    """Say something, with a state of that moment and calls that it makes."""
    message = records.message(mine, position)
    made = [replace(records.tool_call(mine), message_id=message.id) for _ in range(calls)]
    batch = Batch(messages=[message], tool_calls=made, events=[say(f"{position}")])
    batch.state = thinking(mine.state, state) if state else None
    await store.commit(mine.id, mine.epoch, batch)
    return message


async def saved(store: Store, mine: SessionRecord, seq: int) -> CheckpointRecord:
    pointer = records.checkpoint(mine, seq)
    await store.commit(mine.id, mine.epoch, Batch(checkpoint=pointer))
    return pointer


async def past_at(store: Store, session_id: str, *, user_id: str | None = None, point: str | None = None) -> Past:
    """Read a past, and see that whoever asks only for its point is answered as this is."""
    refused: KodaError | None = None
    if point is not None:
        try:
            await store.see_point(session_id, point, user_id=user_id)
        except KodaError as error:
            refused = error
    try:
        past = await store.past(session_id, user_id=user_id, point=point)
    except KodaError as error:
        assert point is None or refused is not None
        assert refused is None or (type(refused), str(refused)) == (type(error), str(error))
        raise
    assert refused is None
    return past


class HistoryConformance:
    async def test_at_a_message_a_session_is_what_it_was_before_the_next(self, store: Store) -> None:
        mine = await active_session(store)
        first = await told(store, mine, 1, state="one")
        await store.commit(mine.id, mine.epoch, Batch(state=thinking(mine.state, "one and a half"), events=[say("!")]))
        pointer = await saved(store, mine, 3)
        second = await told(store, mine, 2, state="two", calls=1)
        past = await past_at(store, mine.id, point=first.id)
        assert past.state.prompt == "one and a half"
        assert past.messages == [first] and past.tool_calls == [] and past.checkpoints == [pointer]
        assert past.seq == 3  # the session's first, the message's and the one after it
        there = await past_at(store, mine.id, point=pointer.id)
        assert (there.messages, there.state.prompt) == ([first], "one and a half")
        now_ = await past_at(store, mine.id)
        assert now_.messages == [first, second] and now_.state.prompt == "two" and len(now_.tool_calls) == 1
        assert (await past_at(store, mine.id, point=second.id)).state == now_.state

    async def test_points_are_listed_page_by_page_newest_first(self, store: Store) -> None:
        mine = await active_session(store)
        first = await told(store, mine, 1, state="one")
        pointer = await saved(store, mine, 3)
        second = await told(store, mine, 2, state="two")
        call: dict[str, JsonValue] = {"type": "tool_use", "id": "call", "name": "files_write", "input": {}}
        long = replace(records.message(mine, 3), content=[call, {"type": "text", "text": "so  it\n" * 500}])
        await store.commit(mine.id, mine.epoch, Batch(messages=[long]))
        listed = await store.points(mine.id, limit=10)
        assert [each.id for each in listed] == [long.id, second.id, pointer.id, first.id]
        assert [(each.kind, each.role, each.agent) for each in listed[2:]] == [
            ("checkpoint", "", ""),
            ("message", first.role, first.agent),
        ]
        assert listed[2].text == pointer.trigger and listed[2].created_at == pointer.created_at
        assert listed[0].text.startswith("so it so it ") and listed[0].text.endswith("…") and len(listed[0].text) == 200

        await store.rewind(mine.id, mine.epoch, pointer.id, back)
        await store.rewind(mine.id, mine.epoch, UNDO, back)
        (rewound, undone) = await store.heads(mine.id)
        everything = await store.points(mine.id, limit=10)
        assert [each.id for each in everything] == [undone.id, rewound.id, *(each.id for each in listed)]
        assert [(each.kind, each.text, each.undone) for each in everything[:2]] == [
            ("head", UNDO, False),
            ("head", pointer.id, True),
        ]
        pages: list[PointRecord] = []
        while page := await store.points(
            mine.id, limit=2, before=(pages[-1].created_at, pages[-1].id) if pages else None
        ):
            assert len(page) == 2
            pages += page
        assert pages == everything
        await store.rewind(mine.id, mine.epoch, first.id, back)
        assert [each.id for each in await store.points(mine.id, limit=10) if each.kind != "head"] == [
            pointer.id,
            first.id,
        ]

    @pytest.mark.quick
    async def test_what_was_said_is_what_counts_now(self, store: Store) -> None:
        mine = await active_session(store)
        first = await told(store, mine, 1)
        for position in (2, 3):
            await told(store, mine, position)

        async def texts(before: int | None = None, limit: int = 100) -> list[str]:
            return [str(event.data["text"]) for event in await store.said(mine.id, before=before, limit=limit)]

        assert await texts() == ["3", "2", "1"]
        assert await texts(before=4) == ["2", "1"] and await texts(limit=1) == ["3"]
        await store.rewind(mine.id, mine.epoch, first.id, back)
        await told(store, mine, 4)
        assert await texts() == ["4", "back", "1"]
        assert await store.said("ses_none") == []

    async def test_what_was_pictured_is_what_counts_now(self, store: Store) -> None:
        mine = await active_session(store)

        async def taken(at_s: float) -> None:
            event = NewEvent(type="picture_taken", data={"atS": at_s})
            await store.commit(mine.id, mine.epoch, Batch(events=[event]))

        async def times(before: int | None = None, limit: int = 100) -> list[object]:
            return [event.data["atS"] for event in await store.pictured(mine.id, before=before, limit=limit)]

        await taken(0.5)
        first = await told(store, mine, 1)
        await taken(1.0)
        await told(store, mine, 2)
        await taken(1.5)
        assert await times() == [1.5, 1.0, 0.5]
        second, *_ = await store.pictured(mine.id, limit=1)
        assert await times(before=second.seq) == [1.0, 0.5] and await times(limit=2) == [1.5, 1.0]
        assert await store.pictured("ses_none") == []
        await store.rewind(mine.id, mine.epoch, first.id, back)
        assert await times() == [1.0, 0.5]  # at a message it is what it was just before the next

    @pytest.mark.quick
    async def test_a_session_is_put_back_and_that_is_undone(self, store: Store) -> None:
        mine = await active_session(store)
        first = await told(store, mine, 1, state="one", calls=1)
        old = await saved(store, mine, 2)
        (kept,) = await store.tool_calls(mine.id)
        second = await told(store, mine, 2, state="two", calls=2)
        new = await saved(store, mine, 4)
        await store.commit(mine.id, mine.epoch, Batch(beads=[records.bead(mine, "b", 1)]))
        calls = await store.tool_calls(mine.id)
        before = await store.get_session(mine.id)

        change, events = await store.rewind(
            mine.id, mine.epoch, first.id, lambda past: replace(back(past), beads=[], tool_calls=past.tool_calls)
        )
        assert change is not None and [event.seq for event in events] == [before.seq + 1]
        assert await store.messages(mine.id) == [first]
        assert await store.tool_calls(mine.id) == [kept]
        assert await store.beads(mine.id) == []
        assert await store.latest_checkpoint(mine.id) == old and await store.checkpoints(mine.id) == [old]
        assert (await store.get_session(mine.id)).state.prompt == "one"
        (head,) = await store.heads(mine.id)
        assert (head.id, head.kind, head.undone) == (change.head_id, "rewind", False)
        assert head.state.prompt == "two" and head.tool_calls == calls and len(head.beads) == 1

        third = await told(store, mine, 2, state="three", calls=1)
        assert await store.messages(mine.id) == [first, third]
        with pytest.raises(NotFound, match="put back to before it") as caught:
            await past_at(store, mine.id, point=second.id)
        assert caught.value.code == "POINT_NOT_FOUND"

        await store.rewind(mine.id, mine.epoch, UNDO, back)
        assert await store.messages(mine.id) == [first, second]
        assert await store.tool_calls(mine.id) == calls
        assert [bead.id for bead in await store.beads(mine.id)] == ["b"]
        assert await store.latest_checkpoint(mine.id) == new
        assert (await store.get_session(mine.id)).state == before.state
        with pytest.raises(NotFound, match="nothing to undo"):
            await store.rewind(mine.id, mine.epoch, UNDO, back)
        # what was said in between is not lost either
        undone = (await store.heads(mine.id))[-1]
        assert (undone.kind, undone.undone) == ("undo", False)
        await store.rewind(mine.id, mine.epoch, undone.id, back)
        assert await store.messages(mine.id) == [first, third]
        await store.rewind(mine.id, mine.epoch, UNDO, back)
        assert await store.messages(mine.id) == [first, second]
        numbers = [event.seq for event in await store.events(mine.id)]
        assert numbers == list(range(1, len(numbers) + 1))

    async def test_putting_back_twice_is_undone_twice(self, store: Store) -> None:
        mine = await active_session(store)
        said = [await told(store, mine, n, state=f"{n}") for n in range(1, 5)]
        await store.rewind(mine.id, mine.epoch, said[2].id, back)
        await store.rewind(mine.id, mine.epoch, said[0].id, back)
        assert await store.messages(mine.id) == said[:1]
        await store.rewind(mine.id, mine.epoch, UNDO, back)
        assert await store.messages(mine.id) == said[:3]
        assert (await store.get_session(mine.id)).state.prompt == "3"
        await store.rewind(mine.id, mine.epoch, UNDO, back)
        assert await store.messages(mine.id) == said
        for point in (*(each.id for each in said), *(head.id for head in await store.heads(mine.id))):
            await past_at(store, mine.id, point=point)
        for point in (UNDO, "msg_nonsense", "ckp_nonsense", "hed_nonsense", said[0].id + "x"):
            with pytest.raises(NotFound):
                await past_at(store, mine.id, point=point)
        # a point before all that is a point still, with its state
        await store.rewind(mine.id, mine.epoch, said[1].id, back)
        assert (await store.get_session(mine.id)).state.prompt == "2"

    async def test_putting_back_is_fenced_refused_and_repeated_like_a_commit(self, store: Store) -> None:
        mine = await active_session(store)
        first = await told(store, mine, 1)
        await told(store, mine, 2)
        before = await store.get_session(mine.id)
        for epoch, point, refusal in (
            (mine.epoch - 1, first.id, Fenced),
            (mine.epoch, "msg_nonsense", NotFound),
            (mine.epoch, "hed_nonsense", NotFound),
            (mine.epoch, UNDO, NotFound),
        ):
            with pytest.raises(refusal):
                await store.rewind(mine.id, epoch, point, back)
        with pytest.raises(NotFound):
            await store.rewind(new_id("ses"), 1, first.id, back)

        def broken(past: Past) -> Change:
            raise ValueError("the plan is wrong")

        with pytest.raises(ValueError, match="the plan is wrong"):
            await store.rewind(mine.id, mine.epoch, first.id, broken)
        other = await active_session(store)
        with pytest.raises(ValueError, match="in a commit to session"):  # half carried out already, and taken back
            await store.rewind(
                mine.id, mine.epoch, first.id, lambda past: replace(back(past), beads=[records.bead(other, "x", 1)])
            )
        assert await store.get_session(mine.id) == before
        assert len(await store.messages(mine.id)) == 2 and await store.heads(mine.id) == []

        order = records.command(mine, "k", "rewind", to=first.id)
        change, events = await store.rewind(mine.id, mine.epoch, first.id, lambda past: back(past, order))
        assert change is not None
        again, same = await store.rewind(mine.id, mine.epoch, first.id, lambda past: back(past, order))
        assert again is None and same == events
        assert len(await store.heads(mine.id)) == 1
        with pytest.raises(Conflict):
            other_order = records.command(mine, "k", "rewind", to="x")
            await store.rewind(mine.id, mine.epoch, first.id, lambda past: back(past, other_order))

    @pytest.mark.quick
    async def test_a_fork_has_everything_and_its_source_is_not_touched(self, store: Store) -> None:
        mine = await active_session(store)
        picture = records.asset(of=mine)
        await store.add_asset(picture)
        first = await told(store, mine, 1, state="one", calls=1)
        pointer = await saved(store, mine, 2)
        job = records.job(of=mine)
        await store.commit(mine.id, mine.epoch, Batch(jobs=[job], approvals=[records.approval(mine)]))
        await told(store, mine, 2, state="two")
        before, heard = await store.get_session(mine.id), await store.events(mine.id)

        made, created = await store.fork(mine.id, user_id="ann", point=first.id, key="f", body={"at": "1"}, plan=forked)
        assert created and made.id != mine.id and made.state.prompt == "one"
        assert (made.epoch, made.status, made.lease_until) == (0, "active", None)
        assert await store.get_session(made.id) == made
        assert [m.content for m in await store.messages(made.id)] == [first.content]
        assert [c.message_id for c in await store.tool_calls(made.id)] == [first.id]
        assert len(await store.approvals(made.id)) == 1
        (shared,) = await store.checkpoints(made.id)
        assert (shared.manifest_key, shared.session_id) == (pointer.manifest_key, made.id)
        (copied,) = await store.assets(user_id="ann", session_id=made.id)
        assert (copied.key, copied.id == picture.id) == (picture.key, False)
        assert len(await store.list_jobs(session_id=made.id)) == 1
        assert await store.get_session(mine.id) == before and await store.events(mine.id) == heard
        assert await store.named_keys(mine.id) == await store.named_keys(made.id)
        assert await store.named_keys(mine.id) == {pointer.manifest_key: True, picture.key: True}

        again, created = await store.fork(
            mine.id, user_id="ann", point=first.id, key="f", body={"at": "1"}, plan=forked
        )
        assert (again.id, created) == (made.id, False)
        with pytest.raises(Conflict, match="'f'"):
            await store.fork(mine.id, user_id="ann", point=None, key="f", body={}, plan=forked)

        # it goes its own way, also back
        own = await store.activate(made.id, host="h", lease_until=records.now() + records.SOON)
        later = await told(store, own, 2, state="else")
        assert [m.id for m in await store.messages(made.id)] == [first.id, later.id]
        await store.rewind(made.id, own.epoch, first.id, back)
        assert (await store.get_session(made.id)).state.prompt == "one"
        assert len(await store.messages(mine.id)) == 2

        # whoever is closed holds nothing; the other goes on holding
        await store.close_session(mine.id, user_id="ann")
        assert await store.named_keys(made.id) == {pointer.manifest_key: False, picture.key: False}
        await store.delete_session(mine.id, user_id="ann")
        assert (await store.latest_checkpoint(made.id)) == shared
        await store.delete_session(made.id, user_id="ann")
        assert await store.named_keys(made.id) == {} and await store.heads(made.id) == []

    async def test_a_fork_is_refused_where_there_is_nothing_to_fork(self, store: Store) -> None:
        mine = await active_session(store)
        first = await told(store, mine, 1)
        for user_id, point in (("bob", None), ("ann", "msg_nonsense"), ("ann", UNDO)):
            with pytest.raises(NotFound):
                await store.fork(mine.id, user_id=user_id, point=point, key="f", body={}, plan=forked)
        with pytest.raises(NotFound):
            await past_at(store, mine.id, user_id="bob")
        with pytest.raises(NotFound):
            await past_at(store, mine.id, user_id="bob", point=first.id)
        await store.close_session(mine.id, user_id="ann")
        with pytest.raises(NotFound):
            await store.fork(mine.id, user_id="ann", point=first.id, key="f", body={}, plan=forked)
        assert await store.list_sessions("ann") == []

    async def test_many_forks_with_one_key_make_one_session(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        mine = await active_session(stores[0])
        await told(stores[0], mine, 1)

        async def fork(store: Store) -> str:
            for _ in range(5):
                try:
                    made, _ = await store.fork(mine.id, user_id="ann", point=None, key="f", body={}, plan=forked)
                    return made.id
                except Conflict as error:
                    assert error.retryable
            raise AssertionError("always in conflict")

        made = await asyncio.gather(*(fork(stores[n % 2]) for n in range(6)))
        assert len(set(made)) == 1
        assert len(await stores[0].list_sessions("ann")) == 2
