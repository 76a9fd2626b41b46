"""Two tiers: quick tests, which every change passes, and everything (``--full``).

A test is quick unless it, its class or its file is marked ``full``; of several marks the closest counts, so that a
suite that many providers share marks what it is at heart as ``quick``, and a provider's class of it as ``full``, or as
``full(all=True)`` where others of its kind stand for it with every change.
Whoever names one test gets it, whatever it is marked.

A quick test that takes long fails, since a tier of thousands stays quick in no other way. What counts is the processor
time of this process and of what it started, and by the clock only time in which nobody had to wait for a processor or
a disk: another program's work is none of the test's. Where processors were wanted most of the time, twice as much of
theirs may be taken. Source: proc_pressure(5).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from tests import leaks

__all__ = ["LIMIT_S", "LONG", "Spent", "examples", "is_everything", "is_full", "may_be_long", "select", "too_long"]

LIMIT_S = 10.0

LONG = {
    "tests/faults/test_kernel.py::test_killed_so_often_at_random_instants_the_job_is_done_once": (
        "a dozen processes are killed on a store, and more finish what they began"
    ),
    "tests/test_end_to_end.py::test_a_sentence_becomes_a_video_though_its_session_is_killed": (
        "the main job, with a server, a build and two renders"
    ),
    "tests/test_floors.py::test_exported_members": "where it is the first to need them, it loads all modules",
    "tests/test_floors.py::test_imports_go_downwards_only": "lint-imports reads every module",
}
"""Quick tests that may take longer, and why."""

_BUSY = 2
_PRESSURE = (Path("/proc/pressure/cpu"), Path("/proc/pressure/io"))


def is_full(item: pytest.Item) -> bool:
    """Whether a test belongs to the full tier alone."""
    marks = [mark for mark in item.iter_markers() if mark.name in ("full", "quick")]
    return bool(marks) and (marks[0].name == "full" or any(mark.kwargs.get("all", False) for mark in marks))


def may_be_long(item: pytest.Item) -> bool:
    """Whether a quick test is one of the few that may take longer, whatever its parameters."""
    return item.nodeid.partition("[")[0] in LONG


def is_everything(config: pytest.Config) -> bool:
    """Whether no test is left out: everything was asked for, or one test by its name."""
    return bool(config.getoption("full")) or any("::" in word for word in config.args)


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out what the tier that was asked for does not have."""
    if is_everything(config):
        return
    left = [item for item in items if is_full(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not is_full(item)]


@dataclass(frozen=True)
class Spent:
    """What has been spent up to a moment; two of them make a span.

    Args:
        clock_s: By the clock.
        processor_s: By this process and its descendants.
        pressed_s: While somebody waited for a processor or a disk.
    """

    clock_s: float = 0.0
    processor_s: float = 0.0
    pressed_s: float = 0.0

    @classmethod
    def now(cls) -> Spent:
        """Look at the clock, the processes and the machine."""
        times = os.times()
        processor_s = times.user + times.system + times.children_user + times.children_system
        for pid in leaks.descendants(os.getpid()):
            processor_s += _processor_s(pid)
        return cls(time.monotonic(), processor_s, sum(map(_pressed_s, _PRESSURE)))

    def __sub__(self, other: Spent) -> Spent:
        return Spent(
            self.clock_s - other.clock_s, self.processor_s - other.processor_s, self.pressed_s - other.pressed_s
        )

    def __add__(self, other: Spent) -> Spent:
        return self - (Spent() - other)


def examples(count: int) -> int:
    """How many examples Hypothesis looks at: so many with everything, three tenths of them in the quick tier."""
    return max(1, count * settings.default.max_examples // settings.get_profile("koda").max_examples)


def too_long(spent: Spent) -> str | None:
    """Say why a quick test took too long; None where it did not."""
    alone_s = spent.clock_s - spent.pressed_s
    # a processor whose caches and whose core others use too does less in each of its seconds
    limit_s = LIMIT_S if spent.pressed_s < spent.clock_s / 2 else _BUSY * LIMIT_S
    if spent.processor_s <= limit_s and alone_s <= limit_s:
        return None
    return (
        f"takes too long for a quick test: {spent.processor_s:.1f} s of processor time, {spent.clock_s:.1f} s by the "
        f"clock, of which nobody waited for a processor or a disk in {alone_s:.1f} s; the limit is {limit_s:.0f} s. "
        "Make it shorter, mark it `full`, or name it in tests/tiers.py with a reason"
    )


def _processor_s(pid: int) -> float:
    """Seconds of a process and of those that it has waited for. Source: proc_pid_stat(5), fields 14 to 17."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended
        return 0.0
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def _pressed_s(path: Path) -> float:
    """Seconds since the start in which some task waited; a kernel that does not say is taken to be idle."""
    try:
        some = path.read_text().splitlines()[0]
    except OSError:
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6
