"""Which name a TLS client asks for, read by OpenSSL from its first message; nothing is decrypted.

Many hosts share one address at a content network, which goes by the name in the handshake: a tunnel to an allowed host
would lead to any of its neighbours. So that name has to be the one that was allowed.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

__all__ = ["Hello", "read_hello"]


@dataclass(frozen=True)
class Hello:
    """What a client's first bytes say.

    ``name`` is None where they name nobody or are not TLS; ``alert`` is the answer that ends the handshake.
    """

    name: str | None
    alert: bytes


def read_hello(data: bytes) -> Hello | None:
    """Read the beginning of a TLS connection; None when more of it is needed."""
    seen: list[str | None] = []

    def named(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> int:
        seen.append(name)
        return int(ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = named
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    incoming.write(data)
    try:
        context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
    except ssl.SSLWantReadError:
        return None
    except ssl.SSLError:
        pass  # always: the name is all that is wanted
    return Hello(next((name for name in seen if name), None), outgoing.read())
