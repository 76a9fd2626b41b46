"""What is installed from a wheel has the page in the browser and the template, and finds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest

from koda_ray.config import REPO_ROOT, Settings
from tests.serve.world import world

BUILT = Settings().web_path
BUILDS = """
import asyncio
from koda_ray.config import Settings
from koda_ray.sandbox.build import build
from koda_ray.sandbox.local import LocalProvider
from koda_ray.types import new_id

async def main():
    settings = Settings()
    provider = LocalProvider.of(settings, deployment="wheel")
    sandbox = await provider.create(sandbox_id=new_id("sbx"), session_id="s", user_id="u")
    try:
        print(settings.template_path, (await build(sandbox)).ok)
    finally:
        await sandbox.destroy()

asyncio.run(main())
"""
"""What an installed koda_ray is asked to do: an animation's project is made, and built."""


def wheel_of(folder: Path, *, page: Path | None) -> Path:
    """Build a wheel from a copy of the source with some page, and unpack it."""
    source = folder / "source"
    shutil.copytree(REPO_ROOT / "koda_ray", source / "koda_ray", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(REPO_ROOT / name, source)
    shutil.copytree(REPO_ROOT / "sandbox_image", source / "sandbox_image")
    (source / "sandbox_image" / "template" / "node_modules").mkdir()
    (source / "sandbox_image" / "template" / "node_modules" / "theirs.js").touch()
    if page is not None:
        builds = source / ".koda" / "web.builds"
        shutil.copytree(page, builds / "2")
        (builds / "1" / "page").mkdir(parents=True)  # one before it, which is kept for pages that are open there
        (builds / "1" / "page" / "before.js").touch()
        (source / ".koda" / "web").symlink_to("web.builds/2")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "hatchling" in done.stderr and "No matching distribution" in done.stderr:
        pytest.skip("pip finds no hatchling to build a wheel with")
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        found.extractall(folder / "installed")
    return folder / "installed"


def asked_of(installed: Path, program: str, **settings: str) -> str:
    """Run a program with what is installed; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KODA_")}
    environment = {**kept, "PYTHONPATH": str(installed), **settings}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=installed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.full
@pytest.mark.needs("web")
async def test_a_wheel_has_the_page_and_its_server_gives_it(tmp_path: Path) -> None:
    installed = wheel_of(tmp_path, page=BUILT)
    page = Path(asked_of(installed, "from koda_ray.config import Settings; print(Settings().web_path)"))
    assert page == installed / "koda_ray" / "page" and not list(installed.rglob("before.js"))
    async with world(tmp_path, KODA_WEB_PATH=page) as koda, httpx.AsyncClient(base_url=koda.url) as browser:
        for path in (file for file in page.rglob("*") if file.is_file()):
            name = path.relative_to(page).as_posix()
            answer = await browser.get("/" if name == "index.html" else f"/{name}")
            assert (answer.status_code, answer.content) == (200, path.read_bytes())


@pytest.mark.full
def test_a_wheel_is_made_without_the_page_too(tmp_path: Path) -> None:
    assert not (wheel_of(tmp_path, page=None) / "koda_ray" / "page").exists()


@pytest.mark.full
@pytest.mark.sandbox
@pytest.mark.needs("bwrap", "node")
def test_a_wheel_builds_an_animation_from_the_template_that_it_has(tmp_path: Path) -> None:
    installed = wheel_of(tmp_path, page=None)
    template = installed / "koda_ray" / "sandbox_image" / "template"
    source = REPO_ROOT / "sandbox_image" / "template"
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert {path.relative_to(template) for path in template.rglob("*") if path.is_file()} == files
    packages = str(Settings().node_modules_path)
    built = asked_of(installed, BUILDS, KODA_NODE_MODULES_PATH=packages, SANDBOX_PATH=str(tmp_path / "boxes"))
    assert built == f"{template} True"
