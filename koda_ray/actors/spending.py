"""What a session may spend, the time that its sandboxes and renders take of it, and the question when it is not enough.

Time is charged while it passes, in all so far and not by the piece: saying the same again, after a crash too, charges
nothing twice. What passes between the death of one process and the next one's taking up is nobody's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from koda_ray.agent.purse import Purse
from koda_ray.budgets import STORED, Amounts, Exceeded, shown
from koda_ray.commands import Pause
from koda_ray.render.protocol import UnitResult
from koda_ray.render.spec import RenderSpec
from koda_ray.state.charges import Accrue, ChargeEntry, ChargeRecord, Reserve, Settle
from koda_ray.types import Budget, Option, Question

if TYPE_CHECKING:
    from koda_ray.actors.core import SessionCore
    from koda_ray.config import Settings

__all__ = [
    "SLICE_MS",
    "RenderMinutes",
    "SandboxMinutes",
    "pause_for",
    "purse_of",
    "render_estimate_ms",
    "too_much_stored",
]

SLICE_MS = 60_000
"""So much sandbox time is held ahead."""
_FRAME_MS, _MEGAPIXEL_MS = 5.0, 25.0


def purse_of(core: SessionCore, settings: Settings) -> Purse:
    """Make a session's purse: what its person allowed, else what the settings do."""
    base = settings.budget
    return Purse(
        core.session_id,
        budget=lambda: (core.state.budget or Budget()).over(base),
        monthly=settings.user_budget,
        prices=settings.prices,
        stored=lambda: too_much_stored(core, settings.user_stored_mb << 20),
    )


async def too_much_stored(core: SessionCore, most_bytes: int) -> Exceeded | None:
    """Find that a session's user has stored as much as they may; None where they have not.

    It is asked before something is begun, never while what is there is saved: no quota loses anybody's work.
    """
    size = await core.store.stored_bytes(core.user_id)
    if size < most_bytes:
        return None
    return Exceeded(account=STORED, resource="stored", limit=most_bytes, spent=size, held=0, wanted=0)


def pause_for(found: Exceeded) -> Pause:
    """Turn what did not fit into a question that goes on with more, or stops."""
    said = found.error().message.partition("; raise")[0]
    said = said[0].upper() + said[1:]
    stop = Option(id="stop", label="Stop here", description="Nothing that was made is lost; it can be taken up later.")
    if found.is_monthly or found.account == STORED:
        again = Option(
            id="again",
            label="Try again",
            description="Once whoever runs this server has raised the limit, or in the next month."
            if found.is_monthly
            else "Once something was deleted. All that was made until now is kept.",
        )
        question = Question(text=f"{said}.", options=(again, stop), custom_input=False, reason="budget")
        return Pause(question=question, resource=found.resource, account=found.account, limit=found.limit)
    limit = found.limit + max(found.limit, found.wanted, 1)
    more = Option(
        id="more",
        label=f"Go on with {shown(found.resource, limit - found.limit)} more",
        description=f"The limit is {shown(found.resource, limit)} from then on.",
    )
    question = Question(text=f"{said}. Go on?", options=(more, stop), custom_input=False, reason="budget")
    return Pause(question=question, resource=found.resource, account=found.account, limit=found.limit, raise_to=limit)


class SandboxMinutes:
    """The time of the one sandbox that a session has.

    Args:
        purse: Who pays.
        every_s: How often it is written down, in seconds.
        clock: Tells the time, in seconds.
    """

    def __init__(self, purse: Purse, *, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._purse = purse
        self._every_s = every_s
        self._clock = clock
        self._sandbox_id: str | None = None
        self._before_ms = 0
        self._since = 0.0
        self._said = 0.0

    def begin(self, sandbox_id: str) -> Reserve:
        """Hold the first minutes of a sandbox that is to be made or taken up."""
        return Reserve(id=sandbox_id, kind="sandbox", amounts=Amounts(sandbox_ms=SLICE_MS), bounds=self._purse.bounds)

    def ready(self, sandbox_id: str, charges: Sequence[ChargeRecord] = ()) -> None:
        """Start the clock; what was charged for the sandbox by another process counts on."""
        before = sum((Amounts.of(charge.spent) for charge in charges if charge.id == sandbox_id), Amounts())
        self._sandbox_id, self._before_ms = sandbox_id, before.sandbox_ms
        self._since = self._said = self._clock()

    def going(self) -> list[ChargeEntry]:
        """Say how long it has gone on; nothing where that was said just now, or there is none."""
        if self._sandbox_id is None or self._clock() - self._said < self._every_s:
            return []
        self._said = self._clock()
        held = Amounts(sandbox_ms=SLICE_MS)
        return [Accrue(id=self._sandbox_id, spent=self._spent(), held=held, bounds=self._purse.bounds)]

    def end(self, sandbox_id: str) -> list[ChargeEntry]:
        """Settle a sandbox that is gone: what this process saw of it, or else what was said of it last."""
        mine = sandbox_id == self._sandbox_id
        spent = self._spent() if mine else None
        if mine:
            self._sandbox_id = None
        return [Settle(id=sandbox_id, kind="sandbox", spent=spent, bounds=self._purse.bounds)]

    def forget(self) -> None:
        """Let go of it: another activation counts on."""
        self._sandbox_id = None

    def _spent(self) -> Amounts:
        return Amounts(sandbox_ms=self._before_ms + round((self._clock() - self._since) * 1000))


class RenderMinutes:
    """The time that workers take for the units of one job; units that were there before cost nothing.

    Args:
        purse: Who pays.
        job_id: The job, and its charge.
        spec: What is rendered.
        charges: What is known of it already.
    """

    def __init__(self, purse: Purse, *, job_id: str, spec: RenderSpec, charges: Sequence[ChargeRecord] = ()) -> None:
        self._purse = purse
        self._job_id = job_id
        self._estimate_ms = render_estimate_ms(spec)
        mine = (each for each in charges if each.id == job_id)
        self._spent_ms = sum((Amounts.of(each.spent) for each in mine), Amounts()).render_ms

    def begin(self) -> Reserve:
        """Hold what the job may take."""
        return Reserve(id=self._job_id, kind="render", amounts=self._ahead(least=1), bounds=self._purse.bounds)

    def unit(self, unit: UnitResult) -> list[ChargeEntry]:
        """Charge a unit that is stored."""
        if unit.reused:
            return []
        self._spent_ms += round(unit.timings_ms.get("total", 0.0))
        return [self._accrue(self._ahead())]

    def pause(self) -> Accrue:
        """Hold nothing meanwhile; what was spent stays, and the same job goes on."""
        return self._accrue(Amounts())

    def end(self) -> Settle:
        """Settle what was used."""
        spent = Amounts(render_ms=self._spent_ms)
        return Settle(id=self._job_id, kind="render", spent=spent, bounds=self._purse.bounds)

    def _ahead(self, *, least: int = 0) -> Amounts:
        return Amounts(render_ms=max(least, self._estimate_ms - self._spent_ms))

    def _accrue(self, held: Amounts) -> Accrue:
        spent = Amounts(render_ms=self._spent_ms)
        return Accrue(id=self._job_id, spent=spent, held=held, bounds=self._purse.bounds)


def render_estimate_ms(spec: RenderSpec) -> int:
    """Estimate the workers' time for a video, from its frames and their size; what it took is charged in the end."""
    width, height = spec.picture
    return round(spec.frame_count * (_FRAME_MS + _MEGAPIXEL_MS * width * height / 1_000_000))
