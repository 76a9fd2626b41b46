"""The store that settings name, and whom it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.actors.parts import open_store
from koda_ray.config import Settings
from koda_ray.errors import InvalidInput
from koda_ray.state.json_store import JSONStore
from koda_ray.state.sql import SqlStore
from koda_ray.state.stores import store_from
from tests.state.child import REPOSITORY


def test_settings_name_the_store(tmp_path: Path) -> None:
    local = Settings.model_validate({"database_path": tmp_path / "koda.db"})
    assert isinstance(store_from(local, processes="many"), SqlStore)
    folder = Settings.model_validate({"database_url": f"json:{tmp_path}/store"})
    store = store_from(folder, processes="one")
    assert isinstance(store, JSONStore) and repr(store) == f"JSONStore('{tmp_path}/store')"
    assert not (tmp_path / "store").exists()


async def test_a_ray_actor_is_refused_and_told_of_sqlite(tmp_path: Path) -> None:
    settings = Settings.model_validate({"database_url": f"json:{tmp_path}/store"})
    with pytest.raises(InvalidInput, match=r"for one process.*Ray's actors.*DATABASE_PROVIDER=sqlite"):
        await open_store(settings)
    assert not (tmp_path / "store").exists()


def koda(*arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "koda_ray", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "DATABASE_URL": url, "KODA_DATA_DIR": url.removeprefix("json:")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.full
def test_the_command_line_uses_it_and_a_server_does_not(tmp_path: Path) -> None:
    url = f"json:{tmp_path}/store"
    made = koda("keys", "create", "ann", url=url)
    assert made.returncode == 0 and made.stdout.startswith("koda_"), made.stderr
    assert "\tann\tvalid\t" in koda("keys", "list", url=url).stdout
    served = koda("serve", "--port", "0", url=url)
    assert served.returncode != 0
    assert "DATABASE_PROVIDER=sqlite" in " ".join(served.stderr.split()), served.stderr
