"""The doctor at a real engine: what it says of it, of the image, and of a sandbox that it starts there."""

from __future__ import annotations

import re
from pathlib import Path

import docker
import pytest

from koda_ray.config import Settings
from koda_ray.doctor import Examination, Finding, containers
from tests.sandbox.conftest import Base

pytestmark = pytest.mark.sandbox


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(sandbox_path=tmp_path / "sandboxes")


def only(findings: list[Finding], name: str) -> Finding:
    (found,) = [finding for finding in findings if finding.name == name]
    return found


@pytest.mark.needs("docker")
def test_an_engine_without_the_image_is_told_how_to_get_it(
    settings: Settings, docker_address: str, docker_base: Base
) -> None:
    given = settings.model_copy(update={"docker_host": docker_address, "sandbox_image": "koda-test/none:1"})
    found = containers.containers(Examination(given))
    assert only(found, "Docker").status == "ok" and "overlay2" in only(found, "Docker").detail
    image = only(found, "Docker image")
    assert image.status == "warning" and "koda image build" in image.remedy
    chosen = only(found, "Sandbox provider").detail
    assert chosen.startswith("local, because the Docker engine holds no koda-test/none:1 (koda image build")
    asked = containers.containers(Examination(given.model_copy(update={"sandbox_provider": "docker"})))
    assert only(asked, "Docker image").status == "missing"
    other = given.model_copy(update={"sandbox_image": docker_base.name})
    image = only(containers.containers(Examination(other)), "Docker image")
    assert image.status == "warning" and "another version" in image.detail
    chosen = only(containers.containers(Examination(other)), "Sandbox provider").detail
    assert chosen.startswith("local, because another koda_ray built")


@pytest.mark.needs("docker", "gvisor")
def test_a_sandbox_really_starts_and_its_limits_are_named(
    settings: Settings, docker_address: str, docker_image: str, tmp_path: Path
) -> None:
    given = settings.model_copy(update={"docker_host": docker_address, "sandbox_image": docker_image})
    found = containers.containers(Examination(given))
    assert {finding.status for finding in found} == {"ok"}
    assert only(found, "Sandbox provider").detail.startswith("docker, because the Docker engine answers and holds")
    assert re.search(r"starts and answers in \d+\.\d s", only(found, "Docker sandbox").detail)
    assert "cgroup v" in only(found, "Docker: limit of memory").detail
    disk = only(found, "Docker: limit of disk").detail
    assert "1024 MB" in disk and "tmpfs" in disk and "overlay2 on " in disk
    assert "SANDBOX_RUNTIME=runsc" in only(found, "Docker runtime").detail
    strict = containers.containers(Examination(given.model_copy(update={"sandbox_runtime": "runsc"})))
    assert only(strict, "Docker runtime").detail == "runsc" and only(strict, "Docker sandbox").status == "ok"
    unknown = containers.containers(Examination(given.model_copy(update={"sandbox_runtime": "runx"})))
    assert only(unknown, "Docker runtime").status == "missing" and "runsc" in only(unknown, "Docker runtime").remedy
    assert only(unknown, "Docker sandbox").status == "missing"
    assert list(tmp_path.iterdir()) == []
    client = docker.APIClient(base_url=docker_address, version="auto")
    assert client.containers(all=True) == []
    client.close()
