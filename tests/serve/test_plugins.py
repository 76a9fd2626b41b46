"""What a canvas can show as a node: the same over HTTP and in the npm package, and what requests are checked by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from koda_ray.client import KodaClient
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.errors import NotFound
from koda_ray.plugins import ANIMATION_GENERATOR, PluginSetting, written
from koda_ray.wire import CreateSession

from .world import world

IN_THE_PACKAGE = REPO_ROOT / "web" / "node" / "src" / "animation-generator.ts"


async def test_the_server_gives_away_what_the_package_has(client: KodaClient) -> None:
    assert (await client.plugins()).plugins == (ANIMATION_GENERATOR,)
    assert await client.plugin("animation-generator") == ANIMATION_GENERATOR
    with pytest.raises(NotFound, match="no plugin 'storyboard' here; there is: animation-generator"):
        await client.plugin("storyboard")


def test_the_package_has_what_the_server_gives_away() -> None:
    assert IN_THE_PACKAGE.read_text() == written(), "python -m koda_ray.plugins > web/node/src/animation-generator.ts"


async def test_its_sandbox_is_the_deployments(tmp_path: Path) -> None:
    settings = {"SANDBOX_LIFETIME_S": 600, "KODA_IDLE_TIMEOUT_S": 60, "SANDBOX_MEMORY_MB": 512}
    async with world(tmp_path, **settings) as koda, KodaClient(koda.url) as client:
        sandbox = (await client.plugin("animation-generator")).sandbox_config
    assert (sandbox.timeout, sandbox.idle_timeout, sandbox.resources.memory) == (600, 60, "512MB")
    assert sandbox.template == Settings().sandbox_image


def _asked(setting: PluginSetting, value: object) -> CreateSession:
    body: dict[str, Any] = {"prompt": "A ball"}
    part = body
    *path, last = setting.id.split(".")
    for each in path:
        part = part.setdefault(each, {})
    part[last] = value
    return CreateSession.model_validate(body)


@pytest.mark.parametrize("setting", ANIMATION_GENERATOR.settings, ids=lambda setting: setting.id)
def test_what_a_setting_offers_is_taken_and_nothing_else(setting: PluginSetting) -> None:
    edges = (setting.minimum, setting.maximum) if setting.type == "number" else setting.options
    assert len(edges) >= 2 and setting.default in (None, *edges)
    for value in edges:
        _asked(setting, value)
    for wrong in (-1, 10_000, "17:9"):
        with pytest.raises(ValidationError):
            _asked(setting, wrong)
