"""What every Store must do about canvases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import JsonValue

from koda_ray.errors import Conflict, LimitReached, NotFound
from koda_ray.state.canvases import CanvasHead, CanvasRecord
from koda_ray.state.store import Store
from koda_ray.types import new_id, now
from tests.state.conformance.connecting import Connect
from tests.state.records import NAME, active_session

__all__ = ["CanvasConformance"]

MANY = 50


def canvas(user_id: str = "ann", **how: JsonValue) -> CanvasRecord:
    """Make one with a node, whose x is ``x``."""
    node: JsonValue = {"id": "a", "position": {"x": how.get("x", 0), "y": -1.5}, "data": {"text": NAME}}
    at = now()
    return CanvasRecord(
        user_id=user_id,
        id=new_id("nod"),
        version=1,
        name=NAME,
        node_count=1,
        session_ids=["ses_1"],
        layout={"nodes": [node], "edges": [], "view": None},
        created_at=at,
        changed_at=at,
    )


def moved(of: CanvasRecord, x: float) -> CanvasRecord:
    """What it becomes once its node is elsewhere, a second later."""
    there = canvas(x=x)
    return replace(of, layout=there.layout, changed_at=of.changed_at + timedelta(seconds=1))


class CanvasConformance:
    async def test_a_canvas_is_its_users_alone_and_the_same_in_every_process(
        self, store: Store, connect: Connect
    ) -> None:
        mine, other = canvas(), canvas()
        made = await store.put_canvas(mine, expected=None, most=MANY)
        assert (made.version, made.name, made.session_ids) == (1, mine.name, ["ses_1"])
        await store.put_canvas(replace(other, changed_at=mine.changed_at + timedelta(1)), expected=None, most=MANY)
        await store.put_canvas(replace(mine, user_id="bob", name="Bob's"), expected=None, most=MANY)
        elsewhere = await connect()
        assert await elsewhere.canvas("ann", mine.id) == mine
        assert [each.id for each in await elsewhere.canvases("ann")] == [other.id, mine.id]
        assert [type(each) for each in await store.canvases("bob")] == [CanvasHead], "a list reads no layouts"
        assert (await store.canvas("bob", mine.id)).name == "Bob's"
        assert await store.canvases("nobody") == []
        with pytest.raises(NotFound, match="no canvas"):
            await store.canvas("bob", other.id)

    async def test_a_change_of_another_version_than_there_is_changes_nothing(self, store: Store) -> None:
        mine = canvas()
        await store.put_canvas(mine, expected=None, most=MANY)
        second = await store.put_canvas(moved(mine, 5), expected=1, most=MANY)
        assert (second.version, second.created_at) == (2, mine.created_at)
        with pytest.raises(Conflict, match="is at version 2, and you changed 1") as refused:
            await store.put_canvas(moved(mine, 7), expected=1, most=MANY)
        assert refused.value.context == {"id": mine.id, "version": 2}
        with pytest.raises(Conflict, match="at version 2: say which version you changed"):
            await store.put_canvas(moved(mine, 7), expected=None, most=MANY)
        assert (await store.canvas("ann", mine.id)).layout == moved(mine, 5).layout
        with pytest.raises(NotFound):
            await store.put_canvas(canvas(), expected=3, most=MANY)

    async def test_what_is_put_again_since_its_answer_was_lost_is_put_once(self, store: Store) -> None:
        mine = canvas()
        first = await store.put_canvas(mine, expected=None, most=MANY)
        again = replace(mine, changed_at=mine.changed_at + timedelta(seconds=9))
        assert await store.put_canvas(again, expected=None, most=MANY) == first
        second = await store.put_canvas(moved(mine, 5), expected=1, most=MANY)
        assert await store.put_canvas(moved(mine, 5), expected=1, most=MANY) == second
        with pytest.raises(Conflict):
            await store.put_canvas(replace(moved(mine, 5), name="x"), expected=1, most=MANY)

    async def test_of_two_changes_at_once_one_is_made(self, store: Store, connect: Connect) -> None:
        mine = canvas()
        await store.put_canvas(mine, expected=None, most=MANY)
        stores = [store, await connect()]
        puts = (stores[at % 2].put_canvas(moved(mine, at), expected=1, most=MANY) for at in range(1, 7))
        done = await asyncio.gather(*puts, return_exceptions=True)
        made = [each for each in done if isinstance(each, CanvasHead)]
        assert len(made) == 1 and all(isinstance(each, Conflict) for each in done if each is not made[0])
        assert (await store.canvas("ann", mine.id)).version == 2

    async def test_a_user_has_so_many_and_no_more_however_many_are_made_at_once(self, store: Store) -> None:
        puts = (store.put_canvas(canvas(), expected=None, most=3) for _ in range(6))
        done = await asyncio.gather(*puts, return_exceptions=True)
        assert sum(isinstance(each, LimitReached) for each in done) == 3
        mine = await store.canvases("ann")
        assert len(mine) == 3
        there = await store.canvas("ann", mine[0].id)
        assert (await store.put_canvas(moved(there, 4), expected=1, most=3)).version == 2, "a change is no other one"
        await store.remove_canvas("ann", there.id)
        assert (await store.put_canvas(canvas(), expected=None, most=3)).version == 1

    async def test_a_canvas_goes_by_itself_and_sessions_go_without_it(self, store: Store) -> None:
        session = await active_session(store)
        mine = replace(canvas(session.user_id), session_ids=[session.id])
        await store.put_canvas(mine, expected=None, most=MANY)
        await store.close_session(session.id, user_id=session.user_id)
        assert (await store.canvas(session.user_id, mine.id)).session_ids == [session.id]
        with pytest.raises(NotFound):
            await store.remove_canvas("bob", mine.id)
        await store.remove_canvas(session.user_id, mine.id)
        with pytest.raises(NotFound):
            await store.canvas(session.user_id, mine.id)
        with pytest.raises(NotFound, match="no canvas"):
            await store.remove_canvas(session.user_id, mine.id)
