"""Work on a cluster that is about to lose something: a janitor, a session that is awake, a render under way."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import ray
from pydantic import JsonValue

from koda_ray.actors.directory import RayDirectory
from koda_ray.actors.host import NAMESPACE
from koda_ray.actors.janitor_host import JANITOR, keep_janitor
from koda_ray.actors.leased_job import OVER, row_spec
from koda_ray.actors.owed_waker import OwedWaker
from koda_ray.actors.parts import sandbox_provider
from koda_ray.actors.waking import WakingPace
from koda_ray.config import Settings
from koda_ray.render.bundle import store_bundle
from koda_ray.render.options import JobOptions
from koda_ray.render.spec import RenderSpec
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.state.keys import report_key
from koda_ray.state.records import JobRecord
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from koda_ray.types import new_id, now
from tests.built import read_folder
from tests.cluster.agents import WorkingSession
from tests.cluster.saying import PLAN, SaidTally, tally, words
from tests.cluster.told import all_events
from tests.cluster.waiting import NotInTimeError, comes_true
from tests.llm.server import ModelServer
from tests.state import records

__all__ = [
    "DURATION_S",
    "FPS",
    "LARGE",
    "PAGES",
    "RENDERED_S",
    "SMALL",
    "USER",
    "NotInTimeError",
    "World",
    "at_work",
    "comes_true",
    "janitor_answers",
    "janitor_kept",
]

USER = "ann"
PAGES = Path(__file__).parent.parent / "render" / "pages"
DURATION_S, FPS = 24.0, 30
SMALL, LARGE = (320, 180), (1920, 1080)
RENDERED_S = 900.0
"""How long a render may take on a busy machine, in seconds."""


class World:
    """The cluster with what works in it.

    Args:
        settings: Of all of it.
        store: Its database.
        model: What answers agents; none work where there is none.
    """

    def __init__(self, settings: Settings, store: Store, model: ModelServer | None = None) -> None:
        self.settings = settings
        self.model = model
        self.working: list[WorkingSession] = []
        self.store = store
        self.storage = Storage.from_settings(settings)
        self.directory = RayDirectory(settings, store=store, storage=self.storage, sandboxes=self._sandboxes)
        self._said: dict[str, dict[str, bool]] = {}
        self._renders = 0

    async def _sandboxes(self) -> SandboxProvider:
        return sandbox_provider(self.settings, deployment=await self.store.deployment())

    @property
    def sessions(self) -> list[str]:
        """Those to whom something was said."""
        return [*self._said]

    async def session(self) -> str:
        """Make a session that is awake, and does nothing but what is said to it."""
        made = await self.asleep()
        await self.say(made)
        return made

    async def asleep(self) -> str:
        """Make such a session that nobody has woken yet."""
        return (await records.new_session(self.store, USER, phase="plan", plan=PLAN)).id

    async def say(self, session_id: str) -> float:
        """Have a session take something, however often it has to be asked; return how long that took, in seconds."""
        key = new_id("cmd")

        async def taken() -> bool:
            return not await self.submit(session_id, key)

        return await comes_true(taken, "the session takes a command")

    async def submit(self, session_id: str, key: str) -> bool:
        """Say something to a session, other than what was said before; return whether that waits for it."""
        told = await self.directory.submit(
            session_id=session_id, user_id=USER, name="plan", body=self.words(session_id, key), key=key
        )  # fmt: skip
        self.answered(session_id, key)
        return "waits" in told.result

    def words(self, session_id: str, key: str) -> dict[str, JsonValue]:
        """Return what is said to a session under a key; one thing after the other, so that each is seen to be taken."""
        self._said.setdefault(session_id, {}).setdefault(key, False)
        return words(key)

    def answered(self, session_id: str, key: str) -> None:
        """Note that what was said under a key was answered: from now on it may not be lost."""
        self._said[session_id][key] = True

    async def work(self) -> None:
        """Have the agents of another session at work."""
        assert self.model is not None
        given = (self.store, self.storage, self.model)
        self.working.append(await WorkingSession.begin(*given, directory=self.directory, user_id=USER))

    async def account(self) -> dict[str, Any]:
        """Compare what was said to sessions with what their events tell: what is missing, and what happened twice.

        What waits is taken first: one that had to wait for a place is lost only where it never comes. Where agents
        work, it is said what became of that.
        """
        found = SaidTally()
        for session_id, said in self._said.items():
            await comes_true(functools.partial(self.took_all, session_id), "a session takes what waits for it")
            row = await self.store.get_session(session_id)
            found += tally(said, row, await all_events(self.store, session_id))
        worked = {"agents": [await each.account() for each in self.working]} if self.working else {}
        return {"said": found.said, "lost_events": found.lost, "repeated_effects": found.repeated, **worked}

    async def took_all(self, session_id: str) -> bool:
        """Whether nothing waits for a session."""
        return not await self.store.inbox(session_id)

    async def render(self, size: tuple[int, int] = SMALL) -> str:
        """Make a render that is under way, other than those before, whose frames would be given again.

        Args:
            size: The larger, the longer it takes.
        """
        job_id = await self.queued(size)
        await self.directory.wake_render(job_id)

        async def has_units() -> bool:
            return len(await self.store.chunks(job_id)) > 0

        await comes_true(has_units, "the render has a unit")
        return job_id

    async def queued(self, size: tuple[int, int] = SMALL, duration_s: float = DURATION_S) -> str:
        """Make a render of which nobody is told, as `render` otherwise.

        Args:
            size: The larger, the longer it takes.
            duration_s: How long its video is, in seconds.
        """
        bundle = await store_bundle(self.storage, USER, read_folder(PAGES / "plain"))
        made = {"duration_s": duration_s, "fps": str(FPS), "size": list(size), "seed": self.another_seed()}
        options = JobOptions.from_json(made)
        job = JobRecord(
            id=new_id("job"), user_id=USER, project_id=f"prj-{USER}", session_id=None, kind="render",
            spec=row_spec(bundle=bundle, entry="index.html", options=options), status="queued",
            created_at=now(), updated_at=now(),
        )  # fmt: skip
        await self.store.create_job(job)
        return job.id

    def another_seed(self) -> int:
        """Return a seed that no render had yet: with that of another it would have its frames, too."""
        self._renders += 1
        return self._renders

    async def captured_by(self, job_id: str) -> list[str]:
        """Name who captured what a render's last coordinator had captured: what was made before is reused."""
        report = json.loads(await self.storage.get(report_key(USER, job_id)))
        return [unit["worker"] for unit in report["units"] if not unit["reused"]]

    async def has_more(self, job_id: str, units: int) -> bool:
        """Whether a render has more than so many units, or is over: it may have had all of them."""
        return len(await self.store.chunks(job_id)) > units or (await self.store.get_job(job_id)).status in OVER

    async def over(self, job_id: str) -> list[object]:
        """Wait for the end of a render; return its status, how many frames its video lacks, and its error."""

        async def is_over() -> bool:
            return (await self.store.get_job(job_id)).status in OVER

        await comes_true(is_over, "the render is over", within_s=RENDERED_S)
        done = await self.store.get_job(job_id)
        planned, made = done.spec.get("spec"), (done.result or {}).get("frames", 0)
        assert isinstance(planned, dict) and isinstance(made, int), done
        spec = RenderSpec.from_json(planned)
        return [done.status, spec.frame_count - made, done.error]


