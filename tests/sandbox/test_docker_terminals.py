"""Processes with a terminal, own images and sandboxes in Docker, at a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from koda_ray.config import Settings
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.limits import Limits
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


class _World:
    """The engine and its folder, as their owner sees them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def sandboxes(self) -> list[str]:
        return [path.name for path in self._settings.sandbox_path.glob("dep_*/docker/sbx_*")]

    async def end(self, sandbox_id: str) -> None:
        await asyncio.to_thread(self._use, lambda api: api.remove_container(f"koda-{sandbox_id}", force=True))

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
    def settings(self, docker_address: str, docker_image: str, boxes: Path, limits: Limits) -> Settings:
        return Settings.model_validate(
            {
                "SANDBOX_PATH": boxes, "SANDBOX_PROVIDER": "docker", "DOCKER_HOST": docker_address,
                "SANDBOX_IMAGE": docker_image, "SANDBOX_MEMORY_MB": limits.memory_bytes >> 20,
            }
        )  # fmt: skip

    @pytest.fixture
    def world(self, settings: Settings, docker_leftovers: DockerLeftovers) -> World:
        return _World(settings)

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
