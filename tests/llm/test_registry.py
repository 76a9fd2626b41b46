from __future__ import annotations

import pytest

from koda_ray.config import DEFAULT_MODEL, Settings
from koda_ray.errors import InvalidInput
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.registry import provider_for
from tests.llm.conformance import ask, check_stream
from tests.llm.server import ModelServer, ScriptedModel, reply


class Offline:
    name = "offline"

    def stream(self, request: object) -> object:
        raise AssertionError("not asked")

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "KODA_DIRECTOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(str(tmp_path))


def test_without_a_key_the_offline_director_answers() -> None:
    offline = Offline()
    assert provider_for(Settings(), offline) is offline  # type: ignore[arg-type]


def test_with_a_key_claude_answers_unless_offline_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    offline = Offline()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    assert isinstance(provider_for(Settings(), offline), AnthropicProvider)  # type: ignore[arg-type]
    monkeypatch.setenv("KODA_DIRECTOR", "offline")
    assert provider_for(Settings(), offline) is offline  # type: ignore[arg-type]


def test_claude_without_a_key_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KODA_DIRECTOR", "anthropic")
    with pytest.raises(InvalidInput, match="ANTHROPIC_API_KEY"):
        Settings()


async def test_the_default_model_is_one_that_the_sdk_does_not_warn_about(monkeypatch: pytest.MonkeyPatch) -> None:
    # warnings are errors here, and the SDK warns about models that are about to be retired
    with ModelServer(ScriptedModel([reply("Hello")]), api_key="sk-test") as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        provider = provider_for(Settings(), Offline())  # type: ignore[arg-type]
        await check_stream(provider, ask(model=DEFAULT_MODEL))
        await provider.close()
        assert server.requests[0].json["model"] == DEFAULT_MODEL
