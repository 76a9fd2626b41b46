"""The same suites as an ordinary user: no mounts, no control groups, a user namespace in place of a dropped user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT
from tests import leaks

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

_NOBODY = 65534


@pytest.fixture
def drop() -> list[str]:
    if os.geteuid() != 0:
        pytest.skip("runs as an ordinary user already: the other tests are this test")
    drop = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--inh-caps=-all"]
    probe = subprocess.run([*drop, sys.executable, "-c", "import koda_ray.config, pytest"], cwd="/", check=False)
    if probe.returncode != 0:
        pytest.skip(f"needs a Python and a repository that others may read; {sys.executable} is not")
    return drop


@pytest.fixture
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="kn-", dir="/tmp"))
    os.chown(path, _NOBODY, _NOBODY)
    yield path
    shutil.rmtree(path)


def test_an_ordinary_user_is_as_safe(drop: list[str], home: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1",
        leaks.MARK: os.environ.get(leaks.MARK, ""),
    }  # fmt: skip
    suites = ("test_attacks.py", "test_local_conformance.py::TestLocal")
    done = subprocess.run(
        [*drop, sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
         "-k", "not cannot_be_written and not are_refused",  # pure rules, the same for everybody
         *(f"tests/sandbox/{suite}" for suite in suites)],
        cwd=REPO_ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and "failed" not in done.stdout
