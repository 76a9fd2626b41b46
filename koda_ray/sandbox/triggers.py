"""An empty file in place of those by which whoever writes there takes a machine down, or over: that it was is told.

Without it the kernel refuses the write as well, and nobody hears: a local command has no rights there. With it the
write goes into a file of the sandbox's own that nobody acts upon, and the kernel keeps when that was.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

__all__ = ["TRIGGERS", "Trigger", "covering", "lay_trigger", "trigger_path"]

TRIGGERS = ".triggers"
"""The folder that it lies in, beside the project."""

_NAME = "written"
_PLACES = ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe")
_FIRST_ENVIRONMENT = "/proc/1/environ"
_NEVER_NS = 1


@lru_cache(maxsize=1)
def _there() -> tuple[str, ...]:
    """Say what it stands in place of on this machine: no kernel has all, and nobody can make others in ``/proc``."""
    return tuple(filter(os.path.exists, _PLACES))


def covering(*, bait: Path, trigger: Path) -> list[str]:
    """Have bubblewrap show a file in place of these, and another as the environment of the first process."""
    shown = [(trigger, path) for path in _there()] + [(bait, _FIRST_ENVIRONMENT)]
    return [word for file, path in shown for word in ("--bind-try", str(file), path)]


def lay_trigger(folder: Path) -> None:
    """Make the folder with the file."""
    folder.mkdir(mode=0o711)
    file = trigger_path(folder)
    file.touch()
    file.chmod(0o222)
    os.utime(file, ns=(_NEVER_NS, _NEVER_NS))


def trigger_path(folder: Path) -> Path:
    """Where the file lies in its folder."""
    return folder / _NAME


class Trigger:
    """That of one sandbox.

    Args:
        folder: Where it was laid; a sandbox that an older koda_ray made has none.
    """

    def __init__(self, folder: Path) -> None:
        self._file = trigger_path(folder)
        self._total = 0

    def total(self) -> int:
        """Say how often it was found to have been written, ever; what was written is gone then."""
        with suppress(OSError):  # an ordinary user's processes own it, and may have closed it to this program as well
            if os.stat(self._file).st_mtime_ns != _NEVER_NS:
                os.truncate(self._file, 0)
                os.utime(self._file, ns=(_NEVER_NS, _NEVER_NS))
                self._total += 1
        return self._total
