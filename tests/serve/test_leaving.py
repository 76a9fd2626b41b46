"""What the operations manual says to do when a user leaves, as it stands there, on a real server."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.config import REPO_ROOT
from tests.sandbox.conftest import write_packages, write_template
from tests.sandbox.test_archives import FILE, zip_of

from .test_assets import sound
from .test_renders import post
from .test_versions import with_versions
from .world import World, world

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.needs("tmux", "jq", "curl")]

BOB = "b" * 32
RECIPE = re.findall(
    r"^### When a user leaves\n.*?^```sh\n(.*?)^```$", (REPO_ROOT / "docs" / "operations.md").read_text(), re.M | re.S
)[0]
KINDS = ("sessions", "renders", "assets", "sandboxes", "images", "canvases")


def follow(koda: World, folder: Path) -> subprocess.CompletedProcess[str]:
    """Do what the manual says, as somebody whose environment has another key, in a place of their own."""
    program = folder / "bin" / "koda"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m koda_ray "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "DATABASE_PATH": str(koda.settings.database_path),
        "TMPDIR": str(folder),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPO_ROOT),
    }
    lines = RECIPE.replace("https://koda.example.com", koda.url)
    return subprocess.run(
        ["bash", "-c", lines], env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


async def held(http: httpx.AsyncClient) -> dict[str, int]:
    return {each: len((await http.get(f"/v1/{each}")).raise_for_status().json()[each]) for each in KINDS}


async def test_all_of_one_user_goes_and_nothing_of_another(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "SANDBOX_PATH": tmp_path / "boxes", "SANDBOX_PROVIDER": "local", "KODA_API_KEYS": f"bob={BOB}",
        "KODA_TEMPLATE_PATH": write_template(tmp_path / "template"),
        "KODA_NODE_MODULES_PATH": write_packages(tmp_path / "node_modules"),
    }  # fmt: skip
    async with world(tmp_path, **settings) as koda:
        keys = {"ann": await koda.store.create_api_key("ann", name="hers"), "bob": BOB}
        file = tmp_path / "sound.wav"
        file.write_bytes(sound())
        clients: dict[str, httpx.AsyncClient] = {}
        made: dict[str, str] = {}
        links: dict[str, str] = {}
        for user, key in keys.items():
            headers = {"Authorization": f"Bearer {key}"}
            clients[user] = http = httpx.AsyncClient(base_url=koda.url, headers=headers, trust_env=False, timeout=120)
            async with KodaClient(koda.url, key=key) as client:
                session_id = await with_versions(koda, client)
                await client.upload(file)
                link = await client.share(session_id)
                await client.put_canvas("spring", name="Spring")
            assert (await post(http, duration=1.0)).status_code == 202
            sent = await http.post("/v1/images", params={"name": "notes"}, content=zip_of([("a", FILE, user)]))
            assert sent.status_code == 201, sent.text
            assert (await http.post("/v1/sandboxes", json={"image": "notes"})).status_code == 201
            assert await held(http) == dict.fromkeys(KINDS, 1)
            made[user], links[user] = session_id, link.token
        done = await asyncio.to_thread(follow, koda, tmp_path)
        assert (done.returncode, "curl" in done.stderr) == (0, False), done
        assert '"sessions": 0' in done.stdout, done.stdout
        assert (await clients["ann"].get("/v1/usage")).status_code == 401
        assert [(key.user_id, key.revoked_at is None) for key in await koda.store.api_keys()] == [("ann", False)] * 2
        assert not list(tmp_path.glob("tmp.*"))
        async with httpx.AsyncClient(base_url=koda.url, trust_env=False) as anybody:
            assert (await anybody.get(f"/v1/shares/{links['ann']}")).status_code == 404
            assert (await anybody.get(f"/v1/shares/{links['bob']}")).status_code == 200
        assert [row["id"] for row in (await clients["bob"].get("/v1/sessions")).json()["sessions"]] == [made["bob"]]
        key = await koda.store.create_api_key("ann")
        async with httpx.AsyncClient(
            base_url=koda.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=60
        ) as again:
            assert await held(again) == dict.fromkeys(KINDS, 0)
        assert await held(clients["bob"]) == dict.fromkeys(KINDS, 1)
        for one in (await clients["bob"].get("/v1/sandboxes")).json()["sandboxes"]:
            assert (await clients["bob"].delete(f"/v1/sandboxes/{one['id']}")).status_code == 204
        for http in clients.values():
            await http.aclose()
