"""The Docker provider: a container for each sandbox, closed on all sides but one socket that it dials itself.

What lies where, in the folder ``docker`` of a deployment's own below SANDBOX_PATH (``dep_...``):

    installation     a random name for everything that is made from this folder at the engine
    sbx_.../
      sandbox.json   its record; without it the sandbox does not exist
      .decoys/       what it sees in place of the database and of other sandboxes
      NAME.lock      held by whoever keeps the way out of a process that outlives its starter (``holder``)
      NAME.log       what that process asked for and was refused
      in/            the only folder that the container sees, read-only, as /run/koda
        a-......sock where its first process dials in to one of its owners
        out-....sock where an owner's proxy listens while a command runs that asked for the network
      preview.sock   where its dev server answers

The container ``koda-sbx_...`` runs as user 1000 without capabilities, new privileges, network or ports; its root is
read-only. The project is a tmpfs of fixed size and number of files: an engine's volumes have a limit on few storage
drivers only (overlay2 needs XFS with project quotas), nothing of a tmpfs can be left over, and what it holds counts
against the memory limit. So the files live as long as the container does.

Ours is what carries our installation's name as a label; a container without it is never touched, whatever its name. A
container outlives the process that made it: whoever connects listens on a socket of its own, beside any other owner,
and finds files and background processes there.

Labels are fixed when a container is made, so one that was made ahead (``keep_warm``) keeps the labels and the name of
the id that it was made under, and a folder of that id, whose record says ``warm``. To take it is to rename the folder,
which succeeds for one and only one; from then on the record in the folder, under its new name, says which container is
whose. No container is removed that a record of another sandbox claims.

There is no ``--init``: the first process is our own (``first_process``), reaps what is
orphaned, and cannot be ended from within, as ``kill -9 -1`` would end a helper below ``docker-init``, and the container
with it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from koda_ray.cancellation import finish, see_through
from koda_ray.errors import InvalidInput, KodaError, SandboxError, SandboxNotFound
from koda_ray.sandbox import docker_covers
from koda_ray.sandbox.base import SandboxInfo
from koda_ray.sandbox.decoys import DECOYS, Decoys
from koda_ray.sandbox.deployment import Location, local_location
from koda_ray.sandbox.docker_ahead import Ahead, Maker
from koda_ray.sandbox.docker_folders import DockerFolders, clear, container_name, folder_inside, intend
from koda_ray.sandbox.docker_plan import OWNER, PERSON, SANDBOX, SECRET, SESSION, USER, ContainerPlan
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from koda_ray.sandbox.docker_way_in import WayIn
from koda_ray.sandbox.egress.process import EgressSocket
from koda_ray.sandbox.egress.rules import Egress
from koda_ray.sandbox.engine import Container, Engine
from koda_ray.sandbox.frames import HELLO_BYTES
from koda_ray.sandbox.gvisor_trace import GvisorTrace, can_be_traced
from koda_ray.sandbox.held import Held
from koda_ray.sandbox.holder import holding
from koda_ray.sandbox.image import checked_image
from koda_ray.sandbox.link import Link
from koda_ray.sandbox.programs import run_program
from koda_ray.sandbox.record import Owner, Record, is_sandbox_id
from koda_ray.sandbox.users import sandbox_user
from koda_ray.sandbox.way_out import WayOut

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["DockerProvider"]

_START_TIMEOUT_S = 60.0
_COVER_TIMEOUT_S = 20.0
# what hostile code makes it do shall not be felt here; it holds at most 128 connections
_PROXY_LIMITS = ("nice", "-n", "10", "prlimit", "--core=0", "--nofile=1024", f"--as={2 << 30}", "--")


class DockerProvider:
    """Makes sandboxes at a Docker engine of this machine.

    Args:
        root: Where their records and sockets lie, and no other deployment's.
        image: What they start from (SANDBOX_IMAGE); ``koda_ray.sandbox.image`` builds it.
        plan: What containers are made like: their limits, and the runtime.
        egress: What commands may reach that ask for the network, in each sandbox; nothing when None.
        warm: How many to keep made and started where this provider keeps any (SANDBOX_WARM).
        address: The engine's (DOCKER_HOST); this machine's usual one when None.
    """

    def __init__(
        self,
        *,
        root: Path,
        image: str,
        plan: ContainerPlan | None = None,
        egress: Egress | None = None,
        warm: int = 0,
        address: str | None = None,
    ) -> None:
        self._root = root.absolute() / "docker"
        self._folders = DockerFolders(self._root)
        self._image = image
        self._egress = egress or Egress()
        self._engine = Engine(address)
        plan, here = plan or ContainerPlan(), self._engine.address
        covers = plan.shares_kernel and os.geteuid() == 0 and here.startswith("unix:")
        decoys = Decoys(sandboxes=root, database=plan.database) if covers else None
        traced = can_be_traced(plan.runtime, engine=here)
        self._plan = replace(plan, traced=traced, covers=covers, decoys=decoys)
        self._held = Held[DockerSandbox]()
        self._ahead = Ahead(warm, folders=self._folders)

    def __reduce__(self) -> tuple[Callable[[], DockerProvider], tuple[()]]:
        """Leave out what this process holds: another one that is given a provider begins with nothing."""
        make = partial(
            DockerProvider,
            root=self._root.parent,
            image=self._image,
            plan=self._plan,
            egress=self._egress,
            address=self._engine.address,
        )
        return make, ()

    @classmethod
    def of(cls, settings: Settings, *, deployment: str) -> DockerProvider:
        """Make the provider that settings describe, for one deployment."""
        return cls(
            root=settings.sandbox_path / deployment,
            image=settings.sandbox_image,
            plan=ContainerPlan.of(settings),
            egress=Egress.of(settings),
            warm=settings.sandbox_warm,
            address=settings.docker_host,
        )

    @property
    def name(self) -> str:
        """The name that settings and rows use."""
        return "docker"

    async def create(
        self, *, sandbox_id: str, session_id: str, user_id: str, image: str | None = None
    ) -> DockerSandbox:
        """Make a sandbox from an image (SANDBOX_IMAGE where none is named), or take one that was made ahead.

        What an earlier attempt with the same id left half made is removed first.

        Raises:
            InvalidInput: INVALID_INPUT, the id is not one of ours.
            TemplateNotFound: TEMPLATE_NOT_FOUND, the image is not there or of another version.
            Missing: MISSING, the Docker SDK.
            SandboxError: PROVIDER_ERROR.
        """
        if not is_sandbox_id(sandbox_id):
            raise InvalidInput(f"{sandbox_id[:80]!r} is not a sandbox's id; make one with new_id('sbx')")
        async with self._held.turn(sandbox_id):
            with suppress(SandboxNotFound):
                return await self._connect(sandbox_id)
            await self._destroy(sandbox_id)
            return await self._create(sandbox_id, session_id, user_id, image)

    async def connect(self, sandbox_id: str) -> DockerSandbox:
        """Find a sandbox that runs, also one that another process made, and become its owner.

        Raises:
            SandboxNotFound: SANDBOX_NOT_FOUND, with why where it is known.
        """
        return await self._held.connected(sandbox_id, self._connect)

    async def destroy(self, sandbox_id: str) -> None:
        """End all processes of a sandbox, whoever started them, and remove its files; may be called twice."""
        if is_sandbox_id(sandbox_id):
            # at once: whoever waits for its first answer need not wait any longer, nor need this wait for them
            await asyncio.to_thread(Record.forget, self._root / sandbox_id)
            async with self._held.turn(sandbox_id):
                await self._destroy(sandbox_id)

    async def list(self) -> list[SandboxInfo]:
        """List what carries our label at the engine or has a record here; half-made ones are not alive."""
        names = await self._engine.names(f"{OWNER}={await asyncio.to_thread(self._folders.installation)}")
        records = await asyncio.to_thread(self._folders.records)
        claimed = {record.container for record in records.values() if record is not None}
        ids = {name.removeprefix("koda-") for name in names if name not in claimed} | set(records)
        return [await self._info(name) for name in sorted(ids) if is_sandbox_id(name)]

    async def location(self) -> Location:
        """Say where its sandboxes are: the engine, and the folder whose name they carry."""
        return await asyncio.to_thread(local_location, self._root, engine=(await self._engine.facts()).id)

    async def keep_warm(self) -> None:
        """Keep as many sandboxes made and started as settings say, until cancelled; then those not taken are gone."""
        await self._ahead.keep(self._maker())

    async def close(self) -> None:
        """Close what is open here; the containers stay, for whoever connects next. May be called twice."""
        await self._held.close(DockerSandbox.close)
        await self._engine.close()

    # inside

    async def _create(self, sandbox_id: str, session_id: str, user_id: str, image: str | None) -> DockerSandbox:
        image = image or self._image
        kind = self._plan.kind(await checked_image(self._engine, image))
        making = asyncio.ensure_future(self._take_or_make(sandbox_id, session_id, user_id, image, kind))
        try:
            return await asyncio.shield(making)
        except BaseException:
            # a call to the engine cannot be taken back: what it still makes must be there before it is cleared away
            with suppress(asyncio.CancelledError):
                await see_through(making)
            await finish(self._destroy(sandbox_id))
            raise

    async def _connect(self, sandbox_id: str) -> DockerSandbox:
        if (held := await self._held.alive(sandbox_id)) is not None:
            return held
        if (held := self._held.pop(sandbox_id)) is not None:
            await held.close()
        record = await asyncio.to_thread(self._folders.read, sandbox_id)
        found = None if record is None else await self._ours(sandbox_id)
        if record is None or found is None or found.state != "running":
            raise (
                _not_found(sandbox_id, reason="removed")
                if found is None
                else _not_found(sandbox_id, reason=found.state, why=found.why)
            )
        record = await asyncio.to_thread(Record.change, self._root / sandbox_id, _owned)
        if record is None:
            raise _not_found(sandbox_id, reason="removed")
        return await self._hold(record, secret=found.environment.get(SECRET, ""))

    async def _destroy(self, sandbox_id: str) -> None:
        directory = self._root / sandbox_id
        held = self._held.pop(sandbox_id) or self._ahead.pop(sandbox_id)
        await asyncio.to_thread(Record.forget, directory)
        if held is not None:
            await held.close()
        found = await self._ours(sandbox_id)
        if found is not None:
            await self._engine.remove(found.name)
        # what was made ahead under this id may be another sandbox's by now, with the folder in which its socket lies
        own = await asyncio.to_thread(self._folders.container_of, sandbox_id) is not None
        await asyncio.to_thread(clear, directory, own=own)

    async def _take_or_make(
        self, sandbox_id: str, session_id: str, user_id: str, image: str, kind: str
    ) -> DockerSandbox:
        taken = await self._ahead.take(self._maker(), sandbox_id, session_id=session_id, user_id=user_id, kind=kind)
        return taken or await self._make(sandbox_id, session_id, user_id, image)

    def _maker(self) -> Maker:
        return Maker(kind=self._kind_now, make=self._make_ahead, hold=self._hold_again, destroy=self._destroy)

    async def _make_ahead(self, name: str, kind: str) -> DockerSandbox:
        async with self._held.turn(name):
            made = await self._make(name, "", "", self._image, kind=kind)
            self._held.pop(name)
        return made

    async def _kind_now(self) -> str:
        return self._plan.kind(await checked_image(self._engine, self._image))

    async def _hold_again(self, record: Record) -> DockerSandbox | None:
        found = await self._ours(record.id)
        with suppress(KodaError):
            if found is not None and found.state == "running":
                return await self._hold(record, secret=found.environment.get(SECRET, ""))
        return None

    async def _make(
        self, sandbox_id: str, session_id: str, user_id: str, image: str, *, kind: str = ""
    ) -> DockerSandbox:
        directory = self._root / sandbox_id
        secret = secrets.token_hex(HELLO_BYTES // 2)
        record = Record(
            id=sandbox_id,
            session_id=session_id,
            user_id=user_id,
            state="creating",
            disk="tmpfs",
            user=USER,
            groups=(),
            owner=Owner.this_process(),
            preview_socket="",
            container=container_name(sandbox_id),
            kind=kind,
            image=image,
        )
        try:
            labels = {SANDBOX: sandbox_id, OWNER: await asyncio.to_thread(self._folders.installation)}
            if not kind:
                labels |= {SESSION: session_id, PERSON: user_id}
            record = await asyncio.to_thread(intend, directory, record)
            spec = self._plan.spec(
                sandbox_id,
                image=image,
                secret=secret,
                labels=labels,
                folder=str(folder_inside(record)),
                known=image == self._image,
            )
            await self._engine.create(replace(spec, watched=self._plan.watched(directory)))
            # the socket is there before whoever dials it
            sandbox = await self._hold(record, secret=secret, start=True)
            await self._cover(sandbox_id)
            record = replace(record, state="warm" if kind else "ready")
            await asyncio.to_thread(record.write, directory)
        except OSError as error:
            raise SandboxError(
                f"the sandbox {sandbox_id} could not be made in {self._root}: {error}; see that SANDBOX_PATH is on a "
                "disk with room, in a folder that this user may write"
            ) from error
        return sandbox

    async def _hold(self, record: Record, *, secret: str, start: bool = False) -> DockerSandbox:
        link = Link(folder_inside(record), secret=secret)
        known = (self._root / record.id / "sandbox.json").exists
        trace = None
        if self._plan.traced:
            private = (*self._plan.private, str(self._root.parent))
            trace = GvisorTrace(Path(record.preview_socket).parent, look=lambda: self._ours(record.id), private=private)
        sandbox = DockerSandbox(
            record,
            way_in=WayIn(
                record.id,
                link,
                look=lambda: self._ours(record.id),
                is_known=known,
                trace=trace,
                decoys=Decoys.looked_for(self._root / record.id / DECOYS),
            ),
            limits=self._plan.limits,
            way_out=self._way_out(record),
            destroy=lambda: self.destroy(record.id),
            hold=holding(self, sandbox_id=record.id, directory=self._root / record.id),
        )
        try:
            await link.open()
            if start:
                await self._engine.start(record.container)
            await sandbox.greet(timeout_s=_START_TIMEOUT_S)
        except BaseException as error:
            await sandbox.close()
            if isinstance(error, TimeoutError):
                raise SandboxError(
                    f"the sandbox {record.id} did not answer within {_START_TIMEOUT_S:g} s; the machine may be busy: "
                    f"try again, and see what `docker logs {record.container}` says where it goes on",
                    context={"sandbox_id": record.id, "reason": "unresponsive"},
                ) from error
            if isinstance(error, FileNotFoundError):  # the folder of its sockets went while one was made in it
                raise _not_found(record.id, reason="removed") from error
            if start and isinstance(error, SandboxNotFound):
                raise SandboxError(await self._why_not(record.id, error)) from error
            raise
        self._held.put(record.id, sandbox)
        return sandbox

    async def _cover(self, sandbox_id: str) -> None:
        """Lay what attacks ask for over the container's own, where this may be done."""
        if not self._plan.covers:
            return
        found = await self._ours(sandbox_id)
        if found is not None and found.pid > 0:
            line = (sys.executable, "-I", "-S", docker_covers.__file__, str(found.pid), found.id)
            with suppress(KodaError):  # an engine elsewhere, a kernel without such mounts: nothing is told then
                await asyncio.to_thread(run_program, line, timeout_s=_COVER_TIMEOUT_S, way_out="nothing is told then")

    def _way_out(self, record: Record) -> WayOut:
        whose = f"{self._root / record.id}/"  # a proxy is found by its last word
        return WayOut(
            record.id,
            # of this owner alone: another one that connects makes its own, and neither takes away the other's
            at=EgressSocket(
                path=str(folder_inside(record) / f"out-{secrets.token_hex(2)}.sock"),
                owner=sandbox_user(record.id),
                mode=0o666,  # the container's user is another one; the folder around it is closed to others
            ),
            egress=self._egress,
            launch=lambda line: [*_PROXY_LIMITS, *line, whose],
        )

    async def _why_not(self, sandbox_id: str, error: KodaError) -> str:
        lines = ""
        with suppress(KodaError):
            lines = (await self._engine.logs(container_name(sandbox_id))).strip()
        return (
            f"the sandbox {sandbox_id} ended as it began: {error.message}; its last lines: {lines or 'none'}; "
            "where they do not say it, build the image again with `koda image build`, and see `koda doctor`"
        )

    async def _ours(self, sandbox_id: str) -> Container | None:
        """Look at a sandbox's container; None where there is none that is provably ours, and this sandbox's."""
        name = await asyncio.to_thread(self._folders.container_of, sandbox_id)
        found = None if name is None else await self._engine.find(name)
        if found is None or container_name(found.labels.get(SANDBOX, "")) != name:
            return None
        return found if found.labels.get(OWNER) == await asyncio.to_thread(self._folders.installation) else None

    async def _info(self, sandbox_id: str) -> SandboxInfo:
        found = await self._ours(sandbox_id)
        record = await asyncio.to_thread(Record.read, self._root / sandbox_id)
        if record is not None and record.id != sandbox_id:  # it is being taken just now, by whom is not written yet
            return SandboxInfo(id=sandbox_id, session_id="", user_id="", alive=False)
        labels: Mapping[str, str] = {} if found is None else found.labels
        return SandboxInfo(
            id=sandbox_id,
            session_id=labels.get(SESSION, "") if record is None else record.session_id,
            user_id=labels.get(PERSON, "") if record is None else record.user_id,
            alive=found is not None and found.state == "running" and record is not None and record.state == "ready",
            owner_alive=record is not None and record.owner.alive,
            paused=found is not None and found.state == "paused",
            ended=found.why if found is not None and found.state in ("out_of_memory", "ended") else "",
            warm=record is not None and record.kind != "",
            provider_id="" if found is None else found.name,
        )


def _owned(record: Record) -> Record:
    return replace(record, owner=Owner.this_process())


def _not_found(sandbox_id: str, *, reason: str, why: str = "") -> SandboxNotFound:
    words = f" ({why})" if why else ""
    return SandboxNotFound(
        f"there is no sandbox {sandbox_id[:80]!r}{words}; make another and restore the last checkpoint into it",
        context={"sandbox_id": sandbox_id[:80], "reason": reason, "why": why},
    )
