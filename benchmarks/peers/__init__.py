"""Other renderers on this machine, each at its best settings, drawing the very scenes that we draw.

They come from npm, run with the browser that we use, and say when their first frames are there; so a start and a
steady pace can be told apart for all in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import psutil

from benchmarks.cpu import children_cpu_s
from benchmarks.packages import cache_folder, install
from benchmarks.scenes import SCENES, scene_source, three_module
from koda_ray.render.programs import find_browser

__all__ = ["PEERS", "HyperFrames", "PeerJob", "PeerRenderer", "PeerRun", "PuppeteerCapture", "Remotion"]

REMOTION = "4.0.529"
REACT = "19.2.0"
HYPERFRAMES = "0.8.170"
NODE = "22"
PUPPETEER_CAPTURE = "1.58.0"
PUPPETEER = "24.43.0"
ESBUILD = "0.25.12"
_RUN_TIMEOUT_S = 900
_ORPHAN_WAIT_S = 5.0
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class PeerJob:
    """One video of a scene, at CRF 18."""

    scene: str
    width: int
    height: int
    fps: int
    frames: int
    workers: int
    folder: Path


@dataclass(frozen=True)
class PeerRun:
    """What a peer's run took.

    ``total_s`` is from the start of its process to the video, ``wall_ms`` per frame from its first frame on, ``cpu_ms``
    per frame over everything.
    """

    variant: str
    total_s: float
    wall_ms: float
    cpu_ms: float
    video: Path


class PeerRenderer(Protocol):
    """A renderer to compare with; ``variants`` are its settings that may be the best for a scene.

    ``most_workers`` is how many it takes at most; None where it takes any number.
    """

    name: str
    variants: tuple[str, ...]
    most_workers: int | None

    async def prepare(self) -> None:
        """Install it, and build what it builds once for all videos."""
        ...

    async def render(self, job: PeerJob, variant: str) -> PeerRun:
        """Render one video."""
        ...


class Remotion:
    """Remotion's renderMedia with a tab for each worker, on Mesa's llvmpipe where EGL is there."""

    name = "remotion"
    most_workers: int | None = os.cpu_count()
    variants: tuple[str, ...] = ("angle-egl ultrafast", "angle-egl superfast", "angle-egl medium")

    def __init__(self) -> None:
        self._bundle = Path()
        self._folder = Path()

    async def prepare(self) -> None:
        """Install Remotion, and bundle the scenes."""
        packages = [f"{name}@{REMOTION}" for name in ("remotion", "@remotion/bundler", "@remotion/renderer")]
        modules = await install(self.name, [*packages, f"react@{REACT}", f"react-dom@{REACT}"])
        self._folder = modules.parent
        self._bundle = self._folder / "bundle"
        shutil.rmtree(self._bundle, ignore_errors=True)
        scenes = [f"{name}={scene_source(name)}" for name in SCENES]
        command = ["node", str(_HERE / "remotion.mjs"), "bundle", str(self._bundle), str(three_module()), *scenes]
        await _run(command, self._folder)

    async def render(self, job: PeerJob, variant: str) -> PeerRun:
        """Render one video."""
        gl, preset = variant.split()
        video = job.folder / f"remotion-{job.scene}.mp4"
        request = {
            "serveUrl": str(self._bundle),
            "scene": job.scene,
            **{name: getattr(job, name) for name in ("width", "height", "fps", "frames", "workers")},
            "preset": preset,
            "gl": gl,
            "browser": str(find_browser().path),
            "output": str(video),
        }
        argv = ["node", str(_HERE / "remotion.mjs"), "render", json.dumps(request)]
        return await _measure(job, variant, _Command(argv=argv, cwd=self._folder, video=video, frames_of=_told_frames))


class HyperFrames:
    """HyperFrames' command line with a browser for each worker, in its BeginFrame mode."""

    name = "hyperframes"
    most_workers: int | None = None
    variants: tuple[str, ...] = ("hardware draft", "software draft")

    def __init__(self) -> None:
        self._modules = Path()

    async def prepare(self) -> None:
        """Install HyperFrames with the node it needs, and give the browser the name that it looks for."""
        machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
        self._modules = await install(self.name, [f"hyperframes@{HYPERFRAMES}", f"node-linux-{machine}@{NODE}"])
        self._node = self._modules / f"node-linux-{machine}" / "bin"
        self._shell = _shell_below(self._modules.parent)

    async def render(self, job: PeerJob, variant: str) -> PeerRun:
        """Render one video; "draft" stands for x264's fastest preset, at our CRF."""
        graphics, quality = variant.split()
        project = job.folder / f"hyperframes-{job.scene}"
        await _build(job, project, self._modules, "hyperframes.js")
        video = job.folder / f"hyperframes-{job.scene}.mp4"
        environment = {
            "PATH": f"{self._node}:{os.environ['PATH']}",
            "HOME": str(cache_folder() / self.name),
            "PRODUCER_HEADLESS_SHELL_PATH": str(self._shell),
            "HYPERFRAMES_NO_TELEMETRY": "1",
            "HYPERFRAMES_NO_UPDATE_CHECK": "1",
            "DO_NOT_TRACK": "1",
        }
        options = ["--crf", "18", "--workers", str(job.workers), "--quality", quality]
        options += ["--browser-gpu"] if graphics == "hardware" else ["--no-browser-gpu"]
        program = str(self._modules / "hyperframes" / "bin" / "hyperframes.mjs")
        command = _Command(
            argv=[str(self._node / "node"), program, "render", str(project), "-o", str(video), *options],
            cwd=job.folder,
            environment=environment,
            video=video,
            frames_of=_hyperframes_frames,
        )
        return await _measure(job, variant, command)


