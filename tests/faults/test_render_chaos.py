"""One video on a cluster of several nodes, while its processes, its nodes and the head are killed at random."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET
from ray.cluster_utils import Cluster

from koda_ray.render.isolation import sweep_dead_folders
from koda_ray.render.job import RenderJob
from koda_ray.render.local import LocalExecutor
from koda_ray.render.protocol import JobContext
from koda_ray.render.spec import RenderSpec
from koda_ray.resources import CHROMIUM_RESOURCE
from koda_ray.serve import ray_folder
from koda_ray.state.storage import Storage
from tests import leaks
from tests.render.conftest import USER, put_page, small

KILLS = int(os.environ.get("KODA_TEST_KILLS", "7"))
"""How many kills one video survives; more take longer: 50 take about five minutes."""
SEED = int(os.environ.get("KODA_TEST_SEED", "1"))
LIMIT_S = 300 + 30 * KILLS

pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.ray,
    pytest.mark.browser,
    pytest.mark.timeout(LIMIT_S + 600),  # the cluster, and the video that nothing is killed for, are made before
    pytest.mark.asyncio(loop_scope="module"),
]

VICTIMS: dict[str, Callable[[str], bool]] = {
    "worker": lambda line: line.startswith("ray::_capture"),
    "browser": lambda line: "--user-data-dir" in line and "--type=" not in line and "bwrap" not in line,
    "renderer": lambda line: "--type=renderer" in line,
    "ffmpeg": lambda line: "matroska" in line,
}


AWAY_S = 2.0
"""How long the head is away when it is killed."""


class Nodes:
    """A head without browsers that writes down what it knows, and two nodes with one each; all may be killed."""

    def __init__(self, folder: str) -> None:
        self._cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "temp_dir": folder,
                "include_dashboard": False,
                "object_store_memory": 10**8,
            },
        )
        self.nodes = [self._add(), self._add()]

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def replace(self, index: int) -> None:
        """Kill a node as a power cut would, and start another."""
        self._cluster.remove_node(self.nodes[index], allow_graceful=False)
        self.nodes[index] = self._add()
        for raylet in self.nodes[index].all_processes[PROCESS_TYPE_RAYLET]:
            leaks.adopt(raylet.process.pid)  # it ends with the cluster

    def shutdown(self) -> None:
        self._cluster.shutdown()

    async def kill_head(self) -> None:
        """Kill what the cluster knows itself by, and start it again a while later with what it had written down."""
        head = self._cluster.head_node
        head.kill_gcs_server()
        await asyncio.sleep(AWAY_S)
        head.start_gcs_server()
        for server in head.all_processes[PROCESS_TYPE_GCS_SERVER]:
            leaks.adopt(server.process.pid)

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=1, resources={CHROMIUM_RESOURCE: 1}, object_store_memory=10**8)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    folder = ray_folder.make()
    address = Path(tempfile.gettempdir(), "ray")  # where a head writes its address down
    address.mkdir(exist_ok=True)
    keeps = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": f"{folder}/gcs"}
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**keeps, "RAY_gcs_rpc_server_reconnect_timeout_s": "600"}.items():
            environment.setenv(name, value)
        cluster = Nodes(folder)
        yield cluster
        cluster.shutdown()
    ray_folder.remove(folder)
    shutil.rmtree(address)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "storage"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def expected(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[RenderSpec, str, str]]:
    """The video, and what it is when nothing is killed."""
    calm = Storage(str(tmp_path_factory.mktemp("calm")))
    spec = small(await put_page(calm, "plain"), duration_s=12.0 + 2 * KILLS, fps=30)
    async with LocalExecutor(workers=2) as executor:
        result = await RenderJob(spec, JobContext(storage=calm, executor=executor, job_id="job_1", user_id=USER)).run()
    yield spec, result.frame_hash, str(result.report["sha256"])


class Coordinator:
    """The process that runs the job; started again whenever it is dead."""

    def __init__(self, address: str, storage: Storage, spec: RenderSpec) -> None:
        self._arguments = [address, storage.url, json.dumps(spec.to_json())]
        self._process: asyncio.subprocess.Process | None = None
        self.starts = 0
        self.frames = 0
        self.moves = 0

    async def run(self) -> list[object]:
        """Return what the job says in the end."""
        while True:
            self.starts += 1
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.faults.coordinator", *self._arguments,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2],
            )  # fmt: skip
            assert process.stdout is not None and process.stderr is not None
            words = asyncio.create_task(process.stderr.read())
            async for line in process.stdout:
                if line.startswith(b"done "):
                    await process.wait()
                    await words
                    return list(json.loads(line[5:]))
                if not line.startswith(b"frames "):
                    continue  # Ray has its say too
                self.frames = int(line.split()[1])
                self.moves += 1
            code = await process.wait()
            said = (await words).decode(errors="replace")
            assert code == -signal.SIGKILL, f"the job failed by itself: {said[-3000:]}"

    def kill(self) -> bool:
        if self._process is None or self._process.returncode is not None:
            return False
        self._process.kill()
        return True

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def strike(matches: Callable[[str], bool], chance: random.Random) -> bool:
    """SIGKILL one of this run's processes that match."""
    found: list[psutil.Process] = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE and matches(" ".join(process.cmdline())):
                found.append(process)
    if not found:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        chance.choice(sorted(found, key=lambda process: process.pid)).kill()
    return True


async def test_several_nodes_make_the_same_video(
    nodes: Nodes, expected: tuple[RenderSpec, str, str], storage: Storage
) -> None:
    spec, frame_hash, digest = expected
    await put_page(storage, "plain")
    coordinator = Coordinator(nodes.address, storage, spec)
    try:
        async with asyncio.timeout(LIMIT_S):
            assert (await coordinator.run())[:3] == [frame_hash, digest, spec.frame_count]
    finally:
        await coordinator.close()
    assert coordinator.starts == 1


async def test_killed_at_random_the_video_is_finished_and_the_same(
    nodes: Nodes, expected: tuple[RenderSpec, str, str], storage: Storage
) -> None:
    spec, frame_hash, digest = expected
    await put_page(storage, "plain")
    chance = random.Random(SEED)
    kinds = [*VICTIMS, "coordinator", "node", "head"]  # each once, and then by chance
    coordinator = Coordinator(nodes.address, storage, spec)
    struck: list[str] = []
    running = asyncio.create_task(coordinator.run())
    try:
        async with asyncio.timeout(LIMIT_S):
            while not running.done() and len(struck) < KILLS:
                seen = coordinator.moves
                while coordinator.moves == seen and not running.done():  # the job is at work
                    await asyncio.sleep(0.02)
                await asyncio.sleep(chance.random())  # any moment
                kind = kinds[len(struck)] if len(struck) < len(kinds) else chance.choice(kinds)
                if kind == "coordinator":
                    hit = coordinator.kill()
                elif kind == "node":
                    nodes.replace(chance.randrange(2))  # Ray wants the main thread for it
                    hit = True
                elif kind == "head":
                    await nodes.kill_head()
                    hit = True
                else:
                    hit = strike(VICTIMS[kind], chance)
                if hit:
                    struck.append(kind)
            result = await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await coordinator.close()
    assert len(struck) == KILLS, f"the job was over after {struck}"
    assert set(struck) >= set(kinds[:KILLS]), "head and coordinator among them"
    assert result[:3] == [frame_hash, digest, spec.frame_count]
    assert coordinator.starts == 1 + struck.count("coordinator")
    # whoever was killed could not clean up; the next start does
    sweep_dead_folders()
