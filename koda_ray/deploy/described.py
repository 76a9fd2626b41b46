"""A cluster as its file describes it, whichever kind of file that is: what the rules look at.

What a kind of file cannot say is None there, and no rule asks for it; what it could say and does not is a `Stated`
without a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["DescribedCluster", "NodeGroup", "Stated"]


@dataclass(frozen=True)
class Stated:
    """A value that a file says, or where it would.

    Args:
        value: As it stands there, or an amount in bytes, seconds or pieces; None where nothing is said.
        line: Where it stands, or would.
        elsewhere: The value is taken from somewhere else when the cluster starts: a secret, a variable.
    """

    value: str | float | None
    line: int
    elsewhere: bool = False

    @property
    def amount(self) -> float | None:
        """The value where it is a number."""
        return self.value if isinstance(self.value, float | int) else None


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """Nodes that are alike.

    Args:
        name: As the file calls them.
        line: Where they are described.
        head: Whether they are the cluster's head.
        resources: What they offer to Ray beside processors and memory.
        cpus: Processors that Ray may give away; None where the machine decides.
        memory_bytes: Memory that Ray may give away; None where the machine decides.
        image: What they start from; None for machines as they are.
        environment: What is set on them.
        reads_more: They also read settings that stand in no file that is checked.
        spot: Whether the cloud may take them away.
        unwarned: They do not hear that the cloud takes them away; where they would be told to.
        from_zero: Whether there may be none of them until there is work for them.
        grace_s: How long they may take to end once they are told to.
        store_bytes: Ray's object store, where it is said.
        shm_bytes: How large ``/dev/shm`` is.
        open_files: How many files a process may have open.
        lacking: What bubblewrap needs to make a sandbox in such a container, and has not.
        privileged: Whether the container may do what the machine's root may; where that stands.
    """

    name: str
    line: int
    head: bool = False
    resources: Mapping[str, int] = field(default_factory=dict[str, int])
    cpus: float | None = None
    memory_bytes: float | None = None
    image: Stated | None = None
    environment: Mapping[str, Stated] = field(default_factory=dict[str, Stated])
    reads_more: bool = False
    spot: bool = False
    unwarned: Stated | None = None
    from_zero: bool = False
    grace_s: Stated | None = None
    store_bytes: float | None = None
    shm_bytes: Stated | None = None
    open_files: Stated | None = None
    lacking: tuple[str, ...] = ()
    privileged: Stated | None = None

    def says(self, variable: str) -> Stated | None:
        """Return what a variable is set to."""
        return self.environment.get(variable)


@dataclass(frozen=True, kw_only=True)
class DescribedCluster:
    """All of it.

    Args:
        groups: The head and the others.
        offer: How a group offers resources in this kind of file; ``{name}`` stands for one.
        no_work: What gives the head no work in this kind of file.
        versions: Where the file says a version of Ray, beside images.
        token: How nodes know each other, where the environment does not say it.
        health: Paths at which it is asked whether a node serves; None where nobody asks.
        joins: Its nodes join a head that another file describes.
    """

    groups: tuple[NodeGroup, ...]
    offer: str
    no_work: str
    versions: tuple[Stated, ...] = ()
    token: Stated | None = None
    health: tuple[Stated, ...] | None = None
    joins: bool = False

    @property
    def heads(self) -> tuple[NodeGroup, ...]:
        """The head; more than one where the file is wrong."""
        return tuple(group for group in self.groups if group.head)

    @property
    def workers(self) -> tuple[NodeGroup, ...]:
        """All but the head."""
        return tuple(group for group in self.groups if not group.head)
