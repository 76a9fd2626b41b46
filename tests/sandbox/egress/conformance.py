"""What the way out of every sandbox on this machine must do, whatever its walls are; each provider inherits all of it.

A provider's test module defines the fixtures ``provider`` (with ``registry.test`` and ``site.test`` allowed, and 1 MB
received) and ``leftovers``; its sandboxes are those of ``SandboxConformance``.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import AsyncIterator
from fnmatch import fnmatch
from pathlib import Path
from typing import ClassVar

import pytest

from koda_ray.errors import CommandBlocked
from koda_ray.sandbox.egress.audit import EgressEvent
from koda_ray.sandbox.egress.process import EgressProcess
from koda_ray.sandbox.tmux import SERVER, Tmux
from tests.sandbox.conftest import MB, AnyProvider, AnySandbox
from tests.sandbox.egress.conftest import until
from tests.sandbox.egress.network import OK, PUBLIC, NameServer, upstream
from tests.sandbox.leftovers import Leftovers
from tests.sandbox.refusals import refusals

__all__ = ["GET", "OK", "WayOutConformance", "fetch", "proxy_of", "told"]

_BODY_BYTES = 700_000


_FETCH = """
import http from "node:http";
const proxy = new URL(process.env.HTTP_PROXY ?? "http://127.0.0.1:3128");
const get = (path) => new Promise((done) => http.get({ host: proxy.hostname, port: proxy.port, path }, (answer) => {
  let text = answer.statusCode + " ";
  answer.on("data", (data) => (text += data)).on("end", () => done(text.trim()));
}).on("error", (error) => done(error.code)));
for (const url of process.argv.slice(2)) console.log(await get(url));
"""

GET = """
import http from "node:http";
const proxy = new URL(process.env.HTTP_PROXY);
const options = { host: proxy.hostname, port: proxy.port, agent: false };
const get = (path = "http://site.test/") => new Promise((done) => http.get({ ...options, path }, (answer) => {
  let text = answer.statusCode + " ";
  answer.on("data", (data) => (text += data)).on("end", () => done(text));
}).on("error", (error) => done(error.code)));
for (;;) {
  console.log(await get());
  await get("http://evil.test/");
  await new Promise((done) => setTimeout(done, 200));
}
"""
"""A program that asks again and again, for a host that is listed and for one that is not."""


async def fetch(sandbox: AnySandbox, *urls: str, network: bool = True) -> list[str]:
    await sandbox.write_files({"scripts/fetch.mjs": _FETCH.encode()})
    done = await sandbox.run(("node", "scripts/fetch.mjs", *urls), network=network)
    assert done.exit_code == 0, done
    return done.stdout.splitlines()


def proxy_of(sandbox: AnySandbox) -> EgressProcess:
    """The proxy that runs for a sandbox."""
    assert sandbox.way_out.process is not None
    return sandbox.way_out.process


async def told(tmux: Tmux, name: str) -> str:
    """What a process that asks again and again is told from now on."""
    stop = len(await tmux.output(name))
    async with asyncio.timeout(60):
        while len(lines := (await tmux.output(name)).decode()[stop:].split("\r\n")) < 5:
            await asyncio.sleep(0.1)
    return lines[-2]


class WayOutConformance:
    """The suite."""

    sockets: ClassVar[str] = ""
    """A socket of the sandbox's own that is always seen inside."""

    way_out: ClassVar[str]
    """Where commands that may use the network see the proxy's socket, as a shell's pattern."""

    @pytest.fixture
    async def box(self, provider: AnyProvider, leftovers: Leftovers) -> AsyncIterator[AnySandbox]:
        made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_a", user_id="usr_a")
        yield made
        await made.destroy()

    async def test_a_command_that_does_not_ask_has_no_way_out(
        self, names: NameServer, provider: AnyProvider, box: AnySandbox
    ) -> None:
        async with upstream(OK) as server:
            assert await fetch(box, "http://site.test/") == ["200 hi"]
            assert await fetch(box, "http://site.test/", network=False) == ["ECONNREFUSED"]
            done = await box.run(("sh", "-c", "env; find / -type s 2>/dev/null"))
        assert "proxy" not in done.stdout.lower()
        found = [line for line in done.stdout.splitlines() if ".sock" in line]
        assert len(found) == bool(self.sockets) and all(fnmatch(line, self.sockets) for line in found)
        assert (len(server.heard), names.asked) == (1, ["site.test"])

    async def test_what_is_allowed_and_what_is_not_from_inside(
        self, names: NameServer, box: AnySandbox, noted: list[EgressEvent], capsys: pytest.CaptureFixture[str]
    ) -> None:
        names.names["registry.test"] = [["127.0.0.1"]]
        async with upstream(OK) as server, upstream(OK, host="127.0.0.1") as loopback:
            told = await fetch(
                box, "http://site.test/", "http://evil.test/", "http://127.0.0.1/", "http://169.254.169.254/latest",
                "http://registry.test/", "http://site.test:8265/",
            )  # fmt: skip
        assert [line[:3] for line in told] == ["200", "403", "403", "403", "403", "403"]
        assert "SANDBOX_EGRESS_HOSTS" in told[1]
        assert (len(server.heard), loopback.heard) == (1, [])
        assert [event.code for event in noted if event.verdict == "refused"] == [
            "HOST_NOT_ALLOWED", "ADDRESS_NOT_ALLOWED", "ADDRESS_NOT_ALLOWED", "ADDRESS_NOT_ALLOWED",
            "PORT_NOT_ALLOWED",
        ]  # fmt: skip
        assert refusals(capsys, box.id) == {"egress"}

    async def test_there_is_no_other_way(
        self, names: NameServer, box: AnySandbox, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With the proxy's socket inside, the network is as empty as without: no interface, no name service."""
        script = (
            "console.log(Object.keys(os.networkInterfaces()).join());"
            f"net.connect(80, '{PUBLIC}').on('error', (e) => console.log(e.code));"
            "dns.resolve('site.test', (e) => console.log(e.code));"
        )
        async with upstream(OK) as server:
            done = await box.run(("node", "-e", script), network=True)
        assert done.stdout.splitlines()[0] == "lo"
        assert set(done.stdout.splitlines()[1:]) <= {"ENETUNREACH", "EHOSTUNREACH", "ECONNREFUSED", "ETIMEOUT"}, done
        assert server.heard == [] and names.asked == []
        assert refusals(capsys, box.id) == {"network"}
        find = f"s=$(echo {self.way_out}); test -S $s || exit 0; "
        for attack in ("rm -f $s", "ln -sf /tmp/x $s", "mv -T /tmp $s", "chmod 777 $s", "touch $s"):
            await box.write_files({"scripts/attack.sh": f"{find}{attack}".encode()})
            assert (await box.run(("sh", "scripts/attack.sh"), network=True)).exit_code != 0, attack

    async def test_a_command_is_what_it_was_without(self, names: NameServer, box: AnySandbox) -> None:
        done = await box.run(("sh", "-c", "echo out; echo err >&2; echo $A; pwd; exit 7"), env={"A": "b"}, network=True)
        assert (done.exit_code, done.stdout, done.stderr) == (7, "out\nb\n/home/user/project\n", "err\n")
        assert (await box.run(("sh", "-c", "kill -9 $$"), network=True)).exit_code == 137
        missing = await box.run(("no-such-program",), network=True)
        assert missing.exit_code == 127 and "no-such-program" in missing.stderr
        given = await box.run(("sh", "-c", "echo $HTTPS_PROXY"), network=True, env={"HTTPS_PROXY": "http://mine"})
        assert given.stdout == "http://mine\n"

    async def test_a_background_process_has_it_for_as_long_as_it_runs(self, names: NameServer, box: AnySandbox) -> None:
        ask = "echo $HTTPS_PROXY; until grep -s 200 src/told.ts; do node scripts/fetch.mjs http://site.test/; done"
        await box.write_files({"scripts/fetch.mjs": _FETCH.encode()})
        async with upstream(OK):
            info = await box.start("server", ("sh", "-c", f"{ask}; sleep 60"), network=True)
            assert info.running
            async with asyncio.timeout(60):
                while "200 hi" not in (told := await box.output("server")):
                    await asyncio.sleep(0.02)
        assert told.startswith("http://127.0.0.1:")
        await box.stop("server")
        assert not (await box.processes())

    async def test_two_at_once_share_it(self, names: NameServer, box: AnySandbox) -> None:
        await box.write_files({"scripts/fetch.mjs": _FETCH.encode()})
        ask = ("node", "scripts/fetch.mjs", "http://site.test/")
        async with upstream(OK):
            told = await asyncio.gather(*(box.run(ask, network=True) for _ in range(2)))
        assert [done.stdout for done in told] == ["200 hi\n"] * 2

    async def test_when_its_proxy_is_killed_nothing_gets_out(self, names: NameServer, box: AnySandbox) -> None:
        ask = "while :; do node scripts/fetch.mjs http://site.test/ >> src/told.ts; echo . >> src/beat.ts; done"
        await box.write_files({"scripts/fetch.mjs": _FETCH.encode()})
        async with upstream(OK) as server:
            await box.start("asker", ("sh", "-c", ask), network=True)
            await _until_told(box, "200 hi")
            os.kill(proxy_of(box).pid, signal.SIGKILL)
            await _until_told(box, "EC")  # refused, or reset on the way
            heard = len(server.heard)
            for _ in range(2):
                await _until_beat(box)
            assert len(server.heard) == heard
            await box.stop("asker")
            assert await fetch(box, "http://site.test/") == ["200 hi"]  # the next one that asks has a new one

    @pytest.mark.full
    async def test_what_is_kept_gets_its_way_out_back(
        self, names: NameServer, provider: AnyProvider, boxes: Path, leftovers: Leftovers, box: AnySandbox
    ) -> None:
        """Nobody asks for it again, so whoever holds it looks after its proxy, and says so."""
        tmux = Tmux(box, network=True)
        await box.write_files({"scripts/get.mjs": GET.encode()})
        async with upstream(OK):
            await tmux.launch("one", "node scripts/get.mjs")
            assert await told(tmux, "one") == "200 hi"
            holders = leftovers.holders()
            for _ in range(2):
                [proxy] = leftovers.proxies()
                os.kill(int(proxy.split()[1].rstrip(":")), signal.SIGKILL)
                await until(lambda gone=proxy: len(leftovers.proxies()) == 1 and leftovers.proxies() != [gone])
                assert await told(tmux, "one") == "200 hi"
            assert leftovers.holders() == holders
        [log] = boxes.rglob(f"{SERVER}.log")
        assert log.read_text().count("the egress proxy ended by itself") == 2
        await provider.destroy(box.id)
        assert leftovers.holders() == leftovers.proxies() == []

    @pytest.mark.full
    async def test_each_owner_has_a_way_out_of_its_own(
        self, names: NameServer, provider: AnyProvider, leftovers: Leftovers, box: AnySandbox
    ) -> None:
        other = pickle.loads(pickle.dumps(provider))
        async with upstream(OK):
            assert await fetch(box, "http://site.test/") == ["200 hi"]
            ask = "until test -e src/go.ts; do sleep 0.05; done; node scripts/fetch.mjs http://site.test/"
            running = asyncio.create_task(box.run(("sh", "-c", ask), network=True, timeout_s=300))
            await until(lambda: len(leftovers.proxies()) == 1)
            mine = leftovers.proxies()
            theirs = await other.connect(box.id)
            assert await fetch(theirs, "http://site.test/") == ["200 hi"]
            await other.close()  # takes its own along, and nobody else's
            assert leftovers.proxies() == mine
            await box.write_files({"src/go.ts": b""})
            assert (await running).stdout == "200 hi\n"
            assert await fetch(box, "http://site.test/") == ["200 hi"]

    async def test_a_destroyed_sandbox_takes_its_proxy_along(
        self, names: NameServer, provider: AnyProvider, leftovers: Leftovers
    ) -> None:
        box = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_x", user_id="usr_x")
        await box.start("idle", ("sleep", "600"), network=True)
        process = proxy_of(box)
        assert process.running
        await box.destroy()
        assert not process.running and not os.path.exists(process.socket_path)

    async def test_what_was_let_through_counts_from_one_proxy_to_the_next(
        self, names: NameServer, box: AnySandbox, noted: list[EgressEvent]
    ) -> None:
        get = (
            "const proxy = new URL(process.env.HTTP_PROXY); let bytes = 0;"
            "http.get({ host: proxy.hostname, port: proxy.port, path: 'http://site.test/' }, (answer) => {"
            " answer.on('data', (data) => (bytes += data.length)).on('error', () => 0)"
            ".on('close', () => console.log(answer.complete, bytes)) });"
        )
        body = bytes(_BODY_BYTES)
        async with upstream(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)):
            first = await box.run(("node", "-e", get), network=True)
            if (running := box.way_out.process) is not None:
                await until(lambda: any(event.verdict == "ended" for event in noted))
                os.kill(running.pid, signal.SIGKILL)
                await until(lambda: not running.running)
            second = await box.run(("node", "-e", get), network=True)
        assert first.stdout == f"true {_BODY_BYTES}\n"
        complete, count = second.stdout.split()
        assert complete == "false" and int(count) < MB - _BODY_BYTES
        assert [event.code for event in noted if event.verdict == "ended"] == ["OK", "BYTES_SPENT"]

    async def test_a_host_that_is_listed_may_be_named_in_commands(self, names: NameServer, box: AnySandbox) -> None:
        await box.run(("curl", "-s", "https://registry.test/x"), network=True)
        with pytest.raises(CommandBlocked, match="SANDBOX_EGRESS_HOSTS"):
            await box.run(("curl", "-s", "https://evil.test/x"), network=True)


async def _until_told(box: AnySandbox, text: str) -> None:
    async with asyncio.timeout(60):
        while text not in (await box.run(("cat", "src/told.ts"))).stdout:
            await asyncio.sleep(0.05)


async def _until_beat(box: AnySandbox) -> None:
    before = len((await box.run(("cat", "src/beat.ts"))).stdout)
    async with asyncio.timeout(60):
        while len((await box.run(("cat", "src/beat.ts"))).stdout) == before:
            await asyncio.sleep(0.05)
