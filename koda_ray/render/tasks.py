"""The render executor on Ray: a run of units is a task, a browser is a resource, and Ray retries nothing.

A capture is a streaming task: it yields counts of frames while it works and each unit's facts once that is stored, both
small; frames stay in the worker. Expected failures are yielded too, as values, so that they arrive as what they are.
The job retries, because only it knows what is left to do and what may not be tried again. Where tasks are put, and what
becomes of those that wait or fall silent, is `placing`'s.

A worker has the cluster's environment, which holds keys. While a task runs, those of our settings are out of it, so
nothing that the task starts inherits them (browsers start from an empty environment besides). What remains is what a
task needs, the storage's keys in its arguments, and the worker's own beginning in ``/proc``, which other users, and so
browsers, cannot read.

What somebody waits for (a preview, a look at a page) is urgent: it has slots of its own on each node, so that it never
waits behind finals, and finals run with less of a claim on the processors (`nice`), so that it hardly shares them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError, TaskCancelledError

from koda_ray.cancellation import all_or_cancel, end_all, own
from koda_ray.errors import Cancelled, KodaError, RenderError
from koda_ray.logs import get_logger, name_process
from koda_ray.metrics import MetricsSink, NoMetrics
from koda_ray.render.capture_notes import CaptureNotes
from koda_ray.render.cluster import BrowserSlots, browsers_here
from koda_ray.render.fitness import declared_full, free_bytes, is_full
from koda_ray.render.graphics import GraphicsChoice
from koda_ray.render.memory import OUT_OF_MEMORY, MemoryLimit
from koda_ray.render.placing import (
    WORKER_LOST,
    Misplaced,
    Placed,
    PlacedTask,
    Silent,
    TaskWorker,
    Unbegun,
    cancel_task,
    done_where_placed,
    end_task,
    read_next,
)
from koda_ray.render.presence import Presence, without
from koda_ray.render.protocol import (
    NODE_DIFFERS,
    NODE_FULL,
    OTHER_ENVIRONMENT,
    Captured,
    CaptureTask,
    Environment,
    Hear,
    JoinResult,
    JoinTask,
    ProbeReport,
    ProbeTask,
    Slots,
    UnitResult,
)
from koda_ray.render.telling import AtWork, told
from koda_ray.resources import (
    CAPTURE_CPUS,
    CAPTURE_MEMORY_BYTES,
    CHROMIUM_RESOURCE,
    JOIN_CPUS,
    JOIN_MEMORY_BYTES,
    URGENT_RESOURCE,
)
from koda_ray.secret_names import SECRETS

if TYPE_CHECKING:
    from koda_ray.render.local import LocalExecutor

__all__ = ["RayExecutor"]

MAX_RETRIES = 0

_ENVIRONMENT_S = 60.0
_PREPARED = 4
"""How many workers are made ready for a job, at most: as many as a preview of a few seconds keeps busy."""
_LINGERS_S = 0.1
_PREPARED_S = 10.0
"""How long nobody is made ready again: Ray keeps a process that does nothing for about so long."""
_AGAIN_S = 0.2
_CPU = "CPU"
_DONE = "done"
T = TypeVar("T")
_log = get_logger(__name__)


@contextlib.contextmanager
def _without_secrets() -> Generator[None]:
    """Take settings' secrets out of the environment, and put them back: Ray may run something else here next."""
    taken = {name: value for name in SECRETS if (value := os.environ.pop(name, None)) is not None}
    try:
        yield
    finally:
        os.environ.update(taken)


def _run(
    work: Callable[[Callable[[object], None]], Coroutine[Any, Any, object]],
    *,
    background: bool = False,
    least_bytes: int | None = None,
) -> Iterator[object]:
    """Do a task's work; where others could (``least_bytes``, in bytes), begin only on a disk with so much room."""

    def check() -> None:
        if least_bytes is not None and (free := free_bytes()) < least_bytes:
            raise declared_full(None, free=free)

    async def with_space(tell: Callable[[object], None]) -> object:
        def tell_and_check(value: object) -> None:
            tell(value)
            if isinstance(value, UnitResult):  # which is stored; the next one is to be made where there is room
                check()

        check()
        try:
            return await work(tell_and_check)
        except (KodaError, OSError) as error:
            free = free_bytes()
            # a browser says no more than that it ended
            may_be_it = (
                least_bytes is not None and free < least_bytes and isinstance(error, KodaError) and error.retryable
            )
            is_said = isinstance(error, KodaError) and error.code == NODE_FULL
            if is_said or not (is_full(error) or may_be_it):
                raise
            raise declared_full(error, free=free) from error

    where = _here()
    if where:
        name_process(node=where)
    with _without_secrets():
        yield from told(with_space, background=background, where=where)