async def janitor_answers() -> bool:
    """Whether there is a janitor that says something."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(2):
            handle: Any = await asyncio.to_thread(lambda: ray.get_actor(JANITOR, namespace=NAMESPACE))
            await handle.last.remote()
            return True
    return False


@contextlib.asynccontextmanager
async def at_work(
    world: World, *, before: Callable[[], Awaitable[object]] | None = None, size: tuple[int, int] = SMALL
) -> AsyncGenerator[tuple[str, str]]:
    """Keep a janitor, and have a session awake and a render under way; gives their ids.

    Where the world has a model, the agents of another session work as well.

    Args:
        world: Where.
        before: Awaited once there is a janitor.
        size: The render's.
    """
    async with janitor_kept(world):
        if before is not None:
            await before()
        if world.model is not None:
            await world.work()
        yield await world.session(), await world.render(size)


@contextlib.asynccontextmanager
async def janitor_kept(world: World) -> AsyncGenerator[None]:
    """Keep a janitor of the cluster that this process is on, as each process with the API does; it is there first."""
    ends = asyncio.Event()
    pace = WakingPace(first_pause_s=world.settings.janitor_s)
    wakes = world.directory.wake, world.directory.wake_render
    waker = OwedWaker(world.store, wake=wakes[0], wake_render=wakes[1], pace=pace)
    keeping = asyncio.create_task(keep_janitor(world.settings, ends, waker, world.directory.presence))
    await comes_true(janitor_answers, "there is a janitor")
    yield
    ends.set()
    await keeping
