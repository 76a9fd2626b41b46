"""Checkpoints: a project's files and state as they were at one event.

Files are stored by their hash, then the manifest that names them, and last the caller commits the manifest's key in
the session's row (`Batch.checkpoint`). Whoever is killed between two of these leaves the checkpoint before; there is
no moment at which half of one can be seen. A manifest lists everything that exists, so a deleted file stays deleted.
Whoever counts what a user has stored does so between `prepare` and `store`, before anything is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from koda_ray.errors import InvalidPath, NotFound, QuotaExceeded, StorageError
from koda_ray.state.keys import blob_key, manifest_key
from koda_ray.state.storage import Storage, sha256
from koda_ray.types import Model, NodeState, new_id, now

__all__ = [
    "MAX_ENTRIES",
    "MAX_MANIFEST_BYTES",
    "CheckpointTree",
    "Manifest",
    "Prepared",
    "StoredFile",
    "check_path",
    "load",
    "objects_of",
    "prepare",
    "read_file",
    "read_files",
    "save",
    "store",
]

DEFAULT_MODE = 0o644
DEFAULT_FOLDER_MODE = 0o755
MAX_PATH_BYTES = 1024
MAX_ENTRIES = 50_000
"""How many files and empty folders a manifest names."""
MAX_MANIFEST_BYTES = 16 * 1024 * 1024


class StoredFile(Model):
    """One file: its bytes by hash, its size in bytes, and its permission bits."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: int = Field(ge=0)
    mode: int = Field(default=DEFAULT_MODE, ge=0, le=0o777)


class Manifest(Model):
    """Everything of a checkpoint but the files' bytes; ``event_seq`` is the newest event that it includes."""

    v: Literal[1] = 1
    id: str
    user_id: str
    project_id: str
    session_id: str
    event_seq: int = Field(ge=0)
    state: NodeState
    files: dict[str, StoredFile]
    folders: tuple[str, ...] = ()
    folder_modes: dict[str, Annotated[int, Field(ge=0, le=0o777)]] = Field(default_factory=dict[str, int])
    created_at: datetime

    @property
    def key(self) -> str:
        """Where it is stored."""
        return manifest_key(self.user_id, self.project_id, self.session_id, self.id)

    @property
    def modes(self) -> dict[str, int]:
        """Permission bits of files and folders that have others than usual, as ``save`` takes them."""
        return self.folder_modes | {
            path: entry.mode for path, entry in self.files.items() if entry.mode != DEFAULT_MODE
        }

    @property
    def total_bytes(self) -> int:
        """The size of all files together."""
        return sum(entry.size for entry in self.files.values())


@dataclass(frozen=True, kw_only=True)
class CheckpointTree:
    """What a project's folder holds.

    Args:
        files: All files by their path in the project.
        modes: Permission bits of files that have others than 0o644, and of folders that have others than 0o755.
        folders: Folders to keep though they are empty.
    """

    files: Mapping[str, bytes]
    modes: Mapping[str, int] = field(default_factory=dict[str, int])
    folders: Iterable[str] = ()


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A checkpoint that can be stored.

    Attributes:
        manifest: What it is.
        objects: What has to be stored for it, by key, the manifest last; nothing where nothing but times differs from
            the one before, which ``manifest`` is then.
    """

    manifest: Manifest
    objects: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of ``objects`` in bytes."""
        return {key: len(data) for key, data in self.objects.items()}


async def save(
    storage: Storage,
    tree: CheckpointTree,
    *,
    state: NodeState,
    event_seq: int,
    previous: Manifest | None = None,
    kept: Callable[[str], bool] | None = None,
) -> tuple[Manifest, str]:
    """Store a project's files and state; the arguments but ``storage`` are those of `prepare`.

    Returns:
        The manifest and its key, to be committed by the caller. Where nothing but times and ``event_seq`` differs,
        this is ``previous`` itself and nothing was written.

    Raises:
        KodaError: As `prepare` and `store`.
    """
    prepared = await prepare(tree, state=state, event_seq=event_seq, previous=previous, kept=kept)
    await store(storage, prepared)
    return prepared.manifest, prepared.manifest.key


