"""E2B's template: built by the SDK from the Dockerfile and files of the image, up to where the paid service begins."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette

from koda_ray.config import Settings
from koda_ray.errors import Missing, SandboxError
from koda_ray.sandbox.e2b_template import build_template
from koda_ray.sandbox.image_context import SLIM_PACKAGES, ImageContext, base_packages
from tests.sandbox.e2b_server import API_KEY
from tests.sandbox.e2b_server.builds import Builds


@pytest.fixture
async def builds() -> AsyncIterator[Builds]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        made = Builds(f"http://127.0.0.1:{listening.getsockname()[1]}")
        config = uvicorn.Config(Starlette(routes=made.routes()), log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        yield made
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving


@pytest.fixture
def context(template: Path, node_modules: Path, tmp_path: Path) -> ImageContext:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "bun").write_text("#!/bin/sh\n")
    return ImageContext(template=template, node_modules=node_modules, tools=tools)


def _settings(builds: Builds, key: str | None = API_KEY) -> Settings:
    return Settings().model_copy(
        update={
            "e2b_api_key": None if key is None else SecretStr(key), "e2b_template": "koda-film",
            "e2b_api_url": builds.url, "sandbox_memory_mb": 2048,
        }
    )  # fmt: skip


@pytest.mark.full
async def test_the_template_is_the_image(builds: Builds, context: ImageContext) -> None:
    said: list[str] = []
    assert await build_template(_settings(builds), context, base="debian:test", tell=said.append) == "tpl1"
    assert builds.asked is not None and builds.started is not None
    assert (builds.asked.name, builds.asked.cpu_count, builds.asked.memory_mb) == ("koda-film", 2, 2048)
    assert builds.started.from_image == "debian:test"
    steps = builds.started.steps
    assert not isinstance(steps, type(builds.started.from_template)) and steps
    copies = {str(step.args[0]): str(step.files_hash) for step in steps if step.type_ == "COPY"}
    koda = {"koda/node_modules", "koda/tools", "koda/bin", "koda/scripts.cjs", "koda/template", "koda/agent"}
    assert set(copies) == {"wanted-packages.txt", *koda}
    inside = set().union(*(builds.names(copies[name]) for name in koda))
    assert {
        "koda/agent/__main__.py", "koda/bin/bun", "koda/scripts.cjs", "koda/template/package.json", "koda/tools/bun",
        "koda/node_modules/left-pad/index.js",
    } <= inside  # fmt: skip
    assert not any("not-copied" in name for name in inside)
    commands = [str(step.args[0]) for step in steps if step.type_ == "RUN"]
    assert any("dpkg-query -W > /opt/koda/debian-packages.txt" in line for line in commands)
    assert [str(step.args[0]) for step in steps if step.type_ == "USER"] == ["root", "user"]
    assert any("RUN apt-get" in line for line in said)
    # what E2B holds already is not sent again
    assert builds.uploads == len(copies)
    await build_template(_settings(builds), context)
    assert builds.uploads == len(copies)


async def test_what_e2b_says_of_a_failed_build_is_told(builds: Builds, context: ImageContext) -> None:
    builds.error = "apt-get ended with 100"
    with pytest.raises(SandboxError, match=r"koda-film.*apt-get ended with 100.*RUN apt-get") as caught:
        await build_template(_settings(builds), context)
    assert API_KEY not in caught.value.message
    with pytest.raises(Missing, match="E2B_API_KEY"):
        await build_template(_settings(builds, key=None), context)


def test_what_goes_in_is_the_same_twice_and_says_which_packages(context: ImageContext) -> None:
    with context.archive() as first, context.archive() as second:
        assert first.read() == second.read()
    with context.folder() as folder:
        assert (folder / "wanted-packages.txt").read_text().split() == list(base_packages())
        kept = folder
    assert not kept.exists()
    assert {"chromium-headless-shell", "ffmpeg", "fonts-noto-cjk", "fonts-noto-color-emoji", "nodejs", "tmux"} <= set(
        base_packages()
    )
    assert set(SLIM_PACKAGES) < set(base_packages())
