"""What a person's own images, sandboxes and processes do at every provider; each one's tests inherit all of it.

A test module defines the fixtures ``settings`` (with ``SANDBOX_PROVIDER``) and ``world``, which ends sandboxes behind
everybody's back, removes an image, and counts what is there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from koda_ray.config import Settings
from koda_ray.errors import (
    CommandBlocked,
    InvalidInput,
    KodaError,
    NotFound,
    SandboxError,
    SandboxNotFound,
    TemplateNotFound,
)
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.standing import lost
from koda_ray.sandbox.workshop import Workshop
from koda_ray.state.json_store import JSONStore
from tests.sandbox.terminals import shown, until

__all__ = ["BuildsConformance", "WorkshopConformance", "World", "project_in"]


class World(Protocol):
    """The provider's own side of it."""

    @property
    def sandboxes(self) -> list[str]:
        """The ids, ours, of what runs there."""
        ...

    async def end(self, sandbox_id: str) -> None:
        """End one, as its owner does in the provider's dashboard."""
        ...

    def forget_image(self, provider_id: str) -> None:
        """Remove an image there."""
        ...


def project_in(folder: Path) -> Path:
    """Write a folder as people have them: links, modes, packages, odd names, and what cannot be copied."""
    root = folder / "notes"
    (root / "node_modules" / "left-pad").mkdir(parents=True)
    (root / "node_modules" / "left-pad" / "index.js").write_text("module.exports = (text) => ` ${text}`;\n")
    (root / "main.js").write_text("console.log(require('left-pad')('hello'));\n")
    (root / "start").write_text("#!/bin/sh\nexec node main.js\n")
    (root / "start").chmod(0o755)
    (root / "out-of-it").symlink_to("/etc/passwd")
    (root / "nöté [1]").mkdir()
    os.mkfifo(root / "pipe")
    return root


