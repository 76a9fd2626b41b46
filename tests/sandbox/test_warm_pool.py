"""Containers that are made ahead: handed out once, kept at their number, and gone with whoever keeps them."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from koda_ray.actors.janitor import Chores, Janitor
from koda_ray.actors.reaper import Reaper
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.errors import SandboxNotFound, TemplateNotFound
from koda_ray.sandbox import service
from koda_ray.sandbox.base import SandboxInfo
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.service import SandboxService
from koda_ray.state.sql import SqlStore
from tests.sandbox.leftovers import DockerLeftovers

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("docker")]

Make = Callable[..., DockerProvider]


@pytest.fixture
async def make(
    boxes: Path, docker_address: str, docker_image: str, limits: ResourceLimits, docker_leftovers: DockerLeftovers
) -> AsyncIterator[Make]:
    """Makes providers that keep two, unless it is told something else."""
    made: list[DockerProvider] = []

    def provider(
        *, warm: int = 2, image: str = docker_image, limits: ResourceLimits = limits, runtime: str | None = None
    ) -> DockerProvider:
        made.append(
            DockerProvider(
                root=boxes,
                image=image,
                plan=ContainerPlan(limits=limits, runtime=runtime),
                warm=warm,
                address=docker_address,
            )
        )
        return made[-1]

    yield provider
    for one in made:
        for info in await one.list():
            await one.destroy(info.id)
        await one.close()


@asynccontextmanager
async def kept(provider: DockerProvider, count: int = 2) -> AsyncIterator[asyncio.Task[None]]:
    """Have a provider keep its number for the block, and begin once that is reached."""
    keeping = asyncio.create_task(SandboxService(provider).keep_warm())
    try:
        await until(lambda: has_warm(provider, count))
        yield keeping
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await done():
            await asyncio.sleep(0.02)


async def warm(provider: DockerProvider) -> list[SandboxInfo]:
    """What is ready, without what is still being made."""
    ready = {path.parent.name for path in provider._root.glob("sbx_*/sandbox.json") if '"warm"' in path.read_text()}
    return [info for info in await provider.list() if info.warm and info.id in ready]


async def has_warm(provider: DockerProvider, count: int) -> bool:
    return len(await warm(provider)) == count


async def take(provider: DockerProvider, leftovers: DockerLeftovers, name: str = "") -> DockerSandbox:
    return await provider.create(sandbox_id=name or leftovers.new_id(), session_id="ses_a", user_id="usr_a")


def container(sandbox: DockerSandbox) -> str:
    return sandbox.record.container


async def test_what_is_handed_out_is_a_sandbox_like_any_other(make: Make, docker_leftovers: DockerLeftovers) -> None:
    provider = make()
    async with kept(provider):
        ready = {f"koda-{info.id}" for info in await warm(provider)}
        box = await take(provider, docker_leftovers)
        assert container(box) in ready
        assert await box.read_file("public/logo.svg") == b"<svg/>\n"
        await box.write_files({"src/a.ts": b"1"})
        assert (await box.run(("cat", "src/a.ts"))).stdout == "1"
        info = next(info for info in await provider.list() if info.id == box.id)
        assert info == SandboxInfo(
            id=box.id, session_id="ses_a", user_id="usr_a", alive=True, provider_id=container(box)
        )
        other = make(warm=0)
        again = await other.connect(box.id)
        assert await again.read_file("src/a.ts") == b"1"
        with pytest.raises(SandboxNotFound):
            await other.connect(container(box).removeprefix("koda-"))  # the id that it was made under is nobody's
        await until(lambda: has_warm(provider, 2))  # another one takes its place
        await box.destroy()
        assert box.id not in [info.id for info in await provider.list()]


async def test_the_dev_server_of_one_answers(make: Make, docker_leftovers: DockerLeftovers) -> None:
    """Its socket lies where the folder is now, not where it was made."""
    provider = make(warm=1)
    async with kept(provider, 1):
        box = await take(provider, docker_leftovers)
        serve = "require('http').createServer((_, answer) => answer.end('page')).listen(5173, '127.0.0.1')"
        await box.write_files({"scripts/serve.cjs": serve.encode()})
        await box._relay.open()
        await box.start("server", ("node", "scripts/serve.cjs"))

        async def page() -> bool:
            reader, writer = await asyncio.open_unix_connection(box.record.preview_socket)
            try:
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                return b"page" in await reader.read()
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

        await until(page)
        await box.destroy()


@pytest.mark.full
async def test_each_is_handed_out_once(make: Make, docker_leftovers: DockerLeftovers) -> None:
    keeper, others = make(warm=3), [make(), make()]
    async with kept(keeper, 3):
        boxes = await asyncio.gather(*(take(one, docker_leftovers) for one in (keeper, *others) * 2))
        assert len({container(box) for box in boxes}) == len({box.id for box in boxes}) == 6
        for number, box in enumerate(boxes):
            await box.write_files({"src/mine.ts": str(number).encode()})
        assert [await box.read_file("src/mine.ts") for box in boxes] == [b"%d" % number for number in range(6)]
        for box in boxes:
            await box.destroy()


@pytest.mark.full
async def test_there_is_one_keeper_and_then_the_next(make: Make) -> None:
    first, second = make(), make()
    async with kept(first) as keeping:
        also = asyncio.create_task(second.keep_warm())
        try:
            ready = {info.id for info in await warm(first)}
            keeping.cancel()
            await asyncio.wait({keeping})
            await until(lambda: has_warm(second, 2))
            assert not ready & {info.id for info in await warm(second)}
        finally:
            also.cancel()
            await asyncio.wait({also})
    assert await first.list() == []


async def test_what_is_made_of_something_else_is_not_handed_out(
    make: Make, docker_leftovers: DockerLeftovers, limits: ResourceLimits
) -> None:
    keeper, other = make(warm=1), make(limits=replace(limits, pids=65))
    async with kept(keeper, 1):
        [info] = await warm(keeper)
        box = await take(other, docker_leftovers)
        assert container(box) == f"koda-{box.id}"
        assert await warm(keeper) == [info]
        await box.destroy()


@pytest.mark.full
async def test_who_names_an_image_gets_one_of_that_image(
    make: Make, docker_leftovers: DockerLeftovers, docker_image: str, docker_address: str
) -> None:
    """Of the same parts an image may have several names: what counts is what a container is made of."""
    other = "koda-test/other:1"
    api = docker.APIClient(base_url=docker_address, version="auto")
    context = io.BytesIO(f"FROM {docker_image}\nENV OTHER=1\n".encode())
    assert list(api.build(fileobj=context, tag=other, rm=True))
    api.tag(docker_image, "koda-test/same", "1")
    provider = make(warm=1)
    try:
        async with kept(provider, 1):
            [info] = await warm(provider)
            given = {"session_id": "", "user_id": "usr_a"}
            own = await provider.create(sandbox_id=docker_leftovers.new_id(), image=other, **given)
            assert container(own) == f"koda-{own.id}" and await warm(provider) == [info]
            same = await provider.create(sandbox_id=docker_leftovers.new_id(), image="koda-test/same:1", **given)
            assert container(same) == f"koda-{info.id}"
            for box in (own, same):
                await box.destroy()
    finally:
        for name in (other, "koda-test/same:1"):
            api.remove_image(name)
        api.close()


@pytest.mark.full
async def test_one_that_has_died_is_replaced(
    make: Make, docker_leftovers: DockerLeftovers, docker_address: str
) -> None:
    provider = make(warm=1)
    async with kept(provider, 1):
        [info] = await warm(provider)
        client = docker.APIClient(base_url=docker_address, version="auto")
        client.kill(f"koda-{info.id}")
        client.close()
        box = await take(provider, docker_leftovers)
        assert (await box.run(("echo", "hi"))).stdout == "hi\n"
        assert info.id not in [one.id for one in await provider.list()]
        await box.destroy()


async def test_without_an_image_it_waits_for_one(make: Make, docker_leftovers: DockerLeftovers) -> None:
    provider = make(image="koda-test/none:1")
    keeping = asyncio.create_task(provider.keep_warm())
    with pytest.raises(TemplateNotFound):
        await take(provider, docker_leftovers)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.wait({keeping})


@pytest.mark.full
async def test_the_reaper_leaves_what_is_kept(make: Make, docker_leftovers: DockerLeftovers) -> None:
    provider, other = make(), make(warm=0)
    async with kept(provider):
        ready = {info.id for info in await warm(provider)}
        assert await SandboxService(other).reap([]) == []
        assert {info.id for info in await warm(provider)} == ready


@pytest.mark.full
async def test_a_removal_that_comes_too_late_takes_nothing(make: Make, docker_leftovers: DockerLeftovers) -> None:
    """Whoever decided to remove what was ready does so under the id that it was made under."""
    provider, other = make(warm=1), make(warm=0)
    async with kept(provider, 1):
        [info] = await warm(provider)
        box = await take(provider, docker_leftovers)
        await other.destroy(info.id)
        assert (await box.run(("echo", "alive"))).stdout == "alive\n"
        await box.destroy()


async def test_a_removal_that_comes_first_is_final(make: Make, docker_leftovers: DockerLeftovers, boxes: Path) -> None:
    provider = make(warm=1)
    async with kept(provider, 1) as keeping:
        [info] = await warm(provider)
        folder = boxes / "docker" / info.id
        (folder / "sandbox.json").rename(folder / "removed.json")  # as its removal begins
        name = docker_leftovers.new_id()
        assert await provider._ahead._take(provider._maker(), info.id, name, "ses_a", "usr_a") is None
        assert info.id not in [one.id for one in await provider.list()]
        assert not folder.exists() and not (boxes / "docker" / name).exists()
        assert not keeping.done()


def _old_id() -> str:
    """An id that was made long ago, so that nothing of it is left alone for being young."""
    return f"sbx_{'0' * 12}7000{os.urandom(8).hex()}"


async def test_a_hand_out_that_broke_off_is_cleared_away(
    make: Make, docker_leftovers: DockerLeftovers, boxes: Path
) -> None:
    provider = make(warm=1)
    async with kept(provider, 1) as keeping:
        [info] = await warm(provider)
        keeping.cancel()  # it clears away what is its own, and this is not any more
        name, again = _old_id(), docker_leftovers.new_id()
        (boxes / "docker" / info.id).rename(boxes / "docker" / name)
        await asyncio.wait({keeping})
    assert [(one.id, one.alive, one.warm) for one in await provider.list()] == [(name, False, False)]
    with pytest.raises(SandboxNotFound):
        await provider.connect(name)
    assert await SandboxService(provider).reap([]) == [name]
    box = await take(provider, docker_leftovers, again)
    await box.destroy()


_KEEPER = """
import asyncio, json, sys
from pathlib import Path
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from tests.sandbox.conftest import small_limits

