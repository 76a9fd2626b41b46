"""Processes with a terminal, own images and sandboxes in Docker, at a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from koda_ray.config import Settings
from koda_ray.errors import NotFound, QuotaExceeded, SandboxError, SandboxNotFound
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.workshop import Workshop
from tests.sandbox.leftovers import DockerLeftovers
from tests.sandbox.terminals import TerminalConformance
from tests.sandbox.workshops import BuildsConformance, World

if TYPE_CHECKING:
    import docker

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("docker")]


class TestDockerTerminals(TerminalConformance):
    """As the engine runs containers by default (runc)."""

    @pytest.fixture
    def provider(self, docker_provider: DockerProvider) -> DockerProvider:
        return docker_provider

    @pytest.fixture
    def leftovers(self, docker_leftovers: DockerLeftovers) -> DockerLeftovers:
        return docker_leftovers


@pytest.mark.needs("gvisor")
class TestGvisorTerminals(TerminalConformance):
    """With a kernel of its own for each container (runsc)."""

    keys_are_signals = False  # seen with release 20221219, which also says nothing of new sizes and of ends

    @pytest.fixture
    def provider(self, gvisor_provider: DockerProvider) -> DockerProvider:
        return gvisor_provider

    @pytest.fixture
    def leftovers(self, docker_leftovers: DockerLeftovers) -> DockerLeftovers:
        return docker_leftovers


class _World:
    """The engine and its folder, as their owner sees them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def sandboxes(self) -> list[str]:
        return [path.name for path in self._settings.sandbox_path.glob("dep_*/docker/sbx_*")]

    async def end(self, sandbox_id: str) -> None:
        await asyncio.to_thread(self._use, lambda api: api.remove_container(f"koda-{sandbox_id}", force=True))

    def kill(self, sandbox_id: str) -> None:
        self._use(lambda api: api.kill(f"koda-{sandbox_id}"))

    def forget_image(self, provider_id: str) -> None:
        self._use(lambda api: api.remove_image(provider_id, force=True))

    def _use(self, work: Callable[[docker.APIClient], object]) -> None:
        import docker

        client = docker.APIClient(base_url=self._settings.docker_host, version="auto")
        try:
            work(client)
        finally:
            client.close()


class TestDockerWorkshop(BuildsConformance):
    """The same."""

    @pytest.fixture
    def settings(self, docker_address: str, docker_image: str, boxes: Path, limits: ResourceLimits) -> Settings:
        return Settings.model_validate(
            {
                "SANDBOX_PATH": boxes, "SANDBOX_PROVIDER": "docker", "DOCKER_HOST": docker_address,
                "SANDBOX_IMAGE": docker_image, "SANDBOX_MEMORY_MB": limits.memory_bytes >> 20,
            }
        )  # fmt: skip

    @pytest.fixture
    def world(self, settings: Settings, docker_leftovers: DockerLeftovers) -> World:
        return _World(settings)

    async def test_why_one_ended_that_nobody_terminated_is_said_and_kept(self, ann: Workshop, world: World) -> None:
        assert isinstance(world, _World)
        killed, full, left = [await ann.create_sandbox() for _ in range(3)]
        await asyncio.to_thread(world.kill, killed.id)
        hit = await ann.connect(full.id)
        for fill in ("head -c 1G /dev/zero > public/x", "head -c 1G /dev/zero > /tmp/x; head -c 1G /dev/zero > ~/x"):
            with suppress(QuotaExceeded, SandboxNotFound):
                await hit.run(("sh", "-c", fill))
        with suppress(SandboxError):
            await hit.snapshot()  # files fill the memory, and reading them takes more
        async with asyncio.timeout(60):
            while await hit.is_alive():  # the engine hears of it later than whoever was talking to it
                await asyncio.sleep(0.05)
        with pytest.raises(NotFound, match=r"first process ended with code 137; make another"):
            await ann.connect(killed.id)
        with pytest.raises(NotFound, match=r"passed its memory limit \(SANDBOX_MEMORY_MB\); make another"):
            await ann.connect(full.id)
        assert [one.record.id for one in await ann.sandboxes()] == [left.id]
        said = {one.record.id: (one.state, one.record.ended) for one in await ann.sandboxes(everything=True)}
        assert said == {
            killed.id: ("gone", "its first process ended with code 137"),
            full.id: ("gone", "the kernel ended it because it passed its memory limit (SANDBOX_MEMORY_MB)"),
            left.id: ("running", ""),
        }
        with pytest.raises(NotFound, match=r"passed its memory limit"):
            await ann.connect(full.id)
        await ann.terminate(left.id)
        assert [one.state for one in await ann.sandboxes(everything=True)] == ["gone", "gone", "terminated"]

    async def test_what_dockerignore_names_is_neither_built_nor_in_the_project(
        self, ann: Workshop, project: Path
    ) -> None:
        (project / "Dockerfile").write_text(
            "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nENV X=1\n"
            "COPY . /opt/seen\nRUN test ! -e /opt/seen/.env && test -e /opt/seen/main.js\n"
        )
        (project / ".dockerignore").write_text(".env\n**/*.log\n")
        (project / ".env").write_text("KEY=secret\n")
        (project / "node_modules" / "install.log").write_text("lines\n")
        await ann.create_image(project, clean=True)
        box = await ann.connect((await ann.create_sandbox("notes")).id)
        listed = await box.run(("sh", "-c", "ls -A . node_modules/"))
        assert "main.js" in listed.stdout and "left-pad" in listed.stdout
        assert ".env" not in listed.stdout and "install.log" not in listed.stdout
