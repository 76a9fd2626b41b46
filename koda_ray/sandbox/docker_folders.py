"""What lies on this machine of the Docker provider's sandboxes: their records, sockets, and the installation's name."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from koda_ray.sandbox.decoys import DECOYS, Decoys
from koda_ray.sandbox.deployment import installation
from koda_ray.sandbox.disk import remove_tree
from koda_ray.sandbox.preview import short_folder, socket_path
from koda_ray.sandbox.record import Record, is_sandbox_id
from koda_ray.sandbox.strays import kill_users_of

__all__ = ["DockerFolders", "claim", "clear", "container_name", "folder_inside", "intend"]


class DockerFolders:
    """The folders of all sandboxes of one SANDBOX_PATH.

    Args:
        root: Where they lie.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def of(self, sandbox_id: str) -> Path:
        """Say where a sandbox's lies."""
        return self.root / sandbox_id

    def read(self, sandbox_id: str) -> Record | None:
        """Read the record of a sandbox that is ready; None where there is none."""
        record = Record.read(self.root / sandbox_id) if is_sandbox_id(sandbox_id) else None
        return record if record is not None and record.state == "ready" else None

    def records(self) -> dict[str, Record | None]:
        """Read what is written down of each sandbox here, also of those that are being removed."""
        with suppress(FileNotFoundError):
            return {path.name: _any_record(path) for path in self.root.iterdir() if path.is_dir()}
        return {}

    def container_of(self, sandbox_id: str) -> str | None:
        """Read which container is a sandbox's: where that is not written down, the one of its name, if no other's."""
        record = _any_record(self.root / sandbox_id)
        if record is not None:
            return record.container or container_name(sandbox_id)
        name = container_name(sandbox_id)
        taken = any(record is not None and record.container == name for record in self.records().values())
        return None if taken else name

    def installation(self) -> str:
        """Read the name of this folder, which everything that is made from it carries at the engine."""
        return installation(self.root)


def container_name(sandbox_id: str) -> str:
    """Name the container that is made for a sandbox."""
    return f"koda-{sandbox_id}"


def folder_inside(record: Record) -> Path:
    """Say which folder the container sees."""
    return Path(record.preview_socket).parent / "in"


def claim(directory: Path, target: Path) -> Record | None:
    """Make a folder another sandbox's: one caller succeeds, and none once its removal has begun."""
    try:
        directory.rename(target)
    except OSError:
        return None
    record = Record.read(target)
    if record is None or record.state != "warm":
        return None
    inside = record.preview_socket.startswith(f"{directory}/")
    return replace(record, preview_socket=str(target / "preview.sock")) if inside else record


def intend(directory: Path, record: Record) -> Record:
    """Write down what will be made, before it is made."""
    directory.mkdir(parents=True)
    directory.chmod(0o700)
    record = replace(record, preview_socket=socket_path(directory))
    record.write(directory)
    folder = folder_inside(record)
    folder.mkdir()
    folder.chmod(0o755)
    Decoys.lay(directory / DECOYS)
    return record


def clear(directory: Path, *, own: bool) -> None:
    """End what still uses a sandbox's folder and remove it; the short one of its sockets only where it is its own."""
    kill_users_of(directory)
    record = Record.read(directory, forgotten=True)
    if record is not None:
        record.forget_socket(directory)
    if own:
        shutil.rmtree(short_folder(directory), ignore_errors=True)
    if directory.exists():
        remove_tree(directory)


def _any_record(directory: Path) -> Record | None:
    return Record.read(directory) or Record.read(directory, forgotten=True)
