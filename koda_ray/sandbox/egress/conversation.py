"""One connection from inside a sandbox: what it asks for, whether it may, and the exchange itself.

A tunnel to port 443 carries TLS to the host that it was opened for, or nothing. A tunnel to port 80 ends here: what
comes through it is read as requests, so plain HTTP is judged in the same way whichever way it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Literal

import h11

from koda_ray.sandbox.egress.addresses import Address
from koda_ray.sandbox.egress.audit import Audit, EgressEvent
from koda_ray.sandbox.egress.budget import Tally, TrafficBudget
from koda_ray.sandbox.egress.hello import read_hello
from koda_ray.sandbox.egress.request import Destination, read_target, rewritten, rewritten_response
from koda_ray.sandbox.egress.resolve import Resolver
from koda_ray.sandbox.egress.rules import EgressLimits, EgressRules, Refused
from koda_ray.sandbox.egress.tunnel import relay
from koda_ray.sandbox.egress.wire import READ_BYTES, Idle, Peer, close

__all__ = ["Conversation", "Terms"]

_MOST_ADDRESSES = 4
_TLS_PORT = 443


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What all connections of one sandbox have in common."""

    rules: EgressRules
    limits: EgressLimits
    resolver: Resolver
    budget: TrafficBudget
    audit: Audit

    def note(self, event: EgressEvent) -> None:
        """Have the owner told of something, and of what is spent."""
        spent = self.budget.spent()
        self.audit(replace(event, spent_sent_bytes=spent["sent"], spent_received_bytes=spent["received"]))


