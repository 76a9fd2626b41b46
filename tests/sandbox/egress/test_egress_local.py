"""The way out of a local sandbox: what all share, a real npm with a registry, and who pays for and ends its proxy."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.errors import KodaError, SandboxNotFound
from koda_ray.sandbox import cgroup
from koda_ray.sandbox.egress.audit import EgressEvent
from koda_ray.sandbox.egress.rules import Egress, EgressLimits, EgressRules
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.conftest import MB
from tests.sandbox.egress.conformance import WayOutConformance, fetch
from tests.sandbox.egress.conftest import until
from tests.sandbox.egress.network import OK, PUBLIC, NameServer, upstream
from tests.sandbox.egress.registry import registry
from tests.sandbox.leftovers import Leftovers

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("netns")]


@pytest.fixture
def provider(boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits) -> LocalProvider:
    return LocalProvider(
        root=boxes,
        template=TemplateProject(folder=template, node_modules=node_modules),
        limits=limits,
        egress=Egress(
            rules=EgressRules.parse(["registry.test", "site.test"]),
            limits=EgressLimits(connections=16, received_bytes=MB),
        ),
    )


class TestLocal(WayOutConformance):
    """Each command in a network of its own."""

    way_out = "/opt/egress.sock"


@pytest.mark.needs("npm")
@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.full), "https"])
async def test_a_real_npm_installs_through_it(
    names: NameServer,
    sandbox: LocalSandbox,
    noted: list[EgressEvent],
    certificate: tuple[Path, Path],
    scheme: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    (tmp_path / "koda.db").write_text("very-secret rows")
    names.names["registry.test"] = [[PUBLIC]]
    await sandbox.write_files({"public/ca.txt": certificate[1].read_bytes()})
    install = (
        f"mkdir -p /tmp/p && cd /tmp/p && {shutil.which('npm')} install --no-audit --no-fund "
        f"--registry {scheme}://registry.test "
        "--cafile /home/user/project/public/ca.txt tiny@1.0.0 && node -p 'require(\"tiny\")' "
        "&& cat node_modules/tiny/stolen.txt >&2"
    )
    async with registry(scheme, certificate, reads=tmp_path / "koda.db") as asked:
        done = await sandbox.run(("sh", "-c", install), timeout_s=60, network=True)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "42"), done
    stolen = done.stderr
    assert "npm_package_name=tiny" in stolen and "very-secret" not in stolen and "root:" not in stolen
    assert "No such file" in stolen and "Uid:" in stolen and "Uid:\t0" not in stolen, "its script ran, and got nothing"
    assert asked == ["/tiny", "/tiny/-/tiny-1.0.0.tgz"]
    assert {(event.host, event.how) for event in noted} == {
        ("registry.test", "connect" if scheme == "https" else "http")
    }
    assert not any(event.verdict == "refused" for event in noted)


@pytest.mark.full
async def test_one_that_uses_everything_up_only_harms_itself(names: NameServer, sandbox: LocalSandbox) -> None:
    """The proxy is counted to the sandbox: what a flood of it costs is not this machine's."""
    flood = (
        "const net = require('net'); for (let n = 0; n < 2000; n++) "
        "net.connect(3128, '127.0.0.1').on('error', () => 0).write('GET http://evil.test/ HTTP/1.1\\r\\n\\r\\n');"
        "setTimeout(() => process.exit(), 1000)"
    )
    bomb = "bomb() { bomb | bomb & }; bomb; sleep 60"
    async with upstream(OK) as server:
        await sandbox.run(("node", "-e", flood), network=True)
        with suppress(KodaError):
            await sandbox.run(("sh", "-c", bomb), network=True, timeout_s=2.0)
        assert server.heard == []
        assert await fetch(sandbox, "http://site.test/") == ["200 hi"]
    assert sandbox.way_out.process is not None
    groups = [Path(group) for group in sandbox.record.groups]
    assert all(sandbox.way_out.process.pid in cgroup.pids((group,)) for group in groups)


async def test_where_memory_is_short_its_proxy_is_the_last_to_go(names: NameServer, sandbox: LocalSandbox) -> None:
    inside = await sandbox.run(("cat", "/proc/self/oom_score_adj"), network=True)
    assert sandbox.way_out.process is not None
    own = Path(f"/proc/{sandbox.way_out.process.pid}/oom_score_adj").read_text()
    assert int(own) < int(inside.stdout) == 700


