"""Which provider a deployment uses: Claude when there is a key, the injected offline one when there is none."""

from __future__ import annotations

from koda_ray.config import Settings
from koda_ray.errors import Missing
from koda_ray.llm.base import ModelProvider

__all__ = ["provider_for"]


def provider_for(settings: Settings, offline: ModelProvider) -> ModelProvider:
    """Choose the model provider.

    Args:
        settings: Which director, and its key.
        offline: What answers without a model; made by a higher floor.

    Raises:
        Missing: MISSING, Anthropic is asked for without a key.
    """
    if settings.uses_offline_director:
        return offline
    if settings.anthropic_api_key is None:
        raise Missing("KODA_DIRECTOR=anthropic needs ANTHROPIC_API_KEY; unset both for the offline director")
    from koda_ray.llm.anthropic import AnthropicProvider

    return AnthropicProvider(settings.anthropic_api_key.get_secret_value(), base_url=settings.anthropic_base_url)
