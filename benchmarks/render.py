"""The render engine against the machine's own limit, and against other renderers in the same run.

    python -m benchmarks.render [--quick] [--peers remotion,hyperframes] [--scenes dom] [--rounds 3] --json FILE

Runs are interleaved (ours, a peer, ours, the next), figures are medians, and what matters are their ratios, because the
machine is the same for all. The floor of a scene is what painting its frames and encoding them with x264 cost by
themselves (`benchmarks.floor`), measured in every round, since a machine is not as fast in one as in the next. Keys of
the JSON, with a value for each scene:

- ``cpu_over_floor``: processor time a frame, of everything that works for a job, over the floor's;
  ``cpu_over_floor_ms`` the milliseconds of it that the floor does not need, which say more where a frame costs little,
  and ``cpu_over_floor_by_ms`` which processes take them (`benchmarks.cpu.ProcessKind`), of the run in the middle
- ``pictures_over_floor``: the same of painting, of the browser's handing the picture over, and of x264, with nothing of
  ours: what is left between this and ``cpu_over_floor`` is the engine's
- ``wall_over_half_floor``: wall a frame on two processors, until all units are stored, over half of the floor's CPU
- ``speedup_over_best_peer``: wall a frame from the first frame to the finished file, the best peer's over ours;
  ``cold_speedup_over_best_peer`` from the start of a process. A peer has the settings with which it is fastest; of
  ours, ``fast``, which is what we do unasked, and ``draft``, those count whose picture is no worse than the peer's
- ``possible_over_best_peer``: the best peer's wall over half of the floor with pictures: what no engine that takes its
  pictures from this browser gets beyond
- ``alone_over_best_peer``: the same with one worker each, as each of them is asked for one, in every round too; a peer
  has the settings with which it is fastest so
- ``ssim``: of ours and each peer's video with pictures taken without loss

(all of 1080p60; with ``_360p`` behind it, of 640x360 at 15 frames a second; a ratio is null where a peer's picture is
better than all of ours)

and ``preview_5s_cold_s`` (75 frames of the template's film, from the start of a process), ``final_1080p60_5s_s``,
``schedule_ms_per_chunk`` and ``coordinator_peak_mb`` (`benchmarks.scheduling`). ``--quick`` takes three short scenes at
15 fps, and leaves out the final and the peers. A chart lies beside FILE.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import product
from pathlib import Path

from benchmarks.chart import Group, draw
from benchmarks.cpu import ProcessKind, adopt_orphans
from benchmarks.engine import USER, OurRun, WatchedLocal, render_cold, render_warm
from benchmarks.floor import Floor, measure_floor, take_pictures
from benchmarks.peers import PEERS, PeerJob, PeerRenderer, PeerRun
from benchmarks.scenes import LIBRARY_SCENES, SCENES, bundle_of
from benchmarks.ssim import ssim
from koda_ray.render.bundle import Bundle
from koda_ray.render.memory import usual_browsers
from koda_ray.render.spec import Effort, RenderSpec

__all__ = ["FULL", "RenderShape", "SceneRuns", "main", "promised_figures"]

WORKERS = 2
"""Pages and encoders of the floor, and the fewest that peers are tried with."""
ROUNDS = 3
OUR_WORKERS = usual_browsers()
"""What we take unasked; peers are tried with as many too."""
EFFORTS: tuple[Effort, ...] = ("fast", "draft")
STATIC_TIMES = 2
"""How much longer the static scene is: its frames cost so little that a file's end would be most of a short one."""
TRIAL_FRAMES = 60
OUR = "koda"
DRAFT = f"{OUR} draft"
OTHER_SCENES = ("demo", *LIBRARY_SCENES, "svg")
_SCHEDULE_TIMEOUT_S = 300


@dataclass(frozen=True)
class RenderShape:
    """How a scene is rendered."""

    name: str
    width: int
    height: int
    fps: int
    seconds: float

    @property
    def frames(self) -> int:
        """How many frames that is."""
        return round(self.fps * self.seconds)


