"""Who hears what gVisor's kernel tells, of several owners, and when somebody tries without end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from koda_ray.sandbox.gvisor_trace import can_be_traced
from koda_ray.sandbox.limits import ResourceLimits
from tests.sandbox.attacks.doing import perl, sh
from tests.sandbox.leftovers import DockerLeftovers
from tests.sandbox.refusals import refusals

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("docker", "gvisor")]


@pytest.fixture
async def sandbox(gvisor_provider: DockerProvider, docker_leftovers: DockerLeftovers) -> AsyncIterator[DockerSandbox]:
    name = docker_leftovers.new_id()
    made = await gvisor_provider.create(sandbox_id=name, session_id="ses_test", user_id="usr_test")
    await made.write_files({"attack.sh": b"echo b > /proc/sysrq-trigger"})
    yield made
    await made.destroy()


async def test_one_owner_hears_and_the_next_when_it_has_gone(
    sandbox: DockerSandbox,
    boxes: Path,
    docker_address: str,
    docker_image: str,
    limits: ResourceLimits,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = ContainerPlan(limits=limits, runtime="runsc")
    another = DockerProvider(root=boxes, image=docker_image, plan=plan, address=docker_address)
    try:
        second = await another.connect(sandbox.id)
        await sh(sandbox, "sh attack.sh")
        assert refusals(capsys, sandbox.id) == {"path"}
        await sh(second, "sh attack.sh; true")
        assert refusals(capsys, sandbox.id) == set(), "who listens has it, and says so when it is asked"
        await sandbox.processes()
        assert refusals(capsys, sandbox.id) == {"path"}
        await sandbox.close()
        await sh(second, "sh attack.sh; true")
        assert refusals(capsys, sandbox.id) == {"path"}
    finally:
        await another.close()


async def test_who_tries_without_end_is_told_of_and_stops_nobody(
    sandbox: DockerSandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    many = "for (1 .. 8000) { open(my $f, '<', \"/etc/shadow\") } print 'done'"
    assert await perl(sandbox, many) == "done"
    assert refusals(capsys, sandbox.id) == {"path"}
    other = "for (1 .. 2000) { open(my $f, '>', \"/etc/evil$_\") } print 'done'"
    assert await perl(sandbox, other) == "done"
    said = capsys.readouterr().out
    assert said.count("refused=path") == 1 and len(said) < 2000
    assert await sh(sandbox, "echo alive") == (0, "alive\n")
    assert refusals(capsys, sandbox.id) == set()


def test_only_gvisors_kernel_of_an_engine_of_this_machine_is_asked() -> None:
    here = "unix:///var/run/docker.sock"
    assert can_be_traced("runsc", engine=here)
    assert not can_be_traced("runsc", engine="tcp://10.0.0.2:2376")
    assert not can_be_traced("runc", engine=here) and not can_be_traced(None, engine=here)
