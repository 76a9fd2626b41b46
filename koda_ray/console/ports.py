"""Shows what answers in a sandbox on an address of this machine: the server's proxy, for one page and one person."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Awaitable, Callable, Generator

import uvicorn

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.base import PreviewEndpoint
from koda_ray.sandbox.preview import MAX_FRAME_BYTES
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Sources
from koda_ray.serve.signing import Signer

__all__ = ["show"]

_HOST = "127.0.0.1"
_DAY_S = 86_400.0


async def show(find: Callable[[], Awaitable[PreviewEndpoint]], *, port: int, told: Callable[[str], None]) -> None:
    """Serve a page until cancelled.

    Args:
        find: Says where it answers in the sandbox.
        port: Of this machine's loopback; any that is free when 0.
        told: Told the page's address once it is there.

    Raises:
        InvalidInput: INVALID_INPUT, the port is in use.
        KodaError: As ``find``.
    """
    await find()

    async def reach(sandbox_id: str, user_id: str, inside: int) -> PreviewEndpoint:
        return await find()

    listening = _bound(port)
    try:
        here = int(listening.getsockname()[1])
        signer = Signer(secrets.token_bytes(32))
        token, _ = signer.sign(session_id="sandbox", user_id="local", port=1, edit=True, ttl_s=_DAY_S)
        app = create_preview_app(None, signer, api_port=here, sources=Sources(reach=reach))
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, ws_max_size=MAX_FRAME_BYTES
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            told(f"http://{_HOST}:{here}/p/{token}/")
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await serving
    finally:
        listening.close()


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
        listening.listen()  # whoever is told of it may come before the server has begun
    except OSError as error:
        listening.close()
        raise InvalidInput(
            f"cannot listen on {_HOST}:{port} ({error.strerror}); give another --listen, or none for any free port"
        ) from error
    return listening


class _Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
