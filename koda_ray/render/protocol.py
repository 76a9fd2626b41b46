"""What a render job says to whoever does its work, and what it hears back.

Tasks are self-contained and survive pickle: a worker gets the storage it reads and writes and nothing else. That is the
plain one, which a worker of any version knows; whoever does the work makes it retry (`retry`). Frames never appear
here; a unit's pictures go from browser to encoder in the worker, and only its file and hashes leave.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from pydantic import JsonValue

from koda_ray.render.spec import CaptureMode, RenderSpec, Unit
from koda_ray.state.storage import Storage

__all__ = [
    "NODE_DIFFERS",
    "NODE_FULL",
    "OTHER_ENVIRONMENT",
    "CaptureTask",
    "Captured",
    "Environment",
    "Hear",
    "JobContext",
    "JoinResult",
    "JoinTask",
    "PageProblem",
    "PageTried",
    "ProbeReport",
    "ProbeTask",
    "ProblemKind",
    "Progress",
    "RenderExecutor",
    "RenderResult",
    "Slots",
    "Stage",
    "UnitResult",
]

NODE_FULL, NODE_DIFFERS, OTHER_ENVIRONMENT = "NODE_FULL", "NODE_DIFFERS", "OTHER_ENVIRONMENT"
"""The codes of work that a node did not do, and others may: its disk is full (`fitness`), or it renders with something
else, which is the third one's where none is left that renders as a video was begun."""

Stage = Literal["waiting", "capturing", "encoding", "joining", "uploading"]
ProblemKind = Literal["exception", "console", "resource", "contract", "not_ready"]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What a worker renders with; units of one video never mix two of them."""

    chromium: str
    backend: str
    graphics: str
    ffmpeg: str
    fonts: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class CaptureTask:
    """Capture and encode units that follow each other, one page for all, and store each.

    Args:
        storage: Where bundle and units lie.
        user_id: Whose they are.
        job_id: For logs.
        spec: The video.
        units: The frames, in order and without gaps.
        keys: Each unit's hash, which names its objects.
        mode: How the first frame is reached.
        environment: The fingerprint that the worker must have.
        attempt: Which this is at the first of the units; 1 for the first.
        urgent: Whether somebody waits for it: it does not wait behind what is not.
        at_once: How many such tasks the job has under way, on all machines.
        trial: A look at the page that comes first, in the same browser; nothing is captured where it finds problems.
        before: Units of the bundle before, which are taken over where the page is drawn from the same (`alike`).
    """

    storage: Storage
    user_id: str
    job_id: str
    spec: RenderSpec
    units: tuple[Unit, ...]
    keys: tuple[str, ...]
    mode: CaptureMode
    environment: str
    attempt: int = 1
    urgent: bool = False
    at_once: int = 1
    trial: ProbeTask | None = None
    before: tuple[UnitResult, ...] = ()


@dataclass(frozen=True)
class Captured:
    """How many frames of a unit are captured so far: a count that stands for those before it."""

    unit: int
    frames: int


@dataclass(frozen=True, kw_only=True)
class UnitResult:
    """A stored unit.

    ``before_hash`` is of the frame before the first, where the page began with it, to be compared with the neighbour's
    last; None for the first unit, and for one whose page showed the neighbour too. ``frame_hashes`` are of the pictures
    before encoding; ``still`` counts those that were the picture before; ``sought`` says that the page has a contract;
    ``inputs`` is what the page had asked for of its bundle, None where that is not known, or not told; ``adopted`` says
    that another bundle's page showed the same, ``alike`` that this was found by running the page; ``evidence`` names
    what the frames are made of (`koda_ray.render.alike`), None where that is not known, or not told;
    ``cells`` are those of its frames that a contact sheet shows, by their place in it, as JPEGs in base64 (none of
    formats that are decoded for their sheet; others where it was captured for a film of another length), ``thumbnail``
    the one that the film's thumbnail shows, with its place, if it is this unit's;
    ``threw`` says that its page had thrown an exception by its last frame, which a strict film has no part in;
    ``warnings`` is what went wrong in the page without ending it, such as a file that is not in the bundle.
    """

    unit: Unit
    key: str
    mode: CaptureMode
    frame_hashes: tuple[str, ...]
    before_hash: str | None
    sha256: str
    size_bytes: int
    worker: str
    attempts: int = 1
    reused: bool = False
    still: int = 0
    adopted: bool = False
    alike: bool = False
    evidence: str | None = None
    sought: bool = True
    inputs: Mapping[str, str] | None = None
    threw: bool = False
    cells: Mapping[int, str] = field(default_factory=dict[int, str])
    thumbnail: tuple[int, str] | None = None
    warnings: tuple[str, ...] = ()
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])

    def as_told(self) -> UnitResult:
        """Return it without what it was drawn from, which lies in storage for jobs of other bundles.

        That is up to a thousand names, and a job holds all units of its video.
        """
        return replace(self, inputs=None, evidence=None)


@dataclass(frozen=True, kw_only=True)
class JoinTask:
    """Join stored units into the video, make its thumbnail, and refuse it if it is not what was asked.

    ``reference`` is the key of another video of the same film, its preview, that it is compared with; ``urgent`` as in
    `CaptureTask`.
    """

    storage: Storage
    user_id: str
    job_id: str
    spec: RenderSpec
    units: tuple[UnitResult, ...]
    reference: str | None = None
    urgent: bool = False


@dataclass(frozen=True, kw_only=True)
class JoinResult:
    """A verified video in storage. ``torn`` names units whose stored bytes were not theirs; then there is no video.

    ``quality`` is what the gate saw, as the report has it.
    """

    video_key: str
    thumbnail_key: str
    size_bytes: int
    sha256: str
    duration_s: float
    frame_count: int
    torn: tuple[str, ...] = ()
    quality: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, kw_only=True)
class ProbeTask:
    """Open a page, look at a few moments, and say what is wrong with it."""

    storage: Storage
    user_id: str
    bundle: str
    entry: str = "index.html"
    width: int = 640
    height: int = 360
    duration_s: float | None = None
    ready_timeout_s: float = 30.0
    seed: int = 1
    props: str = "{}"


@dataclass(frozen=True, kw_only=True)
class PageProblem:
    """Something wrong in a page, in the words of its original source where source maps say so.

    ``line`` and ``column`` count from 1; ``stack`` is one frame a line.
    """

    kind: ProblemKind
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    stack: str = ""


@dataclass(frozen=True, kw_only=True)
class ProbeReport:
    """What a page says of itself and what was seen; seconds and pixels, None where the page says nothing."""

    ready: bool
    problems: tuple[PageProblem, ...]
    duration_s: float | None
    fps: int | None
    width: int | None
    height: int | None
    moves: bool


@dataclass(frozen=True)
class PageTried(Captured):
    """What a task found whose page was tried before its first unit, of which there are no frames yet."""

    report: ProbeReport


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a job is. ``seconds_left`` is None until there is something to reckon with.

    ``waited_s`` is for how long the job has waited for a machine, in the stage of that name.
    """

    percent: float
    stage: Stage
    frames_done: int
    frames_total: int
    frames_per_s: float | None
    seconds_left: float | None
    waited_s: float | None = None


