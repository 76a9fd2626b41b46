"""Which provider a model's name means: written before it (``openai:qwen3``), or told by how the name begins.

And which models are asked next where one cannot answer, by the code of its error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from koda_ray.errors import InvalidInput

__all__ = [
    "FALLBACK_CODES",
    "VENDORS",
    "Fallbacks",
    "ModelName",
    "Vendor",
    "fallbacks_in",
    "model_name",
    "usual_fallbacks",
]

Fallbacks = Mapping[str, Sequence[str]]
"""The models that are asked next, in order, by the code of the error that the one before failed with."""

Vendor = Literal["anthropic", "openai", "gemini"]
VENDORS: tuple[Vendor, ...] = get_args(Vendor)

_USUAL = ("MODEL_OVERLOADED", "MODEL_UNREACHABLE", "MODEL_STREAM_BROKEN")
FALLBACK_CODES = (*_USUAL, "MODEL_CONTEXT_OVERFLOW", "MODEL_AUTH", "MODEL_ERROR")
"""The errors that another model may not have. A refusal is none: it is an answer, and paid for."""

_BEGINNINGS: tuple[tuple[str, Vendor], ...] = (
    (r"claude-", "anthropic"),
    (r"gpt-|chatgpt-|codex-|o\d|ft:", "openai"),
    (r"gemini-|gemma-|models/", "gemini"),
)


@dataclass(frozen=True, kw_only=True)
class ModelName:
    """A model as its provider knows it."""

    vendor: Vendor
    model: str


def model_name(text: str) -> ModelName:
    """Read a model's name; only the first colon can end a provider's, so ``openai:llama3:70b`` is ``llama3:70b``.

    Raises:
        InvalidInput: INVALID_INPUT, nothing tells the provider, or no name follows it.
    """
    vendor, colon, model = text.strip().partition(":")
    if colon and vendor in VENDORS and model.strip():
        return ModelName(vendor=vendor, model=model.strip())
    for pattern, found in _BEGINNINGS:
        if re.match(pattern, text.strip()):
            return ModelName(vendor=found, model=text.strip())
    raise InvalidInput(
        f"{text!r} does not say whose model it is: write anthropic:NAME, gemini:NAME, or openai:NAME (also for a "
        "server of one's own at OPENAI_BASE_URL)"
    )


def usual_fallbacks(models: Sequence[str]) -> Fallbacks:
    """Have models asked where one is overloaded, cannot be reached, or breaks off."""
    return dict.fromkeys(_USUAL, tuple(models)) if models else {}


def fallbacks_in(text: str) -> Fallbacks:
    """Read which models are asked next: names with commas between, and more of them for other errors.

    ``gpt-1, gemini-1; MODEL_CONTEXT_OVERFLOW=gemini-long`` has the first two asked where a model is overloaded, cannot
    be reached or breaks off, and the last where a conversation is too long. What is written of a code holds alone.

    Raises:
        InvalidInput: INVALID_INPUT, a code is none of `FALLBACK_CODES`, or comes twice.
    """
    usual: Sequence[str] = ()
    named: dict[str, Sequence[str]] = {}
    for group in text.split(";"):
        if not group.strip():
            continue
        code, sign, names = [part.strip() for part in group.rpartition("=")]
        if sign and code not in FALLBACK_CODES:
            raise InvalidInput(f"no other model is asked after {code!r}; it is after {', '.join(FALLBACK_CODES)}")
        if code in named or (usual and not sign):
            raise InvalidInput(f"{group.strip()!r} comes after models for the same errors; write them in one list")
        models = tuple(each.strip() for each in names.split(",") if each.strip())
        if sign:
            named[code] = models
        else:
            usual = models
    return {**usual_fallbacks(usual), **named}
