"""The proxy on real sockets: what gets through, what does not, and what the other side hears of it."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from koda_ray.sandbox.egress.audit import EgressEvent
from koda_ray.sandbox.egress.proxy import EgressProxy
from koda_ray.sandbox.egress.rules import EgressLimits, EgressRules
from tests.sandbox.egress.conftest import Open, ProxyWay, until
from tests.sandbox.egress.network import OK, PUBLIC, PUBLIC_6, PUBLIC_TOO, NameServer, upstream

pytestmark = pytest.mark.needs("netns")

_MB = 1024 * 1024


# plain HTTP


async def test_a_page_of_an_allowed_host(way: Open, names: NameServer) -> None:
    out = await way()
    request = (
        b"GET http://site.test/a?token=secret HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Basic eDp5\r\n"
        b"Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Kept: yes\r\n\r\n"
    )
    async with upstream(OK) as server:
        answer = await out.ask(request)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\nhi")
    assert bytes(server.heard[0]) == (
        b"GET /a?token=secret HTTP/1.1\r\nhost: site.test\r\nx-kept: yes\r\nconnection: close\r\n\r\n"
    )
    allowed, ended = out.events
    assert (allowed.verdict, allowed.host, allowed.port, allowed.address) == ("allowed", "site.test", 80, PUBLIC)
    assert (ended.verdict, ended.code) == ("ended", "OK")
    assert ended.sent_bytes == len(server.heard[0]) and ended.received_bytes == len(OK)
    assert "secret" not in repr(out.events) and "token" not in repr(out.events)


async def test_an_address_of_the_new_kind(way: Open, names: NameServer) -> None:
    out = await way()
    async with upstream(OK, host=PUBLIC_6) as server:
        assert (await out.get("http://six.wild.test/")).endswith(b"hi")
    assert server.hosts == [PUBLIC_6] and out.events[0].address == PUBLIC_6


async def test_one_connection_serves_many_requests(way: Open, names: NameServer) -> None:
    out = await way()
    body = b"4\r\nabcd\r\n0\r\n\r\n"
    requests = (
        b"HEAD http://site.test/head HTTP/1.1\r\nHost: site.test\r\n\r\n"
        b"POST http://site.test/post HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n"
        + body
        + b"GET http://site.test:80 HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n"
    )
    async with upstream(OK) as server:
        answer = await out.ask(requests)
    assert answer.count(b"200 OK") == 3 and answer.count(b"hi") == 2
    assert [bytes(heard.split(b" HTTP", 1)[0]) for heard in server.heard] == [b"HEAD /head", b"POST /post", b"GET /"]
    assert bytes(server.heard[1]).endswith(b"\r\n\r\n4\r\nabcd\r\n0\r\n\r\n")


async def test_a_client_that_waits_to_be_asked_for_its_body(way: Open, names: NameServer) -> None:
    out = await way()
    async with upstream(OK, after=b"body") as server, asyncio.timeout(60):
        reader, writer = await asyncio.open_unix_connection(out.path)
        writer.write(
            b"PUT http://site.test/ HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(b"body")
        assert b"200 OK" in await reader.readuntil(b"hi")
        writer.close()
        await writer.wait_closed()
    assert b"expect" not in bytes(server.heard[0]).lower()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
    ],
)
async def test_an_answer_that_cannot_be_trusted(way: Open, names: NameServer, answer: bytes) -> None:
    out = await way()
    async with upstream(answer):
        told = await out.get("http://site.test/")
    assert told.startswith(b"HTTP/1.1 502 UPSTREAM_BROKEN\r\n")
    assert out.codes("ended") == ["UPSTREAM_BROKEN"]


async def test_half_an_answer_is_not_passed_off_as_a_whole_one(way: Open, names: NameServer) -> None:
    out = await way()
    async with upstream(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"):
        told = await out.get("http://site.test/")
    assert b"hello" in told and not told.endswith(b"0\r\n\r\n")
    assert out.codes("ended") == ["UPSTREAM_BROKEN"]


async def test_an_answer_that_came_whole_is_noted_as_that_however_soon_the_proxy_ends(
    folder: Path, names: NameServer
) -> None:
    """Who asked has all of it, and lets go of the proxy, before the proxy has come to look at that itself."""
    events: list[EgressEvent] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/way.sock")
    listener.listen()
    proxy = EgressProxy(listener, rules=EgressRules.parse(["site.test"]), audit=events.append)
    loop, heard, done = asyncio.get_running_loop(), bytearray(), asyncio.Event()

    def read() -> None:
        heard.extend(client.recv(65536))
        if heard.endswith(b"hi"):
            for serving in proxy._serving:  # at once: a close of its own comes an iteration later
                serving.cancel()
            done.set()

    async with upstream(OK):
        proxy.start()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{folder}/way.sock")
            client.setblocking(False)
            loop.add_reader(client, read)
            client.sendall(b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n")
            async with asyncio.timeout(60):
                await done.wait()
            loop.remove_reader(client)
            await proxy.close()
    assert [(event.verdict, event.code) for event in events] == [("allowed", "OK"), ("ended", "OK")]


async def test_a_host_where_nobody_listens(way: Open, names: NameServer) -> None:
    out = await way()
    assert b" 502 CONNECT_FAILED" in await out.get("http://site.test/")
    assert b" 502 RESOLVE_FAILED" in await out.get("http://none.wild.test/")
    assert out.codes() == ["CONNECT_FAILED", "RESOLVE_FAILED"]


# what is refused


async def test_a_refusal_says_what_and_how_to_allow_it(way: Open, names: NameServer) -> None:
    out = await way()
    for told in (await out.get("http://evil.test/path?key=secret"), await out.connect("evil.test:443")):
        assert told.startswith(b"HTTP/1.1 403 HOST_NOT_ALLOWED\r\n")
        assert b"evil.test is not on the list" in told and b"SANDBOX_EGRESS_HOSTS" in told and b"site.test" in told
        assert b"secret" not in told
    assert [(event.verdict, event.host, event.how) for event in out.events] == [
        ("refused", "evil.test", "http"), ("refused", "evil.test", "connect")
    ]  # fmt: skip
    assert "secret" not in repr(out.events)


async def test_a_name_that_is_not_allowed_is_never_looked_up(way: Open, names: NameServer) -> None:
    """A look-up carries data out by itself: the name."""
    out = await way()
    await out.connect("c2VjcmV0IGRhdGE.evil.test:443")
    await out.get("http://c2VjcmV0IGRhdGE.evil.test/")
    assert names.asked == []
    await out.get("http://none.wild.test/")
    assert names.asked == ["none.wild.test"]


_LOOPBACK = [
    "127.0.0.1", "[::1]", "0", "0.0.0.0", "[::]", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "127.1",
    "localhost", "localhost.", "LOCALHOST", "x.localhost", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
    "169.254.169.254", "[::ffff:a9fe:a9fe]", "10.11.12.13", "127.0.0.1.", "[fe80::1%25lo]", "[fe80::1%1]",
    "user@127.0.0.1", "127.0.0.1%2f", "site.test@127.0.0.1", "127.0.0.1#.site.test", "127.0.0.1\\.site.test",
]  # fmt: skip


@pytest.mark.parametrize("host", _LOOPBACK)
async def test_nothing_of_this_machine_is_reached_however_it_is_spelled(
    way: Open, names: NameServer, host: str
) -> None:
    out = await way([*("site.test", "127.0.0.1", "169.254.169.254", "10.11.12.13", "localhost")])
    async with (
        upstream(OK, host="0.0.0.0", port=80) as plain,
        upstream(OK, host="::", port=443) as tunnel,
    ):
        for told in (
            await out.connect(f"{host}:443"),
            await out.connect(f"{host}:80"),
            await out.get(f"http://{host}/"),
        ):
            assert told.split(b" ")[1] in (b"400", b"403"), told
        assert (plain.heard, tunnel.heard) == ([], [])
    assert names.asked == []


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["::1"], ["0.0.0.0"], ["169.254.169.254"], ["10.11.12.13"], ["::ffff:127.0.0.1"],
     ["64:ff9b::127.0.0.1"], [PUBLIC, "127.0.0.1"], [PUBLIC_6, "127.0.0.1"], ["fd00:ec2::254"]],
)  # fmt: skip
async def test_a_name_that_leads_to_this_machine(way: Open, names: NameServer, addresses: Sequence[str]) -> None:
    names.names["trap.wild.test"] = [addresses]
    out = await way()
    async with (
        upstream(OK, host="0.0.0.0", port=80) as plain,
        upstream(OK, host="0.0.0.0", port=443) as tunnel,
        upstream(OK, host=PUBLIC_6, port=80) as plain_6,
    ):
        assert b" 403 ADDRESS_NOT_ALLOWED" in await out.get("http://trap.wild.test/")
        assert b" 403 ADDRESS_NOT_ALLOWED" in await out.connect("trap.wild.test:443")
        assert (plain.heard, tunnel.heard, plain_6.heard) == ([], [], [])
    assert out.codes() == ["ADDRESS_NOT_ALLOWED", "ADDRESS_NOT_ALLOWED"]
    assert out.codes("allowed") == []


async def test_a_name_that_changes_its_mind(way: Open, names: NameServer) -> None:
    """Public when it is looked up first, this machine a moment later: one look-up, and its answer is what counts."""
    names.names["flip.wild.test"] = [[PUBLIC], ["127.0.0.1"], [PUBLIC_TOO], ["169.254.169.254"]]
    out = await way()
    async with (
        upstream(OK, host=PUBLIC) as first,
        upstream(OK, host=PUBLIC_TOO) as third,
        upstream(OK, host="127.0.0.1") as loopback,
        upstream(OK, host="169.254.169.254") as metadata,
    ):
        told = [await out.get("http://flip.wild.test/") for _ in range(4)]
    assert [line.split(b" ")[1] for line in told] == [b"200", b"403", b"200", b"403"]
    assert (len(first.heard), len(third.heard), loopback.heard, metadata.heard) == (1, 1, [], [])
    assert names.asked == ["flip.wild.test"] * 4


class _Flipping:
    """A resolver of the caller's that lies anew each time."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        return self.answers.pop(0)


