"""Containers from outside: how they are closed, who owns them, how their end is told, and what a lost owner leaves."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from koda_ray.config import REPO_ROOT, Settings
from koda_ray.errors import CommandTimeout, InvalidInput, QuotaExceeded, SandboxError, SandboxNotFound, TemplateNotFound
from koda_ray.sandbox import docker_sandbox, docker_way_in
from koda_ray.sandbox.decoys import DECOYS
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from koda_ray.sandbox.engine import Engine
from koda_ray.sandbox.engine_filter import asking_profile
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.record import Record
from koda_ray.sandbox.service import SandboxService, provider_from
from tests.sandbox.begun import timed_out
from tests.sandbox.conftest import MB, Base, database_of
from tests.sandbox.leftovers import DockerLeftovers
from tests.sandbox.refusals import refusals

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("docker")]


@pytest.fixture
def engine(docker_address: str) -> Iterator[Any]:
    client = docker.APIClient(base_url=docker_address, version="auto")
    yield client
    client.close()


async def sh(sandbox: DockerSandbox, text: str, *, timeout_s: float = 60.0) -> str:
    done = await sandbox.run(("sh", "-c", text), timeout_s=timeout_s)
    return done.stdout + done.stderr


# walls


async def test_the_engine_is_asked_for_every_wall(docker_box: DockerSandbox, engine: Any, boxes: Path) -> None:
    found = engine.inspect_container(f"koda-{docker_box.id}")
    host = found["HostConfig"]
    assert found["Config"]["User"] == "1000:1000" and host["ReadonlyRootfs"] and not host["Privileged"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    privileges, calls = host["SecurityOpt"]
    assert privileges == "no-new-privileges" and calls == f"seccomp={asking_profile()}"
    assert host["NetworkMode"] == "none" and not host["PortBindings"] and not found["NetworkSettings"]["Ports"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (512 * MB, 512 * MB, 64)
    assert host["NanoCpus"] == 2e9 and host["IpcMode"] == "private" and not host["PidMode"] and not host["Devices"]
    beside_others = "/" if engine.info()["CgroupDriver"] == "cgroupfs" else ""  # not in one group with all containers
    assert (host["CpuShares"], host["CgroupParent"]) == (2048, beside_others)
    binds = {each["Destination"]: each for each in found["Mounts"]}
    bind = binds.pop("/run/koda")
    assert not bind["RW"]
    assert binds.keys() == ({str(boxes), str(database_of(boxes))} if os.geteuid() == 0 else set()), "bait"
    for each in binds.values():
        assert Path(each["Source"]).is_relative_to(boxes / "docker" / docker_box.id / DECOYS)
        there = Path(each["Source"]).stat()
        assert there.st_uid == 0 and not there.st_mode & 0o022, "nobody inside may change it"
    [name] = os.listdir(str(bind["Source"]))
    assert re.fullmatch(r"a-[0-9a-f]{6}\.sock", name)
    assert found["Config"]["Labels"]["koda.sandbox"] == docker_box.id
    assert (boxes / "docker" / docker_box.id).stat().st_mode & 0o777 == 0o700


async def test_only_the_project_and_scratch_can_be_written_and_are_bounded(docker_box: DockerSandbox) -> None:
    mounts = [line.split() for line in (await sh(docker_box, "cat /proc/self/mounts")).splitlines()]
    options = {words[1]: words[3].split(",") for words in mounts}
    assert options["/"][0] == "ro" and options["/run/koda"][0] == "ro"
    for path, size_kb in (("/home/user/project", 65536), ("/home/user", 16384), ("/tmp", 16384), ("/dev/shm", 32768)):
        assert {"rw", "nosuid", "nodev", f"size={size_kb}k"} <= set(options[path]), path
    assert "nr_inodes=16384" in options["/home/user/project"] or "nr_inodes=16k" in options["/home/user/project"]
    assert (await sh(docker_box, "cat /etc/resolv.conf")).split() == ["nameserver", "127.0.0.1"]


async def test_both_filters_of_system_calls_hold(docker_box: DockerSandbox) -> None:
    status = await sh(docker_box, "cat /proc/self/status")
    assert "Seccomp_filters:\t2" in status


async def test_the_first_process_cannot_be_looked_into_or_ended(docker_box: DockerSandbox) -> None:
    for name in ("mem", "maps", "fd/", "cwd/", "root/"):
        assert "ermission denied" in await sh(docker_box, f"ls /proc/1/{name} >/dev/null && cat /proc/1/{name}"), name
    assert await sh(docker_box, "cat /proc/1/environ") == "This is no environment. That it was read is written down.\n"
    await docker_box.start("sleeper", ("sleep", "600"))
    done = await docker_box.run(("sh", "-c", "for n in $(seq 64); do kill -$n 1 2>/dev/null; done; echo sent"))
    assert done.stdout == "sent\n"
    await docker_box.run(("sh", "-c", "kill -9 -1; sleep 600"), timeout_s=60)
    assert await sh(docker_box, "echo alive") == "alive\n"
    [sleeper] = await docker_box.processes()
    assert (sleeper.running, sleeper.exit_code) == (False, 137)


async def test_signals_cannot_end_it_while_it_starts_a_command_either(docker_box: DockerSandbox) -> None:
    """The first thread blocks them then; on kernels that give them to another one, what is not ignored ends it."""
    hail = "while :; do for n in $(seq 64); do kill -$n 1 2>/dev/null; done; done"
    await docker_box.start("hail", ("sh", "-c", hail))
    for number in range(20):
        assert await sh(docker_box, f"echo {number}") == f"{number}\n"
    [hailing] = await docker_box.processes()
    assert hailing.running
    # on other kernels the hail shows nothing
    unheard, caught = [await _signals(docker_box, "1", name) for name in ("SigIgn", "SigCgt")]
    assert unheard | caught >= set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP}


async def test_commands_hear_what_the_first_process_does_not(docker_box: DockerSandbox) -> None:
    of_libc = {32, 33}  # which leaves them ignored wherever it starts a process by itself
    assert await _signals(docker_box, "self", "SigIgn") <= of_libc
    assert await _signals(docker_box, "self", "SigBlk") == set()


async def _signals(sandbox: DockerSandbox, process: str, name: str) -> set[int]:
    [line] = (await sh(sandbox, f"grep {name} /proc/{process}/status")).splitlines()
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


@pytest.mark.full
async def test_nothing_inside_can_answer_for_the_first_process(docker_box: DockerSandbox) -> None:
    dial = """
      const net = require("node:net");
      const [name] = require("node:fs").readdirSync("/run/koda");
      for (let n = 0; n < 200; n++) {
        const s = net.connect(`/run/koda/${name}`);
        s.on("error", () => {});
        s.on("data", (data) => console.log("WAS ASKED " + data));
        s.write(n % 2 ? "0".repeat(64) : "half");
      }
      setTimeout(() => process.exit(), 5000);
    """
    await docker_box.start("liar", ("node", "-e", dial))
    for number in range(40):
        await docker_box.write_files({"src/a.ts": str(number).encode()})
        assert await docker_box.read_file("src/a.ts") == str(number).encode()
        assert await sh(docker_box, f"echo {number}") == f"{number}\n"
    assert "WAS ASKED" not in await docker_box.output("liar")
    for attack in ("rm /run/koda/a-*", "mv /run/koda/a-* /tmp", "ln -s /x /run/koda/b", "mkdir /run/koda/c"):
        assert (await docker_box.run(("sh", "-c", attack))).exit_code != 0


async def test_what_somebody_installs_is_left_alone(docker_box: DockerSandbox) -> None:
    look = ("node", "-p", "require('left-pad')('x')")
    assert (await docker_box.run(look)).stdout == " x\n"
    own = "mkdir -p node_modules/left-pad && echo 'module.exports = () => 7' > node_modules/left-pad/index.js"
    await sh(docker_box, f"rm node_modules && {own}")
    for _ in range(2):
        assert (await docker_box.run(look)).stdout == "7\n"
    await docker_box.start("server", ("sleep", "600"))
    assert (await docker_box.run(look)).stdout == "7\n"
    await sh(docker_box, "rm -rf node_modules")  # and this is the way back
    assert (await docker_box.run(look)).stdout == " x\n"


# whole trees


@pytest.mark.parametrize("end", ["kill -9 $PPID", "kill -STOP $PPID; echo >src/stopped.ts; sleep 600", "kill -9 -1"])
@pytest.mark.full
async def test_a_command_that_ends_its_own_keeper_leaves_nothing(docker_box: DockerSandbox, end: str) -> None:
    daemon = "(setsid sh -c 'while :; do date +%s%N > src/beat.ts; sleep 0.02; done' >/dev/null 2>&1 &)"
    script = ("sh", "-c", f"{daemon}; while [ ! -s src/beat.ts ]; do sleep 0.02; done; {end}")
    if "STOP" in end:
        await timed_out(docker_box, script, begun=["src/stopped.ts"])
    else:
        await docker_box.run(script, timeout_s=60)
    last = await docker_box.read_file("src/beat.ts")
    await asyncio.sleep(0.2)
    assert await docker_box.read_file("src/beat.ts") == last
    assert await _pids(docker_box) <= 4


@pytest.mark.full
async def test_a_bomb_of_daemons_is_swept_up(docker_box: DockerSandbox) -> None:
    bomb = "bomb() { setsid sh -c 'while :; do (sleep 0.01 &) ; done' & bomb | bomb & }; bomb; sleep 600"
    with pytest.raises(CommandTimeout):
        await docker_box.run(("bash", "-c", bomb), timeout_s=1.5)
    assert await _pids(docker_box) <= 4


async def test_orphans_are_reaped(docker_box: DockerSandbox) -> None:
    look = (
        "for n in $(seq 200); do grep -q ') Z ' /proc/[0-9]*/stat 2>/dev/null || { echo none; exit; }; sleep 0.05; done"
    )
    text = await sh(docker_box, f"for n in $(seq 300); do (sh -c 'sleep 0.001 &'); done; {look}", timeout_s=60)
    assert text == "none\n"


async def _pids(sandbox: DockerSandbox) -> int:
    return len((await sh(sandbox, "ls -d /proc/[0-9]*")).split()) - 1  # without ls itself


# how it ended


@pytest.mark.full
async def test_what_ended_a_container_is_told_apart(
    boxes: Path,
    docker_address: str,
    docker_image: str,
    docker_leftovers: DockerLeftovers,
    engine: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tight = ResourceLimits(memory_bytes=64 * MB, pids=64, disk_bytes=64 * MB, scratch_bytes=32 * MB)
    provider = DockerProvider(root=boxes, image=docker_image, plan=ContainerPlan(limits=tight), address=docker_address)
    first, second, third = [
        await provider.create(sandbox_id=docker_leftovers.new_id(), session_id="ses_a", user_id="usr_a")
        for _ in range(3)
    ]
    for fill in ("head -c 25M /dev/zero > public/x", "head -c 30M /dev/zero > /tmp/x; head -c 30M /dev/zero > ~/x"):
        with suppress(QuotaExceeded, SandboxNotFound):
            await first.run(("sh", "-c", fill))
    with suppress(SandboxNotFound):
        await first.snapshot()  # files fill the memory, and reading them takes more
    with pytest.raises(SandboxNotFound) as caught:
        await first.read_file("package.json")
    assert caught.value.context["reason"] == "out_of_memory" and "memory limit" in caught.value.message
    assert "memory" in refusals(capsys, first.id)
    engine.kill(f"koda-{second.id}")
    with pytest.raises(SandboxNotFound) as caught:
        await second.run(("true",))
    assert (caught.value.context["reason"], caught.value.context["exit_code"]) == ("ended", 137)
    engine.remove_container(f"koda-{third.id}", force=True)
    with pytest.raises(SandboxNotFound) as caught:
        await third.list_files()
    assert caught.value.context["reason"] == "removed"
    assert [info.alive for info in await provider.list()] == [False, False, False]
    for sandbox in (first, second, third):
        with pytest.raises(SandboxNotFound):
            await provider.connect(sandbox.id)
        await sandbox.destroy()
    await provider.close()


@pytest.mark.timeout(150)
async def test_the_engine_can_stop_it_at_once(docker_box: DockerSandbox, engine: Any) -> None:
    engine.stop(f"koda-{docker_box.id}", timeout=600)  # the engine's patience is never needed
    assert not engine.inspect_container(f"koda-{docker_box.id}")["State"]["Running"]


async def test_a_terminal_that_nobody_opens_is_given_up(
    docker_box: DockerSandbox, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = engine.inspect_container(f"koda-{docker_box.id}")["State"]["Pid"]
    os.kill(first, signal.SIGSTOP)
    try:
        with (
            monkeypatch.context() as impatient,
            pytest.raises(SandboxError, match=r"opened no terminal within 0\.3 s.*try again") as caught,
        ):
            impatient.setattr(docker_sandbox, "_OPEN_TIMEOUT_S", 0.3)
            await docker_box.terminal(("true",))
    finally:
        os.kill(first, signal.SIGCONT)
    assert caught.value.retryable
    terminal = await docker_box.terminal(("echo", "there"))
    assert await terminal.read() == b"there\r\n"
    await terminal.close()


@pytest.mark.full
async def test_one_whose_first_process_does_not_answer_is_not_alive_and_may_be_again(
    docker_box: DockerSandbox, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = engine.inspect_container(f"koda-{docker_box.id}")["State"]["Pid"]
    os.kill(first, signal.SIGSTOP)
    try:
        monkeypatch.setattr(docker_way_in, "_ANSWER_S", 0.5)
        monkeypatch.setitem(inspect.unwrap(docker_way_in.WayIn.exchange).__kwdefaults__, "timeout_s", 0.5)
        assert not await docker_box.is_alive()
        with pytest.raises(SandboxError, match=r"does not answer.*destroy it") as caught:
            await docker_box.list_files()
        assert caught.value.code == "PROVIDER_ERROR" and caught.value.context["reason"] == "unresponsive"
    finally:
        os.kill(first, signal.SIGCONT)
        monkeypatch.undo()
    assert await docker_box.is_alive() and await sh(docker_box, "echo 1") == "1\n"


async def test_a_paused_one_is_not_alive(docker_box: DockerSandbox, engine: Any) -> None:
    engine.pause(f"koda-{docker_box.id}")
    try:
        assert not await docker_box.is_alive()
    finally:
        engine.unpause(f"koda-{docker_box.id}")
    assert await docker_box.is_alive() and await sh(docker_box, "echo 1") == "1\n"


# owners

_OWNER = """
import asyncio, json, sys
from pathlib import Path
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from tests.sandbox.conftest import Base, small_limits

