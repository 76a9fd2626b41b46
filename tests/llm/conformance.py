"""What every model provider must do, whoever it talks to.

`check_stream` holds for any provider, scripted or not (the offline director too). `ProviderConformance` is for those
behind a protocol server: a subclass gives the fixture ``lab``, which makes a provider over a script. Its scripts are
the blocks of `tests.llm.server`, whatever the wire.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, ClassVar, Protocol, cast

import pytest
from pydantic import BaseModel

from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.errors import KodaError, ModelAuth, ModelError, ModelOverloaded, ModelStreamBroken
from koda_ray.llm.base import (
    INVALID_INPUT,
    Completed,
    Message,
    ModelEvent,
    ModelProvider,
    ModelRequest,
    TextDelta,
    ToolInputDelta,
    ToolSpec,
    Usage,
)
from koda_ray.llm.retry import RetryPolicy
from tests.llm.server import ApiError, Call, ModelServer, Reply, Say, ScriptedModel, Step, Think, Wire, call, reply

__all__ = ["Lab", "ProviderConformance", "ProviderRig", "ask", "check_stream", "collect", "lab_of", "user"]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

READ = ToolSpec(
    name="read",
    description="Read a file.",
    input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
WRITE = ToolSpec(
    name="write",
    description="Write a file.",
    input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def user(text: str) -> Message:
    return Message(role="user", content=({"type": "text", "text": text},))


def ask(*messages: Message, **options: Any) -> ModelRequest:
    options = {"agent": "orchestrator", "model": "a-model", "system": ("Be brief.",), "tools": (READ, WRITE)} | options
    return ModelRequest(messages=messages or (user("Hello"),), **options)


async def collect(provider: ModelProvider, request: ModelRequest) -> list[ModelEvent]:
    async with aclosing(cast("Any", provider.stream(request))) as events:
        return [event async for event in events]


async def check_stream(provider: ModelProvider, request: ModelRequest) -> Completed:
    """Ask once and check what holds for every answer: deltas, then one whole message that they add up to."""
    events = await collect(provider, request)
    assert isinstance(events[-1], Completed)
    assert not any(isinstance(event, Completed) for event in events[:-1])
    done = events[-1]
    assert done.message.role == "assistant"
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == "".join(block["text"] for block in done.message.content if block["type"] == "text")
    calls = [block for block in done.message.content if block["type"] == "tool_use"]
    assert len({block["id"] for block in calls}) == len(calls)
    for block in calls:
        streamed = "".join(e.partial_json for e in events if isinstance(e, ToolInputDelta) and e.id == block["id"])
        if streamed and INVALID_INPUT not in block["input"]:
            assert json.loads(streamed) == block["input"]
        assert json.loads(json.dumps(block["input"])) == block["input"]
    assert (done.stop_reason == "tool_use") == bool(calls) or done.stop_reason in ("max_tokens", "refusal")
    return done


@dataclass
class ProviderRig:
    """A provider and the server that it talks to."""

    provider: ModelProvider
    server: ModelServer


class Lab(Protocol):
    """Makes a provider over a script; tries twice, waits briefly, gives up on silence after half a second."""

    def __call__(
        self,
        steps: Sequence[Step] | Callable[[Any], Any],
        *,
        key: str = ...,
        retry: RetryPolicy | None = ...,
        idle_timeout_s: float = ...,
        call_timeout_s: float = ...,
    ) -> AbstractAsyncContextManager[ProviderRig]: ...


def lab_of(make: Callable[..., ModelProvider], wire: Callable[[], Wire], *, path: str = "") -> Lab:
    """Build a lab of a provider's class, its API, and the part of the base URL that follows the host."""

    @asynccontextmanager
    async def lab(
        steps: Sequence[Step] | Callable[[Any], Any],
        *,
        key: str = "test-key",
        retry: RetryPolicy | None = None,
        idle_timeout_s: float = 60,
        call_timeout_s: float = 60,
    ) -> AsyncIterator[ProviderRig]:
        with ModelServer(ScriptedModel(steps), wire=wire()) as server:
            provider = make(
                key,
                base_url=server.base_url + path,
                retry=retry or RetryPolicy(attempts=2, first_wait_s=0.01, max_wait_s=0.05),
                idle_timeout_s=idle_timeout_s,
                call_timeout_s=call_timeout_s,
            )
            try:
                yield ProviderRig(provider, server)
            finally:
                await provider.close()

    return lab


class _Read(BaseModel):
    path: str


