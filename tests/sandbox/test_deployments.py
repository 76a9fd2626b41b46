"""Several databases, folders and processes beside each other: each sees and takes what is its own, and nothing else."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from koda_ray.errors import Conflict, NotFound
from koda_ray.sandbox import deployment, unfinished
from koda_ray.sandbox.disk import unmount
from koda_ray.types import now
from tests.sandbox.town import BusyMaker, Home, Town, until

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux")]

MANY = 2_000


@pytest.fixture
async def town(tmp_path: Path, template: Path, node_modules: Path) -> AsyncIterator[Town]:
    project = tmp_path / "notes"
    project.mkdir()
    for number in range(MANY):  # so that copying it takes a while
        (project / f"{number}.txt").write_text("text")
    town = Town(
        tmp_path,
        {
            "SANDBOX_PROVIDER": "local", "KODA_TEMPLATE_PATH": str(template),
            "KODA_NODE_MODULES_PATH": str(node_modules),
        },
    )  # fmt: skip
    yield town
    assert await town.close() == []


async def half_made(town: Town, home: Home, *, what: str, lease_s: float) -> BusyMaker:
    """Have a process begin to make something, and stop it half way."""
    folder = await home.folder()
    if what == "image":
        maker = town.maker(lease_s=lease_s, folder=str(town.folder / "notes"))
        pattern = "images/.img_*/1*.txt"
    else:
        await home.ann.create_image(town.folder / "notes")
        maker = town.maker(lease_s=lease_s, image="notes")
        pattern = "sbx_*/disk/project/1*.txt"

    async def has_begun() -> bool:
        return any(folder.glob(pattern))

    await until(has_begun)
    maker.signal(signal.SIGSTOP)
    return maker


async def test_two_databases_below_one_path_leave_each_other_alone(town: Town) -> None:
    one, two = await town.home("one.db"), await town.home("two.db")
    assert await one.store.deployment() != await two.store.deployment()
    first, second = await one.ann.create_sandbox(), await two.ann.create_sandbox()
    folder = await one.folder()
    half = folder / first.id.replace(first.id[4:16], "0" * 12)  # of 1970, with nothing in it that says whose it is
    half.mkdir()
    assert await two.reap() == []
    assert half.is_dir() and await one.states() == {first.id: "running"}
    assert await two.states() == {second.id: "running"}
    with pytest.raises(NotFound):
        await two.ann.connect(first.id)
    assert await one.reap() == [half.name]
    assert await one.states() == {first.id: "running"} and await two.states() == {second.id: "running"}


async def test_one_database_with_two_paths_says_where_a_sandbox_is(town: Town) -> None:
    here, there = await town.home(boxes="here"), await town.home(boxes="there")
    box = await there.ann.create_sandbox()
    assert box.host.endswith(f":{await there.folder()}")
    assert await here.states() == {box.id: "elsewhere"} and await here.reap() == []
    for refused in (here.ann.connect(box.id), here.ann.terminate(box.id), here.ann.launch(box.id, "one", "true")):
        with pytest.raises(Conflict, match=f"not here but in {box.host}"):
            await refused
    assert await there.states() == {box.id: "running"}
    image = await there.ann.create_image(town.folder / "notes")
    assert [one.state for one in await here.ann.images()] == ["elsewhere"]
    for call in (here.ann.create_sandbox("notes"), here.ann.remove_image("notes")):
        with pytest.raises(Conflict, match=f"not here but in {image.host}"):
            await call
    mine = await here.ann.create_image(town.folder / "notes")
    assert mine.id != image.id and (await here.ann.image("notes")).id == mine.id
    assert (await there.ann.image("notes")).id == image.id
    await (await there.providers.get()).destroy(box.id)
    await here.ann.terminate(box.id, forget=True)
    assert await there.states() == {}


async def test_another_machine_with_the_same_folder_leaves_it_alone_until_that_machine_is_gone(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(deployment, "_MACHINE", tmp_path / "first")
    home = await town.home()
    box = await home.ann.create_sandbox()
    monkeypatch.setattr(deployment, "_MACHINE", tmp_path / "second")
    assert await home.states() == {box.id: "elsewhere"}
    monkeypatch.setattr(deployment, "_MACHINE", tmp_path / "first")
    assert await home.states() == {box.id: "running"}
    await home.ann.terminate(box.id)


async def test_a_folder_that_was_emptied_has_taken_its_sandboxes_along(town: Town) -> None:
    home = await town.home()
    box = await home.ann.create_sandbox()
    await home.providers.close()
    folder = await home.folder()
    unmount(folder / box.id / "disk")
    shutil.rmtree(folder)
    assert await home.states() == {}
    assert (await home.store.get_sandbox(box.id, user_id="ann")).status == "destroyed"


@pytest.mark.parametrize("what", [pytest.param("image", marks=pytest.mark.full), "sandbox"])
async def test_what_somebody_is_still_making_is_left_alone(town: Town, what: str) -> None:
    home = await town.home()
    maker = await half_made(town, home, what=what, lease_s=60)
    assert await home.reap() == []
    if what == "image":
        assert [one.state for one in await home.ann.images()] == ["creating"]
    else:
        assert list((await home.states()).values()) == ["creating"]
    maker.signal(signal.SIGCONT)
    said = await maker.said()
    assert said[0] == "made"
    assert said[1] in {**await home.states(), **{one.record.id: one.state for one in await home.ann.images()}}


@pytest.mark.parametrize("what", ["image", "sandbox"])
@pytest.mark.full
async def test_what_a_killed_maker_left_is_found_by_its_lease(town: Town, what: str) -> None:
    home, elsewhere = await town.home(), await town.home(boxes="elsewhere")
    maker = await half_made(town, home, what=what, lease_s=0.5)
    maker.signal(signal.SIGKILL)
    await asyncio.sleep(0.6)
    assert await elsewhere.reap() == []  # it is not there that it was begun
    (gone,) = await home.reap()
    rows = [row.id for row in (*await home.store.images(), *await home.store.own_sandboxes())]
    assert gone not in rows and not list((await home.folder()).glob(f"**/*{gone}*"))


@pytest.mark.parametrize("what", ["image", "sandbox"])
@pytest.mark.full
async def test_a_maker_that_was_held_up_for_too_long_takes_back_what_it_made(town: Town, what: str) -> None:
    home = await town.home()
    maker = await half_made(town, home, what=what, lease_s=0.5)
    await asyncio.sleep(0.6)
    (gone,) = await home.reap()
    maker.signal(signal.SIGCONT)
    assert (await maker.said())[0] == "failed"
    assert not list((await home.folder()).glob(f"**/*{gone}*"))


async def test_a_lease_is_renewed_for_as_long_as_something_is_being_made(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished, "LEASE", timedelta(seconds=0.15))
    until: list[datetime] = []
    began = now()

    async def renew(lease: datetime) -> None:
        until.append(lease)

    async with unfinished.being_made(renew):
        async with asyncio.timeout(60):
            while len(until) < 3:
                await asyncio.sleep(0.01)
    assert until == sorted(until) and until[0] > began
    count = len(until)
    await asyncio.sleep(0.2)
    assert len(until) == count


async def test_an_image_whose_making_is_cancelled_leaves_nothing(town: Town) -> None:
    home = await town.home()
    making = asyncio.create_task(home.ann.create_image(town.folder / "notes"))
    folder = await home.folder()

    async def has_begun() -> bool:
        return any(folder.glob("images/.img_*/1*.txt"))

    await until(has_begun)
    making.cancel()
    await asyncio.wait({making})
    assert making.cancelled() and await home.store.images() == [] and list(folder.glob("images/*")) == []