class WorkshopConformance:
    """The suite."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        return project_in(tmp_path)

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[JSONStore]:
        store = JSONStore(tmp_path / "store")
        await store.open()
        yield store
        await store.close()

    @pytest.fixture
    async def ann(self, settings: Settings, store: JSONStore, world: World) -> AsyncIterator[Workshop]:
        """Ann's; after the test nothing of hers may be left at the provider."""
        providers = Providers(settings, store)
        workshop = Workshop(store, providers, user_id="ann")
        yield workshop
        for one in await workshop.sandboxes(everything=True):
            await workshop.terminate(one.record.id)
        for image in await workshop.images():
            await workshop.remove_image(image.record.id)
        await providers.close()
        assert world.sandboxes == []

    async def test_from_a_folder_to_what_its_process_says(self, ann: Workshop, project: Path, world: World) -> None:
        image = await ann.create_image(project)
        assert (image.name, image.status) == ("notes", "ready")
        assert (await ann.create_image(project)).id == image.id
        box = await ann.create_sandbox("notes")
        assert world.sandboxes == [box.id]
        assert [(one.record.id, one.state) for one in await ann.sandboxes()] == [(box.id, "running")]
        said = [piece async for piece in ann.launch_and_follow(box.id, "main", "./start; readlink out-of-it; ls -1LpN")]
        lines = b"".join(piece.data for piece in said).decode().splitlines()
        assert lines == [" hello", "/etc/passwd", "main.js", "node_modules/", "nöté [1]/", "out-of-it", "start"], lines
        assert said[-1].exit_code == 0
        opened = await ann.connect(box.id)
        await opened.write_files({"main.js": b"console.log('changed');\n"})
        assert (await opened.run(("./start",))).stdout == "changed\n"
        other = await ann.create_sandbox("notes")
        assert (await (await ann.connect(other.id)).read_file("main.js")).startswith(b"console.log(require")
        await ann.remove_image("notes")
        assert await ann.images() == []
        await ann.terminate(box.id)
        await ann.terminate(box.id)
        assert world.sandboxes == [other.id]
        with pytest.raises(NotFound, match="it was terminated") as caught:
            await ann.launch(box.id, "main", "./start")
        assert caught.value.code == "SANDBOX_NOT_FOUND"

    async def test_commands_may_name_the_hosts_that_settings_list_and_no_others(
        self, ann: Workshop, settings: Settings, store: JSONStore
    ) -> None:
        box = await ann.create_sandbox()
        listing = Providers(settings.model_copy(update={"sandbox_egress_hosts": "listed.invalid"}), store)
        opened = await (await listing.get()).connect(box.id)
        assert (await opened.run(("curl", "-s", "https://listed.invalid/x"))).exit_code != 0  # it was tried
        for host in ("registry.npmjs.org", "example.com"):
            with pytest.raises(CommandBlocked, match=f"SANDBOX_EGRESS_HOSTS lists, so not {host}"):
                await opened.run(("curl", "-s", f"https://{host}/x"))
        await listing.close()

    async def test_a_person_goes_in_leaves_and_comes_back(self, ann: Workshop) -> None:
        box = await ann.create_sandbox()
        await ann.launch(box.id, "shell", "exec sh")
        first = await ann.attach(box.id, "shell", rows=24, columns=80)
        await first.write(b"mark=is-$((6 * 7)); pwd; echo $mark\r")
        assert b"/home/user/project" in await shown(first, b"is-42")
        await first.close()
        assert [(one.record.name, one.state) for one in await ann.processes()] == [("shell", "running")]
        second = await ann.attach(box.id, "shell", rows=24, columns=80)
        await second.write(b"echo still-$mark\r")
        await shown(second, b"still-is-42")
        await second.write(b"exit 5\r")

        async def has_ended() -> bool:
            return [one.record.exit_code for one in await ann.processes(box.id, everything=True)] == [5]

        await until(has_ended)
        await second.close()
        await ann.kill(box.id, "shell")
        assert await ann.processes(box.id, everything=True) == []

    async def test_what_dockerignore_names_is_in_no_image_though_nothing_is_built(
        self, ann: Workshop, project: Path
    ) -> None:
        (project / ".dockerignore").write_text(".env\n**/*.log\nsecrets\n!secrets/deep/open.txt\n")
        (project / ".env").write_text("KEY=secret\n")
        (project / "node_modules" / "install.log").write_text("lines\n")
        (project / "secrets" / "deep").mkdir(parents=True)
        for name in ("key", "deep/open.txt", "deep/key"):
            (project / "secrets" / name).write_text(name)
        image = await ann.create_image(project)
        box = await ann.connect((await ann.create_sandbox(image.id)).id)
        found = (await box.run(("sh", "-c", "find -L . ! -name out-of-it"))).stdout.splitlines()
        assert {"./main.js", "./node_modules/left-pad/index.js", "./secrets/deep/open.txt"} <= set(found)
        assert not {one for one in found if one.endswith((".env", ".log", "/key"))}, found

    async def test_what_went_away_behind_our_back_is_said(
        self, ann: Workshop, project: Path, store: JSONStore, world: World
    ) -> None:
        image = await ann.create_image(project)
        box, other = await ann.create_sandbox("notes"), await ann.create_sandbox()
        await ann.launch(box.id, "one", "sleep 1000")
        opened = await ann.connect(box.id)
        await world.end(box.id)
        with pytest.raises(SandboxNotFound):
            await opened.read_file("main.js")
        with pytest.raises(NotFound, match=f"{box.id}.*not at its provider.*make another") as caught:
            await ann.output(box.id, "one")
        assert caught.value.code == "SANDBOX_NOT_FOUND"
        assert [one.record.id for one in await ann.sandboxes()] == [other.id]
        said = {one.record.id: (one.state, one.record.ended) for one in await ann.sandboxes(everything=True)}
        assert said == {box.id: ("gone", lost(box)), other.id: ("running", "")}
        assert await store.sandbox_processes(box.id) == []
        assert image.provider_id is not None
        world.forget_image(image.provider_id)
        assert [one.state for one in await ann.images()] == ["missing"]
        with pytest.raises(TemplateNotFound, match=r"'notes'.*cannot be used.*koda image create"):
            await ann.create_sandbox("notes")
        assert [one.record.id for one in await ann.sandboxes()] == [other.id]
        assert (await ann.create_image(project)).id != image.id

    async def test_a_cancelled_creation_leaves_nothing(self, ann: Workshop, store: JSONStore, world: World) -> None:
        for seconds in (0.02, 0.3, 0.8):
            making = asyncio.create_task(ann.create_sandbox())
            await asyncio.sleep(seconds)
            making.cancel()
            with suppress(asyncio.CancelledError, KodaError):
                box = await making
                await ann.terminate(box.id)
            assert await ann.sandboxes() == []
            assert world.sandboxes == []
        assert {row.status for row in await store.own_sandboxes(user_id="ann", live=False)} <= {"destroyed"}


class BuildsConformance(WorkshopConformance):
    """The suite for those that build a Dockerfile, which the local provider does not."""

    async def test_a_dockerfile_is_built_first_and_says_why_it_cannot_be(self, ann: Workshop, project: Path) -> None:
        lines = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nUSER root\nCOPY main.js /opt/seen.js\nRUN echo built >/opt/mark\n"
        (project / "Dockerfile").write_text(lines)
        await ann.create_image(project / "Dockerfile", name="built")
        box = await ann.connect((await ann.create_sandbox("built")).id)
        done = await box.run(("sh", "-c", "cat /opt/mark; cmp main.js /opt/seen.js && ls -d Dockerfile"))
        assert done.stdout == "built\nDockerfile\n", done
        (project / "Dockerfile").write_text(lines + "RUN echo no such thing >&2; exit 3\n")
        with pytest.raises(SandboxError, match="no such thing") as caught:
            await ann.create_image(project, name="broken")
        assert caught.value.code == "IMAGE_FAILED"
        (project / "Dockerfile").write_text("FROM scratch\nCOPY main.js /\n")
        with pytest.raises(InvalidInput, match=r"Dockerfile builds cannot be a sandbox.*FROM \$\{BASE_IMAGE\}"):
            await ann.create_image(project, name="other")
        assert [one.record.name for one in await ann.images()] == ["built"]
