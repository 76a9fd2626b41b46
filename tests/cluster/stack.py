"""What `compose.yaml` starts, by its own commands, in name spaces of its own: ``python -m tests.cluster.stack FILE``.

The file has the services as Compose reads them. Head and worker are started with the commands and the environment that
their containers would get, and so is SeaweedFS; PostgreSQL is Debian's. What they have to say is printed as JSON. It is
run as the first process of a name space of processes, so all of it ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests import postgres
from tests.seaweed import SeaweedFS

API = "http://127.0.0.1:8420"
_IN_TIME_S = 300.0
_ASK = """
import json, ray
ray.init("auto", log_to_driver=False, logging_level="ERROR")
print(json.dumps([node["Resources"] for node in ray.nodes() if node["Alive"]]))
"""


class Node:
    """A service that starts Ray, started again whenever it ends, as Compose does."""

    def __init__(self, name: str, service: dict[str, Any], changed: dict[str, str]) -> None:
        self._log = Path("/tmp", f"{name}.log")
        home = Path("/tmp", name)
        home.mkdir()
        said = {key: str(value) for key, value in service["environment"].items() if value is not None}
        named = {key: value.replace("/var/lib/koda", str(home)) for key, value in said.items()}
        # its workers are as ready to work as whatever else this machine does, which is none of it
        own = {"KODA_DATA_DIR": str(home), "RAY_worker_niceness": "0"}
        self._environment = {**os.environ, **named, **changed, **own}
        koda = f"{sys.executable} -P -m koda_ray serve"
        self._command = [word.replace("koda serve", koda) for word in service["command"]]
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, env=self._environment, cwd="/tmp", stdout=log, stderr=log)

    def tend(self) -> None:
        """Start it again where it has ended, with nothing left of before: a container ends with all that it runs."""
        if self.process.poll() is None:
            return
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("KODA_DATA_DIR") == self._environment["KODA_DATA_DIR"]:
                    process.kill()
        self.process = self._start()

    def ask(self, *command: str) -> str:
        """Run a command beside it."""
        done = subprocess.run(command, env=self._environment, cwd="/tmp", capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    @property
    def log(self) -> str:
        """What it said."""
        return self._log.read_text(errors="replace")


def _network() -> None:
    for words in ("set lo up", "add own type veth peer name other", "set own up", "set other up"):
        subprocess.run(["ip", "link", *words.split()], check=True)
    subprocess.run(["ip", "address", "add", "10.77.0.5/24", "dev", "own"], check=True)
    subprocess.run(["ip", "route", "add", "default", "dev", "own"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/tmp"], check=True)
    os.chmod("/tmp", 0o1777)


def _answer(path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(API + path, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        text = answer.read().decode()
    return text if path.startswith("/-/") else json.loads(text)


def _until(what: Callable[[], Any], *nodes: Node) -> Any:
    deadline = time.monotonic() + _IN_TIME_S
    last: object = None
    while time.monotonic() < deadline:
        try:
            if found := what():
                return found
        except OSError as error:
            last = error
        for node in nodes:
            node.tend()
        time.sleep(0.3)
    raise SystemExit(f"not in time: {last}\n" + "\n".join(node.log[-3000:] for node in nodes))


def _resources(head: Node) -> list[dict[str, float]]:
    """What each node of the cluster offers, asked by a driver of its own."""
    told = head.ask(sys.executable, "-c", _ASK).strip().splitlines()
    return json.loads(told[-1]) if told and told[-1].startswith("[") else []


def _storage(service: dict[str, Any]) -> SeaweedFS:
    home = Path("/tmp/storage")
    home.mkdir()
    options = [word.replace("/data", str(home)) for word in service["command"]]
    keys = service["environment"]
    return SeaweedFS(home, options, 8333, keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"])


def main(services: dict[str, Any]) -> dict[str, Any]:
    """Start it, and return what is seen of it."""
    _storage(services["storage"]).wait()
    with postgres.serve() as server:
        changed = {"DATABASE_URL": server.url(server.create())}
        worker = Node("worker", services["worker"], changed)  # first, as it may come: it is tried again
        head = Node("head", services["head"], changed)
        _until(lambda: _answer("/-/healthz") == "success", head, worker)
        nodes = _until(lambda: found if len(found := _resources(head)) == 2 else None, worker)
        session = _answer("/v1/sessions", {"prompt": "a bouncing ball, 2 seconds, playful"})["sessionId"]
        path = f"/v1/sessions/{session}"
        state = _until(lambda: found if (found := _answer(path)["state"])["owes"] is None else None, head, worker)
        worker.process.terminate()
        worker.process.wait(timeout=_IN_TIME_S)
        return {
            "nodes": nodes,
            "phase": state["phase"],
            "drained": "received SIGTERM. Draining for up to 30" in worker.log,
            "alive": _answer("/-/healthz"),
        }


if __name__ == "__main__":
    read = json.loads(Path(sys.argv[1]).read_text())
    _network()
    sys.stdout.write(json.dumps(main(read)) + "\n")
    sys.stdout.flush()
    os._exit(0)  # and all that it started with it
