"""Whose sandboxes are, and where: so that each deployment knows its own, and none touches another's.

A deployment is a database, by the name that it keeps (``Store.deployment``). On a machine its sandboxes lie below
SANDBOX_PATH in a folder of that name, half-made ones too; in somebody's cloud the name is written on each.

One database may have sandboxes in several places: on several machines, below several SANDBOX_PATHs, at several
engines. A row says in which, because only there can be seen whether its sandbox still exists.
"""

from __future__ import annotations

import hashlib
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from koda_ray.sandbox.record import Owner

__all__ = ["CLOUD", "Location", "installation", "local_location", "owner_alive", "owner_text"]

CLOUD = "cloud."
"""How the ids of places begin that are no machine."""
_MACHINE = Path("/etc/machine-id")


@dataclass(frozen=True)
class Location:
    """Where a provider's sandboxes are.

    Attributes:
        id: The same for whoever sees the same sandboxes, and for nobody else.
        words: For people, such as ``build7:/srv/koda/sandboxes``.
    """

    id: str
    words: str

    @property
    def everywhere(self) -> bool:
        """Whether whoever has the key sees these sandboxes, from whichever machine."""
        return self.id.startswith(CLOUD)

    def is_where(self, place: str, host: str) -> bool:
        """Whether a row's place is this one.

        It is, too, where this very folder of this very machine has been emptied since: the folder's name is another
        now, and nothing that it held is left.
        """
        if place == self.id:
            return True
        machine = self.id.partition(".")[0]
        return bool(machine) and host == self.words and place.startswith(f"{machine}.")


def local_location(root: Path, *, engine: str = "") -> Location:
    """Name a folder of sandboxes on this machine; blocks.

    Args:
        root: The folder; it is given a name where it has none.
        engine: Of the engine that runs them, where that is another one's business.
    """
    # a folder can be shared by machines, as processes and mounts cannot; without an id of its own (in a container
    # for example) a machine is taken for the only one that has the folder
    machine = _MACHINE.read_text().strip() if _MACHINE.is_file() else ""
    seen = f"{machine}{engine}"
    name = hashlib.sha256(seen.encode()).hexdigest()[:16] if seen else ""
    return Location(f"{name}.{installation(root)}", f"{socket.gethostname()}:{root}")


def installation(root: Path) -> str:
    """Read the name of a folder of sandboxes, made once, and never again for the same folder; blocks."""
    path = root / "installation"
    with suppress(FileNotFoundError):
        return path.read_text().strip()
    root.mkdir(parents=True, exist_ok=True)
    temporary = root / f".installation.{os.getpid()}.{uuid.uuid4().hex}"
    temporary.write_text(uuid.uuid4().hex)
    with suppress(FileExistsError):
        os.link(temporary, path)
    temporary.unlink()
    return path.read_text().strip()


def owner_text() -> str:
    """Name this process, so that others can tell whether it still runs."""
    owner = Owner.this_process()
    return f"{owner.pid}.{owner.start_ticks}.{owner.boot_id}"


def owner_alive(text: str) -> bool:
    """Whether the process that made a sandbox still runs; one of another machine cannot be looked at, so yes."""
    try:
        pid, ticks, boot_id = text.split(".", 2)
        owner = Owner(int(pid), int(ticks), boot_id)
    except ValueError:
        return True
    return owner.boot_id != Owner.this_process().boot_id or owner.alive
