"""Looking names up: once for each connection, and what is found is what is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol

__all__ = ["Resolver", "SystemResolver"]


class Resolver(Protocol):
    """Says which addresses a name has now; the proxy judges them, whoever says so."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Look a name up.

        Args:
            host: In lower case, without a last dot.
            port: That will be connected to.

        Raises:
            OSError: There is no such name, or nobody to ask.
        """
        ...


class SystemResolver:
    """Asks the machine's own name service."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Look a name up in a thread; the name is whole, so no search domain is tried after it."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(f"{host}.".encode("ascii"), port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))
