"""The one sandbox protocol: what agents' code is allowed to touch, whoever provides it.

Paths are relative to the project's root, with forward slashes. Commands are argument lists, never shell strings
built from a model's words; a tool that wants a shell says ``("sh", "-c", text)`` itself, inside the isolation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from koda_ray.sandbox.deployment import Location

__all__ = [
    "PREVIEW_BASE",
    "UNREAD",
    "CommandResult",
    "EndsMarked",
    "EndsUnused",
    "FileChange",
    "FileEntry",
    "FileStamp",
    "KeepsWarm",
    "PreviewEndpoint",
    "ProcessInfo",
    "Sandbox",
    "SandboxInfo",
    "SandboxProvider",
    "SandboxState",
    "Skip",
    "Snapshot",
    "Terminal",
    "is_unread",
]

SandboxState = Literal["created", "ready", "busy", "stopped"]
"""Being filled; waiting for commands; running at least one; gone. ``lifecycle`` says how one leads to another."""


Skip = Literal["link", "outside", "special", "name", "large", "unreadable", "deep"]
"""Why a snapshot leaves something out: it is a symbolic link; one to what is not the sandbox's own; a socket, pipe or
device; it has a name that cannot be written elsewhere; it has more bytes than are read at once, or than there is room
for with all others; its mode lets nobody look; its path is too long."""

UNREAD: frozenset[Skip] = frozenset({"large", "unreadable"})
"""Of these, what may be a file that was read before, or hold some."""

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
class FileChange:
    """What became of one file of the project since it was looked at before."""

    path: str
    kind: Literal["added", "modified", "removed"]


@dataclass(frozen=True, kw_only=True)
class FileStamp:
    """What tells, without reading a file, that it is still the one that was read; valid for one sandbox only."""

    size_bytes: int
    changed_ns: int
    inode: int


def is_unread(path: str, skipped: Mapping[str, Skip]) -> bool:
    """Whether a file that was there before may still be: it, or a folder above it, could not be read."""
    parts = path.split("/")
    return any(skipped.get("/".join(parts[:count])) in UNREAD for count in range(1, len(parts) + 1))


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The project's files at one moment: all stamps, but only the bytes that are new since ``known``.

    Attributes:
        stamps: Of every file; of one that could be read before and no more, the known one.
        changed: The bytes of those that are new, or have changed.
        removed: Those of ``known`` that are not there any more.
        skipped: What no checkpoint holds, and why. Nothing below a folder that is named here was looked at.
        modes: Permission bits of every file that has others than 0o644, and of every folder that has others than
            0o755; never set-user-id and its like.
        folders: Folders with nothing in them that is kept.
    """

    stamps: dict[str, FileStamp]
    changed: dict[str, bytes]
    removed: tuple[str, ...] = ()
    skipped: Mapping[str, Skip] = field(default_factory=dict[str, Skip])
    modes: Mapping[str, int] = field(default_factory=dict[str, int])
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProcessInfo:
    """A background process by its name, unique in the sandbox."""

    name: str
    pid: int
    running: bool
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class PreviewEndpoint:
    """Where a server in a sandbox answers HTTP and WebSocket: a Unix socket on this machine, or an address elsewhere.

    Attributes:
        base: The path that the dev server was started under (``KODA_BASE``), a string that occurs nowhere else, because
            the preview proxy replaces it by a path that carries a signed token; ``/`` of any other server.
        socket_path: The socket; empty where there is an address.
        url: Scheme, host and port without a path, such as ``https://5173-abc.e2b.app``; None where there is a socket.
        headers: What each request to the address carries. They may open it to whoever has them: never shown.
    """

    socket_path: str = ""
    base: str = PREVIEW_BASE
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)

    def __post_init__(self) -> None:
        """Refuse what names no place, or two."""
        if bool(self.socket_path) == bool(self.url):
            raise ValueError("a preview answers on a socket or at an address; give one of the two")


@dataclass(frozen=True, kw_only=True)
class SandboxInfo:
    """What a provider knows of a sandbox without asking the store."""

    id: str
    session_id: str
    user_id: str
    alive: bool
    owner_alive: bool = True
    """Whether the process that runs its processes is there; providers that cannot tell say yes."""
    paused: bool = False
    """Whether somebody has stopped it for a while: it is not alive, and not gone."""
    warm: bool = False
    """Whether it was made ahead and belongs to no session yet: it is its owner's for as long as that lives."""
    ended: str = ""
    """Why it is not alive any more, in words; empty where it is, or where nobody knows."""
    provider_id: str = ""
    """As ``Sandbox.provider_id``; empty where nothing but a record is there."""


