"""What every Store must do about users, projects, keys and sessions, and the fence."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from koda_ray.errors import Conflict, Fenced, NotFound
from koda_ray.state.records import Batch, SessionLabel
from koda_ray.state.store import Store
from koda_ray.types import new_id, now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import SOON, active_session, new_session, say

__all__ = ["SessionConformance"]


class SessionConformance:
    async def test_users_and_projects_are_made_once(self, store: Store) -> None:
        for _ in range(2):
            await store.ensure_user("ann")
            await store.ensure_project("ann", "p", "My project")

    async def test_a_users_projects_come_in_pages_by_their_ids(self, store: Store) -> None:
        for user, project in (("ann", "toys"), ("bob", "cars"), ("ann", "films"), ("ann", "ann"), ("ann", "films")):
            await store.ensure_project(user, project, project)

        async def pages(user: str, limit: int) -> list[list[str]]:
            found: list[list[str]] = []
            while page := await store.projects(user, limit=limit, after=found[-1][-1] if found else None):
                found.append([each.id for each in page])
            return found

        assert await pages("ann", 2) == [["ann", "films"], ["toys"]]
        assert (await pages("bob", 50), await pages("eve", 50)) == ([["cars"]], [])

    async def test_each_user_has_projects_of_their_own_whatever_they_are_called(self, store: Store) -> None:
        await store.ensure_project("ann", "bob", "What a stranger calls theirs")
        for user in ("bob", "ann", "eve"):
            await store.ensure_project(user, "bob", "Mine")
            made = await records.new_session(store, user, project_id="bob")
            upload = dataclasses.replace(records.asset(user), project_id="bob")
            await store.add_asset(upload)
            assert (await store.get_session(made.id, user_id=user)).project_id == "bob"
            assert (await store.get_asset(upload.id, user_id=user)).project_id == "bob"
            (job,) = await store.create_jobs([dataclasses.replace(records.job(user), project_id="bob")])
            assert (await store.get_job(job.id, user_id=user)).project_id == "bob"

    async def test_that_there_were_keys_is_known_when_all_are_revoked(self, store: Store) -> None:
        assert [await store.has_api_keys(), await store.has_api_keys(revoked=True)] == [False, False]
        key = await store.create_api_key("ann")
        assert [await store.has_api_keys(), await store.has_api_keys(revoked=True)] == [True, True]
        await store.revoke_api_key(key)
        assert [await store.has_api_keys(), await store.has_api_keys(revoked=True)] == [False, True]

    async def test_api_keys_belong_to_users_until_revoked(self, store: Store) -> None:
        first, second = await store.create_api_key("ann", name="laptop"), await store.create_api_key("ann")
        other = await store.create_api_key("bob")
        assert len({first, second, other}) == 3
        assert [await store.user_for_key(key) for key in (first, second, other)] == ["ann", "ann", "bob"]
        assert await store.user_for_key("koda_nonsense") is None
        assert await store.user_for_key("") is None
        known = await store.api_keys()
        assert [(one.user_id, one.name, one.revoked_at) for one in known] == [
            ("ann", "laptop", None), ("ann", "", None), ("bob", "", None)
        ]  # fmt: skip
        assert len({one.id for one in known}) == 3 and first not in repr(known)
        assert await store.user_for_key(known[0].id) is None
        assert [await store.user_for_key_id(one.id) for one in known] == ["ann", "ann", "bob"]
        assert [await store.user_for_key_id(key) for key in (first, "", known[0].id[:-1])] == [None] * 3
        assert await store.revoke_api_key(first)
        assert not await store.revoke_api_key(first)
        assert not await store.revoke_api_key(known[0].id)
        assert [one.revoked_at is None for one in await store.api_keys()] == [False, True, True]
        assert [await store.user_for_key(key) for key in (first, second)] == [None, "ann"]
        assert [await store.user_for_key_id(one.id) for one in known] == [None, "ann", "bob"]

    # --- making and reading sessions

    @pytest.mark.quick
    async def test_a_new_session_has_a_row_and_its_first_event(self, store: Store) -> None:
        state = records.state(owes="analyze")
        made, created = await store.create_session(state, key="k", body={"prompt": "x"})
        assert created
        assert made.state == state
        assert (made.epoch, made.seq, made.owes, made.status) == (0, 1, "analyze", "active")
        assert made.lease_until is None
        assert await store.get_session(made.id) == await store.get_session(made.id, user_id="ann") == made
        (first,) = await store.events(made.id)
        assert (first.seq, first.type, first.channel, first.epoch) == (1, "state_change", "control", 0)
        assert first.data == {
            "phase": "idle",
            "owes": "analyze",
            "state": state.model_dump(mode="json", by_alias=True),
        }

    async def test_creating_again_with_the_same_key(self, store: Store) -> None:
        made, _ = await store.create_session(records.state(), key="k", body={"a": 1, "b": [2]})
        again, created = await store.create_session(records.state(), key="k", body={"b": [2], "a": 1})
        assert not created
        assert again.id == made.id
        with pytest.raises(Conflict, match="'k'"):
            await store.create_session(records.state(), key="k", body={"a": 2})
        _, created = await store.create_session(records.state("bob"), key="k", body={"a": 2})
        assert created
        assert len(await store.list_sessions("ann")) == 1

    @pytest.mark.quick
    async def test_many_creations_with_one_key_make_one_session(self, connect: Connect) -> None:
        stores = [await connect(), await connect()]
        made = await asyncio.gather(
            *(stores[index % 2].create_session(records.state(), key="k", body={}) for index in range(8))
        )
        assert sum(created for _, created in made) == 1
        assert len({record.id for record, _ in made}) == 1

    async def test_a_taken_id_is_refused(self, store: Store) -> None:
        mine = await new_session(store)
        with pytest.raises(Conflict):
            await store.create_session(mine.state, key="another", body={})

    async def test_only_the_owner_sees_a_session(self, store: Store) -> None:
        mine = await new_session(store)
        with pytest.raises(NotFound, match=mine.id):
            await store.get_session(mine.id, user_id="bob")
        with pytest.raises(NotFound):
            await store.get_session(new_id("ses"))
        assert await store.list_sessions("bob") == []

    async def test_sessions_are_listed_newest_first_in_pages(self, store: Store) -> None:
        made = [(await new_session(store)).id for _ in range(5)][::-1]
        await new_session(store, "bob")
        pages: list[list[str]] = []
        before: str | None = None
        while page := [record.id for record in await store.list_sessions("ann", limit=2, before=before)]:
            pages.append(page)
            before = page[-1]
        assert pages == [made[:2], made[2:4], made[4:]]

    @pytest.mark.quick
    async def test_sessions_names_are_read_by_their_ids(self, store: Store) -> None:
        made = [(await new_session(store)).id for _ in range(3)]
        other = (await new_session(store, "bob")).id
        await store.close_session(made[1], user_id="ann")
        wanted = [*made, other, "ses_none"]
        assert await store.session_names("ann", wanted) == {made[0]: records.WORDS, made[2]: records.WORDS}
        await store.label_session(made[0], user_id="ann", label=SessionLabel(title=records.NAME))
        await store.discard_session(made[2], user_id="ann", delete_at=now() + SOON)
        assert await store.session_names("ann", wanted) == {made[0]: records.NAME}
        assert await store.session_names("ann", []) == {}

    @pytest.mark.quick
    async def test_takes_are_found_by_their_group_whatever_came_after(self, store: Store) -> None:
        async def take(user: str, group: str) -> str:
            state = records.state(user).model_copy(update={"group": group})
            return (await store.create_session(state, key=state.session_id, body={}))[0].id

        first, second = await take("ann", "grp_1"), await take("ann", "grp_1")
        others = [await take("ann", "grp_2"), await take("bob", "grp_1"), (await new_session(store)).id]
        assert [row.id for row in await store.list_sessions("ann", group="grp_1")] == [second, first]
        assert [row.id for row in await store.list_sessions("ann", group="grp_1", limit=1)] == [second]
        assert [row.id for row in await store.list_sessions("ann", group="grp_1", before=second)] == [first]
        assert [row.id for row in await store.list_sessions("ann", group="grp_2")] == others[:1]
        assert await store.list_sessions("ann", group="grp_\0") == []
        await store.label_session(first, user_id="ann", label=SessionLabel(pinned=True))
        assert [row.id for row in await store.list_sessions("ann", group="grp_1", pinned=True)] == [first]

    async def test_a_label_changes_lists_and_nothing_else(self, store: Store) -> None:
        first, second = await new_session(store), await new_session(store)
        held = await store.activate(first.id, host="one", lease_until=now() + SOON)
        labelled = await store.label_session(first.id, user_id="ann", label=SessionLabel(title="Ball\0", pinned=True))
        assert labelled == dataclasses.replace(held, title="Ball\ufffd", pinned=True)
        await store.commit(held.id, held.epoch, Batch(events=[say("on")]))  # whoever holds it goes on
        assert [row.id for row in await store.list_sessions("ann", pinned=True)] == [first.id]
        assert [row.id for row in await store.list_sessions("ann", pinned=False)] == [second.id]
        assert len(await store.list_sessions("ann")) == 2
        again = await store.label_session(first.id, user_id="ann", label=SessionLabel(title="A ball"))
        assert (again.title, again.pinned, again.seq) == ("A ball", True, 2)
        bare = await store.label_session(first.id, user_id="ann", label=SessionLabel(title="", pinned=False))
        assert (bare.title, bare.pinned) == (None, False) and await store.get_session(first.id) == bare
        await store.close_session(second.id, user_id="ann")
        for session_id, user in ((first.id, "bob"), (second.id, "ann"), (new_id("ses"), "ann")):
            with pytest.raises(NotFound):
                await store.label_session(session_id, user_id=user, label=SessionLabel(pinned=True))

    # --- the fence

    async def test_activation_takes_the_session(self, store: Store) -> None:
        made = await new_session(store)
        lease = now() + SOON
        first = await store.activate(made.id, host="one", lease_until=lease)
        assert (first.epoch, first.host, first.status) == (1, "one", "active")
        assert first.lease_until == lease
        second = await store.activate(made.id, host="two", lease_until=lease)
        assert (second.epoch, second.host) == (2, "two")
        assert await store.get_session(made.id) == second
        with pytest.raises(NotFound):
            await store.activate(new_id("ses"), host="one", lease_until=lease)

    @pytest.mark.quick
    async def test_a_replaced_activation_writes_nothing(self, connect: Connect) -> None:
        old, new = await connect(), await connect()
        mine = await active_session(old)
        await new.activate(mine.id, host="two", lease_until=now() + SOON)
        before = await new.get_session(mine.id)
        batch = Batch(
            state=records.working(mine.state),
            status="closed",
            touch=True,
            events=[say("late")],
            command=records.command(mine),
            messages=[records.message(mine, 0)],
            tool_calls=[records.tool_call(mine)],
            approvals=[records.approval(mine)],
            beads=[records.bead(mine, "1", 0)],
            checkpoint=records.checkpoint(mine, 1),
            sandboxes=[records.sandbox(mine)],
            jobs=[records.job(of=mine)],
        )
        for epoch in (mine.epoch, 0, 99):
            with pytest.raises(Fenced, match="epoch 2"):
                await old.commit(mine.id, epoch, batch)
            with pytest.raises(Fenced, match="epoch 2"):
                await old.renew(mine.id, epoch, lease_until=now())
        await old.release(mine.id, mine.epoch)
        assert await new.get_session(mine.id) == before
        assert len(await new.events(mine.id)) == 1
        assert await new.find_command(mine.id, "key-1") is None
        assert await new.messages(mine.id) == await new.tool_calls(mine.id) == await new.approvals(mine.id) == []
        assert await new.beads(mine.id) == await new.sandboxes(session_id=mine.id) == []
        assert await new.latest_checkpoint(mine.id) is None
        assert await new.list_jobs(session_id=mine.id) == []

    async def test_a_commit_to_no_session_says_so(self, store: Store) -> None:
        with pytest.raises(NotFound):
            await store.commit(new_id("ses"), 1, Batch())

    async def test_release_gives_the_lease_up(self, store: Store) -> None:
        mine = await active_session(store)
        await store.release(mine.id, mine.epoch)
        after = await store.get_session(mine.id)
        assert (after.status, after.lease_until, after.host, after.epoch) == ("suspended", None, None, mine.epoch)
