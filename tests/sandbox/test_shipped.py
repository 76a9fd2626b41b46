"""The helper for inside a sandbox as one file that a bare Python runs."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.errors import InvalidPath
from koda_ray.sandbox.packed import pack, unpack
from koda_ray.sandbox.retold import revive
from koda_ray.sandbox.shipped import helper
from tests.walls import root_without


@pytest.mark.needs("bwrap")
def test_a_python_without_packages_runs_it(tmp_path: Path) -> None:
    archive = tmp_path / helper().name
    archive.write_bytes(helper().data)
    question = base64.b64encode(pack({"do": "directory", "path": "../.."})).decode()
    walls = ["bwrap", *root_without("tmp"), "--ro-bind", str(tmp_path), str(tmp_path), "--tmpfs", "/home"]
    walls += ["--dir", "/home/user/project", "--"]
    bare = [str(Path(sys.executable).resolve()), "-I", "-S", "-W", "error"]
    line = [*walls, *bare, str(archive), "files", question]
    done = subprocess.run(line, capture_output=True, check=False, cwd="/", env={"PATH": os.defpath})
    header, _ = unpack(done.stdout)
    assert header["ok"] is False, done.stderr
    error = revive(header["error"])
    assert (type(error), error.code, error.context["rule"]) == (InvalidPath, "INVALID_PATH", "parent")


def test_its_name_is_its_content() -> None:
    first = helper()
    helper.cache_clear()
    assert helper() == first
