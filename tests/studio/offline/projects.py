"""Projects on disk: the template with a film's files over it, type-checked and built by the real tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from koda_ray.config import Settings
from koda_ray.render.bundle import Bundle, read_folder

_MODULES = "node_modules"
_TIMEOUT_S = 240


def write_project(folder: Path, files: Mapping[str, str]) -> Path:
    """Copy the template and lay a film's files over it."""
    settings = Settings()
    skip = shutil.ignore_patterns(_MODULES, "dist", ".vite")
    shutil.copytree(settings.template_path, folder, ignore=skip)
    (folder / _MODULES).symlink_to(settings.node_modules_path.resolve())
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def node(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", *arguments],
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": str(project)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


def build(folder: Path, files: Mapping[str, str]) -> Bundle:
    """Build a film with Vite."""
    project = write_project(folder, files)
    done = node(project, f"{_MODULES}/vite/bin/vite.js", "build")
    assert done.returncode == 0, done.stdout + done.stderr
    return read_folder(project / "dist")
