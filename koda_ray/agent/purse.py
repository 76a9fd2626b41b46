"""What an agent's model calls may cost, before they are made, and what they did cost, after.

A call is reserved with the longest answer that it may get, so that many who draw on one budget never overdraw it
together; where only a shorter answer fits, a shorter one is asked for. It is settled by the usage that the provider
counted, in the transaction that stores the answer: an answer and its price are kept together or not at all. One that
somebody stopped is settled by what was asked and what had streamed; one that failed is given back.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from koda_ray.budgets import WARN_AT, Amounts, Exceeded, limits_of
from koda_ray.errors import BudgetExceeded, KodaError
from koda_ray.llm.base import Block, Completed, ModelRequest, Usage
from koda_ray.prices import Price, Prices
from koda_ray.state.charges import Bound, ChargeEntry, Refund, Reserve, Settle, exceeded
from koda_ray.state.records import Batch
from koda_ray.state.store import Store
from koda_ray.types import Budget, Resource, now

__all__ = ["LEAST_ANSWER_TOKENS", "STOPPED", "Purse", "month"]

LEAST_ANSWER_TOKENS = 4096
"""An answer of which only less would fit is not worth asking for."""
STOPPED = "stopped"
"""With this word a task is cancelled because somebody wants no more of it: what had streamed by then is paid for."""
_CHARS_PER_TOKEN = 3.0
_IMAGE_TOKENS = 1600
_CACHED_FOR_S = 270.0
_WITH_SANDBOX: tuple[Resource, ...] = ("sandbox",)


def month() -> str:
    """Return the account of a user's present month."""
    return f"month:{now():%Y-%m}"


@dataclass(frozen=True)
class _Learned:
    """What the last answer of an agent said about its prompt."""

    chars: int
    tokens: int
    cached: int
    at: float


