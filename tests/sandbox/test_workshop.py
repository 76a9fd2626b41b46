"""A person's own images, sandboxes and processes: rows and what is there agree, whatever went away meanwhile."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from koda_ray.actors.janitor import Chores, Janitor
from koda_ray.actors.reaper import Reaper
from koda_ray.config import Settings
from koda_ray.errors import CommandTimeout, Conflict, InvalidInput, NotFound, QuotaExceeded, SandboxError
from koda_ray.sandbox import service
from koda_ray.sandbox.ignored import Entry, Ignored
from koda_ray.sandbox.images import source_at
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.workshop import Workshop
from koda_ray.state.boxes import ImageRecord, SandboxRecord
from koda_ray.state.json_store import JSONStore
from koda_ray.types import now
from tests.sandbox.leftovers import Leftovers
from tests.sandbox.terminals import until
from tests.sandbox.workshops import WorkshopConformance, World

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder as people have them: links, modes, a package that somebody installed."""
    root = tmp_path / "notes"
    (root / "node_modules" / "left-pad").mkdir(parents=True)
    (root / "node_modules" / "left-pad" / "index.js").write_text("module.exports = (text) => ` ${text}`;\n")
    (root / "node_modules" / ".bin").mkdir()
    (root / "node_modules" / ".bin" / "pad").symlink_to("../left-pad/index.js")
    (root / "main.js").write_text("console.log(require('left-pad')('hello'));\n")
    (root / "start").write_text("#!/bin/sh\nexec node main.js\n")
    (root / "start").chmod(0o755)
    (root / "out-of-it").symlink_to("/etc/passwd")
    (root / "nöté").mkdir()
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture
def settings(boxes: Path, template: Path, node_modules: Path) -> Settings:
    return Settings.model_validate(
        {
            "SANDBOX_PATH": boxes, "SANDBOX_PROVIDER": "local", "KODA_TEMPLATE_PATH": template,
            "KODA_NODE_MODULES_PATH": node_modules,
        }
    )  # fmt: skip


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[JSONStore]:
    store = JSONStore(tmp_path / "store")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def providers(settings: Settings, store: JSONStore) -> AsyncIterator[Providers]:
    providers = Providers(settings, store)
    yield providers
    await providers.close()


@pytest.fixture
async def ann(store: JSONStore, providers: Providers, boxes: Path) -> AsyncIterator[Workshop]:
    """Ann's; after the test nothing of hers may be left."""
    workshop = Workshop(store, providers, user_id="ann")
    left = Leftovers(boxes)
    yield workshop
    for one in await workshop.sandboxes(everything=True):
        left.note(one.record.id)
        await workshop.terminate(one.record.id)
    for image in await workshop.images():
        await workshop.remove_image(image.record.id)
    assert left.find() == []