class Terminal(Protocol):
    """A command in a sandbox with a terminal of its own: what it writes comes out, what is typed goes in."""

    async def read(self) -> bytes:
        """Wait for what it writes next; empty at its end."""
        ...

    async def write(self, data: bytes) -> None:
        """Type something."""
        ...

    async def resize(self, *, rows: int, columns: int) -> None:
        """Give the terminal another size, as a person does who pulls at a window."""
        ...

    async def close(self) -> None:
        """End the command, where it has not ended; may be called twice."""
        ...


class Sandbox(Protocol):
    """One isolated project directory with processes in it."""

    @property
    def id(self) -> str:
        """The id that it was made under, enough to connect again."""
        ...

    @property
    def provider_id(self) -> str:
        """What it is at its provider: a folder, a container's name, an id in somebody's cloud."""
        ...

    @property
    def provider(self) -> str:
        """The provider's name."""
        ...

    @property
    def state(self) -> SandboxState:
        """Where it is in its life, as far as this process knows; ``is_alive`` asks."""
        ...

    async def is_alive(self) -> bool:
        """Whether commands and files still work."""
        ...

    async def extend(self, lifetime_s: float) -> float | None:
        """Have it live for at least this long from now on, used or not.

        Args:
            lifetime_s: From a second to a day.

        Returns:
            How long it lives now before its provider ends it, in seconds; None where no provider does that by itself.

        Raises:
            InvalidInput: INVALID_INPUT, no such length of time.
            SandboxNotFound: SANDBOX_NOT_FOUND, it was too late.
        """
        ...

    async def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files in one round trip, each atomically, making parent directories; modes of files that are stay.

        Raises:
            InvalidPath: INVALID_PATH, before anything is written.
            SandboxError: WRITE_FAILED (disk full, named) or SANDBOX_NOT_FOUND.
        """
        ...

    async def read_file(self, path: str) -> bytes:
        """Read a file; NotFound FILE_NOT_FOUND."""
        ...

    async def read_files(self, paths: Sequence[str], *, most_bytes: int | None = None) -> dict[str, bytes]:
        """Read several files in one round trip; NotFound FILE_NOT_FOUND names the first that is not there.

        Raises:
            QuotaExceeded: QUOTA_EXCEEDED, they have more bytes together than are read at once, or than ``most_bytes``;
                ``sizeBytes`` says how many with the first that is too much.
        """
        ...

    async def snapshot(
        self, *, known: Mapping[str, FileStamp] | None = None, most_bytes: int | None = None
    ) -> Snapshot:
        """Collect the project's files for a checkpoint, without ``node_modules``, ``dist`` and ``.vite``.

        Args:
            known: The stamps of the snapshot before this one, of the same sandbox: unchanged files are not read again.
            most_bytes: What is taken of the files together.

        Raises:
            QuotaExceeded: QUOTA_EXCEEDED, they have more than ``most_bytes``, in ``sizeBytes``; none was read.
        """
        ...

    async def restore(
        self,
        files: Mapping[str, bytes],
        *,
        modes: Mapping[str, int] | None = None,
        folders: Sequence[str] = (),
        spared: Sequence[str] | None = (),
    ) -> int:
        """Make the project's files exactly these: others are removed, equal ones are neither sent nor touched.

        Args:
            files: All files.
            modes: Permission bits of those that have others than 0o644, and of folders that have others than 0o755;
                only the lower nine count.
            folders: Folders that are there though nothing is in them.
            spared: What a snapshot skipped and is to stay as it is, with all that is below; None for all that one would
                skip now, unless one of these files comes in its place.

        Returns:
            How many bytes of files went there.
        """
        ...

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileEntry]:
        """List a directory, sorted by path, without ``node_modules``, ``dist`` and ``.vite``."""
        ...

    async def remove(self, path: str) -> None:
        """Remove a file or directory; nothing happens when it is not there."""
        ...

    def watch(self, path: str = ".") -> AsyncGenerator[tuple[FileChange, ...]]:
        """Tell which files change, whoever changes them, until the iterator is closed.

        The first batch is empty: from there on nothing is missed. Each later one says what differs from the one before,
        so a file that changes often, or while nobody takes batches, is told once. Left out are ``node_modules``,
        ``dist`` and ``.vite``, and links.

        Args:
            path: The directory, with all below it.

        Raises:
            InvalidPath: INVALID_PATH.
            NotFound: FILE_NOT_FOUND, there is no such directory.
            QuotaExceeded: QUOTA_EXCEEDED, there are more files than can be watched.
            SandboxNotFound: SANDBOX_NOT_FOUND, also when the sandbox is destroyed meanwhile.
        """
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        network: bool = False,
    ) -> CommandResult:
        """Run a command to its end. Raises CommandTimeout after ending the whole process tree.

        Args:
            argv: The command.
            timeout_s: When it is ended.
            cwd: Where it runs, relative to the project.
            env: Added to its environment.
            network: Whether it may reach what SANDBOX_EGRESS_HOSTS allows; builds need nothing and get nothing.
        """
        ...

    async def start(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, network: bool = False
    ) -> ProcessInfo:
        """Start a background process; one of the same name is ended first. ``network`` is as for ``run``."""
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

    async def keep(self, name: str, argv: Sequence[str], *, network: bool = False) -> None:
        """Start a background process that outlives whoever starts it, until its end or the sandbox's.

        Nothing happens when one of this name runs already. ``network`` is as for ``run``.
        """
        ...

    async def terminal(
        self, argv: Sequence[str], *, rows: int = 24, columns: int = 80, env: Mapping[str, str] | None = None
    ) -> Terminal:
        """Run a command with a terminal of a size; it ends with ``close``, this program or the sandbox."""
        ...

    async def start_preview(self, *, timeout_s: float = 30.0) -> PreviewEndpoint:
        """Start the dev server, or return the running one.

        Raises:
            ServerFailed: SERVER_FAILED with its last lines, when it ended or did not answer in time.
        """
        ...

    async def reach(self, port: int, *, of: str) -> PreviewEndpoint:
        """Say where a port of a background process, or of what that has started, answers.

        Nobody need listen there yet. The endpoint is good for as long as this object is, the process runs, and somebody
        connects at least once a minute; else ask again. In somebody's cloud only a process that has the network can be
        reached, and only where it listens on 0.0.0.0.

        Args:
            port: On the loopback inside.
            of: The process's name; where all processes share one loopback, it does not matter.

        Raises:
            NotFound: NOT_FOUND, no such process runs.
            ServerFailed: PORT_UNAVAILABLE, the provider leads to other ports only, or to no more at once.
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

    async def create(self, *, sandbox_id: str, session_id: str, user_id: str, image: str | None = None) -> Sandbox:
        """Make a sandbox under an id that the caller has already recorded.

        Args:
            sandbox_id: That id.
            session_id: Whose project it holds; empty for a sandbox of its own.
            user_id: The user's.
            image: What it starts from, as the provider names it; the template when None.
        """
        ...

    async def connect(self, sandbox_id: str) -> Sandbox:
        """Find a living sandbox, also one that another process made; SandboxNotFound otherwise."""
        ...

    async def destroy(self, sandbox_id: str) -> None:
        """Remove a sandbox by id, alive or half made; may be called twice."""
        ...

    async def list(self) -> list[SandboxInfo]:
        """List what exists here and is provably this deployment's."""
        ...

    async def location(self) -> Location:
        """Say where its sandboxes are; SandboxError where that must be asked and nobody answers."""
        ...

    async def close(self) -> None:
        """Let go of what is open here, and of what is being made once it is; sandboxes, and what is kept in them, stay.

        May be called twice.
        """
        ...


@runtime_checkable
class KeepsWarm(Protocol):
    """A provider that makes sandboxes ahead, because making one takes longer than anybody likes to wait."""

    async def keep_warm(self) -> None:
        """Keep some ready until cancelled; then those that nobody has taken are gone."""
        ...


@runtime_checkable
class EndsUnused(Protocol):
    """A provider that ends by itself what nobody uses, unless ``Sandbox.extend`` was told for how long it may not."""

    @property
    def unused_s(self) -> int | None:
        """How long after its last use a sandbox ends; None where it is only put to sleep."""
        ...


@runtime_checkable
class EndsMarked(Protocol):
    """A sandbox whose commands cannot look each other up in ``/proc``, so that they cannot end each other either."""

    async def end_marked(self, mark: str) -> None:
        """End, with its whole session, every process with a mark (``NAME=VALUE``) in its environment.

        Raises:
            SandboxError: PROVIDER_ERROR, some of them do not end.
        """
        ...
