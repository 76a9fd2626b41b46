"""Machines in name spaces of networks, for a cluster that loses some; and what lies behind them for all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import psutil
import ray

from koda_ray.config import REPO_ROOT
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE
from tests import redis_server, seaweed
from tests.seaweed import SeaweedFS

HERE, HEAD, PORT = "10.88.0.1", "10.88.0.10", 6399
SANDBOXES = "/tmp/sandboxes"
"""Where each machine has its own."""
NETWORK = "10.88.0.0/24"
METADATA, NOTICE = "169.254.169.254", Path("/tmp/notice")
BUCKET = 8333
RAY_START = (str(Path(sys.executable).with_name("ray")), "start", "--block", f"--object-store-memory={10**8}")


KEPT = Path("/run/kept")
"""What of the program lies below /tmp, where a test run of its own may be: by number, and ``list`` says where."""
ON_A_DISK = (
    "sh", "-c",
    'mount -t tmpfs -o "size=$0" tmpfs /tmp && '
    f'while read -r from to; do mkdir -p "$to" && mount --bind "$from" "$to"; done < {KEPT}/list && exec "$@"',
)  # fmt: skip


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


_SANDBOXES_APART = ("sh", "-c", 'mkdir -p "$0" && mount -t tmpfs tmpfs "$0" && exec "$@"', SANDBOXES)
_NAMED = (
    "sh", "-c",
    'printf "%032d" "$0" > "/run/machine$0" && '
    '{ [ ! -e /etc/machine-id ] || mount --bind "/run/machine$0" /etc/machine-id; } && '
    '{ cat /etc/hosts; echo "10.88.0.$((10 + $0)) m$0"; } > "/run/hosts$0" && '
    'mount --bind "/run/hosts$0" /etc/hosts && echo "m$0" > /proc/sys/kernel/hostname && exec "$@"',
)  # fmt: skip
"""What gives it names, made of its number, by which what is there is not taken for another machine's."""


class CutMachine:
    """A node of the cluster in a network of its own.

    Args:
        number: The head's is 0.
        env: What it is started with.
        command: What starts Ray there, but for its address.
    """

    def __init__(self, number: int, env: dict[str, str], command: Sequence[str]) -> None:
        self._env = env
        self._link = f"link{number}"
        self._name = name = f"m{number}"
        self.address = join_bridge(number)
        self.process = self._inside([*command, f"--node-ip-address={self.address}"], name)

    @classmethod
    def head(
        cls,
        env: dict[str, str],
        *,
        number: int = 0,
        keeps: Literal["disk", "redis"] = "disk",
        dashboard: bool = False,
    ) -> CutMachine:
        """Start a head, which writes down what it knows.

        Args:
            env: What it is started with.
            number: Which machine it is; a second cluster's is another.
            keeps: Where it writes that: to its disk, as in `compose.yaml`, or to Redis, as KubeRay has it do in
                `kubernetes.yaml`.
            dashboard: Whether it takes what Serve is to run, on its own machine.
        """
        options = ["--head", f"--port={PORT}", "--num-cpus=0", f"--temp-dir=/tmp/r{number or ''}"]
        options += ["--dashboard-host=127.0.0.1"] if dashboard else ["--include-dashboard=false"]
        written = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": f"/run/gcs{number}"}
        if keeps == "redis":
            options.append(f"--redis-password={redis_server.PASSWORD}")
            written = {"RAY_REDIS_ADDRESS": f"{HERE}:{redis_server.PORT}", "RAY_external_storage_namespace": "koda"}
        # it would take the nodes that it sees among the processes for its own and not start again, and their files for
        # what nobody uses
        alone = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", *ON_A_DISK, "50%"]
        return cls(number, {**env, **written}, [*alone, *RAY_START, *options])

    @classmethod
    def worker(
        cls,
        number: int,
        env: dict[str, str],
        *,
        offers: dict[str, float] | None = None,
        disk_mb: int | None = None,
        head: str = HEAD,
    ) -> CutMachine:
        """Start a node that sessions and renders are put on.

        Args:
            number: Which machine it is.
            env: What it is started with.
            offers: Its resources, where it has not what others have.
            disk_mb: How large its disk is, that of all its temporary files; else it has the test's.
            head: The address of its head.
        """
        resources = json.dumps(offers or {SESSION_RESOURCE: 4, CHROMIUM_RESOURCE: 1})
        options = [f"--address={head}:{PORT}", "--num-cpus=1", f"--resources={resources}"]
        files = _SANDBOXES_APART if disk_mb is None else [*ON_A_DISK, f"{disk_mb}m"]
        own = ["unshare", "--mount", "--uts", *files, *_NAMED, str(number)]
        return cls(number, env, [*own, *RAY_START, *options])

    def _inside(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        return start([*self.inside, *command], self._env, name)

    @property
    def inside(self) -> list[str]:
        """What has a command run in its network, when it stands before the command."""
        return ["ip", "netns", "exec", self._name]

    def await_notice(self) -> None:
        """Have a cloud's metadata in this machine's network, and wait there for its notice."""
        _ip(f"-n {self._name} address add {METADATA}/32 dev lo")
        self._inside([sys.executable, "-P", "-m", "tests.cluster.metadata", METADATA, str(NOTICE)], "metadata")
        heed = ["-P", "-m", "koda_ray", "cluster", "drain-on-notice", f"--address={HEAD}:{PORT}"]
        self._inside([sys.executable, *heed], "notice")

    def cut(self) -> None:
        """Take its link down."""
        _ip(f"link set {self._link} down")

    def mend(self) -> None:
        """Take its link up again."""
        _ip(f"link set {self._link} up")

    def processes(self, kinds: Sequence[str]) -> list[psutil.Process]:
        """Return those of its processes whose title begins with one of some words."""
        found: list[psutil.Process] = []
        for pid in self._pids():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if (process.cmdline() or [""])[0].startswith(tuple(kinds)):
                    found.append(process)
        return found

    def kill(self) -> None:
        """Kill everything that it runs, for good."""
        self.process.kill()  # or it would start the node again
        self._kill_all()

    def stop(self) -> None:
        """Have its node end in good order, as who stops a service does: what works there has half a minute to leave."""
        self.process.kill()  # or it would start the node again
        os.kill(self._pids()[0], signal.SIGTERM)

    def crash(self) -> None:
        """Kill everything that it runs, until `recover`."""
        self.process.send_signal(signal.SIGSTOP)
        self._kill_all()

    def recover(self) -> None:
        """Start its node again."""
        self.process.send_signal(signal.SIGCONT)

    def fill(self) -> None:
        """Leave no room on its disk."""
        with contextlib.suppress(OSError), self._filling.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))

    def empty(self) -> None:
        """Have as much room on its disk as before."""
        self._filling.unlink()

    @property
    def _filling(self) -> Path:
        """A file on its disk, as it is seen from here."""
        return Path(f"/proc/{self._pids()[0]}/root/tmp/filling")

    def _kill_all(self) -> None:
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _pids(self) -> list[int]:
        there = subprocess.run(["ip", "netns", "pids", self._name], check=True, capture_output=True, text=True)
        return sorted(map(int, there.stdout.split()))

    def does(self, worker: str) -> bool:
        """Whether a unit's worker (host and process id) works here."""
        return worker.partition(":")[0] == self._name

    def is_alive(self) -> bool:
        """Whether Ray takes it for alive."""
        return any(node["Alive"] for node in self._nodes())

    @property
    def node(self) -> str:
        """Ray's id of it."""
        return str(self._nodes()[-1]["NodeID"])

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in ray.nodes() if node["NodeManagerAddress"] == self.address]


