"""A door on a sandbox's node, through which the preview's proxy on another one comes to the sandbox's socket.

A sandbox's socket lies on its machine and is this user's alone. The door listens at the node's address in the cluster,
names each socket that it was asked to show by a random word, and lets in whoever proves, without sending it, that they
have the deployment's key: it says a word that was never said before, and is told what only the key makes of that. It
proves the same in turn, so that nobody else's page is taken for the sandbox's. Neither the key nor anything that would
open the door again crosses the network or is logged. What is said afterwards is not hidden from the cluster's network:
a preview is of files that its nodes have anyway.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass

from koda_ray.errors import Missing, ServerFailed
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.passing import Passing, relay_both

__all__ = ["DoorAddress", "NodeDoor", "door_key", "enter"]

_GREETING = "koda-door-1"
_PROVE_S = 5.0
_MOST = 256
_OUTSIDE, _INSIDE = b"outside", b"inside"


@dataclass(frozen=True, kw_only=True)
class DoorAddress:
    """Where a door is, and what is shown behind it.

    Attributes:
        host: The node's address in the cluster's network.
        port: The door's.
        name: What the door calls the socket.
        base: As of `PreviewEndpoint`.
    """

    host: str
    port: int
    name: str
    base: str


def door_key(signing_key: bytes | None) -> bytes:
    """Make the key of a deployment's doors from the one that signs its addresses, of which it tells nothing.

    Args:
        signing_key: ``KODA_SIGNING_KEY`` of this node; None where it has none.

    Raises:
        Missing: It has none.
    """
    if not signing_key:
        raise Missing(
            "this sandbox is on another node than the preview's proxy, and one of the two has no KODA_SIGNING_KEY: set "
            "it in the environment of every node, from a secret (openssl rand -hex 32)"
        )
    return hmac.digest(signing_key, b"koda node door", hashlib.sha256)


class NodeDoor:
    """Lets those with the key in to sockets of this machine.

    Args:
        host: Where it listens: the node's address in the cluster's network, and no other.
        key: As of `door_key`.
    """

    def __init__(self, host: str, key: bytes) -> None:
        self._host = host
        self._key = key
        self._names: dict[str, str] = {}
        self._server: asyncio.Server | None = None
        self._opening = asyncio.Lock()
        self._passing = Passing(most=_MOST)

    async def to(self, endpoint: PreviewEndpoint) -> DoorAddress | PreviewEndpoint:
        """Return where a socket is shown from now on; what is reached from everywhere is returned as it is."""
        if endpoint.url is not None:
            return endpoint
        async with self._opening:
            if self._server is None:
                self._server = await asyncio.start_server(self._passing.serve(self._answer), self._host, 0)
        name = next((name for name, path in self._names.items() if path == endpoint.socket_path), None)
        if name is None:
            name = secrets.token_hex(16)
            self._names[name] = endpoint.socket_path
        port = int(self._server.sockets[0].getsockname()[1])
        return DoorAddress(host=self._host, port=port, name=name, base=endpoint.base)

    async def close(self) -> None:
        """Shut it, and break off what goes on; may be called twice."""
        server, self._server = self._server, None
        self._names.clear()
        if server is None:
            return
        server.close()
        await self._passing.break_off()
        await server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # whoever knocked sees that it ends, and not why
        with suppress(OSError, ValueError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            await self._let_in(reader, writer)

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_PROVE_S):
            word = secrets.token_hex(16)
            writer.write(f"{_GREETING} {word}\n".encode())
            name, theirs, proof = (await reader.readuntil()).decode("ascii").split()
            path = self._names.get(name)
            if not hmac.compare_digest(proof, _proof(self._key, _OUTSIDE, word, theirs, name)) or path is None:
                return
            inner = await asyncio.open_unix_connection(path)
        try:
            writer.write(f"{_proof(self._key, _INSIDE, word, theirs, name)}\n".encode())
            await relay_both((reader, writer), inner)
        finally:
            inner[1].close()


async def enter(address: DoorAddress, key: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection through a door; what is read and written from now on is the socket's behind it.

    Raises:
        ServerFailed: SERVER_FAILED, nobody is there, or whoever is does not have the key.
    """
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_PROVE_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            greeting, word = (await reader.readuntil()).decode("ascii").split()
            mine = secrets.token_hex(16)
            writer.write(f"{address.name} {mine} {_proof(key, _OUTSIDE, word, mine, address.name)}\n".encode())
            proof = (await reader.readuntil()).decode("ascii").strip()
            if greeting != _GREETING or not hmac.compare_digest(proof, _proof(key, _INSIDE, word, mine, address.name)):
                raise ValueError("not a door of this deployment")
            return reader, writer
    except (OSError, ValueError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
        if writer is not None:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        raise ServerFailed(
            f"the sandbox's node at {address.host} does not let the preview in ({type(error).__name__}); try "
            "again, since its session may have ended, or give all nodes one KODA_SIGNING_KEY"
        ) from error


def _proof(key: bytes, side: bytes, word: str, theirs: str, name: str) -> str:
    return hmac.digest(key, b"\0".join((side, word.encode(), theirs.encode(), name.encode())), hashlib.sha256).hex()
