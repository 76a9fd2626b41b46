"""How long to wait for a database or a bucket that has fallen silent, and how others are told not to wait for us.

A server that ends closes its connections. One that is cut off, or whose machine is gone, closes nothing: by itself a
system gives up what it sent only after a quarter of an hour, asks after an idle connection only after two hours, and
waits for a new one for two minutes. Here all of that is seconds, so that what waits is told, and goes on with whoever
answers next. It is the network that is judged, never the work: a server that is busy still acknowledges what it gets.

The same holds the other way round. A transaction whose client was cut off keeps what it locked, for hours as PostgreSQL
has it by itself, and everybody who has a use for the same row would wait for it; so each connection asks the server to
notice sooner still. What a person said, in the URL, libpq's environment or the server's settings, stands in either
case.

Source: PostgreSQL's documentation, "Parameter Key Words" of libpq and "TCP Settings"; tcp(7); botocore.config.Config.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue
from sqlalchemy.engine import URL

__all__ = [
    "ANSWER_S",
    "CONNECT_S",
    "bounded_socket",
    "bucket_options",
    "is_no_answer",
    "postgres_arguments",
    "postgres_request",
]

CONNECT_S = 5
"""How long a new connection may take, in seconds, at each address of a server."""
ANSWER_S = 15.0
"""How long a server that is spoken to over HTTP may say nothing, in seconds."""
_IDLE_S, _INTERVAL_S, _COUNT = 5, 2, 3
_UNACKNOWLEDGED_MS = 10_000
_IDLE_IN_TRANSACTION_MS = 15_000
"""No transaction of ours waits for its client so long; what stands between (PgBouncer) may hide that one is gone."""
_ASKED = {
    "connect_timeout": CONNECT_S,
    "keepalives_idle": _IDLE_S,
    "keepalives_interval": _INTERVAL_S,
    "keepalives_count": _COUNT,
    "tcp_user_timeout": _UNACKNOWLEDGED_MS,
}
_OF_SERVER = {  # sooner than a client gives its server up: others wait for what that client had locked
    "tcp_keepalives_idle": 2,
    "tcp_keepalives_interval": 1,
    "tcp_keepalives_count": 4,
    "tcp_user_timeout": 6_000,
    "idle_in_transaction_session_timeout": _IDLE_IN_TRANSACTION_MS,
}
_BUCKET_CONNECT_S = 3
"""A bucket's client tries five times, with pauses, and s3fs has it do so again."""
_BUCKET_TRIES = 2


def postgres_arguments(url: URL) -> dict[str, int]:
    """Return what psycopg is to be told, but for what a person said; nothing for other drivers.

    Where the URL names a service, its file may say all of this, and would not be heard beside us: nothing is added.
    """
    if url.get_driver_name() != "psycopg" or "service" in url.query:
        return {}
    from psycopg import pq

    said = set(url.query) | {each.keyword.decode() for each in pq.Conninfo.get_defaults() if each.val is not None}
    return {name: value for name, value in _ASKED.items() if name not in said}


def postgres_request() -> str:
    """Return what asks a server to notice that this connection's client is gone, where nobody told it when to.

    Nothing of it is a startup parameter, which PgBouncer refuses, and what it leaves on a connection of PgBouncer's is
    good for whoever has that next.
    """
    wanted = ", ".join(f"('{name}', '{value}')" for name, value in _OF_SERVER.items())
    return (
        f"SELECT set_config(name, wanted, false) FROM pg_settings JOIN (VALUES {wanted}) AS asked (name, wanted) "
        "USING (name) WHERE source = 'default'"
    )


def bucket_options(options: Mapping[str, JsonValue]) -> tuple[dict[str, Any], int]:
    """Return the options of a bucket at ``s3://`` with the limits of its client, and how often s3fs is to try.

    What ``config_kwargs`` says already stands. With a silent bucket a call ends after about a minute at most: two
    times five attempts of 3 s, with pauses. As that many are made, none takes long once the bucket is back.
    """
    limits: dict[str, Any] = {"connect_timeout": _BUCKET_CONNECT_S, "read_timeout": ANSWER_S, **_own_sockets()}
    given = options.get("config_kwargs")
    return {**options, "config_kwargs": {**limits, **(given if isinstance(given, dict) else {})}}, _BUCKET_TRIES


def bounded_socket(address: tuple[Any, ...]) -> socket.socket:
    """Make a socket that ends once what it sends is not acknowledged; ``address`` is as `socket.getaddrinfo` gives it.

    A client over HTTP limits how long an answer may take, and not how long its own request may take to be sent.
    """
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    if family in (socket.AF_INET, socket.AF_INET6):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    return made


def is_no_answer(error: BaseException) -> bool:
    """Tell whether a bucket's client says by an error that nobody answered, and not what somebody answered."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    try:
        from botocore import exceptions  # what speaks to `s3://` says it in words of its own
    except ImportError:
        return False
    return isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError)


def _own_sockets() -> dict[str, Any]:
    """Return the option by which a bucket's client makes its sockets as `bounded_socket` does, where it has one."""
    try:
        from aiobotocore.config import AioConfig
        from botocore.exceptions import ParamValidationError
    except ImportError:
        return {}
    made = {"connector_args": {"socket_factory": bounded_socket}}
    try:
        AioConfig(**made)
    except ParamValidationError:  # an older one
        return {}
    return made
