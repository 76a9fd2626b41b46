"""Many agents in one process: so many in memory, so many at work, and nobody lost when the process is killed.

What is said to an agent is stored before `AgentPool.send` returns, so the store is every agent's mailbox. An agent that
has nothing to do is let go after a while, or at once when another needs its place, and is read back with the next
message. A queue that only grows would hide that the models are too slow: there is none, whoever speaks waits.

An agent in memory has its row marked as active, under a lease. So after a crash the rows say who was at work, and the
next pool over the store takes them up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from koda_ray.agent.alone import Agent, agent_node, project_of
from koda_ray.agent.limits import LoopOutcome
from koda_ray.agent.runtime import Openable, OpenRuntime, Runtime
from koda_ray.agent.seats import PoolBounds, Seat, Seats
from koda_ray.agent.whereabouts import is_gone
from koda_ray.errors import Cancelled, Fenced, KodaError, NotFound
from koda_ray.events import NewEvent
from koda_ray.logs import get_logger
from koda_ray.state.records import SessionRecord
from koda_ray.state.tiers import TimeWindow
from koda_ray.types import now

__all__ = ["AgentPool", "PoolBounds", "PoolStatus"]

_PAGE = 500
_FIRST_WAIT_S = 0.5
_log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class PoolStatus:
    """What the agents in memory do, by their names."""

    running: tuple[str, ...]
    queued: tuple[str, ...]
    idle: tuple[str, ...]


class AgentPool(Openable):
    """Agents by name, in memory while they have something to do. Use it as a context manager.

    Args:
        make: Makes the agent of a name, on the runtime that it is given; None for a name that is none of the pool's.
        runtime: What all of them run on. Where it names no provider, each agent makes its own.
        bounds: How much it takes on.

    Raises:
        InvalidInput: ``json:`` names no folder.

    Example:
        ```python
        async with AgentPool(lambda name, runtime: Agent(name, [add], runtime=runtime)) as pool:
            answer = await pool.ask("ann", "Two and three?")
        ```
    """

    def __init__(
        self,
        make: Callable[[str, Runtime], Agent | None],
        *,
        runtime: Runtime | None = None,
        bounds: PoolBounds | None = None,
    ) -> None:
        self._runtime = OpenRuntime(runtime or Runtime())
        self._store, self._user = self._runtime.store, self._runtime.user
        self._bounds = bounds or PoolBounds()
        self._seats = Seats(make, runtime=self._runtime.shared, bounds=self._bounds)
        self._seats.closing = True  # until it is open
        self._slots = asyncio.Semaphore(self._bounds.running)
        self._tending: asyncio.Task[None] | None = None
        self._taking_up: asyncio.Task[None] | None = None

    # --- life -----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store, and take up every agent that was at work in a process that is no more."""
        await self._runtime.open_store()
        left = await self._left_behind()
        self._seats.closing = False
        self._taking_up = asyncio.get_running_loop().create_task(self._take_up(left))
        self._tending = asyncio.get_running_loop().create_task(self._tend())

    async def close(self) -> None:
        """Take nothing new, wait for what is under way, and let every agent go; may be called twice.

        What is not done in time is cut off, as by a crash, and taken up by the next pool.
        """
        self._seats.closing = True
        self._seats.news()
        await _ended(self._taking_up, self._tending)
        seats, deadline = self._seats.by_name, time.monotonic() + self._bounds.drain_s
        while any(not seat.is_idle for seat in seats.values()) and time.monotonic() < deadline:
            await self._seats.look_again(deadline)
        unfinished = {name for name, seat in seats.items() if not seat.is_idle}
        await _ended(*(seat.task for seat in seats.values()))
        for seat in [seat for seat in seats.values() if seat.stage != "closing"]:
            self._seats.leave(seat, unfinished=seat.name in unfinished)
        await self._seats.gone()
        await self._runtime.close()

    # --- talking to agents ----------------------------------------------------------------------------------------

    async def send(self, name: str, text: str, *, key: str | None = None) -> None:
        """Say something to an agent, which answers when its turn comes; it is stored when this returns.

        Args:
            name: The agent's.
            text: What is said.
            key: Names what is said: under one key it is said once.

        Raises:
            Unavailable: There was no place for it in time, or the pool is closed; nothing was stored.
            NotFound: There is no such agent.
            Conflict: Something else was said under this key.
            Fenced: Another process has taken the agent over; who says it again takes it back.
            InvalidInput: The text is blank.
        """
        async with self._spoken(name, text, key):
            pass

    async def ask(self, name: str, text: str, *, key: str | None = None) -> LoopOutcome:
        """Say something to an agent and wait for its answer. Who stops waiting takes nothing back.

        Returns:
            Why it stopped, with its last words.

        Raises:
            ModelError: The model cannot be reached or refused.
            Unavailable: As `send`; also where the pool was closed before the answer: the next pool goes on with it.
            Cancelled: Somebody cancelled what it was doing.
            KodaError: As `send`.
        """
        answer: asyncio.Future[LoopOutcome] = asyncio.get_running_loop().create_future()
        async with self._spoken(name, text, key) as seat:
            seat.waiting.append(answer)
        return await answer

    @asynccontextmanager
    async def use(self, name: str) -> AsyncGenerator[Agent]:
        """Have an agent to oneself, such as to answer what it asks; it counts as at work. Raises as `send`."""
        async with self._seats.hold(name, deadline=self._deadline()) as seat:
            async with seat.working(self._slots):
                yield seat.it
            await self._go_on(seat)

    async def cancel(self, name: str, reason: str = "The person cancelled.") -> int:
        """Stop what an agent is doing, and what it was told so far; whoever asked gets `Cancelled`.

        What is said from then on, be it before this has ended, is answered as ever.

        Args:
            name: The agent's.
            reason: Why, for its model: one sentence.

        Returns:
            How many calls were closed.
        """
        async with self._seats.hold(name, deadline=self._deadline()) as seat:
            place = await seat.it.place()
            seat.give_up(Cancelled(f"what the agent {name!r} was asked was cancelled"))
            async with seat.calm:  # what is said from now on waits for the end of this
                if not (seat.running and seat.it.busy):
                    await _ended(seat.task)  # it was waiting for its turn
                closed = await seat.it.cancel(reason, place=place)
            return closed

    async def rest(self, name: str | None = None) -> None:
        """Wait until one agent, or all, have nothing to do, those included that a crash had left at work."""
        while self._is_taking_up or any(
            not seat.is_idle for seat in self._seats.by_name.values() if name in (None, seat.name)
        ):
            await self._seats.look_again()

    @property
    def status(self) -> PoolStatus:
        """What the agents in memory do now."""
        seats = [seat for seat in self._seats.by_name.values() if seat.stage == "open"]
        return PoolStatus(
            running=tuple(seat.name for seat in seats if seat.running),
            queued=tuple(seat.name for seat in seats if seat.task is not None and not seat.running),
            idle=tuple(seat.name for seat in seats if seat.task is None),
        )

    @property
    def _is_taking_up(self) -> bool:
        return self._taking_up is not None and not self._taking_up.done()

    def _deadline(self) -> float:
        return time.monotonic() + self._bounds.wait_s

    @asynccontextmanager
    async def _spoken(self, name: str, text: str, key: str | None) -> AsyncGenerator[Seat]:
        deadline = self._deadline()
        async with self._seats.hold(name, deadline=deadline) as seat:
            while seat.unanswered >= self._bounds.unanswered:
                await self._seats.wait(deadline, f"{seat.unanswered} messages to {name!r} are unanswered")
            seat.unanswered += 1
            try:
                await seat.it.say(text, key=key)
            except BaseException:
                seat.unanswered -= 1
                raise
            yield seat
            self._work(seat)

    # --- work -----------------------------------------------------------------------------------------------------

    def _work(self, seat: Seat) -> None:
        seat.more, seat.retires = True, False
        if seat.task is None and seat.stage == "open":
            seat.task = asyncio.get_running_loop().create_task(self._answer(seat), name=seat.name)
            seat.task.add_done_callback(lambda task: self._worked(seat, cut_off=task.cancelled()))

    async def _go_on(self, seat: Seat) -> None:
        """Have an agent go on that owes something, unless somebody cancels just that."""
        cancels = seat.cancels
        if await seat.it.owes() and seat.cancels == cancels and not seat.calm.locked():
            self._work(seat)

    def _worked(self, seat: Seat, *, cut_off: bool) -> None:
        seat.task, seat.used_at = None, time.monotonic()
        if seat.more and not (cut_off and self._seats.closing):  # said in the moment in which it ended
            self._work(seat)
        self._seats.retire(seat)
        self._seats.news()

    async def _answer(self, seat: Seat) -> None:
        """Run an agent until nobody has said anything more. One that stopped short is let go with what it has."""
        while seat.more:
            try:
                outcome = await self._run(seat)
            except Cancelled as error:  # more was said since, or nothing
                seat.retires = not seat.more
                seat.tell(error)
                continue
            except KodaError as error:
                seat.more, seat.retires = False, True
                if isinstance(error, Fenced):
                    self._seats.leave(seat)
                else:
                    await self._report(seat, error)
                seat.tell(error)
                return
            except Exception as error:
                seat.more, seat.retires = False, True
                _log.exception("agent_bug", agent=seat.name)
                seat.tell(KodaError(f"an internal error ended the run of {seat.name!r}: {type(error).__name__}"))
                return
            seat.retires = outcome.kind not in ("end_turn", "suspended")
            seat.tell(outcome)

    async def _run(self, seat: Seat) -> LoopOutcome:
        for attempt in range(1, self._bounds.attempts + 1):
            async with seat.working(self._slots):
                seat.begin()
                self._seats.news()
                try:
                    return await seat.it.run()
                except KodaError as error:
                    if not error.retryable or attempt == self._bounds.attempts:
                        raise
                    _log.warning("agent_again", agent=seat.name, attempt=attempt, code=error.code)
                finally:
                    seat.running = False
            await asyncio.sleep(_FIRST_WAIT_S * 2 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    async def _report(self, seat: Seat, error: KodaError) -> None:
        """Tell of what ended a run, for those who were not waiting for it."""
        _log.warning("agent_failed", agent=seat.name, code=error.code)
        try:
            data = {"agent": seat.name, "message": error.message, "code": error.code}
            await seat.it.emit(NewEvent(type="error", data=dict(data)))
        except KodaError as another:
            _log.warning("agent_failed", agent=seat.name, code=another.code)

    # --- after others, and over time ------------------------------------------------------------------------------

    async def _left_behind(self) -> list[str]:
        """List agents that somebody had open who is gone, those first that have waited longest."""
        found, seen, until = list[SessionRecord](), set[str](), None
        while True:
            window = TimeWindow(until=until, limit=_PAGE)
            page = await self._store.query_sessions(self._user, statuses=("active",), window=window)
            fresh = [row for row in page if row.id not in seen]
            seen.update(row.id for row in fresh)
            found.extend(row for row in fresh if row.project_id == project_of(self._user) and _is_loose(row))
            if len(page) < _PAGE or not fresh:
                break
            until = page[-1].last_activity + timedelta(microseconds=1)  # the others of that instant too
        prefix = agent_node("")
        names = [row.node_id.removeprefix(prefix) for row in reversed(found) if row.node_id.startswith(prefix)]
        return [name for name in names if name not in self._seats.by_name]

    async def _take_up(self, names: list[str]) -> None:
        """Bring agents back that were open, one after the other, and have those go on that owe something."""
        for name in names:
            try:
                async with self._seats.hold(name) as seat:
                    if seat.task is None:
                        await self._go_on(seat)
            except NotFound:
                _log.info("not_of_this_pool", agent=name)
            except KodaError as error:
                _log.warning("agent_not_taken_up", agent=name, code=error.code)

    async def _tend(self) -> None:
        """Renew leases, let idle agents go, and look for agents whose process has ended."""
        bounds, renewed = self._bounds, time.monotonic()
        while True:
            await asyncio.sleep(min(bounds.lease_s / 3, bounds.idle_s / 2))
            at = time.monotonic()
            for seat in list(self._seats.by_name.values()):
                if seat.is_idle and at - seat.used_at >= bounds.idle_s:
                    self._seats.leave(seat)
            if at - renewed < bounds.lease_s / 3:
                continue
            renewed = at
            for seat in list(self._seats.by_name.values()):
                if seat.stage == "open":  # still, while those before it were renewed
                    await self._renew(seat)
            try:
                if not self._is_taking_up and (left := await self._left_behind()):
                    self._taking_up = asyncio.get_running_loop().create_task(self._take_up(left))
            except KodaError as error:
                _log.warning("not_looked_around", code=error.code)

    async def _renew(self, seat: Seat) -> None:
        try:
            await seat.it.renew(self._seats.lease)
        except Fenced:
            if seat.is_idle:
                self._seats.leave(seat)  # one at work finds out by itself, and tells whoever waits
        except KodaError as error:
            _log.warning("lease_not_renewed", agent=seat.name, code=error.code)


def _is_loose(row: SessionRecord) -> bool:
    return row.lease_until is None or row.lease_until <= now() or is_gone(row.host)


async def _ended(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait for them."""
    running = [task for task in tasks if task is not None and not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
