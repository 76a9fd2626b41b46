"""Who answers in a deployment: each model's own provider, or the injected offline one where there is no key."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from pydantic import SecretStr

from koda_ray.config import Settings
from koda_ray.errors import Missing
from koda_ray.llm.base import CountsTokens, ModelEvent, ModelProvider, ModelRequest
from koda_ray.llm.fallback import FallbackProvider
from koda_ray.llm.retry import RetryPolicy
from koda_ray.model_names import Vendor, model_name

__all__ = ["ProviderOf", "missing_extras", "provider_for"]

_SDK: dict[Vendor, str] = {"anthropic": "anthropic", "openai": "openai", "gemini": "google.genai"}
_BEFORE_FALLBACK = RetryPolicy(attempts=3, total_s=20.0, max_wait_s=5.0)
"""Where another model can answer, nobody waits two minutes for this one."""


class ProviderOf:
    """Passes each request to the provider of its model, under the name that the provider knows.

    Args:
        open_: Makes a provider; called once for each that is needed.
    """

    def __init__(self, open_: Callable[[Vendor], ModelProvider]) -> None:
        self._open = open_
        self._opened: dict[Vendor, ModelProvider] = {}

    @property
    def name(self) -> str:
        """The providers in use, such as ``anthropic, openai``."""
        return ", ".join(self._opened) or "models"

    def provider(self, model: str) -> ModelProvider:
        """Find the provider of a model, by ``provider:model`` or by how the name begins.

        Raises:
            InvalidInput: INVALID_INPUT, the name does not tell.
            Missing: MISSING, the provider has no key.
        """
        vendor = model_name(model).vendor
        if vendor not in self._opened:
            self._opened[vendor] = self._open(vendor)
        return self._opened[vendor]

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer a request as the model's provider does."""
        model = model_name(request.model).model
        return self.provider(request.model).stream(replace(request, model=model))

    async def count(self, request: ModelRequest) -> int | None:
        """Count a prompt's tokens as the model's provider does."""
        provider = self.provider(request.model)
        if not isinstance(provider, CountsTokens):
            return None
        return await provider.count(replace(request, model=model_name(request.model).model))

    async def close(self) -> None:
        """Close every provider; they open again when asked."""
        for provider in self._opened.values():
            await provider.close()


def provider_for(settings: Settings, offline: ModelProvider) -> ModelProvider:
    """Choose who answers.

    Args:
        settings: Which director, which models, which keys.
        offline: What answers without a model; made by a higher floor.

    Raises:
        Missing: MISSING, a model's provider has no key.
        ModelAuth: MODEL_AUTH, a key cannot be one.
    """
    if settings.uses_offline_director:
        return offline
    retry = _BEFORE_FALLBACK if settings.fallbacks.get("MODEL_OVERLOADED") else RetryPolicy()
    found = ProviderOf(lambda vendor: _opened(vendor, settings, retry))
    for _, model in settings.models:
        found.provider(model)
    return FallbackProvider(found, settings.fallbacks) if settings.fallbacks else found


def missing_extras(settings: Settings) -> list[str]:
    """List the extras that the models in use need and that are not installed."""
    if settings.uses_offline_director:
        return []
    wanted: set[Vendor] = {model_name(model).vendor for _, model in settings.models}
    return sorted(str(vendor) for vendor in wanted if not _installed(_SDK[vendor]))


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is not there either
        return False


def _opened(vendor: Vendor, settings: Settings, retry: RetryPolicy) -> ModelProvider:
    match vendor:
        case "anthropic":
            from koda_ray.llm.anthropic import AnthropicProvider

            key = _key(settings.anthropic_api_key, "ANTHROPIC_API_KEY")
            return AnthropicProvider(key, base_url=settings.anthropic_base_url, retry=retry)
        case "openai":
            from koda_ray.llm.openai import OpenAIProvider

            own = settings.openai_api_key is None and settings.openai_base_url
            return OpenAIProvider(
                None if own else _key(settings.openai_api_key, "OPENAI_API_KEY, or OPENAI_BASE_URL"),
                base_url=settings.openai_base_url or None,
                max_tokens=settings.openai_max_tokens,
                retry=retry,
            )
        case "gemini":
            from koda_ray.llm.gemini import GeminiProvider

            key = _key(settings.gemini_api_key, "GEMINI_API_KEY")
            return GeminiProvider(key, base_url=settings.gemini_base_url, retry=retry)


def _key(key: SecretStr | None, setting: str) -> str:
    if key is None:
        raise Missing(f"a model is asked for whose provider has no key: set {setting}, or name another model")
    return key.get_secret_value()
