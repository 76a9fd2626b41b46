"""What every Store must do with commands that wait for their session, and with the names of sessions' processes."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

import pytest
from pydantic import JsonValue

from koda_ray.errors import Conflict, Fenced, InvalidTransition, LimitReached, NotFound
from koda_ray.state.inbox import MAX_WAITING, MAX_WAITING_BYTES
from koda_ray.state.records import Batch, CommandRecord, SessionRecord, WholeSession
from koda_ray.state.store import Store
from koda_ray.types import Output, now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import SOON, active_session, new_session, say

__all__ = ["InboxConformance"]


def after(row: SessionRecord, waiting: Sequence[CommandRecord]) -> dict[str, JsonValue]:
    """Judge a command: take it, and tell what was seen."""
    return {"phase": row.state.phase, "after": [each.key for each in waiting]}


def never(row: SessionRecord, waiting: Sequence[CommandRecord]) -> dict[str, JsonValue]:
    raise InvalidTransition(f"not in {row.state.phase}")


class InboxConformance:
    @pytest.mark.quick
    async def test_a_command_waits_until_a_commit_applies_it(self, store: Store) -> None:
        mine = await new_session(store)
        first, second = (records.command(mine, key, text=records.WORDS) for key in ("a", "b"))
        made, waits = await store.receive(first, after)
        assert waits and made == dataclasses.replace(first, result={"phase": "idle", "after": []})
        other, _ = await store.receive(second, after)
        assert other.result == {"phase": "idle", "after": ["a"]}
        assert await store.inbox(mine.id) == [made, other]
        assert await store.find_command(mine.id, "a") is None
        for again in (first, dataclasses.replace(first, id="cmd_again")):
            assert await store.receive(again, never) == (made, True)
        with pytest.raises(Conflict, match="'a'"):
            await store.receive(records.command(mine, "a", text="else"), after)
        row = await store.activate(mine.id, host="h", lease_until=now() + SOON)
        taken = dataclasses.replace(made, result={"phase": "question"})
        await store.commit(mine.id, row.epoch, Batch(command=taken, events=[say("x")]))
        assert await store.inbox(mine.id) == [other]
        assert await store.receive(first, never) == (taken, False)
        with pytest.raises(Conflict, match="'a'"):
            await store.receive(records.command(mine, "a", text="else"), after)

    @pytest.mark.quick
    async def test_pictures_of_notes_are_the_sessions_that_the_notes_were_written_to(self, store: Store) -> None:
        mine, other = await new_session(store), await new_session(store)
        named, unsent, held = (dataclasses.replace(records.asset(), purpose="note", key=key) for key in "abc")
        file, foreign = records.asset(), dataclasses.replace(records.asset("bob"), purpose="note")
        for asset in (named, unsent, dataclasses.replace(held, session_id=other.id), file, foreign):
            await store.add_asset(asset)
        with pytest.raises(InvalidTransition):
            await store.receive(records.command(mine), never, pictures=[named.id])
        assert (await store.get_asset(named.id, user_id="ann")).session_id is None, "nobody heard the note"
        pictures = [named.id, held.id, file.id, foreign.id, "ast_none"]
        made, _ = await store.receive(records.command(mine), after, pictures=pictures)
        assert await store.receive(records.command(mine), never, pictures=pictures) == (made, True)
        theirs = {each.id: (await store.get_asset(each.id, user_id=each.user_id)).session_id for each in (named, held)}
        assert theirs == {named.id: mine.id, held.id: other.id}
        for asset in (file, foreign):  # who names another's, or a file that a film is made with, takes nothing
            assert (await store.get_asset(asset.id, user_id=asset.user_id)).session_id is None
        loose = {asset.id for asset in await store.loose_assets(now() + SOON)}
        assert loose == {unsent.id, file.id, foreign.id}
        assert await store.own_assets("ann") == [file] and await store.own_assets("bob") == []
        assert await store.assets(user_id="ann", session_id=mine.id) == []
        assert await store.named_keys(mine.id) == {"a": False}
        await store.close_session(mine.id, user_id="ann")
        await store.delete_session(mine.id, user_id="ann")
        assert await store.asset_keys("ann") == {"b", "c", file.key}

    @pytest.mark.quick
    async def test_who_renews_a_lease_hears_whether_something_waits(self, store: Store) -> None:
        mine = await active_session(store)
        before, until = await store.get_session(mine.id), now() + SOON * 2
        assert not await store.renew(mine.id, mine.epoch, lease_until=until)
        after_it = await store.get_session(mine.id)
        assert after_it == dataclasses.replace(before, lease_until=until) and after_it.rev == before.rev
        made, _ = await store.receive(records.command(mine), after)
        assert await store.renew(mine.id, mine.epoch, lease_until=until)
        await store.commit(mine.id, mine.epoch, Batch(refused=made.key))
        assert not await store.renew(mine.id, mine.epoch, lease_until=until)
        newer = await store.activate(mine.id, host="newer", lease_until=until)
        with pytest.raises(Fenced):
            await store.renew(mine.id, mine.epoch, lease_until=until + SOON)
        assert await store.get_session(mine.id) == newer
        with pytest.raises(NotFound):
            await store.renew("ses_none", 1, lease_until=until)

    @pytest.mark.quick
    async def test_a_session_is_read_whole(self, store: Store) -> None:
        mine = await active_session(store)
        job = records.job(of=mine)
        await store.create_job(job)
        finals = {
            name: Output(job_id=job_id, video_url=f"/{job_id}")
            for name, job_id in (("output", job.id), ("finished", "job_gone"))
        }
        state = mine.state.model_copy(update=finals)
        await store.commit(mine.id, mine.epoch, Batch(state=state))
        found = await store.whole_session(mine.id, user_id="ann")
        assert found == WholeSession(row=await store.get_session(mine.id), lost=frozenset({"job_gone"}))
        asked = [(await store.receive(records.command(mine, key), after))[0] for key in ("a", "b")]
        found = await store.whole_session(mine.id, user_id="ann")
        assert found.waiting == tuple(asked) and found.row == await store.get_session(mine.id)
        await store.delete_job(job.id, user_id="ann")
        assert (await store.whole_session(mine.id, user_id="ann")).lost == {job.id, "job_gone"}
        for session_id, user_id in ((mine.id, "bob"), ("ses_none", "ann")):
            with pytest.raises(NotFound):
                await store.whole_session(session_id, user_id=user_id)
        await store.discard_session(mine.id, user_id="ann", delete_at=now() + SOON)
        with pytest.raises(NotFound):
            await store.whole_session(mine.id, user_id="ann")

    async def test_what_is_refused_waits_no_longer_and_may_be_asked_again(self, store: Store) -> None:
        mine = await active_session(store)
        with pytest.raises(InvalidTransition, match="not in idle"):
            await store.receive(records.command(mine), never)
        assert await store.inbox(mine.id) == []
        made, _ = await store.receive(records.command(mine), after)
        with pytest.raises(Fenced):
            await store.commit(mine.id, mine.epoch + 1, Batch(refused=made.key))
        assert await store.inbox(mine.id) == [made]
        await store.commit(mine.id, mine.epoch, Batch(refused=made.key, events=[say("no")]))
        assert await store.inbox(mine.id) == [] and await store.find_command(mine.id, made.key) is None
        again, waits = await store.receive(records.command(mine), after)
        assert waits and again.id != made.id

    async def test_only_the_owner_asks_something_of_a_session_that_is_there(self, store: Store) -> None:
        mine = await new_session(store)
        command = records.command(mine)
        for other in (dataclasses.replace(command, user_id="bob"), dataclasses.replace(command, session_id="ses_no")):
            with pytest.raises(NotFound):
                await store.receive(other, after)
        await store.receive(command, after)
        closed = await store.close_session(mine.id, user_id="ann")
        with pytest.raises(NotFound):
            await store.receive(dataclasses.replace(command, key="another"), after)
        assert await store.owed(now()) == []
        await store.delete_session(closed.id, user_id="ann")
        assert await store.inbox(mine.id) == []

    async def test_no_more_wait_than_may(self, store: Store) -> None:
        mine, other = await new_session(store), await new_session(store)
        for number in range(MAX_WAITING):
            await store.receive(records.command(mine, f"k{number}"), after)
        with pytest.raises(LimitReached, match="100 commands wait"):
            await store.receive(records.command(mine, "one more"), after)
        assert [each.key for each in await store.inbox(mine.id)] == [f"k{number}" for number in range(MAX_WAITING)]
        await store.receive(records.command(other, "one more"), after)

    async def test_no_more_bytes_wait_than_may(self, store: Store) -> None:
        mine, other = await new_session(store), await new_session(store)
        words = "\u00e9" * 150_000  # six bytes each, as JSON

        def said(session: SessionRecord, key: str) -> CommandRecord:
            return dataclasses.replace(records.command(session, key), body={"content": words})

        fits = MAX_WAITING_BYTES // (len(words) * 6)
        for number in range(fits):
            await store.receive(said(mine, f"k{number}"), after)
        with pytest.raises(LimitReached, match="more than 8,388,608 bytes"):
            await store.receive(said(mine, "one more"), after)
        await store.receive(records.command(mine, "a small one"), after)
        assert len(await store.inbox(mine.id)) == fits + 1
        await store.receive(said(other, "one more"), after)

    async def test_many_at_once_wait_in_one_order_and_each_saw_those_before(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        mine = await new_session(stores[0])
        commands = [records.command(mine, f"k{number % 8}") for number in range(16)]
        await asyncio.gather(*(stores[n % 2].receive(command, after) for n, command in enumerate(commands)))
        waiting = await stores[1].inbox(mine.id)
        keys: list[JsonValue] = [each.key for each in waiting]
        assert sorted(map(str, keys)) == sorted({command.key for command in commands})
        assert [each.result["after"] for each in waiting] == [keys[:number] for number in range(len(keys))]

    @pytest.mark.quick
    async def test_of_sessions_that_are_asked_at_once_so_many_wake_and_no_more(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        held = await active_session(stores[0])
        asleep = [await new_session(stores[0]) for _ in range(6)]
        asked = [records.command(session) for session in asleep]
        said = await asyncio.gather(
            *(stores[n % 2].receive(command, after, most_awake=4) for n, command in enumerate(asked)),
            return_exceptions=True,
        )
        refused = [n for n, each in enumerate(said) if isinstance(each, LimitReached)]
        assert len(refused) == 3 and (await stores[0].quota_used("ann")).awake == 4
        for n in refused:  # nothing is left of them
            assert await stores[1].inbox(asleep[n].id) == []
        awake = next(n for n in range(6) if n not in refused)
        again = await stores[1].receive(asked[awake], never, most_awake=1)
        assert again == said[awake], "a repeat wakes nobody"
        await stores[1].receive(records.command(asleep[awake], "more"), after, most_awake=1)
        await stores[1].receive(records.command(held), after, most_awake=1)  # who is awake is spoken to

    async def test_a_session_whose_process_fell_silent_counts_when_it_is_asked(self, store: Store) -> None:
        silent, held = await new_session(store), await active_session(store)
        await store.activate(silent.id, host="gone", lease_until=now() - SOON)
        with pytest.raises(LimitReached):
            await store.receive(records.command(silent), after, most_awake=1)
        with pytest.raises(LimitReached):
            await store.admit_session(silent.id, user_id="ann", most=1, until=now() + SOON)
        await store.release(held.id, held.epoch)
        await store.admit_session(silent.id, user_id="ann", most=1, until=now() + SOON)
        assert (await store.get_session(silent.id)).host == "gone", "its lease must run out for the next to be sought"
        await store.receive(records.command(silent), after, most_awake=1)
        assert (await store.quota_used("ann")).awake == 1

    async def test_whoever_is_asked_something_is_owed_a_process_and_counts_as_awake(self, store: Store) -> None:
        asked, held, quiet = await new_session(store), await active_session(store), await new_session(store)
        assert await store.owed(now()) == [] and (await store.quota_used("ann")).awake == 1
        for session in (asked, held):
            await store.receive(records.command(session), after)
        assert [(work.kind, work.id, work.user_id) for work in await store.owed(now())] == [
            ("session", asked.id, "ann")
        ]
        assert {work.id for work in await store.owed(now() + SOON * 2)} == {asked.id, held.id}
        assert len(await store.owed(now() + SOON * 2, limit=1)) == 1
        (waiting,) = await store.inbox(asked.id)
        counted = await store.census(now())
        assert (counted.unheld, counted.owing, counted.unheld_since) == (1, 0, waiting.created_at)
        assert (await store.quota_used("ann")).awake == 2
        await store.commit(held.id, held.epoch, Batch(refused="key-1", state=records.working(held.state)))
        assert {work.id for work in await store.owed(now() + SOON * 2)} == {asked.id, held.id}
        assert quiet.owes is None

    # --- under which name a session's process is sought

    @pytest.mark.quick
    async def test_who_does_not_answer_is_superseded_by_one_of_all_that_try(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        made = await new_session(stores[0])
        assert made.activation == 0
        late = now() + SOON * 2
        assert not await stores[0].supersede(made.id, 0, at=late), "nobody had it"
        old = await stores[0].activate(made.id, host="h", lease_until=now() + SOON, activation=0)
        assert not await stores[0].supersede(made.id, 0, at=now()), "its lease holds"
        tried = await asyncio.gather(*(stores[n % 2].supersede(made.id, 0, at=late) for n in range(4)))
        assert sorted(tried) == [False, False, False, True]
        row = await stores[0].get_session(made.id)
        assert (row.activation, row.epoch, row.host, row.lease_until) == (1, old.epoch + 1, None, None)
        with pytest.raises(Fenced):
            await stores[1].commit(made.id, old.epoch, Batch(events=[say("late")]))
        with pytest.raises(Fenced, match="its activation 1, and this process is 0"):
            await stores[1].activate(made.id, host="h", lease_until=now() + SOON, activation=0)
        new = await stores[1].activate(made.id, host="i", lease_until=now() + SOON, activation=1)
        assert (new.activation, new.epoch, new.host) == (1, old.epoch + 2, "i")
        await stores[1].release(made.id, new.epoch)
        assert not await stores[0].supersede(made.id, 1, at=late), "it was given up in good order"
        with pytest.raises(NotFound):
            await stores[0].activate("ses_no", host="h", lease_until=late, activation=0)

    @pytest.mark.quick
    async def test_a_place_that_is_kept_hides_neither_what_waits_nor_a_process_that_is_lost(self, store: Store) -> None:
        mine = await new_session(store)
        await store.admit_session(mine.id, user_id="ann", most=1, until=now() + SOON)
        assert (await store.quota_used("ann")).awake == 1
        await store.receive(records.command(mine), after)
        assert [work.id for work in await store.owed(now())] == [mine.id]
        assert (await store.quota_used("ann")).awake == 1
        lost = await new_session(store, "bob")
        before = now()
        held = await store.activate(lost.id, host="lost", lease_until=before)
        await store.admit_session(lost.id, user_id="bob", most=1, until=now() + SOON)
        assert await store.supersede(lost.id, held.activation, at=now())
