"""What every Store must do with uploaded files, sandboxes, images and processes."""

from __future__ import annotations

import asyncio
import dataclasses
import re

import pytest

from koda_ray.errors import Conflict, NotFound
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.store import Store
from koda_ray.types import new_id, now
from tests.state import records
from tests.state.conformance.connecting import Connect
from tests.state.records import SOON, active_session, new_session

__all__ = ["SandboxRowConformance"]


class SandboxRowConformance:
    async def test_a_session_is_made_with_its_assets_or_not_at_all(self, store: Store) -> None:
        assets = [records.asset() for _ in range(3)]
        for asset in [*assets, assets[0]]:
            await store.add_asset(asset)
        foreign = records.asset("bob")
        await store.add_asset(foreign)
        assert await store.get_asset(assets[0].id, user_id="ann") == assets[0]
        with pytest.raises(NotFound):
            await store.get_asset(foreign.id, user_id="ann")
        ids = tuple(asset.id for asset in assets)
        made = await new_session(store, asset_ids=ids[:2])
        assert [asset.id for asset in await store.assets(user_id="ann", session_id=made.id)] == [*ids[:2]]
        assert await store.assets(user_id="bob", session_id=made.id) == []
        with pytest.raises(Conflict, match=ids[1]):
            await new_session(store, asset_ids=(ids[2], ids[1]))
        for missing in (foreign.id, "ast_none"):
            with pytest.raises(NotFound, match=missing):
                await new_session(store, asset_ids=(ids[2], missing))
        with pytest.raises(NotFound, match=ids[2]):
            await new_session(store, "bob", asset_ids=(ids[2],))
        assert (await store.get_asset(ids[2], user_id="ann")).session_id is None
        assert await store.list_sessions("bob") == []
        assert [row.id for row in await store.list_sessions("ann")] == [made.id]
        assert (await store.get_asset(ids[2], user_id="ann")).session_id is None

    async def test_takes_of_a_group_have_rows_of_their_own_of_the_same_files(self, store: Store) -> None:
        assets = [records.asset() for _ in range(2)]
        for asset in assets:
            await store.add_asset(asset)

        async def take(group: str | None, sources: list[str], user: str = "ann") -> SessionRecord:
            copies = {new_id("ast"): source for source in sources}
            state = records.state(user, group=group, asset_ids=tuple(copies))
            return (await store.create_session(state, key=new_id("cmd"), body={}, copies=copies))[0]

        ids = [asset.id for asset in assets]
        first = await new_session(store, group="grp_1", asset_ids=tuple(ids))
        second = await take("grp_1", ids)
        copied = await store.assets(user_id="ann", session_id=second.id)
        assert [each.id for each in copied] == list(second.state.asset_ids)
        assert not {*ids} & {*second.state.asset_ids}
        assert [dataclasses.replace(each, id="", session_id=None) for each in copied] == [
            dataclasses.replace(each, id="", session_id=None) for each in assets
        ]
        assert await store.named_keys(first.id) == {asset.key: True for asset in assets}
        for group in ("grp_2", None):
            with pytest.raises(Conflict, match=ids[0]):
                await take(group, ids)
        for user, sources in (("ann", [ids[0], "ast_none"]), ("bob", ids)):
            with pytest.raises(NotFound, match=sources[-1] if user == "ann" else ids[0]):
                await take("grp_1", sources, user)
        assert {row.id for row in await store.list_sessions("ann")} == {first.id, second.id}
        loose = records.asset()
        await store.add_asset(loose)
        third = await take(None, [loose.id])
        assert [each.key for each in await store.assets(user_id="ann", session_id=third.id)] == [loose.key]
        assert (await store.get_asset(loose.id, user_id="ann")).session_id is None

    async def test_sandboxes_live_until_somebody_says_otherwise(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        first, second = records.sandbox(mine), records.sandbox(other)
        await store.commit(mine.id, 1, Batch(sandboxes=[first]))
        await store.commit(other.id, 1, Batch(sandboxes=[second]))
        ready = dataclasses.replace(first, status="ready", provider_id="pid-1")
        await store.commit(mine.id, 1, Batch(sandboxes=[ready]))
        assert await store.sandboxes() == [ready, second]
        await store.sandbox_destroyed(first.id)
        await store.sandbox_destroyed("sbx_none")
        assert await store.sandboxes() == [second]
        assert await store.sandboxes(session_id=mine.id) == []
        gone = await store.sandboxes(session_id=mine.id, live=False)
        assert gone == [dataclasses.replace(ready, status="destroyed")]

    async def test_a_sandbox_without_a_session_is_its_users(self, store: Store) -> None:
        session = await active_session(store)
        of_session = records.sandbox(session)
        await store.commit(session.id, 1, Batch(sandboxes=[of_session]))
        first, second, foreign = records.own_sandbox(), records.own_sandbox(), records.own_sandbox("bob")
        for one in (first, second, foreign):
            await store.put_sandbox(one)
        ready = dataclasses.replace(first, status="ready", provider_id="pid-1")
        await store.put_sandbox(ready)
        assert await store.own_sandboxes(user_id="ann") == [ready, second]
        assert await store.own_sandboxes() == [ready, second, foreign]
        assert await store.sandboxes() == [of_session, ready, second, foreign]
        assert await store.get_sandbox(first.id, user_id="ann") == ready
        for sandbox_id, user_id in ((first.id, "bob"), (of_session.id, "ann"), ("sbx_none", "ann")):
            with pytest.raises(NotFound, match=sandbox_id):
                await store.get_sandbox(sandbox_id, user_id=user_id)
        await store.sandbox_destroyed(first.id, why="its memory was over")
        await store.sandbox_destroyed(first.id, why="it is not there")  # who comes later knows less
        gone = dataclasses.replace(ready, status="destroyed", ended="its memory was over")
        assert await store.own_sandboxes(user_id="ann") == [second]
        assert await store.own_sandboxes(user_id="ann", live=False) == [gone, second]
        assert await store.get_sandbox(first.id, user_id="ann") == gone
        await store.close_session(session.id, user_id="ann")
        await store.delete_session(session.id, user_id="ann")
        assert await store.sandboxes() == [second, foreign]

    async def test_a_database_has_one_name_whoever_asks_first(self, store: Store) -> None:
        names = set(await asyncio.gather(*(store.deployment() for _ in range(8))))
        (name,) = names
        assert re.fullmatch(r"dep_[0-9a-f]{12}", name)
        await store.close()
        await store.open()
        assert await store.deployment() == name

    async def test_what_has_ended_is_not_begun_again_by_whoever_was_slow(self, store: Store) -> None:
        box, image = records.own_sandbox(), records.image()
        assert await store.put_sandbox(box) and await store.put_image(image)
        assert await store.put_sandbox(dataclasses.replace(box, expires_at=now() + SOON))
        await store.sandbox_destroyed(box.id)
        assert await store.put_image(dataclasses.replace(image, status="removed"))
        assert not await store.put_sandbox(dataclasses.replace(box, status="ready"))
        assert not await store.put_image(dataclasses.replace(image, status="ready"))
        assert await store.own_sandboxes() == await store.images() == []

    async def test_of_many_made_at_once_no_more_begin_than_may_be(self, store: Store, connect: Connect) -> None:
        doors = store, await connect()
        session = await active_session(store)
        await store.commit(session.id, 1, Batch(sandboxes=[records.sandbox(session)]))  # a session's counts for itself
        boxes, images = [records.own_sandbox() for _ in range(10)], [records.image() for _ in range(10)]
        elsewhere, foreign = dataclasses.replace(records.own_sandbox(), place="89ab.cdef"), records.own_sandbox("bob")
        asked = enumerate((*boxes, elsewhere, foreign))
        added = await asyncio.gather(*(doors[turn % 2].add_sandbox(box, most=3) for turn, box in asked))
        made = [box.id for box, made in zip(boxes, added, strict=False) if made]
        assert len(made) == 3 and added[-2:] == [True, True]
        assert {row.id for row in await store.own_sandboxes()} == {*made, elsewhere.id, foreign.id}
        begun = await asyncio.gather(*(doors[turn % 2].add_image(one, most=3) for turn, one in enumerate(images)))
        assert sum(begun) == 3
        assert len(await store.images()) == 3
        await store.sandbox_destroyed(made[0])
        first, *_ = await store.images()
        await store.put_image(dataclasses.replace(first, status="removed"))
        again = [records.own_sandbox(), records.own_sandbox()], [records.image(), records.image()]
        assert [await store.add_sandbox(box, most=3) for box in again[0]] == [True, False]
        assert [await store.add_image(image, most=3) for image in again[1]] == [True, False]
        assert await store.get_image(again[1][0].id, user_id="ann") == again[1][0]

    async def test_an_image_is_its_users_until_it_is_removed(self, store: Store) -> None:
        first, second, foreign = records.image(), records.image(), records.image("bob")
        for one in (first, second, foreign):
            await store.put_image(one)
        ready = dataclasses.replace(first, status="ready", provider_id="/images/one")
        await store.put_image(dataclasses.replace(ready, user_id="bob"))  # whose it is stays
        assert await store.images(user_id="ann") == [ready, second]
        assert await store.images() == [ready, second, foreign]
        assert await store.get_image(first.id, user_id="ann") == ready
        await store.put_image(dataclasses.replace(second, status="removed"))
        assert await store.images(user_id="ann") == [ready]
        for image_id, user_id in ((first.id, "bob"), (second.id, "ann"), ("img_none", "ann")):
            with pytest.raises(NotFound, match=image_id):
                await store.get_image(image_id, user_id=user_id)

    async def test_a_process_has_one_row_in_its_sandbox(self, store: Store) -> None:
        mine, other = records.own_sandbox(), records.own_sandbox()
        for box in (mine, other):
            await store.put_sandbox(box)
        server, shell, elsewhere = records.process(mine), records.process(mine, "a-shell"), records.process(other)
        for one in (server, shell, elsewhere):
            await store.put_process(one)
        assert await store.sandbox_processes(mine.id) == [shell, server]
        again = dataclasses.replace(server, command="npm run dev", run="1e" * 16, ended_at=now(), exit_code=7)
        await store.put_process(again)
        assert await store.sandbox_processes(mine.id) == [shell, again]
        ended = dataclasses.replace(shell, ended_at=now(), exit_code=3)
        await store.end_process(ended)
        await store.end_process(dataclasses.replace(server, ended_at=now()))  # of a run that was replaced
        assert await store.sandbox_processes(mine.id) == [ended, again]
        await store.put_process(shell)
        for _ in range(2):
            await store.forget_process(mine.id, "server")
        await store.forget_process("sbx_none", "server")
        await store.end_process(again)  # seen before it was forgotten
        assert await store.sandbox_processes(mine.id) == [shell]
        await store.sandbox_destroyed(mine.id)
        assert await store.sandbox_processes(mine.id) == []
        assert not await store.put_process(server)  # whoever launched it was slower than whoever ended all of it
        assert not await store.put_process(records.process(records.own_sandbox()))
        assert await store.sandbox_processes(mine.id) == []
        assert await store.sandbox_processes(other.id) == [elsewhere]
