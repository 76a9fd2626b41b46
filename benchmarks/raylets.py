"""Raylets on this machine as if each were a machine with one processor: pinned to a core, joined, and killed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import psutil
import ray

from benchmarks.cpu import pinned_to
from koda_ray.resources import CHROMIUM_RESOURCE
from koda_ray.serve import ray_folder

__all__ = ["OneCore", "Raylets"]

_STORE_BYTES = 10**8
_START_S = 240.0
_CAPTURE = "ray::_capture"
_RAY = str(Path(sys.executable).with_name("ray"))


class OneCore:
    """A node: a raylet with everything under it, on one core.

    Args:
        process: What started it, and ends with it.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def processes(self) -> list[psutil.Process]:
        """Return its processes."""
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._process.pid)
            return [first, *first.children(recursive=True)]
        return []

    def has(self, worker: str) -> bool:
        """Whether a unit's worker (host and process id) works here."""
        return int(worker.rpartition(":")[2]) in {process.pid for process in self.processes()}

    def captures(self) -> bool:
        """Whether a task captures here at this moment."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if process.cmdline()[:1] == [_CAPTURE]:
                    return True
        return False

    def kill(self) -> None:
        """End all of it at once, as a machine that is switched off."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()


class Raylets:
    """A cluster whose head, with this process, shares the first core, and whose nodes have a core each."""

    def __init__(self, cores: list[int], address: str) -> None:
        self._cores = cores
        self._address = address
        self.nodes: list[OneCore] = []

    @property
    def cores(self) -> int:
        """How many processors there are for nodes."""
        return len(self._cores)

    def add(self, **more: float) -> OneCore:
        """Start a node, on the next core; returns when Ray knows it.

        Args:
            more: What it offers beside one browser.
        """
        known = _alive()
        core = self._cores[len(self.nodes) % len(self._cores)]
        resources = json.dumps({CHROMIUM_RESOURCE: 1, **more})
        start = [f"--address={self._address}", "--num-cpus=1", f"--resources={resources}", "--block"]
        node = OneCore(
            subprocess.Popen(
                ["taskset", "--cpu-list", str(core), _RAY, "start", *start, f"--object-store-memory={_STORE_BYTES}"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        self.nodes.append(node)
        deadline = time.monotonic() + _START_S
        while _alive() <= known:
            if time.monotonic() > deadline:
                raise SystemExit(f"a node did not start in {_START_S:g} s")
            time.sleep(0.05)
        return node

    @classmethod
    @contextlib.contextmanager
    def started(cls) -> Generator[Raylets]:
        """Start a head without browsers and connect to it; all of it ends with the block."""
        folder = ray_folder.make()
        cores = sorted(os.sched_getaffinity(0))
        raylets: Raylets | None = None
        with pinned_to(cores[0]):  # whoever coordinates is on the first machine
            try:
                found = cast("Any", ray).init(
                    address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                    object_store_memory=_STORE_BYTES, _temp_dir=folder,
                )  # fmt: skip
                raylets = cls(cores, found.address_info["gcs_address"])
                yield raylets
            finally:
                for node in () if raylets is None else raylets.nodes:
                    node.kill()
                cast("Any", ray).shutdown()
                ray_folder.remove(folder)


def _alive() -> int:
    nodes = cast("list[dict[str, Any]]", cast("Any", ray).nodes())
    return sum(bool(node["Alive"]) for node in nodes)