@dataclass(frozen=True, slots=True)
class Slots:
    """How many tasks work at once, as far as whoever does the work knows.

    Args:
        now: How many do now; 0 where there is no machine for them.
        most: How many may come to; tasks that wait for a slot are what makes a cluster grow.
        empty_s: For how long there has been no machine, in seconds; None where there is one.
        urgent: How many of those that somebody waits for; None where these have no slots of their own.
    """

    now: int
    most: int
    empty_s: float | None = None
    urgent: int | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class RenderResult:
    """A finished, verified and stored video.

    ``frame_hash`` is a digest over all captured frames' hashes in order; ``report`` is plain JSON with timings by
    stage, attempts, environment and whether the page had to be replayed.
    """

    video_key: str
    thumbnail_key: str
    duration_s: float
    frame_count: int
    width: int
    height: int
    size_bytes: int
    frame_hash: str
    report: dict[str, JsonValue]


Hear = Callable[[Captured | UnitResult], Awaitable[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobContext:
    """What a render job works with, whatever its video is.

    Args:
        storage: Where the bundle lies, and where units and the video go.
        executor: Who does the work.
        job_id: Names the video's objects.
        user_id: Whose they are.
        attempts: How often a unit or the join is tried before its error ends the job.
        urgent: Whether somebody waits for it, as for a preview: it overtakes what is not urgent.
    """

    storage: Storage
    executor: RenderExecutor
    job_id: str
    user_id: str
    attempts: int = 3
    urgent: bool = False


class RenderExecutor(Protocol):
    """Whoever does the work: this process, or a Ray cluster. Cancelling a call ends the processes behind it."""

    @property
    def slots(self) -> Slots:
        """How many tasks can be under way at once; changes while machines come and go. Never blocks."""
        ...

    async def environment(self) -> Environment:
        """What the workers render with."""
        ...

    async def prepare(self) -> None:
        """Have a few workers start, while what they will do is still made; says nothing of what keeps them from it."""
        ...

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        """Capture, encode and store units; ``hear`` is told of frames on the way, and of each unit that is stored."""
        ...

    async def join(self, task: JoinTask) -> JoinResult:
        """Join, verify and store the video."""
        ...

    async def probe(self, task: ProbeTask) -> ProbeReport:
        """Look at a page."""
        ...

    async def cancel_all(self) -> None:
        """End everything that is under way, with its processes."""
        ...
