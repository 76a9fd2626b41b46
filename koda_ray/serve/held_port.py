"""A port that is ours from the moment it was chosen, though whoever serves there binds it seconds later.

A port that was looked at and let go may be another program's by then; where any free one was wanted, that is no rare
accident, since every program is given such ones in turn. So the socket stays bound, without listening. Whoever sets
SO_REUSEPORT as the same user gets the same port beside it, as a replica (`beside_port`) and Ray Serve's proxies do;
everybody else is refused.
"""

from __future__ import annotations

import socket

from koda_ray.errors import InvalidInput

__all__ = ["beside_port", "hold_port"]


def hold_port(host: str, port: int, *, name: str) -> socket.socket:
    """Take a port.

    Args:
        host: The address that is served.
        port: Which; any that is free when 0.
        name: The setting that says so, for the message.

    Returns:
        The bound socket, for whoever serves there, or to be kept for as long as somebody else does.

    Raises:
        InvalidInput: INVALID_INPUT, somebody listens there, or this machine has no such address.
    """
    held = _socket(host)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier server may linger
        held.bind((host, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # only now: the bind was to meet every listener
    except OSError as error:
        held.close()
        raise InvalidInput(
            f"cannot listen on {host}:{port} ({error.strerror}): another server may run there; set {name} to a "
            "free port, or to 0 for any"
        ) from error
    return held


def beside_port(host: str, port: int) -> socket.socket:
    """Take a port that another process of this user holds, to listen there.

    Raises:
        OSError: It is somebody else's.
    """
    beside = _socket(host)
    try:
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        beside.bind((host, port))
    except OSError:
        beside.close()
        raise
    return beside


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