class _World:
    """What lies in the folder, as its owner sees it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def sandboxes(self) -> list[str]:
        return [path.name for path in self._settings.sandbox_path.glob("dep_*/sbx_*")]

    async def end(self, sandbox_id: str) -> None:
        (found,) = self._settings.sandbox_path.glob(f"dep_*/{sandbox_id}")
        await LocalProvider.of(self._settings, deployment=found.parent.name).destroy(sandbox_id)

    def forget_image(self, provider_id: str) -> None:
        shutil.rmtree(provider_id)


class TestLocalWorkshop(WorkshopConformance):
    """As this machine and user allow it."""

    @pytest.fixture
    def world(self, settings: Settings) -> World:
        return _World(settings)


async def test_a_sandbox_changes_neither_its_image_nor_its_neighbours(ann: Workshop, project: Path) -> None:
    await ann.create_image(project)
    first, second = await ann.create_sandbox("notes"), await ann.create_sandbox("notes")
    async for _ in ann.launch_and_follow(first.id, "spoil", "echo spoilt >main.js; rm -rf node_modules"):
        pass
    assert (await (await ann.connect(first.id)).read_file("main.js")) == b"spoilt\n"
    assert (await (await ann.connect(second.id)).read_file("main.js")).startswith(b"console.log")
    third = await ann.create_sandbox("notes")
    assert (await (await ann.connect(third.id)).read_file("main.js")).startswith(b"console.log")
    assert (project / "main.js").read_text().startswith("console.log")


async def test_the_same_folder_is_copied_once_unless_it_shall_be_clean(ann: Workshop, project: Path) -> None:
    first = await ann.create_image(project)
    assert await ann.create_image(project) == first
    for path in (project / "main.js", project / "nöté"):
        os.utime(path, (1, 1))
    assert await ann.create_image(project) == first  # what is in it counts, not when it was written
    clean = await ann.create_image(project, clean=True)
    assert clean.id != first.id
    (project / "main.js").write_text("console.log('other');\n")
    changed = await ann.create_image(project)
    assert changed.id not in (first.id, clean.id)
    assert (await ann.image("notes")) == changed  # a name leads to the newest
    await ann.remove_image(changed.id)
    assert (await ann.image("notes")) == clean
    assert [one.record.id for one in await ann.images()] == [first.id, clean.id]
    assert {one.state for one in await ann.images()} == {"ready"}


async def test_a_process_that_nobody_saw_end_is_lost(ann: Workshop, project: Path, providers: Providers) -> None:
    await ann.create_image(project)
    box = await ann.create_sandbox("notes")
    await ann.launch(box.id, "one", "sleep 1000")
    await (await ann.connect(box.id)).run(["sh", "-c", 'tmux -S "$HOME/.terminals/tmux.sock" kill-server'])

    async def is_lost() -> bool:
        return [one.state for one in await ann.processes(box.id, everything=True)] == ["lost"]

    await until(is_lost)
    await ann.launch(box.id, "one", "sleep 1000")
    assert [one.state for one in await ann.processes()] == ["running"]


async def test_processes_outlive_whoever_launched_them(ann: Workshop, providers: Providers, project: Path) -> None:
    await ann.create_image(project)
    box = await ann.create_sandbox("notes")
    await ann.launch(box.id, "one", "sleep 0.2; echo later; sleep 1000")
    await (await providers.get()).close()
    (running,) = await ann.processes()
    assert (running.record.name, running.state) == ("one", "running")

    async def has_said() -> bool:
        return await ann.output(box.id, "one") == b"later\r\n"

    await until(has_said)
    await ann.kill(box.id, "one")
    with pytest.raises(NotFound, match="start one: koda process launch sbx_"):
        await ann.kill(box.id, "one")


async def test_a_command_has_the_network_where_its_sandbox_has_it(ann: Workshop) -> None:
    for network in (True, False):
        box = await ann.create_sandbox(network=network)
        ran = await ann.run(box.id, "env; exit 3")
        assert ran.exit_code == 3 and ("HTTPS_PROXY=" in ran.stdout) == network, ran
    with pytest.raises(CommandTimeout):
        await ann.run(box.id, "sleep 600", timeout_s=0.2)
    for command, timeout_s in ((" ", 1.0), ("true", 0.0), ("true", 3601.0), ("true", float("nan"))):
        with pytest.raises(InvalidInput):
            await ann.run(box.id, command, timeout_s=timeout_s)


async def test_others_are_not_found(ann: Workshop, project: Path, store: JSONStore, providers: Providers) -> None:
    image = await ann.create_image(project)
    box = await ann.create_sandbox("notes")
    await ann.launch(box.id, "one", "sleep 1000")
    bob = Workshop(store, providers, user_id="bob")
    assert await bob.images() == [] and await bob.sandboxes() == [] and await bob.processes() == []
    for call in (
        bob.create_sandbox(image.id), bob.remove_image("notes"), bob.connect(box.id), bob.terminate(box.id),
        bob.launch(box.id, "two", "true"), bob.kill(box.id, "one"), bob.output(box.id, "one"), bob.processes(box.id),
        bob.attach(box.id, "one", rows=24, columns=80), anext(bob.follow(box.id, "one")), bob.run(box.id, "true"),
    ):  # fmt: skip
        with pytest.raises(NotFound):
            await call
    assert [one.state for one in await ann.processes()] == ["running"]


async def test_what_cannot_be_is_refused_with_the_way_out(
    ann: Workshop, project: Path, tmp_path: Path, boxes: Path
) -> None:
    (project / "Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(InvalidInput, match="neither a folder nor a Dockerfile"):
        await ann.create_image(tmp_path / "nothing")
    with pytest.raises(InvalidInput, match="copies of folders; name the folder"):
        await ann.create_image(project / "Dockerfile")
    with pytest.raises(InvalidInput, match="holds SANDBOX_PATH itself"):
        await ann.create_image(tmp_path)
    with pytest.raises(InvalidInput, match="'podman' is no provider"):
        await ann.create_image(project, provider="podman")
    with pytest.raises(InvalidInput, match="cannot name an image"):
        await ann.create_image(project, name="a/b")
    with pytest.raises(NotFound, match="there is no image 'nots'; there are none yet: make one of a folder"):
        await ann.create_sandbox("nots")
    assert await ann.images() == []
    await ann.create_image(project)
    with pytest.raises(InvalidInput, match="one of the provider 'local', not 'docker'"):
        await ann.create_sandbox("notes", provider="docker")
    box = await ann.create_sandbox("notes")
    await ann.launch(box.id, "one", "sleep 1000")
    with pytest.raises(Conflict, match="kill it first"):
        await ann.launch(box.id, "one", "true")


async def test_of_many_who_ask_at_once_no_more_get_one_than_may(
    ann: Workshop, project: Path, store: JSONStore, settings: Settings
) -> None:
    few = Providers(settings.model_copy(update={"sandbox_per_user": 3, "sandbox_images_per_user": 2}), store)
    many = Workshop(store, few, user_id="ann")
    asked = await asyncio.gather(*(many.create_sandbox() for _ in range(10)), return_exceptions=True)
    made = [one.id for one in asked if isinstance(one, SandboxRecord)]
    refused = [one for one in asked if isinstance(one, QuotaExceeded)]
    assert (len(made), len(refused)) == (3, 7), asked
    assert {one.record.id for one in await many.sandboxes()} == set(made)
    assert {info.id for info in await (await few.get()).list()} == set(made)
    await (await few.get()).destroy(made[0])  # one that went by itself takes no room
    again = await many.create_sandbox()
    with pytest.raises(QuotaExceeded, match=r"3 sandboxes in .* terminate one .* or raise SANDBOX_PER_USER"):
        await many.create_sandbox()
    asked = await asyncio.gather(*(many.create_image(project, clean=True) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(one, ImageRecord) for one in asked) == 2, asked
    with pytest.raises(QuotaExceeded, match=r"2 images in .* remove one .* or raise SANDBOX_IMAGES_PER_USER"):
        await many.create_image(project, clean=True)
    assert again.provider_id == str(settings.sandbox_path / await store.deployment() / again.id)
    await few.close()


async def test_a_folder_that_changes_while_it_is_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text("1")
    listed, turns = Ignored.entries, count()

    def changing(self: Ignored, folder: Path) -> Iterator[Entry]:
        turn = next(turns)
        for found in listed(self, folder):
            if turn > 0:
                found.path.unlink()
            yield found

    monkeypatch.setattr(Ignored, "entries", changing)
    with pytest.raises(SandboxError, match=f"{tmp_path} could not be packed.*one.*try again") as caught:
        source_at(tmp_path)
    assert caught.value.code == "IMAGE_FAILED"


async def test_an_image_larger_than_the_disk_is_refused(
    ann: Workshop, store: JSONStore, tmp_path: Path, settings: Settings
) -> None:
    if not Path("/proc/self/mounts").exists() or os.geteuid() != 0:
        pytest.skip("only a mounted disk has a hard limit")
    large = tmp_path / "large"
    large.mkdir()
    (large / "file").write_bytes(b"x" * 3_000_000)
    less = settings.model_copy(update={"sandbox_disk_mb": 2})
    small = Workshop(store, Providers(less, store), user_id="ann")
    await small.create_image(large)
    with pytest.raises(QuotaExceeded, match="raise SANDBOX_DISK_MB"):
        await small.create_sandbox("large")
    assert await small.sandboxes() == []


async def test_two_who_make_the_same_name_at_once_get_one_process(ann: Workshop, project: Path) -> None:
    await ann.create_image(project)
    box = await ann.create_sandbox("notes")
    launches = [ann.launch(box.id, "one", f"echo {number}; sleep 1000") for number in range(3)]
    results = await asyncio.gather(*launches, return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in results) == 2, results
    assert len(await ann.processes()) == 1


async def test_one_whose_time_is_over_is_ended_by_whoever_finds_it(
    ann: Workshop, store: JSONStore, providers: Providers, settings: Settings
) -> None:
    short, long, other = [await ann.create_sandbox(lifetime_s=60) for _ in range(3)]
    assert short.expires_at is not None and timedelta(0) < short.expires_at - now() <= timedelta(seconds=60)
    later = await ann.extend(long.id, 7200)
    assert later.expires_at is not None and later.expires_at > now() + timedelta(seconds=7100)
    assert await ann.extend(long.id, 60) == later  # never earlier
    unasked = await ann.create_sandbox()
    assert unasked.expires_at is not None and unasked.expires_at > unasked.created_at + timedelta(days=1)
    for wrong in (0, -5, 86_401, float("nan")):
        for refused in (ann.extend(long.id, wrong), ann.create_sandbox(lifetime_s=wrong)):
            with pytest.raises(InvalidInput, match="cannot be told to live"):
                await refused
    for row in (short, other):
        await store.put_sandbox(replace(row, expires_at=now() - timedelta(seconds=1)))
    with pytest.raises(NotFound, match="its time was over") as caught:
        await ann.launch(short.id, "main", "true")
    assert caught.value.code == "SANDBOX_NOT_FOUND"
    with pytest.raises(NotFound, match="its time was over"):
        await ann.extend(short.id, 60)
    said = {one.record.id: one.record.ended for one in await ann.sandboxes(everything=True) if one.state == "gone"}
    assert set(said) == {short.id, other.id} and all("its time was over at" in why for why in said.values())
    assert {one.record.id: one.state for one in await ann.sandboxes()} == {long.id: "running", unasked.id: "running"}
    assert {info.id for info in await (await providers.get()).list()} == {long.id, unasked.id}
    assert {row.id for row in await store.own_sandboxes()} == {long.id, unasked.id}


async def test_the_janitor_ends_those_whose_time_is_over_and_no_others(
    ann: Workshop, store: JSONStore, providers: Providers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: object) -> None:
        raise AssertionError("nothing is to be woken")

    monkeypatch.setattr(service, "REAP_GRACE_S", 0.0)
    over, left = await ann.create_sandbox(), await ann.create_sandbox()
    provider = await providers.get()
    reaper = Reaper(store=store, sandboxes=provider, settings=settings)
    janitor = Janitor(store=store, reaper=reaper, settings=settings, chores=Chores(wake=never, finish=never))
    assert await janitor.clear() == []
    await store.put_sandbox(replace(over, expires_at=now()))
    assert await janitor.clear() == [over.id]
    assert [info.id for info in await provider.list()] == [left.id]
    assert [row.id for row in await store.own_sandboxes()] == [left.id]


@pytest.mark.parametrize("what", ["sandbox", "image"])
async def test_one_that_is_cancelled_while_its_row_is_written_leaves_nothing(
    ann: Workshop, store: JSONStore, project: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    add, writing = getattr(store, f"add_{what}"), asyncio.Event()

    async def as_a_thread_does(row: object, *, most: int) -> bool:
        writing.set()
        return await asyncio.shield(add(row, most=most))  # which goes on, whoever is cancelled

    monkeypatch.setattr(store, f"add_{what}", as_a_thread_does)
    making = asyncio.ensure_future(ann.create_sandbox() if what == "sandbox" else ann.create_image(project))
    await writing.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert await ann.sandboxes() == [] and await ann.images() == []
    rows = await store.own_sandboxes(user_id="ann", live=False)
    assert {row.status for row in rows} <= {"destroyed"}
