"""The page's source fits the API as this server describes it, and its own tests pass."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT, Settings
from koda_ray.serve.described import described

SOURCE = REPO_ROOT / "web"
PACKAGES = [
    path
    for path in (SOURCE / "node_modules", Settings().web_path.parent / "web-build" / "node_modules")
    if (path / ".package-lock.json").is_file()
]
needs_packages = pytest.mark.skipif(not PACKAGES, reason="the page's packages are not here: ./koda setup brings them")


def test_its_lock_has_hashes_and_no_index() -> None:
    lock = json.loads((SOURCE / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name and not each.get("inBundle")}
    assert packages and all(each["integrity"].startswith("sha512-") for each in packages.values())
    assert not [name for name, each in packages.items() if "resolved" in each]


@pytest.mark.full
@needs_packages
def test_its_types_are_the_apis(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "web", ignore=shutil.ignore_patterns("node_modules", "schema.d.ts"))
    (tmp_path / "web" / "node_modules").symlink_to(PACKAGES[0])
    (tmp_path / "web" / "openapi.json").write_text(described())
    for script in ("schema", "check", "test"):
        done = subprocess.run(["npm", "run", script], cwd=tmp_path / "web", capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}: {done.stdout[-3000:]}{done.stderr[-1000:]}"
