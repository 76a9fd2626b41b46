"""The page's source fits the API as this server describes it, and its own tests pass."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT, Settings
from koda_ray.plugins import ANIMATION_GENERATOR
from koda_ray.serve.described import described

SOURCE = REPO_ROOT / "web"
PACKAGES = [
    path
    for path in (SOURCE / "node_modules", Settings().web_path.parent / "web-build" / "node_modules")
    if (path / ".package-lock.json").is_file()
]
needs_packages = pytest.mark.skipif(not PACKAGES, reason="the page's packages are not here: ./koda setup brings them")


@pytest.mark.parametrize("project", [SOURCE, SOURCE / "node"], ids=["page", "node"])
def test_its_lock_has_hashes_and_no_index(project: Path) -> None:
    lock = json.loads((project / "package-lock.json").read_text())
    own = json.loads((project / "package.json").read_text())
    for kind in ("dependencies", "devDependencies", "peerDependencies"):
        assert lock["packages"][""].get(kind) == own.get(kind), kind
    packages = {name: each for name, each in lock["packages"].items() if name and not each.get("inBundle")}
    assert packages and all(each["integrity"].startswith("sha512-") for each in packages.values())
    assert not [name for name, each in packages.items() if "resolved" in each]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Copy the source beside its packages, to build it there."""
    built = shutil.ignore_patterns("node_modules", "schema.d.ts", "dist")
    shutil.copytree(SOURCE, tmp_path / "web", ignore=built)
    (tmp_path / "web" / "node_modules").symlink_to(PACKAGES[0])
    return tmp_path / "web"


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-1000:]}"
    return done.stdout


@pytest.mark.full
@needs_packages
def test_its_types_are_the_apis(copied: Path) -> None:
    (copied / "openapi.json").write_text(described())
    for script in ("schema", "check", "test"):
        run(copied, "npm", "run", script)


SEEN = """
import { animationGeneratorPlugin, Koda, registry } from './dist/index.js';
const koda = new Koda({ base: 'https://koda.example/' });
const known = registry.list().map(({ plugin }) => plugin.id);
console.log(JSON.stringify({ known, plugin: animationGeneratorPlugin, studio: koda.studio('ses_1') }));
"""


@pytest.mark.full
@needs_packages
def test_the_node_is_a_package_that_brings_neither_react_nor_a_canvas(copied: Path) -> None:
    node = copied / "node"
    for script in ("check", "build"):
        run(node, "npm", "run", script)
    (node / "seen.mjs").write_text(SEEN)
    seen = json.loads(run(node, "node", "seen.mjs"))
    assert seen["known"] == ["animation-generator"] and seen["studio"] == "https://koda.example/s/ses_1"
    assert seen["plugin"] == ANIMATION_GENERATOR.model_dump(mode="json", by_alias=True, exclude_none=True)
    brought = set(
        re.findall(r"""(?m)^(?:import|export) [^;]*?from ["']([^"']+)["']""", (node / "dist" / "index.js").read_text())
    )
    assert brought == {"react", "react/jsx-runtime", "@xyflow/react"}
    packed = json.loads(run(node, "npm", "pack", "--dry-run", "--json", "--ignore-scripts"))[0]
    names = {each["path"] for each in packed["files"]}
    assert {"dist/index.js", "dist/index.d.ts", "dist/style.css", "README.md"} <= names
    assert not [name for name in names if name.startswith("src") or "test" in name]
