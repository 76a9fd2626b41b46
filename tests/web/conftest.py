"""A browser, and a server with the built page."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright, expect

from koda_ray.config import Settings
from koda_ray.render.programs import find_browser
from tests.serve.world import World, world

expect.set_options(timeout=60_000)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as driver:
        program = find_browser(Settings().chromium_path).path
        silent = {**os.environ, "PULSE_RUNTIME_PATH": os.devnull}  # no sound server, nor a folder for one
        found = await driver.chromium.launch(executable_path=str(program), args=["--no-sandbox"], env=silent)
        try:
            yield found
        finally:
            await found.close()


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, KODA_WEB_PATH=Settings().web_path) as found:
        yield found
