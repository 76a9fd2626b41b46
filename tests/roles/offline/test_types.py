"""Every film's code passes the strict TypeScript compiler: one run for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from koda_ray.roles.offline import generate_files, make_plan, parse_brief
from tests.roles.offline.added import made, with_subject
from tests.roles.offline.prompts import PROMPTS
from tests.template.building import node, write_project


@pytest.mark.needs("node")
@pytest.mark.full
def test_every_film_compiles_strictly(tmp_path: Path) -> None:
    """Kit files are the same in all films; scenes differ, so each film's get names of their own."""
    together: dict[str, str] = {}
    for name, prompt in PROMPTS.items():
        plan = make_plan(parse_brief(prompt)).model_dump(mode="json", by_alias=True)
        for path, text in generate_files({"task": "create_component", "prompt": prompt, "plan": plan}).items():
            if "/scenes/" in path and path in together:
                path = path.replace(".tsx", f"-{name}.tsx")
            together.setdefault(path, text)
    added = made(with_subject(tmp_path / "added"), "a heartbeat, playful")["files"]
    together["src/scenes/PulseScene.tsx"] = added["src/scenes/PulseScene.tsx"]
    project = write_project(tmp_path / "project", together)
    strict = ("--noEmit", "--pretty", "false", "--noUnusedLocals", "--noUnusedParameters")
    checked = node(project, "node_modules/typescript/bin/tsc", *strict, "--listFiles")
    lines = checked.stdout.splitlines()
    read = {line.removeprefix(f"{project}/") for line in lines if line.startswith("/")}
    code = {path for path in together if path.endswith((".ts", ".tsx"))}
    assert code and code <= read, f"not compiled: {code - read}; {checked.stderr}"
    assert [line for line in lines if not line.startswith(("/", "src/koda/", "vite/", " "))] == []