async def store(storage: Storage, prepared: Prepared) -> None:
    """Write a checkpoint: its files, then its manifest.

    Raises:
        StorageError: Something could not be written; code DISK_FULL where that is why. Earlier checkpoints are whole.
    """
    objects = dict(prepared.objects)
    listed = objects.pop(prepared.manifest.key, None)
    await storage.put_many(objects)
    if listed is not None:
        await storage.put(prepared.manifest.key, listed)


def objects_of(manifest: Manifest, size_bytes: int) -> dict[str, int]:
    """Return the sizes of all objects of a stored checkpoint, by key; ``size_bytes`` is the manifest's own."""
    blobs = {blob_key(manifest.user_id, entry.sha256): entry.size for entry in manifest.files.values()}
    return {**blobs, manifest.key: size_bytes}


async def prepare(
    tree: CheckpointTree,
    *,
    state: NodeState,
    event_seq: int,
    previous: Manifest | None = None,
    kept: Callable[[str], bool] | None = None,
) -> Prepared:
    """Say what a checkpoint of a project's files and state is, and what has to be stored for it.

    Args:
        tree: The files; what is neither here nor ``kept`` does not exist.
        state: The session's state with these files; it says whose they are.
        event_seq: The newest event that they include.
        previous: The checkpoint before: what it holds is not stored again.
        kept: Says which paths of ``previous`` stay as they are there where nothing else is said of them: what could not
            be looked at this time.

    Returns:
        The checkpoint; ``previous`` itself where nothing but times and ``event_seq`` differs.

    Raises:
        InvalidPath: A path is not one of a file in a project.
        QuotaExceeded: QUOTA_EXCEEDED, over MAX_ENTRIES, or a manifest over MAX_MANIFEST_BYTES.
    """
    files, modes = tree.files, tree.modes
    user_id, project_id, session_id = owner = state.user_id, state.project_id, state.session_id
    for path in files:
        check_path(path)
    digests = await asyncio.to_thread(lambda: {path: sha256(data) for path, data in files.items()})
    entries = {
        path: StoredFile(sha256=digests[path], size=len(files[path]), mode=modes.get(path, DEFAULT_MODE))
        for path in files
    }
    empty = {check_path(folder) for folder in tree.folders}
    if previous is not None and kept is not None and previous.user_id == user_id:
        entries = {path: entry for path, entry in previous.files.items() if kept(path)} | entries
        empty |= {folder for folder in previous.folders if kept(folder)}
        modes = {path: mode for path, mode in previous.folder_modes.items() if kept(path)} | dict(modes)
    entries, empty_folders = dict(sorted(entries.items())), tuple(sorted(empty))
    if (count := len(entries) + len(empty_folders)) > MAX_ENTRIES:
        raise QuotaExceeded(
            f"the project has {count:,} files and empty folders, and a checkpoint names at most {MAX_ENTRIES:,}: "
            "remove some"
        )
    inside = _check_tree(entries, empty_folders)
    folder_modes = {path: modes[path] for path in sorted(inside & modes.keys()) if modes[path] != DEFAULT_FOLDER_MODE}
    if previous is not None and _same(previous, owner, (entries, empty_folders, folder_modes), state):
        return Prepared(manifest=previous)
    manifest = Manifest(
        id=new_id("ckp"),
        user_id=user_id,
        project_id=project_id,
        session_id=session_id,
        event_seq=event_seq,
        state=state,
        files=entries,
        folders=empty_folders,
        folder_modes=folder_modes,
        created_at=now(),
    )
    data = await asyncio.to_thread(lambda: manifest.model_dump_json().encode())
    if len(data) > MAX_MANIFEST_BYTES:
        raise QuotaExceeded(
            f"the list of the project's {len(entries):,} files takes {len(data):,} bytes, and a checkpoint's may take "
            f"{MAX_MANIFEST_BYTES:,}: remove files, or give them shorter paths"
        )
    known = (
        {entry.sha256 for entry in previous.files.values()} if previous and previous.user_id == user_id else set[str]()
    )
    new = {blob_key(user_id, digest): files[path] for path, digest in digests.items() if digest not in known}
    return Prepared(manifest=manifest, objects={**new, manifest.key: data})


