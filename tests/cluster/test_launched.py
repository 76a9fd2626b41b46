"""Ray's launcher over SSH: the file as it is shipped makes a cluster of three machines, and ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.resources import ASKED


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.ray
@pytest.mark.browser
@pytest.mark.timeout(1800)
@pytest.mark.needs("netns", "sshd", "docker", "postgres", "s3", "seaweedfs")
def test_machines_over_ssh_become_a_cluster_that_works() -> None:
    """Whoever starts it does what the README says; its nodes are containers, with Docker as the file has it."""
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-P"]
    done = subprocess.run(
        [*command, "-m", "tests.cluster.launched"],
        cwd=REPO_ROOT, env={**os.environ, "PYTHONPATH": str(REPO_ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    seen = json.loads(done.stdout.splitlines()[-1])

    head, *workers = seen["nodes"].values()
    assert len(workers) == 2 and seen["problem"] is None, seen
    assert not {"CPU", *(asked.name for asked in ASKED)} & head.keys()
    processors = os.cpu_count() or 1
    for worker in workers:
        assert worker["chromium"] == (processors + 1) // 2 and worker["session"] == processors, worker
        assert worker["chromium_urgent"] == 2, worker
    assert seen["statuses"] == ["HEALTHY", "RUNNING"], "of the applications, and their replicas"
    assert seen["render"]["status"] == "succeeded" and seen["render"]["frames"] == 60, seen["render"]
    assert seen["render"]["video"] > 0 and set(seen["render"]["on"]) <= {"worker1", "worker2"}
    assert seen["without_token_refused"] == [True, True] and seen["ray_status"], "with the token it answers"

    assert "enabled" not in seen["reports"] and "disabled" in seen["reports"], "nobody is told how it is used"

    assert seen["render_meanwhile"]["status"] == "succeeded", "what was under way when it was started again"
    assert seen["nodes_again"] == seen["nodes"] and seen["same_workers"], "only the head was started again"
    assert not seen["known_before"], "until it was started with other settings"
    assert seen["containers"] == [["koda"]] * 3 and seen["left"] == [[]] * 3
    assert not seen["answers_still"]
    assert seen["render_after_an_end"]["status"] == "succeeded", "it can be started again"
