"""Renders on any number of browsers, event by event: the real planner, with times drawn from what was measured.

A job here does what `koda_ray.render.collect` does: it asks `tasks_at_once` and `next_units` of `koda_ray.render.plan`,
and learns what frames cost as they come. What is drawn is time alone: a page's start, a unit's capture, what lies
between, joining. Tasks wait at Ray in one queue; who hands them out, who coordinates, and the database, does one thing
at a time. A unit whose machine is taken away waits for the next one, which is longer than it does: another browser
takes it at once, and that one is missing.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from koda_ray.actors.coordinator import coordinators_for, renders_at_once
from koda_ray.render.plan import CostModel, next_units, run_of, tasks_at_once
from koda_ray.render.protocol import Slots
from koda_ray.render.spec import RenderSpec, Unit, plan_units

__all__ = ["BrowserTally", "Durations", "Farm"]


@dataclass(frozen=True, kw_only=True)
class Durations:
    """What takes how long, in seconds; of each list one value is drawn at a time.

    Args:
        frame: Capturing a frame, on one browser.
        page: Opening a page.
        between: A task's time that is neither: its way to the worker and back, its browser's start, storing.
        before: A job's beginning, until its first task is asked for.
        join: Joining and checking a video, and that for each of its units.
        coordinate: What a coordinator does for a unit, one after the other.
        commit: What the database does for a unit, one after the other, whoever asks.
        dispatch: What Ray does for a task, one after the other.
        lost_per_hour: How often an hour a browser's machine is taken away.
        away: Until there is another machine for it.
    """

    frame: Sequence[float]
    page: Sequence[float]
    between: Sequence[float]
    before: Sequence[float]
    join: tuple[float, float]
    coordinate: float = 0.0
    commit: float = 0.0
    dispatch: float = 1 / 569
    lost_per_hour: float = 0.0
    away: float = 0.0


@dataclass
class BrowserTally:
    """What browsers did, in seconds of all of them, and how many frames came of it."""

    frames: int = 0
    capture: float = 0.0
    page: float = 0.0
    between: float = 0.0
    lost: float = 0.0


class Farm:
    """Browsers, and the jobs that share them.

    Args:
        browsers: How many.
        measured: What takes how long.
        seed: Of what is drawn.
    """

    def __init__(self, browsers: int, measured: Durations, *, seed: int = 1) -> None:
        self.clock: Any = simpy.Environment()
        self.tally = BrowserTally()
        self._browsers = browsers
        self._measured = measured
        self._draw = random.Random(seed)
        self._slots: Any = simpy.Resource(self.clock, browsers)
        self._head: Any = simpy.Resource(self.clock, 1)
        self._database: Any = simpy.Resource(self.clock, 1)
        processes = coordinators_for(renders_at_once(browsers, None))
        self._coordinators: list[Any] = [simpy.Resource(self.clock, 1) for _ in range(processes)]

    def one(self, spec: RenderSpec) -> float:
        """Render one video; return how long it took."""
        self.clock.run(self.clock.process(self._job(spec, 0)))
        return float(self.clock.now)

    def many(self, specs: Sequence[RenderSpec], *, warm_s: float, for_s: float) -> BrowserTally:
        """Render videos without end, as many at once as there is room for; return what was done after a while.

        Args:
            specs: What they are, drawn one at a time.
            warm_s: How long it runs before anything counts.
            for_s: How long it counts.
        """

        def lane(place: int) -> Generator[Any]:
            yield self.clock.timeout(self._draw.random() * warm_s / 2)  # they do not all begin at once
            while True:
                yield from self._job(self._draw.choice(specs), place)

        for place in range(renders_at_once(self._browsers, None)):
            self.clock.process(lane(place))
        self.clock.run(warm_s)
        self.tally = BrowserTally()
        self.clock.run(warm_s + for_s)
        return self.tally

    def _job(self, spec: RenderSpec, place: int) -> Generator[Any]:
        yield self.clock.timeout(self._draw.choice(self._measured.before))
        plan = plan_units(spec)
        missing, cost, left = list(plan), CostModel(spec), spec.frame_count
        cost.stepped = False
        slots = Slots(self._browsers, self._browsers)
        coordinator = self._coordinators[place % len(self._coordinators)]

        def crew() -> Generator[Any]:
            nonlocal left
            while missing:
                units = next_units(missing, workers=self._browsers, cost=cost)
                del missing[: len(units)]
                for frames, seconds in (yield from self._task(spec, units, coordinator)):
                    cost.learn(frames, seconds)
                    left -= frames

        at_once = min(tasks_at_once(left, slots, cost), len(missing))
        yield self.clock.all_of([self.clock.process(crew()) for _ in range(at_once)])
        fixed, each = self._measured.join
        yield self.clock.timeout(fixed + each * len(plan))

    def _task(
        self, spec: RenderSpec, units: Sequence[Unit], coordinator: Any
    ) -> Generator[Any, Any, list[tuple[int, float]]]:
        """Have a browser capture units; returns each one's frames and seconds."""
        with self._slots.request() as slot:
            yield slot
            yield from self._serve(self._head, self._measured.dispatch)
            between = self._draw.choice(self._measured.between)
            yield self.clock.timeout(between)
            self.tally.between += between
            done: list[tuple[int, float]] = []
            shown, page = -1, 0.0
            for unit in units:
                if (run := run_of(spec, unit.index, stepped=False)) != shown:  # a page shows one run
                    shown, page = run, self._draw.choice(self._measured.page)
                    yield self.clock.timeout(page)
                    self.tally.page += page
                frames = unit.frame_count
                seconds = frames * self._draw.choice(self._measured.frame)
                if self._draw.random() < seconds / 3600 * self._measured.lost_per_hour:  # and it is begun anew
                    again = self._draw.random() * seconds + self._measured.away + page + between
                    yield self.clock.timeout(again)
                    self.tally.lost += again
                yield self.clock.timeout(seconds)
                self.tally.capture, self.tally.frames = self.tally.capture + seconds, self.tally.frames + frames
                done.append((frames, seconds))
        for _ in units:
            yield from self._serve(coordinator, self._measured.coordinate)
            yield from self._serve(self._database, self._measured.commit)
        return done

    def _serve(self, who: Any, seconds: float) -> Generator[Any]:
        with who.request() as turn:
            yield turn
            yield self.clock.timeout(seconds)
