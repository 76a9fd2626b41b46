"""The preview's proxy before a dev server that answers whatever hostile code wants: headers that nobody would send."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
from hypothesis import strategies as st

from koda_ray.sandbox.base import PREVIEW_BASE, PreviewEndpoint
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Sources
from koda_ray.serve.signing import Signer
from tests.fuzz.nearly import nearly
from tests.fuzz.targets import FuzzTarget

__all__ = ["PREVIEW"]

_ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\nContent-Length: 4\r\n\r\n<p/>",
    b"HTTP/1.1 302 Found\r\nLocation: http://[::1/x\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 301 x\r\nLocation: " + PREVIEW_BASE.encode() + b"a%00b?c\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: image/png; \xe6\x97\xa5\r\nCache-Control: \xff\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 206 OK\r\nContent-Range: bytes 0-1/2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Security-Policy: x\r\nContent-Length: 99999999999999999999\r\n\r\nab",
)
_PATHS = ("", "x.js", "a%2f..%2fb", "%00", "?q=%ff", "a b")
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")
_HEADERS = st.dictionaries(
    st.sampled_from(("accept", "range", "content-type", "referer", "origin", "host", "if-range", "x-forwarded-host")),
    st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=30),
    max_size=4,
)


def _run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner() as runner:
        runner.run(work)


def _check(given: tuple[bytes, str, str, dict[str, str], bool]) -> None:
    _run(_ask(*given))


async def _ask(answer: bytes, method: str, path: str, headers: dict[str, str], is_port: bool) -> None:
    answering: set[asyncio.Task[None]] = set()

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # who asked has gone
            await reader.read(65536)
            writer.write(answer)
            writer.close()
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(asyncio.create_task(answered(reader, writer)))

    with tempfile.TemporaryDirectory(prefix="koda-fuzz-") as folder:
        socket_path = str(Path(folder, "s"))
        server = await asyncio.start_unix_server(accept, socket_path)
        endpoint = PreviewEndpoint(socket_path=socket_path, base="/" if is_port else PREVIEW_BASE)

        async def reach(sandbox_id: str, user_id: str, port: int) -> PreviewEndpoint:
            return endpoint

        signer = Signer(b"k" * 32)
        app = create_preview_app(None, signer, api_port=1, sources=Sources(reach=reach))
        token, _ = signer.sign(session_id="sbx_1", user_id="ann", port=8000)
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with server, app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as http:
            sent = {name: value.encode("latin-1") for name, value in headers.items()}
            request = http.build_request(method, f"http://127.0.0.1/p/{token}/", headers=list(sent.items()))
            request.url = request.url.copy_with(raw_path=f"/p/{token}/{path}".encode())
            with contextlib.suppress(httpx.TransportError):  # the page's own answer broke off in the middle
                _judge(await http.send(request), token)
        await asyncio.gather(*answering)


def _judge(response: httpx.Response, token: str) -> None:
    assert "set-cookie" not in response.headers
    policies = response.headers.get_list("content-security-policy")
    assert response.status_code >= 400 or (len(policies) == 1 and policies[0].startswith("sandbox "))
    told = response.text if response.status_code >= 400 else ""
    assert token not in told and "Traceback" not in told


PREVIEW = FuzzTarget(
    st.tuples(nearly(_ANSWERS), st.sampled_from(_METHODS), st.sampled_from(_PATHS), _HEADERS, st.booleans()), _check
)