@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
async def test_whoever_destroys_a_sandbox_ends_its_proxy(
    names: NameServer,
    boxes: Path,
    template: Path,
    node_modules: Path,
    limits: ResourceLimits,
    leftovers: Leftovers,
    soft: bool,
) -> None:
    rules = EgressRules.parse(["site.test"])
    owner, other = (
        LocalProvider(
            root=boxes,
            template=TemplateProject(folder=template, node_modules=node_modules),
            limits=replace(limits, soft=soft),
            egress=Egress(rules=rules),
        )
        for _ in range(2)
    )
    box = await owner.create(sandbox_id=leftovers.new_id(), session_id="ses_x", user_id="usr_x")
    async with upstream(OK):
        assert await fetch(box, "http://site.test/") == ["200 hi"]
    assert box.way_out.process is not None
    process = box.way_out.process
    await other.destroy(box.id)
    await until(lambda: not process.running)
    with pytest.raises(SandboxNotFound):
        await owner.connect(box.id)


_OWNER = """
import asyncio, json, sys
from pathlib import Path
from koda_ray.sandbox.egress.rules import Egress, EgressRules
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.conftest import small_limits
from tests.sandbox.conftest import MB
from tests.sandbox.egress.conformance import fetch

async def main():
    given = json.loads(sys.argv[1])
    provider = LocalProvider(
        root=Path(given["boxes"]),
        template=TemplateProject(folder=Path(given["template"]), node_modules=Path(given["node_modules"])),
        limits=small_limits(), egress=Egress(rules=EgressRules.parse(["site.test"])),
    )
    box = await provider.create(sandbox_id=given["id"], session_id="ses_a", user_id="usr_a")
    told = await fetch(box, "http://site.test/", "http://evil.test/", "http://127.0.0.1/")
    process = box.way_out.process
    if given["wait"]:
        print(f"pid {process.pid}", flush=True)
        await asyncio.sleep(600)
    await box.destroy()
    print(json.dumps([line[:3] for line in told]), process.running, process.last_lines)

asyncio.run(main())
"""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}


async def _owner(
    boxes: Path,
    template: Path,
    node_modules: Path,
    name: str,
    *,
    python: Sequence[str] = (sys.executable,),
    wait: bool,
) -> asyncio.subprocess.Process:
    given = {
        "boxes": str(boxes), "template": str(template), "node_modules": str(node_modules), "id": name, "wait": wait
    }  # fmt: skip
    return await asyncio.create_subprocess_exec(
        *python, "-c", _OWNER, json.dumps(given), cwd=REPO_ROOT, env=_environment(), stdout=asyncio.subprocess.PIPE
    )


@pytest.mark.full
async def test_a_killed_owner_takes_the_proxy_along(
    names: NameServer, boxes: Path, template: Path, node_modules: Path, leftovers: Leftovers, provider: LocalProvider
) -> None:
    name = leftovers.new_id()
    async with upstream(OK):
        owner = await _owner(boxes, template, node_modules, name, wait=True)
        assert owner.stdout is not None
        while not (line := await owner.stdout.readline()).startswith(b"pid "):
            assert line
        pid = int(line.split()[1])
        assert psutil.pid_exists(pid)
        owner.kill()
        await owner.wait()
        await until(lambda: not psutil.pid_exists(pid))
        box = await provider.connect(name)
        assert await fetch(box, "http://site.test/") == ["200 hi"]
        await box.destroy()


_NOBODY = 65534
_PROBE = "import subprocess, sys, koda_ray.config; subprocess.run([sys.executable, '-c', ''], check=True)"


@pytest.fixture
def as_nobody() -> list[str]:
    """The beginning of a command line for a Python that an ordinary user may run, and run again."""
    drop = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--inh-caps=-all"]
    for python in (sys.executable, "/usr/bin/python3"):
        probe = subprocess.run([*drop, python, "-c", _PROBE], cwd="/", env=_environment(), check=False)
        if probe.returncode == 0:
            return [*drop, python]
    pytest.skip(f"needs a Python and a repository that others may read; {sys.executable} is not")


@pytest.mark.full
async def test_an_ordinary_user_has_the_same_way_out(
    names: NameServer, template: Path, node_modules: Path, leftovers: Leftovers, folder: Path, as_nobody: list[str]
) -> None:
    os.chown(folder, _NOBODY, _NOBODY)
    for path in (template, *template.parents):
        if path.is_relative_to(tempfile.gettempdir()):
            path.chmod(path.stat().st_mode | 0o055)
    async with upstream(OK) as server:
        name = leftovers.new_id()
        owner = await _owner(folder / "boxes", template, node_modules, name, python=as_nobody, wait=False)
        said, _ = await owner.communicate()
    assert said.decode().splitlines()[-1] == '["200", "403", "403"] False '
    assert len(server.heard) == 1
