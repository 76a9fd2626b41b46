"""The control plane: makes, finds, lists, renews, pauses, resumes and ends machines, for whoever has the key."""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import uvicorn
from e2b.api.client import models
from e2b.api.client.types import UNSET, Unset
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.sandbox.e2b_server.builds import Builds
from tests.sandbox.e2b_server.gateway import Gateway
from tests.sandbox.e2b_server.machine import Machine, TemplateImage
from tests.serve.world import QuietServer

__all__ = ["API_KEY", "E2BServer", "KnownSandbox"]

API_KEY = "e2b_" + "0123456789abcdef" * 2
ENVD_VERSION = "0.6.2"


@dataclass
class KnownSandbox:
    """A sandbox as the control plane knows it."""

    id: str
    wanted: models.NewSandboxV2
    machine: Machine
    traffic_token: str | None
    ends_at: datetime
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    timer: asyncio.TimerHandle | None = None

    @property
    def state(self) -> models.SandboxState:
        return models.SandboxState.PAUSED if self.machine.paused else models.SandboxState.RUNNING


class E2BServer:
    """The whole of it, on loopback and in one folder.

    Args:
        images: What there is to make machines from.
        limit: How many machines the plan allows at once.
    """

    def __init__(self, images: dict[str, TemplateImage], *, limit: int = 20) -> None:
        self.images = images
        self.limit = limit
        self.kept: dict[str, KnownSandbox] = {}
        self.page = 100
        self.url = ""
        self.builds = Builds("", images=images)
        self._by_key: dict[str, str] = {}
        self._folder = Path()
        self._endings: set[asyncio.Task[None]] = set()
        self.gateway = Gateway("", self._running)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[E2BServer]:
        """Serve; at the end every machine is ended."""
        with tempfile.TemporaryDirectory(prefix="e2b-") as folder:
            self._folder = Path(folder)
            self._folder.chmod(0o711)
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(self._folder / "api.sock"))
            (self._folder / "builds").mkdir()
            server = QuietServer(uvicorn.Config(self._app(), log_level="warning", lifespan="off", ws="none"))
            task = asyncio.create_task(server.serve(sockets=[listening]))
            self.gateway = Gateway(str(self._folder / "api.sock"), self._running)
            self.url = self.builds.url = await self.gateway.start()
            self.builds.folder = self._folder / "builds"
            try:
                yield self
            finally:
                for kept in list(self.kept.values()):
                    await self.end(kept.id)
                await asyncio.gather(*self._endings)
                await self.builds.close()
                await self.gateway.close()
                server.should_exit = True
                await task
                listening.close()

    def of(self, sandbox_id: str) -> KnownSandbox:
        """Find by the caller's own id, which is in the metadata."""
        found = [kept for kept in self.kept.values() if _metadata(kept).get("koda_sandbox_id") == sandbox_id]
        assert len(found) == 1, found
        return found[0]

    async def end(self, name: str) -> None:
        """End a machine, as a person does in the dashboard."""
        kept = self.kept.pop(name)
        if kept.timer is not None:
            kept.timer.cancel()
        await kept.machine.end()

    # inside

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v2/sandboxes", self._create, methods=["POST"]),
                Route("/v2/sandboxes", self._list, methods=["GET"]),
                Route("/v2/sandboxes/{name}/connect", self._connect, methods=["POST"]),
                Route("/sandboxes/{name}", self._get, methods=["GET"]),
                Route("/sandboxes/{name}", self._kill, methods=["DELETE"]),
                Route("/sandboxes/{name}/timeout", self._timeout, methods=["POST"]),
                Route("/sandboxes/{name}/pause", self._pause, methods=["POST"]),
                Route("/sandboxes/{name}/network", self._network, methods=["PUT"]),
                *self.builds.routes(),
            ]
        )

    def _running(self, name: str) -> tuple[Machine, str | None] | None:
        kept = self.kept.get(name)
        return None if kept is None or kept.machine.paused else (kept.machine, kept.traffic_token)

    async def _create(self, request: Request) -> Response:
        if (refusal := _refusal(request)) is not None:
            return refusal
        wanted = models.NewSandboxV2.from_dict(await request.json())
        key = request.headers.get("idempotency-key", "")
        if key in self._by_key:
            return _json(self._made(self.kept[self._by_key[key]]), 201)
        image = self.images.get(wanted.template_id)
        if image is None:
            return _error(404, f"template '{wanted.template_id}' not found")
        if len(self.kept) >= self.limit:
            return _error(429, f"you have reached the maximum number of concurrent E2B sandboxes ({self.limit})")
        name = "i" + secrets.token_hex(10)
        machine = Machine(self._folder / name, image, "envd_" + secrets.token_hex(16))
        private = not isinstance(wanted.network, Unset) and wanted.network.allow_public_traffic is False
        kept = KnownSandbox(
            name, wanted, machine, "traffic_" + secrets.token_hex(16) if private else None, datetime.now(UTC)
        )
        await machine.start()
        self.kept[name] = kept
        if key:
            self._by_key[key] = name
        self._live(kept, wanted.timeout if isinstance(wanted.timeout, int) else 300)
        return _json(self._made(kept), 201)

    async def _list(self, request: Request) -> Response:
        if (refusal := _refusal(request)) is not None:
            return refusal
        pairs = parse_qsl(request.query_params.get("metadata", ""))
        wanted = {unquote(name): unquote(value) for name, value in pairs}
        found = [kept for kept in self.kept.values() if wanted.items() <= _metadata(kept).items()]
        start = int(request.query_params.get("nextToken", "0"))
        page = min(self.page, int(request.query_params.get("limit", "100")))
        headers = {"x-next-token": str(start + page)} if start + page < len(found) else {}
        listed = [self._listed(kept).to_dict() for kept in found[start : start + page]]
        return JSONResponse(listed, headers=headers)

    async def _connect(self, request: Request) -> Response:
        kept, refusal = self._named(request)
        if kept is None:
            return refusal
        wanted = models.ConnectSandboxV2.from_dict(await request.json())
        resumed = kept.machine.paused
        if resumed:
            kept.machine.resume()
        seconds = wanted.timeout if isinstance(wanted.timeout, int) else 300
        if resumed or datetime.now(UTC) + timedelta(seconds=seconds) > kept.ends_at:
            self._live(kept, seconds)
        return _json(self._made(kept), 201 if resumed else 200)

    async def _get(self, request: Request) -> Response:
        kept, refusal = self._named(request)
        if kept is None:
            return refusal
        listed = self._listed(kept)
        detail = models.SandboxDetail(
            template_id=listed.template_id, sandbox_id=listed.sandbox_id, client_id=listed.client_id,
            started_at=listed.started_at, end_at=listed.end_at, envd_version=listed.envd_version,
            cpu_count=listed.cpu_count, memory_mb=listed.memory_mb, disk_size_mb=listed.disk_size_mb,
            state=listed.state, metadata=listed.metadata, network=kept.wanted.network,
        )  # fmt: skip
        return _json(detail)

    async def _kill(self, request: Request) -> Response:
        kept, refusal = self._named(request)
        if kept is None:
            return refusal
        await self.end(kept.id)
        return Response(status_code=204)

    async def _timeout(self, request: Request) -> Response:
        kept, refusal = self._named(request)
        if kept is None:
            return refusal
        self._live(kept, models.SandboxTimeoutRequest.from_dict(await request.json()).timeout)
        return Response(status_code=204)

    async def _pause(self, request: Request) -> Response:
        kept, refusal = self._named(request)
        if kept is None:
            return refusal
        if kept.machine.paused:
            return _error(409, "sandbox is already paused")
        self._sleep(kept)
        return Response(status_code=204)

    async def _network(self, request: Request) -> Response:
        kept, refusal = self._named(request)
        if kept is None:
            return refusal
        update = models.SandboxNetworkUpdateConfig.from_dict(await request.json())
        kept.wanted.network = models.SandboxNetworkConfig(allow_out=update.allow_out, deny_out=update.deny_out)
        return Response(status_code=204)

    def _named(self, request: Request) -> tuple[KnownSandbox | None, Response]:
        refusal = _refusal(request)
        if refusal is not None:
            return None, refusal
        name = request.path_params["name"]
        return self.kept.get(name), _error(404, f"sandbox {name} not found")

    def _live(self, kept: KnownSandbox, seconds: int) -> None:
        """Give a sandbox a lifetime from now on."""
        if kept.timer is not None:
            kept.timer.cancel()
        kept.ends_at = datetime.now(UTC) + timedelta(seconds=seconds)
        kept.timer = asyncio.get_running_loop().call_later(seconds, self._over, kept)

    def _over(self, kept: KnownSandbox) -> None:
        if kept.wanted.auto_pause is True:
            self._sleep(kept)
        else:
            task = asyncio.get_running_loop().create_task(self.end(kept.id))
            self._endings.add(task)
            task.add_done_callback(self._endings.discard)

    def _sleep(self, kept: KnownSandbox) -> None:
        if kept.timer is not None:
            kept.timer.cancel()
        kept.machine.pause()

    def _made(self, kept: KnownSandbox) -> models.Sandbox:
        return models.Sandbox(
            template_id=kept.wanted.template_id, sandbox_id=kept.id, client_id="local", envd_version=ENVD_VERSION,
            envd_access_token=kept.machine.token, traffic_access_token=kept.traffic_token, domain="e2b.test",
        )  # fmt: skip

    def _listed(self, kept: KnownSandbox) -> models.ListedSandbox:
        return models.ListedSandbox(
            template_id=kept.wanted.template_id, sandbox_id=kept.id, client_id="local", started_at=kept.started_at,
            end_at=kept.ends_at, cpu_count=2, memory_mb=1024, disk_size_mb=1024, state=kept.state,
            envd_version=ENVD_VERSION, metadata=_metadata(kept),
        )  # fmt: skip


def _metadata(kept: KnownSandbox) -> dict[str, str]:
    value: Any = kept.wanted.metadata
    return {} if value is UNSET else dict(value)


def _refusal(request: Request) -> Response | None:
    key = request.headers.get("x-api-key", "")
    return None if key == API_KEY else _error(401, f"invalid API key {key}")


def _error(status: int, message: str) -> Response:
    return JSONResponse(models.Error(code=status, message=message).to_dict(), status)


def _json(value: models.Sandbox | models.SandboxDetail, status: int = 200) -> Response:
    return JSONResponse(value.to_dict(), status)
