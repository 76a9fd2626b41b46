"""The local provider: a directory from the template, and commands under bubblewrap on this machine.

What lies where, in a folder of SANDBOX_PATH that is the deployment's alone (``dep_...``), so that all in it is ours:

    installation       the folder's own name, for rows that say where a sandbox is
    images/            people's images
    sbx_.../
      sandbox.json     its record; without it the sandbox does not exist
      etc/             passwd, group, hosts for the inside
      preview.sock     where its dev server answers
      out-....sock     where an owner's proxy listens, once a command has asked for the network
      disk/            a tmpfs of fixed size where one can be mounted
        project/       what the inside sees as /home/user/project
        stage/         where files wait before they are renamed into the project
        .terminals/    what its terminals share: their server's socket, their output
      NAME.lock        held by whoever holds a process that outlives its starter (``holder``)
      NAME.log         what that process asked for and was refused

Files outlive the process that made them, processes do not: background processes and the dev server end with their
owner (also when it is killed), and whoever connects next finds the files and starts processes again. What is kept
(``Sandbox.keep``) has an owner of its own.

A sandbox starts as a copy of the template, whose packages it sees read-only, or as a copy of an image: a folder that is
copied as it is, packages, links and modes included.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from koda_ray.cancellation import finish, see_through
from koda_ray.errors import InvalidInput, Missing, QuotaExceeded, SandboxError, SandboxNotFound, TemplateNotFound
from koda_ray.sandbox import cgroup
from koda_ray.sandbox.baits import BAITED, lay_baits
from koda_ray.sandbox.bare import Bare
from koda_ray.sandbox.base import SandboxInfo
from koda_ray.sandbox.copying import copy_folder
from koda_ray.sandbox.decoys import DECOYS, Decoys
from koda_ray.sandbox.deployment import Location, local_location
from koda_ray.sandbox.disk import can_mount, mount_tmpfs, remove_tree, sweep_probes, unmount
from koda_ray.sandbox.egress.process import EgressSocket
from koda_ray.sandbox.egress.rules import Egress
from koda_ray.sandbox.held import Held
from koda_ray.sandbox.holder import holding, refused_of
from koda_ray.sandbox.isolation import TERMINALS, Jail, can_be_baited, can_be_heard, check_isolation, launcher
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.node import find_node
from koda_ray.sandbox.preview import is_listened, short_folder, socket_path
from koda_ray.sandbox.record import Owner, Record, is_sandbox_id
from koda_ray.sandbox.refused import Refusal, note
from koda_ray.sandbox.strays import kill_users_of
from koda_ray.sandbox.template import TemplateProject
from koda_ray.sandbox.triggers import TRIGGERS, lay_trigger, trigger_path
from koda_ray.sandbox.users import sandbox_user
from koda_ray.sandbox.way_out import WayOut

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["LocalProvider"]

_NOT_COPIED = frozenset({"node_modules", "dist", ".vite", ".git"})


class LocalProvider:
    """Makes sandboxes on this machine.

    Args:
        root: Where they lie, and no other deployment's.
        template: The project that each starts as.
        limits: What each may use.
        unsafe: Whether to run without isolation where this machine cannot isolate.
        egress: What commands may reach that ask for the network, in each sandbox; nothing when None.
        database: The file that the database is in: who looks for it inside is told of.
    """

    def __init__(
        self,
        *,
        root: Path,
        template: TemplateProject,
        limits: ResourceLimits | None = None,
        unsafe: bool = False,
        egress: Egress | None = None,
        database: Path | None = None,
    ) -> None:
        self._root = root.absolute()
        self._template = template.absolute()
        self._limits = limits or ResourceLimits()
        self._unsafe = unsafe
        self._egress = egress or Egress()
        self._decoys = Decoys(sandboxes=self._root, database=database)
        self._held = Held[LocalSandbox]()

    @classmethod
    def of(cls, settings: Settings, *, deployment: str) -> LocalProvider:
        """Make the provider that settings describe, for one deployment."""
        return cls(
            root=settings.sandbox_path / deployment,
            template=TemplateProject.of(settings),
            limits=ResourceLimits.of(settings),
            unsafe=settings.sandbox_local_unsafe,
            egress=Egress.of(settings),
            database=settings.database_path,
        )

    @property
    def name(self) -> str:
        """The name that settings and rows use."""
        return "local"

    async def create(self, *, sandbox_id: str, session_id: str, user_id: str, image: str | None = None) -> LocalSandbox:
        """Make a sandbox; what an earlier attempt with the same id left half made is removed first.

        Args:
            sandbox_id: Its id.
            session_id: Whose project it holds.
            user_id: The user's.
            image: The folder that it starts as a copy of; the template when None.

        Raises:
            InvalidInput: INVALID_INPUT, the id is not one of ours.
            TemplateNotFound: TEMPLATE_NOT_FOUND, the image, or the template or its packages.
            QuotaExceeded: QUOTA_EXCEEDED, the image is larger than the sandbox's disk.
            Missing: MISSING, bubblewrap or node, or this machine does not allow isolation.
            SandboxError: PROVIDER_ERROR.
        """
        if not is_sandbox_id(sandbox_id):
            raise InvalidInput(f"{sandbox_id[:80]!r} is not a sandbox's id; make one with new_id('sbx')")
        async with self._held.turn(sandbox_id):
            with suppress(SandboxNotFound):
                return await self._connect(sandbox_id)
            await self._destroy(sandbox_id)
            return await self._create(sandbox_id, session_id, user_id, image)

    async def connect(self, sandbox_id: str) -> LocalSandbox:
        """Find a sandbox that exists, also one that another process made, and become its owner.

        Raises:
            SandboxNotFound: SANDBOX_NOT_FOUND.
        """
        return await self._held.connected(sandbox_id, self._connect)

    async def destroy(self, sandbox_id: str) -> None:
        """End all processes of a sandbox, whoever started them, and remove its files; may be called twice."""
        if is_sandbox_id(sandbox_id):
            async with self._held.turn(sandbox_id):
                await self._destroy(sandbox_id)

    async def list(self) -> list[SandboxInfo]:
        """List what lies in the deployment's folder under an id; half-made ones are not alive."""
        return await asyncio.to_thread(self._list)

    async def location(self) -> Location:
        """Say where its sandboxes are: this machine, and the folder."""
        return await asyncio.to_thread(local_location, self._root)

    async def close(self) -> None:
        """End what runs in sandboxes through this program; their files, and what is kept in them, stay."""
        await self._held.close(LocalSandbox.close)

    # inside

    async def _create(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> LocalSandbox:
        making = asyncio.ensure_future(asyncio.to_thread(self._make, sandbox_id, session_id, user_id, image))
        try:
            return await self._hold(await asyncio.shield(making))
        except BaseException:
            # a thread cannot be cancelled: what it still makes must be there before it is cleared away
            with suppress(asyncio.CancelledError):
                await see_through(making)
            await finish(asyncio.to_thread(self._clear, self._root / sandbox_id))
            raise

    async def _connect(self, sandbox_id: str) -> LocalSandbox:
        if (held := await self._held.alive(sandbox_id)) is not None:
            return held
        if (held := self._held.pop(sandbox_id)) is not None:
            await held.close()  # its files went without it: nothing that runs there is of use
            await asyncio.to_thread(held.forget_socket)
        record = await asyncio.to_thread(self._take_over, sandbox_id)
        if record is None:
            raise SandboxNotFound(
                f"there is no sandbox {sandbox_id[:80]!r}; make another and restore the last checkpoint into it",
                context={"sandbox_id": sandbox_id[:80]},
            )
        return await self._hold(record)

    async def _destroy(self, sandbox_id: str) -> None:
        held = self._held.pop(sandbox_id)
        directory = self._root / sandbox_id
        await asyncio.to_thread(Record.forget, directory)
        if held is not None:
            await held.close()
        await asyncio.to_thread(self._clear, directory)

    async def _hold(self, record: Record) -> LocalSandbox:
        isolated = await asyncio.to_thread(self._isolated)
        if not isolated:  # to everybody who opens one, since that is who runs something in it
            self._warn(record.id)
        sandbox = LocalSandbox(
            record,
            directory=self._root / record.id,
            walls=await asyncio.to_thread(self._walls, record, isolated),
            way_out=self._way_out(record),
            destroy=lambda: self.destroy(record.id),
            hold=holding(self, sandbox_id=record.id, directory=self._root / record.id),
        )
        self._held.put(record.id, sandbox)
        return sandbox

    def _walls(self, record: Record, isolated: bool) -> Jail | Bare:
        directory = self._root / record.id
        disk, node = directory / "disk", find_node()
        if not isolated:
            return Bare(project=disk / "project", node=node, limits=self._limits)
        return Jail(
            project=disk / "project",
            terminals=disk / TERMINALS,
            decoys=self._decoys.shown(disk / DECOYS),
            baits=disk / BAITED,
            trigger=trigger_path(disk / TRIGGERS),
            etc=directory / "etc",
            node_modules=None if record.image else self._template.node_modules,
            node=node,
            limits=self._limits,
            user=record.user,
        )

    def _way_out(self, record: Record) -> WayOut:
        groups = cgroup.enter_files(tuple(map(Path, record.groups)))
        whose = f"{self._root / record.id}/"  # a proxy is found by its last word
        return WayOut(
            record.id,
            # of this owner alone: another one that connects makes its own, and neither takes away the other's
            at=EgressSocket(
                path=str(Path(record.preview_socket).with_name(f"out-{secrets.token_hex(3)}.sock")), owner=record.user
            ),
            egress=self._egress,
            launch=lambda line: launcher(
                [*line, whose], groups=groups, limits=self._limits, hard_disk=True, ended_last=True
            ),
        )

    def _isolated(self) -> bool:
        try:
            check_isolation()
        except Missing:
            if not self._unsafe:
                raise
            return False
        can_be_heard()  # found out here, where it may take its time
        can_be_baited()
        return True

    def _warn(self, sandbox_id: str) -> None:
        from koda_ray.logs import get_logger

        get_logger(__name__).warning(
            "SANDBOX_LOCAL_UNSAFE=1: generated code runs WITHOUT ISOLATION; it can read and change all that this user "
            "can and reach every network. Install bubblewrap and unset it",
            sandbox_id=sandbox_id,
        )

    def _check_source(self, image: str | None) -> None:
        if image is not None:
            if not Path(image).is_dir():
                raise TemplateNotFound(
                    f"the image {image} is not there any more; create it again with `koda image create`"
                )
            return
        folder, node_modules = self._template.folder, self._template.node_modules
        if not (folder / "package.json").is_file():
            raise TemplateNotFound(f"{folder} holds no package.json; set KODA_TEMPLATE_PATH to the template project")
        if not node_modules.is_dir():
            raise TemplateNotFound(
                f"{node_modules} is not there; install the template's packages with `npm ci` in "
                f"{folder}, or set KODA_NODE_MODULES_PATH to where they are"
            )

    def _make(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> Record:
        self._check_source(image)
        isolated = self._isolated()
        find_node()
        directory = self._root / sandbox_id
        groups_root = None if self._limits.soft else cgroup.find()
        tmpfs = not self._limits.soft and can_mount(self._root)
        disk = directory / "disk"
        try:
            # first, since it is by its folder that one is found whose making is cut off
            disk.mkdir(parents=True)
            directory.chmod(0o700)
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
                image=image or "",
            )
            record.write(directory)
            if groups_root is not None:
                self._make_groups(groups_root, sandbox_id)
            if tmpfs:
                mount_tmpfs(disk, size_bytes=self._limits.tmpfs_bytes, inodes=self._limits.inodes)
            self._fill(directory, record, isolated)
            record = replace(record, state="ready")
            record.write(directory)
        except OSError as error:
            if error.errno == errno.ENOSPC and image is not None:
                size = self._limits.disk_size("tmpfs" if tmpfs else "directory")
                raise QuotaExceeded(
                    f"the image {image} does not fit into a sandbox: its disk has {size >> 20} MB; make the image "
                    "smaller, or raise SANDBOX_DISK_MB (and SANDBOX_MEMORY_MB to twice that)",
                    context={"limit": "disk"},
                ) from None
            raise SandboxError(
                f"the sandbox {sandbox_id} could not be made in {self._root}: {error}; see that SANDBOX_PATH is on a "
                "disk with room, in a folder that this user may write"
            ) from error
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

    def _take_over(self, sandbox_id: str) -> Record | None:
        """Become the owner of one that is there, and clear away what owners that were killed have left."""
        if self._read(sandbox_id) is None:
            return None
        record = Record.change(self._root / sandbox_id, self._owned)
        if record is not None:
            with suppress(FileNotFoundError):  # it is being destroyed, which is found out next
                for path in Path(record.preview_socket).parent.glob("out-*.sock"):
                    if not is_listened(str(path)):
                        path.unlink(missing_ok=True)
        return record

    def _owned(self, record: Record) -> Record:
        """Make a record this process's; groups that went away with the process that made them are made again."""
        record = replace(record, owner=Owner.this_process())
        if not all(os.path.isdir(group) for group in record.groups):
            root = cgroup.find()
            record = replace(record, groups=_planned(root, record.id))
            if root is not None:
                self._make_groups(root, record.id)
        return record

    def _fill(self, directory: Path, record: Record, isolated: bool) -> None:
        disk, user = directory / "disk", record.user
        (disk / "stage").mkdir(mode=0o700)
        (disk / TERMINALS).mkdir(mode=0o700)
        if user is not None:
            os.chown(disk / TERMINALS, user, user)
        lay_baits(disk / BAITED)
        Decoys.lay(disk / DECOYS)
        lay_trigger(disk / TRIGGERS)
        if record.image:
            copy_folder(Path(record.image), disk / "project", user=user)
        else:
            self._copy_template(disk / "project", user, isolated)
        inside = 1000 if user is None else user
        etc = directory / "etc"
        etc.mkdir()
        (etc / "passwd").write_text(
            f"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nuser:x:{inside}:{inside}:user:/home/user:/bin/sh\n"
        )
        (etc / "group").write_text(f"root:x:0:\nuser:x:{inside}:\n")
        (etc / "hosts").write_text("127.0.0.1 localhost koda\n::1 localhost\n")

    def _copy_template(self, project: Path, user: int | None, isolated: bool) -> None:
        _copy(self._template.folder, project, user)
        if isolated:
            (project / "node_modules").mkdir()
        else:
            (project / "node_modules").symlink_to(self._template.node_modules)

    def _read(self, sandbox_id: str) -> Record | None:
        if not is_sandbox_id(sandbox_id):
            return None
        directory = self._root / sandbox_id
        record = Record.read(directory)
        if record is None or record.state != "ready" or not (directory / "disk" / "project").is_dir():
            return None
        return record

    def _list(self) -> list[SandboxInfo]:
        sweep_probes(self._root)
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
                            provider_id=str(path),
                        )
                    )
        return found

    def _clear(self, directory: Path) -> None:
        Record.forget(directory)
        record = Record.read(directory, forgotten=True)
        if record is not None and not cgroup.remove(tuple(map(Path, record.groups))):
            raise SandboxError(
                f"the processes of {directory.name} could not be ended: {', '.join(record.groups)} still hold some; "
                "see which in their cgroup.procs, end those, and destroy the sandbox again"
            )
        shutil.rmtree(short_folder(directory), ignore_errors=True)
        if not directory.exists():
            return
        kill_users_of(directory)
        unmount(directory / "disk")
        if record is not None:
            record.forget_socket(directory)
        for (process, refused), times in sorted(refused_of(directory).items()):  # it goes with the folder
            note(directory.name, cast("Refusal", refused), process=process, times=times)
        remove_tree(directory)


def _planned(root: cgroup.CgroupRoot | None, sandbox_id: str) -> tuple[str, ...]:
    return () if root is None else tuple(map(str, cgroup.plan(root, f"koda-{sandbox_id}")))


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
