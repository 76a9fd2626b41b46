"""A port that is ours from the moment it was chosen, though whoever serves there binds it seconds later.

A port that was looked at and let go may be another program's by then; where any free one was wanted, that is no rare
accident, since every program is given such ones in turn. So the socket stays bound, without listening. Ray Serve's
proxy sets SO_REUSEPORT and gets the same port beside it, as a program of the same user; everybody else is refused.
"""

from __future__ import annotations

import socket

from koda_ray.errors import InvalidInput

__all__ = ["hold_port"]


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
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
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
