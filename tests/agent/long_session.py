"""A long session over HTTP: sixty requests of a person, each with a few tool calls and changes of files.

The model is a script; the server behind it counts what is read from the cache. What it is asked to remember it can only
get from the lines that it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from koda_ray.agent.alone import Agent
from koda_ray.agent.limits import Limits
from koda_ray.agent.loop import LoopOutcome
from koda_ray.agent.runtime import Runtime
from koda_ray.agent.spec import Policy
from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.llm.base import ModelProvider
from koda_ray.state.store import Store
from tests.llm.server import Call, Reply, last_text, reply, system_of

__all__ = ["DECISION", "FILES", "WISH", "LongSession", "cached_share", "is_summary", "sent"]

SYSTEM = "You make animations with Theatre.js. " + "Rules of motion, timing and the page's contract. " * 400
WISH = "By the way, I never want to see green anywhere."
DECISION = "each part has a file of its own"
FILES = 8


class _Write(BaseModel):
    path: str
    text: str


class _Read(BaseModel):
    path: str


@dataclass
class LongSession:
    """Files, tools that work on them, and a model that goes through them."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    summaries: int = 0

    def tools(self) -> list[Tool]:
        async def write(given: _Write, call: ToolCall) -> ToolOutcome:
            self.files[given.path] = given.text
            return ToolOutcome.json({"written": len(given.text)})

        async def read(given: _Read, call: ToolCall) -> ToolOutcome:
            return ToolOutcome(content=self.files.get(given.path, ""))

        def written(given: Mapping[str, Any], result: str) -> Mapping[str, str | None]:
            return {given["path"]: given["text"]}

        def shown(given: Mapping[str, Any], result: str) -> Mapping[str, str | None]:
            return {given["path"]: result}

        return [
            Tool(
                name="write", description="Write a file.", input_model=_Write, effect="idempotent", run=write,
                files=written,
            ),
            Tool(name="read", description="Read a file.", input_model=_Read, effect="pure", run=read, files=shown),
        ]  # fmt: skip

    def agent(self, provider: ModelProvider, store: Store | Path, **limits: Any) -> Agent:
        return Agent(
            "ann",
            self.tools(),
            system=SYSTEM,
            runtime=Runtime(provider=provider, store=store),
            policy=Policy(limits=Limits(**limits)),
        )

    async def say(self, agent: Agent, turn: int) -> LoopOutcome:
        """Have the person ask for something."""
        wish = f" {WISH}" if turn == 2 else ""
        return await agent.run(f"Change {turn}: make part {turn % FILES} faster, and a little bluer than it was.{wish}")

    def respond(self, request: Any) -> Reply:
        """Read a file, write it anew, look at another, and say so; or sum up."""
        if is_summary(request):
            self.summaries += 1
            told = last_text(request)
            green = "never green; " if "green" in told else ""
            agreed = f" Decisions: {DECISION}." if DECISION in told else ""
            return reply(f"Preferences: {green}bluer and faster each time.{agreed}")
        turn = int(last_text(request).split()[1].rstrip(":"))
        done = _since(request, f"Change {turn}:")
        path = f"src/part{turn % FILES}.tsx"
        code = "\n".join(f"export const move{turn}_{n} = ease({n}, {turn});" for n in range(18))
        match len(done):
            case 0:
                return reply("I look at it first.", Call("read", {"path": path}))
            case 1:
                return reply(Call("write", {"path": path, "text": code}))
            case 2:
                others = [Call("read", {"path": f"src/part{(turn + n) % FILES}.tsx"}) for n in (1, 2)]
                return reply(*others)
            case _:
                agreed = f" As agreed, {DECISION}." if turn == 3 else ""
                return reply(f"Part {turn % FILES} is faster and bluer now; move{turn}_0 starts it.{agreed}")


def is_summary(request: Any) -> bool:
    return "what an agent has to remember" in system_of(request)


def cached_share(requests: list[Any]) -> float:
    """Say which part of all prompts was read from the cache, as the server counted it."""
    used = [record.usage for record in requests if record.usage]
    read = sum(usage["cache_read_input_tokens"] for usage in used)
    return read / sum(sum(usage.values()) for usage in used)


def _since(request: Any, words: str) -> list[Any]:
    """List the results that came after the person's words."""
    answers: list[Any] = []
    for message in request["messages"]:
        for block in message["content"]:
            if block["type"] == "text" and block["text"].startswith(words):
                answers = []
            elif block["type"] == "tool_result":
                answers.append(block)
    return answers


def sent(request: Any) -> str:
    """Read all that a request says, as one text."""
    texts = [block.get("text") or block.get("content") or "" for m in request["messages"] for block in m["content"]]
    inputs = [json.dumps(block["input"]) for m in request["messages"] for block in m["content"] if "input" in block]
    return "\n".join([*texts, *inputs]).replace("\\n", "\n")
