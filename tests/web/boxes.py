"""A server where people make sandboxes of their own, whose pages are seen."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from koda_ray.client import KodaClient
from koda_ray.config import Settings
from koda_ray.sandbox.providers import Providers
from koda_ray.serve.preview import create_preview_app
from koda_ray.serve.preview_sources import Sources, reaching
from tests.serve.world import World, free_port, serving, world

__all__ = ["making_boxes"]


@asynccontextmanager
async def making_boxes(folder: Path, *, key: str | None = None, **settings: object) -> AsyncGenerator[World]:
    """Start one over a folder; what is left of sandboxes at the end is ended, with the key that it takes."""
    port = free_port()
    own: dict[str, Any] = {
        "KODA_PREVIEW_PORT": port, "SANDBOX_PATH": folder / "boxes", "SANDBOX_PROVIDER": "local",
        "KODA_WEB_PATH": Settings().web_path, **settings,
    }  # fmt: skip
    async with world(folder, **own) as koda:
        providers = Providers(koda.settings, koda.deps.store)
        sources = Sources(reach=reaching(koda.deps.store, providers))
        api_port = urlsplit(koda.url).port or 0
        try:
            async with serving(create_preview_app(None, koda.deps.signer, api_port=api_port, sources=sources), port):
                yield koda
        finally:
            async with KodaClient(koda.url, key=key) as client:
                for each in (await client.sandboxes()).sandboxes:
                    await client.terminate_sandbox(each.id)
            await providers.close()
