"""The Docker provider under the suite of all providers, at a real engine."""

from __future__ import annotations

import pytest

from koda_ray.sandbox.docker import DockerProvider
from tests.sandbox.conformance import SandboxConformance
from tests.sandbox.leftovers import DockerLeftovers

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("docker")]


@pytest.mark.full
class TestDocker(SandboxConformance):
    """As the engine runs containers by default (runc)."""

    @pytest.fixture
    def provider(self, docker_provider: DockerProvider) -> DockerProvider:
        return docker_provider

    @pytest.fixture
    def leftovers(self, docker_leftovers: DockerLeftovers) -> DockerLeftovers:
        return docker_leftovers


@pytest.mark.needs("gvisor")
@pytest.mark.full(all=True)
class TestGvisor(SandboxConformance):
    """With a kernel of its own for each container (runsc)."""

    @pytest.fixture
    def provider(self, gvisor_provider: DockerProvider) -> DockerProvider:
        return gvisor_provider

    @pytest.fixture
    def leftovers(self, docker_leftovers: DockerLeftovers) -> DockerLeftovers:
        return docker_leftovers
