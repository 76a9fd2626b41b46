"""What many processes of one machine read at once fits into the room that they share."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from koda_ray.errors import QuotaExceeded, StorageError, Unavailable
from koda_ray.sandbox.reading_memory import SMALL_BYTES, ReadingMemory

MB = 1 << 20
TOTAL = 64 * MB


class Reader:
    """Another process that reads something large."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def says(self, word: str) -> None:
        assert self.process.stdout is not None
        assert (await asyncio.wait_for(self.process.stdout.readline(), 60)).decode().strip() == word

    async def lets_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        await self.says("over")
        assert await asyncio.wait_for(self.process.wait(), 60) == 0


@asynccontextmanager
async def reader(folder: Path, size: int, user: str | None = None) -> AsyncGenerator[Reader]:
    line = (
        sys.executable,
        "-m",
        "tests.sandbox.reader",
        str(folder),
        str(TOTAL),
        str(size),
        user or secrets.token_hex(4),
    )
    process = await asyncio.create_subprocess_exec(*line, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    try:
        yield Reader(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        assert process.stdin is not None
        process.stdin.close()


def places(folder: Path) -> int:
    """How many stand in the queue."""
    return len([*folder.rglob("*.place")])


async def until(folder: Path, count: int) -> None:
    async with asyncio.timeout(60):
        while places(folder) != count:
            await asyncio.sleep(0.01)


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReadingMemory]:
    yield ReadingMemory(tmp_path / "reading", total_bytes=TOTAL, user_id="ann", wait_s=0.3)
    assert places(tmp_path / "reading") == 0, "nobody's place is left"


async def test_processes_hold_no_more_together_than_there_is_and_take_turns(tmp_path: Path) -> None:
    folder = tmp_path / "reading"
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(reader(folder, 48 * MB))
        await first.says("held")
        large = await stack.enter_async_context(reader(folder, 40 * MB))
        await until(folder, 1)
        small = await stack.enter_async_context(reader(folder, 16 * MB))  # would fit, and came later
        await until(folder, 2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await small.says("held")
        await first.lets_go()
        await large.says("held")
        await small.says("held")  # beside it
        await large.lets_go()
        await small.lets_go()
        assert places(folder) == 0


async def test_a_user_has_half_of_it_and_who_comes_later_is_not_behind_all_of_theirs(tmp_path: Path) -> None:
    folder = tmp_path / "reading"
    async with AsyncExitStack() as stack:
        theirs = [await stack.enter_async_context(reader(folder, 16 * MB, "ann")) for _ in range(2)]
        for each in theirs:
            await each.says("held")
        waiting = await stack.enter_async_context(reader(folder, 16 * MB, "ann"))  # there is room, and not for them
        await until(folder, 1)
        bob = await stack.enter_async_context(reader(folder, 32 * MB, "bob"))
        await bob.says("held")
        carol = await stack.enter_async_context(reader(folder, 16 * MB, "carol"))
        await until(folder, 2)
        await theirs[0].lets_go()
        await carol.says("held")  # before the one that came before her, whose user has had a turn
        await until(folder, 1)
        await bob.lets_go()
        await waiting.says("held")
        for each in (theirs[1], waiting, carol):
            await each.lets_go()
        assert places(folder) == 0


async def test_a_project_of_more_than_half_is_read_alone_of_its_users(tmp_path: Path) -> None:
    folder = tmp_path / "reading"
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(reader(folder, 48 * MB, "ann"))
        await first.says("held")
        second = await stack.enter_async_context(reader(folder, 12 * MB, "ann"))
        await until(folder, 1)
        bob = await stack.enter_async_context(reader(folder, 16 * MB, "bob"))
        await bob.says("held")
        first.process.kill()
        await first.process.wait()
        await second.says("held")
        for each in (second, bob):
            await each.lets_go()
        assert places(folder) == 0


@pytest.mark.parametrize("killed", ["who holds it", "who waits for it"])
async def test_what_a_killed_process_held_or_waited_for_is_free(tmp_path: Path, killed: str) -> None:
    folder = tmp_path / "reading"
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(reader(folder, TOTAL))
        await first.says("held")
        second = await stack.enter_async_context(reader(folder, TOTAL))
        await until(folder, 1)
        third = await stack.enter_async_context(reader(folder, TOTAL))
        await until(folder, 2)
        gone = first if killed == "who holds it" else second
        gone.process.send_signal(signal.SIGKILL)
        await gone.process.wait()
        if gone is second:
            await first.lets_go()
        else:
            await second.says("held")
            await second.lets_go()
        await third.says("held")
        await third.lets_go()
        assert places(folder) == 0


async def test_who_finds_no_room_in_time_is_told_and_what_is_small_needs_none(
    memory: ReadingMemory, tmp_path: Path
) -> None:
    async def read(most: int) -> bytes:
        return bytes(min(most, SMALL_BYTES))

    async with reader(tmp_path / "reading", TOTAL) as other:
        await other.says("held")
        with pytest.raises(Unavailable, match=r"no room .* 12 MB .*KODA_READING_MB") as raised:
            async with memory.holding(12 * MB):
                pass
        assert raised.value.retryable
        async with memory.reading(read) as found:
            assert len(found) == SMALL_BYTES
        await other.lets_go()
    async with memory.holding(10 * TOTAL):  # more than there is: all of it
        with pytest.raises(Unavailable):
            async with memory.holding(1):
                pass
    async with memory.holding(TOTAL):
        pass


async def test_what_is_read_is_asked_for_again_once_there_is_room_and_not_for_ever(memory: ReadingMemory) -> None:
    asked: list[int] = []
    sizes = iter((20 * MB, 24 * MB, 24 * MB))

    async def read(most: int) -> int:
        asked.append(most)
        if (size := next(sizes)) > most:
            raise QuotaExceeded("larger", context={"sizeBytes": size})
        return size

    async with memory.reading(read) as found:
        assert found == 24 * MB
    assert asked == [SMALL_BYTES, 20 * MB, 24 * MB]

    async def grows(most: int) -> int:
        raise QuotaExceeded("larger", context={"sizeBytes": most + 1})

    with pytest.raises(QuotaExceeded):
        async with memory.reading(grows):
            pass

    async def too_many(most: int) -> int:
        raise QuotaExceeded("the project has more than 50000 files")

    with pytest.raises(QuotaExceeded, match="50000"):
        async with memory.reading(too_many):
            pass

    with pytest.raises(OSError, match="of the block"):
        async with memory.holding(MB):
            raise OSError("of the block")


async def test_a_folder_that_takes_no_files_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    with pytest.raises(StorageError, match="SANDBOX_PATH"):
        async with ReadingMemory(tmp_path / "note" / "reading", total_bytes=TOTAL, user_id="ann").holding(MB):
            pass
