"""A PgBouncer for tests, as Debian's package has it, which pools by transaction before a test's PostgreSQL.

Whoever is behind it gets another connection of the server's for each transaction: what is left on one (a prepared
statement, a lock of the session's, LISTEN) is somebody else's then. A few connections serve all, so that it shows.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url

from tests import postgres
from tests.starting import wait_for

__all__ = ["POOL_SIZE", "PORT", "behind", "serve", "why_missing"]

POOL_SIZE = 3
"""How many connections of the server's all clients of a database share."""
_PROGRAM = "pgbouncer"
_START_S = 60.0
PORT = 6432


def _find() -> str | None:
    return shutil.which(_PROGRAM, path=f"{os.environ['PATH']}:/usr/sbin")


def why_missing() -> str | None:
    """Return why none can be started; None where one can."""
    return postgres.why_missing() or (None if _find() else "pgbouncer not there (Debian package: pgbouncer)")


def behind(url: str, home: Path) -> str:
    """Return the address of a server's database, through the one that listens in a folder."""
    through = make_url(url).update_query_dict({"host": str(home), "port": str(PORT)})
    return through.render_as_string(hide_password=False)


@contextmanager
def serve(server_url: str, **more: str | int) -> Iterator[Path]:
    """Start one before a server, and end it; give the folder that it listens in. What else is given are settings."""
    user = postgres.owner()
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    home = Path(tempfile.mkdtemp(prefix="pgb-"))  # short: a socket's path may have 107 bytes
    try:
        if as_user:
            os.chown(home, user.pw_uid, user.pw_gid)
        at = make_url(server_url).query["host"]
        settings = {
            "unix_socket_dir": home,
            "listen_port": PORT,
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": POOL_SIZE,
            "max_client_conn": 500,
            **more,
        }
        lines = ["[databases]", f"* = host={at} user={user.pw_name}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        (home / "settings.ini").write_text("\n".join(lines) + "\n")
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(_find()), str(home / "settings.ini")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
                **as_user,
            )
        try:
            wait_for(process, (home / f".s.PGSQL.{PORT}").exists, log=home / "log")
            yield home
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_START_S)
    finally:
        shutil.rmtree(home)
