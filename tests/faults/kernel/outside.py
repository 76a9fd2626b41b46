"""A world outside that counts: a process of its own with a file that is appended to and synced, line by line.

It has nothing of ours. It does what a good service does: what has a key is done once for that key, and whoever comes
with a lower fencing token than one that was seen is refused.
"""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections import Counter
from pathlib import Path

from koda_ray.agent.toolkit import ToolCall
from koda_ray.errors import Fenced

__all__ = ["RemoteWorld", "effects", "listening", "serve"]

_TIMEOUT_S = 60.0


def listening(path: Path) -> socket.socket:
    """Make the socket that `serve` answers at."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(64)
    return server


def serve(server: socket.socket, file: Path) -> None:
    """Answer for ever, one request after the other in the order of their connections."""
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    done: dict[str, list[tuple[str, str]]] = {}
    tokens: Counter[str] = Counter()
    while True:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(_TIMEOUT_S)
            data = b""
            while not data.endswith(b"\n") and (part := connection.recv(4096)):
                data += part
            if not data.endswith(b"\n"):
                continue  # killed before it had asked
            asked = json.loads(data)
            job, what, item, key = (str(asked[name]) for name in ("job", "what", "item", "key"))
            answer: dict[str, object] = {}
            if asked["token"] < tokens[job]:
                answer = {"refused": tokens[job]}
            else:
                tokens[job] = asked["token"]
                before = done.setdefault(job, [])
                if what == "charge" or (what == "put" and ("put", f"{item}:{key}") not in before):
                    entry = (what, item if what == "charge" else f"{item}:{key}")
                    os.write(descriptor, f"{job} {' '.join(entry)}\n".encode())
                    os.fsync(descriptor)
                    before.append(entry)
                answer = {"charged": [item for each, item in before if each == "charge"]}
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                continue  # killed before it heard


def effects(file: Path, job: str) -> tuple[list[str], list[str]]:
    """Read what was done for a job: charges in order, and puts."""
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    mine = [(what, item) for name, what, item in lines if name == job]
    return [item for what, item in mine if what == "charge"], [item for what, item in mine if what == "put"]


class RemoteWorld:
    """Implements `tests.agent.world.World` by asking the server.

    Args:
        path: The server's socket.
        job: Whose effects.
        slow_s: How long a charge is on its way, at most: time enough to be replaced.
    """

    def __init__(self, path: Path, job: str, *, slow_s: float = 0.0) -> None:
        self._path = path
        self._job = job
        self._slow_s = slow_s

    def charge(self, item: str, call: ToolCall) -> None:
        time.sleep(random.uniform(0, self._slow_s))
        self._ask("charge", item, call)

    def put(self, item: str, call: ToolCall) -> None:
        self._ask("put", item, call)

    def charged(self, call: ToolCall) -> list[str]:
        return self._ask("look", "", call)

    def _ask(self, what: str, item: str, call: ToolCall) -> list[str]:
        asked = {"job": self._job, "what": what, "item": item, "key": call.id, "token": call.epoch}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(str(self._path))
            connection.sendall(json.dumps(asked).encode() + b"\n")
            with connection.makefile() as answers:
                answer = json.loads(answers.readline())
        if "refused" in answer:
            raise Fenced(f"the world has seen token {answer['refused']}, this is {call.epoch}")
        return answer["charged"]