async def test_whoever_resolves_its_answer_is_judged(way: Open, net: None) -> None:
    resolver = _Flipping([PUBLIC], ["127.0.0.1"], [], ["nonsense"], ["fe80::1%lo"])
    out = await way(resolver=resolver)
    async with upstream(OK) as server, upstream(OK, host="127.0.0.1") as loopback:
        told = [(await out.get("http://site.test/")).split(b" ")[1] for _ in range(5)]
    assert told == [b"200", b"403", b"502", b"502", b"403"]
    assert (len(server.heard), loopback.heard) == (1, [])


async def test_an_installation_keeps_its_own_public_addresses_out_of_reach(way: Open, names: NameServer) -> None:
    names.names["inner.wild.test"] = [[PUBLIC_TOO]]
    out = await way(denied=[f"{PUBLIC_TOO}/32"])
    async with upstream(OK, host=PUBLIC_TOO) as inner, upstream(OK, host=PUBLIC):
        assert b"this installation's own" in await out.get("http://inner.wild.test/")
        assert (await out.get("http://site.test/")).endswith(b"hi")
    assert inner.heard == []


_HEAD = b"POST http://site.test/ HTTP/1.1\r\nHost: site.test\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        _HEAD
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://site.test/b HTTP/1.1\r\n\r\n",
        _HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        _HEAD + b"Content-Length: 5, 6\r\n\r\nhello!",
        _HEAD + b"Content-Length: +5\r\n\r\nhello",
        _HEAD + b"Content-Length: 0x5\r\n\r\nhello",
        _HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        _HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        _HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        _HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        _HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        _HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        _HEAD + b"Host: evil.test\r\n\r\n",
        _HEAD + b"X: a\x00b\r\n\r\n",
        _HEAD + b"X: a\rb\r\n\r\n",
        b"GET http://site.test/ HTTP/1.1 HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET http://site.test/\xc3\xa4 HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET http://site.test/a#b HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET http://u:p@site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET https://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET ftp://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET http://site.test:http/ HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"CONNECT site.test HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"CONNECT site.test:443 HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4\r\n\r\nbody",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    ],
)
async def test_a_request_that_two_programs_could_read_differently_reaches_nobody(
    way: Open, names: NameServer, request_bytes: bytes
) -> None:
    out = await way()
    async with upstream(OK) as server, upstream(OK, port=443) as tunnel:
        told = await out.ask(request_bytes, eof=True)
        assert (server.heard, tunnel.heard) == ([], [])
    assert told.split(b" ")[1] in (b"400", b"501"), told
    assert told.count(b"\r\nX-Koda-Egress: ") == 1  # and nothing after it was taken for a request
    assert out.codes() == ["BAD_REQUEST"]


