from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from koda_ray.errors import ModelAuth, ModelOverloaded, ModelStreamBroken
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.anthropic_wire import body
from koda_ray.llm.base import Message, ModelRequest
from koda_ray.llm.retry import RetryPolicy
from tests.llm.conformance import Bench, ProviderConformance, ask, check_stream, collect, script_of, user
from tests.llm.server import ApiError, ModelServer, ScriptedModel, Step, Think, call, reply


@asynccontextmanager
async def over(
    steps: Sequence[Step] | Callable[[Any], Any],
    *,
    key: str = "test-key",
    retry: RetryPolicy | None = None,
    idle_timeout_s: float = 0.5,
    call_timeout_s: float = 60,
) -> AsyncIterator[Bench]:
    with ModelServer(script_of(steps)) as server:
        provider = AnthropicProvider(
            key,
            base_url=server.base_url,
            retry=retry or RetryPolicy(attempts=2, first_wait_s=0.01, max_wait_s=0.05),
            idle_timeout_s=idle_timeout_s,
            call_timeout_s=call_timeout_s,
        )
        try:
            yield Bench(provider, server)
        finally:
            await provider.close()


class TestAnthropic(ProviderConformance):
    @pytest.fixture
    def lab(self) -> Any:
        return over


async def test_retry_after_is_honoured() -> None:
    async with over([ApiError(429, "rate_limit_error", retry_after=0.3), reply("Hello")]) as bench:
        began = time.monotonic()
        await check_stream(bench.provider, ask())
        assert time.monotonic() - began >= 0.3


async def test_retry_after_past_the_bound_gives_up_at_once_and_says_how_long() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    for asked in (600, date):
        policy = RetryPolicy(attempts=5, total_s=5, first_wait_s=0.01)
        async with over(lambda _, a=asked: ApiError(529, "overloaded_error", retry_after=a), retry=policy) as bench:
            with pytest.raises(ModelOverloaded) as raised:
                await collect(bench.provider, ask())
            assert len(bench.server.requests) == 1
        wait_s = raised.value.context["retry_after_s"]
        assert isinstance(wait_s, float) and 590 < wait_s <= 600


async def test_silence_ends_the_stream() -> None:
    script = [reply("Hello", delta_chars=1, pause_s=5)] * 2
    async with over(script, idle_timeout_s=0.1) as bench:
        with pytest.raises(ModelStreamBroken, match=r"0\.1 s"):
            await collect(bench.provider, ask())


async def test_an_answer_that_never_ends_is_ended() -> None:
    async with over([reply("Hello", hang=True)], call_timeout_s=0.3) as bench:
        with pytest.raises(ModelStreamBroken, match=r"0\.3 s"):
            await collect(bench.provider, ask())


async def test_what_is_sent_does_not_depend_on_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = {
        "ANTHROPIC_API_KEY": "shell-key",
        "ANTHROPIC_AUTH_TOKEN": "shell-token",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Api-Key: shell-key\nAuthorization: Bearer shell-token\nX-Team: shell-team",
        "ANTHROPIC_PROFILE": "shell-profile",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/shell",
    }
    async with over([reply("Hello")]) as plain:
        await check_stream(plain.provider, ask())
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    async with over([reply("Hello")]) as bench:
        await check_stream(bench.provider, ask())
        (sent,) = bench.server.requests
    assert set(sent.headers) == set(plain.server.requests[0].headers)
    assert "test-key" in f"{sent.headers.get('x-api-key')} {sent.headers.get('authorization')}"
    assert not [header for header in sent.headers.items() if "shell" in str(header)]


async def test_the_address_is_anthropics_unless_the_settings_name_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(script_of([reply("Hello")])) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        provider = AnthropicProvider("test-key")
        client = await provider._connected()
        assert str(client.base_url).rstrip("/") == "https://api.anthropic.com"
        await provider.close()
    assert server.requests == []


@pytest.mark.parametrize("key", ["", "sk new\nline", "schlüssel"])
def test_a_key_that_cannot_be_one_is_refused_before_any_request(key: str) -> None:
    with pytest.raises(ModelAuth):
        AnthropicProvider(key)


async def test_reasoning_comes_back_unchanged_and_only_to_its_provider() -> None:
    async with over([reply(Think("hm", signature="s1"), "Hello"), reply("again")]) as bench:
        first = await check_stream(bench.provider, ask())
        other = Message(
            role="assistant",
            content=({"type": "thinking", "provider": "other", "data": {"x": 1}}, {"type": "text", "text": "yes"}),
        )
        await check_stream(bench.provider, ask(user("a"), first.message, user("b"), other, user("c")))
        sent = bench.server.requests[1].json["messages"]
    assert sent[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "s1"}
    assert sent[3]["content"] == [{"type": "text", "text": "yes"}]


def _grown(turns: int, state: str) -> ModelRequest:
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(user(f"turn {turn}: " + "some words that take room " * 20))
        if turn < turns - 1:
            messages.append(Message(role="assistant", content=({"type": "text", "text": f"answer {turn} " * 30},)))
    last = messages[-1]
    messages[-1] = Message(role="user", content=(*last.content, {"type": "text", "text": state}))
    return ask(*messages, system=("Stable part. " * 400, "Second part. " * 200), volatile_blocks=1)


async def test_a_growing_conversation_is_read_from_the_cache() -> None:
    async with over(lambda _: reply("ok")) as bench:
        used = [(await check_stream(bench.provider, _grown(n, f"<state>{n}</state>"))).usage for n in range(1, 12)]
    assert used[0].cache_read_tokens == 0
    assert used[0].cache_write_tokens > 1000
    for usage in used[1:]:
        total = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        assert usage.cache_read_tokens > 0.7 * total
        assert usage.input_tokens < 20  # the state alone
    last = used[-1]
    assert last.cache_read_tokens / (last.cache_read_tokens + last.cache_write_tokens + last.input_tokens) > 0.9


def test_breakpoints_stay_within_the_limit_and_before_the_state() -> None:
    made: Any = body(_grown(5, "<state>now</state>"))
    marked = [
        block
        for part in ([made["tools"]], [made["system"]], (m["content"] for m in made["messages"]))
        for blocks in part
        for block in blocks
        if "cache_control" in block
    ]
    assert len(marked) == 4
    assert "cache_control" in made["tools"][-1]
    assert "cache_control" in made["system"][-1]
    assert "cache_control" not in made["messages"][-1]["content"][-1]
    assert "cache_control" in made["messages"][-1]["content"][-2]


def test_the_sdk_is_not_imported_before_the_first_call() -> None:
    code = (
        "import sys; from koda_ray.llm.anthropic import AnthropicProvider; AnthropicProvider('k'); "
        "assert 'anthropic' not in sys.modules and 'tenacity' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def stepwise() -> ScriptedModel:
    return ScriptedModel([call("read", {"path": "a"})])


async def test_the_server_also_runs_as_a_process(tmp_path: Path) -> None:
    address = tmp_path / "address"
    argv = [sys.executable, "-m", "tests.llm.server", "tests.llm.test_anthropic:stepwise", "--port-file", str(address)]
    process = subprocess.Popen(argv, cwd=Path(__file__).parents[2])
    try:
        deadline = time.monotonic() + 30
        while not address.exists():
            assert process.poll() is None and time.monotonic() < deadline
        provider = AnthropicProvider("test-key", base_url=address.read_text())
        done = await check_stream(provider, ask())
        await provider.close()
        assert done.stop_reason == "tool_use"
    finally:
        process.kill()
        process.wait()