class Purse:
    """Whose money it is, how much of it there is, and what models cost.

    Args:
        account: The session's id, which is its account; None for work of its own, which only the user's month bounds.
        budget: Returns the session's limits as they are now.
        monthly: The user's limits for a calendar month (UTC), over all of their work.
        prices: What models cost.
        stored: Finds that the user has stored as much as they may, so that nothing is begun that stores more.
    """

    def __init__(
        self,
        account: str | None,
        *,
        budget: Callable[[], Budget] = Budget,
        monthly: Budget | None = None,
        prices: Prices | None = None,
        stored: Callable[[], Awaitable[Exceeded | None]] | None = None,
    ) -> None:
        self._stored = stored
        self._account = account
        self._budget = budget
        self._monthly = monthly or Budget()
        self._prices = prices or Prices()
        self._learned: dict[str, _Learned] = {}
        self._reserved: set[str] = set()

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The accounts that everything is charged to, with their limits."""
        own = () if self._account is None else (_bound(self._account, self._budget()),)
        return (*own, _bound(month(), self._monthly))

    async def used_up(
        self, store: Store, user_id: str, resources: Sequence[Resource], wanted: Amounts | None = None
    ) -> Exceeded | None:
        """Find which of some resources has nothing left, or not what is wanted; asks nobody where none is limited."""
        bounds = [bound for bound in self.bounds if any(resource in bound.limits for resource in resources)]
        if not bounds:
            return None
        accounts = {each.id: each for each in await store.accounts(user_id, [bound.account for bound in bounds])}
        found = (
            exceeded(bound, accounts.get(bound.account), wanted or Amounts(), unless_used_up=resources)
            for bound in bounds
        )
        return next((each for each in found if each is not None), None)

    async def check_stored(self) -> None:
        """See that more may be stored.

        Raises:
            BudgetExceeded: The user has stored as much as they may.
        """
        if self._stored is not None and (found := await self._stored()) is not None:
            raise found.error()

    async def begin(
        self,
        call_id: str,
        request: ModelRequest,
        commit: Callable[[Batch], Awaitable[object]],
        *,
        substitutes: Sequence[str] = (),
    ) -> ModelRequest:
        """Reserve what a call may cost.

        Nothing is written where nothing is limited.

        Args:
            call_id: The call's id, and its charge's.
            request: What will be asked.
            commit: Stores the reservation.
            substitutes: Models that may answer in its place; the dearest counts.

        Returns:
            The request, with a shorter answer where no longer one fits.

        Raises:
            BudgetExceeded: Not even a short answer fits, or what it leads to could not be stored.
            InvalidInput: NO_PRICE, dollars are limited and nobody knows what the model costs.
        """
        await self.check_stored()
        bounds = self.bounds
        if not any(bound.limits for bound in bounds):
            return request
        in_dollars = any("cost" in bound.limits for bound in bounds)
        prompt, cached = self._prompt(request)
        prices = [self._prices.need(model) if in_dollars else self._prices.find(model)
                  for model in (request.model, *substitutes)]  # fmt: skip
        price = max(prices, key=lambda each: _at_most(prompt, cached, request.max_tokens, each).cost_microusd)
        least = min(request.max_tokens, LEAST_ANSWER_TOKENS)
        while True:
            reserve = Reserve(
                id=call_id,
                kind="model",
                agent=request.agent,
                model=request.model,
                amounts=_at_most(prompt, cached, request.max_tokens, price),
                bounds=bounds,
                alone=True,
                unless_used_up=_WITH_SANDBOX,
            )
            try:
                await commit(Batch(charges=[reserve]))
            except BudgetExceeded as error:
                if request.max_tokens <= least:
                    raise
                fits = _answer_that_fits(Exceeded.by(error), prompt, cached, request.max_tokens, price)
                request = replace(request, max_tokens=max(least, fits))
            else:
                self._reserved.add(call_id)
                return request

    def settle(self, call_id: str, request: ModelRequest, completed: Completed) -> tuple[Settle, float | None]:
        """Say what a call cost by the model that answered, or by the one asked for where that has no known price.

        A server that says nothing of what was used is taken to have used what its words come to.

        Returns:
            What to commit with the answer, and the price in dollars; None where it is not known.
        """
        usage = completed.usage
        if usage == Usage():
            chars, _ = _block_sizes(completed.message.content)
            usage = self._estimated(request, chars)
        else:
            self._learn(request, usage)
        return self._settled(call_id, request, completed.model or request.model, usage)

    def _settled(self, call_id: str, request: ModelRequest, model: str, usage: Usage) -> tuple[Settle, float | None]:
        self._reserved.discard(call_id)
        tokens = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        price = self._prices.find(model) or self._prices.find(request.model)
        if price is None:
            spent = Amounts(tokens=tokens, unpriced_tokens=tokens)
        else:
            spent = Amounts(tokens=tokens, cost_microusd=_cost(price, usage))
        settle = Settle(id=call_id, kind="model", agent=request.agent, model=model, spent=spent, bounds=self.bounds)
        return settle, None if price is None else spent.cost_microusd / 1_000_000

    def unanswered(self, call_id: str, request: ModelRequest, error: BaseException, *, chars: int) -> list[ChargeEntry]:
        """Close the account of a call that gave no answer.

        Args:
            call_id: The call's.
            request: What was asked.
            error: Why it ended.
            chars: How much had streamed.

        Returns:
            What it cost, as nearly as that is known, where it was `STOPPED`; else what gives back what it held, and
            nothing where it held nothing.
        """
        if isinstance(error, asyncio.CancelledError) and STOPPED in error.args and chars > 0:
            return [self._settled(call_id, request, request.model, self._estimated(request, chars))[0]]
        if call_id not in self._reserved:
            return []
        self._reserved.discard(call_id)
        return [Refund(id=call_id, reason=error.code if isinstance(error, KodaError) else type(error).__name__)]

    def _estimated(self, request: ModelRequest, answer_chars: int) -> Usage:
        prompt, cached = self._prompt(request)
        answer = round(answer_chars / _CHARS_PER_TOKEN)
        return Usage(input_tokens=prompt - cached, output_tokens=answer, cache_read_tokens=cached)

    def _prompt(self, request: ModelRequest) -> tuple[int, int]:
        """Estimate the prompt's tokens, and how many of them a cache will have, from the last answer's usage."""
        chars, images = _size(request)
        last = self._learned.get(request.agent)
        if last is None:
            return round(chars / _CHARS_PER_TOKEN) + images * _IMAGE_TOKENS, 0
        tokens = round(chars * last.tokens / last.chars) if chars < last.chars else (
            last.tokens + round((chars - last.chars) / _CHARS_PER_TOKEN)
        )  # fmt: skip
        tokens += images * _IMAGE_TOKENS
        fresh = time.monotonic() - last.at < _CACHED_FOR_S
        return tokens, min(tokens, last.cached) if fresh else 0

    def _learn(self, request: ModelRequest, usage: Usage) -> None:
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        tokens = usage.input_tokens + cached
        chars, images = _size(request)
        if tokens > images * _IMAGE_TOKENS and chars > 0:
            at = time.monotonic()
            self._learned[request.agent] = _Learned(chars, tokens - images * _IMAGE_TOKENS, cached, at)


def _bound(account: str, budget: Budget) -> Bound:
    return Bound(account=account, limits=limits_of(budget), warn_at=budget.warn_at or WARN_AT)


def _cost(price: Price, usage: Usage) -> int:
    return price.microusd(
        fresh=usage.input_tokens,
        output=usage.output_tokens,
        cache_read=usage.cache_read_tokens,
        cache_write=usage.cache_write_tokens,
    )


def _at_most(prompt: int, cached: int, answer: int, price: Price | None) -> Amounts:
    """What a call may cost: what no cache has is written to one."""
    if price is None:
        return Amounts(tokens=prompt + answer)
    cost = price.microusd(cache_read=cached, cache_write=prompt - cached, output=answer)
    return Amounts(tokens=prompt + answer, cost_microusd=cost)


def _answer_that_fits(found: Exceeded, prompt: int, cached: int, answer: int, price: Price | None) -> int:
    """Return the longest answer, shorter than ``answer``, that what is left pays for; below 0 where none is."""
    if found.resource == "tokens":
        return min(found.left - prompt, answer - 1)
    if found.resource != "cost" or price is None or price.output == 0:
        return -1
    left = found.left - _at_most(prompt, cached, 0, price).cost_microusd
    per_token = price.output if price.long is None or prompt <= price.long.above else price.output * price.long.output
    return min(int(left / per_token) - 1, answer - 1)


def _size(request: ModelRequest) -> tuple[int, int]:
    """Count a request's characters, and its pictures."""
    chars = sum(map(len, request.system)) + sum(
        len(tool.name) + len(tool.description) + len(json.dumps(tool.input_schema)) for tool in request.tools
    )
    images = 0
    for message in request.messages:
        words, pictures = _block_sizes(message.content)
        chars, images = chars + words, images + pictures
    return chars, images


def _block_sizes(blocks: Sequence[Block]) -> tuple[int, int]:
    chars = images = 0
    for block in blocks:
        match block["type"]:
            case "text":
                chars += len(block["text"])
            case "image":
                images += 1
            case "tool_use":
                chars += len(block["name"]) + _value_size(block["input"])
            case "tool_result":
                chars += len(block["content"])
            case "thinking":
                chars += _value_size(block["data"])
    return chars, images


def _value_size(value: object) -> int:
    """Count a JSON value's characters, nearly."""
    if isinstance(value, str):
        return len(value) + 3
    if isinstance(value, Mapping):
        return sum(len(str(key)) + 4 + _value_size(inside) for key, inside in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return sum(_value_size(inside) + 1 for inside in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return 5
