"""A cluster's nodes as Ray tells of them: what each has, what of that is taken, and since when it has nothing to do.

Ray calls a node idle when no worker of its own is leased, whatever that worker asks for: an actor of no resources at
all keeps a node busy, and so keeps the autoscaler from taking it away. That is why nothing of ours stands on a node
only to look after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from koda_ray.render.fitness import Unfit

__all__ = ["ClusterNode", "NodesSeen"]


@dataclass(frozen=True, kw_only=True)
class ClusterNode:
    """One node that is alive.

    Attributes:
        id: Ray's.
        address: Its address in the cluster's network.
        group: What the launcher or the operator calls nodes of its kind; empty where somebody started it by hand.
        status: Whether it works, has nothing to do, or is about to go.
        idle_s: For how long it has had nothing to do, in seconds; 0 while it works.
        total: What it offers, by resource.
        used: What of that is taken.
        unfit: Why it can do no work: nothing more is put there while others could have it.
    """

    id: str
    address: str
    group: str = ""
    status: Literal["working", "idle", "draining"] = "working"
    idle_s: float = 0.0
    total: Mapping[str, float] = field(default_factory=dict[str, float])
    used: Mapping[str, float] = field(default_factory=dict[str, float])
    unfit: Unfit | None = None


@dataclass(frozen=True, kw_only=True)
class NodesSeen:
    """What the head says.

    Attributes:
        nodes: Those that are alive.
        lost: How many have ended since the head was started.
        coming: How many are asked for, or starting.
        waiting: What is asked for and waits for room: by the resources of one, how many of those.
    """

    nodes: tuple[ClusterNode, ...]
    lost: int = 0
    coming: int = 0
    waiting: tuple[tuple[Mapping[str, float], int], ...] = ()
