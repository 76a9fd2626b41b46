"""Compose's own reading of the files for it, and the secrets that they are started with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from koda_ray.config import REPO_ROOT
from koda_ray.resources import ASKED
from tests.cluster.files import FOLDER


def secrets() -> dict[str, str]:
    """Return what `make-secrets` prints, by name."""
    done = subprocess.run([str(FOLDER / "make-secrets")], capture_output=True, text=True, check=True)
    return dict(line.split("=") for line in done.stdout.splitlines())


def read_by_compose(name: str, folder: Path, **variables: str) -> dict[str, Any]:
    """Have Compose put in variables and defaults, and return its services."""
    environment = folder / "compose.env"
    environment.write_text("".join(f"{each}={value}\n" for each, value in (secrets() | variables).items()))
    done = subprocess.run(
        ["docker-compose", "--env-file", str(environment), "-f", str(FOLDER / name), "config"],
        capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


def test_secrets_are_new_each_time() -> None:
    first, second = secrets(), secrets()
    assert first.keys() == second.keys() and {"RAY_AUTH_TOKEN", "KODA_SIGNING_KEY"} <= first.keys()
    assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in first.values())
    assert len({*first.values(), *second.values()}) == 2 * len(first)


@pytest.mark.full
@pytest.mark.needs("docker_compose")
def test_compose_reads_its_files(tmp_path: Path) -> None:
    first = read_by_compose("compose.yaml", tmp_path)
    assert {"head", "worker", "postgres", "storage", "prometheus"} == first.keys()
    further = read_by_compose("compose.worker.yaml", tmp_path, KODA_HEAD="10.0.0.5", KODA_BROWSERS="16")
    command = further["worker"]["command"][-1]
    assert "--address=10.0.0.5:6379" in command and '"chromium": 16' in command
    names = {name for name in first["worker"]["environment"] if name not in ("KODA_API_KEYS", "KODA_HOST")}
    assert further["worker"]["environment"].keys() == names
    assert "@10.0.0.5:5432/" in further["worker"]["environment"]["DATABASE_URL"]


@pytest.mark.full
@pytest.mark.needs("docker_compose")
def test_compose_starts_nothing_without_secrets(tmp_path: Path) -> None:
    done = subprocess.run(
        ["docker-compose", "-f", str(FOLDER / "compose.yaml"), "config"],
        capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode != 0 and "run cluster/make-secrets" in done.stderr


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.ray
@pytest.mark.needs("docker_compose", "netns", "postgres", "s3", "seaweedfs")
def test_head_and_worker_by_their_own_commands(tmp_path: Path) -> None:
    """The head offers no processor; the worker comes whenever the head is there, and drains before it ends."""
    services = tmp_path / "services.json"
    services.write_text(json.dumps(read_by_compose("compose.yaml", tmp_path, KODA_BROWSERS="2")))
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-P"]
    done = subprocess.run(
        [*command, "-m", "tests.cluster.stack", str(services)],
        cwd=REPO_ROOT, env={**os.environ, "PYTHONPATH": str(REPO_ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    (head,) = (node for node in seen["nodes"] if "node:__internal_head__" in node)
    (worker,) = (node for node in seen["nodes"] if "node:__internal_head__" not in node)
    assert "CPU" not in head and not {asked.name for asked in ASKED} & head.keys()
    assert (worker["chromium"], worker["chromium_urgent"], worker["session"]) == (2, 2, 8)
    assert seen["phase"] in ("question", "plan") and seen["alive"] == "success"
    assert seen["drained"]
