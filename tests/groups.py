"""Which tests one process runs, one after the other, where several processes run tests.

A file's tests stay together, and so do those that share what takes long to start or make: a Docker engine with its
images, a server, built projects. What takes longest begins first, so that the processes end at about the same time.
"""

from __future__ import annotations

import re

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import tiers

__all__ = ["Groups", "arrange", "group_of"]

_SHARED = (
    (re.compile(r"docker|gvisor|test_warm_pool|test_image\.py|test_cut_off", re.IGNORECASE), "docker"),
    (re.compile(r"^tests/faults/(?!test_kernel)"), "server"),
    (re.compile(r"^tests/template/"), "template"),
)
_HEAVY = ("ray", "browser", "sandbox", "needs")
_PROGRAMS = re.compile(r"^tests/(test_(cli|doctor|floors|launcher|leaks|readme)|faults/|agent/test_crashes)")
"""Files whose tests start programs of ours, or read all of the project."""


def group_of(nodeid: str) -> str:
    """Name the group of a test."""
    return next((name for pattern, name in _SHARED if pattern.search(nodeid)), nodeid.partition("::")[0])


def arrange(items: list[pytest.Item]) -> None:
    """Put the groups that take longest first; within a group the order stays."""
    weights: dict[str, int] = {}
    for item in items:
        group = group_of(item.nodeid)
        weights[group] = weights.get(group, 0) + _weight(item)
    items.sort(key=lambda item: -weights[group_of(item.nodeid)])


def _weight(item: pytest.Item) -> int:
    """About how long a test takes, in thirtieths of a second."""
    if tiers.may_be_long(item):
        return 1000
    is_heavy = any(item.get_closest_marker(name) for name in _HEAVY) or _PROGRAMS.match(item.nodeid)
    return 25 if is_heavy else 1


class Groups(LoadScopeScheduling):
    """Hands out whole groups."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
