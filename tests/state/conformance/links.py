"""What every Store must do about links to videos, and what is said with them."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from koda_ray.errors import LimitReached, NotFound
from koda_ray.state.records import SessionRecord
from koda_ray.state.rows import key_hash
from koda_ray.state.shares import ShareComment, ShareRecord
from koda_ray.state.store import Store
from koda_ray.types import new_id, now
from tests.state.records import WORDS, active_session

__all__ = ["LinkConformance", "link"]

MANY = 50


def new_token() -> str:
    return secrets.token_urlsafe(32)


def link(of: SessionRecord, token: str = "", *, until: datetime | None = None, job_id: str = "job_1") -> ShareRecord:
    return ShareRecord(
        id=new_id("shr"),
        session_id=of.id,
        user_id=of.user_id,
        token_hash=key_hash(token or new_token()),
        job_id=job_id,
        label=WORDS,
        commenting=True,
        expires_at=until,
        created_at=now(),
    )


def said(share: ShareRecord, text: str) -> ShareComment:
    return ShareComment(
        id=new_id("cmt"),
        session_id=share.session_id,
        share_id=share.id,
        user_id=share.user_id,
        name=WORDS,
        text=text,
        at_s=1.25,
        created_at=now(),
    )


class LinkConformance:
    async def test_a_link_is_found_by_its_token_until_it_ends(self, store: Store) -> None:
        mine, at = await active_session(store), now()
        first, second = new_token(), new_token()
        lasting = link(mine, first)
        ending = link(mine, second, until=at + timedelta(minutes=1), job_id="job_2")
        for each in (lasting, ending):
            await store.create_share(each, most=MANY)
        lasting, ending = (replace(each, label=WORDS.replace("\0", "\ufffd")) for each in (lasting, ending))
        assert await store.shares(mine.id) == [ending, lasting]
        assert await store.share(mine.id, lasting.id) == lasting
        assert await store.share_for(first, at=at) == lasting
        assert await store.share_for(second, at=at) == ending
        assert await store.shared_jobs("ann", at=at) == {"job_1", "job_2"}
        later = at + timedelta(minutes=1)
        assert await store.share_for(second, at=later) is None
        assert await store.share_for(first, at=later) == lasting
        assert await store.shared_jobs("ann", at=later) == {"job_1"}
        assert await store.shared_jobs("bob", at=at) == set()
        assert await store.share_for(key_hash(first), at=at) is None, "what is kept is no token"
        assert await store.share_for(new_token(), at=at) is None

    async def test_a_revoked_link_is_gone_with_what_was_said(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        token = new_token()
        first, second = link(mine, token), link(mine)
        for each in (first, second):
            await store.create_share(each, most=MANY)
            await store.add_comment(said(each, "nice"), most=9)
        with pytest.raises(NotFound):
            await store.remove_share(other.id, first.id)
        await store.remove_share(mine.id, first.id)
        assert await store.share_for(token, at=now()) is None
        assert [each.id for each in await store.shares(mine.id)] == [second.id]
        assert await store.share_comments(mine.id, first.id) == []
        assert len(await store.share_comments(mine.id, second.id)) == 1
        with pytest.raises(NotFound):
            await store.share(mine.id, first.id)
        with pytest.raises(NotFound):
            await store.remove_share(mine.id, first.id)
        with pytest.raises(NotFound):
            await store.add_comment(said(first, "late"), most=9)

    async def test_a_session_has_so_many_links_and_a_link_so_many_comments(self, store: Store) -> None:
        mine = await active_session(store)
        made = await asyncio.gather(*(store.create_share(link(mine), most=2) for _ in range(4)), return_exceptions=True)
        assert [type(each) for each in made if not isinstance(each, ShareRecord)] == [LimitReached] * 2
        share, _ = await store.shares(mine.id)
        told = await asyncio.gather(
            *(store.add_comment(said(share, f"{number}"), most=3) for number in range(5)), return_exceptions=True
        )
        assert [type(each) for each in told if not isinstance(each, ShareComment)] == [LimitReached] * 2
        found = await store.share_comments(mine.id, share.id)
        assert len(found) == 3 == (await store.share(mine.id, share.id)).commented
        assert found == sorted(found, key=lambda each: each.created_at) and found[0].at_s == 1.25
        with pytest.raises(NotFound):
            await store.create_share(replace(link(mine), user_id="bob"), most=MANY)

    async def test_what_is_there_under_an_id_is_what_was_made_first(self, store: Store) -> None:
        mine = await active_session(store)
        first = replace(link(mine, "first"), label="first")
        links = [first, *(replace(link(mine), id=first.id, label=f"{number}") for number in range(3))]
        made = await asyncio.gather(*(store.create_share(each, most=1) for each in links))
        (there,) = await store.shares(mine.id)
        assert all(each == there for each in made) and there.id == first.id
        texts = [said(there, f"{number}") for number in range(4)]
        told = await asyncio.gather(*(store.add_comment(replace(each, id="cmt_1"), most=1) for each in texts))
        (kept,) = await store.share_comments(mine.id, there.id)
        assert await store.share_comment(mine.id, "cmt_1") == kept
        assert await store.share_comment(mine.id, "cmt_2") is None
        assert await store.share_comment((await active_session(store)).id, "cmt_1") is None
        assert {each.text for each in told} == {kept.text} and (await store.share(mine.id, there.id)).commented == 1
        assert await store.add_comment(replace(texts[0], id="cmt_1"), most=1) == kept, "however many there are"
        with pytest.raises(LimitReached):
            await store.add_comment(texts[0], most=1)

    async def test_links_go_with_their_session_and_show_nothing_of_a_discarded_one(self, store: Store) -> None:
        mine, other = await active_session(store), await active_session(store)
        token = new_token()
        share, stays = link(mine, token), link(other)
        for each in (share, stays):
            await store.create_share(each, most=MANY)
            await store.add_comment(said(each, "nice"), most=9)
        await store.discard_session(mine.id, user_id="ann", delete_at=now() + timedelta(minutes=1))
        assert await store.share_for(token, at=now()) is None
        with pytest.raises(NotFound):
            await store.create_share(link(mine), most=MANY)
        await store.restore_session(mine.id, user_id="ann")
        assert await store.share_for(token, at=now()) is not None
        await store.close_session(mine.id, user_id="ann")
        assert await store.share_for(token, at=now()) is None
        await store.delete_session(mine.id, user_id="ann")
        assert await store.shares(mine.id) == [] == await store.share_comments(mine.id, share.id)
        assert len(await store.share_comments(other.id, stays.id)) == 1
