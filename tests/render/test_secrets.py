from __future__ import annotations

import asyncio
import os

import pytest

from koda_ray.errors import RenderError
from koda_ray.render import tasks
from koda_ray.secret_names import SECRETS


async def _printenv(_tell: object) -> str:
    process = await asyncio.create_subprocess_exec("env", stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode()


async def _fail(_tell: object) -> str:
    raise RenderError(f"seen: {sorted(set(SECRETS) & set(os.environ))}")


def test_a_task_runs_without_the_settings_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"ANTHROPIC_API_KEY", "KODA_SIGNING_KEY", "KODA_API_KEYS", "DATABASE_URL"} <= set(SECRETS)
    for name in SECRETS:
        monkeypatch.setenv(name, "hush-hush")
    seen = str(list(tasks._run(_printenv))[-1])
    assert "PATH=" in seen and "hush-hush" not in seen
    assert str(list(tasks._run(_fail))[-1]) == "seen: []"
    # the process may be given other work next, which needs them
    assert all(os.environ[name] == "hush-hush" for name in SECRETS)
