"""A measurement that was stopped goes on after its last part, and forgets its parts when it is whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.parts import PartsKept


class Measured:
    """Measures a number, and counts how often."""

    def __init__(self, *answers: Any) -> None:
        self.answers = [*answers]
        self.asked = 0

    async def __call__(self) -> Any:
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_measurement_that_was_stopped_goes_on_after_its_last_part(tmp_path: Path) -> None:
    file, first, second = tmp_path / "figures.json", Measured({"ms": 3}), Measured(RuntimeError("stopped"), {"ms": 4})
    parts = PartsKept(file, resume=False, total=2)
    assert await parts.part("first", first) == {"ms": 3}
    with pytest.raises(RuntimeError):
        await parts.part("second", second)
    again = PartsKept(file, resume=True, total=2)
    assert [await again.part("first", first), await again.part("second", second)] == [{"ms": 3}, {"ms": 4}]
    assert (first.asked, second.asked) == (1, 2)
    again.finished()
    assert [*tmp_path.iterdir()] == []


async def test_a_part_that_failed_is_measured_again(tmp_path: Path) -> None:
    file, lost = tmp_path / "figures.json", Measured(None, {"lost": 0})
    assert await PartsKept(file, resume=False, total=1).part("lost", lost) is None
    assert await PartsKept(file, resume=True, total=1).part("lost", lost) == {"lost": 0}


async def test_a_part_is_measured_again_where_that_is_asked_for(tmp_path: Path) -> None:
    file, slow = tmp_path / "figures.json", Measured({"ms": 9}, {"ms": 4})
    first = PartsKept(file, resume=False, total=2)
    assert [await first.part("fast", Measured(1)), await first.part("slow", slow)] == [1, {"ms": 9}]
    again = PartsKept(file, resume=True, total=2, again=["slow"])
    assert [await again.part("fast", Measured()), await again.part("slow", slow)] == [1, {"ms": 4}]
    with pytest.raises(SystemExit, match="no part 'fats' was measured before; there are: fast, slow"):
        PartsKept(file, resume=True, total=2, again=["fats"])


async def test_which_part_is_under_way_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    await PartsKept(file, resume=False, total=2).part("first", Measured(1))
    parts = PartsKept(file, resume=True, total=2)
    await parts.part("first", Measured(1))
    await parts.part("second", Measured(2))
    said = capsys.readouterr().err.splitlines()
    assert [re.sub(r"\d+ s$", "0 s", line) for line in said] == [
        "[1/2] first ...",
        "[1/2] first: 0 s",
        "[1/2] first: measured before",
        "[2/2] second ...",
        "[2/2] second: 0 s",
    ]


def test_nothing_to_resume_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"nothing to resume in .*figures\.json\.parts: run this without --resume"):
        PartsKept(tmp_path / "figures.json", resume=True, total=1)


async def test_without_a_file_nothing_is_kept() -> None:
    parts = PartsKept(None, resume=False, total=1)
    assert await parts.part("first", Measured(1)) == 1
    parts.finished()
