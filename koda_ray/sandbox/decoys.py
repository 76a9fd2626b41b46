"""What stands inside a sandbox where this program keeps its own outside: a database and a neighbour that are none.

Without it whoever looks there finds nothing, and nobody hears of it. With it there is a database to read, and the
folder of sandboxes holds one with a project; the kernel keeps when a file was read, as of keys (``baits``). An id of a
sandbox that exists is still nowhere to be found, and cannot be guessed.

The files are this program's user's, so that nobody inside can set their times back: that user is root, or inside is a
user namespace of its own, whose processes may take away their own bait and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from koda_ray.sandbox.baits import Baits, lay_file
from koda_ray.sandbox.policy import PROJECT_ROOT

__all__ = ["DECOYS", "Decoys"]

DECOYS = ".decoys"
"""The folder that they lie in, in a sandbox's own."""

_DATABASE, _SANDBOXES = "database", "sandboxes"
_NEIGHBOUR = "sbx_5d0c8e7a41f94b1c8be2a3f6d7905c14/disk/project/src/App.tsx"
_TEXT = "This is nobody's. That it was read is written down.\n"
# where something of the sandbox's stands already, and the system
_TAKEN = (
    *(f"/{name}" for name in ("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr")),
    "/opt/koda", "/run/koda", PROJECT_ROOT,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Decoys:
    """Where they stand.

    Args:
        sandboxes: The folder of this machine that sandboxes lie in.
        database: The file of this machine that the database is in; None where nobody says.
    """

    sandboxes: Path
    database: Path | None = None

    @staticmethod
    def lay(folder: Path) -> None:
        """Make the folder with what stands for them."""
        folder.mkdir(mode=0o755)
        lay_file(folder / _DATABASE, _TEXT)
        neighbour = folder / _SANDBOXES / _NEIGHBOUR
        neighbour.parent.mkdir(parents=True, mode=0o755)
        lay_file(neighbour, _TEXT)

    @staticmethod
    def looked_for(folder: Path) -> Baits:
        """Those that were laid in a folder; one that has none has never been looked for."""
        return Baits([folder / _DATABASE, folder / _SANDBOXES / _NEIGHBOUR])

    def shown(self, folder: Path) -> Mapping[str, Path]:
        """Say which of the folder is shown at which place inside; no place is below another."""
        found = {str(self.sandboxes.absolute()): folder / _SANDBOXES}
        if self.database is not None:
            found[str(self.database.absolute())] = folder / _DATABASE
        return {
            place: file
            for place, file in found.items()
            if not _lies_in(place, *_TAKEN) and not any(_lies_in(place, one) for one in found if one != place)
            and not any(_lies_in(one, place) for one in _TAKEN)
        }  # fmt: skip


def _lies_in(path: str, *folders: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
