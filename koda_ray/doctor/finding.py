"""What a check is given and what it answers.

A check is a plain function, so that a provider can bring its own: it takes the `Examination` and returns findings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from koda_ray.config import Settings

__all__ = ["Check", "Examination", "Finding", "Ran", "Status"]

Status = Literal["ok", "warning", "missing"]
_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Args:
        group: The heading it stands under.
        name: What was looked at.
        status: ``missing`` when the main job cannot run because of it; ``warning`` when it runs, but less well.
        detail: What was found.
        remedy: What to do about it; empty when all is well.
    """

    group: str
    name: str
    status: Status
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Ran:
    """How a program ended: ``code`` is None when it could not be started or took too long."""

    code: int | None
    output: str

    @property
    def ok(self) -> bool:
        """Whether it ended with 0."""
        return self.code == 0

    @property
    def last_line(self) -> str:
        """The last line it printed, which is where programs put their reason."""
        return self.output.strip().rpartition("\n")[2].strip()


@dataclass(frozen=True)
class Examination:
    """The machine under examination, as the checks see it.

    Args:
        settings: The settings the main job would run with; defaults where the real ones are not valid.
        environment: Environment variables.
    """

    settings: Settings
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def find(self, *names: str) -> str | None:
        """Return the path of the first of these programs that is on PATH."""
        path = self.environment.get("PATH")
        return next((found for name in names if (found := shutil.which(name, path=path))), None)

    def run(self, command: Sequence[str], *, timeout_s: float = _TIMEOUT_S) -> Ran:
        """Run a short program and keep what it printed; never raises."""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
                env=dict(self.environment),
            )
        except subprocess.TimeoutExpired:
            return Ran(None, f"no answer within {timeout_s:g} s")
        except OSError as error:
            return Ran(None, error.strerror or str(error))
        return Ran(done.returncode, done.stdout.decode(errors="replace"))


Check: TypeAlias = Callable[[Examination], list[Finding]]
