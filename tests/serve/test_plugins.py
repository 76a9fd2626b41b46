"""What a canvas can show as a node: the same over HTTP and in the npm package, and what requests are checked by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from koda_ray import plugins
from koda_ray.client import KodaClient
from koda_ray.config import REPO_ROOT, Settings
from koda_ray.errors import NotFound
from koda_ray.plugins import ANIMATION_GENERATOR, AgentPlugin, PluginSetting, written
from koda_ray.types import Model, Phase
from koda_ray.wire import CreateSession

from .world import world

IN_THE_PACKAGE = REPO_ROOT / "web" / "node" / "src" / "animation-generator.ts"
TYPES = IN_THE_PACKAGE.with_name("plugin.ts")


async def test_the_server_gives_away_what_the_package_has(client: KodaClient) -> None:
    assert (await client.plugins()).plugins == (ANIMATION_GENERATOR,)
    assert await client.plugin("animation-generator") == ANIMATION_GENERATOR
    with pytest.raises(NotFound, match="no plugin 'storyboard' here; there is: animation-generator"):
        await client.plugin("storyboard")


def test_the_package_has_what_the_server_gives_away() -> None:
    assert IN_THE_PACKAGE.read_text() == written(), "python -m koda_ray.plugins > web/node/src/animation-generator.ts"


def _interfaces() -> dict[str, dict[str, bool]]:
    """Return what may be left out of each type of the package, by its name."""
    found: dict[str, dict[str, bool]] = {}
    pattern = r"export interface (\w+)(?: extends (\w+))? \{\n(.*?)\n\}"
    for name, base, body in re.findall(pattern, TYPES.read_text(), re.DOTALL):
        fields = {field: bool(mark) for field, mark in re.findall(r"(?m)^  (\w+)(\??): ", body)}
        found[name] = found.get(base, {}) | fields
    return found


MODELS = [
    each
    for name in plugins.__all__
    if name != "PluginList"  # of the server alone
    and isinstance(each := getattr(plugins, name), type)
    and issubclass(each, Model)
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_what_may_be_left_out_here_may_be_left_out_in_the_package(model: type[Model]) -> None:
    fields = {to_camel(name): not field.is_required() for name, field in model.model_fields.items()}
    assert _interfaces()[model.__name__] == fields


@pytest.mark.parametrize("name", ["AgentCapability", "AgentService", "HandleType", "Phase"])
def test_the_package_has_the_same_words(name: str) -> None:
    found = re.search(rf"export type {name} =(.*?);", TYPES.read_text(), re.DOTALL)
    assert found is not None
    words = Phase if name == "Phase" else getattr(plugins, name)
    assert sorted(re.findall(r"'([^']+)'", found[1])) == sorted(get_args(words))


def test_a_plugin_may_be_a_window_without_handles_and_phases() -> None:
    told: dict[str, Any] = ANIMATION_GENERATOR.model_dump(mode="json", by_alias=True)
    for name in ("handles", "phases", "settings", "sandboxConfig"):
        del told[name]
    told["rendering"] = {"mode": "modal", "component": "Storyboard"}
    told["modalConfig"] = {"size": "large", "title": "Storyboard"}
    plugin = AgentPlugin.model_validate(told)
    assert plugin.modal_config is not None and plugin.modal_config.size == "large" and plugin.handles is None
    told["sandboxConfig"] = {"type": "code", "template": "t", "timeout": 60, "checkpointInterval": 5, "idleTimeout": 30}
    told["sandboxConfig"]["resources"] = {"cpu": 0.5}
    sandbox = AgentPlugin.model_validate(told).sandbox_config
    assert sandbox is not None and sandbox.resources is not None and sandbox.resources.cpu == 0.5


async def test_its_sandbox_is_the_deployments(tmp_path: Path) -> None:
    settings = {"SANDBOX_LIFETIME_S": 600, "KODA_IDLE_TIMEOUT_S": 60, "SANDBOX_MEMORY_MB": 512}
    async with world(tmp_path, **settings) as koda, KodaClient(koda.url) as client:
        sandbox = (await client.plugin("animation-generator")).sandbox_config
    assert sandbox is not None and sandbox.resources is not None
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
