"""Compose's own reading of the files for it, and the secrets that they are started with."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

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