async def main():
    given = json.loads(sys.argv[1])
    provider = DockerProvider(
        root=Path(given["boxes"]), image=given["image"], plan=ContainerPlan(limits=small_limits()),
        address=given["address"], warm=2,
    )
    keeping = asyncio.create_task(provider.keep_warm()) if given["keep"] else None
    for name in given["take"]:
        await provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a")
        print(name, flush=True)
    while given["keep"]:
        if len([path for path in provider._root.glob("sbx_*/sandbox.json") if '"warm"' in path.read_text()]) == 2:
            print("ready", flush=True)
            break
        await asyncio.sleep(0.02)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def process(
    boxes: Path, docker_address: str, docker_image: str, make: Make
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts processes that keep or take."""
    started: list[subprocess.Popen[str]] = []

    def start(*, keep: bool = False, take: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        given = {"boxes": str(boxes), "address": docker_address, "image": docker_image, "keep": keep, "take": take}
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", _KEEPER, json.dumps(given)], cwd=REPO_ROOT, stdout=subprocess.PIPE, text=True
            )
        )
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()
        assert one.stdout is not None
        one.stdout.close()


@pytest.mark.full
async def test_what_another_process_keeps_is_handed_out_and_made_again(
    make: Make, process: Callable[..., subprocess.Popen[str]], docker_leftovers: DockerLeftovers
) -> None:
    keeper, provider = process(keep=True), make()
    assert keeper.stdout is not None and await asyncio.to_thread(keeper.stdout.readline) == "ready\n"
    ready = {f"koda-{info.id}" for info in await warm(provider)}
    box = await take(provider, docker_leftovers)
    assert container(box) in ready
    await until(lambda: has_warm(provider, 2))
    assert (await box.run(("echo", "mine"))).stdout == "mine\n"
    await box.destroy()


async def test_one_whose_record_is_lost_is_still_its_rows(
    make: Make, docker_leftovers: DockerLeftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "REAP_GRACE_S", 0.0)
    provider = make(warm=1)
    async with kept(provider, 1):
        box = await take(provider, docker_leftovers)
    name = box.provider_id
    await provider.close()
    shutil.rmtree(provider._root / box.id)  # all that says whose the container is; its labels know another id
    other = SandboxService(make(warm=0))
    assert await other.reap([box.id], live_provider_ids=[name]) == []
    assert [info.provider_id for info in await other.provider.list()] == [name]
    assert await other.reap([box.id]) == [name.removeprefix("koda-")]
    assert await other.provider.list() == []


@pytest.mark.full
async def test_a_killed_keeper_leaves_nothing_but_what_was_handed_out(
    make: Make, process: Callable[..., subprocess.Popen[str]], docker_leftovers: DockerLeftovers
) -> None:
    keeper, provider = process(keep=True), make()
    assert keeper.stdout is not None and await asyncio.to_thread(keeper.stdout.readline) == "ready\n"
    box = await take(provider, docker_leftovers)
    keeper.kill()
    keeper.wait()
    left = {info.id for info in await provider.list()} - {box.id}
    assert left
    assert set(await SandboxService(make(warm=0)).reap([])) == left
    assert [info.id for info in await provider.list()] == [box.id]
    assert (await box.run(("echo", "alive"))).stdout == "alive\n"
    await box.destroy()


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2])
@pytest.mark.full
async def test_whoever_takes_is_killed_at_any_instant(
    make: Make, process: Callable[..., subprocess.Popen[str]], docker_leftovers: DockerLeftovers, after_s: float
) -> None:
    provider = make()
    names = tuple(_old_id() for _ in range(20))
    async with kept(provider):
        taker = process(take=names)
        assert taker.stdout is not None
        await asyncio.to_thread(taker.stdout.readline)
        await asyncio.sleep(after_s)
        taker.kill()
        taker.wait()
        gone = await SandboxService(provider).reap([])
        assert names[0] in gone and set(gone) <= set(names)
        await until(lambda: has_warm(provider, 2))
        box = await take(provider, docker_leftovers)
        assert (await box.run(("echo", "still handed out"))).exit_code == 0
        await box.destroy()
    assert await provider.list() == []


@pytest.mark.full
async def test_the_janitor_keeps_them_and_clears_none_of_them_away(make: Make, tmp_path: Path) -> None:
    async def nobody(_: object) -> None:
        raise AssertionError("there is no session")

    provider = make()
    store = SqlStore(tmp_path / "koda.db")
    await store.open()
    settings = Settings(janitor_s=0.05)
    reaper = Reaper(store=store, sandboxes=provider, settings=settings)
    janitor = Janitor(store=store, reaper=reaper, settings=settings, chores=Chores(wake=nobody, finish=nobody))
    running = asyncio.create_task(janitor.run())
    try:
        await until(lambda: has_warm(provider, 2))
        assert await janitor.clear() == []
        assert await has_warm(provider, 2)
    finally:
        running.cancel()
        await asyncio.wait({running})
        await store.close()
    assert await provider.list() == []


@pytest.mark.needs("gvisor")
@pytest.mark.full
async def test_it_is_the_same_under_gvisor(make: Make, docker_leftovers: DockerLeftovers) -> None:
    provider = make(warm=1, runtime="runsc")
    async with kept(provider, 1):
        [info] = await warm(provider)
        box = await take(provider, docker_leftovers)
        assert container(box) == f"koda-{info.id}"
        assert (await box.run(("cat", "public/logo.svg"))).stdout == "<svg/>\n"
        await box.destroy()
