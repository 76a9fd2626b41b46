from __future__ import annotations

import sys
from typing import Any, get_args

import pytest

from koda_ray.config import DEFAULT_MODEL, DEFAULT_MODELS, Settings
from koda_ray.errors import InvalidInput, Missing
from koda_ray.llm.registry import provider_for
from koda_ray.model_names import ModelName, fallbacks_in, model_name
from koda_ray.secret_names import SECRETS
from tests.llm.conformance import ask, check_stream, collect
from tests.llm.server import ModelServer, ScriptedModel, reply

USUAL = ("MODEL_OVERLOADED", "MODEL_UNREACHABLE", "MODEL_STREAM_BROKEN")


class Offline:
    name = "offline"

    def stream(self, request: object) -> object:
        raise AssertionError("not asked")

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))


def found(offline: Any = None) -> Any:
    return provider_for(Settings(), offline or Offline())  # type: ignore[arg-type]


def test_without_a_key_the_offline_director_answers() -> None:
    offline = Offline()
    assert found(offline) is offline


def test_with_a_key_claude_answers_unless_offline_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    offline = Offline()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    assert found(offline).name == "anthropic"
    monkeypatch.setenv("KODA_DIRECTOR", "offline")
    assert found(offline) is offline


@pytest.mark.parametrize(
    ("director", "key"),
    [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")],
)
def test_a_director_without_its_key_is_refused_at_start(
    monkeypatch: pytest.MonkeyPatch, director: str, key: str
) -> None:
    monkeypatch.setenv("KODA_DIRECTOR", director)
    with pytest.raises(InvalidInput, match=key):
        Settings()
    monkeypatch.setenv(key, "a-key")
    assert found().name == director


def test_a_key_of_another_provider_alone_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # many shells hold one for other programs
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    offline = Offline()
    assert found(offline) is offline


def test_a_model_of_a_provider_without_a_key_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    for variable in ("KODA_CODEGEN_MODEL", "KODA_SUBAGENT_MODEL", "KODA_FALLBACK_MODELS"):
        with monkeypatch.context() as inner:
            inner.setenv(variable, "gemini-3.8-flash")
            with pytest.raises(InvalidInput, match=rf"{variable}.*GEMINI_API_KEY"):
                Settings()


def test_the_other_agents_have_the_orchestrators_model_unless_they_have_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert {model for _, model in Settings().models} == {DEFAULT_MODEL}
    monkeypatch.setenv("KODA_ORCHESTRATOR_MODEL", "claude-one")
    monkeypatch.setenv("KODA_SUBAGENT_MODEL", "claude-two")
    monkeypatch.setenv("KODA_FALLBACK_MODELS", " gpt-1, gemini-1 ,")
    settings = Settings()
    assert (settings.codegen_model, settings.subagent_model) == ("claude-one", "claude-two")
    assert settings.fallbacks == dict.fromkeys(USUAL, ("gpt-1", "gemini-1"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", {}),
        (" ; ", {}),
        (
            "gpt-1; MODEL_AUTH = gemini-1 , gpt-2",
            {**dict.fromkeys(USUAL, ("gpt-1",)), "MODEL_AUTH": ("gemini-1", "gpt-2")},
        ),
        ("MODEL_CONTEXT_OVERFLOW=openai:llama3:70b", {"MODEL_CONTEXT_OVERFLOW": ("openai:llama3:70b",)}),
        ("MODEL_OVERLOADED=gpt-2;gpt-1", {**dict.fromkeys(USUAL, ("gpt-1",)), "MODEL_OVERLOADED": ("gpt-2",)}),
    ],
)
def test_each_error_can_lead_to_models_of_its_own(text: str, read: dict[str, tuple[str, ...]]) -> None:
    assert fallbacks_in(text) == read


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpt-1; MODEL_REFUSED=gpt-2", "'MODEL_REFUSED'.*MODEL_CONTEXT_OVERFLOW"),
        ("gpt-1; overload=gpt-2", "'overload'.*MODEL_OVERLOADED"),
        ("=gpt-2", "''"),
        ("gpt-1; gpt-2", "'gpt-2' comes after.*one list"),
        ("MODEL_AUTH=gpt-1; MODEL_AUTH=gpt-2", "'MODEL_AUTH=gpt-2' comes after"),
    ],
)
def test_what_leads_nowhere_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        fallbacks_in(text)
    monkeypatch.setenv("KODA_FALLBACK_MODELS", text)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    with pytest.raises(InvalidInput, match=told):
        Settings()


