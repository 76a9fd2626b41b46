"""What is said to a session at rest, and what became of it: each thing that is said leaves one event of its own.

Such a session has a plan of two scenes that waits for a person: no agent works for it, and it has no sandbox. What is
said puts the second scene first, under the name of what is said. So nothing that is said leaves a session as it was,
also where it is applied a second time; one event tells of it, by its name; and with it stands what came before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from koda_ray.events import Envelope
from koda_ray.state.records import SessionRecord
from koda_ray.types import NodeState, Plan, Scene

__all__ = ["BEGINNING", "PLAN", "SaidTally", "tally", "words"]

BEGINNING = "the beginning"
"""What stands where the first thing that is said finds what came before."""
PLAN = Plan(
    scenes=(
        Scene(number=1, title=BEGINNING, duration=2.0, description="a dot comes"),
        Scene(number=2, title="before that", duration=2.0, description="a dot goes"),
    ),
    total_duration=4.0,
    style="smooth",
)
"""What waits for a person."""


@dataclass(frozen=True)
class SaidTally:
    """How much was said, what of it is missing, and what of it happened twice."""

    said: int = 0
    lost: int = 0
    repeated: int = 0

    def __add__(self, other: SaidTally) -> SaidTally:
        return SaidTally(self.said + other.said, self.lost + other.lost, self.repeated + other.repeated)


def words(key: str) -> dict[str, JsonValue]:
    """Return what is said under a key, as the command ``plan`` has it."""
    return {"scenes": [{"scene": 2, "title": key}, {"scene": 1}]}


def tally(said: Mapping[str, bool], row: SessionRecord, events: Sequence[Envelope]) -> SaidTally:
    """Hold what was said to a session against its events, and against its state.

    Lost is an event that its numbers lack; what was answered and no event tells of; and what an event tells of that is
    not in the state any more when the next thing happens. Repeated is what more than one event tells of, and what the
    state has twice though it was told once.

    Args:
        said: By its key, whether it was answered: what nobody got an answer to may be missing, and not be there twice.
        row: The session's row, read before its events.
        events: All that there are.
    """
    told = [state for event in events if event.type == "state_change" and (state := event.data.get("state"))]
    steps = [_titles(NodeState.model_validate(state)) for state in told]
    steps = steps[1:] if steps and steps[0][0] == BEGINNING else steps  # how it was made
    times = Counter(first for first, _ in steps)
    missing = {key for key, answered in said.items() if answered and not times[key]}
    twice = 0
    before = BEGINNING
    now, behind = _titles(row.state)
    # last, what the state has now, as if something came after it
    for first, second in [*steps, ("", now)]:
        if second == before:
            pass
        elif second == first:
            twice += 1
        else:
            missing.add(before if times[second] or second == BEGINNING else second)
        before = first
    if steps and now == behind != steps[-1][1]:
        twice += 1
    unnumbered = max([row.seq, *(event.seq for event in events)]) - len(events)
    repeated = twice + sum(count - 1 for count in times.values() if count > 1)
    return SaidTally(len(said), unnumbered + len(missing), repeated)


def _titles(state: NodeState) -> tuple[str, str]:
    """Return what a state has of what was said last, and of what was said before that."""
    assert state.plan is not None, state
    first, second = state.plan.scenes
    return first.title, second.title
