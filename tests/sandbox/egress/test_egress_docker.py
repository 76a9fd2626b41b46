"""The way out of a container, also under gVisor; it is there only while a command runs that asked for it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.egress.rules import Egress, EgressLimits, EgressRules
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.tmux import SERVER, Tmux
from tests.sandbox.conftest import MB, Base, built_image, write_packages, write_template
from tests.sandbox.egress.conformance import GET, WayOutConformance, fetch, proxy_of, told
from tests.sandbox.egress.conftest import until
from tests.sandbox.egress.network import OK, PUBLIC, NameServer, upstream
from tests.sandbox.egress.registry import registry
from tests.sandbox.leftovers import DockerLeftovers
from tests.sandbox.terminals import all_of

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("netns", "docker")]


@pytest.fixture
def runtime() -> str | None:
    return None


@pytest.fixture
async def provider(
    runtime: str | None,
    boxes: Path,
    docker_address: str,
    docker_image: str,
    limits: ResourceLimits,
    docker_leftovers: DockerLeftovers,
) -> AsyncIterator[DockerProvider]:
    made = DockerProvider(
        root=boxes,
        image=docker_image,
        plan=ContainerPlan(limits=limits, runtime=runtime),
        egress=Egress(
            rules=EgressRules.parse(["registry.test", "site.test"]),
            limits=EgressLimits(connections=16, received_bytes=MB),
        ),
        address=docker_address,
    )
    yield made
    await made.close()


@pytest.fixture
def leftovers(docker_leftovers: DockerLeftovers) -> DockerLeftovers:
    return docker_leftovers


class TestDocker(WayOutConformance):
    """As the engine runs containers by default (runc)."""

    sockets = "/run/koda/a-*.sock"
    way_out = "/run/koda/out-*.sock"


@pytest.mark.needs("gvisor")
class TestGvisor(WayOutConformance):
    """With a kernel of its own for each container (runsc)."""

    sockets = "/run/koda/a-*.sock"
    way_out = "/run/koda/out-*.sock"

    @pytest.fixture
    def runtime(self) -> str | None:
        return "runsc"


async def test_the_proxy_goes_with_the_last_command_that_asked(
    names: NameServer, provider: DockerProvider, leftovers: DockerLeftovers
) -> None:
    box = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_x", user_id="usr_x")
    inside = Path(box.record.preview_socket).with_name("in")
    await box.start("short", ("sh", "-c", "until test -e src/go.ts; do sleep 0.05; done"), network=True)
    process = proxy_of(box)
    assert process.running and len(os.listdir(inside)) == 2
    found = psutil.Process(process.pid)
    await until(lambda: found.uids().real not in (0, 1000) and found.nice() == min(19, psutil.Process().nice() + 10))
    async with upstream(OK):
        assert await fetch(box, "http://site.test/") == ["200 hi"]
    assert process.running  # the other one still has it
    await box.write_files({"src/go.ts": b""})
    await until(lambda: not process.running)
    await until(lambda: len(os.listdir(inside)) == 1)
    await box.destroy()


async def test_what_was_cancelled_holds_nothing_open(
    names: NameServer, provider: DockerProvider, leftovers: DockerLeftovers
) -> None:
    box = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_x", user_id="usr_x")
    running = asyncio.create_task(box.run(("sleep", "60"), network=True, timeout_s=90))
    await until(lambda: box.way_out.process is not None)
    process = proxy_of(box)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not process.running)
    await box.destroy()


async def test_a_flood_of_connections_only_harms_itself(
    names: NameServer, provider: DockerProvider, leftovers: DockerLeftovers
) -> None:
    box = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_x", user_id="usr_x")
    flood = (
        "const net = require('net'), port = new URL(process.env.HTTP_PROXY).port; for (let n = 0; n < 2000; n++) "
        "net.connect(port, '127.0.0.1').on('error', () => 0).write('GET http://evil.test/ HTTP/1.1\\r\\n\\r\\n');"
        "setTimeout(() => process.exit(), 1000)"
    )
    async with upstream(OK) as server:
        await box.run(("node", "-e", flood), network=True)
        assert server.heard == []
        assert await fetch(box, "http://site.test/") == ["200 hi"]
    await box.destroy()


_OWNER = """
import asyncio, json, sys
from pathlib import Path
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.egress.rules import Egress, EgressRules
from tests.sandbox.conftest import small_limits

