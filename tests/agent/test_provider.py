"""The loop with the real provider: over HTTP, with the API's own strictness, cache and errors."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from koda_ray.agent.loop import AgentLoop, Limits
from koda_ray.agent.spec import ModelAccess, Policy, Prompt
from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.errors import ModelOverloaded
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.retry import RetryPolicy
from tests.agent.journals import ME, Disk, MemoryJournal
from tests.llm.server import ApiError, Call, ModelServer, Reply, ScriptedModel, call, last_text, reply, results


class Written(BaseModel):
    path: str
    content: str = ""


async def write(given: Written, request: ToolCall) -> ToolOutcome:
    return ToolOutcome.json({"path": given.path, "bytes": len(given.content)})


def over(server: ModelServer, disk: Disk, **options: Any) -> tuple[AgentLoop, AnthropicProvider]:
    provider = AnthropicProvider(
        "test-key", base_url=server.base_url, retry=RetryPolicy(attempts=3, first_wait_s=0.01, max_wait_s=0.02)
    )
    tool = Tool(name="write", description="Write.", input_model=Written, effect="idempotent", run=write)
    loop = AgentLoop(
        ME,
        access=ModelAccess(
            provider=provider,
            model="claude-sonnet-5-5",
            prompt=Prompt(system=("You make animations. " * 600, "Tools are described below. " * 100), **options),
        ),
        toolkit=Toolkit([tool]),
        journal=MemoryJournal(disk),
        policy=Policy(limits=Limits(first_wait_s=0.001)),
    )
    return loop, provider


async def test_everything_that_goes_wrong_with_a_model_ends_well() -> None:
    broken = call("write", {"path": "src/App.tsx", "content": "x" * 200}, break_after=4)
    script = [
        ApiError(429, "rate_limit_error", retry_after=0.01),
        ApiError(529, "overloaded_error"),
        broken,
        reply("Let me", break_after=1, broken="overloaded_error"),
        reply(Call("write", raw='{"path": "src/App.tsx", "content": ')),
        lambda request: call("write", {"path": "src/App.tsx"}) if "INVALID_JSON" in str(results(request)) else "no",
        reply("Written."),
    ]
    disk = Disk()
    with ModelServer(ScriptedModel(script)) as server:
        loop, provider = over(server, disk)
        await loop.add_user("Go")
        assert (await loop.run()).text == "Written."
        await provider.close()
        assert len(server.requests) == 7
    assert [event.type for event in disk.events].count("model_retry") == 2
    assert [(record.status, record.attempt) for record in disk.calls.values()] == [("failed", 0), ("succeeded", 1)]


async def test_a_model_that_stays_overloaded_is_an_error_and_the_work_goes_on_later() -> None:
    disk = Disk()
    with ModelServer(ScriptedModel([ApiError(529, "overloaded_error")] * 3 + [reply("Back.")])) as server:
        loop, provider = over(server, disk)
        await loop.add_user("Go")
        with pytest.raises(ModelOverloaded):
            await loop.run()
        assert (await loop.run()).text == "Back."
        await provider.close()


@pytest.mark.full
async def test_a_long_session_reads_nine_tenths_of_its_prompts_from_the_cache() -> None:
    def model(request: Any) -> Reply:
        turn = int(last_text(request).split()[1])
        if turn % 5 == 4:
            return reply(f"Answer {turn}. " * 5)
        return call("write", {"path": f"src/{turn}.tsx", "content": f"const a = {turn}\n" * 40})

    turns = 0

    def state() -> str:
        nonlocal turns
        turns += 1
        return f"<state> {turns} files </state>"

    disk = Disk()
    with ModelServer(ScriptedModel(model)) as server:
        loop, provider = over(server, disk, context=state)
        for request in range(12):
            await loop.add_user(f"Change {request}: make it faster and bluer")
            assert (await loop.run()).kind == "end_turn"
        await provider.close()
        used = [record.usage for record in server.requests]
    assert len(used) >= 50
    read = sum(usage["cache_read_input_tokens"] for usage in used)
    total = read + sum(usage["cache_creation_input_tokens"] + usage["input_tokens"] for usage in used)
    assert read / total > 0.9, f"{read / total:.3f} of {total} tokens"
    told = [event.data for event in disk.events if event.type == "usage"]
    assert [usage["cacheReadTokens"] for usage in told] == [usage["cache_read_input_tokens"] for usage in used]
