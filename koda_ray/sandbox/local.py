"""The local provider: a directory from the template, and commands under bubblewrap on this machine.

What lies where, for a sandbox ``sbx_...`` below SANDBOX_PATH:

    sandbox.json     its record; without it the sandbox does not exist
    etc/             passwd, group, hosts for the inside
    preview.sock     where its dev server answers
    disk/            a tmpfs of fixed size where one can be mounted
      project/       what the inside sees as /home/user/project
      stage/         where files wait before they are renamed into the project

Files outlive the process that made them, processes do not: background processes and the dev server end with their
owner (also when it is killed), and whoever connects next finds the files and starts processes again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from koda_ray.errors import InvalidInput, Missing, SandboxError, SandboxNotFound, TemplateNotFound
from koda_ray.sandbox import cgroup
from koda_ray.sandbox.base import SandboxInfo
from koda_ray.sandbox.disk import can_mount, mount_tmpfs, remove_tree, unmount
from koda_ray.sandbox.isolation import check_isolation
from koda_ray.sandbox.limits import Limits
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.node import find_node
from koda_ray.sandbox.preview import socket_path
from koda_ray.sandbox.record import Owner, Record, is_sandbox_id
from koda_ray.sandbox.strays import kill_users_of

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["LocalProvider", "sandbox_user"]

_NOT_COPIED = frozenset({"node_modules", "dist", ".vite", ".git"})
_FIRST_USER = 1_700_000_000
_USERS = 100_000_000


class LocalProvider:
    """Makes sandboxes on this machine.

    Args:
        root: Where they lie (SANDBOX_PATH).
        template: The project that each starts as (KODA_TEMPLATE_PATH).
        node_modules: Its installed packages (KODA_NODE_MODULES_PATH).
        limits: What each may use.
        unsafe: Whether to run without isolation where this machine cannot isolate.
        soft: Whether to hold limits by watchdog even where the kernel could; for tests of the watchdog.
    """

    def __init__(
        self,
        *,
        root: Path,
        template: Path,
        node_modules: Path,
        limits: Limits | None = None,
        unsafe: bool = False,
        soft: bool = False,
    ) -> None:
        self._root = root.absolute()
        self._template = template.absolute()
        self._node_modules = node_modules.absolute()
        self._limits = limits or Limits()
        self._unsafe = unsafe
        self._soft = soft
        self._live: dict[str, LocalSandbox] = {}

    @classmethod
    def of(cls, settings: Settings) -> LocalProvider:
        """Make the provider that settings describe."""
        return cls(
            root=settings.sandbox_path,
            template=settings.template_path,
            node_modules=settings.node_modules_path,
            limits=Limits.of(settings),
            unsafe=settings.sandbox_local_unsafe,
        )

    @property
    def name(self) -> str:
        """The name that settings and rows use."""
        return "local"

    async def create(self, *, sandbox_id: str, session_id: str, user_id: str) -> LocalSandbox:
        """Make a sandbox from the template; what an earlier attempt with the same id left half made is removed first.

        Raises:
            InvalidInput: INVALID_INPUT, the id is not one of ours.
            TemplateNotFound: TEMPLATE_NOT_FOUND, the template or its packages.
            Missing: MISSING, bubblewrap or node, or this machine does not allow isolation.
            SandboxError: PROVIDER_ERROR.
        """
        if not is_sandbox_id(sandbox_id):
            raise InvalidInput(f"{sandbox_id[:80]!r} is not a sandbox's id; make one with new_id('sbx')")
        with suppress(SandboxNotFound):
            return await self.connect(sandbox_id)
        await self.destroy(sandbox_id)
        making = asyncio.ensure_future(asyncio.to_thread(self._make, sandbox_id, session_id, user_id))
        try:
            record = await asyncio.shield(making)
        except BaseException:
            # a thread cannot be cancelled: what it still makes must be there before it is cleared away
            await asyncio.wait({making})
            await asyncio.shield(asyncio.to_thread(self._clear, self._root / sandbox_id))
            raise
        return await self._hold(record)

    async def connect(self, sandbox_id: str) -> LocalSandbox:
        """Find a sandbox that exists, also one that another process made, and become its owner.

        Raises:
            SandboxNotFound: SANDBOX_NOT_FOUND.
        """
        held = self._live.get(sandbox_id)
        if held is not None:
            if await held.is_alive():
                return held
            del self._live[sandbox_id]
            await held.close()  # its files went without it: nothing that runs there is of use
            await asyncio.to_thread(held.forget_socket)
        record = await asyncio.to_thread(self._read, sandbox_id)
        if record is None:
            raise SandboxNotFound(
                f"there is no sandbox {sandbox_id[:80]!r}; make another and restore the last checkpoint into it",
                context={"sandbox_id": sandbox_id[:80]},
            )
        return await self._hold(await asyncio.to_thread(self._take_over, record))

    async def destroy(self, sandbox_id: str) -> None:
        """End all processes of a sandbox, whoever started them, and remove its files; may be called twice."""
        if not is_sandbox_id(sandbox_id):
            return
        held = self._live.pop(sandbox_id, None)
        directory = self._root / sandbox_id
        await asyncio.to_thread(Record.forget, directory)
        if held is not None:
            await held.close()
        await asyncio.to_thread(self._clear, directory)

    async def list(self) -> list[SandboxInfo]:
        """List what lies below SANDBOX_PATH under an id of ours; half-made ones are not alive."""
        return await asyncio.to_thread(self._list)

    # inside

    async def _hold(self, record: Record) -> LocalSandbox:
        isolated = await asyncio.to_thread(self._isolated)
        node = await asyncio.to_thread(find_node)
        sandbox = LocalSandbox(
            record,
            directory=self._root / record.id,
            node_modules=self._node_modules,
            limits=self._limits,
            node=node,
            isolated=isolated,
            destroy=lambda: self.destroy(record.id),
        )
        self._live[record.id] = sandbox
        return sandbox

    def _isolated(self) -> bool:
        try:
            check_isolation()
        except Missing:
            if not self._unsafe:
                raise
            return False
        return True

    def _warn(self, sandbox_id: str) -> None:
        from koda_ray.logs import get_logger

        get_logger(__name__).warning(
            "SANDBOX_LOCAL_UNSAFE=1: generated code runs WITHOUT ISOLATION; it can read and change all that this user "
            "can and reach every network. Install bubblewrap and unset it",
            sandbox_id=sandbox_id,
        )

    def _make(self, sandbox_id: str, session_id: str, user_id: str) -> Record:
        if not (self._template / "package.json").is_file():
            raise TemplateNotFound(
                f"{self._template} holds no package.json; set KODA_TEMPLATE_PATH to the template project"
            )
        if not self._node_modules.is_dir():
            raise TemplateNotFound(
                f"{self._node_modules} is not there; install the template's packages with `npm ci` in "
                f"{self._template}, or set KODA_NODE_MODULES_PATH to where they are"
            )
        isolated = self._isolated()
        find_node()
        if not isolated:
            self._warn(sandbox_id)
        directory = self._root / sandbox_id
        groups_root = None if self._soft else cgroup.find()
        tmpfs = not self._soft and can_mount(self._root)
        record = Record(
            id=sandbox_id,
            session_id=session_id,
            user_id=user_id,
            state="creating",
            disk="tmpfs" if tmpfs else "directory",
            user=sandbox_user(sandbox_id) if isolated else None,
            groups=_planned(groups_root, sandbox_id),
            owner=Owner.this_process(),
            preview_socket=socket_path(directory),
        )
        disk = directory / "disk"
        try:
            disk.mkdir(parents=True)
            directory.chmod(0o700)
            record.write(directory)
            if groups_root is not None:
                self._make_groups(groups_root, sandbox_id)
            if tmpfs:
                mount_tmpfs(disk, size_bytes=self._limits.tmpfs_bytes, inodes=self._limits.inodes)
            self._fill(directory, record.user, isolated)
            record = replace(record, state="ready")
            record.write(directory)
        except OSError as error:
            raise SandboxError(f"the sandbox {sandbox_id} could not be made in {self._root}: {error}") from error
        return record

    def _make_groups(self, root: cgroup.CgroupRoot, sandbox_id: str) -> None:
        limits = self._limits
        cgroup.make(
            root,
            f"koda-{sandbox_id}",
            memory_bytes=limits.memory_bytes,
            pids=limits.pids,
            cpus=limits.cpus,
        )

    def _take_over(self, record: Record) -> Record:
        """Become the owner; groups that went away with the process that made them are made again."""
        record = replace(record, owner=Owner.this_process())
        if not all(os.path.isdir(group) for group in record.groups):
            root = cgroup.find()
            record = replace(record, groups=_planned(root, record.id))
            if root is not None:
                self._make_groups(root, record.id)
        record.write(self._root / record.id)
        return record

    def _fill(self, directory: Path, user: int | None, isolated: bool) -> None:
        disk = directory / "disk"
        (disk / "stage").mkdir(mode=0o700)
        _copy(self._template, disk / "project", user)
        if isolated:
            (disk / "project" / "node_modules").mkdir()
        else:
            (disk / "project" / "node_modules").symlink_to(self._node_modules)
        inside = 1000 if user is None else user
        etc = directory / "etc"
        etc.mkdir()
        (etc / "passwd").write_text(
            f"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nuser:x:{inside}:{inside}:user:/home/user:/bin/sh\n"
        )
        (etc / "group").write_text(f"root:x:0:\nuser:x:{inside}:\n")
        (etc / "hosts").write_text("127.0.0.1 localhost koda\n::1 localhost\n")

    def _read(self, sandbox_id: str) -> Record | None:
        if not is_sandbox_id(sandbox_id):
            return None
        directory = self._root / sandbox_id
        record = Record.read(directory)
        if record is None or record.state != "ready" or not (directory / "disk" / "project").is_dir():
            return None
        return record

    def _list(self) -> list[SandboxInfo]:
        found: list[SandboxInfo] = []
        with suppress(FileNotFoundError):
            for path in sorted(self._root.iterdir()):
                if is_sandbox_id(path.name) and path.is_dir():
                    record = Record.read(path)
                    found.append(
                        SandboxInfo(
                            id=path.name,
                            session_id="" if record is None else record.session_id,
                            user_id="" if record is None else record.user_id,
                            alive=self._read(path.name) is not None,
                            owner_alive=record is not None and record.owner.alive,
                        )
                    )
        return found

    def _clear(self, directory: Path) -> None:
        Record.forget(directory)
        record = Record.read(directory, forgotten=True)
        if record is not None and not cgroup.remove(tuple(map(Path, record.groups))):
            raise SandboxError(f"the processes of {directory.name} could not be ended; look into {record.groups}")
        if not directory.exists():
            return
        kill_users_of(directory)
        unmount(directory / "disk")
        if record is not None:
            record.forget_socket(directory)
        remove_tree(directory)


def _planned(root: cgroup.CgroupRoot | None, sandbox_id: str) -> tuple[str, ...]:
    return () if root is None else tuple(map(str, cgroup.plan(root, f"koda-{sandbox_id}")))


def sandbox_user(sandbox_id: str) -> int | None:
    """Choose the user id that a sandbox's processes drop to: one for each sandbox, out of the way of real users.

    Returns:
        The id, or None when this process is not root, or root of a namespace that has no other ids.
    """
    if os.geteuid() != 0:
        return None
    spread = zlib.crc32(sandbox_id.encode())
    first, count = _mapped_users()
    if first <= _FIRST_USER and first + count >= _FIRST_USER + _USERS:
        return _FIRST_USER + spread % _USERS
    half = count // 2  # a container's own namespace: its upper half, above the users that its image knows
    return first + half + spread % half if half >= 1000 else None


def _mapped_users() -> tuple[int, int]:
    """The largest range of user ids that this namespace has: its first, and how many."""
    rows = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return max(((int(row[0]), int(row[2])) for row in rows), key=lambda row: row[1])


def _copy(source: Path, target: Path, user: int | None) -> None:
    """Copy the template: plain files and directories only, never links, each file its own."""
    target.mkdir()
    if user is not None:
        os.chown(target, user, user)
    for entry in os.scandir(source):
        if entry.name in _NOT_COPIED:
            continue
        path = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            _copy(Path(entry.path), path, user)
        elif entry.is_file(follow_symlinks=False):
            shutil.copyfile(entry.path, path)
            path.chmod(0o755 if entry.stat().st_mode & 0o100 else 0o644)
            if user is not None:
                os.chown(path, user, user)
