"""Where temporary files lie, on a disk that is full too."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from koda_ray.config import REPO_ROOT
from koda_ray.temporary import temporary_folder
from tests.disks import small

_TOLD = "from koda_ray.temporary import temporary_folder; print(temporary_folder())"
_FREE = "from koda_ray.render.fitness import free_bytes; print(free_bytes())"


def test_a_full_disk_is_where_temporary_files_lie_as_before(tmp_path: Path) -> None:
    with small(tmp_path / "disk", 1) as disk:
        with suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))

        def said(code: str, **variables: str) -> str:
            environment = {**os.environ, "PYTHONPATH": str(REPO_ROOT), **variables}
            line = [sys.executable, "-c", code]
            return subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout.strip()

        assert said(_TOLD, TMPDIR=str(disk)) == str(disk)
        assert int(said(_FREE, TMPDIR=str(disk))) < 1 << 16
        assert said(_TOLD, TMPDIR=str(disk / "filling"), TEMP=str(tmp_path)) == str(tmp_path), "the first that is one"


def test_what_a_process_has_chosen_is_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "chosen"))
    assert temporary_folder() == tmp_path / "chosen"
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    assert temporary_folder() == Path(tempfile.gettempdir())
