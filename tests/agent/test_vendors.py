"""The loop with each real SDK, and with one that takes over from another: histories that every API takes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from pydantic import BaseModel

pytest.importorskip("openai", reason="the extra openai is not installed")
pytest.importorskip("google.genai", reason="the extra gemini is not installed")

from koda_ray.agent.answer import LoopEvent
from koda_ray.agent.loop import AgentLoop, Limits
from koda_ray.agent.spec import ModelAccess, Observers, Policy, Prompt
from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import ModelProvider, ModelSwitched
from koda_ray.llm.fallback import FallbackProvider
from koda_ray.llm.gemini import GeminiProvider
from koda_ray.llm.openai import OpenAIProvider
from koda_ray.llm.registry import ProviderOf
from koda_ray.llm.retry import RetryPolicy
from koda_ray.model_names import Vendor
from tests.agent.journals import ME, Disk, MemoryJournal
from tests.llm.gemini_server import GeminiWire
from tests.llm.openai_server import OpenAIWire
from tests.llm.server import ApiError, Call, MessagesWire, ModelServer, ScriptedModel, Think, Wire, call, reply, results

APIS: dict[Vendor, tuple[Callable[..., ModelProvider], Callable[[], Wire], str, str]] = {
    "anthropic": (AnthropicProvider, MessagesWire, "", "claude-one"),
    "openai": (OpenAIProvider, OpenAIWire, "/v1", "gpt-one"),
    "gemini": (GeminiProvider, GeminiWire, "", "gemini-3-one"),
}


class Written(BaseModel):
    path: str
    content: str = ""


async def write(given: Written, request: ToolCall) -> ToolOutcome:
    return ToolOutcome.json({"path": given.path})


def provider_of(vendor: Vendor, server: ModelServer, attempts: int = 3) -> ModelProvider:
    make, _, path, _ = APIS[vendor]
    retry = RetryPolicy(attempts=attempts, first_wait_s=0.01, max_wait_s=0.02)
    return make("test-key", base_url=server.base_url + path, retry=retry)


def served(vendor: Vendor, script: Any) -> ModelServer:
    return ModelServer(ScriptedModel(script), wire=APIS[vendor][1]())


def loop_over(provider: ModelProvider, model: str, disk: Disk, seen: list[LoopEvent] | None = None) -> AgentLoop:
    async def see(event: LoopEvent) -> None:
        if seen is not None:
            seen.append(event)

    tool = Tool(name="write", description="Write.", input_model=Written, effect="idempotent", run=write)
    return AgentLoop(
        ME,
        access=ModelAccess(
            provider=provider,
            model=model,
            prompt=Prompt(system=("You make animations.",), context=lambda: "<state>now</state>"),
        ),
        toolkit=Toolkit([tool]),
        journal=MemoryJournal(disk),
        policy=Policy(limits=Limits(first_wait_s=0.001)),
        observers=Observers(on_event=see),
    )


@pytest.mark.parametrize("vendor", list(APIS))
async def test_everything_that_goes_wrong_with_a_model_ends_well(vendor: Vendor) -> None:
    script = [
        ApiError(429, "rate_limit_error", retry_after=0.01),
        call("write", {"path": "src/App.tsx", "content": "x" * 400}, break_after=4),
        reply("Let me see to that", break_after=1, broken="overloaded_error"),
        reply(Think("hm", signature="s1"), Call("write", raw='{"path": "src/App.tsx", "content": ')),
        lambda request: (
            reply(Think("so", signature="s2"), Call("write", {"path": "a"}), Call("write", {"path": "b"}))
            if "INVALID_JSON" in str(results(request)) and "content" in str(results(request))
            else "no"
        ),
        lambda request: reply(f"Written {len(results(request))}."),
        reply("And again."),
    ]
    disk = Disk()
    with served(vendor, script) as server:
        provider = provider_of(vendor, server)
        loop = loop_over(provider, APIS[vendor][3], disk)
        await loop.add_user("Make a ball")
        outcome = await loop.run()
        await loop.add_user("And another")
        again = await loop.run()
        await provider.close()
    assert (outcome.text, again.text) == ("Written 3.", "And again.")
    assert sorted(record.status for record in disk.calls.values()) == ["failed", "succeeded", "succeeded"]


@pytest.mark.parametrize(("first", "second"), list(permutations(APIS, 2)))
async def test_a_session_goes_on_with_another_model_and_says_so(first: Vendor, second: Vendor) -> None:
    begins = [
        reply(Think("hm", signature="s1"), Call("write", {"path": "a"})),
        reply("I was about to say a good deal", break_after=1),
    ]
    disk, seen = Disk(), list[LoopEvent]()
    with served(first, begins) as one, served(second, [call("write", {"path": "b"}), reply("Done.")]) as two:
        servers = {first: one, second: two}
        models = ProviderOf(lambda vendor: provider_of(vendor, servers[vendor], attempts=1))
        provider = FallbackProvider(models, [APIS[second][3]])
        loop = loop_over(provider, APIS[first][3], disk, seen)
        await loop.add_user("Go")
        outcome = await loop.run()
        await provider.close()
        assert [len(server.requests) for server in (one, two)] == [2, 2]
    assert outcome.text == "Done."
    switch = ModelSwitched(failed=APIS[first][3], model=APIS[second][3], code="MODEL_STREAM_BROKEN")
    assert [event for event in seen if isinstance(event, ModelSwitched)] == [switch, switch]
    assert [event.data["model"] for event in disk.events if event.type == "usage"] == [
        APIS[first][3],
        APIS[second][3],
        APIS[second][3],
    ]
    assert "about to say" not in str([record.content for record in disk.history()])
    assert [record.status for record in disk.calls.values()] == ["succeeded", "succeeded"]