async def main():
    given = json.loads(sys.argv[1])
    provider = DockerProvider(
        root=Path(given["boxes"]), image=given["image"], plan=ContainerPlan(limits=small_limits()),
        address=given["address"], egress=Egress(rules=EgressRules.parse(["site.test"])),
    )
    box = await provider.create(sandbox_id=given["id"], session_id="ses_a", user_id="usr_a")
    await box.start("idle", ("sleep", "600"), network=True)
    print(f"pid {box.way_out.process.pid}", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_killed_owner_takes_the_proxy_along(
    names: NameServer,
    boxes: Path,
    docker_address: str,
    docker_image: str,
    provider: DockerProvider,
    leftovers: DockerLeftovers,
) -> None:
    name = leftovers.new_id()
    given = {"boxes": str(boxes), "image": docker_image, "address": docker_address, "id": name}
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _OWNER, json.dumps(given), cwd=REPO_ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    line = await owner.stdout.readline()
    assert line.startswith(b"pid ")
    pid = int(line.split()[1])
    assert psutil.pid_exists(pid)
    owner.kill()
    await owner.wait()
    await until(lambda: not psutil.pid_exists(pid))
    box = await provider.connect(name)
    assert [(one.name, one.running) for one in await box.processes()] == [("idle", True)]
    async with upstream(OK):
        assert await fetch(box, "http://site.test/") == ["200 hi"]
    await box.destroy()


@pytest.mark.needs("npm")
async def test_a_real_npm_installs_into_the_project(
    names: NameServer,
    boxes: Path,
    docker_address: str,
    docker_base: Base,
    limits: ResourceLimits,
    leftovers: DockerLeftovers,
    certificate: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    """The packages that were baked in are not in the way of a person's own, whose process has a terminal."""
    names.names["registry.test"] = [[PUBLIC]]
    packages = write_packages(tmp_path / "packages" / "node_modules")
    npm = Path(str(shutil.which("npm"))).resolve().parents[1]
    shutil.copytree(npm, packages / "npm", symlinks=True)
    template = write_template(tmp_path / "template")
    image = await asyncio.to_thread(built_image, docker_address, docker_base, "koda-test/npm:1", template, packages)
    rules = EgressRules.parse(["registry.test"])
    provider = DockerProvider(
        root=boxes, image=image, plan=ContainerPlan(limits=limits), egress=Egress(rules=rules), address=docker_address
    )
    box = await provider.create(sandbox_id=leftovers.new_id(), session_id="", user_id="usr_x")
    await box.write_files({"public/ca.txt": certificate[1].read_bytes()})
    install = (
        "node node_modules/npm/bin/npm-cli.js install --no-audit --no-fund --cafile public/ca.txt "
        "--registry https://registry.test tiny@1.0.0"
    )
    tmux = Tmux(box, network=True)
    (tmp_path / "koda.db").write_text("very-secret rows")
    async with registry("https", certificate, reads=tmp_path / "koda.db") as asked:
        await tmux.launch("install", install)
        said, last = await all_of(tmux, "install")
    assert last.exit_code == 0, said
    assert asked == ["/tiny", "/tiny/-/tiny-1.0.0.tgz"]
    assert json.loads(await box.read_file("package.json"))["dependencies"] == {"tiny": "^1.0.0"}
    stolen = (await box.run(("cat", "node_modules/tiny/stolen.txt"))).stdout
    assert "npm_package_name=tiny" in stolen and "very-secret" not in stolen and "root:" not in stolen
    assert "No such file" in stolen and "Uid:" in stolen and "Uid:\t0" not in stolen, (
        "its install script ran, and got nothing"
    )
    await tmux.launch("use", "node -p 'String(require(\"tiny\"))'; ls -l node_modules | wc -l")
    assert (await all_of(tmux, "use"))[0].splitlines() == [b"42", b"2"]
    await provider.destroy(box.id)
    await provider.close()


async def test_what_is_kept_has_the_network_until_it_ends_or_its_holder_does(
    names: NameServer, provider: DockerProvider, boxes: Path, leftovers: DockerLeftovers
) -> None:
    """Whoever launched it has long left; the way out is its holder's, and is nobody's when that is killed."""
    box = await provider.create(sandbox_id=leftovers.new_id(), session_id="", user_id="usr_x")
    tmux = Tmux(box, network=True)
    await box.write_files({"scripts/get.mjs": GET.encode()})
    async with upstream(OK):
        await tmux.launch("one", "node scripts/get.mjs")
        [holder] = leftovers.holders()
        await until(lambda: len(leftovers.proxies()) == 1)
        await provider.close()  # as when the program ends that launched it
        box = await provider.connect(box.id)
        tmux = Tmux(box, network=True)
        assert await told(tmux, "one") == "200 hi"
        os.kill(holder, signal.SIGKILL)
        await until(lambda: leftovers.proxies() == [] and leftovers.holders() == [])
        assert await told(tmux, "one") == "ECONNRESET", "it is closed, not open"
        assert [(one.name, one.running) for one in await tmux.processes()] == [("one", True)]
        await tmux.launch("two", "sleep 600")  # and who launches next brings the way out back, for all
        assert leftovers.holders() not in ([], [holder])
        assert await told(tmux, "one") == "200 hi"
    assert await asyncio.gather(*(tmux.launch(name, "sleep 600") for name in ("three", "four")))
    assert len(leftovers.holders()) == len(leftovers.proxies()) == 1
    [log] = boxes.rglob(f"{SERVER}.log")
    noted = [json.loads(line) for line in log.read_text().splitlines()]
    asked = {(one["verdict"], one["host"]) for one in noted if one["event"] == "sandbox egress"}
    assert asked >= {("allowed", "site.test"), ("refused", "evil.test")}
    assert all(one["sandbox_id"] == box.id and "timestamp" in one for one in noted)
    await box.stop(SERVER)
    await until(lambda: leftovers.holders() == leftovers.proxies() == [])
    inside = Path(box.record.preview_socket).with_name("in")
    assert [name.split("-")[0] for name in os.listdir(inside)] == ["a"], "where it dials its owner, and no way out"
    await tmux.launch("last", "sleep 600")
    [holder] = leftovers.holders()
    os.kill(holder, signal.SIGSTOP)  # one that does not notice anything goes with the sandbox all the same
    await provider.destroy(box.id)
    assert leftovers.holders() == leftovers.proxies() == []
