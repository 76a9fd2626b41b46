"""What clouds tell a machine about itself, as a server: ``python -m tests.cluster.metadata ADDRESS FILE`` is AWS's.

Once there is something in the file, it is the time at which the machine is gone, and the machine is told so.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

CloudKind = Literal["aws", "gcp"]


class MetadataServer(ThreadingHTTPServer):
    """Answers as one of the clouds does.

    Args:
        address: Where; port 0 for one that is free.
        cloud: Which.
        notice: The file.
    """

    daemon_threads = True

    def __init__(self, address: tuple[str, int], cloud: CloudKind, notice: Path) -> None:
        super().__init__(address, _Aws if cloud == "aws" else _Google)
        self.notice = notice
        self.token = ""
        self.asked = 0
        self.broken = 0  # so many answers are none

    @property
    def gone_at(self) -> str:
        """When the machine is gone; empty before that is told."""
        return self.notice.read_text().strip() if self.notice.exists() else ""

    def forget(self) -> None:
        """Take back the token that was given, as its time would."""
        self.token = ""


class _Handler(BaseHTTPRequestHandler):
    server: MetadataServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def answer(self, status: int, text: str, **headers: str) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def breaks(self) -> bool:
        """Note a question; break off where that is due."""
        self.server.asked += 1
        if self.server.broken > 0:
            self.server.broken -= 1
            self.close_connection = True
            return True
        return False

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Aws(_Handler):
    def do_PUT(self) -> None:
        if self.path != "/latest/api/token" or "X-aws-ec2-metadata-token-ttl-seconds" not in self.headers:
            return self.answer(400, "")
        self.server.token = secrets.token_urlsafe(40)
        return self.answer(200, self.server.token)

    def do_GET(self) -> None:
        if self.breaks():
            return None
        if not self.server.token or self.headers["X-aws-ec2-metadata-token"] != self.server.token:
            return self.answer(401, "")
        if self.path != "/latest/meta-data/spot/instance-action" or not self.server.gone_at:
            return self.answer(404, "")
        return self.answer(200, json.dumps({"action": "terminate", "time": self.server.gone_at}))


class _Google(_Handler):
    def do_GET(self) -> None:
        if self.breaks():
            return None
        if self.headers["Metadata-Flavor"] != "Google":
            return self.answer(403, "")
        if self.path != "/computeMetadata/v1/instance/preempted":
            return self.answer(404, "")
        return self.answer(200, "TRUE" if self.server.gone_at else "FALSE", Metadata_Flavor="Google")

    def do_PUT(self) -> None:
        self.answer(405, "")


@contextmanager
def serve(cloud: CloudKind, notice: Path) -> Generator[MetadataServer]:
    """Serve on loopback."""
    with MetadataServer(("127.0.0.1", 0), cloud, notice) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()


if __name__ == "__main__":
    MetadataServer((sys.argv[1], 80), "aws", Path(sys.argv[2])).serve_forever()