async def main():
    given = json.loads(sys.argv[1])
    provider = DockerProvider(
        root=Path(given["boxes"]), image=given["image"], plan=ContainerPlan(limits=small_limits()),
        address=given["address"],
    )
    sandbox = await provider.create(sandbox_id=given["id"], session_id="ses_a", user_id="usr_a")
    await sandbox.write_files({"src/kept.ts": b"kept"})
    await sandbox.start("daemon", ("sh", "-c", "echo still here; exec sleep 600"))
    deaf = ("sh", "-c", "trap '' TERM; while :; do date +%s%N > src/beat.ts; sleep 0.02; done")
    command = asyncio.create_task(sandbox.run(deaf, timeout_s=600))
    while "src/beat.ts" not in [entry.path for entry in await sandbox.list_files("src")]:
        await asyncio.sleep(0.02)
    print("ready", flush=True)
    await command

asyncio.run(main())
"""


@pytest.fixture
def owner(
    boxes: Path, docker_address: str, docker_image: str, docker_leftovers: DockerLeftovers
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A process with a sandbox that runs a command and a background process."""
    given = {"boxes": str(boxes), "address": docker_address, "image": docker_image, "id": docker_leftovers.new_id()}
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER, json.dumps(given)], cwd=REPO_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield given["id"], process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.full
async def test_a_killed_owner_leaves_files_and_background_processes_and_no_command(
    owner: tuple[str, subprocess.Popen[str]], docker_provider: DockerProvider
) -> None:
    name, process = owner
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    [info] = await docker_provider.list()
    assert (info.id, info.alive, info.owner_alive) == (name, True, False)
    sandbox = await docker_provider.connect(name)
    assert await sandbox.read_file("src/kept.ts") == b"kept"
    assert [(one.name, one.running) for one in await sandbox.processes()] == [("daemon", True)]
    assert await sandbox.output("daemon") == "still here\n"
    async with asyncio.timeout(60):  # its command is ended as soon as its connection is
        while (last := await sandbox.read_file("src/beat.ts")) or True:
            await asyncio.sleep(0.2)
            if await sandbox.read_file("src/beat.ts") == last:
                break
    assert next(iter(await docker_provider.list())).owner_alive
    await sandbox.destroy()