class Conversation:
    """A client's connection, from its first byte to its last.

    Args:
        terms: What is allowed.
        reader: What the client says.
        writer: What it is told.
    """

    def __init__(self, terms: Terms, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._terms = terms
        self._reader = reader
        self._writer = writer
        self._idle: Idle | None = None
        self._whole = False
        self._client = self._new_client()
        self._tally = Tally(terms.budget)
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._end = self._begun + terms.limits.total_timeout_s

    async def hold(self) -> None:
        """Serve the client until one of the two has had enough, or time is up."""
        within: Destination | None = None
        first = True
        try:
            while self._loop.time() < self._end:
                request = await self._next_request(first=first)
                if request is None:
                    return
                first = False
                within = await self._answer(request, within)
                if self._client.http.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                    self._client.http.start_next_cycle()
                elif self._client.http.our_state is not h11.IDLE:
                    return
        except OSError:
            pass  # the client went away, or takes nothing more

    async def refuse(self, error: Refused, *, target: Destination | None = None, method: bytes = b"") -> None:
        """Note down that something does not get through, and tell the client why."""
        self._note("refused", error.code, target)
        await self._tell(error, target, method)

    # requests

    async def _next_request(self, *, first: bool) -> h11.Request | None:
        limits = self._terms.limits
        self._tally = Tally(self._terms.budget)
        self._begun = self._loop.time()
        try:
            async with asyncio.timeout(limits.head_timeout_s):
                event = await self._client.receive()
        except TimeoutError:
            if first:  # later it is a connection that was kept for nothing
                words = f"no whole request came within {limits.head_timeout_s:g} s"
                await self.refuse(Refused("TIMED_OUT", 408, words))
            return None
        except h11.RemoteProtocolError as error:
            large = error.error_status_hint == 431
            await self.refuse(_too_large(limits) if large else Refused("BAD_REQUEST", 400, f"{error}"))
            return None
        if not isinstance(event, h11.Request):
            return None
        if len(event.target) + sum(len(name) + len(value) + 4 for name, value in event.headers) > limits.head_bytes:
            await self.refuse(_too_large(limits))
            return None
        return event

    async def _answer(self, request: h11.Request, within: Destination | None) -> Destination | None:
        """Do what is asked for, or say why not; returns the tunnel that later requests come through."""
        target: Destination | None = None
        try:
            target = read_target(request, within=within)
            await self._terms.budget.pace()
            self._begun = self._loop.time()
            self._terms.rules.check(target.host, target.port)
            self._terms.budget.check()
            if target.how == "http":
                await self._exchange(request, target)
            elif target.port == _TLS_PORT:
                await self._tunnel(target)
            else:
                came = await self._open_tunnel()
                self._client = self._new_client()
                if came:
                    self._client.http.receive_data(came)
                return target
        except Refused as error:
            await self.refuse(error, target=target, method=request.method)
        return within

    async def _exchange(self, request: h11.Request, target: Destination) -> None:
        address, reader, writer = await self._connect(target)
        server = Peer(
            h11.CLIENT,
            reader,
            writer,
            head_bytes=self._terms.limits.head_bytes,
            reads=lambda count: self._count("received", count),
            writes=lambda count: self._count("sent", count),
        )
        try:
            async with self._passing(target, address):
                await server.send(rewritten(request, target))
                await _both_ways(self._upload(server), self._download(server))
        except Refused as error:
            await self._tell(error, target, request.method)
        finally:
            await close(writer)

    async def _upload(self, server: Peer) -> None:
        try:
            while not isinstance(event := await self._client.receive(), h11.EndOfMessage):
                if isinstance(event, h11.Data):
                    await server.send(h11.Data(data=event.data))
        except h11.RemoteProtocolError as error:
            raise Refused("BAD_REQUEST", 400, f"{error}") from None
        await server.send(h11.EndOfMessage())

    async def _download(self, server: Peer) -> None:
        while not isinstance(event := await _heard(server), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                await self._client.send(rewritten_response(event))
            elif isinstance(event, h11.Data):
                await self._client.send(h11.Data(data=event.data))
        await self._client.send(h11.EndOfMessage())
        self._whole = True

    # tunnels

    async def _tunnel(self, target: Destination) -> None:
        address, reader, writer = await self._connect(target)
        try:
            first = await self._open_tunnel()
            if isinstance(target.host, str):
                first = await self._hello(target.host, first)
            async with self._passing(target, address) as idle:
                await relay((self._reader, self._writer), (reader, writer), first=first, tally=self._tally, idle=idle)
        finally:
            await close(writer)

    async def _open_tunnel(self) -> bytes:
        """Say that the tunnel is there; returns what the client has sent through it already."""
        while self._client.http.next_event() is not h11.PAUSED:
            pass
        await self._client.send(h11.Response(status_code=200, reason=b"Connected", headers=[]))
        return self._client.http.trailing_data[0]

    async def _hello(self, host: str, data: bytes) -> bytes:
        """Read a tunnel's first message; it has to name the host that the tunnel was opened for."""
        limits = self._terms.limits
        try:
            async with asyncio.timeout(limits.head_timeout_s):
                while (hello := read_hello(data)) is None and len(data) <= limits.head_bytes:
                    more = await self._reader.read(READ_BYTES)
                    if not more:
                        break
                    data += more
        except TimeoutError:
            hello = None
        if hello is not None and hello.name is not None and hello.name.lower().removesuffix(".") == host:
            return data
        self._writer.write(b"" if hello is None else hello.alert)
        raise Refused("TLS_NAME_MISMATCH", 403, f"a tunnel to {host} carries TLS for {host} and nothing else")

    # inside

    def _new_client(self) -> Peer:
        return Peer(
            h11.SERVER,
            self._reader,
            self._writer,
            head_bytes=self._terms.limits.head_bytes,
            reads=self._touch,
            writes=self._touch,
        )

    async def _connect(self, target: Destination) -> tuple[Address, asyncio.StreamReader, asyncio.StreamWriter]:
        """Look up, judge, and connect to what was judged: a name that changes its mind in between changes nothing."""
        timeout_s = self._terms.limits.connect_timeout_s
        addresses = await self._addresses(target)
        failed = "no address"
        try:
            async with asyncio.timeout(timeout_s):
                for address in addresses[:_MOST_ADDRESSES]:
                    try:
                        reader, writer = await asyncio.open_connection(str(address), target.port)
                    except OSError as error:
                        failed = f"{address}: {error.strerror or error}"
                    else:
                        return address, reader, writer
        except TimeoutError:
            failed = f"no answer within {timeout_s:g} s"
        raise Refused("CONNECT_FAILED", 502, f"{target.host} is allowed but could not be connected to ({failed})")

    async def _addresses(self, target: Destination) -> list[Address]:
        if not isinstance(target.host, str):
            return [target.host]  # judged with the rules already
        timeout_s = self._terms.limits.connect_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._terms.resolver.resolve(target.host, target.port)
            addresses = [ip_address(text) for text in found]
        except TimeoutError:
            raise _unresolved(target.host, f"no answer within {timeout_s:g} s") from None
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no thread to ask in
            raise _unresolved(target.host, str(error)) from None
        self._terms.rules.check_addresses(target.host, addresses)
        return addresses

    @asynccontextmanager
    async def _passing(self, target: Destination, address: Address) -> AsyncGenerator[Idle]:
        """Note that something gets through, end it when it stands still or takes too long, and note what came of it."""
        self._note("allowed", "OK", target, address)
        self._whole = False
        code = "CLOSED"
        try:
            async with asyncio.timeout(None) as timeout:
                self._idle = Idle(timeout, self._terms.limits.idle_timeout_s, end=self._end)
                yield self._idle
            code = "OK"
        except asyncio.CancelledError:
            if self._whole:  # who has the whole answer may be done with this proxy before it has noticed
                code = "OK"
            raise
        except Refused as error:
            code = error.code
            raise
        except TimeoutError:
            code = "TIMED_OUT"
            raise Refused("TIMED_OUT", 504, "nothing moved for too long, or the whole took too long") from None
        except OSError:
            code = "BROKEN_OFF"
            raise
        finally:
            self._idle = None
            self._note("ended", code, target, address)

    def _count(self, way: Literal["sent", "received"], count: int) -> None:
        self._tally.take(way, count)
        self._touch(count)

    def _touch(self, _: int) -> None:
        if self._idle is not None:
            self._idle.touch()

    def _note(
        self,
        verdict: Literal["allowed", "refused", "ended"],
        code: str,
        target: Destination | None,
        address: Address | None = None,
    ) -> None:
        self._terms.note(
            EgressEvent(
                verdict=verdict,
                code=code,
                how="none" if target is None else target.how,
                host="" if target is None else str(target.host),
                port=0 if target is None else target.port,
                address=None if address is None else str(address),
                sent_bytes=self._tally.bytes["sent"],
                received_bytes=self._tally.bytes["received"],
                duration_s=round(self._loop.time() - self._begun, 6),
            )
        )

    async def _tell(self, error: Refused, target: Destination | None, method: bytes) -> None:
        if self._client.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return  # half an answer is out already; its end never comes, which every client takes for an error
        what = "the request" if target is None else f"{method.decode('ascii')} {target.host}:{target.port}"
        data = f"koda_ray egress: {what} was refused ({error.code}): {error.words}\n".encode()
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(data))),
            ("X-Koda-Egress", error.code),
            ("Connection", "close"),
        ]
        async with asyncio.timeout(self._terms.limits.head_timeout_s):  # for one who asks and never listens
            await self._client.send(
                h11.Response(status_code=error.status, reason=error.code.encode("ascii"), headers=headers)
            )
            if method != b"HEAD":
                await self._client.send(h11.Data(data=data))
            await self._client.send(h11.EndOfMessage())


async def _heard(server: Peer) -> h11.Event | type[h11.PAUSED]:
    try:
        return await server.receive()
    except (OSError, h11.ProtocolError) as error:
        raise Refused("UPSTREAM_BROKEN", 502, f"the server's answer broke off or cannot be read ({error})") from None


async def _both_ways(up: Coroutine[None, None, None], down: Coroutine[None, None, None]) -> None:
    """Run an exchange until the answer is whole: a server may give it before it has read the whole request."""
    uploading, downloading = asyncio.create_task(up), asyncio.create_task(down)
    try:
        await asyncio.wait({uploading, downloading}, return_when=asyncio.FIRST_COMPLETED)
        if uploading.done() and not isinstance(uploading.exception(), OSError):
            uploading.result()
        await downloading
    finally:
        uploading.cancel()
        downloading.cancel()
        await asyncio.gather(uploading, downloading, return_exceptions=True)


def _too_large(limits: EgressLimits) -> Refused:
    return Refused("HEAD_TOO_LARGE", 431, f"a request's head may have {limits.head_bytes} bytes")


def _unresolved(host: str, why: str) -> Refused:
    return Refused("RESOLVE_FAILED", 502, f"{host} is allowed but could not be looked up ({why})")
