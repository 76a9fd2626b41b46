"""The engine where it is not there: no SDK, no socket, a socket that nobody answers on."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.errors import Missing, SandboxError
from koda_ray.sandbox.engine import Engine
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.service import provider_from


async def test_without_the_sdk_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    engine = Engine(f"unix://{tmp_path}/docker.sock")
    assert engine.probe("any:1") is None
    with pytest.raises(Missing, match=r"koda-ray\[docker\]"):
        await engine.find("any")
    await engine.close()
    settings = Settings(SANDBOX_PATH=str(tmp_path), DOCKER_HOST=f"unix://{tmp_path}/docker.sock")  # pyright: ignore
    assert isinstance(provider_from(settings, deployment="dep_test"), LocalProvider)


async def test_without_an_engine_every_call_says_so(tmp_path: Path) -> None:
    pytest.importorskip("docker")
    path = tmp_path / "docker.sock"
    engine = Engine(f"unix://{path}")
    calls = (engine.find, engine.image, engine.names, engine.remove, engine.start, engine.logs)
    for call in calls:
        with pytest.raises(SandboxError, match="no Docker engine answers") as caught:
            await call("any")
        assert caught.value.code == "PROVIDER_ERROR" and str(path) in caught.value.message
    with socket.socket(socket.AF_UNIX) as left_behind:  # bound once, and nobody listens
        left_behind.bind(str(path))
    assert engine.probe("any:1") is None
    with pytest.raises(SandboxError, match="no Docker engine answers"):
        await engine.find("any")
    await engine.close()
    await engine.close()


def test_where_nobody_listens_the_sdk_is_not_even_loaded(tmp_path: Path) -> None:
    look = (
        "import sys; from koda_ray.config import Settings; from koda_ray.sandbox.service import provider_from\n"
        f"print(provider_from(Settings(docker_host='unix://{tmp_path}/none.sock'), deployment='dep').name, "
        "'docker' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "local False"
