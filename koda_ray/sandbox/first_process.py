"""The first process of a container: reads and writes the project's files, and starts and ends its commands.

It waits for nobody to come in. It dials the Unix sockets of its owners (``owners``), which lie in a folder that the
container sees read-only, keeps a few connections waiting at each, and answers one request on each. So an owner never
opens anything that hostile code could have put in place of something else, the same way leads in for files, commands
and the live preview, and no request costs a new process.

It is the first process because nothing inside can end that one: Linux keeps from it the signals that cannot be ignored,
and it ignores the others (``deaf``). It is not dumpable, so nothing inside can look into it either. Everything it
starts has, on top of the engine's filter of system calls, the stricter one of ``seccomp``. The image holds the modules
that it imports, and no others.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TypeVar, cast

from koda_ray import seccomp
from koda_ray.errors import KodaError, NotFound, SandboxError
from koda_ray.sandbox import policy
from koda_ray.sandbox.baits import BAITED, Baits, keys, lay_baits
from koda_ray.sandbox.base import FileStamp, ProcessInfo
from koda_ray.sandbox.counts import Counts
from koda_ray.sandbox.covered import Covered
from koda_ray.sandbox.deaf import ignore_signals
from koda_ray.sandbox.denials import Denials
from koda_ray.sandbox.docker_covers import FIRST_ENVIRONMENT, NEVER_NS, TRIGGERS
from koda_ray.sandbox.frames import Message, receive_bytes, send
from koda_ray.sandbox.kept import KeptOutput
from koda_ray.sandbox.link_terminal import serve_terminal
from koda_ray.sandbox.offered import offered
from koda_ray.sandbox.offspring import Offspring, Started
from koda_ray.sandbox.outlet import Outlet
from koda_ray.sandbox.owners import Owners
from koda_ray.sandbox.passing import relay_both
from koda_ray.sandbox.proxied import proxy_environment
from koda_ray.sandbox.retold import describe_error
from koda_ray.sandbox.template import TemplateProject
from koda_ray.sandbox.terminal import CONTROLLING, LocalTerminal, open_terminal
from koda_ray.sandbox.tree import DiskLimit, ProjectTree
from koda_ray.sandbox.unreached import unreached
from koda_ray.sandbox.watching import watch

__all__ = ["main"]

_PR_SET_DUMPABLE = 4
_THREADS = 3
_BACKGROUND_BYTES = 256 * 1024
_HOME = Path("/home/user")
_SCRATCH = (str(_HOME), "/tmp", "/dev/shm")
_NOT_COPIED = ("node_modules", "dist", ".vite", ".git")

T = TypeVar("T")
_Operation = Callable[[Message, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Inside:
    """Answers the owner's requests.

    Args:
        folder: Where the sockets of its owners and of their proxies lie.
        secret: What tells this process from hostile code that dials too.
        template: What the project starts as, and what its ``node_modules`` is a link to until somebody installs others.
        project: Where it lies.
        disk: How much it may hold.
        denials: Hears which system calls are refused.
    """

    def __init__(
        self,
        *,
        folder: str,
        secret: str,
        template: TemplateProject,
        project: Path,
        disk: DiskLimit,
        denials: Denials,
    ) -> None:
        self._folder = folder
        self._owners = Owners(folder, secret=secret, serve=self._handle)
        self._template = template
        self._project = project
        self._stage = project / ".vite" / "koda-stage"
        self._disk = disk
        self._tree = ProjectTree(project, stage=self._stage, owner=None, disk=disk)
        self._offspring = Offspring()
        lay_baits(_HOME / BAITED)
        baits = Baits(keys(_HOME / BAITED))
        environment = Covered((FIRST_ENVIRONMENT,), "read", never_ns=NEVER_NS)
        self._counts = Counts(
            {
                "memory": _oom_kills,
                "processes": _pids_refused,
                "network": unreached,
                "daemon": lambda: self._offspring.daemons,
                "bait": lambda: baits.total() + environment.total(),
                "trigger": Covered(TRIGGERS, "written", never_ns=NEVER_NS).total,
            },
            offered=offered,
            disks=(str(project), *_SCRATCH),
        )
        self._denials = denials
        self._named: dict[str, Started] = {}
        self._outlets: dict[str, Outlet] = {}
        self._handling: set[asyncio.Task[None]] = set()
        self._pool = ThreadPoolExecutor(_THREADS)
        self._operations: dict[str, _Operation] = {
            "read": self._read, "write": self._write, "match": self._match, "snapshot": self._snapshot,
            "list": self._list, "remove": self._remove, "watch": self._tell_changes, "terminal": self._terminal,
            "run": self._run, "start": self._start, "stop": self._stop,
            "processes": self._processes, "output": self._output, "forward": self._forward, "hello": self._hello,
            "wait": self._wait, "lead": self._lead,
        }  # fmt: skip

    async def serve(self) -> None:
        """Fill the project and answer for as long as the container lives."""
        # threads now: a fork bomb leaves no room for new ones
        barrier = Barrier(_THREADS)
        for _ in range(_THREADS - 1):
            self._pool.submit(barrier.wait)
        await self._in_thread(barrier.wait)
        await self._in_thread(self._fill)
        await self._owners.answer()

    # requests

    async def _handle(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            try:
                await self._operations[str(request.get("op"))](request, reader, writer)
            except KodaError as error:
                await send(writer, {"error": describe_error(error)})
            except (OSError, KeyError, TypeError, ValueError) as error:
                failed = SandboxError(
                    f"the sandbox could not do {request.get('op')!r}: {error!r}; try again, or make another sandbox "
                    "and restore the last checkpoint into it"
                )
                await send(writer, {"error": describe_error(failed)})
        except (OSError, EOFError):
            pass  # the owner has gone away
        finally:
            writer.close()

    # files

    async def _read(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        read, most = 0, cast("int | None", request["most_bytes"])
        for path in _words(request["paths"]):
            work = partial(self._tree.read_files, [path], before_bytes=read, most_bytes=most)
            [(name, data)] = (await self._with_tree(work)).items()
            read += len(data)
            await send(writer, {"path": name, "size": len(data)}, [data])
        await send(writer, {"end": True})

    async def _write(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        files = await self._files(request, reader)
        await self._with_tree(lambda: self._tree.write_files(files))
        await send(writer, {})

    async def _match(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Make the files those that come and those that are there already; tell which of these are not."""
        files = await self._files(request, reader)
        there, modes = cast("dict[str, str]", request["there"]), cast("dict[str, int]", request["modes"])
        folders = _words(request["folders"])
        spared = None if request["spared"] is None else _words(request["spared"])
        work = partial(self._tree.restore, files, there=there, modes=modes, folders=folders, spared=spared)
        await send(writer, {"missing": (await self._with_tree(work)).missing})

    async def _snapshot(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        known = {
            path: FileStamp(size_bytes=size, changed_ns=changed, inode=inode)
            for path, (size, changed, inode) in cast("dict[str, tuple[int, int, int]]", request["known"]).items()
        }

        def found(path: str, data: bytes) -> None:
            # one file at a time, as fast as the owner takes them: all together may not fit into the sandbox's memory
            asyncio.run_coroutine_threadsafe(send(writer, {"path": path, "size": len(data)}, [data]), loop).result()

        most = cast("int | None", request["most_bytes"])
        snapshot = await self._with_tree(lambda: self._tree.snapshot(known, found=found, most_bytes=most))
        stamps = {path: (stamp.size_bytes, stamp.changed_ns, stamp.inode) for path, stamp in snapshot.stamps.items()}
        told: Message = {"stamps": stamps, "skipped": snapshot.skipped}
        await send(writer, {**told, "modes": snapshot.modes, "folders": snapshot.folders})

    async def _list(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path, recursive = str(request["path"]), bool(request["recursive"])
        outside: list[str] = []
        listed = partial(self._tree.list_files, path, recursive=recursive, outside=outside.append)
        entries = [(entry.path, entry.type, entry.size_bytes) for entry in await self._with_tree(listed)]
        await send(writer, {"entries": entries, "outside": outside})

    async def _remove(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = str(request["path"])
        await self._with_tree(lambda: self._tree.remove(path))
        await send(writer, {})

    async def _tell_changes(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a batch whenever there is one and the owner has asked for the next by a byte, until it goes away."""
        async with aclosing(watch(self._tree, str(request["path"]), in_thread=self._in_thread)) as batches:
            while True:
                asking, waiting = asyncio.create_task(reader.read(1)), asyncio.create_task(anext(batches))
                try:
                    await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
                    if not waiting.done():
                        return  # nothing is asked before it was answered: this is the owner's end
                    changes = [(change.path, change.kind) for change in waiting.result()]
                    await send(writer, {"changes": changes})
                    if not await asking:
                        return
                finally:
                    for task in (asking, waiting):
                        task.cancel()
                    await asyncio.wait({asking, waiting})

    # processes

    async def _run(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cwd = str(request["cwd"])
        name = await self._with_tree(lambda: self._tree.check_directory(cwd)) if cwd != "." else "."
        kept = cast("int", request["kept_bytes"]) // 2
        kills = _oom_kills()
        await self._in_thread(self._link_packages)
        outlet = await self._outlet(request)
        try:
            started = self._offspring.start(
                _words(request["argv"]),
                cwd=str(self._project / name),
                env=_environment(request, outlet),
                kept=KeptOutput(head_bytes=kept, tail_bytes=kept),
            )
            ending = asyncio.create_task(reader.read(1))  # the owner has had enough, or is gone
            waiting = asyncio.create_task(self._offspring.wait(started))
            await asyncio.wait({ending, waiting}, return_when=asyncio.FIRST_COMPLETED)
            ended = not waiting.done()
            if ended:
                await self._offspring.end(started)
            ending.cancel()
            await asyncio.wait({ending})
            exit_code = await waiting
        finally:
            if outlet is not None:
                await outlet.close()
        result: Message = {
            "exit_code": exit_code,
            "ended": ended,
            "stdout": started.stdout.text(),
            "stderr": started.stderr.text(),
            "truncated": started.stdout.truncated or started.stderr.truncated,
            "duration_s": started.duration_s,
            "out_of_memory": _oom_kills() > kills,
            **self._refused(),
        }
        await send(writer, result)

    async def _start(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = policy.check_process_name(str(request["name"]))
        await self._end_named(name)
        await self._in_thread(self._link_packages)
        outlet = await self._outlet(request)
        try:
            started = self._offspring.start(
                _words(request["argv"]),
                cwd=str(self._project),
                env=_environment(request, outlet),
                kept=KeptOutput(tail_bytes=_BACKGROUND_BYTES, merged=True),
            )
        except BaseException:
            if outlet is not None:
                await outlet.close()
            raise
        if outlet is not None:
            self._outlets[name] = outlet
            closing = asyncio.create_task(self._close_after(name, started, outlet))
            self._handling.add(closing)
            closing.add_done_callback(self._handling.discard)
        self._named[name] = started
        await send(writer, {"process": asdict(_info(name, started))})

    async def _lead(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give a background process whose owner is gone the proxy of another."""
        name = str(request["name"])
        started, outlet = self._named.get(name), self._outlets.get(name)
        if started is None or outlet is None:
            raise NotFound(
                f"there is no background process {name[:80]!r} with a way out; stop it, and start it with the network"
            )
        outlet.lead(self._proxy(str(request["egress"])))
        await send(writer, {"process": asdict(_info(name, started))})

    async def _wait(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer once a background process is gone, also where it is already; not at all to an owner who has left."""
        started = self._named.get(str(request["name"]))
        if started is not None and started.pid == request["pid"]:
            leaving = asyncio.create_task(reader.read(1))
            waiting = asyncio.create_task(self._offspring.wait(started))
            await asyncio.wait({leaving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            for task in (leaving, waiting):
                task.cancel()
            await asyncio.wait({leaving, waiting})
        await send(writer, {})

    async def _terminal(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rows, columns = cast("int", request["rows"]), cast("int", request["columns"])
        ours, theirs = open_terminal(rows=rows, columns=columns)
        try:
            started = self._offspring.start(
                [*CONTROLLING, *_words(request["argv"])],
                cwd=str(self._project),
                env=_variables(request["env"]),
                kept=KeptOutput(merged=True),
                terminal=theirs,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        terminal = LocalTerminal(
            ours,
            lambda: self._offspring.end(started),
            resized=lambda: self._offspring.resized(started),
            gone=started.gone,
        )
        try:
            await send(writer, {})
            await serve_terminal(terminal, reader, writer)
        finally:
            await terminal.close()

    async def _stop(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        refused = self._refused()  # what it offers is there until it ends
        await self._end_named(str(request["name"]))
        await send(writer, refused)

    async def _processes(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        named = [asdict(_info(*named)) for named in sorted(self._named.items(), key=_first)]
        await send(writer, {"processes": named, **self._refused()})

    def _refused(self) -> Message:
        return {"refused": self._counts.news(), "calls": self._denials.calls()}

    async def _output(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name, most = str(request["name"]), cast("int", request["max_bytes"])
        started = self._named.get(name)
        if started is None:
            raise NotFound(
                f"there is no background process {name[:80]!r}; name one that there is "
                f"({', '.join(self._named) or 'none'}), or start it"
            )
        data = started.stdout.text().encode()
        await send(writer, {"output": data[-most:].decode("utf-8", "ignore") if most > 0 else ""})

    async def _outlet(self, request: Message) -> Outlet | None:
        """Open the way out where the owner has named the proxy's socket."""
        name = str(request.get("egress") or "")
        return await Outlet.open(self._proxy(name)) if name else None

    def _proxy(self, name: str) -> str:
        return os.path.join(self._folder, os.path.basename(name))

    async def _close_after(self, name: str, started: Started, outlet: Outlet) -> None:
        await self._offspring.wait(started)
        if self._outlets.get(name) is outlet:
            del self._outlets[name]
        await outlet.close()

    async def _end_named(self, name: str) -> None:
        started = self._named.pop(name, None)
        if started is not None:
            await self._offspring.end(started)

    # the preview

    async def _forward(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner = await asyncio.open_connection("127.0.0.1", cast("int", request["port"]))
        except OSError:
            await send(writer, {"connected": False})
            return
        try:
            await send(writer, {"connected": True})
            await relay_both((reader, writer), inner)
        finally:
            inner[1].close()

    async def _hello(self, request: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await send(writer, {"python": sys.version, "processes": len(self._named)})

    # inside

    async def _files(self, request: Message, reader: asyncio.StreamReader) -> dict[str, bytes]:
        files = cast("list[tuple[str, int]]", request["files"])
        blobs = await receive_bytes(reader, [size for _, size in files], most=self._disk.size_bytes)
        return {path: data for (path, _), data in zip(files, blobs, strict=True)}

    async def _with_tree(self, work: Callable[[], T]) -> T:
        def whole() -> T:
            self._make_stage()
            return work()

        return await self._in_thread(whole)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _fill(self) -> None:
        shutil.copytree(
            self._template.folder,
            self._project,
            ignore=lambda folder, _: _NOT_COPIED if folder == str(self._template.folder) else (),
            copy_function=shutil.copy,
            symlinks=True,
            dirs_exist_ok=True,
        )
        for folder, _, _ in os.walk(self._project):
            os.chmod(folder, 0o755)
        self._link_packages()

    def _make_stage(self) -> None:
        """Make the folder where files wait, whatever the project has put in its place."""
        for folder in (self._stage.parent, self._stage):
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(os.lstat(folder).st_mode):
                    folder.unlink()
            folder.mkdir(mode=0o755, exist_ok=True)

    def _link_packages(self) -> None:
        """Lead ``node_modules`` to the packages where there is none: what somebody has installed there is theirs."""
        with suppress(OSError):  # that it is there is what stands in the way most often
            (self._project / "node_modules").symlink_to(self._template.node_modules)


def _info(name: str, started: Started) -> ProcessInfo:
    return ProcessInfo(name=name, pid=started.pid, running=started.exit_code is None, exit_code=started.exit_code)


def _first(named: tuple[str, Started]) -> str:
    return named[0]


def _words(value: object) -> Sequence[str]:
    return [str(word) for word in cast("Sequence[object]", value)]


def _variables(value: object) -> Mapping[str, str]:
    return {str(name): str(text) for name, text in cast("Mapping[str, object]", value).items()}


def _environment(request: Message, outlet: Outlet | None) -> Mapping[str, str]:
    given = _variables(request["env"])
    return given if outlet is None else {**proxy_environment(outlet.port), **given}


def _oom_kills() -> int:
    """How often the kernel has killed something in here for the memory limit; 0 where it does not say."""
    return _event(("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"), "oom_kill")


def _pids_refused() -> int:
    """How often the kernel has refused a process in here; 0 where it does not say."""
    return _event(("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"), "max")


def _event(paths: Sequence[str], wanted: str) -> int:
    for path in paths:
        with suppress(OSError, ValueError), open(path) as file:
            for line in file:
                name, _, count = line.partition(" ")
                if name == wanted:
                    return int(count)
    return 0


def _seal() -> int | None:
    """Close this process to all others, and filter what it and they may call; returns the filter's listener."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot be made undumpable")
    told = "CALLS_TOLD" in os.environ
    heard, plain = seccomp.filter_program(heard=True), seccomp.filter_program(told=told)
    if heard is None or plain is None:
        return None  # a machine whose call numbers are not known; the engine's filter stays
    if told:  # by gVisor's kernel, which has no listeners
        return seccomp.install_filter(plain, heard=False)
    try:
        return seccomp.install_filter(heard, heard=True)
    except OSError:  # a kernel that has no listeners (gVisor's), or one of the engine's is there already
        return seccomp.install_filter(plain, heard=False)


def _take_environment() -> dict[str, str]:
    """Read the environment and wipe it where it lies: not every kernel keeps others from ``/proc/1/environ``."""
    given = dict(os.environ)
    block = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    place = 0
    while (address := block[place]) is not None:
        ctypes.memset(address, 0, len(ctypes.string_at(address)))
        place += 1
    return given


def main() -> None:
    """Run as a container's first process."""
    listener = _seal()
    os.umask(0o022)
    ignore_signals()
    given = _take_environment()

    async def serve() -> None:
        denials = Denials()
        if listener is not None:
            denials.listen(listener)
        await _Inside(
            folder=given["KODA_OWNER_FOLDER"],
            secret=given["KODA_OWNER_SECRET"],
            template=TemplateProject(folder=Path(given["KODA_TEMPLATE"]), node_modules=Path(given["KODA_PACKAGES"])),
            project=Path(policy.PROJECT_ROOT),
            disk=DiskLimit(size_bytes=int(given["KODA_DISK_BYTES"]), words=given["KODA_DISK_NOTE"]),
            denials=denials,
        ).serve()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