class PuppeteerCapture:
    """puppeteer-capture with its one page, whatever the number of workers."""

    name = "puppeteer-capture"
    most_workers: int | None = 1
    variants: tuple[str, ...] = ("egl ultrafast", "egl superfast", "default superfast")

    def __init__(self) -> None:
        self._modules = Path()

    async def prepare(self) -> None:
        """Install it, and give the browser the name that it looks for."""
        packages = [f"puppeteer-capture@{PUPPETEER_CAPTURE}", f"puppeteer-core@{PUPPETEER}", f"esbuild@{ESBUILD}"]
        self._modules = await install(self.name, packages)
        self._shell = _shell_below(self._modules.parent)

    async def render(self, job: PeerJob, variant: str) -> PeerRun:
        """Render one video."""
        gl, preset = variant.split()
        project = job.folder / f"puppeteer-capture-{job.scene}"
        await _build(job, project, self._modules, "puppeteer-capture.js")
        video = job.folder / f"puppeteer-capture-{job.scene}.mp4"
        request = {
            "page": str(project / "index.html"),
            **{name: getattr(job, name) for name in ("width", "height", "fps", "frames")},
            "preset": preset,
            "gl": gl,
            "browser": str(self._shell),
            "output": str(video),
        }
        argv = ["node", str(_HERE / "puppeteer-capture.mjs"), json.dumps(request)]
        command = _Command(argv=argv, cwd=self._modules.parent, video=video, frames_of=_told_frames)
        return await _measure(job, variant, command)


PEERS: Mapping[str, Callable[[], PeerRenderer]] = {
    "remotion": Remotion,
    "hyperframes": HyperFrames,
    "puppeteer-capture": PuppeteerCapture,
}

_HF_PROGRESS = re.compile(r'@hf-progress (\{"code":"capture".*\})')


def _shell_below(folder: Path) -> Path:
    """Give our browser the name that others look for."""
    shell = folder / "chrome-headless-shell" / "chrome-headless-shell"
    shell.parent.mkdir(exist_ok=True)
    shell.unlink(missing_ok=True)
    shell.symlink_to(find_browser().path)
    return shell


