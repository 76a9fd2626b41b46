"""The places of a pool: which agents are in memory, who needs them there, and who has to go when another comes.

An agent is brought in when somebody holds its seat, and let go when nobody does and it has nothing to do. Where every
place is taken by agents at work, whoever comes waits, and is told when that takes too long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from koda_ray.agent.alone import Agent
from koda_ray.agent.limits import LoopOutcome
from koda_ray.agent.runtime import Runtime
from koda_ray.errors import Cancelled, Fenced, InvalidInput, KodaError, NotFound, Unavailable
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger

__all__ = ["PoolBounds", "Seat", "Seats"]

_LOOK_S = 0.25
_log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class PoolBounds:
    """How much a pool takes on.

    Args:
        open: Agents in memory.
        running: Agents at work at the same time, of those.
        unanswered: Messages to one agent that it has not begun to answer.
        attempts: Runs of an agent whose model fails in a way that may pass, before it is left until it is spoken to.
        wait_s: How long whoever speaks waits for a place.
        idle_s: How long an agent without work stays in memory.
        drain_s: How long `AgentPool.close` waits for agents at work.
        lease_s: How long a row counts as held by a process that nobody can ask whether it is alive.

    Raises:
        InvalidInput: A bound is below one, or a time not above zero.
    """

    open: int = 100
    running: int = 32
    unanswered: int = 16
    attempts: int = 3
    wait_s: float = 30.0
    idle_s: float = 60.0
    drain_s: float = 30.0
    lease_s: float = 30.0

    def __post_init__(self) -> None:
        for name in ("open", "running", "unanswered", "attempts"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"a pool with {name}={getattr(self, name)} can do nothing; give 1 or more")
        for name in ("wait_s", "idle_s", "drain_s", "lease_s"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"{name}={getattr(self, name)} must be above 0 seconds")


@dataclass(eq=False)
class Seat:
    """An agent's place in memory.

    ``holds`` counts those who need it open; ``more`` says that it was spoken to since its last run began, and
    ``retires`` that it is let go as soon as it is idle. Those in ``waiting`` spoke since its last run began, those in
    ``due`` before. Who cancels its work has ``calm`` meanwhile, and ``cancels`` counts how often that was begun.
    """

    name: str
    stage: Literal["opening", "open", "closing"] = "opening"
    agent: Agent | None = None
    task: asyncio.Task[None] | None = None
    running: bool = False
    more: bool = False
    retires: bool = False
    holds: int = 0
    cancels: int = 0
    unanswered: int = 0
    used_at: float = field(default_factory=time.monotonic)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    calm: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[asyncio.Future[LoopOutcome]] = field(default_factory=list[asyncio.Future[LoopOutcome]])
    due: list[asyncio.Future[LoopOutcome]] = field(default_factory=list[asyncio.Future[LoopOutcome]])

    @property
    def it(self) -> Agent:
        """The agent, which is there from the moment that somebody holds the seat."""
        assert self.agent is not None
        return self.agent

    @property
    def is_idle(self) -> bool:
        """Whether it could be let go now."""
        return self.stage == "open" and self.task is None and self.holds == 0 and not self.it.busy

    def begin(self) -> None:
        """Note that a run begins, which answers everything said so far."""
        self.running, self.more, self.unanswered = True, False, 0
        self.due.extend(self.waiting)
        self.waiting.clear()

    @asynccontextmanager
    async def working(self, slots: asyncio.Semaphore) -> AsyncGenerator[None]:
        """Have the agent to oneself, and one of the slots, while nobody cancels what it does."""
        async with self.turn, slots:  # in this order: who waits for its turn takes up no slot
            async with self.calm:
                pass
            yield

    def give_up(self, why: KodaError) -> None:
        """Note that nobody wants any more what was said so far: those who wait for it are told so."""
        self.more, self.retires, self.unanswered = False, True, 0
        self.cancels += 1
        self.tell(why)

    def tell(self, what: LoopOutcome | KodaError) -> None:
        """Answer those who waited for the run that has ended; with an error, everybody, unless it was cancelled."""
        everybody = isinstance(what, KodaError) and not (isinstance(what, Cancelled) and self.more)
        told = [*self.due, *(self.waiting if everybody else [])]
        self.due.clear()
        if everybody:
            self.waiting.clear()
        for each in told:
            if each.done():
                continue
            if isinstance(what, KodaError):
                each.set_exception(what)
            else:
                each.set_result(what)


class Seats:
    """The seats of one pool.

    Args:
        make: Makes the agent of a name; None for a name that is none of the pool's.
        runtime: What the agents run on; its store is open.
        bounds: How many there are.
    """

    def __init__(self, make: Callable[[str, Runtime], Agent | None], *, runtime: Runtime, bounds: PoolBounds) -> None:
        self._make = make
        self._runtime = runtime
        self._bounds = bounds
        self._changed = asyncio.Event()
        self._leaving: set[asyncio.Task[None]] = set()
        self.lease = timedelta(seconds=bounds.lease_s)
        self.closing = False
        """Whether nobody new is let in."""
        self.by_name: dict[str, Seat] = {}

    @asynccontextmanager
    async def hold(self, name: str, *, deadline: float | None = None) -> AsyncGenerator[Seat]:
        """Have an agent in memory until the block ends.

        Args:
            name: The agent's.
            deadline: Until when to wait for a place, in the clock of `time.monotonic`; as long as it takes when None.

        Raises:
            Unavailable: There was no place in time, or nobody is let in any more.
            NotFound: There is no such agent.
        """
        seat = await self._place(name, deadline)
        try:
            yield seat
        except Fenced:
            self.leave(seat)
            raise
        finally:
            seat.holds -= 1
            seat.used_at = time.monotonic()
            self.news()
            self.retire(seat)

    def leave(self, seat: Seat, *, unfinished: bool = False) -> asyncio.Task[None]:
        """Begin to let an agent go, and return what ends when it is gone."""
        seat.stage = "closing"
        task = asyncio.get_running_loop().create_task(self._let_go(seat, unfinished))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return task

    def retire(self, seat: Seat) -> None:
        """Let an agent go that is to be let go, where it is idle."""
        if seat.retires and seat.is_idle:
            self.leave(seat)

    async def gone(self) -> None:
        """Wait until all that are being let go are gone."""
        while self._leaving:
            await asyncio.wait(set(self._leaving))

    def news(self) -> None:
        """Have everybody look again who waits."""
        self._changed.set()

    async def look_again(self, deadline: float | None = None) -> None:
        """Wait until something may have changed, or the time has come."""
        self._changed.clear()
        # subagents that end are not told of here: so look now and then
        left = _LOOK_S if deadline is None else min(_LOOK_S, max(0.0, deadline - time.monotonic()))
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._changed.wait()

    async def wait(self, deadline: float | None, why: str) -> None:
        """Wait once more for a place; raises Unavailable when the time has come."""
        if deadline is not None and time.monotonic() >= deadline:
            raise Unavailable(f"{why}, for {self._bounds.wait_s:g} s; try again later, or raise the pool's bounds")
        await self.look_again(deadline)

    async def _place(self, name: str, deadline: float | None) -> Seat:
        while True:
            if self.closing:
                raise Unavailable(f"the pool is closed: nothing can be said to {name!r}")
            seat = self.by_name.get(name)
            if seat is not None and seat.stage == "open":
                seat.holds += 1
                return seat
            if seat is None and len(self.by_name) < self._bounds.open:
                return await self._bring(name)
            idle = [each for each in self.by_name.values() if each.is_idle]
            if seat is None and idle:
                self.leave(min(idle, key=lambda each: each.used_at))
            await self.wait(deadline, f"all {self._bounds.open} places are taken by agents at work")

    async def _bring(self, name: str) -> Seat:
        seat = self.by_name[name] = Seat(name, holds=1)
        try:
            seat.agent = self._made(name)
            await seat.agent.open(lease=self.lease)
            await seat.agent.emit(NewEvent(type="activated", data={"agent": name}))
        except BaseException:
            self.leave(seat)
            raise
        seat.stage = "open"
        self.news()
        return seat

    def _made(self, name: str) -> Agent:
        agent = self._make(name, self._runtime)
        if agent is None:
            raise NotFound(f"there is no agent {name!r} in this pool")
        if (agent.name, agent.user) != (name, self._runtime.user):
            raise InvalidInput(f"make({name!r}) gave the agent {agent.name!r} of {agent.user!r}; the pool's user is "
                               f"{self._runtime.user!r}")  # fmt: skip
        return agent

    async def _let_go(self, seat: Seat, unfinished: bool) -> None:
        try:
            if seat.agent is not None:
                with suppress(KodaError):  # fenced, or never opened: it is let go all the same
                    if not unfinished:
                        await seat.agent.emit(NewEvent(type="passivated", data={"agent": seat.name}))
                await seat.agent.close(unfinished=unfinished)
        except KodaError as error:  # its lease ends by itself
            _log.warning("agent_not_let_go", agent=seat.name, code=error.code)
        finally:
            if self.by_name.get(seat.name) is seat:
                del self.by_name[seat.name]
            gone = f"the agent {seat.name!r} was let go before it answered; what was said is stored, and it goes on"
            seat.tell(Unavailable(gone))
            self.news()
