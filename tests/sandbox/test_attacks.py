"""Hostile code in a real sandbox: what it must not be able to read, reach, change or use up."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.errors import InvalidPath, KodaError, NotFound, QuotaExceeded, SandboxError
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.reading import MAX_ENTRIES
from tests.sandbox.conftest import MB
from tests.sandbox.leftovers import Leftovers

pytestmark = pytest.mark.sandbox


async def sh(sandbox: LocalSandbox, text: str, *, timeout_s: float = 30.0) -> tuple[int, str]:
    done = await sandbox.run(("sh", "-c", text), timeout_s=timeout_s)
    return done.exit_code, done.stdout + done.stderr


async def perl(sandbox: LocalSandbox, text: str) -> str:
    if shutil.which("perl") is None:
        pytest.skip("needs perl, which makes system calls by number")
    done = await sandbox.run(("perl", "-e", text))
    return done.stdout + done.stderr


# escaping by files


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../../etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd"]
)
async def test_a_symbolic_link_does_not_lead_out_of_the_project(sandbox: LocalSandbox, target: str) -> None:
    await sh(sandbox, f"ln -s {target} src/link; ln -s / src/root; ln -s {os.path.dirname(target)} public/dir")
    for path in ("src/link", "src/root/etc/passwd", f"public/dir/{os.path.basename(target)}"):
        with pytest.raises(InvalidPath) as caught:
            await sandbox.read_file(path)
        assert caught.value.context["rule"] == "escape"
    with pytest.raises(InvalidPath):
        await sandbox.list_files("src/root")
    with pytest.raises(InvalidPath):
        await sandbox.write_files({"src/root/tmp/written": b"x"})
    with pytest.raises(InvalidPath):
        await sandbox.remove("src/root/etc/hostname")
    listed = [entry.path for entry in await sandbox.list_files(recursive=True)]
    assert "src/link" not in listed and "src/root" not in listed
    assert set((await sandbox.snapshot()).skipped) == {"src/link", "src/root", "public/dir"}


async def test_a_link_inside_the_project_is_followed_before_the_rules(sandbox: LocalSandbox) -> None:
    await sh(sandbox, "mkdir notes; ln -s ../notes src/notes; ln -s scenes src/films; ln -s ../node_modules src/nm")
    await sandbox.write_files({"src/films/two.tsx": b"2"})
    assert await sandbox.read_file("src/scenes/two.tsx") == b"2"
    with pytest.raises(InvalidPath):  # notes/ is not the agent's to write, whatever it is called
        await sandbox.write_files({"src/notes/n.md": b""})
    with pytest.raises(InvalidPath):
        await sandbox.list_files("src/nm")


async def test_a_written_link_is_replaced_not_followed(sandbox: LocalSandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    await sh(sandbox, f"ln -s {outside} src/a.ts; ln -s ../package.json src/b.ts")
    before = await sandbox.read_file("package.json")
    await sandbox.write_files({"src/a.ts": b"mine", "src/b.ts": b"mine"})
    assert outside.read_text() == "untouched"
    assert await sandbox.read_file("package.json") == before
    assert await sandbox.read_files(["src/a.ts", "src/b.ts"]) == {"src/a.ts": b"mine", "src/b.ts": b"mine"}


async def test_swapping_a_directory_for_a_link_while_files_are_used(sandbox: LocalSandbox, tmp_path: Path) -> None:
    """The race itself: whatever the moment, nothing is read from outside and nothing lands there."""
    await sh(
        sandbox, "mkdir -p src/real && echo mine > src/real/hostname && ln -s /etc src/evil && cp -r src/real src/x"
    )
    await sandbox.start(
        "swap",
        (
            "sh",
            "-c",
            "while :; do mv -T src/x src/y; mv -T src/evil src/x; mv -T src/x src/evil; mv -T src/y src/x; done",
        ),
    )
    seen: set[str] = set()
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        try:
            seen.add((await sandbox.read_file("src/x/hostname")).decode())
            await sandbox.write_files({"src/x/koda-was-here": b"1"})
        except (InvalidPath, NotFound, SandboxError) as error:
            seen.add(type(error).__name__)
    await sandbox.stop("swap")
    assert seen <= {"mine\n", "InvalidPath", "NotFound", "SandboxError"}
    assert "koda-was-here" not in os.listdir("/etc")


async def test_hard_links_do_not_reach_beyond_the_project(sandbox: LocalSandbox) -> None:
    for target in ("/etc/passwd", "/usr/bin/env", "node_modules/left-pad/index.js", "/opt/koda/forward.mjs"):
        code, text = await sh(sandbox, f"ln {target} src/hard")
        assert code != 0, text
    assert "src/hard" not in [entry.path for entry in await sandbox.list_files("src")]


async def test_special_files_do_not_stop_whoever_reads(sandbox: LocalSandbox) -> None:
    await sh(sandbox, "mkfifo src/pipe; truncate -s 1T src/huge")
    async with asyncio.timeout(10):
        huge = [entry.path for entry in await sandbox.list_files("src") if entry.size_bytes > 300 * MB]
        for path in ("src/pipe", "src", *huge):
            with pytest.raises(SandboxError) as caught:
                await sandbox.read_file(path)
            assert caught.value.code == "READ_FAILED"
        assert "src/pipe" in (await sandbox.snapshot()).skipped


async def test_the_template_and_the_packages_are_not_the_sandboxes(
    sandbox: LocalSandbox, template: Path, node_modules: Path
) -> None:
    await sh(
        sandbox, "echo bad > src/App.tsx; echo bad > public/logo.svg; rm -rf node_modules/left-pad; mv node_modules nm"
    )
    assert "bad" not in (template / "src/App.tsx").read_text() + (template / "public/logo.svg").read_text()
    assert (node_modules / "left-pad" / "index.js").exists()
    assert (await sandbox.run(("node", "-p", "require('left-pad')('x')"))).stdout == " x\n"


# reading what is not the sandbox's


async def test_the_environment_of_the_backend_is_not_there(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    _, text = await sh(
        sandbox, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/*/cmdline | tr '\\0' '\\n'"
    )
    assert "very-secret" not in text
    names = {line.split("=")[0] for line in (await sandbox.run(("env",))).stdout.splitlines()}
    assert names <= {"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "NO_COLOR", "CI", "PWD",
                     "NODE_OPTIONS", "npm_config_update_notifier", "_"}  # fmt: skip


async def test_files_of_the_machine_are_not_there(sandbox: LocalSandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    secret.chmod(0o644)
    for path in (
        secret,
        REPO_ROOT,
        "/root",
        "/etc/shadow",
        "/var",
        "/run",
        "/srv",
        "/boot",
        "/sys",
        "/proc/1/root/etc/shadow",
    ):
        code, text = await sh(sandbox, f"cat {path} || ls {path}")
        assert code != 0, f"{path}: {text[:200]}"
    _, text = await sh(sandbox, "cat /etc/passwd")
    assert len(text.splitlines()) == 2


async def test_another_sandbox_is_not_there(
    sandbox: LocalSandbox, provider: LocalProvider, leftovers: Leftovers, boxes: Path
) -> None:
    other = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_b", user_id="usr_b")
    try:
        await other.write_files({"src/mine.ts": b"another's secret"})
        await other.start("sleeper", ("sleep", "60"))
        _, text = await sh(
            sandbox, f"cat {boxes}/{other.id}/disk/project/src/mine.ts; ps ax 2>/dev/null; ls /proc | grep '^[0-9]'"
        )
        assert "another's secret" not in text and "sleep 60" not in text
        pids = [line for line in text.splitlines() if line.isdigit()]
        assert len(pids) <= 6
        await sh(sandbox, "kill -9 -1")
        assert (await other.processes())[0].running
    finally:
        await other.destroy()


async def test_no_descriptor_of_this_program_is_open_inside(sandbox: LocalSandbox) -> None:
    listing = (await sandbox.run(("ls", "-l", "/proc/self/fd"))).stdout
    opened = {
        line.split(" -> ")[0].split()[-1]: line.split(" -> ")[1] for line in listing.splitlines() if " -> " in line
    }
    assert set(opened) <= {"0", "1", "2", "3"}, opened
    assert opened["0"] == "/dev/null" and opened["3"].startswith("/proc/")
    await sandbox.start("fds", ("sh", "-c", "ls -l /proc/self/fd; sleep 60"))
    async with asyncio.timeout(10):
        while "3 ->" not in (text := await sandbox.output("fds")):
            await asyncio.sleep(0.02)
    assert "4 ->" not in text


# the network


async def test_no_network_is_reachable(sandbox: LocalSandbox) -> None:
    """The machine's loopback (Ray and the API listen there), its other addresses, link-local and the world."""
    listener = socket.create_server(("0.0.0.0", 0))
    port = listener.getsockname()[1]
    reached: list[object] = []
    accepting = threading.Thread(target=lambda: _accept(listener, reached), daemon=True)
    accepting.start()
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    targets = ["127.0.0.1", "169.254.169.254", "10.0.0.1", "1.1.1.1", *_addresses()]
    script = """
      const net = require("node:net"), dns = require("node:dns");
      const tries = process.argv.slice(2).map((host) => new Promise((done) => {
        const s = net.connect({ host, port: Number(process.argv[1]), timeout: 1500 });
        s.on("connect", () => done(`${host} REACHED`));
        s.on("error", (e) => done(`${host} ${e.code}`));
        s.on("timeout", () => done(`${host} timeout`));
      }));
      tries.push(new Promise((done) => dns.lookup("example.com", (e) => done(e ? `dns ${e.code}` : "dns REACHED"))));
      Promise.all(tries).then((all) => { console.log(all.join("\\n")); process.exit(); });
    """
    done = await sandbox.run(("node", "-e", script, str(port), *targets))
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    accepting.join(5)
    assert "REACHED" not in done.stdout and "127.0.0.1 ECONNREFUSED" in done.stdout, done.stdout + done.stderr
    assert len(reached) == 1  # the check above, from outside
    interfaces = await sandbox.run(("node", "-p", "Object.keys(os.networkInterfaces()).join()"))
    assert interfaces.stdout == "lo\n"