def test_a_server_of_ones_own_has_to_be_told_which_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KODA_DIRECTOR", "openai")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    with pytest.raises(InvalidInput, match="KODA_ORCHESTRATOR_MODEL=openai:NAME"):
        Settings()


@pytest.mark.parametrize(
    ("text", "vendor", "model"),
    [
        ("claude-sonnet-5-5", "anthropic", "claude-sonnet-5-5"),
        ("gpt-6-sol", "openai", "gpt-6-sol"),
        ("o3", "openai", "o3"),
        ("gemini-3.8-flash", "gemini", "gemini-3.8-flash"),
        ("openai:llama3:70b", "openai", "llama3:70b"),
        ("gpt-oss:20b", "openai", "gpt-oss:20b"),
        ("openai:claude-like", "openai", "claude-like"),
        ("anthropic:a-proxys-model", "anthropic", "a-proxys-model"),
    ],
)
def test_a_name_tells_its_provider(text: str, vendor: str, model: str) -> None:
    assert model_name(text) == ModelName(vendor=vendor, model=model)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "qwen3", "qwen3:8b", "openai:", "other:model", "orca"])
def test_a_name_that_tells_none_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(InvalidInput, match="openai:NAME"):
        model_name(text)


async def test_each_model_is_asked_of_its_own_server_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai", reason="the extra openai is not installed")
    from tests.llm.openai_server import OpenAIWire

    with (
        ModelServer(ScriptedModel([reply("plan")]), api_key="sk-test") as claude,
        ModelServer(ScriptedModel([reply("code")]), api_key="none", wire=OpenAIWire()) as own,
    ):
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.base_url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{own.base_url}/v1")
        monkeypatch.setenv("KODA_CODEGEN_MODEL", "openai:qwen3:8b")
        monkeypatch.setenv("KODA_OPENAI_MAX_TOKENS", "500")
        provider, settings = found(), Settings()
        await check_stream(provider, ask(model=settings.orchestrator_model))
        await check_stream(provider, ask(model=settings.codegen_model))
        await provider.close()
        assert claude.requests[0].json["model"] == DEFAULT_MODEL
        assert (own.requests[0].json["model"], own.requests[0].json["max_tokens"]) == ("qwen3:8b", 500)


def test_keys_are_in_no_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-very-secret")
    monkeypatch.setenv("KODA_FALLBACK_MODELS", "gpt-1,gemini-1")
    shown = repr(Settings()) + Settings().model_dump_json() + repr(vars(found()))
    assert "very-secret" not in shown
    assert {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"} <= set(SECRETS)


@pytest.mark.parametrize(
    ("vendor", "module", "extra"), [("openai", "openai", "openai"), ("gemini", "google.genai", "gemini")]
)
async def test_an_sdk_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, vendor: str, module: str, extra: str
) -> None:
    monkeypatch.setenv("KODA_DIRECTOR", vendor)
    monkeypatch.setenv(f"{vendor.upper()}_API_KEY", "a-key")
    monkeypatch.setitem(sys.modules, module, None)
    provider = found()
    with pytest.raises(Missing, match=rf"koda-ray\[{extra}\]"):
        await collect(provider, ask(model=DEFAULT_MODELS[vendor]))  # type: ignore[index]
    await provider.close()


async def test_the_default_model_is_one_that_the_sdk_does_not_warn_about(monkeypatch: pytest.MonkeyPatch) -> None:
    # warnings are errors here, and the SDK warns about models that are about to be retired
    with ModelServer(ScriptedModel([reply("Hello")]), api_key="sk-test") as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        provider = found()
        await check_stream(provider, ask(model=DEFAULT_MODEL))
        await provider.close()
        assert server.requests[0].json["model"] == DEFAULT_MODEL


def test_openais_default_model_is_one_that_its_sdk_knows() -> None:
    pytest.importorskip("openai", reason="the extra openai is not installed")
    from openai.types import ChatModel

    assert DEFAULT_MODELS["openai"] in get_args(ChatModel)
