"""What root lays over a container's ``/proc``: it tells who reads or writes, and is nobody's inside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from koda_ray.sandbox.covered import Covered
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from tests.sandbox.attacks.doing import sh
from tests.sandbox.refusals import refusals

_PLACE = "/proc/sys/kernel/core_pattern"  # every kernel has it


@pytest.mark.sandbox
@pytest.mark.full
@pytest.mark.needs("docker")
async def test_it_is_not_theirs_and_has_an_end(docker_box: DockerSandbox, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(_PLACE).read_text()
    tries = (
        f"chmod 777 {_PLACE}", f"rm -f {_PLACE}", f"umount {_PLACE}", f"mv /tmp/x {_PLACE}", f"touch -d @0 {_PLACE}",
        f"cat {_PLACE}", f"head -c 1000000 /dev/zero > {_PLACE}",
    )  # fmt: skip
    await docker_box.write_files({f"scripts/{number}.sh": words.encode() for number, words in enumerate(tries)})
    for number, words in enumerate(tries):
        code, text = await sh(docker_box, f"sh scripts/{number}.sh")
        assert code != 0, f"{words}: {text}"
    assert int((await sh(docker_box, f"stat -c %s {_PLACE}"))[1]) <= 16384
    assert refusals(capsys, docker_box.id) == {"call", "trigger"}  # to unmount is a call
    assert Path(_PLACE).read_text() == before
    await docker_box.write_files({"again.sh": f"echo x > {_PLACE}; cat /proc/1/environ".encode()})
    for _ in range(2):
        code, text = await sh(docker_box, "sh again.sh")
        assert "KODA" not in text and "no environment" in text
        assert refusals(capsys, docker_box.id) == {"bait", "trigger"}


def test_only_what_lies_over_the_kernels_own_is_counted(tmp_path: Path) -> None:
    laid = tmp_path / "laid"
    laid.write_text("x")
    os.utime(laid, ns=(1, 1))
    written = Covered(("/proc/self/status", str(tmp_path / "gone"), str(laid)), "written", never_ns=1)
    assert written.total() == 0
    laid.write_text("y")
    assert (written.total(), written.total()) == (1, 1)
    os.utime(laid, ns=(1, 2))
    assert written.total() == 2
    assert Covered(("/proc/self/status",), "read", never_ns=1).total() == 0
