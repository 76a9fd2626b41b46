"""The model of an agent or a room that was given none: Claude, by its key."""

from __future__ import annotations

from koda_ray.config import Settings
from koda_ray.errors import Missing
from koda_ray.llm.base import ModelProvider

__all__ = ["claude"]


def claude() -> ModelProvider:
    """Make the provider of whoever was given none.

    Raises:
        Missing: ``ANTHROPIC_API_KEY`` is not set.
    """
    settings = Settings()
    if settings.anthropic_api_key is None:
        raise Missing("no model: set ANTHROPIC_API_KEY, or give the agent a provider")
    from koda_ray.llm.anthropic import AnthropicProvider

    return AnthropicProvider(settings.anthropic_api_key.get_secret_value(), base_url=settings.anthropic_base_url)