@pytest.mark.full
async def test_two_owners_use_one_at_once(
    owner: tuple[str, subprocess.Popen[str]], docker_provider: DockerProvider, boxes: Path
) -> None:
    """One has a command that runs and a terminal that is open, while another comes, looks around, works, and goes."""
    name, process = owner
    record = Record.read(boxes / "docker" / name)
    assert record is not None
    inside = Path(record.preview_socket).with_name("in")
    [theirs] = os.listdir(inside)
    mine = await docker_provider.connect(name)
    terminal = await mine.terminal(("sh",))
    endless = asyncio.create_task(mine.run(("sleep", "600"), timeout_s=600))
    other = copy.copy(docker_provider)  # as another process is given it
    again = await other.connect(name)
    for number in range(3):
        await again.write_files({"src/a.ts": str(number).encode()})
        assert await mine.read_file("src/a.ts") == str(number).encode()
    assert [one.name for one in await again.processes()] == ["daemon"]
    assert len(os.listdir(inside)) == 3
    await other.close()
    await terminal.write(b"echo still-$((40 + 2))\n")
    seen = b""
    async with asyncio.timeout(60):
        while b"still-42" not in seen:
            seen += await terminal.read()
    beat = await mine.read_file("src/beat.ts")
    async with asyncio.timeout(60):  # the first owner's command goes on all the while
        while await mine.read_file("src/beat.ts") == beat:
            await asyncio.sleep(0.02)
    assert not endless.done() and process.poll() is None
    process.kill()
    process.wait()
    assert await sh(mine, "cat src/a.ts") == "2"
    assert theirs in os.listdir(inside)  # a killed owner removes nothing
    third = copy.copy(docker_provider)
    await third.connect(name)
    assert theirs not in os.listdir(inside) and len(os.listdir(inside)) == 2  # but whoever comes next does
    await third.close()
    await terminal.close()
    endless.cancel()
    await asyncio.wait({endless})
    await mine.destroy()


