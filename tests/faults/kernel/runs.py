"""One job through as many processes as it takes, and what an outsider has seen of it.

A `Plan` says when processes are killed: by themselves at a point that has a name, or from outside, a moment after the
Nth point that they tell. A random plan follows from its seed alone.
"""

from __future__ import annotations

import json
import os
import random
import re
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agent.world import PUTS
from tests.faults.kernel.life import KernelJob, KernelLife, fork, live, look
from tests.faults.kernel.outside import effects
from tests.faults.kernel.work import CHARGED, CHARGED_WIDE

__all__ = ["Death", "Disturbances", "JobTally", "each_nth", "random_plan", "run"]

_LIVES = 60
_SHARED_WRITES = 3
_POINTS, _POINTS_WIDE = 110, 420  # a few more than a job has
_DELAY_S = 0.015
_EMPTY = 0.1
_WIDE, _WIDE_TWINS = 0.75, 0.5
_OPENING_S = 0.5


@dataclass(frozen=True)
class Death:
    """How a process ends: at a point's name, or ``delay_s`` after it has told ``points`` of them."""

    at: str | None = None
    points: int = 0
    delay_s: float = 0.0


@dataclass(frozen=True)
class Disturbances:
    """How a job is disturbed.

    Args:
        name: What it is called, and how it can be run again.
        deaths: How the first processes end; those after them live.
        twins: Whether two processes do it at once, which take it from each other.
        empty: Whether it begins in a store that was never opened.
        wide: Whether it is the wide job (`Job.wide`).
    """

    name: str
    deaths: tuple[Death, ...] = ()
    twins: bool = False
    empty: bool = False
    wide: bool = False


def random_plan(seed: int, *, twins: bool = False) -> Disturbances:
    """Kill one to three processes at random instants; now and then while they make the tables.

    Three of four jobs are wide, and of twins' every second.
    """
    dice = random.Random(seed)
    wide = dice.random() < (_WIDE_TWINS if twins else _WIDE)
    most = _POINTS_WIDE if wide else _POINTS
    deaths = [Death(points=dice.randrange(most), delay_s=dice.uniform(0, _DELAY_S)) for _ in range(dice.randint(1, 3))]
    if empty := dice.random() < _EMPTY:
        deaths[0] = Death(delay_s=dice.uniform(0, _OPENING_S))
    return Disturbances(f"--seed {seed}{' --twins' if twins else ''}", tuple(deaths), twins, empty, wide)


def each_nth(points: Sequence[str], every: int, first: int) -> Sequence[str]:
    """Pick each Nth point; which of them follows from ``first``, so that in time all come and each run can be repeated.

    Args:
        points: All of them, always in the same order.
        every: N; 1 is all.
        first: Any number; the same one picks the same points.
    """
    return points[first % every :: every]


