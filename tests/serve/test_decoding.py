"""Turns to decode: a few at a time, each of another user; and videos as files, no larger than one should fetch."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from koda_ray.errors import InvalidInput, LimitReached, NotFound
from koda_ray.serve import decoding
from koda_ray.serve.decoding import DecodingTurns, as_file
from koda_ray.state.storage import Storage


class FarObjects(Storage):
    """Objects that are no files here."""

    def local_path(self, key: str) -> None:
        return None


async def test_two_decode_at_once_and_never_two_of_one_user() -> None:
    turns = DecodingTurns("pictures", most=3, at_once=2)
    under_way: list[str] = []
    most: list[list[str]] = []

    async def decode(user: str) -> None:
        async with turns.place(user) as turn, turn:
            under_way.append(user)
            most.append(sorted(under_way))
            await asyncio.sleep(0)
            under_way.remove(user)

    await asyncio.gather(*(decode(user) for user in ("ann", "ann", "ann", "bob", "cyd")))
    assert max(map(len, most)) == 2 and all(len(set(users)) == len(users) for users in most), most
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(turns.place("ann"))
        waiting = [asyncio.create_task(decode("ann")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(LimitReached, match="3 pictures of yours are under way"):
            await decode("ann")
        await decode("bob")
    await asyncio.gather(*waiting)
    await decode("ann")


async def test_a_large_video_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = FarObjects(str(tmp_path)), Storage(str(tmp_path))
    await far.put("a", b"a video")
    async with as_file(far, "a") as path:
        assert path.read_bytes() == b"a video"
    monkeypatch.setattr(decoding, "_MOST_FETCHED_BYTES", 3)
    with pytest.raises(InvalidInput, match="download it") as caught:
        async with as_file(far, "a"):
            pass
    assert caught.value.code == "VIDEO_TOO_LARGE"
    async with as_file(near, "a") as path:
        assert path.read_bytes() == b"a video", "where it lies here, nothing is fetched"
    for storage in (far, near):
        with pytest.raises(NotFound):
            async with as_file(storage, "none"):
                pass
