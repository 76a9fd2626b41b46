"""What a container of the Docker provider is made of: its walls, limits, scratch space and first process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from koda_ray.sandbox.decoys import DECOYS, Decoys
from koda_ray.sandbox.docker_folders import container_name
from koda_ray.sandbox.engine import ContainerSpec, Image
from koda_ray.sandbox.image import AGENT, PACKAGES, TEMPLATE
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.link import INSIDE_FOLDER
from koda_ray.sandbox.policy import PROJECT_ROOT

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["OWNER", "PERSON", "SANDBOX", "SECRET", "SESSION", "USER", "ContainerPlan"]

USER = 1000
SANDBOX, SESSION, PERSON, OWNER = "koda.sandbox", "koda.session", "koda.user", "koda.installation"
SECRET = "KODA_OWNER_SECRET"

_MOST_SHM_BYTES = 64 * 1024 * 1024
_PLAIN_RUNTIMES = (None, "runc", "crun")
# a runtime with a kernel of its own (gVisor) lives under the same limit, with several tasks for each one inside: one
# for each of its threads that has run it (a terminal's dozen processes came to 740); where none is left, it panics
_TASKS_PER_PROCESS = 16
_TASKS_OF_KERNEL = 256


@dataclass(frozen=True, kw_only=True)
class ContainerPlan:
    """How containers of one provider are made.

    Attributes:
        limits: What each may use.
        runtime: ``runsc`` for gVisor; the engine's default when None.
        private: Places of this machine that nobody inside has any business with: who looks for them is told of, where
            that can be heard.
        database: The file of this machine that the database is in.
        decoys: What stands in each in place of this program's own; None where nobody would hear that it was read.
        traced: Whether the kernel of each tells of what it refuses (``gvisor_trace``).
        covers: Whether this program may lay files over some of each one's ``/proc`` (``docker_covers``).
    """

    limits: ResourceLimits = field(default_factory=ResourceLimits)
    runtime: str | None = None
    private: tuple[str, ...] = ()
    database: Path | None = None
    decoys: Decoys | None = None
    traced: bool = False
    covers: bool = False

    @property
    def shares_kernel(self) -> bool:
        """Whether containers are run by this machine's kernel itself."""
        return self.runtime in _PLAIN_RUNTIMES

    @classmethod
    def of(cls, settings: Settings) -> ContainerPlan:
        """Read it from settings (SANDBOX_RUNTIME, and the limits)."""
        private = (settings.sandbox_path, settings.storage_path, settings.database_path)
        return cls(
            limits=ResourceLimits.of(settings),
            runtime=settings.sandbox_runtime,
            private=tuple(str(path.absolute()) for path in private),
            database=settings.database_path,
        )

    def kind(self, image: Image) -> str:
        """Tell what a container of this provider is made of from any other's."""
        spec = self.spec("", image="", secret="", labels={}, folder="", known=True)
        given = asdict(replace(spec, watched=self.watched(Path())))
        return hashlib.sha256(json.dumps([image.id, given], sort_keys=True).encode()).hexdigest()[:16]

    def watched(self, directory: Path) -> Mapping[str, str]:
        """Say what of a sandbox's own folder stands where in its container, in place of what is this program's."""
        if self.decoys is None:
            return {}
        return {str(ours): place for place, ours in self.decoys.shown(directory / DECOYS).items()}

    def spec(
        self, sandbox_id: str, *, image: str, secret: str, labels: Mapping[str, str], folder: str, known: bool
    ) -> ContainerSpec:
        """Describe the container of one sandbox; ``known`` says whether the image is not somebody's own."""
        limits = self.limits
        owned = f"uid={USER},gid={USER},mode=755"
        disk = f"rw,exec,nosuid,nodev,size={limits.tmpfs_bytes},nr_inodes={limits.inodes}"
        scratch = f"rw,exec,nosuid,nodev,size={limits.scratch_bytes}"
        return ContainerSpec(
            name=container_name(sandbox_id),
            image=image,
            command=("/usr/bin/python3", "-I", "-S", AGENT),
            environment={
                "PYTHONDONTWRITEBYTECODE": "1",
                "KODA_OWNER_FOLDER": INSIDE_FOLDER,
                SECRET: secret,
                "KODA_TEMPLATE": TEMPLATE,
                "KODA_PACKAGES": PACKAGES,
                "KODA_DISK_BYTES": str(limits.tmpfs_bytes),
                "KODA_DISK_NOTE": f"{limits.tmpfs_bytes >> 20} MB, SANDBOX_DISK_MB",
                **({"CALLS_TOLD": "1"} if self.traced else {}),
            },
            labels=labels,
            folders={folder: INSIDE_FOLDER},
            tmpfs={
                PROJECT_ROOT: f"{disk},{owned}",
                "/home/user": f"{scratch},{owned}",
                "/tmp": f"{scratch},mode=1777",
            },
            memory_bytes=limits.memory_bytes,
            # with the disk and both scratch folders 13/16 of the memory: full, they leave room for the first process
            shm_bytes=min(_MOST_SHM_BYTES, limits.memory_bytes // 16),
            pids=limits.pids if self.shares_kernel else limits.pids * _TASKS_PER_PROCESS + _TASKS_OF_KERNEL,
            cpus=limits.cpus,
            open_files=limits.open_files,
            runtime=self.runtime,
            asks=known and self.shares_kernel,
        )