async def _build(job: PeerJob, project: Path, modules: Path, entry: str) -> None:
    """Write a page that draws a job's scene, and its script."""
    sources = await asyncio.to_thread(_write_project, job, project, entry)
    bundle = [str(modules / ".bin" / "esbuild"), "app.js", "--bundle", "--minify", "--format=iife"]
    await _run([*bundle, f"--alias:three={three_module()}", f"--outfile={project / 'app.js'}"], sources)


def _write_project(job: PeerJob, project: Path, entry: str) -> Path:
    """Write a page without its script; return the folder of what that is made of."""
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir(parents=True)
    values = {"WIDTH": job.width, "HEIGHT": job.height, "FPS": job.fps, "DURATION": job.frames / job.fps}
    page = (_HERE / "page.html").read_text()
    for name, value in values.items():
        page = page.replace(f"__{name}__", f"{value:g}")
    (project / "index.html").write_text(page)
    sources = project.with_name(f"{project.name}-source")
    shutil.rmtree(sources, ignore_errors=True)
    sources.mkdir()
    shutil.copy(_HERE / entry, sources / "app.js")
    shutil.copy(scene_source(job.scene), sources / "scene.js")
    return sources


def _told_frames(line: str) -> int | None:
    if not line.startswith("{"):
        return None
    event = cast("dict[str, object]", json.loads(line))
    return cast("int", event["done"]) if event.get("event") == "frames" else None


def _hyperframes_frames(line: str) -> int | None:
    found = _HF_PROGRESS.search(line)
    return int(json.loads(found[1])["done"]) if found else None


@dataclass(frozen=True, kw_only=True)
class _Command:
    """What is run to make ``video``, and how a line that it prints is read: as frames that are done, if any."""

    argv: list[str]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    video: Path
    frames_of: Callable[[str], int | None]


async def _measure(job: PeerJob, variant: str, command: _Command) -> PeerRun:
    first: list[tuple[float, int]] = []

    def hear(line: str) -> None:
        if not first and (done := command.frames_of(line)):
            first.append((time.perf_counter(), done))

    await asyncio.to_thread(command.video.unlink, missing_ok=True)
    cpu, started = children_cpu_s(), time.perf_counter()
    ended = await _run(command.argv, command.cwd, command.environment, hear)
    if not first or not await asyncio.to_thread(command.video.exists):
        raise SystemExit(f"{command.argv[0]} left no video, or told of no frame, of {job}")
    begun, already = first[0]
    return PeerRun(
        variant=f"{variant} {job.workers}",
        total_s=ended - started,
        wall_ms=(ended - begun) * 1000 / max(1, job.frames - already),
        cpu_ms=(children_cpu_s() - cpu) * 1000 / job.frames,
        video=command.video,
    )


def _deaf(_line: str) -> None:
    return None


async def _run(
    command: list[str],
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    hear: Callable[[str], None] = _deaf,
) -> float:
    """Run a program and what it leaves behind to their end; return when the program itself ended."""
    before = {child.pid for child in psutil.Process().children()}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    said: list[str] = []
    rest = ""
    async with asyncio.timeout(_RUN_TIMEOUT_S):
        while data := await process.stdout.read(1 << 16):
            *lines, rest = re.split(r"[\r\n]+", rest + data.decode(errors="replace"))
            for line in lines:
                hear(line)
            said = [*said, *lines][-60:]
        await process.wait()
    ended = time.perf_counter()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:300]} failed:\n" + "\n".join(said))
    orphans = [child for child in psutil.Process().children() if child.pid not in before]
    _, left = await asyncio.to_thread(psutil.wait_procs, orphans, _ORPHAN_WAIT_S)
    for orphan in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            orphan.kill()
            orphan.wait(_ORPHAN_WAIT_S)
    return ended