@dataclass
class JobTally:
    """What came of jobs; ``missed`` kills were to come at a point that a job did without."""

    jobs: int = 0
    kills: int = 0
    takeovers: int = 0
    repeated_effects: int = 0
    missing_effects: int = 0
    lost_events: int = 0
    lost_outcomes: int = 0
    invalid_histories: int = 0
    unfinished: int = 0
    missed: int = 0
    points: set[str] = field(default_factory=set[str])
    notes: list[str] = field(default_factory=list[str])

    @property
    def good(self) -> bool:
        """Whether nothing went wrong."""
        wrong = (self.repeated_effects, self.missing_effects, self.lost_events, self.lost_outcomes)
        return not any((*wrong, self.invalid_histories, self.unfinished, self.notes))

    def add(self, other: JobTally) -> None:
        """Count another's too."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, mine | value if isinstance(value, set) else mine + value)

    def report(self) -> dict[str, object]:
        """Write it down."""
        return {**vars(self), "points": sorted(self.points)}


@dataclass
class _Witness:
    """What processes told before they ended."""

    session_id: str | None = None
    acknowledged: dict[int, str] = field(default_factory=dict[int, str])
    seen: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    outcomes: dict[str, str] = field(default_factory=dict[str, str])
    events: dict[int, str] = field(default_factory=dict[int, str])
    points: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    rewritten: list[str] = field(default_factory=list[str])
    invalid: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])
    takeovers: int = 0
    done: bool = False

    def hear(self, line: bytes) -> None:
        word, _, rest = line.decode().partition(" ")
        value: Any = json.loads(rest)
        match word:
            case "at":
                self.points.append(value)
            case "session":
                self.session_id = value
            case "acknowledged":
                for seq, event_id in value:
                    if self.acknowledged.setdefault(seq, event_id) != event_id:
                        self.lost.append(f"event {seq} was acknowledged twice, as another")
            case "saw":
                self.seen.append((value[0], value[1]))
            case "outcomes":
                self.outcomes |= value
            case "events":
                self.events = dict(value)
            case "fenced":
                self.takeovers += 1
            case "done":
                self.done = True
            case _:
                {"lost": self.lost, "rewritten": self.rewritten, "invalid": self.invalid, "failed": self.failed}[
                    word
                ].append(value)


@dataclass
class _Process:
    """A process that lives, what it told, and when it is to be killed."""

    pid: int
    told: int
    death: Death
    witness: _Witness
    kill_at: float | None = None
    rest: bytes = b""
    status: int | None = None

    @classmethod
    def start(cls, job: KernelJob, life: KernelLife, death: Death, witness: _Witness) -> _Process:
        pid, told = fork(lambda tell: live(job, life, tell))
        process = cls(pid, told, death, witness)
        process.due()
        return process

    def due(self) -> None:
        death = self.death
        if self.kill_at is None and death.delay_s and len(self.witness.points) >= death.points:
            self.kill_at = time.monotonic() + death.delay_s

    def read(self) -> None:
        """Hear what there is; at the end, see how it ended."""
        data = os.read(self.told, 1 << 16)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.witness.hear(line)
        self.due()
        if not data:
            os.close(self.told)
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _through(processes: list[_Process]) -> None:
    """See processes to their ends, killing those that are to be killed; all of them where this is cut off."""
    try:
        _watch(processes)
    finally:
        for process in processes:
            if process.status is None:
                os.kill(process.pid, signal.SIGKILL)
                os.waitpid(process.pid, 0)


def _watch(processes: list[_Process]) -> None:
    while living := [process for process in processes if process.status is None]:
        now = time.monotonic()
        for process in living:
            if process.kill_at is not None and process.kill_at <= now:
                os.kill(process.pid, signal.SIGKILL)
                process.kill_at = float("inf")
        times = [process.kill_at - now for process in living if process.kill_at not in (None, float("inf"))]  # type: ignore[operator]
        ready, _, _ = select.select([process.told for process in living], [], [], max(0.0, min(times, default=5.0)))
        for process in living:
            if process.told in ready:
                process.read()


def run(job: KernelJob, plan: Disturbances, outside: Path) -> JobTally:
    """Have a job done as planned, and count what went wrong.

    Args:
        job: The job; nobody has begun it.
        plan: When processes are killed.
        outside: The file of the world outside.
    """
    tally, session_id = JobTally(jobs=1), None
    outcomes: dict[str, str] = {}
    witnesses: list[_Witness] = []
    seen = [0, 0]
    deaths = list(plan.deaths)
    for _ in range(_LIVES):
        living: list[_Process] = []
        for place in range(2 if plan.twins else 1):
            death = deaths.pop(0) if deaths else Death()
            life = KernelLife(dies_at=death.at, seen=seen[place], outcomes=outcomes, returns=plan.twins)
            living.append(_Process.start(job, life, death, _Witness()))
        _through(living)
        for place, process in enumerate(living):
            witness = process.witness
            witnesses.append(witness)
            session_id = witness.session_id or session_id
            outcomes = outcomes | witness.outcomes
            seen[place] = witness.seen[-1][0] if witness.seen else seen[place]
            tally.kills += process.status == -signal.SIGKILL
            if process.status not in (0, -signal.SIGKILL):
                tally.notes.append(f"{plan.name}: ended by {process.status}: {' '.join(witness.failed)}")
        if tally.notes or any(witness.done for witness in witnesses):
            break
    done = [witness for witness in witnesses if witness.done]
    if not done or session_id is None:
        tally.unfinished = 1
        tally.notes.append(f"{plan.name}: never done")
        return tally
    _judge(job, plan, outside, witnesses, session_id, outcomes, tally)
    return tally


def _may_be_missed(point: str, reached: Sequence[str], *, wide: bool) -> bool:
    """Whether a job that was never killed at a point may have done without it.

    Calls that come at once may share a write, so one job makes a few fewer than another. In a wide job two agents that
    end at once are told of in one turn, where one job more, or a piece of an answer more, takes a turn of its own; and
    of two that write at once, one may be refused in its transaction, which then has no later instant.
    """
    kind, nth = _split(point)
    if wide and kind == "write" and f"write#{nth}:before" in reached and point not in reached:
        return True
    last = max((n for name, n in map(_split, reached) if name == kind), default=0)
    return last < nth and last > 0 and (wide or (kind == "write" and nth <= last + _SHARED_WRITES))


def _split(point: str) -> tuple[str, int]:
    found = re.match(r"(.+)#(\d+)", point)
    assert found is not None, point
    return found[1], int(found[2])


def _judge(
    job: KernelJob,
    plan: Disturbances,
    outside: Path,
    witnesses: list[_Witness],
    session_id: str,
    outcomes: dict[str, str],
    tally: JobTally,
) -> None:
    last = _Witness()
    pid, told = fork(lambda tell: look(job, KernelLife(outcomes=outcomes), session_id, tell))
    _through([process := _Process(pid, told, Death(), last)])
    if process.status != 0:
        tally.notes.append(f"{plan.name}: the look at the end: {' '.join(last.failed)}")
    reached = [point for witness in witnesses for point in witness.points]
    tally.points.update(reached)
    for death in plan.deaths:
        if death.at is not None and tally.kills == 0:
            if _may_be_missed(death.at, reached, wide=plan.wide):
                tally.missed += 1
            else:
                tally.notes.append(f"{plan.name}: {death.at} was never reached")
    charges, puts = effects(outside, job.name)
    items = CHARGED_WIDE if plan.wide else CHARGED
    put = [item.partition(":")[0] for item in puts]
    for wanted, there in (
        *((f"charge {item}", charges.count(item)) for item in items),
        *((f"put {item}", put.count(item)) for item in PUTS),
    ):
        tally.repeated_effects += max(0, there - 1)
        tally.missing_effects += there == 0
        if there != 1:
            tally.notes.append(f"{plan.name}: {wanted} was done {there} times")
    gone = [
        f"event {seq} was acknowledged as {event_id}, is {last.events.get(seq)}"
        for witness in witnesses
        for seq, event_id in witness.acknowledged.items()
        if last.events.get(seq) != event_id
    ]
    gone += _unread(witnesses, last.events, twins=plan.twins)
    everybody = [*witnesses, last]
    lost = gone + [what for witness in everybody for what in witness.lost]
    rewritten = [what for witness in everybody for what in witness.rewritten]
    invalid = [what for witness in everybody for what in witness.invalid]
    tally.lost_events, tally.lost_outcomes = len(lost), len(rewritten)
    tally.invalid_histories = len(invalid)
    tally.takeovers = sum(witness.takeovers for witness in witnesses)
    tally.notes += [f"{plan.name}: {what}" for what in (*lost, *rewritten, *invalid)]


def _unread(witnesses: list[_Witness], events: dict[int, str], *, twins: bool) -> list[str]:
    """Say what readers, each going on where the one before was killed, were not given in order and once."""
    readers = (witnesses[0::2], witnesses[1::2]) if twins else (witnesses,)
    wrong: list[str] = []
    for reader in readers:
        seen = [event for witness in reader for event in witness.seen]
        if [seq for seq, _ in seen] != list(range(1, len(seen) + 1)):
            wrong.append(f"a reader was given {[seq for seq, _ in seen]}")
        wrong += [
            f"a reader was given {event_id} for event {seq}" for seq, event_id in seen if events.get(seq) != event_id
        ]
        if reader and reader[-1].done and len(seen) != len(events):
            wrong.append(f"a reader was given {len(seen)} of {len(events)} events")
    return wrong
