"""Many jobs beside each other: the servers that they need, and workers that run them.

Starting Python hundreds of times takes minutes, so one process, which has loaded everything and has no threads,
forks the servers, the workers, and through those every process that is to be killed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

from koda_ray.llm.base import Block
from koda_ray.state.sql import SqlStore
from tests import postgres, sqld
from tests.agent.scripted import Given
from tests.agent.warm import load_all
from tests.certificates import one_certificate
from tests.faults.kernel import ending, outside
from tests.faults.kernel.life import KernelJob, fork
from tests.faults.kernel.runs import Disturbances, JobTally, run
from tests.faults.kernel.work import decide
from tests.llm.server import Answer, Call, ModelServer, Reply, Say, ScriptedModel

__all__ = ["STORES", "Campaign", "StoreKind"]

StoreKind = Literal["sqlite", "postgres", "libsql", "json"]
STORES: tuple[StoreKind, ...] = get_args(StoreKind)

_DRIVERS: dict[str, tuple[str, ...]] = {
    "postgres": ("psycopg", "sqlalchemy.dialects.postgresql.psycopg"),
    "libsql": ("koda_ray.state.libsql",),
}
_DELTA_CHARS = 40
_KEPT_REQUESTS = 200


@dataclass(frozen=True)
class Campaign:
    """Servers that run, and where the stores are.

    Args:
        folder: For everything.
        server: PostgreSQL, where one is needed.
        socket: Of the world outside; its file is beside it.
        model: Where the model is.
        templates: Databases with the newest schema: the path of a SQLite file or of a libSQL server's data, a
            PostgreSQL database's name.
    """

    folder: Path
    server: postgres.Postgres | None
    socket: Path
    model: str
    templates: dict[StoreKind, str]

    @classmethod
    @contextmanager
    def of(cls, stores: Iterable[StoreKind]) -> Iterator[Campaign]:
        """Start what jobs on these stores need, and end it."""
        kinds = tuple(stores)
        load_all(name for kind in kinds for name in _DRIVERS.get(kind, ()))
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="koda-faults-"))
            stack.callback(shutil.rmtree, folder)
            os.environ.update(one_certificate(folder / "one.pem"))
            server = stack.enter_context(postgres.serve()) if "postgres" in kinds else None
            gc.freeze()  # a collection in a fork would copy what all of them share
            model = stack.enter_context(_server(_answer))
            socket = folder / "outside"
            listening = outside.listening(socket)
            stack.enter_context(_server(lambda _: outside.serve(listening, folder / "effects"), speaks=False))
            listening.close()
            templates: dict[StoreKind, str] = {}
            for kind in kinds:
                if kind == "sqlite":
                    templates[kind] = str(folder / "template.db")
                    _migrate(templates[kind])
                elif kind == "postgres" and server is not None:
                    templates[kind] = server.create()
                    _migrate(server.url(templates[kind]))
                elif kind == "libsql":
                    templates[kind] = str(folder / "libsql")
                    with sqld.serve() as made:
                        _migrate(made.url)
                        shutil.copytree(made.data, templates[kind])
            yield cls(folder, server, socket, model, templates)

    def points(self, kind: StoreKind, *, wide: bool = False) -> list[str]:
        """Name every point of an undisturbed job."""
        done = self.run([(kind, Disturbances("undisturbed", wide=wide))], workers=1)
        assert done.good, done.notes
        return sorted(done.points)

    def run(
        self, tasks: Iterable[tuple[StoreKind, Disturbances]], *, workers: int, kills: int | None = None
    ) -> JobTally:
        """Run jobs on stores, each as planned; workers take turns in the list of them.

        Args:
            tasks: What to run; it may be without end where ``kills`` are wanted.
            workers: Processes.
            kills: How many are enough: each worker ends with its share of them. All that is planned when None.
        """
        enough = None if kills is None else -(-kills // workers)
        running: dict[int, tuple[int, bytes]] = {}
        for place in range(workers):
            share = islice(tasks, place, None, workers)
            pid, told = fork(lambda tell, share=share: self._work(share, tell, enough), limit_s=0)
            running[told] = (pid, b"")
        total = JobTally()
        try:
            while running:
                ending.look()
                for told in select.select(list(running), [], [])[0]:
                    pid, data = running[told]
                    part = os.read(told, 1 << 16)
                    running[told] = (pid, data + part)
                    if not part:
                        del running[told]
                        total.add(_told_by(pid, told, data.decode()))
        finally:
            for told, (pid, _) in running.items():  # none, unless this was cut off
                os.close(told)
                os.kill(pid, signal.SIGTERM)  # each ends what it has itself
                os.waitpid(pid, 0)
        return total

    def _work(self, share: Iterable[tuple[StoreKind, Disturbances]], tell: int, enough: int | None) -> None:
        tally = JobTally()
        for number, (kind, plan) in enumerate(share):
            ending.look()
            with self._store(kind, f"{os.getpid()}-{number}", empty=plan.empty) as (name, store):
                done = run(KernelJob(name, store, self.socket, self.model, plan.wide), plan, self.folder / "effects")
            done.notes = [f"--store {kind} {note}" for note in done.notes]
            tally.add(done)
            if enough is not None and tally.kills >= enough:
                break
        data = f"tally {json.dumps(tally.report())}".encode()
        while data:
            data = data[os.write(tell, data) :]

    @contextmanager
    def _store(self, kind: StoreKind, number: str, *, empty: bool) -> Iterator[tuple[str, Path | str]]:
        """Make a place for one job; ``empty`` without a schema."""
        name = f"{kind}-{number}"
        path = self.folder / name
        if kind == "postgres":
            assert self.server is not None
            database = self.server.create() if empty else self.templates[kind]
            yield name, self.server.url(database)
            if empty:
                self.server.drop(database)
            return
        if kind == "libsql":
            # of its own for each job: a transaction whose process was killed holds up all others for some seconds
            with sqld.serve(None if empty else Path(self.templates[kind])) as made:
                yield name, made.url
            return
        if kind == "sqlite":
            path.mkdir()
            if not empty:
                shutil.copyfile(self.templates[kind], path / "koda.db")
        yield name, path if kind == "json" else str(path / "koda.db")
        shutil.rmtree(path)


def _told_by(pid: int, told: int, said: str) -> JobTally:
    """Read what a worker has counted, now that it has said all."""
    os.close(told)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    word, _, rest = said.partition(" ")
    if word != "tally":
        return JobTally(notes=[f"a worker ended by {status}: {said}"])
    report = json.loads(rest)
    return JobTally(**{**report, "points": set(report["points"])})


@contextmanager
def _server(work: Callable[[int], None], *, speaks: bool = True) -> Iterator[str]:
    """Run a server in a fork; yield the first line that it says, if it says one."""

    pid, told = fork(work, limit_s=0)
    try:
        said = b""
        while speaks and not said.endswith(b"\n"):
            part = os.read(told, 4096)
            assert part, f"a server ended: {said.decode()}"
            said += part
        yield said.decode().strip()
    finally:
        os.close(told)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _answer(tell: int) -> None:
    """Be the model."""

    def respond(request: Given) -> Answer:
        if len(server.requests) > _KEPT_REQUESTS:
            server.requests.clear()
        return Reply(blocks=tuple(_block(block) for block in decide(request)), delta_chars=_DELTA_CHARS)

    server = ModelServer(ScriptedModel(respond)).start()
    os.write(tell, f"{server.base_url}\n".encode())
    signal.pause()


def _block(block: Block) -> Say | Call:
    if block["type"] == "tool_use":
        return Call(block["name"], dict(block["input"]))
    assert block["type"] == "text"
    return Say(block["text"])


def _migrate(url: str) -> None:
    """Bring a database to the newest schema, in a fork: this process must have no threads."""

    async def work() -> None:
        store = SqlStore(url)
        await store.open()
        await store.close()

    pid, told = fork(lambda _: asyncio.run(work()))
    said = os.read(told, 1 << 16)
    os.close(told)
    assert os.waitpid(pid, 0)[1] == 0, said.decode()
