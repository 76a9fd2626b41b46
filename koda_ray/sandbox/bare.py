"""No walls: runs commands as this user, for machines that cannot isolate, when SANDBOX_LOCAL_UNSAFE=1 says so.

Generated code can then read and change whatever this user can, and reach every network. Only time limits, control
groups (where there are any) and resource limits are left.
"""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass
from pathlib import Path

from koda_ray.sandbox.invocation import Invocation
from koda_ray.sandbox.isolation import GUEST, base_environment, checked_environment
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.node import NodeRuntime

__all__ = ["MARKER", "Bare", "free_port", "new_mark"]

MARKER = "KODA_SANDBOX_PROCESS"


@dataclass(frozen=True, kw_only=True)
class Bare:
    """How a command runs without isolation: in the project's directory, with the small environment."""

    project: Path
    node: NodeRuntime
    limits: ResourceLimits

    def command(self, called: Invocation, *, mark: str) -> list[str]:
        """Build the command line; ``mark`` tells its processes from others when they are to be ended."""
        path = [self.project / "node_modules" / ".bin", GUEST / "bin", self.node.host_path.parent]
        variables = {
            **base_environment(self.node, self.limits),
            "PATH": ":".join([*map(str, path), "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": str(self.project.parent),
            **checked_environment(called.env),
            MARKER: mark,
        }
        assignments = [f"{name}={value}" for name, value in variables.items()]
        return ["env", "-i", "-C", str(self.project / called.cwd), *assignments, *called.argv]


def new_mark() -> str:
    """Make a mark for one command."""
    return uuid.uuid4().hex


def free_port() -> int:
    """Find a port of this machine's loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