async def test_unix_sockets_of_the_machine_are_not_reachable(sandbox: LocalSandbox) -> None:
    abstract = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    name = f"koda-test-{os.getpid()}"
    abstract.bind(f"\0{name}")
    abstract.listen()
    done = await sandbox.run(
        ("node", "-e", f'require("net").connect({{path: "\\0{name}"}}).on("connect", () => console.log("REACHED"))'
         '.on("error", (e) => console.log(e.code))'),
    )  # fmt: skip
    abstract.close()
    assert "REACHED" not in done.stdout and done.stdout.strip() in ("ECONNREFUSED", "ENOENT"), done.stdout + done.stderr


def _accept(listener: socket.socket, reached: list[object]) -> None:
    try:
        while True:
            connection, address = listener.accept()
            reached.append(address)
            connection.close()
    except OSError:
        return


def _addresses() -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return [probe.getsockname()[0]]
        except OSError:
            return []


# rights


async def test_no_rights_and_no_way_to_get_them(sandbox: LocalSandbox) -> None:
    _, text = await sh(sandbox, "cat /proc/self/status")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0, kind
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split()
    assert status["Groups"].strip() in ("", "65534")


@pytest.mark.parametrize(
    "call",
    [
        "101, 0, 0, 0, 0",  # ptrace
        "165, 0, 0, 0, 0, 0",  # mount
        "161, 0",  # chroot
        "272, 0x10000000",  # unshare(CLONE_NEWUSER)
        "56, 0x10000011, 0, 0, 0, 0",  # clone(CLONE_NEWUSER)
        "308, 0, 0",  # setns
        "250, 0, 0, 0, 0, 0",  # keyctl
        "321, 0, 0, 0",  # bpf
        "425, 8, 0",  # io_uring_setup
        "323, 0",  # userfaultfd
        "298, 0, 0, 0, 0, 0",  # perf_event_open
        "313, 0, 0, 0",  # finit_module
        "41, 40, 1, 0",  # socket(AF_VSOCK)
        "41, 17, 3, 0",  # socket(AF_PACKET, SOCK_RAW)
        "41, 2, 3, 255",  # socket(AF_INET, SOCK_RAW)
        "16, 0, 0x5412, 0",  # ioctl(TIOCSTI)
    ],
)
async def test_calls_that_attacks_are_made_of(sandbox: LocalSandbox, call: str) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86_64")
    text = await perl(sandbox, f"$! = 0; my $r = syscall({call}); print $r, ' ', $!+0")
    result, error = text.split()
    assert result == "-1" and int(error) in (1, 97), text  # EPERM, EAFNOSUPPORT