@pytest.mark.parametrize("body", [b"5\r\nhel", b"zz\r\n", b"5\r\nhelloXX0\r\n\r\n", b"-1\r\n\r\n"])
async def test_a_body_that_is_broken_off_ends_the_request(way: Open, names: NameServer, body: bytes) -> None:
    out = await way()
    async with upstream(OK, after=b"never") as server:
        told = await out.ask(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body, eof=True)
    assert told.startswith(b"HTTP/1.1 400 ")
    assert not bytes(server.heard[0]).endswith(b"0\r\n\r\n")
    assert out.codes("ended") == ["BAD_REQUEST"]


# tunnels


async def test_tls_through_a_tunnel(way: Open, names: NameServer, certificate: tuple[Path, Path]) -> None:
    key, found = certificate
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(found, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"echo " + await reader.readexactly(5))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, PUBLIC, 443, ssl=serving)
    out = await way()
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_unix_connection(out.path)
        writer.write(b"CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        await writer.start_tls(ssl.create_default_context(cafile=found), server_hostname="site.test")
        writer.write(b"hello")
        assert await reader.readexactly(10) == b"echo hello"
        writer.close()
        await writer.wait_closed()
    await until(lambda: out.codes("ended") == ["OK"])
    server.close()
    await server.wait_closed()
    assert [(event.how, event.host, event.address) for event in out.events] == [("connect", "site.test", PUBLIC)] * 2
    assert out.events[-1].sent_bytes > 200 and out.events[-1].received_bytes > 500


def _hello(name: str | None) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    "said",
    [_hello("evil.test"), _hello(None), _hello("site.test.evil.test"), b"SSH-2.0-OpenSSH_9.2\r\n",
     b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n", b"\x00" * 100, _hello("site.test")[:40], b"",
     b"\x16\x03\x01" * 20_000],
    ids=["another name", "no name", "a longer name", "ssh", "http", "zeros", "cut", "nothing", "handshakes"],
)  # fmt: skip
async def test_a_tunnel_carries_tls_for_its_host_or_nothing(way: Open, names: NameServer, said: bytes) -> None:
    out = await way()
    async with upstream(b"", port=443) as server:
        told = await out.ask(b"CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n" + said, eof=True)
        await until(lambda: bool(out.events))
    assert told.startswith(b"HTTP/1.1 200 ")
    assert b"".join(map(bytes, server.heard)) == b""
    assert out.codes() == ["TLS_NAME_MISMATCH"] and out.codes("allowed") == []


