"""A machine whose link is down: what it had goes on elsewhere, long before Ray gives it up."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from koda_ray.config import REPO_ROOT
from tests.cluster.cut import DURATION_S, FPS


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.ray
@pytest.mark.browser
@pytest.mark.timeout(900)
@pytest.mark.needs("netns", "postgres", "s3")
def test_sessions_renders_and_the_janitor_of_a_machine_that_falls_silent_go_on_elsewhere() -> None:
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-P"]
    done = subprocess.run(
        [*command, "-m", "tests.cluster.cut"],
        cwd=REPO_ROOT, env={**os.environ, "PYTHONPATH": str(REPO_ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    before, after = seen["session_epochs"]
    assert after == before + 2, "it was given up once, and taken once"
    assert seen["render"] == ["succeeded", round(DURATION_S * FPS), None], seen
