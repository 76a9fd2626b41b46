"""What hostile code would use up: processes, memory, output, time, the disk. Whoever is beside it goes on."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from koda_ray.errors import CommandTimeout, KodaError, NotFound, QuotaExceeded, SandboxError
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from koda_ray.sandbox.reading import MAX_ENTRIES
from tests.sandbox.attacks.doing import perl, sh
from tests.sandbox.begun import timed_out
from tests.sandbox.conftest import MB, AnySandbox, database_of, gvisor_too
from tests.sandbox.refusals import refusals

pytestmark = pytest.mark.sandbox


def _hears_of_processes(sandbox: AnySandbox) -> bool:
    """Whether the kernel counts those that it refuses: a user's own limit says nothing."""
    groups = map(Path, sandbox.record.groups)
    return isinstance(sandbox, DockerSandbox) or any((group / "pids.events").exists() for group in groups)


async def test_a_fork_bomb(sandbox: AnySandbox, neighbour: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    refused: set[str] = set()
    for limit_s in (1.0, 5.0, 25.0):  # how soon it is refused a process is the machine's business
        try:
            done = await sandbox.run(("sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60"), timeout_s=limit_s)
            assert done.exit_code != 0  # its own shell was refused a process
        except KodaError as error:
            assert error.code in ("TIMEOUT", "QUOTA_EXCEEDED")
        code, text = await sh(sandbox, "echo alive")
        assert (code, text) == (0, "alive\n")
        refused |= refusals(capsys, sandbox.id)
        if refused - {"time"} or not _hears_of_processes(sandbox):
            break
    assert refused and (refused - {"time"} in ({"processes"}, {"limit"}) or not _hears_of_processes(sandbox))


async def test_more_processes_than_allowed(sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    _, text = await sh(sandbox, "for i in $(seq 200); do sleep 80 & done; echo all started")
    assert "all started" not in text or "fork" in text.lower(), text
    assert refusals(capsys, sandbox.id) in ({"processes"}, {"limit"}) or not _hears_of_processes(sandbox)


async def test_a_memory_bomb(sandbox: AnySandbox, neighbour: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    script = "const held = []; for (;;) held.push(Buffer.alloc(32 * 1024 * 1024, 1));"
    with pytest.raises(QuotaExceeded) as caught:
        await sandbox.run(("node", "-e", script), timeout_s=60)
    assert caught.value.context["limit"] == "memory" and "SANDBOX_MEMORY_MB" in caught.value.message
    assert refusals(capsys, sandbox.id) in ({"memory"}, {"limit"})
    assert (await sh(sandbox, "echo alive")) == (0, "alive\n")


_SHARED = "my $at = syscall(9, 0, 640 << 20, 3, 0x8021, -1, 0); $at > 0 or exit 7; sleep 60; print 'kept'"
_IN_FILES = """
  my ($name, $data, @held) = ("x", "x" x (1 << 20));
  for (1..12) {
    open(my $file, "+<&=", syscall(319, $name, 0)) or exit 7;
    for (1..56) { syswrite($file, $data) or exit 7 }
    push @held, $file;
  }
  sleep 60; print "kept";
"""


@pytest.mark.parametrize("text", [_SHARED, _IN_FILES], ids=["shared", "in files without a name"])
async def test_memory_that_is_no_processs_own(
    sandbox: AnySandbox, neighbour: AnySandbox, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QuotaExceeded) as caught:
        assert await perl(sandbox, text) != "kept"
    assert caught.value.context["limit"] == "memory" and "SANDBOX_MEMORY_MB" in caught.value.message
    assert refusals(capsys, sandbox.id) in ({"memory"}, {"limit"})
    assert (await sh(sandbox, "echo alive")) == (0, "alive\n")


async def test_memory_in_file_systems_is_bounded(sandbox: AnySandbox) -> None:
    for path, most in (("/tmp", 16), ("/home/user", 16), ("/dev/shm", 64)):
        _, text = await sh(sandbox, f"dd if=/dev/zero of={path}/big bs=1M count=400 2>&1; stat -c %s {path}/big")
        assert int(text.splitlines()[-1]) <= most * MB, text


@gvisor_too
async def test_infinite_output(sandbox: AnySandbox, neighbour: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    refused: set[str] = set()
    for limit_s in (1.0, 5.0, 25.0):  # how soon it is too much is the machine's business
        with pytest.raises(CommandTimeout) as caught:
            await sandbox.run(("sh", "-c", "yes to infinity"), timeout_s=limit_s)
        assert len(caught.value.message) < 2000
        if "output" in (refused := refusals(capsys, sandbox.id)):
            break
    assert refused == {"time", "output"}


async def test_a_process_that_does_not_want_to_end(sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """It ignores what can be ignored, and has put a daemon in the background that does the same."""
    deaf = "trap '' HUP INT QUIT TERM; while :; do date +%s%N > src/$0.ts; sleep 0.02; done"
    script = f"(setsid sh -c '{deaf.replace(chr(39), chr(34))}' daemon &); {deaf}"
    await timed_out(sandbox, ("sh", "-c", script, "front"), begun=["src/front.ts", "src/daemon.ts"])
    assert refusals(capsys, sandbox.id) == {"time"}
    last = await sandbox.read_files(["src/front.ts", "src/daemon.ts"])
    await asyncio.sleep(0.1)
    assert await sandbox.read_files(["src/front.ts", "src/daemon.ts"]) == last
    await sandbox.remove("src/daemon.ts")
    begun = "while [ ! -s src/daemon.ts ]; do sleep 0.02; done"
    await sh(sandbox, f"(setsid sh -c '{deaf.replace(chr(39), chr(34))}' daemon >/dev/null 2>&1 &); {begun}")
    last = await sandbox.read_file("src/daemon.ts")
    await asyncio.sleep(0.1)
    assert await sandbox.read_file("src/daemon.ts") == last
    assert refusals(capsys, sandbox.id) == {"daemon"}


@gvisor_too
async def test_a_daemon_that_would_outlive_its_command(sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """Forked twice, in a session of its own; what a command only leaves in the background is none."""
    daemon = (
        "rm -f src/two; (setsid sh -c 'sleep 600 & echo >src/two; exec sleep 600' >/dev/null 2>&1 &); "
        "while [ ! -e src/two ]; do sleep 0.02; done"
    )
    assert await sh(sandbox, "sleep 600 & sleep 0.01 & setsid true; echo left; exit 3") == (3, "left\n")
    assert refusals(capsys, sandbox.id) == set()
    assert await sh(sandbox, f"{daemon}; exit 3") == (3, "")
    said = capsys.readouterr().out
    assert "refused=daemon" in said and "times=2" in said
    await sandbox.start("parent", ("sh", "-c", daemon))
    refused: set[str] = set()
    async with asyncio.timeout(60):
        while not refused:
            await asyncio.sleep(0.02)
            await sandbox.processes()
            refused = refusals(capsys, sandbox.id)
    assert refused == {"daemon"}
    await sandbox.start("parent", ("sh", "-c", f"{daemon}; echo there; sleep 600"))
    async with asyncio.timeout(60):
        while "there" not in await sandbox.output("parent"):
            await asyncio.sleep(0.02)
    await sandbox.stop("parent")
    assert refusals(capsys, sandbox.id) == set(), "whoever stops a process ends what it has started"


@gvisor_too
async def test_a_full_disk_loses_nothing(
    sandbox: AnySandbox, neighbour: AnySandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    await sandbox.write_files({"src/kept.ts": b"kept"})
    code, text = await sh(sandbox, "dd if=/dev/zero of=public/big.bin bs=1M")
    assert code != 0 and ("No space left" in text or "File size limit" in text)
    assert refusals(capsys, sandbox.id) == {"disk"}
    for _ in range(2):
        with pytest.raises(SandboxError) as caught:
            await sandbox.write_files({"src/kept.ts": b"x" * MB, "src/new.ts": b"y" * MB})
        assert caught.value.code == "WRITE_FAILED"
        assert "SANDBOX_DISK_MB" in caught.value.message and caught.value.context["reason"] == "disk_full"
        assert refusals(capsys, sandbox.id) == {"disk"}
    assert await sandbox.read_file("src/kept.ts") == b"kept"
    with pytest.raises(NotFound):
        await sandbox.read_file("src/new.ts")
    await sandbox.remove("public/big.bin")
    await sandbox.write_files({"src/kept.ts": b"after"})
    assert await sandbox.read_file("src/kept.ts") == b"after"


async def test_a_file_of_100_gb(sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    for big in ("fallocate -l 100G public/big.bin", "head -c 100G /dev/zero > public/big.bin"):
        code, text = await sh(sandbox, big)
        assert code != 0 and ("No space left" in text or "too large" in text or "File size" in text), text
    assert refusals(capsys, sandbox.id) == {"disk"}
    assert (await sh(sandbox, "echo alive")) == (0, "alive\n")


_HIDDEN = {
    "deep": 'n=$(printf "d%.0s" $(seq 200)); cd src; for i in 1 2 3 4 5 6 7; do mkdir $n; cd $n; done; fill .',
    "closed": "mkdir -m 300 src/closed; fill src/closed",
    "without a name": "for i in 3 4 5 6 7 8 9; do eval 'exec '$i'>public/u'; rm public/u; big >&$i || exit 1; done",
}


@pytest.mark.parametrize("hidden", _HIDDEN.values(), ids=list(_HIDDEN))
async def test_a_disk_is_not_filled_where_nobody_looks(
    sandbox: AnySandbox, neighbour: AnySandbox, hidden: str, capsys: pytest.CaptureFixture[str]
) -> None:
    big = "big() { head -c 12000000 /dev/zero; }; fill() { for i in $(seq 7); do big >$1/$i || exit 1; done; }"
    try:
        assert (await sh(sandbox, f"{big}; {hidden}; sleep 60"))[0] != 0, "it has 64 MB, and took 84"
    except QuotaExceeded as error:  # the watchdog's way of saying it
        assert error.context["limit"] == "disk" and "SANDBOX_DISK_MB" in error.message
        used = re.search(r"(\d+) MB are used, 64 MB are allowed", error.message)
        assert used is not None and 64 <= int(used[1]) <= 80, error.message  # it may look before the last is written
        assert refusals(capsys, sandbox.id) == {"limit"}
    assert (await sh(sandbox, "echo alive")) == (0, "alive\n")


async def test_a_disk_is_not_filled_where_the_database_would_be(
    sandbox: AnySandbox, boxes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands there belongs to who started the sandbox: one that runs as the same user may write it."""
    fill = f"head -c 40000000 /dev/zero > {database_of(boxes)} && head -c 40000000 /dev/zero > public/big && sleep 60"
    try:
        assert (await sh(sandbox, fill))[0] != 0, "it has 64 MB, and took 80"
    except QuotaExceeded as error:  # the watchdog's way of saying it
        assert error.context["limit"] == "disk"
    refusals(capsys, sandbox.id)
    assert (await sh(sandbox, "echo alive")) == (0, "alive\n")


async def test_a_million_files(sandbox: AnySandbox, neighbour: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    await sandbox.write_files({
        "scripts/many.cjs": b"const f = require('fs'); for (let i = 0; i < 1e6; i++) f.writeFileSync(`src/f${i}`, '');"
    })  # fmt: skip
    try:
        assert (await sandbox.run(("node", "scripts/many.cjs"), timeout_s=60)).exit_code != 0
    except QuotaExceeded as error:  # the watchdog's way of saying it
        assert error.context["limit"] == "disk"
    assert refusals(capsys, sandbox.id) in ({"disk"}, {"limit"})
    try:
        assert len(await sandbox.list_files(recursive=True)) <= MAX_ENTRIES
    except QuotaExceeded as error:
        assert str(MAX_ENTRIES) in error.message


async def test_a_very_deep_tree(sandbox: AnySandbox) -> None:
    script = """
      const fs = require("fs"), name = "d".repeat(50);
      process.chdir("src");
      for (let depth = 0; depth < 3000; depth++) { fs.mkdirSync(name); process.chdir(name); }
    """
    await sandbox.run(("node", "-e", script), timeout_s=60)
    listed = await sandbox.list_files(recursive=True)
    assert max(len(entry.path) for entry in listed) < 1200
    await sandbox.snapshot()
