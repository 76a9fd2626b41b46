"""Processes of ours find what this one finds, and have nothing else of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.own_process import own_environment

_SAID = "import json, os, sys, koda_ray; print(json.dumps([koda_ray.__file__, sys.path, dict(os.environ)]))"


def test_a_process_of_ours_finds_what_this_one_finds_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import koda_ray

    added = tmp_path / "added"
    added.mkdir()
    (added / "only_here.py").write_text("")
    (tmp_path / "elsewhere" / "koda_ray").mkdir(parents=True)
    (tmp_path / "elsewhere" / "koda_ray" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(added))
    monkeypatch.setattr(sys, "path", ["elsewhere", "", *sys.path])
    monkeypatch.setenv("KODA_SECRET", "none of its business")
    line = [sys.executable, "-P", "-c", f"import only_here; {_SAID}"]
    done = subprocess.run(
        line, cwd=tmp_path, env=own_environment({"PATH": "/bin"}), capture_output=True, text=True, check=True
    )
    package, path, environment = json.loads(done.stdout)
    assert package == koda_ray.__file__ and str(added) in path
    assert set(environment) <= {"PATH", "PYTHONPATH", "LC_CTYPE"} and environment["PATH"] == "/bin"
