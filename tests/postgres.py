"""A PostgreSQL server for tests, as Debian's package has it: on a socket, in a folder that goes with it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL

from tests.starting import wait_for

__all__ = ["PORT", "Postgres", "find_program", "owner", "serve", "why_missing"]

PORT = 5432
_START_S = 60.0
# Nothing here has to outlive a power cut. Commits of clients that are killed are the server's, and it lives on.
_OPTIONS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}


def find_program(name: str) -> str | None:
    """Return where a program of the server is: Debian keeps those off PATH, one folder a version."""
    found = shutil.which(name)
    if found is not None:
        return found
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(places[-1]) if places else None


def why_missing() -> str | None:
    """Return why no server can be started; None where one can."""
    missing = [name for name in ("initdb", "postgres") if find_program(name) is None]
    if missing:
        return f"{', '.join(missing)} not there (Debian package: postgresql)"
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        return f"psycopg not installed: {error}"
    try:
        owner()
    except KeyError:
        return "as root it needs a user that may run it: there is neither postgres nor nobody"
    return None


class Postgres:
    """A server that runs, on a socket in its folder."""

    def __init__(self, home: Path, user: str, launch: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._home = home
        self._user = user
        self._launch = launch
        self._server = launch()

    def start(self) -> None:
        """Start it again after a crash; what had been committed is there."""
        self._server = self._launch()
        self.wait()

    def crash(self) -> None:
        """Kill it and all of its processes at once: nobody is told, nothing is written, and its next start recovers."""
        self._server.send_signal(signal.SIGSTOP)  # or it would have others in the place of those that are killed
        killed = psutil.Process(self._server.pid).children(recursive=True)
        for process in (*killed, self._server):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._server.wait()
        deadline = time.monotonic() + _START_S
        while any(map(_runs, killed)):  # its memory is theirs, and the next one wants it to be nobody's
            assert time.monotonic() < deadline, killed
            time.sleep(0.01)

    def wait(self) -> None:
        """Wait until it takes connections."""
        command = [str(find_program("pg_isready")), "-q", "-h", str(self._home), "-t", "1"]
        path = {"PATH": os.environ["PATH"]}
        wait_for(
            self._server,
            lambda: subprocess.run(command, check=False, env=path).returncode == 0,
            log=self._home / "log",
        )

    def stop(self) -> None:
        """End it: sessions are ended, then everything is written ("fast")."""
        self._server.send_signal(signal.SIGINT)
        try:
            self._server.wait(_START_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()

    def url(self, database: str = "postgres") -> str:
        """Return a database's URL."""
        query = {"host": str(self._home)}
        url = URL.create("postgresql+psycopg", username=self._user, database=database, query=query)
        return url.render_as_string(hide_password=False)

    def url_at(self, address: str, database: str, port: int = PORT) -> str:
        """Return a database's URL over the network."""
        url = URL.create("postgresql+psycopg", self._user, host=address, port=port, database=database)
        return url.render_as_string(hide_password=False)

    def create(self, template: str = "template0") -> str:
        """Make a database, empty or as another one that nobody is connected to; return its name."""
        name = f"koda_{uuid.uuid4().hex}"
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.run(f'DROP DATABASE "{name}" WITH (FORCE)')

    def run(self, statement: str) -> None:
        """Run a statement outside a transaction."""
        engine = create_engine(self.url(), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                connection.execute(text(statement))
        finally:
            engine.dispose()


def _runs(process: psutil.Process) -> bool:
    """Whether a process runs; one whose parent is gone may stay a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def serve(address: str = "", network: str | None = None) -> Iterator[Postgres]:
    """Start a server, and end it with everything that it has.

    Args:
        address: Where it listens besides, at `PORT`; nowhere else when empty.
        network: From which addresses anybody may come in; this machine's alone when None.
    """
    user = owner()
    as_other = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    as_user: dict[str, Any] = as_other if os.geteuid() == 0 else {}
    home = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path may have 107 bytes
    data = home / "data"
    try:
        if as_user:
            os.chown(home, user.pw_uid, user.pw_gid)
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(home), "TZ": "UTC"}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("KODA_TEST_")}
        initdb = [str(find_program("initdb")), "-D", str(data), "-U", user.pw_name, "-A", "trust", "-E", "UTF8"]
        made = subprocess.run(
            [*initdb, "--no-sync", "--locale=C"], env=environment, capture_output=True, text=True, cwd=home, **as_user
        )
        assert made.returncode == 0, made.stdout + made.stderr
        if network is not None:
            with (data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {network} trust\n")
        options = [f"-c{name}={value}" for name, value in {**_OPTIONS, "listen_addresses": address}.items()]

        def launch() -> subprocess.Popen[bytes]:
            with (home / "log").open("ab") as log:
                return subprocess.Popen(
                    [str(find_program("postgres")), "-D", str(data), "-k", str(home), *options],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=home,
                    **as_user,
                )

        server = Postgres(home, user.pw_name, launch)
        try:
            server.wait()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home)


def owner() -> pwd.struct_passwd:
    """Return who runs it: this user, or where that is root, which it refuses, another."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