async def test_the_reaper_takes_what_nobody_owns_and_nothing_else(
    owner: tuple[str, subprocess.Popen[str]],
    docker_provider: DockerProvider,
    docker_image: str,
    docker_leftovers: DockerLeftovers,
    engine: Any,
) -> None:
    name, process = owner
    service = SandboxService(docker_provider)
    mine = await docker_provider.create(sandbox_id=docker_leftovers.new_id(), session_id="ses_b", user_id="usr_b")
    foreign_id = docker_leftovers.new_id()
    labels = {"koda.sandbox": foreign_id, "koda.installation": "another's"}
    foreign = f"koda-{foreign_id}"
    engine.create_container(docker_image, name=foreign, labels=labels, command=["true"])
    try:
        assert await service.reap([]) == []  # both are young and their owners live
        process.kill()
        process.wait()
        assert await service.reap([name]) == []  # a row says that its session still wants it
        assert await service.reap([]) == [name]
        await docker_provider.destroy(foreign_id)
        with pytest.raises(SandboxNotFound):
            await docker_provider.connect(foreign_id)
        assert engine.inspect_container(foreign)["State"]["Status"] == "created"
        with pytest.raises(SandboxError):  # the name is taken, and what took it is not ours to remove
            await docker_provider.create(sandbox_id=foreign_id, session_id="ses_b", user_id="usr_b")
        assert engine.inspect_container(foreign)["State"]["Status"] == "created"
        assert [info.id for info in await docker_provider.list()] == [mine.id]
    finally:
        engine.remove_container(foreign, force=True)
    await mine.destroy()


