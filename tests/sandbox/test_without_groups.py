"""Limits of processes and processors where there is no control group; ``test_unprivileged`` runs them as anybody."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.processors import processors_of
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.leftovers import Leftovers

_SET = {"x86_64": 203, "aarch64": 122}


@pytest.fixture
async def narrow(
    boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits, leftovers: Leftovers
) -> AsyncIterator[LocalSandbox]:
    """A sandbox with one processor and 64 processes, which no control group holds it to."""
    limits = replace(limits, cpus=1.0)
    provider = LocalProvider(
        root=boxes,
        template=TemplateProject(folder=template, node_modules=node_modules),
        limits=replace(limits, soft=True),
    )
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_a", user_id="usr_a")
    yield made
    await made.destroy()


@pytest.mark.sandbox
async def test_all_commands_together_have_so_many_processes(narrow: LocalSandbox) -> None:
    crowd = "for i in $(seq 40); do sleep 600 & done; echo all; wait"
    await narrow.start("crowd", ("sh", "-c", crowd))
    async with asyncio.timeout(60):
        while "all" not in await narrow.output("crowd"):
            await asyncio.sleep(0.02)
    done = await narrow.run(("sh", "-c", "for i in $(seq 40); do sleep 600 & done; echo all"), timeout_s=90)
    assert "all" not in done.stdout and "ork" in done.stderr
    await narrow.stop("crowd")
    assert (await narrow.run(("sh", "-c", "for i in $(seq 40); do sleep 600 & done; echo all"))).stdout == "all\n"


@pytest.mark.sandbox
@pytest.mark.needs("perl")
async def test_all_commands_have_the_same_processors_and_keep_to_them(narrow: LocalSandbox) -> None:
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("needs a machine with two processors")
    (only,) = processors_of(narrow.id, 1.0)
    look = "grep Cpus_allowed_list /proc/self/status"
    said = {(await narrow.run(("sh", "-c", look))).stdout.split()[-1] for _ in range(2)}
    assert said == {f"{only}"}
    number = _SET.get(os.uname().machine)
    if number is not None:
        take = f"my $all = pack('q', -1); print syscall({number}, 0, 8, $all), ' ', $!+0, qq(\\n); exec '{look}'"
        done = await narrow.run(("perl", "-e", take))
        assert done.stdout.split()[:2] == ["-1", "1"] and done.stdout.split()[-1] == f"{only}", done


def test_processors_are_as_many_as_the_limit_and_not_always_the_first() -> None:
    chosen = [processors_of(f"sbx_{number}", 1.5, there=range(2, 10)) for number in range(64)]
    assert {len(one) for one in chosen} == {2} and {name for one in chosen for name in one} == set(range(2, 10))
    assert processors_of("sbx_a", 1.5, there=range(8)) == processors_of("sbx_a", 1.5, there=range(8))
    assert processors_of("sbx_a", 8.0, there=range(8)) == processors_of("sbx_a", 2.0, there=[5]) == ()
