"""What is installed from a wheel has the page in the browser, and its server finds it."""

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


def wheel_of(folder: Path, *, page: Path | None) -> Path:
    """Build a wheel from a copy of the source with some page, and unpack it."""
    source = folder / "source"
    shutil.copytree(REPO_ROOT / "koda_ray", source / "koda_ray", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(REPO_ROOT / name, source)
    if page is not None:
        shutil.copytree(page, source / ".koda" / "web")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "hatchling" in done.stderr and "No matching distribution" in done.stderr:
        pytest.skip("pip finds no hatchling to build a wheel with")
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        found.extractall(folder / "installed")
    return folder / "installed"


@pytest.mark.full
@pytest.mark.needs("web")
async def test_a_wheel_has_the_page_and_its_server_gives_it(tmp_path: Path) -> None:
    installed = wheel_of(tmp_path, page=BUILT)
    asked = "from koda_ray.config import Settings; print(Settings().web_path)"
    environment = {name: value for name, value in os.environ.items() if name != "KODA_WEB_PATH"}
    environment["PYTHONPATH"] = str(installed)
    found = subprocess.run(
        [sys.executable, "-c", asked], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    page = Path(found.stdout.strip())
    assert page == installed / "koda_ray" / "page"
    async with world(tmp_path, KODA_WEB_PATH=page) as koda, httpx.AsyncClient(base_url=koda.url) as browser:
        for path in (file for file in page.rglob("*") if file.is_file()):
            name = path.relative_to(page).as_posix()
            answer = await browser.get("/" if name == "index.html" else f"/{name}")
            assert (answer.status_code, answer.content) == (200, path.read_bytes())


@pytest.mark.full
def test_a_wheel_is_made_without_the_page_too(tmp_path: Path) -> None:
    assert not (wheel_of(tmp_path, page=None) / "koda_ray" / "page").exists()
