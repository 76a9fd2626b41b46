"""The same beside a Docker engine: two databases at one, one that somebody paused, images whose making is cut off."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from koda_ray.errors import Conflict, TemplateNotFound
from koda_ray.sandbox.limits import ResourceLimits
from tests.sandbox.leftovers import DockerLeftovers
from tests.sandbox.town import Home, Town, until

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("docker")]


@pytest.fixture
async def town(
    tmp_path: Path, docker_address: str, docker_image: str, limits: ResourceLimits, api: Any
) -> AsyncIterator[Town]:
    given = {
        "SANDBOX_PROVIDER": "docker", "DOCKER_HOST": docker_address, "SANDBOX_IMAGE": docker_image,
        "SANDBOX_MEMORY_MB": str(limits.memory_bytes >> 20),
    }  # fmt: skip
    left = DockerLeftovers(tmp_path / "boxes", docker_address)
    town = Town(tmp_path, given)
    yield town
    await town.close()
    assert left.find() == [] and tags(api) == []


@pytest.fixture
def api(docker_address: str) -> Iterator[Any]:
    import docker

    client = docker.APIClient(base_url=docker_address, version="auto")
    yield client
    client.close()


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A folder whose Dockerfile takes long."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN sleep 600\n")
    return folder


def tags(api: Any) -> list[str]:
    return [tag for image in api.images() for tag in image["RepoTags"] or () if tag.startswith("koda/image:")]


async def building(api: Any) -> None:
    async def runs() -> bool:
        return any("sleep 600" in found["Command"] for found in await asyncio.to_thread(api.containers))

    await until(runs)


async def nothing_builds(api: Any) -> None:
    async def none() -> bool:
        return await asyncio.to_thread(api.containers, all=True) == []

    await until(none)


async def test_two_databases_at_one_engine_leave_each_other_alone(town: Town, api: Any) -> None:
    one, two = await town.home("one.db"), await town.home("two.db")
    first = await one.ann.create_sandbox()
    assert await two.reap() == [] and await two.states() == {}
    assert await one.states() == {first.id: "running"}
    elsewhere = await town.home("one.db", boxes="elsewhere")
    assert await elsewhere.states() == {first.id: "elsewhere"} and await elsewhere.reap() == []
    api.pause(f"koda-{first.id}")
    assert await one.states() == {first.id: "paused"} and await one.reap() == []
    with pytest.raises(Conflict, match=f"docker unpause koda-{first.id}"):
        await one.ann.connect(first.id)
    api.unpause(f"koda-{first.id}")
    assert await one.states() == {first.id: "running"}


async def test_an_image_whose_maker_is_killed_is_cleared_away(town: Town, slow: Path, api: Any) -> None:
    home = await town.home()
    maker = town.maker(lease_s=1, folder=str(slow))
    await building(api)
    maker.signal(signal.SIGKILL)
    await nothing_builds(api)  # the engine gives up what nobody waits for
    (row,) = await home.store.images()
    tag = f"koda/image:{row.id.removeprefix('img_')}"
    for name in (tag, f"{tag}-base"):  # as far as it may have come
        api.tag(home.settings.sandbox_image, *name.split(":"))
    await asyncio.sleep(1)
    assert await (await town.home(boxes="elsewhere")).reap() == [] and len(tags(api)) == 2
    assert await home.reap() == [row.id]
    assert await home.store.images() == [] and tags(api) == []


async def test_an_image_whose_making_is_cancelled_ends_its_build(town: Town, slow: Path, api: Any) -> None:
    home = await town.home()
    making = asyncio.create_task(home.ann.create_image(slow))
    await building(api)
    making.cancel()
    await asyncio.wait({making}, timeout=60)
    assert making.cancelled() and await home.store.images() == []
    await nothing_builds(api)


async def test_an_image_of_another_base_or_agent_is_not_used_again(
    town: Town, tmp_path: Path, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, folder = await town.home(), tmp_path / "notes"
    folder.mkdir()
    (folder / "main.js").write_text("1")
    first = await home.ann.create_image(folder)
    assert await home.ann.create_image(folder) == first
    home = await town.home(SANDBOX_IMAGE=await asyncio.to_thread(rebased, home, api, tmp_path))
    second = await home.ann.create_image(folder)
    assert second.id != first.id and await home.ann.create_image(folder) == second
    assert (await home.ann.image("notes")).id == second.id
    monkeypatch.setattr("koda_ray.sandbox.image.agent_digest", lambda: "another")
    with pytest.raises(TemplateNotFound, match="koda image build"):
        await home.ann.create_image(folder)
    with pytest.raises(TemplateNotFound, match="create it again with `koda image create`"):
        await home.ann.create_sandbox("notes")


def rebased(home: Home, api: Any, folder: Path) -> str:
    """Make another image of all sandboxes, with the same agent."""
    (folder / "rebased").mkdir()
    (folder / "rebased" / "Dockerfile").write_text(f"FROM {home.settings.sandbox_image}\nENV REBASED=1\n")
    name = "koda-test/rebased:1"
    assert list(api.build(path=str(folder / "rebased"), tag=name, rm=True, network_mode="none"))
    return name
