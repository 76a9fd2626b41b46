"""What models cost, as data: ``prices.json`` beside this module, and what the settings say over it.

A model that neither names has no price, and is never taken to cost nothing: its tokens are counted apart, and where
money is limited it is refused before it is asked. A model of one's own that costs nothing has the price 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

from pydantic import Field

from koda_ray.errors import InvalidInput
from koda_ray.types import Model

__all__ = ["FREE", "LongPrompts", "Price", "Prices"]

_DATE = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


class LongPrompts(Model):
    """Prompts longer than ``above`` tokens cost so many times as much, in all of their tokens."""

    above: int = Field(gt=0)
    input: float = Field(default=1, ge=1)
    output: float = Field(default=1, ge=1)


class Price(Model):
    """US dollars per million tokens; what a cache's tokens cost is what others do where nothing else is said."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    long: LongPrompts | None = None

    def microusd(self, *, fresh: int = 0, output: int = 0, cache_read: int = 0, cache_write: int = 0) -> int:
        """Return what a call costs in millionths of a dollar, rounded up.

        Args:
            fresh: Tokens of the prompt that no cache had or took.
            output: Tokens of the answer.
            cache_read: Tokens of the prompt that a cache had.
            cache_write: Tokens of the prompt that a cache took.
        """
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        prompt = fresh * self.input + cache_read * read + cache_write * write
        answer = output * self.output
        if self.long is not None and fresh + cache_read + cache_write > self.long.above:
            prompt, answer = prompt * self.long.input, answer * self.long.output
        # dollars per million tokens are millionths of a dollar per token; rounding hides what floats add
        return -int(-round(prompt + answer, 6) // 1)


FREE = Price(input=0, output=0)


class Prices:
    """Looks prices up.

    Args:
        own: Prices by model's name that come before the known ones; names may have their provider's before a colon.
        all_free: Every model that nobody gave a price costs nothing, as where none is asked.
    """

    def __init__(self, own: Mapping[str, Price] | None = None, *, all_free: bool = False) -> None:
        self._own = dict(own or {})
        self._all_free = all_free

    def find(self, model: str) -> Price | None:
        """Find a model's price: under its name as written, without its provider's, or without its date.

        Returns:
            None where nobody knows: a name that only begins like a known one is another model.
        """
        plain = model.partition(":")[2] or model
        for name in dict.fromkeys((model, plain, _DATE.sub("", model), _DATE.sub("", plain))):
            if (price := self._own.get(name) or _known().get(name)) is not None:
                return price
        return FREE if self._all_free else None

    def need(self, model: str) -> Price:
        """Find a model's price where money is limited.

        Raises:
            InvalidInput: NO_PRICE, nobody knows what it costs.
        """
        if (price := self.find(model)) is None:
            example = json.dumps({model: {"input": 2, "output": 10}})
            raise InvalidInput(
                f"the model {model!r} has no known price, so no budget of dollars can hold it: say what a million of "
                f"its tokens costs, KODA_MODEL_PRICES='{example}' (0 for a model of your own), or limit tokens instead",
                code="NO_PRICE",
                context={"model": model},
            )
        return price


@cache
def _known() -> dict[str, Price]:
    data = json.loads(resources.files("koda_ray").joinpath("prices.json").read_text(encoding="utf-8"))
    return {name: Price.model_validate(price) for name, price in data["models"].items()}
