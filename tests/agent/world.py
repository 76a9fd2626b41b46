"""A job with every kind of tool, a model that does it from what it can see, and an outside world that counts.

The job: charge a and b (unsafe), put x and y (idempotent, beside each other), look (pure), ask a person, say done. The
model is a function of the request alone: where a charge was interrupted it looks first, and charges again only what is
missing. So whatever a crash does, any charge made twice or not at all is the kernel's fault.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pydantic import BaseModel

from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.llm.base import Block
from tests.agent.scripted import Given, calls, says
from tests.llm.server import results

__all__ = ["PUTS", "MemoryWorld", "World", "job", "outstanding", "toolkit"]

PUTS = ("x", "y")
"""What the job puts, each once."""


class World(Protocol):
    """Where effects land."""

    def charge(self, item: str, call: ToolCall) -> None: ...
    def put(self, item: str, call: ToolCall) -> None: ...
    def charged(self, call: ToolCall) -> list[str]: ...


class MemoryWorld:
    """Effects in this process."""

    def __init__(self) -> None:
        self.charges: list[str] = []
        self.puts: set[str] = set()

    def charge(self, item: str, call: ToolCall) -> None:
        self.charges.append(item)

    def put(self, item: str, call: ToolCall) -> None:
        self.puts.add(f"{item}:{call.id}")

    def charged(self, call: ToolCall) -> list[str]:
        return list(self.charges)


class Item(BaseModel):
    item: str


class Nothing(BaseModel):
    pass


def toolkit(world: World, tick: Callable[[str], None] = lambda _: None) -> Toolkit:
    async def charge(given: Item, call: ToolCall) -> ToolOutcome:
        tick("charge begins")
        world.charge(given.item, call)
        tick("charge done")
        return ToolOutcome.json({"charged": given.item})

    async def put(given: Item, call: ToolCall) -> ToolOutcome:
        tick("put begins")
        await asyncio.sleep(0)  # the calls beside it begin
        world.put(given.item, call)
        tick("put done")
        return ToolOutcome.json({"put": given.item})

    async def look(given: Nothing, call: ToolCall) -> ToolOutcome:
        tick("look")
        return ToolOutcome.json({"charged": world.charged(call)})

    async def ask(given: Nothing, call: ToolCall) -> ToolOutcome:
        tick("ask")
        return ToolOutcome(content="", suspend=True)

    return Toolkit(
        [
            Tool(name="charge", description="Charge.", input_model=Item, effect="unsafe", run=charge),
            Tool(
                name="put",
                description="Put.",
                input_model=Item,
                effect="idempotent",
                run=put,
                keys=lambda given: [given.item],
            ),
            Tool(
                name="look",
                description="Look.",
                input_model=Nothing,
                effect="pure",
                run=look,
                keys=lambda _: ["charges"],
            ),
            Tool(name="ask", description="Ask.", input_model=Nothing, effect="idempotent", run=ask, asks=True),
        ]
    )


def job(request: Given) -> Sequence[Block]:
    """Do the next thing."""
    done = results(request)
    if not done:
        return [
            says("Beginning."),
            calls("charge", {"item": "a"}),
            *(calls("put", {"item": item}) for item in PUTS),
            calls("look"),
            calls("look"),
            calls("nonsense"),
        ]
    missing = outstanding(done, "a")
    if missing is not None:
        return missing
    if not any(each["name"] == "ask" for each in done):
        return [calls("ask")]
    if not any(each["name"] == "charge" and each["input"] == {"item": "b"} for each in done):
        return [calls("charge", {"item": "b"}), calls("look")]
    return outstanding(done, "b") or [says("Done.")]


def outstanding(done: list[Any], item: str, *, charged: str | None = None) -> Sequence[Block] | None:
    """What to do about a charge that nobody knows about: look, and then charge again if it is not there.

    Args:
        done: The results so far.
        item: What was sent.
        charged: What is charged for it, where that is something else.
    """
    known: bool | None = None
    for each in done:
        if each["name"] == "charge" and each["input"] == {"item": item}:
            known = True if not each["is_error"] else None
        elif each["name"] == "look" and known is None and not each["is_error"]:
            known = (charged or item) in json.loads(each["content"])["charged"]
    # a look counts only when it came after the interrupted charge
    last = max(i for i, each in enumerate(done) if each["name"] == "charge" and each["input"] == {"item": item})
    if known is None or (done[last]["is_error"] and not any(e["name"] == "look" for e in done[last + 1 :])):
        return [calls("look")]
    return None if known else [calls("charge", {"item": item})]
