"""A program whose agent goes in circles until it asks its person, and is killed on the way: at every instant, once.

``python -m tests.agent.stuck_victim DATABASE``: see `lives`; prints how many instants there were.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from koda_ray.agent import Agent, Runtime, tool
from koda_ray.llm.base import Block
from tests.agent.lives import Instants, every_instant
from tests.agent.scripted import Given, Provider, calls, says

__all__ = ["ANSWER"]

ANSWER = "Leave that door alone."


@tool(effect="pure")
def knock(door: str) -> str:
    """Knock at a door."""
    raise ValueError(f"nobody opens {door}")


def _model(request: Given) -> Sequence[Block]:
    said = [block.get("text") for message in request["messages"] for block in message["content"]]
    return [says("Done.")] if ANSWER in said else [calls("knock", {"door": "front"})]


def main(url: str) -> None:
    """Kill an agent at each instant that a whole life has."""

    async def live(instants: Instants, name: str) -> None:
        store = instants.store(url)
        await store.open()
        provider = Provider(_model, tick=lambda _: instants.tick())
        async with Agent(name, [knock], runtime=Runtime(provider=provider, store=store), model="m") as agent:
            outcome = await agent.run("Go.", key="go")
            if outcome.kind == "stuck":
                assert not await agent.owes()
                assert await agent.run() == outcome, "it goes on without a person"
                outcome = await agent.run(ANSWER, key="answer")
            assert outcome.text == "Done.", outcome
        await store.close()

    sys.stdout.write(f"{every_instant(live)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
