"""A server whose sessions show a real dev server's page, out of a real sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Frame, Page, expect

from koda_ray.config import Settings
from koda_ray.sandbox.base import Sandbox
from koda_ray.sandbox.service import provider_from
from koda_ray.serve.preview import create_preview_app
from koda_ray.types import new_id
from tests.serve.world import World, free_port, serving, world
from tests.web.looking import begin

__all__ = ["LiveWorld", "live", "running_in", "shown_in"]


@dataclass
class LiveWorld:
    """A server whose sessions all show the template's page, out of one sandbox."""

    koda: World
    sandbox: Sandbox


@asynccontextmanager
async def running_in(folder: Path) -> AsyncGenerator[LiveWorld]:
    """Start one over a folder."""
    port = free_port()
    settings = {"KODA_PREVIEW_PORT": port, "SANDBOX_PATH": folder / "boxes", "KODA_WEB_PATH": Settings().web_path}
    async with world(folder, **settings) as koda:
        provider = provider_from(koda.settings, deployment=await koda.store.deployment())
        sandbox = await provider.create(sandbox_id=new_id("sbx"), session_id="s", user_id="local")
        try:
            koda.directory.sandbox = sandbox
            koda.directory.socket_path = (await sandbox.start_preview()).socket_path
            api_port = urlsplit(koda.url).port or 0
            async with serving(create_preview_app(koda.directory, koda.deps.signer, api_port=api_port), port):
                yield LiveWorld(koda, sandbox)
        finally:
            await sandbox.destroy()


async def live(koda: World, page: Page, prompt: str = "A ball") -> tuple[str, Frame]:
    """Bring a session to its preview and see it live; return its id and the hostile page's frame."""
    koda.directory.asks = False
    session_id = await begin(page, prompt)
    await page.get_by_role("button", name="Make this").click()
    await expect(page.get_by_role("heading", name="Here is a preview")).to_be_visible(timeout=60_000)
    await page.get_by_role("button", name="See it live").click()
    await expect(page.get_by_role("slider", name="Frame")).to_be_visible(timeout=60_000)
    (inside,) = shown_in(page)
    return session_id, inside


def shown_in(page: Page) -> list[Frame]:
    """Return the frames of hostile pages."""
    return [frame for frame in page.frames if urlsplit(frame.url).path.startswith("/v/")]
