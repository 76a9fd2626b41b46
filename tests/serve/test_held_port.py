"""A port is ours from when it was chosen until whoever serves there is done, and nobody else's meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from koda_ray.errors import InvalidInput
from koda_ray.serve.held_port import hold_port

HOST = "127.0.0.1"


@contextmanager
def bound(port: int, *options: int) -> Iterator[socket.socket]:
    with socket.socket() as made:
        for option in options:
            made.setsockopt(socket.SOL_SOCKET, option, 1)
        made.bind((HOST, port))
        yield made


def refused(port: int) -> bool:
    """Whether nobody gets a port: neither who asks plainly nor who would have one that lingers."""
    for options in ((), (socket.SO_REUSEADDR,)):
        with ExitStack() as opened:
            try:
                opened.enter_context(bound(port, *options))
            except OSError:
                continue
            return False
    return True


def test_nobody_else_gets_it_before_and_while_it_is_served() -> None:
    with hold_port(HOST, 0, name="KODA_PORT") as held:
        port = int(held.getsockname()[1])
        assert refused(port)
        with bound(port, socket.SO_REUSEADDR, socket.SO_REUSEPORT) as serving:  # as Ray Serve's proxy does
            serving.listen()
            assert refused(port)
            for _ in range(20):  # none is given to the one that only holds it
                with socket.create_connection((HOST, port), timeout=60):
                    serving.accept()[0].close()
        assert refused(port)
    assert not refused(port)


def test_who_holds_it_may_serve_there_itself() -> None:
    with hold_port(HOST, 0, name="KODA_PREVIEW_PORT") as held:
        held.listen()
        with socket.create_connection(held.getsockname(), timeout=60):
            held.accept()[0].close()


@pytest.mark.parametrize("options", [(), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)])
def test_where_somebody_listens_it_is_refused(options: tuple[int, ...]) -> None:
    with bound(0, *options) as other:
        other.listen()
        port = int(other.getsockname()[1])
        with pytest.raises(InvalidInput, match=rf"{HOST}:{port} .*set KODA_PORT"):
            hold_port(HOST, port, name="KODA_PORT")


def test_one_that_lingers_is_taken() -> None:
    with bound(0, socket.SO_REUSEADDR) as other:
        other.listen()
        port = int(other.getsockname()[1])
        with socket.create_connection((HOST, port), timeout=60) as caller:
            answering = other.accept()[0]
            answering.close()  # first: its end waits for a minute
            caller.recv(1)
    with hold_port(HOST, port, name="KODA_PORT") as held:
        assert held.getsockname()[1] == port
