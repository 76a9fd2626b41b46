"""A job for an agent with subagents: two of them charge one item each, and the lead says what they found.

The models are functions of the request alone, so that whatever a crash does, an item that was charged twice or not at
all, or a result that was lost or told twice, is the kernel's fault. Outcomes that nobody knows are looked after, as in
`tests.agent.world`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from koda_ray.agent import tool
from koda_ray.agent.toolkit import Tool, ToolCall
from tests.agent.world import World
from tests.llm.server import Answer, Call, Say, reply, results, system_of, texts

__all__ = ["ITEMS", "crew_model", "is_subagent", "spawn", "world_tools"]

ITEMS = ("a", "b")


def world_tools(world: World, tick: Callable[[str], None] = lambda _: None) -> list[Tool]:
    """Make what subagents can do."""

    @tool
    def charge(item: str, call: ToolCall) -> str:
        """Charge."""
        tick("charge begins")
        world.charge(item, call)
        tick("charge done")
        return f"charged {item}"

    @tool(effect="pure")
    def charged(call: ToolCall) -> list[str]:
        """Look."""
        return world.charged(call)

    return [charge, charged]


def is_subagent(request: dict[str, Any]) -> bool:
    return "a subagent" in system_of(request)


def spawn(name: str, task: str, tools: list[str], **more: Any) -> Call:
    return Call("subagent_spawn", {"name": name, "task": task, "tools": tools, **more})


def crew_model(request: dict[str, Any]) -> Answer:
    """Do the next thing."""
    return _worker(request) if is_subagent(request) else _lead(request)


def _lead(request: dict[str, Any]) -> Answer:
    spawned = results(request, "subagent_spawn")
    if not spawned:
        return reply(*(spawn(f"worker {item}", f"Charge {item}.", ["charge", "charged"]) for item in ITEMS))
    assert not any(each["is_error"] for each in spawned), spawned
    ids = [json.loads(each["content"])["subagent_id"] for each in spawned]
    assert len(set(ids)) == len(ITEMS)
    read = results(request, "subagent_result")
    if not read:
        return Call("subagent_result", {"subagent_id": ids[0]})
    first = json.loads(read[0]["content"])
    assert first["status"] == "done", first
    told = [words for words in texts(request) if ids[1] in words]
    if not told:
        return reply("I have asked.")  # and hear of the second when it has ended
    assert len(told) == 1 and not any(ids[0] in words for words in texts(request)), "a result was told twice"
    assert "b is charged" in told[0]
    return reply(f"{first['result']}; b is charged too.")


def _worker(request: dict[str, Any]) -> Answer:
    item = texts(request)[0].removeprefix("Charge ").removesuffix(".")
    done = results(request)
    known = False
    for each in done:
        known = known or (each["name"] == "charge" and not each["is_error"])
        known = known or (each["name"] == "charged" and item in json.loads(each["content"]))
    if known:
        return Say(f"{item} is charged")
    if done and done[-1]["name"] == "charge":
        return Call("charged")
    return Call("charge", {"item": item})
