"""Sandboxes as a session uses them: made, written to, asked to run something, built in, put away without a trace.

    python -m benchmarks.sandbox [--quick] [--check] --json FILE

Medians on this machine. ``local_cold_ms`` is from nothing to the answer of a first command, ``local_exec_ms`` the round
trip of a command, ``local_exec_over_bare`` how many times that of the same program without walls. ``batch_write_ms``
writes ten files; ``checkpoint_1000_s`` stores 1,000 files of 4 KB, ``checkpoint_same_ms`` finds that none of them
changed. ``dev_server_ms`` is until the template's dev server answers in a container of the image that it is baked into,
``local_dev_server_ms`` in a local sandbox; ``vite_build_s`` is its build in one. ``leaked`` counts what twenty
sandboxes each of the local provider, Docker and gVisor leave behind at any depth: files, processes also without their
parents, mounts, sockets, control groups, containers, volumes and networks; what it is, is printed.

``docker_`` is the same with Docker, ``gvisor_cold_ms`` with gVisor, ``_over_run`` and ``_over_exec`` how many times
that of ``docker run`` and ``docker exec`` from a shell. ``pool_handout_ms`` is from the request to the answer of a
first command in a container that was made ahead. ``image_s`` is what building the image took, where it was not there
from an earlier time; it is no part of the rest. Without an engine all these are left out, and it is said why. Beside
each figure that has one its target is printed. ``--quick`` repeats less, and takes under a minute where the image is
there; ``--check`` ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from benchmarks.containers import EngineInUse, engine
from benchmarks.traces import Traces
from koda_ray.config import Settings
from koda_ray.errors import Missing
from koda_ray.sandbox.base import FileStamp, Sandbox, SandboxProvider, Snapshot
from koda_ray.sandbox.build import build
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.template import TemplateProject
from koda_ray.state.checkpoint import CheckpointTree, Manifest, save
from koda_ray.state.storage import Storage
from koda_ray.types import NodeState, new_id

__all__ = ["TARGETS", "bars", "lines", "main"]

SESSION, USER, PROJECT = "ses_bench", "local", "prj_bench"
FILES, FILE_BYTES, BATCH, STORED = 1000, 4096, 10, 5
MADE = 20
TARGETS = {
    "pool_handout_ms": 100.0, "docker_cold_ms": 1500.0, "gvisor_cold_ms": 3000.0, "local_cold_ms": 150.0,
    "docker_exec_ms": 60.0, "local_exec_ms": 20.0, "batch_write_ms": 100.0, "dev_server_ms": 3000.0,
    "vite_build_s": 8.0, "checkpoint_1000_s": 2.0, "checkpoint_same_ms": 200.0, "leaked": 0.0,
}  # fmt: skip
"""What each figure is to stay under; nothing is to be left."""
AT_ONCE = 4
_TRUE = ("true",)
_READY_TIMEOUT_S = 60.0
STATE = NodeState(node_id=SESSION, session_id=SESSION, user_id=USER, project_id=PROJECT)


class TimedProvider:
    """One provider under the clock."""

    def __init__(self, provider: SandboxProvider, *, rounds: int) -> None:
        self._provider = provider
        self._rounds = rounds

    async def close(self) -> None:
        """Let go of the provider."""
        await self._provider.close()

    async def make(self) -> Sandbox:
        """Make a sandbox."""
        return await self._provider.create(sandbox_id=new_id("sbx"), session_id=SESSION, user_id=USER)

    async def cold_ms(self) -> float:
        """From nothing to the answer of a first command."""
        times: list[float] = []
        for _ in range(self._rounds):
            begun = time.perf_counter()
            box = await self.make()
            await box.run(_TRUE)
            times.append((time.perf_counter() - begun) * 1000)
            await box.destroy()
        return statistics.median(times)

    async def handout_ms(self, ready: Callable[[], None]) -> float:
        """From the request to the answer of a first command; ``ready`` waits until one is there for it."""
        times: list[float] = []
        for _ in range(self._rounds):
            await asyncio.to_thread(ready)
            begun = time.perf_counter()
            box = await self.make()
            await box.run(_TRUE)
            times.append((time.perf_counter() - begun) * 1000)
            await box.destroy()
        return statistics.median(times)

    async def build_s(self, box: Sandbox, times: int) -> float:
        """The template's build."""
        built = [await build(box) for _ in range(times)]
        if not all(result.ok for result in built):
            raise SystemExit(f"the template does not build: {built[0].problems}")
        return statistics.median(result.duration_s for result in built)

    async def exec_ms(self, box: Sandbox) -> float:
        """A command's round trip."""
        return await _median(lambda: box.run(_TRUE), self._rounds * 4)

    async def write_ms(self, box: Sandbox) -> float:
        """Ten files in one call."""
        turn = iter(range(10**6))

        async def write() -> None:
            number = next(turn)
            await box.write_files({f"src/made/{name}.ts": b"%d %d\n" % (number, name) * 200 for name in range(BATCH)})

        return await _median(write, self._rounds * 2)

    async def dev_server_ms(self) -> float:
        """A new sandbox's dev server, from the request to its first answer."""
        times: list[float] = []
        for _ in range(max(1, self._rounds // 2)):
            box = await self.make()
            begun = time.perf_counter()
            await box.start_preview()
            times.append((time.perf_counter() - begun) * 1000)
            await box.destroy()
        return statistics.median(times)

    async def make_many(self, made: Callable[[Sandbox], None]) -> None:
        """Make and destroy twenty, a few at a time, each with a background process and a dev server's socket.

        Args:
            made: Told of each while it runs.
        """
        room = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with room:
                box = await self.make()
                await box.start("waits", ("sleep", "600"))
                await asyncio.to_thread(made, box)
                if number % 5 == 0:
                    await box.start_preview()
                await box.destroy()

        await asyncio.gather(*(one(number) for number in range(MADE)))


async def _median(call: Callable[[], Awaitable[object]], times: int) -> float:
    taken: list[float] = []
    for _ in range(times):
        begun = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def _bare_ms(times: int) -> float:
    """The same program as a plain child."""
    taken: list[float] = []
    for _ in range(times):
        begun = time.perf_counter()
        subprocess.run(_TRUE, check=True, capture_output=True)
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


async def _checkpoints(box: Sandbox, folder: Path) -> dict[str, float]:
    """Store a thousand files, each time where none of them is yet; then the same again, then with one more."""
    await box.write_files({f"src/many/{i:04d}.bin": os.urandom(FILE_BYTES) for i in range(FILES)})
    files: dict[str, bytes] = {}
    known: dict[str, FileStamp] = {}
    previous: Manifest | None = None
    storage = Storage(str(folder))

    async def store() -> Snapshot:
        nonlocal known, previous
        taken = await box.snapshot(known=known)
        known = taken.stamps
        files.update(taken.changed)
        for path in taken.removed:
            files.pop(path, None)
        previous, _ = await save(
            storage,
            CheckpointTree(files=files, modes=taken.modes, folders=taken.folders),
            state=STATE,
            event_seq=1,
            previous=previous,
        )
        return taken

    async def first_s(turn: int) -> float:
        nonlocal storage, known, previous
        storage, known, previous = Storage(str(folder / f"{turn}")), {}, None
        files.clear()
        begun = time.perf_counter()
        taken = await store()
        if len(taken.changed) < FILES:
            raise SystemExit(f"{len(taken.changed)} of {FILES} files were seen")
        return time.perf_counter() - begun

    first = statistics.median([await first_s(turn) for turn in range(STORED)])
    same = await _median(store, 5)
    await box.write_files({"src/many/one-more.bin": b"1"})
    begun = time.perf_counter()
    await store()
    return {
        "checkpoint_1000_s": first,
        "checkpoint_same_ms": same,
        "checkpoint_one_ms": (time.perf_counter() - begun) * 1000,
    }


async def _figures(timed: TimedProvider, storage: Path, *, rounds: int, quick: bool) -> dict[str, float]:
    figures = {"local_cold_ms": await timed.cold_ms()}
    box = await timed.make()
    figures["local_exec_ms"] = await timed.exec_ms(box)
    figures["local_exec_over_bare"] = figures["local_exec_ms"] / _bare_ms(rounds * 4)
    figures["batch_write_ms"] = await timed.write_ms(box)
    figures["vite_build_s"] = await timed.build_s(box, 1 if quick else 3)
    figures |= await _checkpoints(box, storage)
    await box.destroy()
    return figures | {"local_dev_server_ms": await timed.dev_server_ms()}


async def _containers(place: EngineInUse, root: Path, *, rounds: int, quick: bool) -> dict[str, float]:
    def provider(*, runtime: str | None = None, warm: int = 0) -> DockerProvider:
        return DockerProvider(
            root=root, image=place.image, plan=ContainerPlan(runtime=runtime), address=place.address, warm=warm
        )

    plain = provider()
    timed = TimedProvider(plain, rounds=rounds)
    figures = {"image_s": place.image_s} if place.image_s else {}
    figures["docker_cold_ms"] = await timed.cold_ms()
    figures |= _ratio("docker_cold_over_run", figures["docker_cold_ms"], place.run_ms(rounds))
    box = await timed.make()
    figures["docker_exec_ms"] = await timed.exec_ms(box)
    figures |= _ratio("docker_exec_over_exec", figures["docker_exec_ms"], place.exec_ms(rounds, f"koda-{box.id}"))
    figures["docker_batch_write_ms"] = await timed.write_ms(box)
    figures["docker_vite_build_s"] = await timed.build_s(box, 1 if quick else 3)
    await box.destroy()
    figures["dev_server_ms"] = await timed.dev_server_ms()
    figures["pool_handout_ms"] = await _handout_ms(provider(warm=2), root, rounds=rounds)
    many = [timed]
    if shutil.which("runsc"):
        strict = provider(runtime="runsc")
        many.append(TimedProvider(strict, rounds=rounds // 2 + 1))
        figures["gvisor_cold_ms"] = await many[-1].cold_ms()
        run_ms = place.run_ms(rounds // 2 + 1, runtime="runsc")
        figures |= _ratio("gvisor_cold_over_run", figures["gvisor_cold_ms"], run_ms)
    else:
        print("gVisor is not measured: runsc not on PATH (apt-get install runsc)")
    traces = Traces(root, places=place.folders, held=place.held)
    for one in many:
        await one.make_many(lambda box: traces.note(box.id, place.id_of(box.provider_id)))
        await one.close()
    figures["docker_leaked"] = _count(traces)
    return figures


async def _handout_ms(provider: DockerProvider, root: Path, *, rounds: int) -> float:
    def ready() -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not any('"state": "warm"' in record.read_text() for record in root.glob("docker/sbx_*/sandbox.json")):
            if time.monotonic() > deadline:
                raise SystemExit("no sandbox was made ahead")
            time.sleep(0.05)

    keeping = asyncio.create_task(provider.keep_warm())
    try:
        return await TimedProvider(provider, rounds=rounds).handout_ms(ready)
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
        await provider.close()


def _ratio(name: str, figure: float, base: float | None) -> dict[str, float]:
    if base is None:
        print(f"{name} is not measured: docker not on PATH (apt-get install docker-cli)")
        return {}
    return {name: figure / base}


async def _local(settings: Settings, folder: Path, *, rounds: int, quick: bool) -> dict[str, float]:
    root = folder / "boxes"
    provider = LocalProvider(
        root=root, template=TemplateProject(folder=settings.template_path, node_modules=settings.node_modules_path)
    )
    try:
        figures = await _figures(TimedProvider(provider, rounds=rounds), folder / "storage", rounds=rounds, quick=quick)
    finally:  # a disk that is mounted would outlive its folder
        for info in await provider.list():
            await provider.destroy(info.id)
    traces = Traces(root)
    await TimedProvider(provider, rounds=rounds).make_many(lambda box: traces.note(box.id))
    return figures | {"leaked": _count(traces)}


def _count(traces: Traces) -> int:
    left = traces.left()
    for line in sorted(left):
        print(f"left behind: {line}")
    return len(left)


def measure(*, quick: bool) -> dict[str, float]:
    """Take all figures."""
    settings = Settings()
    rounds = 5 if quick else 15
    with tempfile.TemporaryDirectory(prefix="koda-bench-sandbox-") as name:
        figures = asyncio.run(_local(settings, Path(name), rounds=rounds, quick=quick))
        try:
            with engine(settings) as place:
                figures |= asyncio.run(_containers(place, Path(name, "containers"), rounds=rounds, quick=quick))
        except Missing as error:
            print(f"Docker is not measured: {error.message}")
    figures["leaked"] += figures.pop("docker_leaked", 0)
    return figures


def bars(figures: Mapping[str, float]) -> dict[str, dict[str, float | bool]]:
    """Say of each figure that has a target whether it holds: below it, or nothing where nothing is to be."""
    return {
        name: {"bar": target, "holds": figures[name] < target or figures[name] == target == 0}
        for name, target in TARGETS.items()
        if name in figures
    }


def lines(figures: Mapping[str, float]) -> list[str]:
    """Say each figure in a line, with its target where it has one, and which targets nothing was measured for."""
    found, said = bars(figures), list[str]()
    for name, value in figures.items():
        bar = found.get(name)
        word = "" if bar is None else f"  (target {bar['bar']:g}{'' if bar['holds'] else ', MISSED'})"
        said.append(f"{name:>24} {value:g}{word}")
    missing = [name for name in TARGETS if name not in figures]
    return said + [f"{name:>24} not measured  (target {TARGETS[name]:g})" for name in missing]


def main() -> None:
    """Run the benchmark and write its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sandbox", description="Time sandboxes.")
    parser.add_argument(
        "--quick", action="store_true", help="fewer repetitions: under a minute where the image is there"
    )
    parser.add_argument("--check", action="store_true", help="end with 1 where a target is missed")
    parser.add_argument("--json", type=Path, required=True, help="where to write the figures")
    given = parser.parse_args()
    figures = {name: round(value, 2) for name, value in measure(quick=given.quick).items()}
    found = bars(figures)
    given.json.write_text(json.dumps({**figures, "bars": found}, indent=1) + "\n")
    for line in lines(figures):
        print(line)
    if given.check and not all(bar["holds"] for bar in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
