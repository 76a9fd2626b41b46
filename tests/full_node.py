"""A cluster with a node whose disk is full: Ray's own files lie there as well, as they do on a machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from koda_ray.config import REPO_ROOT
from koda_ray.resources import CHROMIUM_RESOURCE
from koda_ray.serve import ray_folder
from tests.disks import small

__all__ = ["FullTown", "full_town"]

_DISK_MB = 16
_OWN: dict[str, Any] = {"object_store_memory": 10**8, "env_vars": {"PYTHONPATH": str(REPO_ROOT)}}


@dataclass
class FullTown:
    """A head without browsers, and a node with one whose disk is full."""

    cluster: Any
    full: str

    def add(self) -> str:
        """Start a node like that, with room; return Ray's id of it."""
        return str(self.cluster.add_node(num_cpus=1, resources={CHROMIUM_RESOURCE: 1}, **_OWN).node_id)


@contextmanager
def full_town(first: Callable[[Path], object] = lambda _: None) -> Iterator[FullTown]:
    """Start it, and connect to it.

    Args:
        first: What is done with the disk before it is filled.
    """
    folder = ray_folder.make()
    address = Path(tempfile.gettempdir(), "ray")  # where a head writes its address down
    address.mkdir(exist_ok=True)
    with small(Path(folder).parent / "d", _DISK_MB) as disk:
        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "temp_dir": folder, "include_dashboard": False, **_OWN}
        )
        try:
            there = {**_OWN, "env_vars": {**_OWN["env_vars"], "TMPDIR": str(disk)}}
            full = made.add_node(num_cpus=1, resources={CHROMIUM_RESOURCE: 1}, temp_dir=str(disk), **there)
            ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
            first(disk)
            with suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 12))
            yield FullTown(made, str(full.node_id))
        finally:
            ray.shutdown()
            made.shutdown()
    ray_folder.remove(folder)
    shutil.rmtree(address)
