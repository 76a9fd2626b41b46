"""``koda open`` names the page and hands it to the browser."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.serve.world import world


async def test_it_opens_the_server_that_runs(tmp_path: Path) -> None:
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" >{seen}\n')
    browser.chmod(0o755)
    async with world(tmp_path) as koda:
        ran = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "koda_ray", "open", "--server", koda.url),
            env={**os.environ, "BROWSER": str(browser)},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await ran.communicate()
    assert ran.returncode == 0 and out.decode() == f"{koda.url}\n"
    assert seen.read_text() == koda.url
