"""The one sandbox protocol: what agents' code is allowed to touch, whoever provides it.

Paths are relative to the project's root, with forward slashes. Commands are argument lists, never shell strings
built from a model's words; a tool that wants a shell says ``("sh", "-c", text)`` itself, inside the isolation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = [
    "PREVIEW_BASE",
    "CommandResult",
    "FileEntry",
    "FileStamp",
    "PreviewEndpoint",
    "ProcessInfo",
    "Sandbox",
    "SandboxInfo",
    "SandboxProvider",
    "Snapshot",
]


PREVIEW_BASE = "/__koda_base__/"
"""The dev server's base path (``KODA_BASE``): a string that occurs nowhere else."""


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What a command left behind. Output past the cap is cut in the middle and ``truncated`` is set."""

    exit_code: int
    stdout: str
    stderr: str
    duration_s: float
    truncated: bool = False


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file or directory of the project."""

    path: str
    type: Literal["file", "directory"]
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class FileStamp:
    """What tells, without reading a file, that it is still the one that was read; valid for one sandbox only."""

    size_bytes: int
    changed_ns: int
    inode: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The project's files at one moment: all stamps, but only the bytes that are new since ``known``."""

    stamps: dict[str, FileStamp]
    changed: dict[str, bytes]
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProcessInfo:
    """A background process by its name, unique in the sandbox."""

    name: str
    pid: int
    running: bool
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class PreviewEndpoint:
    """Where a running dev server answers: a Unix socket on this machine (HTTP and WebSocket).

    ``base`` is the path that the dev server was started under (``KODA_BASE``). It is a string that occurs nowhere
    else, because the preview proxy replaces it by a path that carries a signed token.
    """

    socket_path: str
    base: str = PREVIEW_BASE


@dataclass(frozen=True, kw_only=True)
class SandboxInfo:
    """What a provider knows of a sandbox without asking the store."""

    id: str
    session_id: str
    user_id: str
    alive: bool
    owner_alive: bool = True
    """Whether the process that runs its processes is there; providers that cannot tell say yes."""


class Sandbox(Protocol):
    """One isolated project directory with processes in it."""

    @property
    def id(self) -> str:
        """The provider's id, enough to connect again."""
        ...

    @property
    def provider(self) -> str:
        """The provider's name."""
        ...

    async def is_alive(self) -> bool:
        """Whether commands and files still work."""
        ...

    async def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files in one round trip, each atomically, making parent directories.

        Raises:
            InvalidPath: INVALID_PATH, before anything is written.
            SandboxError: WRITE_FAILED (disk full, named) or SANDBOX_NOT_FOUND.
        """
        ...

    async def read_file(self, path: str) -> bytes:
        """Read a file; NotFound FILE_NOT_FOUND."""
        ...

    async def read_files(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Read several files in one round trip; NotFound FILE_NOT_FOUND names the first that is not there."""
        ...

    async def snapshot(self, *, known: Mapping[str, FileStamp] | None = None) -> Snapshot:
        """Collect the project's files for a checkpoint, without ``node_modules``, ``dist`` and ``.vite``.

        Args:
            known: The stamps of the snapshot before this one, of the same sandbox: unchanged files are not read again.
        """
        ...

    async def restore(self, files: Mapping[str, bytes]) -> None:
        """Make the project's files exactly these: others are removed, those that are equal are left alone."""
        ...

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileEntry]:
        """List a directory, sorted by path, without ``node_modules`` and ``dist``."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file or directory; nothing happens when it is not there."""
        ...

    async def run(
        self, argv: Sequence[str], *, timeout_s: float = 30.0, cwd: str = ".", env: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a command to its end. Raises CommandTimeout after ending the whole process tree."""
        ...

    async def start(self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> ProcessInfo:
        """Start a background process; one of the same name is ended first."""
        ...

    async def processes(self) -> list[ProcessInfo]:
        """List background processes."""
        ...

    async def stop(self, name: str) -> None:
        """End a background process and its tree; nothing happens when it is not there."""
        ...

    async def output(self, name: str, *, max_bytes: int = 65536) -> str:
        """Read the end of a background process's output."""
        ...

    async def start_preview(self, *, timeout_s: float = 30.0) -> PreviewEndpoint:
        """Start the dev server, or return the running one.

        Raises:
            ServerFailed: SERVER_FAILED with its last lines, when it ended or did not answer in time.
        """
        ...

    async def destroy(self) -> None:
        """End every process and remove every file; may be called twice."""
        ...


class SandboxProvider(Protocol):
    """Makes, finds and removes sandboxes."""

    @property
    def name(self) -> str:
        """The name that settings and rows use."""
        ...

    async def create(self, *, sandbox_id: str, session_id: str, user_id: str) -> Sandbox:
        """Make a sandbox from the template under an id that the caller has already recorded."""
        ...

    async def connect(self, sandbox_id: str) -> Sandbox:
        """Find a living sandbox, also one that another process made; SandboxNotFound otherwise."""
        ...

    async def destroy(self, sandbox_id: str) -> None:
        """Remove a sandbox by id, alive or half made; may be called twice."""
        ...

    async def list(self) -> list[SandboxInfo]:
        """List what exists and is provably ours."""
        ...