async def test_what_was_half_made_is_found_and_removed(
    docker_provider: DockerProvider, boxes: Path, docker_image: str, docker_leftovers: DockerLeftovers, engine: Any
) -> None:
    warm = await docker_provider.create(sandbox_id=docker_leftovers.new_id(), session_id="ses_a", user_id="usr_a")
    ours = engine.inspect_container(f"koda-{warm.id}")["Config"]["Labels"]["koda.installation"]
    await warm.destroy()
    never_started, never_made = docker_leftovers.new_id(), docker_leftovers.new_id()
    labels = {"koda.sandbox": never_started, "koda.installation": ours}
    engine.create_container(docker_image, name=f"koda-{never_started}", labels=labels, command=["true"])
    (boxes / "docker" / never_made / "in").mkdir(parents=True)
    assert [(info.id, info.alive, info.owner_alive) for info in await docker_provider.list()] == [
        (never_started, False, False), (never_made, False, False)
    ]  # fmt: skip
    sandbox = await docker_provider.create(sandbox_id=never_started, session_id="ses_a", user_id="usr_a")
    assert await sandbox.read_file("public/logo.svg") == b"<svg/>\n"
    assert await SandboxService(docker_provider).reap([never_started]) == [never_made]
    await sandbox.destroy()


@pytest.mark.parametrize("after_s", [0.0, 0.15, *(pytest.param(s, marks=pytest.mark.full) for s in (0.02, 0.08, 0.25))])
async def test_a_creation_that_is_cancelled_leaves_nothing(
    docker_provider: DockerProvider, boxes: Path, docker_leftovers: DockerLeftovers, after_s: float
) -> None:
    name = docker_leftovers.new_id()
    creating = asyncio.create_task(docker_provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a"))
    await asyncio.sleep(after_s)
    creating.cancel()
    try:
        await creating
    except asyncio.CancelledError:
        assert await docker_provider.list() == []
        assert not (boxes / "docker" / name).exists()
    else:  # it was there before the word to stop it
        await docker_provider.destroy(name)


@pytest.mark.full
async def test_twenty_made_and_destroyed_leave_nothing(
    docker_provider: DockerProvider, docker_leftovers: DockerLeftovers
) -> None:
    async def once() -> None:
        name = docker_leftovers.new_id()
        sandbox = await docker_provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a")
        await sandbox.start("sleeper", ("sleep", "600"))
        await sandbox.destroy()

    for _ in range(4):
        await asyncio.gather(*(once() for _ in range(5)))
    assert await docker_provider.list() == []


# what is missing, and which provider is taken


async def test_without_the_image_or_the_engine_it_says_what_to_do(
    boxes: Path, docker_address: str, docker_base: Base, tmp_path: Path, engine: Any, docker_leftovers: DockerLeftovers
) -> None:
    name = docker_leftovers.new_id()
    given = {"sandbox_id": name, "session_id": "ses_a", "user_id": "usr_a"}
    provider = DockerProvider(root=boxes, image="koda-test/none:1", address=docker_address)
    with pytest.raises(TemplateNotFound, match=r"koda-test/none:1.*koda image build"):
        await provider.create(**given)
    await provider.close()
    other = DockerProvider(root=boxes, image=docker_base.name, address=docker_address)
    with pytest.raises(TemplateNotFound, match="another version"):
        await other.create(**given)
    with pytest.raises(InvalidInput):
        await other.create(sandbox_id="../x", session_id="ses_a", user_id="usr_a")
    await other.close()
    nobody = DockerProvider(root=boxes, image="koda-test/none:1", address=f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(SandboxError, match="no Docker engine answers") as caught:
        await nobody.create(**given)
    assert caught.value.code == "PROVIDER_ERROR"
    await nobody.close()


async def test_what_the_engine_refuses_comes_with_the_way_out(
    boxes: Path, docker_address: str, docker_image: str, docker_leftovers: DockerLeftovers
) -> None:
    unknown = DockerProvider(
        root=boxes, image=docker_image, plan=ContainerPlan(runtime="none-such"), address=docker_address
    )
    with pytest.raises(SandboxError, match=r"make a container: .*none-such.*unset SANDBOX_RUNTIME") as caught:
        await unknown.create(sandbox_id=docker_leftovers.new_id(), session_id="ses_a", user_id="usr_a")
    assert docker_address in caught.value.message
    await unknown.close()
    engine = Engine(docker_address)
    with pytest.raises(SandboxError, match=r"start a container: .*none-such.*make another"):
        await engine.start("koda-none-such")
    plan = ContainerPlan(limits=ResourceLimits(), runtime=None)
    with pytest.raises(SandboxError, match=r"none/such.*koda image build"):
        await engine.create(
            plan.spec("sbx_none", image="none/such:1", secret="", labels={}, folder=str(boxes), known=True)
        )
    await engine.close()


async def test_auto_takes_docker_where_the_image_is_and_local_elsewhere(
    docker_address: str, docker_base: Base, docker_image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def chosen(**settings: str) -> object:
        return provider_from(Settings(SANDBOX_PATH=str(tmp_path), **settings), deployment="dep_test")  # pyright: ignore

    taken = chosen(DOCKER_HOST=docker_address, SANDBOX_IMAGE=docker_image)
    assert isinstance(taken, DockerProvider) and "provider=docker" in _plain(capsys)
    for other in (
        {"DOCKER_HOST": docker_address, "SANDBOX_IMAGE": "koda-test/none:1"},
        {"DOCKER_HOST": docker_address, "SANDBOX_IMAGE": docker_base.name},
        {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock", "SANDBOX_IMAGE": docker_image},
    ):
        assert isinstance(chosen(**other), LocalProvider)
        assert "provider=local" in _plain(capsys)
    assert isinstance(chosen(SANDBOX_PROVIDER="docker"), DockerProvider)
    assert isinstance(chosen(SANDBOX_PROVIDER="local", DOCKER_HOST=docker_address), LocalProvider)


def _plain(capsys: pytest.CaptureFixture[str]) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
