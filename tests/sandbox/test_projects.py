"""The animation template's project at each provider, under the suite of all of them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.sandbox.base import Sandbox
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from koda_ray.types import new_id
from tests.sandbox import e2b, test_modal
from tests.sandbox.e2b_server import E2BServer
from tests.sandbox.e2b_server.machine import TemplateImage
from tests.sandbox.modal_cloud import Cloud
from tests.sandbox.project_conformance import ProjectConformance

pytestmark = pytest.mark.sandbox


def _image() -> TemplateImage:
    settings = Settings()
    return TemplateImage(settings.template_path, settings.node_modules_path)


class TestLocal(ProjectConformance):
    """As this machine and user allow it."""


@pytest.mark.full
@pytest.mark.needs("docker")
class TestDocker(ProjectConformance):
    """In containers."""

    exact = False  # Chromium's own renderer of 3D is in the tests' image, and no Mesa

    @pytest.fixture
    def project_box(self, docker_browser: DockerSandbox) -> DockerSandbox:
        return docker_browser


@pytest.mark.full
@pytest.mark.needs("docker", "gvisor")
class TestGvisor(ProjectConformance):
    """In containers with a kernel of their own."""

    exact = False  # Chromium's own renderer of 3D is in the tests' image, and no Mesa

    @pytest.fixture
    def project_box(self, gvisor_browser: DockerSandbox) -> DockerSandbox:
        return gvisor_browser


@pytest.mark.full
@pytest.mark.needs("e2b")
class TestE2B(ProjectConformance):
    """By E2B's SDK, at the protocol server."""

    @pytest.fixture
    async def project_box(self) -> AsyncIterator[Sandbox]:
        async with E2BServer({"koda": _image()}).serving() as running:
            provider = e2b.provider_of(running, pids=256)
            yield await provider.create(sandbox_id=new_id("sbx"), session_id="ses_test", user_id="usr_test")


@pytest.mark.full
@pytest.mark.needs("e2b")  # whose machines stand for Modal's
class TestModal(ProjectConformance):
    """At the public surface of Modal's SDK."""

    @pytest.fixture
    async def project_box(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sandbox]:
        with tempfile.TemporaryDirectory(prefix="koda-modal-", dir="/tmp") as folder:  # short: sockets lie in it
            cloud = Cloud(Path(folder), {"im-koda": _image()})
            cloud.install(monkeypatch)
            provider = test_modal.provider_of(pids=256)
            made = await provider.create(sandbox_id=new_id("sbx"), session_id="ses_test", user_id="usr_test")
            yield made
            await made.destroy()
            await cloud.close()
