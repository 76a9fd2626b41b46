"""Another model answers where one cannot: over real servers of two APIs, each with its real SDK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("openai", reason="the extra openai is not installed")

from koda_ray.errors import ModelAuth, ModelError, ModelOverloaded, ModelStreamBroken
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import Completed, ModelEvent, ModelProvider, ModelSwitched, TextDelta
from koda_ray.llm.fallback import FallbackProvider
from koda_ray.llm.openai import OpenAIProvider
from koda_ray.llm.registry import ProviderOf
from koda_ray.llm.retry import RetryPolicy
from koda_ray.model_names import Vendor
from tests.llm.conformance import ask, collect
from tests.llm.openai_server import OpenAIWire
from tests.llm.server import ApiError, ModelServer, ScriptedModel, Step, reply

FIRST, SECOND = "claude-one", "openai:two"
OVERLOADED = ApiError(529, "overloaded_error")
RETRY = RetryPolicy(attempts=1)


@dataclass
class Pair:
    provider: FallbackProvider
    first: ModelServer
    second: ModelServer
    now: float = 1000.0


Script = Sequence[Step] | Callable[[Any], Any]


@asynccontextmanager
async def pair(first: Script, second: Script, **options: Any) -> AsyncIterator[Pair]:
    with ModelServer(ScriptedModel(first)) as one, ModelServer(ScriptedModel(second), wire=OpenAIWire()) as two:

        def opened(vendor: Vendor) -> ModelProvider:
            if vendor == "anthropic":
                return AnthropicProvider("test-key", base_url=one.base_url, retry=RETRY)
            return OpenAIProvider("test-key", base_url=f"{two.base_url}/v1", retry=RETRY)

        models = options.pop("models", [SECOND])
        provider = FallbackProvider(ProviderOf(opened), models, clock=lambda: made.now, **options)
        made = Pair(provider, one, two)
        try:
            yield made
        finally:
            await provider.close()


def said(events: list[ModelEvent]) -> str:
    """Read what a reader has who forgets what is void."""
    text = ""
    for event in events:
        if isinstance(event, ModelSwitched):
            text = ""
        elif isinstance(event, TextDelta):
            text += event.text
    return text


async def test_the_first_model_answers_while_it_can() -> None:
    async with pair([reply("one")], []) as models:
        events = await collect(models.provider, ask(model=FIRST))
    assert isinstance(events[-1], Completed) and events[-1].model == ""
    assert not any(isinstance(event, ModelSwitched) for event in events)


@pytest.mark.parametrize("status", [429, 500, 503, 529])
async def test_overload_goes_on_to_the_next_and_the_caller_hears_of_it(status: int) -> None:
    async with pair([ApiError(status, "overloaded_error")], [reply("two")]) as models:
        events = await collect(models.provider, ask(model=FIRST))
        assert models.second.requests[0].json["model"] == "two"
    assert events[0] == ModelSwitched(failed=FIRST, model=SECOND, code="MODEL_OVERLOADED")
    assert (said(events), events[-1].model if isinstance(events[-1], Completed) else "") == ("two", SECOND)


async def test_a_server_that_is_gone_goes_on_to_the_next() -> None:
    async with pair([], [reply("two")]) as models:
        models.first.close()
        events = await collect(models.provider, ask(model=FIRST))
    assert events[0] == ModelSwitched(failed=FIRST, model=SECOND, code="MODEL_UNREACHABLE")


async def test_an_answer_that_broke_before_its_first_word_goes_on_to_the_next() -> None:
    async with pair([reply("one", break_after=0)], [reply("two")]) as models:
        assert said(await collect(models.provider, ask(model=FIRST))) == "two"


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (ApiError(400, "invalid_request_error", "tools: bad"), ModelError, "MODEL_ERROR"),
        (ApiError(400, "invalid_request_error", "prompt is too long: 9 > 8"), ModelError, "MODEL_CONTEXT_OVERFLOW"),
        (ApiError(404, "not_found_error", "model: one"), ModelError, "MODEL_ERROR"),
        (ApiError(401, "authentication_error", "bad key"), ModelAuth, "MODEL_AUTH"),
    ],
)
async def test_what_another_would_answer_no_better_stays(answer: ApiError, kind: type[ModelError], code: str) -> None:
    async with pair([answer], []) as models:
        with pytest.raises(kind) as raised:
            await collect(models.provider, ask(model=FIRST))
        assert models.second.requests == []
    assert (type(raised.value), raised.value.code) == (kind, code)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ApiError(400, "invalid_request_error", "tools: bad"), "MODEL_ERROR"),
        (ApiError(400, "invalid_request_error", "prompt is too long: 9 > 8"), "MODEL_CONTEXT_OVERFLOW"),
        (ApiError(401, "authentication_error", "bad key"), "MODEL_AUTH"),
    ],
)
async def test_an_error_with_a_list_of_its_own_goes_on_to_that(answer: ApiError, code: str) -> None:
    async with pair([answer, reply("one")], [reply("two")], models={code: [SECOND]}) as models:
        events = await collect(models.provider, ask(model=FIRST))
        assert events[0] == ModelSwitched(failed=FIRST, model=SECOND, code=code)
        assert said(events) == "two"
        if code != "MODEL_AUTH":  # which says nothing about the next request
            assert said(await collect(models.provider, ask(model=FIRST))) == "one"
    assert models.provider.substitutes == [SECOND]


async def test_a_list_is_for_its_own_error_alone() -> None:
    async with pair([OVERLOADED], [], models={"MODEL_CONTEXT_OVERFLOW": [SECOND]}) as models:
        with pytest.raises(ModelOverloaded):
            await collect(models.provider, ask(model=FIRST))
        assert models.second.requests == []


async def test_each_error_on_the_way_leads_to_its_own_list() -> None:
    too_long = OpenAIWire().too_long(9, 8)
    lists = {"MODEL_OVERLOADED": [SECOND], "MODEL_CONTEXT_OVERFLOW": ["claude-long", SECOND]}
    async with pair([OVERLOADED, reply("long")], [too_long], models=lists) as models:
        events = await collect(models.provider, ask(model=FIRST))
        assert [request.json["model"] for request in models.first.requests] == ["claude-one", "claude-long"]
    switches = [event for event in events if isinstance(event, ModelSwitched)]
    assert [(each.failed, each.model, each.code) for each in switches] == [
        (FIRST, SECOND, "MODEL_OVERLOADED"),
        (SECOND, "claude-long", "MODEL_CONTEXT_OVERFLOW"),
    ]
    assert said(events) == "long"


async def test_a_refusal_is_an_answer() -> None:
    async with pair([reply("I can't.", stop_reason="refusal")], []) as models:
        done = (await collect(models.provider, ask(model=FIRST)))[-1]
    assert isinstance(done, Completed) and done.stop_reason == "refusal"


@pytest.mark.parametrize("broken", ["cut", "overloaded_error"])
async def test_words_that_were_read_are_not_said_again_to_who_cannot_forget_them(broken: str) -> None:
    script = [reply("a long beginning of an answer", break_after=1, broken=broken)]
    async with pair(script, []) as models:
        seen: list[ModelEvent] = []
        with pytest.raises((ModelStreamBroken, ModelOverloaded)):
            async for event in models.provider.stream(ask(model=FIRST)):
                seen.append(event)
        assert models.second.requests == []
    assert [type(event) for event in seen] == [TextDelta]


async def test_words_that_were_read_are_void_for_who_can_forget_them() -> None:
    script = [reply("a long beginning of an answer", break_after=1)]
    async with pair(script, [reply("another answer")]) as models:
        events = await collect(models.provider, ask(model=FIRST, discards=True))
    assert isinstance(events[0], TextDelta)
    assert events[1] == ModelSwitched(failed=FIRST, model=SECOND, code="MODEL_STREAM_BROKEN")
    assert said(events) == "another answer"


async def test_a_model_that_was_given_up_rests_and_is_asked_again_later() -> None:
    async with pair([OVERLOADED, reply("one")], lambda _: reply("two"), rest_s=30) as models:
        for _ in range(3):
            events = await collect(models.provider, ask(model=FIRST))
            assert events[0] == ModelSwitched(failed=FIRST, model=SECOND, code="MODEL_OVERLOADED")
        assert len(models.first.requests) == 1
        models.now += 31
        assert said(await collect(models.provider, ask(model=FIRST))) == "one"


async def test_it_rests_as_long_as_it_asked() -> None:
    answer = ApiError(529, "overloaded_error", retry_after=120)
    async with pair([answer, reply("one")], lambda _: reply("two"), rest_s=30) as models:
        await collect(models.provider, ask(model=FIRST))
        models.now += 100
        assert said(await collect(models.provider, ask(model=FIRST))) == "two"
        models.now += 30
        assert said(await collect(models.provider, ask(model=FIRST))) == "one"


async def test_where_all_fail_the_last_says_who_was_tried() -> None:
    async with pair(lambda _: OVERLOADED, lambda _: ApiError(503, "server_error")) as models:
        with pytest.raises(ModelOverloaded) as raised:
            await collect(models.provider, ask(model=FIRST))
        assert raised.value.context["tried"] == f"{FIRST}, {SECOND}"
        # all rest now, and are asked all the same
        with pytest.raises(ModelOverloaded):
            await collect(models.provider, ask(model=FIRST))
        assert (len(models.first.requests), len(models.second.requests)) == (2, 2)


async def test_closing_the_stream_closes_the_other_models_connection() -> None:
    async with pair([OVERLOADED], [reply("Hello", hang=True)]) as models:
        events: Any = models.provider.stream(ask(model=FIRST))
        assert isinstance(await anext(events), ModelSwitched)
        assert isinstance(await anext(events), TextDelta)
        await events.aclose()
        await asyncio.to_thread(models.second.wait_for, lambda: models.second.requests[0].outcome == "reader_left")