@pytest.mark.parametrize(
    "attack",
    [
        "touch /x", "touch /usr/x", "touch /etc/x", "touch /dev/x", "touch /opt/koda/x", "touch /home/x",
        "mknod src/null c 1 3", "echo 1 > /proc/sys/kernel/core_pattern", "echo b > /proc/sysrq-trigger",
        "dd if=/dev/vda count=1", "chmod u+s /usr/bin/env", "hostname evil", "date -s 2001-01-01",
        "mount -t tmpfs none /tmp", "unshare -U true", "unshare -m true", "chroot / true",
        "grep -a KODA /proc/1/environ", "ls -d /proc/1/root/var /proc/1/cwd/var",
        r"cp /usr/bin/cat src/c && chmod 4755 src/c && src/c /proc/self/status | grep -P 'Uid:.*\t0'",
    ],
)  # fmt: skip
async def test_what_the_system_has_is_sealed(sandbox: LocalSandbox, attack: str) -> None:
    # from a file, so that the list of refused commands plays no part: the walls alone must hold
    await sandbox.write_files({"scripts/attack.sh": attack.encode()})
    done = await sandbox.run(("sh", "scripts/attack.sh"))
    assert done.exit_code != 0, done.stdout + done.stderr


# using things up


async def test_a_fork_bomb(sandbox: LocalSandbox) -> None:
    with pytest.raises(KodaError) as caught:
        await sandbox.run(("sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60"), timeout_s=2.0)
    assert caught.value.code in ("TIMEOUT", "QUOTA_EXCEEDED")
    code, text = await sh(sandbox, "echo alive")
    assert (code, text) == (0, "alive\n")


