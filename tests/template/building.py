"""Projects made from the template, and their builds: one node for many, because most of a build is node warming up.

A build is a second of work in a process that has made one before, and four in a fresh one; the files are the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from koda_ray.config import Settings
from koda_ray.render.bundle import Bundle
from tests.built import read_folder

__all__ = ["TemplateBuilds", "make_project", "node", "write_project"]

_MODULES = "node_modules"
_TIMEOUT_S = 240.0
_SCRIPT = """
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
const roots = process.argv.slice(1);
const { build } = await import(pathToFileURL(createRequire(`${roots[0]}/package.json`).resolve('vite')).href);
for (const root of roots) {
  process.chdir(root);
  await build({ root, logLevel: 'warn' });
}
"""


def make_project(folder: Path, overlay: Path | None = None) -> Path:
    """Copy the template, lay another project's files over it, and give it the installed packages."""
    settings = Settings()
    skip = shutil.ignore_patterns(_MODULES, "dist", ".vite")
    shutil.copytree(settings.template_path, folder, ignore=skip)
    if overlay is not None:
        shutil.copytree(overlay, folder, dirs_exist_ok=True)
    (folder / _MODULES).symlink_to(settings.node_modules_path.resolve())
    return folder


def write_project(folder: Path, files: Mapping[str, str]) -> Path:
    """Copy the template and lay a film's files over it."""
    make_project(folder)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def node(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run node in a project, with nothing in its environment but PATH."""
    return subprocess.run(
        ["node", *arguments],
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": str(project)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )


class TemplateBuilds:
    """Projects that are being built by one process, in order, without network and with their packages read-only."""

    def __init__(self, projects: Sequence[Path]) -> None:
        self.projects = projects
        inside = ["--dev-bind", "/", "/", "--unshare-net", "--die-with-parent"]
        for project in projects:
            modules = project / _MODULES
            packages = str(modules.resolve())
            modules.unlink()
            modules.mkdir()
            inside += ["--ro-bind", packages, str(modules)]
        names = [str(project) for project in projects]
        self._process = subprocess.Popen(
            ["bwrap", *inside, "--chdir", names[0], "node", "--input-type=module", "--eval", _SCRIPT, *names],
            env={"PATH": os.environ["PATH"], "HOME": names[0]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def bundles(self) -> dict[str, Bundle]:
        """Wait for all, and return what was made by the name of its project's folder."""
        said, _ = self._process.communicate(timeout=_TIMEOUT_S)
        assert self._process.returncode == 0, said
        return {project.name: read_folder(project / "dist") for project in self.projects}

    def end(self) -> None:
        """End it, if it still runs."""
        self._process.kill()
        self._process.communicate()
