"""What a cluster loses, for a while or for good: nothing of what was said is gone, and what it did goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from koda_ray.config import REPO_ROOT
from tests.cluster.cut import DURATION_S, FPS

pytestmark = [
    pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.browser, pytest.mark.timeout(900),
    pytest.mark.needs("netns", "postgres", "s3"),
]  # fmt: skip
WHOLE = ["succeeded", round(DURATION_S * FPS), None]


def lose(what: str) -> dict[str, Any]:
    """Run a cluster that loses something; return what became of its work."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-P"]
    done = subprocess.run(
        [*command, "-m", "tests.cluster.cut", what],
        cwd=REPO_ROOT, env={**os.environ, "PYTHONPATH": str(REPO_ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("how", ["link", "machine"])
def test_sessions_renders_and_the_janitor_of_a_machine_that_is_lost_go_on_elsewhere(how: str) -> None:
    """Long before Ray gives it up, where it only falls silent."""
    seen = lose(how)
    before, after = seen["session_epochs"]
    assert after == before + 2, "it was given up once, and taken once"
    assert seen["render"] == WHOLE, seen


@pytest.mark.parametrize("what", ["database", "bucket"])
def test_a_session_and_a_render_outlive_what_is_away_for_a_while(what: str) -> None:
    seen = lose(what)
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)] and seen["events"]
    assert seen["render"] == WHOLE, seen


def test_what_works_on_a_machine_leaves_it_when_its_cloud_gives_notice() -> None:
    seen = lose("spot")
    assert seen["session_epoch"] == 2, "it was let go once, and taken once"
    assert seen["events"] == [*range(1, len(seen["events"]) + 1)] and seen["events"]
    assert seen["render"] == WHOLE, seen


def test_what_is_said_while_the_head_is_away_is_taken_when_it_is_back() -> None:
    seen = lose("head")
    assert not seen["awake_waited"] and seen["asleep_waited"], seen
    for events in seen["events"].values():
        assert events == [*range(1, len(events) + 1)] and events
    assert seen["render"] == WHOLE, seen
