"""What sets E2B apart from a sandbox on this machine: its lifetime, its refusals, broken connections, other tenants."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psutil
import pytest
from e2b import AsyncSandbox

from koda_ray.config import Settings
from koda_ray.errors import (
    CommandTimeout,
    InvalidInput,
    KodaError,
    SandboxNotFound,
)
from koda_ray.sandbox.desktop import DESKTOP_PORT
from koda_ray.sandbox.e2b import E2BProvider
from koda_ray.sandbox.e2b_sandbox import E2BSandbox
from koda_ray.sandbox.egress.rules import EgressRules
from koda_ray.sandbox.preview import answers_at
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.service import SandboxService, _warn_unkept, provider_from
from koda_ray.sandbox.workshop import Workshop
from koda_ray.state.json_store import JSONStore
from koda_ray.types import new_id
from tests.sandbox.e2b import box, cloud_of, make, no_task_is_left, provider, provider_of, server, until
from tests.sandbox.e2b_server import API_KEY, E2BServer

__all__ = ["box", "no_task_is_left", "provider", "server"]

pytestmark = pytest.mark.needs("e2b")


LIFETIME_S = 6
"""Long enough for a busy machine to renew it in time."""


# what it is made with


async def test_it_is_ours_closed_and_of_a_known_lifetime(server: E2BServer) -> None:
    box = await make(
        provider_of(server, lifetime_s=1234, egress=EgressRules(hosts=("registry.npmjs.org",)), deployment="d1")
    )
    wanted = server.of(box.id).wanted
    metadata = dict(wanted.metadata)
    owner = metadata.pop("koda_owner")
    assert metadata == {
        "koda_sandbox_id": box.id, "koda_session_id": "ses_a", "koda_user_id": "usr_a", "koda_deployment": "d1"
    }  # fmt: skip
    assert owner.startswith(f"{os.getpid()}.")
    assert (wanted.timeout, wanted.auto_pause) == (1234, False)
    network = wanted.network.to_dict()  # type: ignore[union-attr]
    assert network["denyOut"] == ["0.0.0.0/0"] and network["allowOut"] == ["registry.npmjs.org"]
    assert network["allowPublicTraffic"] is False


async def test_commands_have_no_rights_and_no_network(box: E2BSandbox) -> None:
    script = (
        "grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs)' /proc/self/status; cat /proc/net/dev; ls /proc | grep -c '^[0-9]'"
    )
    said = (await box.run(("sh", "-c", script))).stdout
    lines = {line.split(":")[0]: line.split()[1:] for line in said.splitlines() if ":" in line}
    assert len(set(lines["Uid"])) == 1 and lines["Uid"][0] != "0"
    assert lines["CapEff"] == lines["CapBnd"] == ["0000000000000000"] and lines["NoNewPrivs"] == ["1"]
    assert "eth0" not in said and int(said.split()[-1]) < 8


@pytest.mark.full
async def test_the_project_cannot_touch_what_serves_us(box: E2BSandbox) -> None:
    await box.start("kept", ("sleep", "60"))
    attack = """
        rm -rf /opt/koda; mv /opt/koda /opt/other; echo 1 > /opt/koda/processes/kept/exit
        cat /opt/koda/processes/kept/*
        echo 'exit 3' > /home/user/.profile; echo 'exit 4' > /home/user/.bash_profile
        for pid in $(seq 1 300); do [ $pid = $$ ] || kill -9 $pid; done
        echo tried
    """
    await box.write_files({"scripts/attack.js": attack.encode()})
    done = await box.run(("sh", "scripts/attack.js"))
    assert done.stdout == "tried\n" and "Permission denied" in done.stderr
    assert [process.running for process in await box.processes()] == [True]
    await box.write_files({"src/a.ts": b"1"})
    assert (await box.run(("cat", "src/a.ts"))).stdout == "1"


@pytest.mark.full
async def test_a_fork_bomb_meets_the_limit(box: E2BSandbox, server: E2BServer) -> None:
    script = "for (let n = 0; n < 200; n++) require('child_process').spawn('sleep', ['600']).on('error', () => {})"
    most = 0
    for limit_s in (2, 10, 50):  # how soon it has begun is the machine's business
        running = asyncio.create_task(box.run(("node", "-e", script), timeout_s=limit_s))
        while not running.done():
            most = max(most, len(server.of(box.id).machine.pids))
            await asyncio.sleep(0.02)
        assert isinstance(running.exception(), CommandTimeout)
        if most > 10:
            break
    assert 10 < most <= 64 + 8  # the limit, and what serves us
    await until(lambda: small(server, box))
    assert (await box.run(("echo", "well"))).stdout == "well\n"


async def small(server: E2BServer, box: E2BSandbox) -> bool:
    return len(server.of(box.id).machine.pids) < 5


# large and many


@pytest.mark.full
async def test_many_and_large_files_take_few_requests(box: E2BSandbox, server: E2BServer) -> None:
    files = {f"src/many/{number:04}.ts": b"x" * 4096 for number in range(1000)}
    files["public/large.bin"] = os.urandom(3_000_000)
    before = len(server.gateway.seen)
    await box.write_files(files)
    assert len(server.gateway.seen) - before <= 2 and _received(server, since=before) > 7_000_000
    await asyncio.sleep(0.05)  # longer than the time for which a fresh file is distrusted
    taken = await box.snapshot()
    assert {path: taken.changed[path] for path in files} == files
    settled = await box.snapshot(known=taken.stamps)
    assert (await box.snapshot(known=settled.stamps)).changed == {}
    assert await box.read_files(list(files)) == files
    await box.remove("src/many/0001.ts")
    before = len(server.gateway.seen)
    assert await box.restore(taken.changed) == 4096
    assert len(server.gateway.seen) - before <= 4 and _received(server, since=before) < 400_000  # names and digests
    await box.restore({"src/App.tsx": b"all that is left"})
    assert list((await box.snapshot()).changed) == ["src/App.tsx"]
    left = [path for path in (server.of(box.id).machine.folder / "opt" / "koda").rglob("*") if path.is_file()]
    assert [path.suffix for path in left] == [".pyz"]


def _received(server: E2BServer, *, since: int) -> int:
    return sum(int(seen.headers.get("content-length", "0")) for seen in server.gateway.seen[since:])


@pytest.mark.full
async def test_endless_output_of_a_background_process_stays_small(box: E2BSandbox, server: E2BServer) -> None:
    await box.start("loud", ("sh", "-c", "yes 0123456789 | head -c 40000000; echo last"))

    async def ended() -> bool:
        return not (await box.processes())[0].running

    await until(ended)
    assert (await box.output("loud")).endswith("last\n")
    folder = server.of(box.id).machine.folder / "opt" / "koda" / "processes" / "loud"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 700_000


# its life


@pytest.mark.full
async def test_it_lives_while_it_is_used_and_not_longer(server: E2BServer) -> None:
    box = await make(provider_of(server, lifetime_s=LIFETIME_S))
    done = await box.run(("sh", "-c", f"sleep {LIFETIME_S + 2}; echo still here"), timeout_s=60)
    assert done.stdout == "still here\n"
    await until(lambda: gone(server, box))
    for call in (box.read_file("src/App.tsx"), box.run(("true",)), box.start_preview()):
        with pytest.raises(SandboxNotFound, match="restore the last checkpoint"):
            await call
    assert not await box.is_alive()


@pytest.mark.full
async def test_a_page_that_somebody_looks_at_keeps_it(server: E2BServer) -> None:
    box = await make(provider_of(server, lifetime_s=LIFETIME_S))
    serve = b"require('http').createServer((q, s) => s.end('page')).listen(5173, '0.0.0.0')\n"
    await box.write_files({"scripts/serve.cjs": serve})
    await box.start("server", ("node", "scripts/serve.cjs"), network=True)
    await until(lambda: answers_at(box.endpoint(5173)))
    await box.start_preview()
    await asyncio.sleep(LIFETIME_S + 2)
    assert not await gone(server, box)
    await box.stop("preview")
    await until(lambda: gone(server, box))


async def gone(server: E2BServer, box: E2BSandbox) -> bool:
    return box.provider_id not in server.kept


@pytest.mark.full
async def test_one_that_e2b_paused_goes_on_where_it_was(server: E2BServer) -> None:
    provider = provider_of(server, lifetime_s=LIFETIME_S, on_timeout="pause")
    box = await make(provider)
    await box.write_files({"src/kept.ts": b"kept"})
    info = await box.start("kept", ("sleep", "600"))
    await until(lambda: paused(server, box))
    assert await box.is_alive()
    assert [(listed.id, listed.alive, listed.paused) for listed in await provider.list()] == [(box.id, False, True)]
    assert await box.read_file("src/kept.ts") == b"kept"
    assert [(listed.alive, listed.paused) for listed in await provider.list()] == [(True, False)]
    assert [(process.pid, process.running) for process in await box.processes()] == [(info.pid, True)]


async def paused(server: E2BServer, box: E2BSandbox) -> bool:
    return server.of(box.id).machine.paused


async def test_a_pause_is_only_an_optimisation(server: E2BServer, provider: E2BProvider, box: E2BSandbox) -> None:
    await box.pause()
    assert server.of(box.id).machine.paused
    assert (await box.run(("echo", "awake"))).stdout == "awake\n"
    await box.pause()
    await server.end(box.provider_id)
    with pytest.raises(SandboxNotFound):
        await box.run(("true",))
    with pytest.raises(SandboxNotFound):
        await provider.connect(box.id)


async def test_one_that_vanishes_in_the_middle_is_not_found(server: E2BServer, box: E2BSandbox) -> None:
    running = asyncio.create_task(box.run(("sh", "-c", "echo begun > src/begun.ts; sleep 60"), timeout_s=90))
    await until(lambda: exists(box, "src/begun.ts"))
    await server.end(box.provider_id)
    with pytest.raises(SandboxNotFound) as caught:
        await running
    assert caught.value.retryable and caught.value.context["sandbox_id"] == box.id
    with pytest.raises(SandboxNotFound):
        await box.write_files({"src/a.ts": b""})


@pytest.mark.full
async def test_what_another_process_started_is_found_again(server: E2BServer) -> None:
    box = await make(provider_of(server, deployment="shared"))
    await box.start("ticker", ("sh", "-c", "while :; do echo tick; sleep 0.02; done"))
    again = await provider_of(server, deployment="shared").connect(box.id)
    await until(lambda: prints(again, "ticker", "tick"))
    await again.stop("ticker")
    assert await box.processes() == []


@pytest.mark.full
async def test_a_killed_owner_leaves_what_the_reaper_knows(server: E2BServer) -> None:
    script = (
        "import asyncio, sys\n"
        "from koda_ray.sandbox.e2b import E2BProvider\n"
        "from koda_ray.sandbox.e2b_cloud import E2BCloud\n"
        "async def main():\n"
        f"    cloud = E2BCloud(api_key='{API_KEY}', api_url='{server.url}', sandbox_url='{server.url}')\n"
        "    p = E2BProvider(cloud, template='koda', deployment='reaped')\n"
        f"    box = await p.create(sandbox_id='{new_id('sbx')}', session_id='s', user_id='u')\n"
        "    await box.start('kept', ('sleep', '600'))\n"
        "    print(box.id, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    name = (await owner.stdout.readline()).decode().strip()
    provider = provider_of(server, deployment="reaped")
    mine = await make(provider)
    assert {info.id: info.owner_alive for info in await provider.list()} == {name: True, mine.id: True}
    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    processes = [psutil.Process(pid) for pid in server.of(name).machine.pids]
    assert {info.id: info.owner_alive for info in await provider.list()} == {name: False, mine.id: True}
    assert await SandboxService(provider).reap([]) == [name]
    assert not psutil.wait_procs(processes, 10)[1]
    assert [info.id for info in await provider.list()] == [mine.id]


async def test_what_another_deployment_made_is_left_alone(server: E2BServer, provider: E2BProvider) -> None:
    theirs = await make(provider_of(server, deployment="theirs"))
    assert await provider.list() == []
    with pytest.raises(SandboxNotFound):
        await provider.connect(theirs.id)
    await provider.destroy(theirs.id)
    assert await SandboxService(provider).reap([]) == []
    assert await theirs.is_alive()


@pytest.mark.full
async def test_a_long_list_comes_in_pages(server: E2BServer, provider: E2BProvider) -> None:
    made = await asyncio.gather(*(make(provider) for _ in range(5)))
    server.page = 2
    assert [info.id for info in await provider.list()] == sorted(box.id for box in made)


@pytest.mark.full
async def test_many_made_and_ended_leave_nothing(server: E2BServer, provider: E2BProvider) -> None:
    descriptors, children = len(os.listdir("/proc/self/fd")), len(psutil.Process().children(recursive=True))

    async def whole_life(number: int) -> None:
        box = await make(provider)
        await box.start("kept", ("sleep", "600"))
        assert (await box.run(("echo", str(number)))).stdout == f"{number}\n"
        await box.destroy()

    for _ in range(3):
        await asyncio.gather(*(whole_life(number) for number in range(4)))
    assert (server.kept, await provider.list()) == ({}, [])
    assert len(psutil.Process().children(recursive=True)) == children
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 8  # the SDK keeps connections for the next


# from outside


async def test_a_port_is_open_to_whoever_has_its_token(server: E2BServer, box: E2BSandbox) -> None:
    assert not await streams(box)
    script = "require('http').createServer((q, s) => s.end(q.headers.host)).listen(6080, '0.0.0.0')"
    await box.start("desktop", ("node", "-e", script), network=True)
    await until(lambda: streams(box))
    endpoint = await box.reach(DESKTOP_PORT, of="desktop")
    assert endpoint.url is not None
    async with httpx.AsyncClient(base_url=endpoint.url, timeout=60) as client:
        assert (await client.get("/", headers=dict(endpoint.headers))).text == "localhost:6080"
        without = {name: text for name, text in endpoint.headers.items() if "token" not in name}
        assert (await client.get("/", headers=without)).status_code == 403


async def streams(box: E2BSandbox) -> bool:
    return await answers_at(await box.reach(DESKTOP_PORT, of="desktop"))


async def test_each_sandbox_has_a_host_name_in_the_cloud(server: E2BServer) -> None:
    box = await make(provider_of(server))
    here = box.endpoint(5173)
    assert here.url == server.url and here.headers["e2b-sandbox-port"] == "5173"
    cloud = cloud_of(server)
    machine = await AsyncSandbox.connect(box.provider_id, **cloud.params)
    there = replace(cloud, sandbox_url=None).endpoint(machine, 5173)  # as in E2B's own, whose names no test can resolve
    assert there.url == f"https://5173-{box.provider_id}.e2b.test"
    assert set(there.headers) == {"e2b-traffic-access-token"}


# settings


def test_settings_make_the_provider() -> None:
    with pytest.raises(InvalidInput, match="E2B_API_KEY"):
        Settings.model_validate({"SANDBOX_PROVIDER": "e2b"})
    settings = Settings.model_validate({"SANDBOX_PROVIDER": "e2b", "E2B_API_KEY": API_KEY})
    provider = provider_from(settings, deployment="dep_test")
    assert isinstance(provider, E2BProvider) and provider.name == "e2b"
    assert API_KEY not in repr(settings)


def test_settings_that_nobody_holds_there_are_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"SANDBOX_PROVIDER": "e2b", "E2B_API_KEY": API_KEY, "SANDBOX_EGRESS_HOSTS": "example.com"}
    _warn_unkept.cache_clear()
    provider_from(Settings.model_validate(given), deployment="dep_test")
    assert "settings hold" not in "".join(capsys.readouterr())
    more = {"SANDBOX_EGRESS_DENIED": "198.51.100.0/24", "SANDBOX_EGRESS_SENT_MB": 8}
    for _ in range(2):
        provider_from(Settings.model_validate(given | more), deployment="dep_test")
    said = "".join(capsys.readouterr())
    assert said.count("SANDBOX_EGRESS_DENIED, SANDBOX_EGRESS_SENT_MB") == said.count("settings hold") == 1


async def exists(box: E2BSandbox, path: str) -> bool:
    try:
        return bool(await box.read_file(path))
    except KodaError:
        return False


async def prints(box: E2BSandbox, name: str, text: str) -> bool:
    return text in await box.output(name)


@pytest.mark.full
async def test_a_command_reaches_nothing_unless_it_asks(server: E2BServer, box: E2BSandbox) -> None:
    serve = "require('http').createServer((q, s) => s.end('page')).listen(6081, '0.0.0.0')"
    await box.start("server", ("node", "-e", serve), network=True)
    look = ("node", "-e", "fetch('http://127.0.0.1:6081/').then((a) => a.text()).then(console.log)")

    async def answered() -> bool:
        return (await box.run(look, network=True)).stdout == "page\n"

    await until(answered)
    refused = await box.run(look)
    assert refused.exit_code != 0 and "page" not in refused.stdout


@pytest.mark.full
async def test_a_persons_own_lives_for_as_long_as_they_say(server: E2BServer, tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "SANDBOX_PROVIDER": "e2b", "E2B_API_KEY": API_KEY, "E2B_API_URL": server.url,
            "E2B_SANDBOX_URL": server.url, "DATABASE_PATH": tmp_path / "koda.db",
        }
    )  # fmt: skip
    store = JSONStore(tmp_path / "store")
    providers = Providers(settings, store)
    await store.open()
    workshop = Workshop(store, providers, user_id="ann")

    def left_s(sandbox_id: str) -> float:
        return (server.of(sandbox_id).ends_at - datetime.now(UTC)).total_seconds()

    try:
        plain, long = await workshop.create_sandbox(), await workshop.create_sandbox(lifetime_s=9000)
        assert left_s(plain.id) <= 1800 < 8900 < left_s(long.id) <= 9000
        await workshop.extend(plain.id, 10_000)
        assert 9900 < left_s(plain.id) <= 10_000
        await workshop.terminate(plain.id)
        await workshop.terminate(long.id)
    finally:
        await providers.close()
        await store.close()
    assert server.kept == {}
