"""Limits by control groups of version 2, real ones, whichever version this machine's controllers are in."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests import virtual

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.sandbox, pytest.mark.needs("virtual_machine")]

_TIMEOUT_S = 2400
_SUITES = ("test_cgroup.py", "test_without_groups.py", "attacks/test_using_up.py", "attacks/test_rights.py")
_FOUND = "from koda_ray.sandbox import cgroup; found = cgroup.find(); print(found.version, *sorted(found.controllers))"


@pytest.mark.timeout(_TIMEOUT_S + 60)
def test_what_uses_up_a_machine_is_held_by_groups_of_version_2(tmp_path: Path) -> None:
    tests = " ".join(f"tests/sandbox/{suite}" for suite in _SUITES)
    suite = f"-m pytest --full -q -p no:cacheprovider --color=no -k 'not docker and not gvisor' {tests}"
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }  # fmt: skip
    line = ("sh", "-c", f'"$0" -c "{_FOUND}" && exec "$0" {suite}', sys.executable)
    code, said = virtual.run(line, folder=tmp_path, environment=environment, timeout_s=_TIMEOUT_S)
    assert code == 0, said[-8000:]
    assert re.search(r"^2 cpu memory pids\r?$", said, re.MULTILINE), said[:4000]
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said[-2000:]