FULL = (RenderShape("1080p60", 1920, 1080, 60, 3.0), RenderShape("360p15", 640, 360, 15, 8.0))
QUICK = (RenderShape("1080p15", 1920, 1080, 15, 3.0),)


@dataclass
class SceneRuns:
    """All runs of one scene in one shape."""

    scene: str
    shape: RenderShape
    floors: list[Floor] = field(default_factory=list[Floor])
    ours: list[OurRun] = field(default_factory=list[OurRun])
    drafts: list[OurRun] = field(default_factory=list[OurRun])
    alone: list[OurRun] = field(default_factory=list[OurRun])
    cold_s: list[float] = field(default_factory=list[float])
    cold_drafts_s: list[float] = field(default_factory=list[float])
    peers: dict[str, list[PeerRun]] = field(default_factory=dict[str, list[PeerRun]])
    peers_alone: dict[str, list[PeerRun]] = field(default_factory=dict[str, list[PeerRun]])
    ssim: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def _rounds(self) -> list[tuple[Floor, list[OurRun]]]:
        """Each floor with the runs of ours of its round: the machine was as fast for both."""
        share = len(self.ours) // len(self.floors)
        return [(floor, self.ours[at * share : (at + 1) * share]) for at, floor in enumerate(self.floors)]

    @property
    def cpu_over_floor(self) -> float:
        """Processor time a frame over the floor's."""
        return _median([_median([run.cpu_ms for run in ours]) / floor.cpu_ms for floor, ours in self._rounds])

    @property
    def cpu_over_floor_ms(self) -> float:
        """Processor time a frame beyond the floor's, in milliseconds."""
        return _median([_median([run.cpu_ms for run in ours]) - floor.cpu_ms for floor, ours in self._rounds])

    @property
    def cpu_over_floor_by_ms(self) -> dict[ProcessKind, float]:
        """Processor time a frame beyond the floor's, in milliseconds, by kind of process: of the median run."""
        beyond = [(run.cpu_ms - floor.cpu_ms, run, floor) for floor, ours in self._rounds for run in ours]
        _, middle, floor = sorted(beyond, key=lambda each: each[0])[(len(beyond) - 1) // 2]
        kinds = middle.cpu_by_ms | floor.cpu_by_ms
        return {kind: middle.cpu_by_ms.get(kind, 0.0) - floor.cpu_by_ms.get(kind, 0.0) for kind in kinds}

    @property
    def pictures_over_floor(self) -> float:
        """Processor time a frame of painting, handing pictures over and x264, over the floor's."""
        return _median([floor.with_pictures_ms / floor.cpu_ms for floor in self.floors])

    @property
    def possible(self) -> float | None:
        """The best peer's wall a frame, from its first one to the file, over half of the floor with pictures."""
        peers = [_median([run.wall_ms for run in runs]) for runs in self.peers.values()]
        return min(peers) * WORKERS / _median([floor.with_pictures_ms for floor in self.floors]) if peers else None

    @property
    def wall_over_half_floor(self) -> float:
        """Wall a frame over half of the floor's processor time."""
        return _median(
            [_median([run.wall_ms for run in ours]) * WORKERS / floor.cpu_ms for floor, ours in self._rounds]
        )

    @property
    def floor_ms(self) -> float:
        """The floor's processor time a frame."""
        return _median([floor.cpu_ms for floor in self.floors])

    @property
    def speedup(self) -> float | None:
        """The best peer's wall a frame, from its first one to the file, over ours."""
        ours = {OUR: [run.to_file_ms for run in self.ours], DRAFT: [run.to_file_ms for run in self.drafts]}
        return self._over_best({name: [run.wall_ms for run in runs] for name, runs in self.peers.items()}, ours)

    @property
    def alone_speedup(self) -> float | None:
        """The best peer's wall a frame with one worker, from its first one to the file, over ours."""
        peers = {name: [run.wall_ms for run in runs] for name, runs in self.peers_alone.items()}
        return self._over_best(peers, {OUR: [run.to_file_ms for run in self.alone]})

    @property
    def cold_speedup(self) -> float | None:
        """The best peer's time from the start of its process over ours."""
        ours = {OUR: self.cold_s, DRAFT: self.cold_drafts_s}
        return self._over_best({name: [run.total_s for run in runs] for name, runs in self.peers.items()}, ours)

    def _over_best(self, peers: Mapping[str, list[float]], ours: Mapping[str, list[float]]) -> float | None:
        """Return the least ratio of a peer's time to ours, with settings of ours whose picture is as good as its."""
        ratios: list[float] = []
        for name, times in peers.items():
            equal = [_median(taken) for who, taken in ours.items() if taken and self.ssim[who] >= self.ssim[name]]
            if not equal:
                return None
            ratios.append(_median(times) / min(equal))
        return min(ratios, default=None)

    def to_json(self) -> dict[str, object]:
        """Return the medians, and every run."""
        floors = [
            {
                "paint_ms": floor.paint_ms,
                "paint_wall_ms": floor.paint_wall_ms,
                "x264_ms": floor.x264_ms,
                "taken_ms": floor.taken_ms,
                "by_ms": floor.cpu_by_ms,
            }
            for floor in self.floors
        ]
        runs = {OUR: self.ours, DRAFT: self.drafts, f"{OUR} alone": self.alone, **self.peers}
        runs |= {f"{name} alone": each for name, each in self.peers_alone.items()}
        return {
            "scene": self.scene,
            "shape": asdict(self.shape),
            "floors": floors,
            "cold_s": self.cold_s,
            "cold_drafts_s": self.cold_drafts_s,
            "ssim": self.ssim,
            "runs": {name: [{**asdict(run), "video": run.video.name} for run in each] for name, each in runs.items()},
        }


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


class RenderComparison:
    """One run of the benchmark: peers that are ready, browsers that are warm, and a folder for what comes out."""

    def __init__(self, folder: Path, peers: Sequence[PeerRenderer], executors: dict[int, WatchedLocal]) -> None:
        self._folder = folder
        self._peers = peers
        self._executors = executors

    async def scene(self, name: str, shape: RenderShape, *, rounds: int, full: bool) -> SceneRuns:
        """Measure a scene."""
        shape = replace(shape, seconds=shape.seconds * (STATIC_TIMES if name == "static" and full else 1))
        folder = self._folder / f"{name}-{shape.name}"
        folder.mkdir()
        bundle = await bundle_of(name)
        spec = RenderSpec(
            bundle=bundle.hash,
            duration_s=shape.seconds,
            width=shape.width,
            height=shape.height,
            fps=Fraction(shape.fps),
        )
        # a page without the contract is stepped through every frame: leaving some out would make it dearer, not cheaper
        stride = 1 if name in LIBRARY_SCENES else 4
        print(f"{name} {shape.name}: pictures to compare with", flush=True)
        pictures = await take_pictures(bundle, spec, folder, workers=WORKERS)
        done = SceneRuns(name, shape)
        peers = self._peers if name in SCENES else ()
        best = {peer.name: await self._best(peer, name, shape, folder, (WORKERS, OUR_WORKERS)) for peer in peers}
        alone: dict[PeerRenderer, str] = {}
        if full:
            alone = {peer: (await self._best(peer, name, shape, folder, (1,)))[0] for peer in peers}
        draft = replace(spec, effort="draft")
        executor = self._executors[OUR_WORKERS]
        for number in range(rounds):
            print(f"{name} {shape.name}: round {number + 1} of {rounds}", flush=True)
            done.floors.append(await measure_floor(bundle, spec, folder, workers=WORKERS, stride=stride))
            for peer in peers or (None,):
                done.ours.append(await render_warm(executor, bundle, spec, folder / "koda.mp4"))
                if peer is not None:
                    variant, workers = best[peer.name]
                    job = self._job(name, shape, folder, workers, shape.frames)
                    done.peers.setdefault(peer.name, []).append(await peer.render(job, variant))
                    done.drafts.append(await render_warm(executor, bundle, draft, folder / "koda-draft.mp4"))
            if full and name in SCENES:
                await self._cold_and_alone(done, bundle, spec, alone)
        done.ssim[OUR] = await ssim(done.ours[-1].video, pictures)
        if done.drafts:
            done.ssim[DRAFT] = await ssim(done.drafts[-1].video, pictures)
        for peer in peers:
            done.ssim[peer.name] = await ssim(done.peers[peer.name][-1].video, pictures)
        return done

    async def _cold_and_alone(
        self, done: SceneRuns, bundle: Bundle, spec: RenderSpec, peers: Mapping[PeerRenderer, str]
    ) -> None:
        """Render from cold, and with one worker; peers, with the settings that are best for it, by one worker too."""
        folder = self._folder / f"{done.scene}-{done.shape.name}"
        for effort, times in zip(EFFORTS, (done.cold_s, done.cold_drafts_s), strict=True):
            times.append(await self._cold(bundle, done.shape, folder, effort))
        done.alone.append(await render_warm(self._executors[1], bundle, spec, folder / "koda-alone.mp4"))
        for peer, variant in peers.items():
            run = await peer.render(self._job(done.scene, done.shape, folder, 1, done.shape.frames), variant)
            done.peers_alone.setdefault(peer.name, []).append(run)

    async def _best(
        self, peer: PeerRenderer, scene: str, shape: RenderShape, folder: Path, crews: Sequence[int]
    ) -> tuple[str, int]:
        """Return the settings, and workers, with which a peer renders a piece of this scene in the least time.

        Args:
            peer: Which.
            scene: What it renders.
            shape: How.
            folder: For its files.
            crews: Of how many workers it may take, or of as many as it takes at most.
        """
        took: dict[tuple[str, int], float] = {}
        fit = dict.fromkeys(min(crew, peer.most_workers or crew) for crew in crews)
        for variant, workers in product(peer.variants, fit):
            job = self._job(scene, shape, folder, workers, min(TRIAL_FRAMES, shape.frames))
            took[variant, workers] = wall_ms = (await peer.render(job, variant)).wall_ms
            print(f"{scene} {shape.name}: {peer.name} {variant}, {workers} workers: {wall_ms:.1f} ms", flush=True)
        return min(took, key=lambda each: took[each])

    def _job(self, scene: str, shape: RenderShape, folder: Path, workers: int, frames: int) -> PeerJob:
        return PeerJob(scene, shape.width, shape.height, shape.fps, frames, workers, folder)

    async def _cold(self, bundle: Bundle, shape: RenderShape, folder: Path, effort: Effort) -> float:
        options: dict[str, object] = {"duration": shape.seconds, "size": [shape.width, shape.height]}
        options |= {"fps": shape.fps, "crf": 18, "effort": effort}
        return await render_cold(_lay_out(bundle, folder / "page"), folder / "koda-cold.mp4", options)


def _lay_out(bundle: Bundle, folder: Path) -> Path:
    for path, data in bundle.files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder


async def _template_film(folder: Path, *, full: bool) -> dict[str, float]:
    """Render the template's own film from cold: the preview, and the final video."""
    page = _lay_out(await bundle_of("demo"), folder / "film")
    preview = {"size": [640, 360], "fps": 15, "crf": 28, "duration": 5.0}
    times = [await render_cold(page, folder / "preview.mp4", preview) for _ in range(ROUNDS if full else 1)]
    figures = {"preview_5s_cold_s": _median(times)}
    if full:
        final = {"size": [1920, 1080], "fps": 60, "crf": 18, "duration": 5.0}
        figures["final_1080p60_5s_s"] = await render_cold(page, folder / "final.mp4", final)
    return figures


async def _schedule(*, full: bool) -> dict[str, float]:
    """Measure the coordinator in a process of its own."""
    size = [] if full else ["--units", "1000", "--ray-tasks", "60"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.scheduling", *size, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(_SCHEDULE_TIMEOUT_S):
        said, _ = await process.communicate()
    if process.returncode:
        raise SystemExit("the coordinator could not be measured; see above")
    figures: dict[str, float] = json.loads(said.decode().strip().splitlines()[-1])
    return {
        "schedule_ms_per_chunk": figures["ray_ms_per_task"],
        "schedule_ms_per_chunk_without_ray": figures["ms_per_unit"],
        "coordinator_peak_mb": figures["peak_mb"],
    }


def _print(measured: Sequence[SceneRuns]) -> None:
    """Print the table: milliseconds a frame, and ratios."""
    print(
        f"\n{'scene':<16}{'paint':>8}{'x264':>7}{'ours':>8}{'/floor':>8}{'wall':>8}{'/half':>7}{'to file':>9}"
        f"{'1 worker':>10}{'cold s':>8}{'SSIM':>9}  peers: settings, ms a frame (1 worker), cold s, SSIM, times ours"
    )
    for one in measured:
        ours = one.ours
        alone = f"{_median([run.wall_ms for run in one.alone]):.1f}" if one.alone else "-"
        cold = f"{_median(one.cold_s):.2f}" if one.cold_s else "-"
        peers: list[str] = []
        if one.drafts:
            draft = _median([run.to_file_ms for run in one.drafts])
            cold_draft = f"{_median(one.cold_drafts_s):.2f}" if one.cold_drafts_s else "-"
            peers.append(f"{DRAFT} {draft:.1f} ms, {cold_draft} s, {one.ssim[DRAFT]:.4f}")
        for name, runs in one.peers.items():
            wall = _median([run.wall_ms for run in runs])
            single = _median([run.wall_ms for run in one.peers_alone[name]]) if name in one.peers_alone else None
            beside = "" if single is None else f" ({single:.1f})"
            ratio = wall / _median([run.to_file_ms for run in ours])
            peers.append(
                f"{name} [{runs[0].variant}] {wall:.1f}{beside} ms, {_median([run.total_s for run in runs]):.2f} s, "
                f"{one.ssim[name]:.4f}, x{ratio:.2f}"
            )
        print(
            f"{one.scene + ' ' + one.shape.name:<16}{_median([floor.paint_ms for floor in one.floors]):>8.1f}"
            f"{_median([floor.x264_ms for floor in one.floors]):>7.1f}"
            f"{_median([run.cpu_ms for run in ours]):>8.1f}{one.cpu_over_floor:>8.2f}"
            f"{_median([run.wall_ms for run in ours]):>8.1f}{one.wall_over_half_floor:>7.2f}"
            f"{_median([run.to_file_ms for run in ours]):>9.1f}{alone:>10}{cold:>8}{one.ssim[OUR]:>9.4f}  "
            + "; ".join(peers)
        )


def promised_figures(measured: Sequence[SceneRuns], first: RenderShape) -> dict[str, object]:
    """Return the figures that are promised: of the first shape's scenes, and with another ending of the small one's."""
    figures: dict[str, object] = {}
    for shape, ending in ((first, ""), (FULL[1], "_360p")):
        main = {one.scene: one for one in measured if one.shape.name == shape.name and one.scene in SCENES}
        if main:
            figures |= {f"{key}{ending}": value for key, value in _figures_of(main).items()}
    return figures


def _figures_of(main: Mapping[str, SceneRuns]) -> dict[str, object]:
    figures: dict[str, object] = {
        "cpu_over_floor": {name: round(one.cpu_over_floor, 3) for name, one in main.items()},
        "pictures_over_floor": {name: round(one.pictures_over_floor, 3) for name, one in main.items()},
        "cpu_over_floor_ms": {name: round(one.cpu_over_floor_ms, 2) for name, one in main.items()},
        "cpu_over_floor_by_ms": {
            name: {kind: round(value, 2) for kind, value in one.cpu_over_floor_by_ms.items()}
            for name, one in main.items()
        },
        "wall_over_half_floor": {name: round(one.wall_over_half_floor, 3) for name, one in main.items()},
        "ssim": {name: {who: round(value, 5) for who, value in one.ssim.items()} for name, one in main.items()},
    }
    for key, ratios in (
        ("speedup_over_best_peer", {name: one.speedup for name, one in main.items()}),
        ("possible_over_best_peer", {name: one.possible for name, one in main.items()}),
        ("cold_speedup_over_best_peer", {name: one.cold_speedup for name, one in main.items()}),
        ("alone_over_best_peer", {name: one.alone_speedup for name, one in main.items()}),
    ):
        if any(one.peers or one.peers_alone for one in main.values()):
            figures[key] = {name: None if ratio is None else round(ratio, 3) for name, ratio in ratios.items()}
    return figures


def _chart(measured: Sequence[SceneRuns]) -> str:
    groups: list[Group] = []
    for one in measured:
        bars = [(OUR, _median([run.to_file_ms for run in one.ours]))]
        bars += [(DRAFT, _median([run.to_file_ms for run in one.drafts]))] if one.drafts else []
        bars += [(name, _median([run.wall_ms for run in runs])) for name, runs in one.peers.items()]
        groups.append(Group(f"{one.scene} {one.shape.name}", bars, one.floor_ms / WORKERS))
    return draw("Wall a frame, from the first frame to the finished file, two processors", groups)


def _write(target: Path, figures: dict[str, object], measured: Sequence[SceneRuns]) -> None:
    target.write_text(json.dumps(figures, indent=1) + "\n")
    target.with_suffix(".svg").write_text(_chart(measured))


async def measure(
    *, quick: bool, peers: Sequence[str], rounds: int, target: Path, scenes: Sequence[str] = ()
) -> dict[str, object]:
    """Take all figures, or those of some scenes; chart and JSON are written as soon as there is something to write."""
    figures: dict[str, object] = {"quick": quick, "rounds": rounds}
    measured: list[SceneRuns] = []
    shapes = QUICK if quick else FULL
    if not scenes:
        figures |= await _schedule(full=not quick)
    with tempfile.TemporaryDirectory(prefix="koda-bench-render-") as name:
        folder = Path(name)
        if not scenes:
            figures |= await _template_film(folder, full=not quick)
        ready = [PEERS[peer]() for peer in peers]
        for peer in ready:
            await peer.prepare()
        async with WatchedLocal(workers=OUR_WORKERS) as usual, WatchedLocal(workers=1) as one:
            await usual.warm(USER)
            comparison = RenderComparison(folder, ready, {OUR_WORKERS: usual, 1: one})
            plan = [(scene, shape) for shape in shapes for scene in SCENES]
            if not quick:
                plan += [(scene, shapes[0]) for scene in OTHER_SCENES]
            for scene, shape in plan:
                if scenes and scene not in scenes:
                    continue
                measured.append(await comparison.scene(scene, shape, rounds=rounds, full=not quick))
                figures |= promised_figures(measured, shapes[0])
                figures["scenes"] = [each.to_json() for each in measured]
                _write(target, figures, measured)
    _print(measured)
    return figures


def main() -> None:
    """Run the benchmark and write its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.render", description="Time the render engine.")
    parser.add_argument("--quick", action="store_true", help="three short scenes, no peers: under a minute")
    parser.add_argument("--peers", default="", help=f"of {', '.join(PEERS)}, with commas; installed by npm")
    parser.add_argument("--rounds", type=int, default=None, help=f"how often each is run; {ROUNDS}, or 1 with --quick")
    known = (*SCENES, *OTHER_SCENES)
    parser.add_argument("--scenes", default="", help=f"only some of {', '.join(known)}, and nothing else")
    parser.add_argument("--json", type=Path, required=True, help="where to write the figures")
    given = parser.parse_args()
    peers = [peer for peer in given.peers.split(",") if peer]
    if unknown := [peer for peer in peers if peer not in PEERS]:
        parser.error(f"--peers {', '.join(unknown)}: give some of {', '.join(PEERS)}")
    scenes = [scene for scene in given.scenes.split(",") if scene]
    if unknown := [scene for scene in scenes if scene not in known]:
        parser.error(f"--scenes {', '.join(unknown)}: give some of {', '.join(known)}")
    adopt_orphans()
    rounds = given.rounds or (1 if given.quick else ROUNDS)
    figures = asyncio.run(measure(quick=given.quick, peers=peers, rounds=rounds, target=given.json, scenes=scenes))
    print()
    for name, value in figures.items():
        if name != "scenes":
            print(f"{name:>34} {json.dumps(value)}")


if __name__ == "__main__":
    main()
