"""What is said of each decision: who was asked for and what came of it, never a path, a query, a header or a body."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

__all__ = ["Audit", "EgressEvent"]


@dataclass(frozen=True, kw_only=True)
class EgressEvent:
    """One decision, the end of a connection that was allowed, or what all of them have moved so far.

    Args:
        verdict: ``allowed`` when it was connected, ``refused`` when it was not, ``ended`` when an allowed one is over;
            ``progress`` is about no single one, and says what is spent.
        code: Why it was refused or cut off (`rules.RefusalCode`); ``OK`` when there is nothing to say.
        how: ``connect`` for a tunnel, ``http`` for a request that the proxy reads, ``none`` before that is known.
        host: The name that was asked for; empty before it is known.
        port: The same for the port; 0 before it is known.
        address: What it was connected to.
        sent_bytes: Out of the sandbox.
        received_bytes: Into it.
        duration_s: From the request to this event.
        spent_sent_bytes: What the sandbox has used of its budget, all connections and earlier proxies together.
        spent_received_bytes: The same, into it.
    """

    verdict: Literal["allowed", "refused", "ended", "progress"]
    code: str = "OK"
    how: Literal["connect", "http", "none"] = "none"
    host: str = ""
    port: int = 0
    address: str | None = None
    sent_bytes: int = 0
    received_bytes: int = 0
    duration_s: float = 0.0
    spent_sent_bytes: int = 0
    spent_received_bytes: int = 0

    def to_line(self) -> bytes:
        """Write it as one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> EgressEvent:
        """Read what ``to_line`` wrote.

        Raises:
            ValueError: It is something else.
        """
        try:
            return cls(**json.loads(line))
        except TypeError as error:
            raise ValueError(str(error)) from error


Audit = Callable[[EgressEvent], None]
"""Takes each event, at once and in order; must not block for long."""