def join_bridge(number: int) -> str:
    """Make a machine's network name space, ``m`` and its number, with a link to the bridge; return its address."""
    address, link, name = f"10.88.0.{10 + number}", f"link{number}", f"m{number}"
    _ip(f"netns add {name}")
    _ip(f"link add {link} type veth peer name eth0 netns {name}")
    _ip(f"link set {link} master bridge up")
    for words in (f"address add {address}/24 dev eth0", "link set lo up", "link set eth0 up"):
        _ip(f"-n {name} {words}")
    _ip(f"-n {name} route add default via {HERE}")
    return address


def start(command: list[str], env: dict[str, str], name: str) -> subprocess.Popen[bytes]:
    """Start something, and again where it ends: on a busy machine Ray gives up to start after half a minute."""
    again = ["sh", "-c", 'until "$@"; do sleep 1; done', name, *command]
    with Path("/tmp", f"{name}.log").open("wb") as log:
        return subprocess.Popen(again, env=env, cwd="/tmp", stdout=log, stderr=log)


def network() -> None:
    """Make the bridge; name spaces of networks, and all files, go with this process."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    KEPT.mkdir()
    lines: list[str] = []
    for path in (REPO_ROOT, Path(sys.prefix)):
        if path.is_relative_to("/tmp") and not (path != REPO_ROOT and path.is_relative_to(REPO_ROOT)):
            kept = KEPT / str(len(lines))
            kept.mkdir()
            subprocess.run(["mount", "--bind", path, kept], check=True)
            lines.append(f"{kept} {path}\n")
    (KEPT / "list").write_text("".join(lines))
    subprocess.run([*ON_A_DISK, "50%", "chmod", "1777", "/tmp"], check=True)
    for words in ("set lo up", "add bridge type bridge", "set bridge up"):
        _ip(f"link {words}")
    _ip(f"address add {HERE}/24 dev bridge")
    _ip("route add default dev bridge")


class Door:
    """Lets the network in to a server that listens inside, for as long as it is open.

    Args:
        port: Where, at the address of this process.
        connect: Opens a connection to the server.
    """

    def __init__(self, port: int, connect: Callable[[], Awaitable[tuple[StreamReader, StreamWriter]]]) -> None:
        self._port = port
        self._connect = connect
        self._through: set[StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Take connections."""
        self._server = await asyncio.start_server(self._lead, HERE, self._port)

    async def close(self) -> None:
        """Take no more, and break off those that there are."""
        assert self._server is not None
        self._server.close()
        for writer in self._through:
            writer.transport.abort()

    async def _lead(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._through.add(writer)
        try:
            there_reader, there_writer = await self._connect()
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        except OSError:
            pass  # the server is away
        finally:
            self._through.discard(writer)
            writer.close()


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


def reach(bucket: SeaweedFS) -> dict[str, str]:
    """Return the settings with which a bucket is reached through its door."""
    return {
        "STORAGE_PROVIDER": "s3",
        "R2_BUCKET": seaweed.BUCKET,
        "R2_ENDPOINT": f"http://{HERE}:{BUCKET}",
        "R2_ACCESS_KEY": bucket.key,
        "R2_SECRET_KEY": bucket.secret,
    }