async def test_a_client_learns_that_its_handshake_named_another_host(way: Open, names: NameServer) -> None:
    out = await way()
    async with upstream(b"", port=443):
        told = await out.ask(b"CONNECT site.test:443 HTTP/1.1\r\nHost: x\r\n\r\n" + _hello("evil.test"))
    assert told.partition(b"\r\n\r\n")[2][-2:] == bytes([2, 112])  # fatal, unrecognized_name


async def test_a_tunnel_to_the_plain_port_is_read_as_requests(way: Open, names: NameServer) -> None:
    out = await way()
    opening = b"CONNECT site.test:80 HTTP/1.1\r\nHost: site.test:80\r\n\r\n"
    async with upstream(OK) as server:
        told = await out.ask(opening + b"GET /in?x=1 HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n")
        assert told.count(b" 200 ") == 2 and told.endswith(b"hi")
        for inner in (
            b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
            b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
            b"CONNECT site.test:443 HTTP/1.1\r\nHost: site.test:443\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        ):
            assert b" 400 BAD_REQUEST" in await out.ask(opening + inner, eof=True)
    assert [bytes(heard.split(b" HTTP", 1)[0]) for heard in server.heard] == [b"GET /in?x=1"]


# limits


async def test_one_that_says_its_request_very_slowly(way: Open, names: NameServer) -> None:
    out = await way(limits=EgressLimits(head_timeout_s=0.5))
    async with upstream(OK) as server, asyncio.timeout(60):
        reader, writer = await asyncio.open_unix_connection(out.path)
        writer.write(b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n")
        drip = asyncio.create_task(_drip(writer))
        told = await reader.read()
        drip.cancel()
        writer.close()
        assert server.heard == []
    assert told.startswith(b"HTTP/1.1 408 TIMED_OUT")
    assert out.codes() == ["TIMED_OUT"]


async def _drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"X-A: b\r\n")
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "data", [b"X: " + b"a" * 40_000 + b"\r\n\r\n", b"X: y\r\n" * 5_000 + b"\r\n", b"X: " + b"a" * 200_000]
)
async def test_a_head_that_is_too_large(way: Open, names: NameServer, data: bytes) -> None:
    out = await way()
    async with upstream(OK) as server:
        told = await out.ask(b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n" + data)
        assert server.heard == []
    assert told.startswith(b"HTTP/1.1 431 HEAD_TOO_LARGE")
    assert out.codes() == ["HEAD_TOO_LARGE"]


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_thousand_connections(many_descriptors: None, way: Open, names: NameServer) -> None:
    """As many are served as may be, the others hear why not, and afterwards it is as before."""
    out = await way(limits=EgressLimits(connections=32, head_timeout_s=300, burst=2000))

    async def one() -> bytes:
        reader, writer = await asyncio.open_unix_connection(out.path)
        opened.append(writer)
        return await reader.read()

    opened: list[asyncio.StreamWriter] = []
    async with upstream(OK), asyncio.timeout(60):
        asking = [asyncio.create_task(one()) for _ in range(1000)]
        await until(lambda: sum(task.done() for task in asking) == 1000 - 32)
        told = [task.result() for task in asking if task.done()]
        assert all(answer.startswith(b"HTTP/1.1 503 TOO_MANY_CONNECTIONS") for answer in told)
        assert out.codes() == ["TOO_MANY_CONNECTIONS"] * (1000 - 32)
        for writer in opened:
            writer.close()
        await asyncio.gather(*asking)
        await _until_answer(out)


async def _until_answer(out: ProxyWay) -> None:
    while not (await out.get("http://site.test/")).endswith(b"hi"):
        await asyncio.sleep(0.02)


async def test_decisions_are_paced(way: Open, names: NameServer) -> None:
    out = await way(limits=EgressLimits(per_second=50, burst=5))
    begun = asyncio.get_running_loop().time()
    for _ in range(15):
        await out.get("http://evil.test/")
    assert asyncio.get_running_loop().time() - begun > 0.3
    assert len(out.events) == 15  # each is noted, however many there are


async def test_what_may_be_sent_is_limited(way: Open, names: NameServer) -> None:
    out = await way(limits=EgressLimits(sent_bytes=_MB))
    request = b"POST http://site.test/ HTTP/1.1\r\nHost: site.test\r\nContent-Length: %d\r\n\r\n" % (8 * _MB)
    async with upstream(OK, after=b"never") as server:
        told = await out.ask(request + b"x" * (4 * _MB))
        again = await out.ask(_HEAD + b"Content-Length: %d\r\n\r\n" % _MB + b"x" * _MB)
    for answer in (told, again):
        assert answer.startswith(b"HTTP/1.1 403 BYTES_SPENT") and b"SANDBOX_EGRESS_SENT_MB" in answer
    assert _MB // 2 < sum(map(len, server.heard)) <= _MB
    assert out.codes("ended") == ["BYTES_SPENT", "BYTES_SPENT"]


async def test_what_may_be_received_is_limited(way: Open, names: NameServer) -> None:
    out = await way(limits=EgressLimits(received_bytes=_MB))
    large = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (8 * _MB) + b"x" * (8 * _MB)
    async with upstream(large):
        told = await out.get("http://site.test/")
        assert _MB // 2 < len(told) <= _MB
        assert out.codes("ended") == ["BYTES_SPENT"]
        assert b"SANDBOX_EGRESS_RECEIVED_MB" in await out.get("http://site.test/")


@pytest.mark.parametrize("limits", [EgressLimits(sent_bytes=_MB), EgressLimits(received_bytes=_MB)])
async def test_tunnels_are_counted_too(way: Open, names: NameServer, limits: EgressLimits) -> None:
    out = await way(limits=limits)
    hello = _hello("site.test")
    async with upstream(b"y" * 4 * _MB, port=443, after=hello, hold=True) as server, asyncio.timeout(60):
        reader, writer = await asyncio.open_unix_connection(out.path)
        writer.write(b"CONNECT site.test:443 HTTP/1.1\r\nHost: x\r\n\r\n" + hello + b"x" * (4 * _MB))
        received = 0
        try:
            while data := await reader.read(65536):
                received += len(data)
        except OSError:
            pass
        writer.close()
        await until(lambda: out.codes("ended") == ["BYTES_SPENT"])
    (event,) = [event for event in out.events if event.verdict == "ended"]
    assert event.sent_bytes <= limits.sent_bytes and event.received_bytes <= limits.received_bytes
    assert len(server.heard[0]) <= limits.sent_bytes and received <= limits.received_bytes + 1000


@pytest.mark.parametrize("limits", [EgressLimits(idle_timeout_s=1.0), EgressLimits(total_timeout_s=1.0)])
async def test_what_stands_still_or_takes_too_long_is_ended(way: Open, names: NameServer, limits: EgressLimits) -> None:
    out = await way(limits=limits)
    async with upstream(b"", port=443), upstream(b"", port=80), asyncio.timeout(60):
        tunnel = await asyncio.open_unix_connection(out.path)
        tunnel[1].write(b"CONNECT site.test:443 HTTP/1.1\r\nHost: x\r\n\r\n" + _hello("site.test"))
        told = await out.get("http://site.test/")
        assert told.startswith(b"HTTP/1.1 504 TIMED_OUT")
        await tunnel[0].read()
        tunnel[1].close()
    assert sorted(out.codes("ended")) == ["TIMED_OUT", "TIMED_OUT"]
