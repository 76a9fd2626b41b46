"""A copy of the package with one subject more: the module and the scene that CONTRIBUTING.md shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import koda_ray
from koda_ray.config import REPO_ROOT

MODULE, SCENE = "subjects/pulse.py", "kit/scenes/PulseScene.tsx"

_SAY = """
import json, sys
from koda_ray.roles.offline import generate_files, make_plan, parse_brief
prompt, *feedback = sys.argv[1:]
brief = parse_brief(prompt, feedback=feedback)
plan = make_plan(brief).model_dump(mode="json", by_alias=True)
files = generate_files({"task": "create_component", "prompt": prompt, "plan": plan, "feedback": feedback})
print(json.dumps({"subject": brief.subject, "plan": plan, "files": files}))
"""


def shown() -> dict[str, str]:
    """Return the two files that CONTRIBUTING.md shows, by their place in the director's package."""
    text = (REPO_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = {kind: re.findall(rf"^```{kind}\n(.*?)^```$", text, re.S | re.M) for kind in ("python", "tsx")}
    (module,), (scene,) = blocks["python"], blocks["tsx"]
    return {MODULE: module, SCENE: scene}


def with_subject(folder: Path) -> Path:
    """Copy the package into a folder and add the two files; return the folder, from which it can be imported."""
    package = Path(str(koda_ray.__file__)).parent
    shutil.copytree(package, folder / "koda_ray", ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in shown().items():
        (folder / "koda_ray/roles/offline" / path).write_text(text, encoding="utf-8")
    return folder


def made(folder: Path, prompt: str, *feedback: str) -> dict[str, Any]:
    """Return subject, plan and files of what is asked of the package in a folder, made in a Python of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _SAY, prompt, *feedback],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
