"""A person's own images, sandboxes and processes: the sandbox service, useful without any animation.

    workshop = Workshop(store, Providers(settings, store), user_id="local")
    image = await workshop.create_image(Path("my-project"))
    box = await workshop.create_sandbox(image.id)
    await workshop.launch(box.id, "server", "npm start")
    async for piece in workshop.follow(box.id, "server"):
        ...

Rows say what was asked for, and where it was made; each list puts them right by what is (``standing``). What is in
another place (another machine, another SANDBOX_PATH) is listed with its place and left alone. An intent is written
before anything is made, so whatever a crash leaves half made is found here, or by the janitor (``unfinished``).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from koda_ray.cancellation import finish
from koda_ray.errors import (
    Conflict,
    InvalidInput,
    KodaError,
    NotFound,
    QuotaExceeded,
    SandboxNotFound,
    ServerFailed,
    TemplateNotFound,
)
from koda_ray.sandbox.base import CommandResult, EndsUnused, FileChange, PreviewEndpoint, Sandbox, Terminal
from koda_ray.sandbox.deployment import Location
from koda_ray.sandbox.images import ImageMaker, Source, check_sent, checked_name, source_at
from koda_ray.sandbox.lifetime import MAX_LIFETIME_S, checked_lifetime
from koda_ray.sandbox.preview import answers_at
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.scratch import clear_left
from koda_ray.sandbox.standing import ImageState, ProcessState, SandboxStanding, Standing, lost
from koda_ray.sandbox.tmux import SERVER, OutputPiece, Tmux, check_command_line
from koda_ray.sandbox.unfinished import LEASE, being_made, clear_unfinished
from koda_ray.state.boxes import ImageRecord, ProcessRecord, SandboxRecord
from koda_ray.types import new_id, now

if TYPE_CHECKING:
    from koda_ray.state.store import Store

__all__ = ["Workshop"]

_LAST_PORT = 65_535
_MAX_RUN_S = 3600.0
_MAKE_ONE = "there are none yet: make one of a folder with `koda image create FOLDER`"


class Workshop:
    """One person's images, sandboxes and processes.

    Args:
        store: Their rows.
        providers: Who makes them.
        user_id: Whose they are; another's are not found.
    """

    def __init__(self, store: Store, providers: Providers, *, user_id: str) -> None:
        self._store = store
        self._providers = providers
        self._user_id = user_id
        self._standing = Standing(store, providers, user_id=user_id)

    # images

    async def create_image(
        self,
        path: Path,
        *,
        name: str | None = None,
        clean: bool = False,
        provider: str | None = None,
        sent: str | None = None,
    ) -> ImageRecord:
        """Make an image of a folder or a Dockerfile, or return the one that was made of the very same.

        Args:
            path: The folder, or the Dockerfile in it.
            name: What it is called; the folder's name when None. A name leads to its newest image.
            clean: Make it anew in any case, and use nothing of an earlier build.
            provider: Whose; the one that SANDBOX_PROVIDER says when None.
            sent: How somebody else sent the folder, which is kept in place of the path. No Dockerfile of theirs is
                built on this machine.

        Raises:
            InvalidInput: INVALID_INPUT, the path, the name, the provider or the Dockerfile.
            QuotaExceeded: QUOTA_EXCEEDED, the person has as many there as may be (SANDBOX_IMAGES_PER_USER).
            Conflict: CONFLICT, it was removed while it was being made.
            SandboxError: IMAGE_FAILED, with the build's last lines; PROVIDER_ERROR.
        """
        await asyncio.to_thread(clear_left)  # by earlier ones, whose room this one may need
        where = await self._providers.get(provider)
        maker = await self._providers.images(where.name)
        if sent is not None and not maker.builds_away:
            await asyncio.to_thread(check_sent, path, provider=where.name)
        source = await asyncio.to_thread(source_at, path, builds=where.name != "local")
        if where.name == "local" and source.path != source.folder:
            raise InvalidInput(
                f"{path} cannot be built: images of the provider 'local' are copies of folders; name the folder, or "
                "the provider 'docker'"
            )
        called = checked_name(name or source.folder.name or "root")
        source = await _on(source, maker)
        location = await where.location()
        if not clean and (there := await self._same(source, called, where.name, location, maker)) is not None:
            return there
        image = ImageRecord(
            id=new_id("img"),
            user_id=self._user_id,
            name=called,
            provider=where.name,
            provider_id=None,
            source=sent or str(source.path),
            digest=source.digest,
            size_bytes=source.size_bytes,
            status="creating",
            created_at=now(),
            expires_at=now() + LEASE,
            place=location.id,
            host=location.words,
        )
        try:
            await finish(self._add_image(image))
        except asyncio.CancelledError:  # the row may be there by now
            await finish(self._clear_image(maker, image))
            raise
        try:
            async with being_made(lambda until: self._store.put_image(replace(image, expires_at=until))):
                made = await maker.make(image.id, source, clean=clean)
            ready = replace(image, status="ready", provider_id=made, expires_at=None)
            if not await self._store.put_image(ready):
                raise Conflict(f"the image {called!r} was removed while it was being made; create it again")
        except BaseException:
            await finish(self._clear_image(maker, image))
            raise
        return ready

    async def check_image(self, name: str, *, clean: bool = False, provider: str | None = None) -> None:
        """Look whether one may be made, before anybody sends or unpacks its folder.

        Where the person has as many as may be, one of the same name may still turn out to be the very same.

        Raises:
            InvalidInput: As `create_image`, the name or the provider.
            QuotaExceeded: As `create_image`.
        """
        where, called = await self._providers.get(provider), checked_name(name)
        if len(await self._store.images(user_id=self._user_id)) < self._providers.max_images:
            return
        await clear_unfinished(self._store, self._providers, user_id=self._user_id)
        images, location = await self._store.images(user_id=self._user_id), await where.location()
        alike = [one for one in images if (one.name, one.provider) == (called, where.name)]
        if clean or not any(location.is_where(one.place, one.host) for one in alike):
            there = [one for one in images if one.place == location.id]
            if len(there) >= self._providers.max_images:
                raise _too_many(there, location.words, self._providers.max_images)

    async def images(self) -> list[ImageState]:
        """List images, oldest first; what was never finished is cleared away on the way."""
        await clear_unfinished(self._store, self._providers, user_id=self._user_id)
        return [await self._standing.image(image) for image in await self._store.images(user_id=self._user_id)]

    async def image(self, image: str) -> ImageRecord:
        """Find an image by its id, or the newest of a name: one that is finished and here, where there is one.

        Raises:
            NotFound: NOT_FOUND, with the names that there are.
        """
        found = [one for one in await self._store.images(user_id=self._user_id) if image in (one.id, one.name)]
        found = [one for one in found if one.status == "ready"] or found
        if len(found) > 1:
            found = [one for one in found if await self._is_here(one)] or found
        if not found:
            names = {one.name for one in await self._store.images(user_id=self._user_id)}
            way = f"name one that there is: {', '.join(sorted(names))}" if names else _MAKE_ONE
            raise NotFound(f"there is no image {image[:80]!r}; {way}")
        return found[-1]

    async def remove_image(self, image: str, *, forget: bool = False) -> ImageRecord:
        """Remove an image by its id or name; sandboxes that were made of it keep what they have.

        Args:
            image: Which.
            forget: Whether to remove no more than the row of one that is elsewhere, in a place that is no more.

        Raises:
            NotFound: As `image`.
            Conflict: CONFLICT, it is elsewhere.
        """
        found = await self.image(image)
        if await self._providers.at(found) is not None:
            await (await self._providers.images(found.provider)).clear(found.id)
        elif not forget:
            raise _elsewhere(
                found, f"remove it there; if that is no more, forget it: koda image remove --forget {found.id}"
            )
        await self._store.put_image(replace(found, status="removed"))
        return found

    # sandboxes

    async def create_sandbox(
        self,
        image: str | None = None,
        *,
        network: bool = False,
        provider: str | None = None,
        lifetime_s: float | None = None,
    ) -> SandboxRecord:
        """Make a sandbox.

        Args:
            image: The id or name of what it starts as; the template project when None.
            network: Whether its processes may reach what SANDBOX_EGRESS_HOSTS allows.
            provider: Where, without an image; the one that SANDBOX_PROVIDER says when None.
            lifetime_s: When it ends if nobody extends it, from now on; after a day when None. Where nothing is said
                here, E2B and Modal end it earlier when nobody uses it (SANDBOX_LIFETIME_S; ``unused_s`` of the row).

        Raises:
            InvalidInput: INVALID_INPUT, no such length of time or provider, or the image is another provider's.
            NotFound: As `image`.
            Conflict: CONFLICT, the image is not finished, or elsewhere; the sandbox was terminated while it was made.
            QuotaExceeded: QUOTA_EXCEEDED, the person has as many there as may be (SANDBOX_PER_USER).
            TemplateNotFound: TEMPLATE_NOT_FOUND, the image is not at its provider any more.
            SandboxError: As the provider met it.
        """
        ends_after = timedelta(seconds=MAX_LIFETIME_S if lifetime_s is None else checked_lifetime(lifetime_s))
        found = None if image is None else await self.image(image)
        if found is not None and found.provider_id is None:
            raise Conflict(f"the image {found.name!r} is still being made; wait until `koda image list` says ready")
        if found is not None and provider not in (None, found.provider):
            raise InvalidInput(
                f"the image {found.name!r} is one of the provider {found.provider!r}, not {provider!r}; leave the "
                "provider out, or make the image there"
            )
        if found is not None and not await self._is_here(found):
            raise _elsewhere(found, "make the sandbox there, or the image here with `koda image create`")
        where = await self._providers.get(provider if found is None else found.provider)
        location = await where.location()
        record = SandboxRecord(
            id=new_id("sbx"),
            session_id=None,
            user_id=self._user_id,
            provider=where.name,
            provider_id=None,
            status="creating",
            created_at=now(),
            expires_at=now() + LEASE,
            image_id=None if found is None else found.id,
            network=network,
            place=location.id,
            host=location.words,
            unused_s=where.unused_s if lifetime_s is None and isinstance(where, EndsUnused) else None,
        )
        try:
            await finish(self._add_sandbox(record))
        except asyncio.CancelledError:  # the row may be there by now
            with suppress(KodaError):
                await finish(self._standing.clear(where, record.id))
            raise
        try:
            async with being_made(lambda until: self._store.put_sandbox(replace(record, expires_at=until))):
                made = await where.create(
                    sandbox_id=record.id,
                    session_id="",
                    user_id=self._user_id,
                    image=None if found is None else found.provider_id,
                )
                if lifetime_s is not None:
                    await made.extend(lifetime_s)
            ready = replace(record, status="ready", provider_id=made.provider_id, expires_at=now() + ends_after)
            if not await self._store.put_sandbox(ready):
                raise Conflict(f"the sandbox {record.id} was terminated while it was being made; make another")
        except BaseException as error:
            with suppress(KodaError):  # what cannot be cleared away now, the next list clears: its row says "creating"
                await finish(self._standing.clear(where, record.id))
            if isinstance(error, TemplateNotFound) and found is not None:
                raise TemplateNotFound(
                    f"the image {found.name!r} ({found.id}) cannot be used; create it again with `koda image create` "
                    f"({error.message})",
                    context=error.context,
                ) from error
            raise
        return ready

    async def sandboxes(self, *, everything: bool = False) -> list[SandboxStanding]:
        """List sandboxes, oldest first: those that are there, or also those that were.

        What is gone without having been terminated, or was never finished, is cleared away on the way, where it was
        here; what is elsewhere is left alone.
        """
        rows = await self._store.own_sandboxes(user_id=self._user_id, live=not everything)
        states = await self._standing.sandboxes(rows)
        return states if everything else [one for one in states if one.state not in ("gone", "terminated")]

    async def connect(self, sandbox_id: str) -> Sandbox:
        """Open a sandbox, for its files and commands.

        Raises:
            NotFound: SANDBOX_NOT_FOUND, there is none, or it is gone.
            Conflict: CONFLICT, it is elsewhere, or paused.
        """
        row = await self._row(sandbox_id)
        return await self._open(row)

    async def run(self, sandbox_id: str, command: str, *, timeout_s: float = 30.0, cwd: str = ".") -> CommandResult:
        """Run a command to its end. It has no terminal, and the network where its sandbox has it.

        Args:
            sandbox_id: Where.
            command: A line for ``/bin/sh``.
            timeout_s: When it is ended with all that it started, an hour at most.
            cwd: The folder where it runs, relative to the project.

        Raises:
            NotFound: SANDBOX_NOT_FOUND; FILE_NOT_FOUND, there is no such folder.
            InvalidInput: INVALID_INPUT, the command or the time; INVALID_PATH, the folder.
            CommandTimeout: TIMEOUT.
            SandboxError: As ``Sandbox.run``.
        """
        check_command_line(command)
        if not 0 < timeout_s <= _MAX_RUN_S:
            raise InvalidInput(
                f"a command cannot be given {timeout_s:g} s; give it up to {_MAX_RUN_S:g}, and launch a process for "
                "what runs longer"
            )
        row = await self._row(sandbox_id)
        box = await self._open(row)
        return await box.run(("/bin/sh", "-c", command), timeout_s=timeout_s, cwd=cwd, network=row.network)

    async def watch(self, sandbox_id: str, path: str = ".") -> AsyncGenerator[tuple[FileChange, ...]]:
        """Tell which files of a sandbox change, as ``Sandbox.watch``; NotFound as `connect`."""
        async with aclosing((await self.connect(sandbox_id)).watch(path)) as batches:
            async for batch in batches:
                yield batch

    async def reach(self, sandbox_id: str, port: int) -> PreviewEndpoint:
        """Say where a page answers that a process of a sandbox serves.

        Raises:
            NotFound: SANDBOX_NOT_FOUND; NOT_FOUND, no process runs.
            InvalidInput: INVALID_INPUT, no such port.
            ServerFailed: PORT_UNAVAILABLE, nobody answers HTTP there.
        """
        if not 1 <= port <= _LAST_PORT:
            raise InvalidInput(f"{port} is no port of a sandbox; give 1 to {_LAST_PORT}")
        row = await self._row(sandbox_id)
        endpoint = await (await self._open(row)).reach(port, of=SERVER)
        if not await answers_at(endpoint):
            far = " on 0.0.0.0, in a sandbox with --network" if row.provider in ("e2b", "modal") else ""
            raise ServerFailed(
                f"nobody answers HTTP on port {port} of the sandbox {row.id}; launch a process that listens "
                f"there{far}, and see what it says with `koda process output`",
                code="PORT_UNAVAILABLE",
                context={"port": port},
            )
        return endpoint

    async def extend(self, sandbox_id: str, lifetime_s: float) -> SandboxRecord:
        """Have a sandbox live for at least this long from now on.

        Raises:
            NotFound: SANDBOX_NOT_FOUND, also when it was too late.
            InvalidInput: INVALID_INPUT, no such length of time.
            SandboxError: Its provider does not allow it.
        """
        row = await self._row(sandbox_id)
        await (await self._open(row)).extend(lifetime_s)
        ends_at = now() + timedelta(seconds=lifetime_s)
        if row.expires_at is not None and row.expires_at < ends_at:
            row = replace(row, expires_at=ends_at)
            await self._store.put_sandbox(row)
        return row

    async def terminate(self, sandbox_id: str, *, forget: bool = False) -> None:
        """End a sandbox with all its processes and files; may be called twice.

        Args:
            sandbox_id: Which.
            forget: Whether to end no more than the row of one that is elsewhere, in a place that is no more.

        Raises:
            NotFound: SANDBOX_NOT_FOUND, there never was one of this id.
            Conflict: CONFLICT, it is elsewhere.
        """
        row = await self._row(sandbox_id)
        provider = await self._providers.at(row)
        if provider is None and not forget and row.status != "destroyed":
            raise _elsewhere(
                row, f"terminate it there; if that is no more, forget it: koda sandbox terminate --forget {row.id}"
            )
        await self._standing.clear(provider, row.id)

    # processes

    async def launch(self, sandbox_id: str, name: str, command: str, *, shown: str | None = None) -> ProcessState:
        """Start a process in the background; one of its name that has ended makes room.

        Args:
            sandbox_id: Where.
            name: Its name, unique there.
            command: A line for ``/bin/sh``.
            shown: What lists call the command, where that is one of ours and says little to a person.

        Raises:
            NotFound: SANDBOX_NOT_FOUND.
            Conflict: CONFLICT, a process of this name runs.
            InvalidInput: INVALID_INPUT, the name or the command.
        """
        row = await self._row(sandbox_id)
        started = await (await self._tmux(row)).launch(name, command)
        record = ProcessRecord(
            sandbox_id=row.id, name=name, user_id=self._user_id, command=shown or command, run=started.run,
            created_at=now(),
        )  # fmt: skip
        if not await self._store.put_process(record):
            raise _no_sandbox(row.id, "it was terminated meanwhile; make another")
        return await self._standing.process(record, started)

    async def launch_and_follow(self, sandbox_id: str, name: str, command: str) -> AsyncGenerator[OutputPiece]:
        """Start a process and yield what it writes until it ends; whoever stops reading leaves it running."""
        await self.launch(sandbox_id, name, command)
        async with aclosing(self.follow(sandbox_id, name)) as pieces:
            async for piece in pieces:
                yield piece

    async def follow(self, sandbox_id: str, name: str, *, after: int = 0) -> AsyncGenerator[OutputPiece]:
        """Yield what a process wrote and writes, from a place on; NotFound as `output`."""
        tmux = await self._tmux(await self._row(sandbox_id))
        async with aclosing(tmux.follow(name, after=after)) as pieces:
            async for piece in pieces:
                yield piece

    async def output(self, sandbox_id: str, name: str, *, max_bytes: int = 65536) -> bytes:
        """Read the end of what a process wrote.

        Raises:
            NotFound: SANDBOX_NOT_FOUND; NOT_FOUND, with the names that there are.
        """
        return await (await self._tmux(await self._row(sandbox_id))).output(name, max_bytes=max_bytes)

    async def processes(self, sandbox_id: str | None = None, *, everything: bool = False) -> list[ProcessState]:
        """List the processes of a sandbox, or of all that run: those that run, or also those that ended."""
        if sandbox_id is not None:
            rows = [await self._row(sandbox_id)]
        else:
            rows = [one.record for one in await self.sandboxes() if one.state == "running"]
        found: list[list[ProcessState]] = []
        for row in rows:
            try:
                found.append(await self._standing.processes(row, await self._tmux(row)))
            except KodaError:
                if sandbox_id is not None:
                    raise  # of many, one may have ended since the list was read, or be no longer what it was
        return [one for states in found for one in states if everything or one.state == "running"]

    async def attach(self, sandbox_id: str, name: str, *, rows: int, columns: int, term: str = "") -> Terminal:
        """Open a process's terminal to a person; NotFound and Conflict as ``Tmux.attach``."""
        tmux = await self._tmux(await self._row(sandbox_id))
        return await tmux.attach(name, rows=rows, columns=columns, term=term)

    async def process(self, sandbox_id: str, name: str) -> ProcessState:
        """Look at one process, also one that has ended.

        Raises:
            NotFound: SANDBOX_NOT_FOUND; NOT_FOUND, with the names that there are.
        """
        there = await self.processes(sandbox_id, everything=True)
        for one in there:
            if one.record.name == name:
                return one
        names = ", ".join(one.record.name for one in there)
        start = f"start one: koda process launch {sandbox_id} NAME -- COMMAND"
        way = f"name one that there is: {names}" if names else start
        raise NotFound(f"there is no process {name[:80]!r} in this sandbox; {way}")

    async def kill(self, sandbox_id: str, name: str) -> None:
        """End a process and all that it started, and forget it; NotFound as `process`."""
        await self.process(sandbox_id, name)
        row = await self._row(sandbox_id)
        await (await self._tmux(row)).kill(name)
        await self._store.forget_process(row.id, name)

    # inside

    async def _add_sandbox(self, record: SandboxRecord) -> None:
        """Write the intent, unless there are too many; those that are over do not count, once that is seen."""
        most = self._providers.max_sandboxes
        if await self._store.add_sandbox(record, most=most):
            return
        there = [one.record for one in await self.sandboxes() if one.record.place == record.place]
        if not await self._store.add_sandbox(record, most=most):
            oldest = f" (the oldest is {there[0].id})" if there else ""
            raise QuotaExceeded(
                f"you have {most} sandboxes in {record.host} already, and no more may be; terminate one that you need "
                f"no more{oldest}, or raise SANDBOX_PER_USER",
                context={"limit": "sandboxes", "most": most},
            )

    async def _add_image(self, image: ImageRecord) -> None:
        most = self._providers.max_images
        if await self._store.add_image(image, most=most):
            return
        await clear_unfinished(self._store, self._providers, user_id=self._user_id)
        if not await self._store.add_image(image, most=most):
            there = [one for one in await self._store.images(user_id=self._user_id) if one.place == image.place]
            raise _too_many(there, image.host, most)

    async def _is_here(self, row: ImageRecord) -> bool:
        return await self._providers.at(row) is not None

    async def _clear_image(self, maker: ImageMaker, image: ImageRecord) -> None:
        """Take back what was made of an image; where that fails, its row waits for whoever tries next."""
        with suppress(KodaError):
            await maker.clear(image.id)
            await self._store.put_image(replace(image, status="removed"))

    async def _same(
        self, source: Source, name: str, provider: str, location: Location, maker: ImageMaker
    ) -> ImageRecord | None:
        for image in reversed(await self._store.images(user_id=self._user_id)):
            same = (image.digest, image.name, image.provider) == (source.digest, name, provider)
            same = same and location.is_where(image.place, image.host)
            if same and image.provider_id is not None and await maker.exists(image.provider_id):
                return image
        return None

    async def _row(self, sandbox_id: str) -> SandboxRecord:
        try:
            return await self._store.get_sandbox(sandbox_id, user_id=self._user_id)
        except NotFound:
            raise _no_sandbox(sandbox_id, "list those that there are with `koda sandbox list`") from None

    async def _open(self, row: SandboxRecord) -> Sandbox:
        if row.status == "destroyed":
            raise _no_sandbox(row.id, f"{row.ended or 'it was terminated'}; make another")
        if row.expired_at(now()):
            if (provider := await self._providers.at(row)) is not None:
                await self._standing.clear(provider, row.id, why=row.time_over)
            raise _no_sandbox(row.id, f"{row.time_over}; make another, with more of it")
        try:
            provider = await self._providers.at(row)
            if provider is None:
                raise _elsewhere(row, "use it there")
            return await provider.connect(row.id)
        except SandboxNotFound as error:
            if error.context.get("reason") == "paused":
                raise Conflict(
                    f"the sandbox {row.id} is paused: somebody has stopped its container for a while; let it go on "
                    f"(`docker unpause {row.provider_id or f'koda-{row.id}'}`), or terminate it"
                ) from None
            why = error.context.get("why") or lost(row)
            raise _no_sandbox(row.id, f"{why}; make another") from None

    async def _tmux(self, row: SandboxRecord) -> Tmux:
        return Tmux(await self._open(row), network=row.network)


