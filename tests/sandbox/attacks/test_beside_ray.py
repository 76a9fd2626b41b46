"""What hostile code must not reach of a real cluster beside it: Ray's ports and sockets, its dashboard, the API."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from ray.cluster_utils import Cluster

from koda_ray.console import server
from koda_ray.console.server import OwnServer
from koda_ray.resources import CHROMIUM_RESOURCE, SESSION_RESOURCE, URGENT_RESOURCE
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.egress.rules import Egress, EgressRules
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.template import TemplateProject
from koda_ray.serve import ray_folder
from tests.sandbox.conftest import AnyProvider, AnySandbox, gvisor_too
from tests.sandbox.leftovers import Leftovers
from tests.sandbox.refusals import refusals

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.ray, pytest.mark.sandbox]

_TASK = (
    "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR');"
    "print(ray.get(ray.remote(lambda: 'well').remote()))"
)

_TRIES = """
const net = require("node:net"), dns = require("node:dns").promises;
const { hosts, ports, paths, proxied } = JSON.parse(process.argv[1]);
const via = new URL(process.env.HTTP_PROXY || "http://127.0.0.1:3128");
const at = (host, port) => (host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`);

// what became of it: an error's code, or the first line of what was said
const attempt = (where, says) => new Promise((done) => {
  let said = "";
  const connection = net.connect({ ...where, timeout: 30000 });
  const end = (what) => { connection.destroy(); done(what); };
  connection.on("connect", () => (says === undefined ? end("REACHED") : connection.write(says)));
  connection.on("data", (data) => (said += data).includes("\\n") && end(said.split("\\n")[0].trim()));
  connection.on("error", (error) => end(error.code)).on("timeout", () => end("timeout")).on("close", () => end(said));
});

const main = async () => {
  const told = {}, tries = [];
  for (const path of paths) tries.push([path, () => attempt({ path })]);
  for (const name of hosts) {
    const found = await dns.lookup(name).catch((error) => ({ code: error.code }));
    if (found.address === undefined) told[name] = found.code;
    else for (const port of ports)
      if (port !== Number(via.port)) tries.push([at(name, port), () => attempt({ host: found.address, port })]);
  }
  for (const host of proxied.hosts) for (const port of proxied.ports) {
    const to = at(host, port), proxy = { host: via.hostname, port: via.port };
    tries.push([`CONNECT ${to}`, () => attempt(proxy, `CONNECT ${to} HTTP/1.1\\r\\nHost: ${to}\\r\\n\\r\\n`)]);
    const get = `GET http://${to}/ HTTP/1.1\\r\\nHost: ${to}\\r\\nConnection: close\\r\\n\\r\\n`;
    tries.push([`GET ${to}`, () => attempt(proxy, get)]);
  }
  const work = async () => { for (let next; (next = tries.shift()); ) told[next[0]] = await next[1](); };
  await Promise.all(Array.from({ length: 16 }, work));
  console.log(JSON.stringify(told));
};
main();
"""


@dataclass(frozen=True)
class Beside:
    """A cluster with its dashboard, and a server that has joined it, all of which listen wherever they can."""

    gcs: int
    dashboard: int
    api: int
    ports: frozenset[int]
    sockets: tuple[str, ...]

    async def check(self) -> None:
        """See that it is well: a newcomer's task runs, the dashboard and the API answer."""
        line = [sys.executable, "-c", _TASK, f"127.0.0.1:{self.gcs}"]
        done = await asyncio.to_thread(subprocess.run, line, capture_output=True, text=True, timeout=120)
        assert done.stdout == "well\n", done.stderr
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            assert (await http.get(f"http://127.0.0.1:{self.api}/v1/ready")).json()["ready"] is True
            assert (await http.get(f"http://127.0.0.1:{self.dashboard}/api/version")).status_code == 200


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    home, folder = tmp_path_factory.mktemp("server"), ray_folder.make()
    Path(folder, "ray").mkdir()  # where a head writes its address down
    cluster: Any = None
    own = OwnServer(home / "server.log")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server, "START_S", 400.0)  # a cluster starts, and a server on it
            for name, value in {
                "KODA_HOST": "0.0.0.0",
                "KODA_API_KEYS": "ann=a-key-of-this-test-alone",
                "KODA_RUNFILE": home / "server.json",
                "DATABASE_PATH": home / "koda.db",
                "STORAGE_PATH": home / "storage",
                "SANDBOX_PATH": home / "sandboxes",
                "TMPDIR": folder,  # the dashboard's processes leave folders where temporary ones go
                "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": 60,  # else a busy machine's proxy is ended as it starts
            }.items():
                patch.setenv(name, str(value))
            cluster = Cluster(
                initialize_head=True,
                head_node_args={
                    "num_cpus": 2, "resources": {CHROMIUM_RESOURCE: 1, URGENT_RESOURCE: 1, SESSION_RESOURCE: 8},
                    "temp_dir": folder, "object_store_memory": 10**8, "include_dashboard": True,
                    "dashboard_host": "0.0.0.0", "dashboard_port": 0,
                },
            )  # fmt: skip
            patch.setenv("KODA_RAY_ADDRESS", cluster.address)
            api = int(own.start().rpartition(":")[2])
        processes = [psutil.Process(own.pid), *psutil.Process().children(recursive=True)]
        yield Beside(
            gcs=int(str(cluster.address).rpartition(":")[2]),
            dashboard=int(str(cluster.webui_url).rpartition(":")[2]),
            api=api,
            ports=frozenset(port for process in processes for port in _listens(process)),
            sockets=tuple(sorted(map(str, Path(folder).glob("session_*/sockets/*")))),
        )
    finally:
        own.stop()
        if cluster is not None:
            cluster.shutdown()
        ray_folder.remove(folder)