async def load(storage: Storage, key: str) -> Manifest:
    """Read a manifest.

    Raises:
        NotFound: There is none at this key.
        StorageError: It could not be read, or is damaged.
    """
    data = await storage.get(key)
    try:
        return await asyncio.to_thread(Manifest.model_validate_json, data)
    except ValidationError as error:
        raise _damaged(f"manifest {key} cannot be read: {error.error_count()} fields are wrong", key) from error


async def read_files(storage: Storage, manifest: Manifest) -> dict[str, bytes]:
    """Read every file of a checkpoint, each checked against its hash.

    Raises:
        StorageError: A file's bytes are missing or changed; the message names it.
    """
    by_key = {blob_key(manifest.user_id, entry.sha256): path for path, entry in manifest.files.items()}
    try:
        blobs = await storage.get_many(by_key)
    except NotFound as error:
        key = str(error.context.get("key"))
        raise _damaged(f"checkpoint {manifest.id} lost the bytes of {by_key.get(key)!r} ({key})", key) from error

    def check() -> dict[str, bytes]:
        for key, path in by_key.items():
            _verify(manifest, path, blobs[key])
        return {path: blobs[blob_key(manifest.user_id, entry.sha256)] for path, entry in manifest.files.items()}

    return await asyncio.to_thread(check)


async def read_file(storage: Storage, manifest: Manifest, path: str) -> bytes:
    """Read one file of a checkpoint.

    Raises:
        NotFound: It has no such file (code FILE_NOT_FOUND).
        StorageError: The file's bytes are missing or changed.
    """
    entry = manifest.files.get(path)
    if entry is None:
        raise NotFound(f"no file {path[:200]!r} in checkpoint {manifest.id}", code="FILE_NOT_FOUND")
    key = blob_key(manifest.user_id, entry.sha256)
    try:
        data = await storage.get(key)
    except NotFound as error:
        raise _damaged(f"checkpoint {manifest.id} lost the bytes of {path!r} ({key})", key) from error
    _verify(manifest, path, data)
    return data


def check_path(path: str) -> str:
    """Return a path that may stand in a manifest and be restored into any project.

    Raises:
        InvalidPath: It is empty, absolute or too long, leaves the project, or holds NUL or what is not Unicode.
    """
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise InvalidPath(f"project path {path[:200]!r} is not valid Unicode") from error
    if size > MAX_PATH_BYTES:
        raise InvalidPath(f"project path {path[:80]!r}... is longer than {MAX_PATH_BYTES} bytes")
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidPath(
            f"project path {path[:200]!r} is not relative to the project: it is empty or absolute, "
            "or has an empty, '.', '..' or NUL part"
        )
    return path


def _check_tree(files: Mapping[str, object], folders: Iterable[str]) -> set[str]:
    """Return all folders, and refuse a path that is both a file and a folder: no disk could hold the two."""
    inside = {*folders}
    for path in [*files, *inside]:
        parts = path.split("/")
        inside.update("/".join(parts[:count]) for count in range(1, len(parts)))
    for path in files:
        if path in inside:
            raise InvalidPath(f"project path {path[:200]!r} is a file and a folder at once")
    return inside


def _same(
    previous: Manifest,
    owner: tuple[str, str, str],
    tree: tuple[dict[str, StoredFile], tuple[str, ...], dict[str, int]],
    state: NodeState,
) -> bool:
    # the state carries the time of the checkpoint before, which alone must not make another one
    times = {"last_checkpoint": previous.state.last_checkpoint, "updated_at": previous.state.updated_at}
    return (
        owner == (previous.user_id, previous.project_id, previous.session_id)
        and tree == (previous.files, previous.folders, previous.folder_modes)
        and previous.state == state.model_copy(update=times)
    )


def _verify(manifest: Manifest, path: str, data: bytes) -> None:
    entry = manifest.files[path]
    if sha256(data) != entry.sha256:
        key = blob_key(manifest.user_id, entry.sha256)
        raise _damaged(f"checkpoint {manifest.id}: the bytes of {path!r} are damaged ({key})", key)


def _damaged(message: str, key: str) -> StorageError:
    return StorageError(message, code="DAMAGED", context={"key": key}, retryable=False)