async def _on(source: Source, maker: ImageMaker) -> Source:
    """Have a source's digest change with what an image is made on, too."""
    basis = await maker.basis()
    return replace(source, digest=hashlib.sha256(f"{source.digest} {basis}".encode()).hexdigest()) if basis else source


def _elsewhere(row: SandboxRecord | ImageRecord, way: str) -> Conflict:
    kind = "sandbox" if isinstance(row, SandboxRecord) else "image"
    where = f"in {row.host}" if row.host else "where an older koda_ray made it, which did not write down where"
    return Conflict(f"the {kind} {row.id} is not here but {where}: {way}")


def _no_sandbox(sandbox_id: str, way: str) -> NotFound:
    return NotFound(
        f"there is no sandbox {sandbox_id[:80]!r}: {way}",
        code="SANDBOX_NOT_FOUND",
        context={"sandbox_id": sandbox_id[:80]},
    )


def _too_many(there: Sequence[ImageRecord], host: str, most: int) -> QuotaExceeded:
    oldest = f" (the oldest is {there[0].id}, {there[0].name!r})" if there else ""
    return QuotaExceeded(
        f"you have {most} images in {host} already, and no more may be; remove one that you need no more{oldest}, or "
        "raise SANDBOX_IMAGES_PER_USER",
        context={"limit": "images", "most": most},
    )