async def test_more_processes_than_allowed(sandbox: LocalSandbox) -> None:
    _, text = await sh(sandbox, "for i in $(seq 200); do sleep 30 & done; echo all started")
    assert "all started" not in text or "fork" in text.lower(), text


async def test_a_memory_bomb(sandbox: LocalSandbox) -> None:
    script = "const held = []; for (;;) held.push(Buffer.alloc(32 * 1024 * 1024, 1));"
    with pytest.raises(QuotaExceeded) as caught:
        await sandbox.run(("node", "-e", script), timeout_s=60)
    assert caught.value.context["limit"] == "memory" and "SANDBOX_MEMORY_MB" in caught.value.message
    assert (await sh(sandbox, "echo alive")) == (0, "alive\n")


async def test_memory_in_file_systems_is_bounded(sandbox: LocalSandbox) -> None:
    for path, most in (("/tmp", 16), ("/home/user", 16), ("/dev/shm", 64)):
        _, text = await sh(sandbox, f"dd if=/dev/zero of={path}/big bs=1M count=400 2>&1; stat -c %s {path}/big")
        assert int(text.splitlines()[-1]) <= most * MB, text


async def test_infinite_output(sandbox: LocalSandbox) -> None:
    with pytest.raises(KodaError) as caught:
        await sandbox.run(("sh", "-c", "yes to infinity"), timeout_s=1.0)
    assert caught.value.code == "TIMEOUT" and len(caught.value.message) < 2000


async def test_a_full_disk_loses_nothing(sandbox: LocalSandbox) -> None:
    await sandbox.write_files({"src/kept.ts": b"kept"})
    code, text = await sh(sandbox, "dd if=/dev/zero of=public/big.bin bs=1M")
    assert code != 0 and ("No space left" in text or "File size limit" in text)
    for _ in range(2):
        with pytest.raises(SandboxError) as caught:
            await sandbox.write_files({"src/kept.ts": b"x" * MB, "src/new.ts": b"y" * MB})
        assert caught.value.code == "WRITE_FAILED"
        assert "SANDBOX_DISK_MB" in caught.value.message and caught.value.context["reason"] == "disk_full"
    assert await sandbox.read_file("src/kept.ts") == b"kept"
    with pytest.raises(NotFound):
        await sandbox.read_file("src/new.ts")
    await sandbox.remove("public/big.bin")
    await sandbox.write_files({"src/kept.ts": b"after"})
    assert await sandbox.read_file("src/kept.ts") == b"after"


async def test_a_million_files(sandbox: LocalSandbox) -> None:
    await sandbox.write_files({
        "scripts/many.cjs": b"const f = require('fs'); for (let i = 0; i < 1e6; i++) f.writeFileSync(`src/f${i}`, '');"
    })  # fmt: skip
    try:
        assert (await sandbox.run(("node", "scripts/many.cjs"), timeout_s=60)).exit_code != 0
    except QuotaExceeded as error:  # the watchdog's way of saying it
        assert error.context["limit"] == "disk"
    try:
        assert len(await sandbox.list_files(recursive=True)) <= MAX_ENTRIES
    except QuotaExceeded as error:
        assert str(MAX_ENTRIES) in error.message


async def test_a_very_deep_tree(sandbox: LocalSandbox) -> None:
    script = """
      const fs = require("fs"), name = "d".repeat(50);
      process.chdir("src");
      for (let depth = 0; depth < 3000; depth++) { fs.mkdirSync(name); process.chdir(name); }
    """
    await sandbox.run(("node", "-e", script), timeout_s=60)
    listed = await sandbox.list_files(recursive=True)
    assert max(len(entry.path) for entry in listed) < 1200
    await sandbox.snapshot()