class ProviderConformance:
    """Subclass it, name it Test..., and give the fixture ``lab`` and what differs between the APIs."""

    too_long: ClassVar[ApiError]
    """How the API refuses a conversation that does not fit."""
    foreign: ClassVar[dict[str, str]]
    """What the SDK would read from the environment, each value with ``shell`` in it."""
    thinks_of: ClassVar[Callable[[Any], list[str]]]
    """Finds the signature or text of each piece of reasoning that a request brought back."""
    signature: ClassVar[str] = "signed"

    async def test_text_streams_and_adds_up(self, lab: Lab) -> None:
        async with lab([reply("Hello from the model, at some length; ünïcode 動画 🎬 too.")]) as rig:
            events = await collect(rig.provider, ask())
            assert sum(isinstance(event, TextDelta) for event in events) > 3
            done = cast("Completed", events[-1])
            assert done.stop_reason == "end_turn"
            assert done.message.content == (
                {"type": "text", "text": "Hello from the model, at some length; ünïcode 動画 🎬 too."},
            )

    async def test_parallel_tool_calls_keep_order_and_inputs(self, lab: Lab) -> None:
        script = [reply("Looking.", Call("read", {"path": "ä/b.tsx"}), Call("read", {"path": "c"}), Call("write"))]
        async with lab(script) as rig:
            done = await check_stream(rig.provider, ask())
        assert done.stop_reason == "tool_use"
        calls = [block for block in done.message.content if block["type"] == "tool_use"]
        assert [(b["name"], b["input"]) for b in calls] == [
            ("read", {"path": "ä/b.tsx"}),
            ("read", {"path": "c"}),
            ("write", {}),
        ]

    async def test_results_go_back_with_the_call(self, lab: Lab) -> None:
        async with lab([call("read", {"path": "a"}), reply("Done.")]) as rig:
            first = await check_stream(rig.provider, ask())
            used = next(block for block in first.message.content if block["type"] == "tool_use")
            answer = Message(
                role="user",
                content=(
                    {"type": "tool_result", "tool_use_id": used["id"], "content": "42", "is_error": False},
                    {"type": "text", "text": "and hurry"},
                ),
            )
            done = await check_stream(rig.provider, ask(user("Hello"), first.message, answer))
        assert done.message.content == ({"type": "text", "text": "Done."},)

    async def test_overload_is_tried_again_before_anything_streamed(self, lab: Lab) -> None:
        script = [ApiError(429, "rate_limit_error", retry_after=0.02), reply("Hello")]
        async with lab(script) as rig:
            done = await check_stream(rig.provider, ask())
            assert len(rig.server.requests) == 2
        assert done.message.content == ({"type": "text", "text": "Hello"},)

    @pytest.mark.parametrize("status", [429, 500, 503, 529])
    async def test_lasting_overload_says_so(self, lab: Lab, status: int) -> None:
        async with lab(lambda _: ApiError(status, "overloaded_error", retry_after=0.01)) as rig:
            with pytest.raises(ModelOverloaded) as raised:
                await collect(rig.provider, ask())
            assert len(rig.server.requests) == 2
        assert raised.value.retryable
        assert raised.value.context["status"] == status
        assert raised.value.context["attempts"] == 2
        assert raised.value.context["retry_after_s"] == 0.01

    async def test_a_server_is_left_alone_as_long_as_it_asks(self, lab: Lab) -> None:
        async with lab([ApiError(429, "rate_limit_error", retry_after=0.3), reply("Hello")]) as rig:
            began = asyncio.get_running_loop().time()
            await check_stream(rig.provider, ask())
            assert asyncio.get_running_loop().time() - began >= 0.3

    async def test_a_wait_past_the_bound_gives_up_at_once_and_says_how_long(self, lab: Lab) -> None:
        def date() -> str:
            return format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)

        for asked in (lambda: 600, date):
            policy = RetryPolicy(attempts=5, total_s=5, first_wait_s=0.01)
            script = [lambda _, a=asked: ApiError(429, "rate_limit_error", retry_after=a())]
            async with lab(script, retry=policy) as rig:
                with pytest.raises(ModelOverloaded) as raised:
                    await collect(rig.provider, ask())
                assert len(rig.server.requests) == 1
            wait_s = raised.value.context["retry_after_s"]
            assert isinstance(wait_s, float) and 500 < wait_s <= 600

    async def test_silence_ends_the_stream(self, lab: Lab) -> None:
        script = [reply("Hello", delta_chars=1, pause_s=5)] * 2
        async with lab(script, idle_timeout_s=0.1) as rig:
            with pytest.raises(ModelStreamBroken, match=r"0\.1 s"):
                await collect(rig.provider, ask())

    async def test_an_answer_that_never_ends_is_ended(self, lab: Lab) -> None:
        async with lab([reply("Hello", hang=True)], call_timeout_s=1.0) as rig:
            with pytest.raises(ModelStreamBroken, match="no end after 1 s"):
                await collect(rig.provider, ask())
            await asyncio.to_thread(rig.server.wait_for, lambda: rig.server.requests[0].outcome == "reader_left")

    async def test_no_server_is_unreachable(self, lab: Lab) -> None:
        async with lab([]) as rig:
            rig.server.close()
            with pytest.raises(ModelOverloaded) as raised:
                await collect(rig.provider, ask())
        assert raised.value.code == "MODEL_UNREACHABLE"

    @pytest.mark.parametrize("broken", ["cut", "end", "api_error"])
    async def test_a_stream_that_breaks_after_output_is_not_tried_again(self, lab: Lab, broken: str) -> None:
        async with lab([reply("Hello there, this is long enough", break_after=1, broken=broken)]) as rig:
            events: list[ModelEvent] = []
            with pytest.raises(ModelStreamBroken) as raised:
                await _into(events, rig.provider.stream(ask()))
            assert len(rig.server.requests) == 1
        assert raised.value.retryable
        assert [type(event) for event in events] == [TextDelta]

    @pytest.mark.parametrize("broken", ["cut", "end"])
    async def test_a_message_without_its_end_is_broken(self, lab: Lab, broken: str) -> None:
        async with lab([reply("short", break_after=1, broken=broken)]) as rig:
            with pytest.raises(ModelStreamBroken):
                await collect(rig.provider, ask())

    async def test_a_stream_that_breaks_before_output_is_tried_again(self, lab: Lab) -> None:
        async with lab([reply("Hello", break_after=0), reply("Hello")]) as rig:
            await check_stream(rig.provider, ask())
            assert len(rig.server.requests) == 2

    async def test_an_overload_in_the_middle_is_an_overload(self, lab: Lab) -> None:
        script = [reply("Hello there, this is long enough", break_after=1, broken="overloaded_error")]
        async with lab(script) as rig:
            with pytest.raises(ModelOverloaded):
                await collect(rig.provider, ask())
            assert len(rig.server.requests) == 1

    async def test_a_tool_input_cut_in_the_middle_is_a_broken_stream(self, lab: Lab) -> None:
        # where a call is told only when it is whole, nothing was told yet, and it is asked for again
        script = [call("read", {"path": "a/very/long/path/indeed.tsx"}, break_after=3)] * 2
        async with lab(script) as rig:
            with pytest.raises(ModelStreamBroken):
                await collect(rig.provider, ask())

    @pytest.mark.parametrize("raw", ['{"path": "a', "[1]", '"a"', '{"path": }', "null"])
    async def test_a_whole_input_that_is_no_object_is_kept_as_its_text(self, lab: Lab, raw: str) -> None:
        async with lab([reply(Call("read", raw=raw))]) as rig:
            done = await check_stream(rig.provider, ask())
        (kept,) = [b["input"] for b in done.message.content if b["type"] == "tool_use"]
        assert set(kept) == {INVALID_INPUT}
        assert raw in str(kept[INVALID_INPUT])

    async def test_an_input_that_is_no_json_goes_back_to_the_model_with_the_path(self, lab: Lab) -> None:
        async def run(given: _Read, call: ToolCall) -> ToolOutcome:
            raise AssertionError("nothing may run")

        tools = Toolkit([Tool(name="read", description="Read.", input_model=_Read, effect="pure", run=run)])
        async with lab([reply(Call("read", raw='{"path": "a')), reply("Sorry.")]) as rig:
            first = await check_stream(rig.provider, ask())
            (used,) = [block for block in first.message.content if block["type"] == "tool_use"]
            outcome = tools.bind(used["name"], used["input"])
            assert isinstance(outcome, ToolOutcome)
            assert outcome.is_error and outcome.retryable
            error = json.loads(outcome.content)["error"]
            assert (error["code"], error["issues"][0]["path"]) == ("INVALID_JSON", "path")
            result = Message(
                role="user",
                content=(
                    {"type": "tool_result", "tool_use_id": used["id"], "content": outcome.content, "is_error": True},
                ),
            )
            await check_stream(rig.provider, ask(user("Hello"), first.message, result))
            sent = rig.server.requests[1].asked["messages"][-1]["content"][0]
        assert "INVALID_JSON" in sent["content"]

    async def test_pictures_go_in(self, lab: Lab) -> None:
        message = Message(
            role="user",
            content=(
                {"type": "text", "text": "What is this?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            ),
        )
        async with lab([reply("A pixel.")]) as rig:
            await check_stream(rig.provider, ask(message))
            (asked,) = rig.server.requests[0].asked["messages"]
        seen = [{k: v for k, v in block.items() if k != "cache_control"} for block in asked["content"]]
        assert seen == list(message.content)

    async def test_instructions_and_tools_arrive_whole_and_in_order(self, lab: Lab) -> None:
        async with lab([reply("ok")]) as rig:
            await check_stream(rig.provider, ask(system=("First.", "Second."), max_tokens=77))
            asked = rig.server.requests[0].asked
        words = "\n\n".join(part["text"] for part in asked["system"])
        assert (words, asked["max_tokens"]) == ("First.\n\nSecond.", 77)
        tools = [{k: v for k, v in tool.items() if k != "cache_control"} for tool in asked["tools"]]
        assert tools == [
            {"name": t.name, "description": t.description, "input_schema": t.input_schema} for t in (READ, WRITE)
        ]

    async def test_reasoning_comes_back_unchanged_and_only_to_its_provider(self, lab: Lab) -> None:
        script = [reply(Think("hm", signature=self.signature), Call("read", {"path": "a"})), reply("again")]
        async with lab(script) as rig:
            first = await check_stream(rig.provider, ask())
            assert "hm" not in "".join(b["text"] for b in first.message.content if b["type"] == "text")
            used = next(block for block in first.message.content if block["type"] == "tool_use")
            foreign = Message(
                role="assistant",
                content=(
                    {"type": "thinking", "provider": "other", "data": {"thought": "not yours"}},
                    {"type": "text", "text": "yes"},
                ),
            )
            result = Message(
                role="user",
                content=({"type": "tool_result", "tool_use_id": used["id"], "content": "1", "is_error": False},),
            )
            stored = json.loads(json.dumps(first.message.content))
            again = Message(role="assistant", content=tuple(stored))
            await check_stream(rig.provider, ask(user("b"), foreign, user("c"), again, result))
            sent = rig.server.requests[1].json
        assert type(self).thinks_of(sent) in (["hm"], [self.signature])
        assert "not yours" not in json.dumps(sent)

    async def test_usage_is_what_the_server_counted_and_a_prefix_is_read_from_its_cache(self, lab: Lab) -> None:
        used: list[Usage] = []
        async with lab(lambda _: reply("ok")) as rig:
            for turns in range(1, 12):
                used.append((await check_stream(rig.provider, grown(turns, f"<state>{turns}</state>"))).usage)
        assert used[0].cache_read_tokens == 0
        assert used[0].input_tokens + used[0].cache_write_tokens > 1000
        assert all(each.output_tokens > 0 for each in used)
        for before, after in itertools.pairwise(used):
            assert after.cache_read_tokens >= before.cache_read_tokens
            assert _prompt(after) > _prompt(before)
        assert used[-1].cache_read_tokens > 0.9 * _prompt(used[-1])

    async def test_the_token_limit_is_told(self, lab: Lab) -> None:
        async with lab([reply("cut", stop_reason="max_tokens")]) as rig:
            assert (await check_stream(rig.provider, ask())).stop_reason == "max_tokens"

    async def test_a_refusal_is_told(self, lab: Lab) -> None:
        async with lab([reply("I can't.", stop_reason="refusal")]) as rig:
            assert (await check_stream(rig.provider, ask())).stop_reason == "refusal"

    async def test_a_wrong_key_is_never_repeated_or_tried_again(self, lab: Lab) -> None:
        key = "sk-secret-0123456789"
        async with lab([], key=key) as rig:
            with pytest.raises(ModelAuth) as raised:
                await collect(rig.provider, ask())
            assert len(rig.server.requests) == 1
        import traceback

        told = "".join(traceback.format_exception(raised.value)) + repr(raised.value.context) + repr(rig.provider)
        assert key not in told

    async def test_a_conversation_that_is_too_long_has_its_own_code(self, lab: Lab) -> None:
        async with lab([self.too_long]) as rig:
            with pytest.raises(ModelError) as raised:
                await collect(rig.provider, ask())
        assert raised.value.code == "MODEL_CONTEXT_OVERFLOW"
        assert not raised.value.retryable

    async def test_an_unknown_model_is_named(self, lab: Lab) -> None:
        async with lab([ApiError(404, "not_found_error", "model: a-model")]) as rig:
            with pytest.raises(ModelError, match="a-model"):
                await collect(rig.provider, ask())

    async def test_closing_the_iterator_closes_the_connection(self, lab: Lab) -> None:
        async with lab([reply("Hello", hang=True)]) as rig:
            events = rig.provider.stream(ask())
            assert isinstance(await anext(events), TextDelta)
            await cast("Any", events).aclose()
            await asyncio.to_thread(rig.server.wait_for, lambda: rig.server.requests[0].outcome == "reader_left")

    async def test_a_reader_that_stops_at_the_message_holds_no_connection(self, lab: Lab) -> None:
        async with lab([reply("Hello"), reply("Hello")]) as rig:
            kept = rig.provider.stream(ask())
            while not isinstance(await anext(kept), Completed):
                pass
            await check_stream(rig.provider, ask())
            assert rig.server.connections == 1
            await cast("Any", kept).aclose()

    async def test_cancelling_the_reader_closes_the_connection(self, lab: Lab) -> None:
        async with lab([reply("Hello", hang=True)]) as rig:
            began = asyncio.Event()

            async def read() -> None:
                async with aclosing(cast("Any", rig.provider.stream(ask()))) as events:
                    async for _ in events:
                        began.set()

            task = asyncio.create_task(read())
            await asyncio.wait_for(began.wait(), 60)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await asyncio.to_thread(rig.server.wait_for, lambda: rig.server.requests[0].outcome == "reader_left")

    async def test_cancelling_before_the_first_word_closes_the_connection(self, lab: Lab) -> None:
        async with lab([reply("Hello", break_after=0, hang=True)]) as rig:
            task = asyncio.create_task(collect(rig.provider, ask()))
            await asyncio.to_thread(rig.server.wait_for, lambda: bool(rig.server.requests))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await asyncio.to_thread(rig.server.wait_for, lambda: rig.server.requests[0].outcome == "reader_left")
            assert len(rig.server.requests) == 1

    async def test_a_slow_stream_is_no_broken_one(self, lab: Lab) -> None:
        script = [reply("many deltas of this", delta_chars=1, pause_s=0.2)]  # longer together than it may be silent
        async with lab(script, idle_timeout_s=2) as rig:
            await check_stream(rig.provider, ask())

    async def test_close_twice_and_go_on(self, lab: Lab) -> None:
        async with lab([reply("one"), reply("two")]) as rig:
            await check_stream(rig.provider, ask())
            await rig.provider.close()
            await rig.provider.close()
            await check_stream(rig.provider, ask())

    async def test_many_at_once_do_not_mix(self, lab: Lab) -> None:
        def echo(request: Any) -> Reply:
            return reply(Say(request["messages"][-1]["content"][-1]["text"] * 20), pause_s=0.001)

        async with lab(echo) as rig:
            done = await asyncio.gather(*(check_stream(rig.provider, ask(user(f"<{n}>"))) for n in range(8)))
        assert [d.message.content[0] for d in done] == [{"type": "text", "text": f"<{n}>" * 20} for n in range(8)]

    async def test_what_is_sent_does_not_depend_on_the_shell(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        async with lab([reply("Hello")]) as plain:
            await check_stream(plain.provider, ask())
        for name, value in self.foreign.items():
            monkeypatch.setenv(name, value)
        async with lab([reply("Hello")]) as rig:
            await check_stream(rig.provider, ask())
            (sent,) = rig.server.requests
        assert set(sent.headers) == set(plain.server.requests[0].headers)
        assert not [header for header in sent.headers.items() if "shell" in str(header)]
        assert "shell" not in sent.path

    async def test_errors_survive_pickle(self, lab: Lab) -> None:
        async with lab([ApiError(400, "invalid_request_error", "bad")]) as rig:
            with pytest.raises(ModelError) as raised:
                await collect(rig.provider, ask())
        copy = cast("KodaError", pickle.loads(pickle.dumps(raised.value)))
        assert (type(copy), copy.code, copy.context) == (ModelError, "MODEL_ERROR", raised.value.context)


async def _into(events: list[ModelEvent], stream: AsyncIterator[ModelEvent]) -> None:
    async with aclosing(cast("Any", stream)) as reading:
        async for event in reading:
            events.append(event)


def _prompt(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def grown(turns: int, state: str) -> ModelRequest:
    """Make a conversation of so many turns; the present state stands at its end."""
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(user(f"turn {turn}: " + "some words that take room " * 20))
        if turn < turns - 1:
            messages.append(Message(role="assistant", content=({"type": "text", "text": f"answer {turn} " * 30},)))
    last = messages[-1]
    messages[-1] = Message(role="user", content=(*last.content, {"type": "text", "text": state}))
    return ask(*messages, system=("Stable part. " * 400, "Second part. " * 200), volatile_blocks=1)
