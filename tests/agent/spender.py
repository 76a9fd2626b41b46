"""A program whose agent has little to spend, asks for more, and is killed on the way: at every instant, once.

``python -m tests.agent.spender DATABASE``: see `lives`; prints how many instants there were.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from koda_ray.agent import Agent, Policy, Runtime, tool
from koda_ray.agent.limits import Limits
from koda_ray.budgets import with_limit
from koda_ray.errors import ModelStreamBroken
from koda_ray.llm.base import Block
from koda_ray.prices import Price
from koda_ray.types import Budget
from tests.agent.lives import Instants, every_instant
from tests.agent.scripted import Given, Provider, calls, says
from tests.llm.server import results

__all__ = ["ANSWERS", "COST_MICROUSD", "TOKENS"]

ANSWERS = 5
TOKENS = 15
COST_MICROUSD = 20_000


@tool(effect="idempotent")
async def touch(number: int) -> str:
    """Do nothing."""
    return str(number)


class _BrokenOnce(Provider):
    """Calls four times, then says a word; in each life the third answer breaks off once."""

    def __init__(self, instants: Instants) -> None:
        super().__init__(self._answer, tick=lambda _: instants.tick())
        self._broke = False

    def _answer(self, request: Given) -> Sequence[Block]:
        done = len(results(request))
        if done == 2 and not self._broke:
            self._broke = True
            raise ModelStreamBroken("cut off")
        return [calls("touch", {"number": done})] if done < ANSWERS - 1 else [says("Done.")]


def main(url: str) -> None:
    """Kill an agent at each instant that a whole life has."""

    async def live(instants: Instants, name: str) -> None:
        store = instants.store(url)
        await store.open()
        async with Agent(
            name,
            [touch],
            runtime=Runtime(
                provider=_BrokenOnce(instants),
                store=store,
                budget=Budget(tokens=200, cost_usd=0.1),
                prices={"m": Price(input=1000, output=2000)},
            ),
            model="m",
            policy=Policy(limits=Limits(max_tokens=10, first_wait_s=0.001)),
        ) as agent:
            outcome = await agent.run("Go.", key="go")
            while (found := outcome.exceeded) is not None:
                outcome = await agent.extend(with_limit(Budget(), found.resource, found.limit + found.wanted))
            assert outcome.text == "Done.", outcome
        await store.close()

    sys.stdout.write(f"{every_instant(live)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
