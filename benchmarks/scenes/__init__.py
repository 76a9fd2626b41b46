"""The pages that are measured, as bundles: scenes of our own, two of common libraries, and the template's film.

A scene is one file that exports ``mount(root, {width, height}) -> draw(seconds)``; ours and each peer's page call the
same, so that all paint the same pixels.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from benchmarks.packages import install
from koda_ray.config import Settings
from koda_ray.render.bundle import Bundle
from tests.built import read_folder

__all__ = ["LIBRARY_SCENES", "SCENES", "bundle_of", "scene_source", "three_module"]

SCENES = ("webgl", "dom", "static")
LIBRARY_SCENES = {
    "gsap": ("gsap@3.13.0", "gsap/dist/gsap.min.js"),
    "lottie": ("lottie-web@5.13.0", "lottie-web/build/player/lottie.min.js"),
}
_HERE = Path(__file__).parent
_BUILD_TIMEOUT_S = 240


def scene_source(name: str) -> Path:
    """Return a scene's file."""
    return _HERE / f"{name}.js"


def three_module() -> Path:
    """Return three.js as the template has it: one file, the same for all."""
    return (Settings.model_validate({}).node_modules_path / "three" / "build" / "three.module.js").resolve()


async def bundle_of(name: str) -> Bundle:
    """Return a scene's bundle: webgl, dom, static, svg, gsap, lottie or demo."""
    if name == "demo":
        return await _demo()
    if name in LIBRARY_SCENES:
        file = LIBRARY_SCENES[name][1]
        modules = await install("pages", [package for package, _ in LIBRARY_SCENES.values()])
        script = modules / file
        return Bundle({"index.html": (_HERE / f"{name}.html").read_bytes(), script.name: script.read_bytes()})
    files = {"index.html": (_HERE / "page.html").read_bytes(), "scene.js": scene_source(name).read_bytes()}
    if b'from "three"' in files["scene.js"]:
        files["three.module.js"] = three_module().read_bytes()
    return Bundle(files)


async def _demo() -> Bundle:
    """Build the template as it is: the film that a new project begins with."""
    settings = Settings.model_validate({})
    with tempfile.TemporaryDirectory(prefix="koda-bench-demo-") as folder:
        project = Path(folder, "project")
        shutil.copytree(settings.template_path, project, ignore=shutil.ignore_patterns("node_modules", "dist", ".vite"))
        (project / "node_modules").symlink_to(settings.node_modules_path.resolve())
        process = await asyncio.create_subprocess_exec(
            *("node", "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn"),
            cwd=project,
            env={"PATH": os.environ["PATH"], "HOME": folder},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(_BUILD_TIMEOUT_S):
            said, _ = await process.communicate()
        if process.returncode:
            raise SystemExit(f"the template could not be built: {said.decode(errors='replace')[-2000:]}")
        return read_folder(project / "dist")