@pytest.fixture
def made(
    kind: str, boxes: Path, limits: ResourceLimits, leftovers: Leftovers, request: pytest.FixtureRequest
) -> AnyProvider:
    """A provider whose owner has gone as far as to list the machine itself as what sandboxes may reach."""
    egress = EgressRules.parse(["localhost", "127.0.0.1", socket.gethostname().lower(), *_addresses(socket.AF_INET)])
    if kind == "local":
        template, packages = request.getfixturevalue("template"), request.getfixturevalue("node_modules")
        return LocalProvider(
            root=boxes,
            template=TemplateProject(folder=template, node_modules=packages),
            limits=limits,
            egress=Egress(rules=egress),
        )
    return DockerProvider(
        root=boxes,
        image=request.getfixturevalue("docker_image"),
        plan=ContainerPlan(limits=limits, runtime="runsc" if kind == "gvisor" else None),
        egress=Egress(rules=egress),
        address=request.getfixturevalue("docker_address"),
    )


@pytest.fixture
async def provider(made: AnyProvider) -> AsyncIterator[AnyProvider]:
    yield made
    await made.close()


@gvisor_too
async def test_nothing_of_a_cluster_and_its_server_is_reached(
    beside: Beside, sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {beside.gcs, beside.dashboard, beside.api} <= beside.ports and len(beside.sockets) >= 2
    names = ["localhost", socket.gethostname(), socket.getfqdn(), "host.docker.internal", "gateway.docker.internal"]
    numbers = ["0.0.0.0", "127.0.0.1", "127.1.2.3", "2130706433", "::1", "::ffff:127.0.0.1", "172.17.0.1"]
    hosts = sorted({*names, *numbers, *_addresses(socket.AF_INET), *_addresses(socket.AF_INET6)})
    tries: dict[str, object] = {
        "hosts": hosts,
        "ports": sorted(beside.ports),
        "paths": [*beside.sockets, *(f"\0{path}" for path in beside.sockets)],
        "proxied": {"hosts": [], "ports": []},
    }
    public = ["127.0.0.1", *_addresses(socket.AF_INET)]
    ours = await asyncio.to_thread(_try_here, {**tries, "hosts": public})
    for host in public:
        reached = {port for port in beside.ports if ours[f"{host}:{port}"] == "REACHED"}
        assert reached >= {beside.gcs, beside.dashboard, beside.api}, "the program would show nothing"
    assert {ours[path] for path in beside.sockets} == {"REACHED"}

    assert _reached(await _try(sandbox, tries, network=False)) == {}
    assert "network" in refusals(capsys, sandbox.id)

    proxied = {"hosts": hosts, "ports": [beside.gcs, beside.dashboard, beside.api]}
    told = await _try(sandbox, {**tries, "proxied": proxied}, network=True)
    answers = {what: said for what, said in told.items() if what.startswith(("CONNECT ", "GET "))}
    assert len(answers) == 2 * len(hosts) * 3
    assert all(said.startswith(("HTTP/1.1 403 ", "HTTP/1.1 400 ")) for said in answers.values()), answers
    assert _reached({what: said for what, said in told.items() if what not in answers}) == {}
    assert refusals(capsys, sandbox.id) >= {"network", "egress"}

    await beside.check()


def _listens(process: psutil.Process) -> list[int]:
    try:
        return [one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    except psutil.NoSuchProcess:
        return []


def _addresses(family: socket.AddressFamily) -> list[str]:
    """The machine's own, of all its interfaces."""
    found = [one for interface in psutil.net_if_addrs().values() for one in interface if one.family == family]
    return [one.address.partition("%")[0] for one in found]


def _try_here(tries: Mapping[str, object]) -> dict[str, str]:
    line = ["node", "-e", _TRIES, json.dumps(tries)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


async def _try(sandbox: AnySandbox, tries: Mapping[str, object], *, network: bool) -> dict[str, str]:
    done = await sandbox.run(("node", "-e", _TRIES, json.dumps(tries)), network=network, timeout_s=300)
    assert done.exit_code == 0 and not done.truncated, done
    return json.loads(done.stdout)


def _reached(told: dict[str, str]) -> dict[str, str]:
    """What is not an error of a system call or a look-up."""
    return {what: said for what, said in told.items() if said not in _ERRORS}


_ERRORS: Sequence[str] = (
    "ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "ENOTFOUND", "EAI_AGAIN", "ENOENT", "EACCES",
    "EINVAL", "timeout",
)  # fmt: skip
