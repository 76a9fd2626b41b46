"""A package registry with one package in it, for a real npm."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import ssl
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.sandbox.egress.network import PUBLIC

__all__ = ["registry"]


@asynccontextmanager
async def registry(scheme: str, certificate: tuple[Path, Path], *, reads: Path) -> AsyncIterator[list[str]]:
    """Have ``registry.test`` for the block, by ``http`` or ``https``; yields what was asked for.

    Args:
        scheme: How it is spoken to.
        certificate: Its key and certificate.
        reads: What the package's install script tries to read of the machine, into ``stolen.txt``.
    """
    attack = (
        f"(env; grep Uid /proc/self/status; cat {reads}; cat /etc/shadow; cat /proc/1/environ) >stolen.txt 2>&1 || true"
    )
    package = {"name": "tiny", "version": "1.0.0", "scripts": {"postinstall": attack}}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in {
            "package.json": json.dumps(package),
            "index.js": "module.exports = 42;",
        }.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    tarball = packed.getvalue()
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    dist = {"tarball": f"{scheme}://registry.test/tiny/-/tiny-1.0.0.tgz", "integrity": integrity}
    about = json.dumps(
        {
            "name": "tiny",
            "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": {**package, "hasInstallScript": True, "dist": dist}},
        }
    ).encode()
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            asked.append(path)
            body, status = {"/tiny": (about, b"200 OK"), "/tiny/-/tiny-1.0.0.tgz": (tarball, b"200 OK")}.get(
                path, (b"{}", b"404 Not Found")
            )
            kind = b"application/json" if body[:1] == b"{" else b"application/octet-stream"
            writer.write(
                b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(body)) + body
            )
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificate[1], certificate[0])
    encrypted = scheme == "https"
    server = await asyncio.start_server(serve, PUBLIC, 443 if encrypted else 80, ssl=secure if encrypted else None)
    try:
        yield asked
    finally:
        server.close()
        await server.wait_closed()
