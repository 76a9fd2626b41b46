"""What was said to sessions is counted by name: each thing that goes missing, and each that happens twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from koda_ray import phases
from koda_ray.actors.command_parser import parse_command
from koda_ray.actors.core import SessionCore
from koda_ray.commands import EditPlan
from koda_ray.events import Envelope
from koda_ray.state.records import Batch, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.types import NodeState, now
from tests.cluster.saying import PLAN, SaidTally, tally, words
from tests.state import records

SAID = {"one": True, "two": True, "three": True}


def edit(key: str) -> EditPlan:
    command = parse_command("plan", words(key))
    assert isinstance(command, EditPlan)
    return command


async def said(folder: Path, steps: Sequence[Sequence[str]]) -> tuple[SessionRecord, list[Envelope]]:
    """Apply what is said to a session, some at once; return its row and its events."""
    store = SqlStore(folder / "koda.db")
    await store.open()
    await store.ensure_user("ann")
    await store.ensure_project("prj-ann", "ann", "ann")
    made = await records.active_session(store, phase="plan", plan=PLAN)
    core = SessionCore(store=store, record=made, after=lambda _: None, changed=lambda: None, fenced=lambda: None)
    for keys in steps:
        await core.commit(Batch(phase_commands=[edit(key) for key in keys]))
    found = await store.get_session(made.id), await store.events(made.id, limit=1000)
    await store.close()
    return found


def name_of(event: Envelope) -> str | None:
    """Return what an event tells of; None where it is of another kind."""
    if event.type != "state_change":
        return None
    plan = NodeState.model_validate(event.data["state"]).plan
    return None if plan is None else plan.scenes[0].title


def numbers(events: Sequence[Envelope]) -> list[Envelope]:
    """Return events as if there had been no others."""
    return [event.model_copy(update={"seq": place}) for place, event in enumerate(events, 1)]


def without(row: SessionRecord, key: str) -> SessionRecord:
    """Return a row whose state lacks what was said last."""
    state = row.state.model_copy(update={"plan": PLAN})
    for each in SAID:
        if each != key:
            state, _ = phases.apply(state, edit(each), now())
    return replace(row, state=state)


async def test_what_is_said_once_is_counted_once(tmp_path: Path) -> None:
    row, events = await said(tmp_path, [["one"], ["two"], ["three"]])
    assert tally(SAID, row, events) == SaidTally(said=3)
    assert tally(SAID, row, events) + SaidTally(1, 2, 3) == SaidTally(4, 2, 3)


@pytest.mark.parametrize("steps", [[["one"], ["one"], ["two"], ["three"]], [["one"], ["two"], ["three"], ["one"]]])
async def test_what_happens_again_at_once_or_later_is_repeated(tmp_path: Path, steps: list[list[str]]) -> None:
    row, events = await said(tmp_path, steps)
    assert tally(SAID, row, events) == SaidTally(said=3, repeated=1)


@pytest.mark.parametrize("again", ["one", "three"])
async def test_what_happens_twice_and_is_told_once_is_repeated(tmp_path: Path, again: str) -> None:
    row, events = await said(tmp_path, [[key, key] if key == again else [key] for key in SAID])
    last = {name_of(event): event.seq for event in events}  # what the state was like after both
    numbered = numbers([event for event in events if name_of(event) is None or last[name_of(event)] == event.seq])
    assert tally(SAID, replace(row, seq=len(numbered)), numbered) == SaidTally(said=3, repeated=1)


async def test_what_was_answered_and_never_happened_is_lost(tmp_path: Path) -> None:
    row, events = await said(tmp_path, [["one"], ["three"]])
    assert tally(SAID, row, events) == SaidTally(said=3, lost=1)
    assert tally({**SAID, "two": False}, row, events) == SaidTally(said=3), "nobody was told that it would"


@pytest.mark.parametrize("silent", ["one", "two", "three"])
async def test_what_happens_and_is_not_told_is_lost(tmp_path: Path, silent: str) -> None:
    row, events = await said(tmp_path, [[key] for key in SAID])

    left = [event for event in events if name_of(event) != silent]
    assert tally(SAID, row, left) == SaidTally(said=3, lost=2), "and its number"
    assert tally(SAID, replace(row, seq=len(left)), numbers(left)) == SaidTally(said=3, lost=1)


async def test_what_is_undone_by_who_knew_nothing_of_it_is_lost(tmp_path: Path) -> None:
    row, events = await said(tmp_path, [["one"], ["two"], ["three"]])
    assert tally(SAID, without(row, "three"), events) == SaidTally(said=3, lost=1)


async def test_the_last_events_are_missed_as_well(tmp_path: Path) -> None:
    row, events = await said(tmp_path, [["one"], ["two"], ["three"]])
    assert tally({}, row, events[:-1]).lost > 0