def _here() -> str:
    """Return the id of the node that this runs on; none outside of Ray, which would be started by asking."""
    return str(cast("Any", ray).get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def _executor_here(chromium_path: Path | None, memory: MemoryLimit, graphics: GraphicsChoice) -> LocalExecutor:
    """Make what works in this task: one browser, of as many as share the node."""
    from koda_ray.render.local import LocalExecutor

    share = memory.among(browsers_here())
    return LocalExecutor(workers=1, chromium_path=chromium_path, memory=share, graphics=graphics)


def _capture(
    task: CaptureTask,
    chromium_path: Path | None,
    memory: MemoryLimit,
    graphics: GraphicsChoice,
    least_bytes: int | None,
) -> Iterator[object]:
    async def work(tell: Callable[[object], None]) -> str:
        async def hear(told: Captured | UnitResult) -> None:
            tell(told)

        async with _executor_here(chromium_path, memory, graphics) as local:
            await local.capture(task, hear)
        return _DONE

    yield from _run(work, background=not task.urgent, least_bytes=least_bytes)


def _probe(
    task: ProbeTask, chromium_path: Path | None, memory: MemoryLimit, graphics: GraphicsChoice, least_bytes: int | None
) -> Iterator[object]:
    async def work(_tell: Callable[[object], None]) -> ProbeReport:
        async with _executor_here(chromium_path, memory, graphics) as local:
            return await local.probe(task)

    yield from _run(work, least_bytes=least_bytes)


def _join(task: JoinTask, least_bytes: int | None) -> Iterator[object]:
    from koda_ray.render.join import join_video

    yield from _run(lambda _tell: join_video(task), background=not task.urgent, least_bytes=least_bytes)


def _environment(chromium_path: Path | None, graphics: GraphicsChoice, lingers_s: float = 0.0) -> Iterator[object]:
    from koda_ray.render.local import LocalExecutor

    async def work(_tell: Callable[[object], None]) -> Environment:
        async with LocalExecutor(workers=1, chromium_path=chromium_path, graphics=graphics) as local:
            found = await local.environment()
        await asyncio.sleep(lingers_s)
        return found

    yield from _run(work)


def _remote(
    function: Callable[..., Iterator[object]], *, cpus: float, memory: int, resources: dict[str, float] | None = None
) -> Any:
    options: dict[str, Any] = {
        "num_cpus": cpus,
        "memory": memory,
        "max_retries": MAX_RETRIES,
        "num_returns": "streaming",
        "resources": resources or {},
    }
    return cast("Any", ray.remote(**options)(function))


class RayExecutor:
    """Renders on the Ray cluster that this process is connected to, with what nodes that has at each time.

    Where it has none that render yet, tasks wait at Ray, which makes a cluster grow that can.

    Args:
        workers: How many tasks at once; the cluster's ``chromium`` resource when None.
        most: How many browsers the cluster may grow to; it does not grow when None.
        chromium_path: The configured browser, if any; the same on every node.
        memory: How much a browser may use; its share of its node's when None.
        graphics: Whether nodes use their GPUs; with auto, all that render have the same or none.
        metrics: Where it is noted what captures waited for and took.

    Attributes:
        space_mb: How much must be free on a node's disk for it to work while others could; 0 until somebody says.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        most: int | None = None,
        chromium_path: Path | None = None,
        memory: MemoryLimit | None = None,
        graphics: GraphicsChoice = "auto",
        metrics: MetricsSink | None = None,
    ) -> None:
        self.space_mb = 0
        self._metrics = metrics or NoMetrics()
        self._slots = BrowserSlots(workers=workers, most=most)
        self._presence = Presence()
        self._memory = memory or MemoryLimit()
        self._chromium_path = chromium_path
        self._graphics: GraphicsChoice = graphics
        self._environment: Environment | None = None
        self._environment_at = 0.0
        self._prepared_at = -_PREPARED_S
        self._running: set[asyncio.Task[Any]] = set()
        self._capture = _remote(
            _capture, cpus=CAPTURE_CPUS, memory=CAPTURE_MEMORY_BYTES, resources={CHROMIUM_RESOURCE: 1}
        )
        self._probe = _remote(_probe, cpus=CAPTURE_CPUS, memory=CAPTURE_MEMORY_BYTES, resources={CHROMIUM_RESOURCE: 1})
        self._join = _remote(_join, cpus=JOIN_CPUS, memory=JOIN_MEMORY_BYTES)
        self._read_environment = _remote(_environment, cpus=0, memory=JOIN_MEMORY_BYTES)

    @property
    def slots(self) -> Slots:
        """How many tasks can be under way at once."""
        return self._slots.slots

    @property
    def _with(self) -> tuple[Path | None, MemoryLimit, GraphicsChoice]:
        """What a task's browser is started with."""
        return self._chromium_path, self._memory, self._graphics

    async def _overtaking(self, function: Any, environment: str = "") -> Placed:
        """Place a function that somebody waits for: in slots of their own, where the cluster has them."""
        if not self._slots.has_urgent:
            return await self._placed(function, CHROMIUM_RESOURCE, environment)
        return await self._placed(function, URGENT_RESOURCE, environment, num_cpus=0, resources={URGENT_RESOURCE: 1})

    async def _placed(self, function: Any, resource: str, environment: str = "", **options: object) -> Placed:
        """Place a function, with options, where somebody is who may do it."""
        avoided = await self._presence.avoided(resource, environment)
        options |= without(avoided)
        given = function.options(**options) if options else function
        return Placed(given, resource, environment, avoided, self._presence)

    async def environment(self) -> Environment:
        """What the render nodes render with; asked of one of them, now and then: nodes are replaced.

        Raises:
            Missing: No node of the cluster has the ``chromium`` resource, and none will come.
        """
        await self._slots.check()
        if self._environment is None or time.monotonic() - self._environment_at > _ENVIRONMENT_S:
            await self._ask_environment()
        assert self._environment is not None
        return self._environment

    async def prepare(self) -> None:
        """Have a few workers' processes start and load what they need, which takes a second."""
        if time.monotonic() - self._prepared_at < _PREPARED_S:
            return
        self._prepared_at = time.monotonic()
        try:
            await self._slots.check()
            asked = max(1, min(self.slots.now - 1, _PREPARED))  # there is one more than of processors
            # who is done at once would be given the next one's as well, and a single process be ready
            await all_or_cancel([self._ask_environment(lingers_s=_LINGERS_S) for _ in range(asked)])
        except (KodaError, RayError, RuntimeError, OSError) as error:  # whoever needs them says so
            _log.info("no workers were made ready", error=f"{type(error).__name__}: {error}")

    async def _ask_environment(self, *, lingers_s: float = 0.0) -> None:
        resource = URGENT_RESOURCE if self._slots.has_urgent else CHROMIUM_RESOURCE

        async def do(placed: Placed) -> Environment:
            given = placed.begin(self._chromium_path, self._graphics, lingers_s)
            return await self._result(given, Environment, "reading the environment")

        # a sliver of a browser: asked on a node that renders
        self._environment = await self._where_space_is(
            lambda: done_where_placed(
                lambda: self._placed(self._read_environment, resource, resources={resource: 0.0001}), do
            ),
            resource,
        )
        self._environment_at = time.monotonic()

    async def capture(self, task: CaptureTask, hear: Hear | None = None) -> None:
        """Capture, encode and store units in a task.

        Raises:
            RenderError: As `koda_ray.render.capture.capture_units`; code WORKER_LOST when the task's process ended, and
                OUT_OF_MEMORY when Ray ended it because its node had no memory left.
            Missing: As `environment`.
        """
        await self._slots.check()
        first, last = task.units[0].index, task.units[-1].index
        what = f"unit {first}" if first == last else f"units {first} to {last}"
        asked = task.environment
        noted = CaptureNotes(self._metrics, hear, urgent=task.urgent)
        resource = URGENT_RESOURCE if task.urgent and self._slots.has_urgent else CHROMIUM_RESOURCE

        async def place() -> Placed:
            if task.urgent:
                return await self._overtaking(self._capture, asked)
            return await self._placed(self._capture, CHROMIUM_RESOURCE, asked)

        async def do(placed: Placed) -> str:
            given = placed.begin(task, *self._with, await self._wanted_space(resource, asked))
            return await self._result(given, str, what, noted.heard, begun=noted.begun)

        try:
            await done_where_placed(place, do)
        except RenderError as error:
            raise await self._judged(error, resource, asked) from error.__cause__

    async def join(self, task: JoinTask) -> JoinResult:
        """Join, verify and store the video in a task. Raises as `koda_ray.render.join.join_video`."""
        overtakes = task.urgent and self._slots.has_urgent

        free: dict[str, Any] = {"num_cpus": 0} if overtakes else {}

        async def do(placed: Placed) -> JoinResult:
            return await self._result(placed.begin(task, await self._wanted_space(_CPU)), JoinResult, "the join")

        return await self._where_space_is(
            lambda: done_where_placed(lambda: self._placed(self._join, _CPU, **free), do), _CPU
        )

    async def probe(self, task: ProbeTask) -> ProbeReport:
        """Look at a page in a task. Raises as `koda_ray.render.probe.probe_page`, and Missing as `environment`."""
        await self._slots.check()

        resource = URGENT_RESOURCE if self._slots.has_urgent else CHROMIUM_RESOURCE

        async def do(placed: Placed) -> ProbeReport:
            given = placed.begin(task, *self._with, await self._wanted_space(resource))
            return await self._result(given, ProbeReport, "the probe")

        return await self._where_space_is(
            lambda: done_where_placed(lambda: self._overtaking(self._probe), do), resource
        )

    async def _wanted_space(self, resource: str, environment: str = "") -> int | None:
        """Return how much must be free where a task is to be done; None where nobody else could do it."""
        return self.space_mb << 20 if await self._presence.count(resource, environment) > 1 else None

    async def _judged(self, error: RenderError, resource: str, environment: str = "") -> RenderError:
        """Return the error of work that a node did not do, as it is or not: a final one where nobody else may."""
        if error.code not in (NODE_FULL, OTHER_ENVIRONMENT):
            return error
        if await self._presence.count(resource, environment):
            if error.code == NODE_FULL:
                return error
            return RenderError(error.message, code=NODE_DIFFERS, retryable=True)
        if error.code == NODE_FULL:
            return RenderError(f"{error.message}; free some space and try again", code="DISK_FULL")
        self._environment = None  # and it is asked anew
        return RenderError(error.message, code=OTHER_ENVIRONMENT)

    async def _where_space_is(self, begin: Callable[[], Awaitable[T]], resource: str) -> T:
        """Have something done, and again elsewhere where a node gave it up: each time there is one less to ask."""
        while True:
            try:
                return await begin()
            except RenderError as error:
                judged = await self._judged(error, resource)
                if judged.code != NODE_FULL:
                    raise judged from error.__cause__
            await asyncio.sleep(_AGAIN_S)

    def _learn(self, error: KodaError, node: str) -> None:
        """Take note of why a node did not do something."""
        if error.code == NODE_FULL:
            self._presence.found_full(node)
        elif error.code == OTHER_ENVIRONMENT:
            self._presence.found_differing(node, str(error.context["wanted"]))

    async def cancel_all(self) -> None:
        """End every task of this executor with its processes."""
        await end_all(self._running)

    async def _result(
        self,
        task: PlacedTask,
        kind: type[T],
        what: str,
        hear: Hear | None = None,
        *,
        begun: Callable[[], None] = lambda: None,
    ) -> T:
        return await own(self._follow(task, kind, what, hear, begun), self._running)

    async def _follow(
        self, task: PlacedTask, kind: type[T], what: str, hear: Hear | None, begun: Callable[[], None]
    ) -> T:
        """Follow a task to its last value; cancelling this ends the task."""
        stream = task.stream
        worker: TaskWorker | None = None  # it may wait for its turn as long as it takes
        try:
            while (value := await read_next(stream, worker or task.placed)) is not None:
                if worker is None:
                    begun()
                    worker = TaskWorker(value.where if isinstance(value, AtWork) else "", self._presence)
                if isinstance(value, kind):
                    return value
                if isinstance(value, KodaError):
                    self._learn(value, worker.node)
                    raise value
                if hear is not None and isinstance(value, Captured | UnitResult):
                    try:
                        await hear(value)
                    except BaseException:  # whoever listens has had enough
                        await end_task(stream)
                        raise
        except Misplaced:
            cancel_task(stream, force=True)  # it has not begun, or nobody is there who could say so
            raise
        except Silent as error:
            if error.gone:
                cancel_task(stream, force=True)  # nobody is there who could say that it has ended
            else:
                await end_task(stream)
            raise RenderError(f"{what}: its worker {error}", code=WORKER_LOST, retryable=True) from None
        except asyncio.CancelledError:
            await end_task(stream)
            raise
        except TaskCancelledError as error:
            raise Cancelled(f"{what} was cancelled") from error
        except RayTaskError as error:  # not a failure that we foresaw: trying again would show it again
            cause: object = error.cause
            raise RenderError(f"{what}: {type(cause).__name__}: {cause}", code="INTERNAL") from error
        except RayError as error:
            first = (str(error).strip().splitlines() or [""])[0]
            code = OUT_OF_MEMORY if isinstance(error, OutOfMemoryError) else WORKER_LOST
            raise self._lost(f"{what}: its worker was lost: {first}", code, worker) from error
        raise RenderError(f"{what}: its task ended without a result", code=WORKER_LOST, retryable=True)

    def _lost(self, why: str, code: str, worker: TaskWorker | None) -> RenderError | Unbegun:
        """Return what is raised where a worker was lost: not its own fault where its node is known to have no room."""
        if worker is None:
            return Unbegun(why, code=code)
        return RenderError(why, code=NODE_FULL if self._presence.is_full(worker.node) else code, retryable=True)
