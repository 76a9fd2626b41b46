"""A sandbox elsewhere whose files and processes a helper works on (``inside.py``): what all such have in common.

Files are read and written by the same code as on this machine, so links, limits and odd names are treated alike, and
each call is one command over there whatever the number of files. What comes back was written where hostile code runs:
names and lengths are checked again here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Literal, cast

from koda_ray.errors import CommandTimeout, NotFound, SandboxError
from koda_ray.hearsay import LARGEST, unbroken
from koda_ray.sandbox import policy
from koda_ray.sandbox.base import (
    CommandResult,
    FileChange,
    FileEntry,
    FileStamp,
    ProcessInfo,
    SandboxState,
    Snapshot,
    Terminal,
)
from koda_ray.sandbox.command_policy import check_command
from koda_ray.sandbox.differing import send_differing
from koda_ray.sandbox.egress.rules import EgressRules
from koda_ray.sandbox.isolation import checked_environment
from koda_ray.sandbox.kept import Kept
from koda_ray.sandbox.lifecycle import Living, let_go
from koda_ray.sandbox.outcome import timed_out
from koda_ray.sandbox.packed import Header, Malformed, unpack
from koda_ray.sandbox.preview import PREVIEW
from koda_ray.sandbox.refused import LinksOut, note, note_end, noted
from koda_ray.sandbox.retold import revive
from koda_ray.sandbox.terminal import check_size
from koda_ray.sandbox.told import checked_modes, checked_skips
from koda_ray.sandbox.watching import checked_changes, in_batches

__all__ = ["OUTPUT_BYTES", "AskedSandbox", "nonsense", "read_answer"]

OUTPUT_BYTES = 256 * 1024
"""How much of each of a command's outputs is kept: the first half and the last half."""

_WATCHED_S = 20.0
"""How long one call waits inside for changes; a call is what such a service counts, and what keeps it alive."""

_ENTRIES: dict[str, Literal["file", "directory"]] = {"file": "file", "directory": "directory"}


