"""Keys that open nothing, where whoever looks for other people's finds them first: that one was read is told.

Nothing that is built or served has a use for them. The kernel keeps when a file was last read, at no cost to those that
read others; where a file system does not (``noatime``), nothing is told.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["BAITED", "Baits", "bait", "keys", "lay_baits", "lay_file"]

BAITED = ".ssh"
"""The folder in a sandbox's home."""

_NAMES = ("id_ed25519", "id_rsa")
_TEXT = "This is no key. That it was read is written down.\n"
_NEVER_NS = 0


def lay_baits(folder: Path) -> None:
    """Make the folder with its files, where it is not there yet."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o755)
        for name in _NAMES:
            lay_file(folder / name, _TEXT)


def bait(folder: Path) -> Path:
    """One of the files, to be shown where something else is looked for as well."""
    return folder / _NAMES[-1]


def keys(folder: Path) -> list[Path]:
    """All of them."""
    return [folder / name for name in _NAMES]


def lay_file(file: Path, text: str) -> None:
    """Write one, as nobody has read it yet."""
    file.write_text(text)
    file.chmod(0o644)
    os.utime(file, ns=(_NEVER_NS, 1))


class Baits:
    """Those of one sandbox.

    Args:
        files: Where they were laid; one that is not there has never been looked for.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._total = 0

    def total(self) -> int:
        """Say how often one was found to have been read, ever."""
        for file in self._files:
            with suppress(OSError):  # who may write there may have taken it away
                found = os.lstat(file)
                if found.st_atime_ns != _NEVER_NS:
                    os.utime(file, ns=(_NEVER_NS, found.st_mtime_ns), follow_symlinks=False)
                    self._total += 1
        return self._total
