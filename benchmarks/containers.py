"""The Docker engine that sandboxes are timed at, and what its own commands take from a shell.

That is the engine of the settings where it holds the image, else one of our own: as root, from Debian's ``docker.io``,
with its images kept in ``.koda`` for the next time.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from koda_ray.config import REPO_ROOT, Settings
from koda_ray.errors import Missing
from koda_ray.sandbox.engine import Engine
from koda_ray.sandbox.image import AGENT_LABEL, agent_digest, build_image
from koda_ray.sandbox.image_context import ImageContext
from tests import dockerd

__all__ = ["EngineInUse", "engine"]

_DATA = REPO_ROOT / ".koda" / "sandbox-image" / "engine"
_NETWORK = ("--network", "none")


@dataclass(frozen=True)
class EngineInUse:
    """An engine that holds the image.

    ``image_s`` is what building the image took, 0 where it was there. ``folders`` are those in which it works.
    """

    address: str
    image: str
    image_s: float = 0.0
    folders: tuple[Path, ...] = ()

    def run_ms(self, times: int, *, runtime: str | None = None) -> float | None:
        """From a shell, a container from nothing to the end of its first command; None without a ``docker`` program."""
        chosen = () if runtime is None else ("--runtime", runtime)
        return self._shell_ms(("run", "--rm", *_NETWORK, *chosen, self.image, "true"), times)

    def exec_ms(self, times: int, container: str) -> float | None:
        """From a shell, a command's round trip in a container that runs; None without a ``docker`` program."""
        return self._shell_ms(("exec", container, "true"), times)

    def id_of(self, container: str) -> str:
        """Return what the engine itself calls a container: processes and control groups carry that."""
        import docker

        client: Any = docker.APIClient(base_url=self.address, version="auto")
        try:
            return str(client.inspect_container(container)["Id"])
        finally:
            client.close()

    def held(self) -> set[str]:
        """Say which containers, volumes and networks the engine has."""
        import docker

        client: Any = docker.APIClient(base_url=self.address, version="auto")
        try:
            found = {f"container {row['Id']}" for row in client.containers(all=True)}
            found |= {f"volume {row['Name']}" for row in client.volumes()["Volumes"] or ()}
            return found | {f"network {row['Id']}" for row in client.networks()}
        finally:
            client.close()

    def _shell_ms(self, words: Sequence[str], times: int) -> float | None:
        program = shutil.which("docker")
        if program is None:
            return None
        taken: list[float] = []
        for _ in range(times):
            begun = time.perf_counter()
            subprocess.run([program, "--host", self.address, *words], check=True, capture_output=True)
            taken.append((time.perf_counter() - begun) * 1000)
        return statistics.median(taken)


@contextmanager
def engine(settings: Settings) -> Generator[EngineInUse]:
    """Have an engine with the image for the block.

    Raises:
        Missing: MISSING, there is none, with what is in the way of starting one.
    """
    found = Engine(settings.docker_host).probe(settings.sandbox_image)
    if found is not None and found.labels.get(AGENT_LABEL) == agent_digest():
        yield EngineInUse(settings.docker_host or "unix:///var/run/docker.sock", settings.sandbox_image)
        return
    why = dockerd.why_not()
    if why is not None:
        raise Missing(f"no engine holds {settings.sandbox_image}, and none of our own can be started: {why}")
    _DATA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kb-") as folder, dockerd.started(Path(folder), data=_DATA) as address:
        yield EngineInUse(address, settings.sandbox_image, _make_image(settings, address), (Path(folder), _DATA))


def _make_image(settings: Settings, address: str) -> float:
    own = Engine(address)
    try:
        found = own.probe(settings.sandbox_image)
        if found is not None and found.labels.get(AGENT_LABEL) == agent_digest():
            return 0.0
        if own.probe(dockerd.BASE_IMAGE) is None:
            dockerd.give_base(own)
        begun = time.perf_counter()
        with ImageContext.of(settings, slim=True) as context:
            build_image(own, context, base=dockerd.BASE_IMAGE, tag=settings.sandbox_image)
        return time.perf_counter() - begun
    finally:
        asyncio.run(own.close())