class AskedSandbox(ABC):
    """What is the same wherever a helper is asked; whoever inherits says how it is, and how commands are run.

    Args:
        sandbox_id: The id under which it was made.
        egress: The hosts that commands may name.
    """

    def __init__(self, sandbox_id: str, *, egress: EgressRules) -> None:
        self._id = sandbox_id
        self._egress_rules = egress
        self._living = Living()
        self._left = False
        self._links_out = LinksOut(sandbox_id)

    @property
    def id(self) -> str:
        """The id under which it was made, enough to connect again."""
        return self._id

    @property
    def state(self) -> SandboxState:
        """Where it is in its life; see ``Sandbox``."""
        return self._living.state

    @abstractmethod
    async def _ask(
        self,
        question: Header,
        files: Mapping[str, bytes] | None = None,
        *,
        part: Literal["files", "processes"] = "files",
    ) -> tuple[Header, dict[str, bytes]]:
        """Ask the helper something; files go with the question and come with the answer."""

    @abstractmethod
    def _walls(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], network: bool) -> list[str]:
        """Put the walls of such sandboxes around a command that was checked."""

    @abstractmethod
    async def _run(self, walls: Sequence[str], program: str, *, timeout_s: float) -> CommandResult:
        """Run a command within its walls; ends as ``_ended`` or ``_late`` say."""

    @abstractmethod
    async def _open_terminal(self, argv: Sequence[str], *, size: tuple[int, int], env: Mapping[str, str]) -> Terminal:
        """Run a command that was checked with a terminal of this many rows and columns."""

    # files

    async def write_files(self, files: Mapping[str, bytes]) -> None:
        """Write files in one round trip, each atomically; see ``Sandbox``."""
        checked = {self._path(policy.storable, path): data for path, data in files.items()}
        await self._ask({"do": "write"}, checked)

    async def read_file(self, path: str) -> bytes:
        """Read a file; see ``Sandbox``."""
        found = await self.read_files([path])
        return next(iter(found.values()))

    async def read_files(self, paths: Sequence[str], *, most_bytes: int | None = None) -> dict[str, bytes]:
        """Read several files in one round trip; see ``Sandbox``."""
        names = list(dict.fromkeys(self._path(policy.readable, path) for path in paths))
        _, files = await self._ask({"do": "read", "paths": names, "most_bytes": most_bytes})
        if list(files) != names:
            raise nonsense(self.id, "other files than were asked for")
        return files

    async def list_files(self, path: str = ".", *, recursive: bool = False) -> list[FileEntry]:
        """List a directory; see ``Sandbox``."""
        header, _ = await self._ask({"do": "list", "path": self._path(policy.readable, path), "recursive": recursive})
        self._links_out.left_out(map(str, _listed(header.get("outside"))))
        found: list[FileEntry] = []
        for entry in _listed(header.get("entries")):
            match entry:
                case [str(name), str(kind), int(size)] if (
                    _is_inside(name) and kind in _ENTRIES and 0 <= size <= LARGEST
                ):
                    found.append(FileEntry(path=unbroken(name), type=_ENTRIES[kind], size_bytes=size))
                case _:
                    raise nonsense(self.id, "a list that holds something else than files")
        return found

    async def remove(self, path: str) -> None:
        """Remove a file or directory; see ``Sandbox``."""
        await self._ask({"do": "remove", "path": self._path(policy.storable, path)})

    async def snapshot(
        self, *, known: Mapping[str, FileStamp] | None = None, most_bytes: int | None = None
    ) -> Snapshot:
        """Collect the project's files for a checkpoint; only new bytes travel. See ``Sandbox``."""
        header, changed = await self._ask({"do": "snapshot", "known": _told(known or {}), "most_bytes": most_bytes})
        stamps = self._stamps(header.get("stamps"))
        if not set(changed) <= set(stamps):
            raise nonsense(self.id, "files that its snapshot does not list")
        removed = tuple(str(path) for path in _listed(header.get("removed")))
        skipped, modes = checked_skips(header.get("skipped")), checked_modes(header.get("modes"), stamps)
        folders = tuple(map(str, _listed(header.get("folders"))))
        if not all(map(policy.is_storable, folders)) or not stamps.keys().isdisjoint(folders):
            raise nonsense(self.id, "folders that no checkpoint can hold")
        self._links_out.skipped(skipped)
        return Snapshot(stamps=stamps, changed=changed, removed=removed, skipped=skipped, modes=modes, folders=folders)

    async def watch(self, path: str = ".") -> AsyncGenerator[tuple[FileChange, ...]]:
        """Tell which files change: each call waits inside for the next, as the kernel there says; see ``Sandbox``."""
        known: dict[str, list[int]] | None = None
        where = self._path(policy.readable, path)
        while True:
            question: Header = {"do": "watch", "path": where, "known": known, "wait_s": _WATCHED_S}
            header, _ = await self._ask(question)
            if known is None:
                yield ()
            for batch in in_batches(checked_changes(header.get("changes"))):
                yield batch
            known = _told(self._stamps(header.get("known")))

    async def restore(
        self,
        files: Mapping[str, bytes],
        *,
        modes: Mapping[str, int] | None = None,
        folders: Sequence[str] = (),
        spared: Sequence[str] | None = (),
    ) -> int:
        """Make the project's files exactly these; only what differs travels. See ``Sandbox``."""
        told: Header = {
            "modes": dict(modes or {}),
            "folders": list(folders),
            "spared": None if spared is None else list(spared),
        }

        async def send(some: Mapping[str, bytes], there: Mapping[str, str]) -> object:
            header, _ = await self._ask({"do": "restore", "there": there, **told}, some)
            return header.get("missing")

        return await send_differing({self._path(policy.storable, path): data for path, data in files.items()}, send)

    # processes

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        network: bool = False,
    ) -> CommandResult:
        """Run a command to its end; see ``Sandbox``.

        Raises:
            CommandBlocked: COMMAND_BLOCKED, the command policy.
            CommandTimeout: TIMEOUT, after its whole process tree was ended.
            NotFound: FILE_NOT_FOUND, ``cwd`` is not there.
            SandboxError: PROVIDER_ERROR, the connection broke; the command was ended as far as it could be reached.
            SandboxNotFound: SANDBOX_NOT_FOUND, also when the sandbox was ended meanwhile.
        """
        self._check_command(argv)
        variables = checked_environment(env or {})
        where = self._path(policy.readable, cwd)
        if where != ".":
            await self._ask({"do": "directory", "path": where})
        walls = self._walls(argv, cwd=where, env=variables, network=network)
        with self._living.work():
            return await self._run(walls, argv[0], timeout_s=timeout_s)

    async def start(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, network: bool = False
    ) -> ProcessInfo:
        """Start a background process; it lives until ``stop`` or the sandbox's end. See ``Sandbox``."""
        policy.check_process_name(name)
        self._check_command(argv)
        return await self._start(name, argv, checked_environment(env or {}), network=network)

    async def keep(self, name: str, argv: Sequence[str], *, network: bool = False) -> None:
        """Start a background process, which outlives whoever starts it anyway; see ``Sandbox``."""
        policy.check_process_name(name)
        self._check_command(argv)
        if not any(process.name == name and process.running for process in await self.processes()):
            await self._start(name, argv, {}, network=network)

    async def processes(self) -> list[ProcessInfo]:
        """List the background processes, whoever started them, the dev server (``preview``) among them."""
        header, _ = await self._ask({"do": "processes"}, part="processes")
        return [self._info(entry) for entry in _listed(header.get("processes"))]

    async def output(self, name: str, *, max_bytes: int = 65536) -> str:
        """Read the end of a background process's output and errors; see ``Sandbox``."""
        question: Header = {"do": "output", "name": policy.check_process_name(name), "max_bytes": max_bytes}
        _, files = await self._ask(question, part="processes")
        return files.get("output", b"").decode("utf-8", "ignore")

    async def terminal(
        self, argv: Sequence[str], *, rows: int = 24, columns: int = 80, env: Mapping[str, str] | None = None
    ) -> Terminal:
        """Run a command with a terminal of its own; see ``Sandbox``."""
        self._check_command(argv)
        size = check_size(rows=rows, columns=columns)
        return await self._open_terminal(argv, size=size, env=checked_environment(env or {}))

    # its life

    async def leave(self) -> None:
        """Let go of it: nothing more is asked of it through this object, and it stays for whoever connects next."""
        self._left = True

    # inside

    def _check_held(self) -> None:
        if self._left:
            raise let_go(self._id)

    def _check_command(self, argv: Sequence[str]) -> None:
        with noted(self.id):
            check_command(argv, egress=self._egress_rules)

    def _path(self, rule: Callable[[str], str], path: str) -> str:
        with noted(self.id):
            return rule(path)

    async def _start(self, name: str, argv: Sequence[str], env: Mapping[str, str], *, network: bool) -> ProcessInfo:
        line = self._walls(argv, cwd=".", env=env, network=network)
        header, _ = await self._ask({"do": "start", "name": name, "argv": line}, part="processes")
        return self._info(header)

    def _ended(self, exit_code: int, out: Kept, errors: Kept, *, duration_s: float) -> CommandResult:
        """Say how a command ended; what that tells of refusals is noted."""
        truncated = out.truncated or errors.truncated
        note_end(self.id, exit_code=exit_code, truncated=truncated)
        return CommandResult(
            exit_code=exit_code,
            stdout=out.text(),
            stderr=errors.text(),
            duration_s=duration_s,
            truncated=truncated,
        )

    def _late(self, program: str, out: Kept, errors: Kept, *, timeout_s: float) -> CommandTimeout:
        """Make the error for a command that did not end in time, and was ended; it is noted."""
        note(self.id, "time", timeout_s=timeout_s)
        if out.truncated or errors.truncated:
            note(self.id, "output")
        return timed_out(program, timeout_s=timeout_s, said=errors.text() or out.text())

    async def _last_lines(self) -> str:
        try:
            return (await self.output(PREVIEW))[-1500:].strip() or "none"
        except NotFound:
            return "none"

    def _stamps(self, value: object) -> dict[str, FileStamp]:
        stamps: dict[str, FileStamp] = {}
        if not isinstance(value, dict):
            raise nonsense(self.id, "a list in place of stamps")
        for path, stamp in cast("dict[str, object]", value).items():
            match stamp:
                case [int(size), int(at), int(inode)] if policy.is_storable(path):
                    stamps[path] = FileStamp(size_bytes=size, changed_ns=at, inode=inode)
                case _:
                    raise nonsense(self.id, "a snapshot that no checkpoint can hold")
        return stamps

    def _info(self, entry: object) -> ProcessInfo:
        match entry:
            case {"name": str(name), "pid": int(pid), "running": bool(running), "exit_code": int() | None as code} if (
                policy.is_process_name(name) and 0 <= pid <= LARGEST and abs(code or 0) <= LARGEST
            ):
                return ProcessInfo(name=name, pid=pid, running=running, exit_code=code)
            case _:
                raise nonsense(self.id, "a process that is none")


def nonsense(sandbox_id: str, what: str) -> SandboxError:
    """Make the error for an answer that the helper does not give, so that something else did."""
    return SandboxError(
        f"the sandbox {sandbox_id} answered with nonsense ({what}); make another and restore the "
        "last checkpoint into it"
    )


def read_answer(sandbox_id: str, data: bytes) -> tuple[Header, dict[str, bytes]]:
    """Read what the helper answered, and raise what it raised.

    Raises:
        KodaError: Whatever the helper says.
        SandboxError: PROVIDER_ERROR, it is nonsense.
    """
    try:
        header, bodies = unpack(data)
    except Malformed as error:
        raise nonsense(sandbox_id, str(error)) from None
    if header.get("ok") is not True:
        with noted(sandbox_id):
            raise revive(header.get("error"))
    return header, bodies


def _told(stamps: Mapping[str, FileStamp]) -> dict[str, list[int]]:
    return {path: [stamp.size_bytes, stamp.changed_ns, stamp.inode] for path, stamp in stamps.items()}


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _is_inside(path: str) -> bool:
    return bool(path) and not path.startswith("/") and ".." not in path.split("/")
