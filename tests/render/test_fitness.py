"""What a worker does on a disk without room: it says so, and gives the work up where others could do it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from koda_ray.errors import BrowserCrashed, EncodeFailed, KodaError, RenderError
from koda_ray.render import fitness, tasks
from koda_ray.render.fitness import free_bytes
from koda_ray.render.protocol import NODE_FULL, UnitResult
from koda_ray.render.spec import Unit
from tests.disks import small

LOTS = 1 << 60
Work = Callable[[Callable[[object], None]], Coroutine[Any, Any, object]]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the cluster was told of this node's room."""
    told: list[bool] = []
    monkeypatch.setattr(fitness, "note_space", told.append)
    return told


def failing(error: Exception) -> Work:
    async def work(tell: Callable[[object], None]) -> object:
        tell("begun")
        raise error

    return work


def said(work: Work, *, wanted: int | None) -> list[object]:
    """What a task with this work tells, but for its being there."""
    return [value for value in tasks._run(work, least_bytes=wanted) if not isinstance(value, tasks.AtWork)]


def test_nothing_is_begun_without_room_where_others_could(noted: list[bool]) -> None:
    (error,) = said(failing(AssertionError("begun")), wanted=LOTS)
    assert isinstance(error, RenderError) and (error.code, error.retryable) == (NODE_FULL, True)
    assert noted == [False]


def test_it_is_tried_without_room_where_nobody_else_could(noted: list[bool]) -> None:
    async def work(_tell: Callable[[object], None]) -> object:
        return "done"

    assert said(work, wanted=None) == ["done"]
    assert noted == []


@pytest.mark.parametrize(
    "error", [EncodeFailed("the disk is full", code="DISK_FULL"), OSError(errno.ENOSPC, "No space left on device")]
)
@pytest.mark.parametrize("wanted", [None, 0])
def test_work_that_a_full_disk_ends_is_given_up(error: Exception, wanted: int | None, noted: list[bool]) -> None:
    begun, given_up = said(failing(error), wanted=wanted)
    assert begun == "begun" and isinstance(given_up, RenderError) and given_up.code == NODE_FULL
    assert str(error) in given_up.message
    assert noted == [False]


@pytest.mark.parametrize("error", [BrowserCrashed("it ended"), RenderError("the page is wrong")])
def test_what_fails_with_room_fails_for_itself(error: KodaError, noted: list[bool]) -> None:
    assert said(failing(error), wanted=0) == ["begun", error]
    assert noted == []


def test_a_browser_that_ends_while_the_disk_fills_may_have_ended_for_that(
    noted: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter([LOTS, 0])
    monkeypatch.setattr(tasks, "free_bytes", lambda: next(left))
    _, given_up = said(failing(BrowserCrashed("it ended")), wanted=1)
    assert isinstance(given_up, RenderError) and given_up.code == NODE_FULL
    assert noted == [False]


def test_the_next_unit_is_not_made_where_room_has_run_out(noted: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([LOTS, 0, 0])
    monkeypatch.setattr(tasks, "free_bytes", lambda: next(left))
    stored = UnitResult(
        unit=Unit(0, 0, 10), key="key", mode="seek", frame_hashes=("hash",), before_hash=None, sha256="", size_bytes=1,
        worker="m1:2",
    )  # fmt: skip

    async def work(tell: Callable[[object], None]) -> object:
        tell(stored)
        raise AssertionError("went on")

    first, given_up = said(work, wanted=1)
    assert first == stored and isinstance(given_up, RenderError) and given_up.code == NODE_FULL
    assert noted == [False]


def test_room_is_counted_where_it_is_least(tmp_path: Path) -> None:
    with small(tmp_path / "disk", 8) as disk:
        assert free_bytes([disk / "not" / "there" / "yet"]) <= 8 << 20
        (disk / "file").write_bytes(bytes(6 << 20))
        assert free_bytes([disk]) <= 2 << 20 < free_bytes()
