from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from koda_ray.errors import ModelAuth
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.anthropic_wire import body
from koda_ray.llm.base import CountsTokens, ModelRequest
from tests.llm.conformance import ProviderConformance, ask, check_stream, grown, lab_of
from tests.llm.prompts import PromptCache, complaint_about
from tests.llm.server import ApiError, MessagesWire, ModelServer, ScriptedModel, call, reply

over = lab_of(AnthropicProvider, MessagesWire)


class TestAnthropic(ProviderConformance):
    too_long = ApiError(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
    foreign: ClassVar = {
        "ANTHROPIC_API_KEY": "shell-key",
        "ANTHROPIC_AUTH_TOKEN": "shell-token",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Api-Key: shell-key\nAuthorization: Bearer shell-token\nX-Team: shell-team",
        "ANTHROPIC_PROFILE": "shell-profile",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/shell",
    }

    @staticmethod
    def thinks_of(request: Any) -> list[str]:
        return [b["signature"] for m in request["messages"] for b in m["content"] if b["type"] == "thinking"]

    @pytest.fixture
    def lab(self) -> Any:
        return over


async def test_the_address_is_anthropics_unless_the_settings_name_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(ScriptedModel([reply("Hello")])) as server:
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


async def test_a_growing_conversation_is_read_from_the_cache() -> None:
    async with over(lambda _: reply("ok")) as lab:
        used = [(await check_stream(lab.provider, grown(n, f"<state>{n}</state>"))).usage for n in range(1, 12)]
    assert used[0].cache_read_tokens == 0
    assert used[0].cache_write_tokens > 1000
    for usage in used[1:]:
        total = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        assert usage.cache_read_tokens > 0.7 * total
        assert usage.input_tokens < 20  # the state alone
    last = used[-1]
    assert last.cache_read_tokens / (last.cache_read_tokens + last.cache_write_tokens + last.input_tokens) > 0.9


def marked(request: ModelRequest) -> list[tuple[str, int]]:
    made: Any = body(request)
    parts = {"tools": made["tools"], "system": made.get("system", [])}
    parts |= {f"message {n}": message["content"] for n, message in enumerate(made["messages"])}
    return [(name, n) for name, blocks in parts.items() for n, block in enumerate(blocks) if "cache_control" in block]


def test_breakpoints_stay_within_the_limit_and_before_the_state() -> None:
    request = grown(5, "<state>now</state>")
    newest = [("message 6", 0), ("message 8", 0)]
    assert marked(request) == [("system", 0), ("system", 1), *newest]
    first = replace(request.messages[0], content=(request.messages[0].content[0],) * 3)
    settled = replace(request, messages=(first, *request.messages[1:]), settled_blocks=2)
    assert marked(settled) == [("system", 0), ("message 0", 1), *newest]
    assert marked(replace(request, system=()))[0] == ("tools", 1)
    assert len(body(request)["messages"][-1]["content"]) == 2  # the state is the second


@pytest.mark.parametrize("model", ["claude-sonnet-5-5", "claude-opus-4-5"])
def test_the_servers_cache_keeps_the_apis_rules(model: str) -> None:
    clock, mark = [0.0], {"cache_control": {"type": "ephemeral"}}
    cache = PromptCache(lambda: clock[0])
    least = 1024 if "sonnet" in model else 4096

    def used(*blocks: tuple[int, bool]) -> tuple[int, int, int]:
        content = [
            {"type": "text", "text": f"{n:4}" * size, **(mark if m else {})} for n, (size, m) in enumerate(blocks)
        ]
        counted = cache.count({"model": model, "messages": [{"role": "user", "content": content}]})
        return tuple(n // 100 * 100 for n in counted.values())  # type: ignore[return-value]

    big = least + 320
    assert used((least - 100, True), (100, False))[:2] == (0, 0)  # too short to be kept
    assert used((big, True), (1000, False)) == (0, big // 100 * 100, 1000)
    assert used((big, True), (1000, False)) == (big // 100 * 100, 0, 1000)
    assert used((big, False), (1000, True))[0] == big // 100 * 100  # an entry before the mark
    assert used((big, False), (1100, False), *[(20, False)] * 18, (20, True))[0] == 0  # the entry is 20 blocks back
    assert used((big, False), (1200, False), *[(20, False)] * 17, (20, True))[0] == big // 100 * 100
    clock[0] += 250
    assert used((big, True))[0] == big // 100 * 100
    clock[0] += 250  # five minutes since it was made, not since it was used
    assert used((big, True))[0] == big // 100 * 100
    clock[0] += 301
    assert used((big, True))[0] == 0
    marked = [{"type": "text", "text": "a", **mark}] * 5
    asked = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": marked}]}
    assert "maximum of 4" in str(complaint_about(asked))


async def test_tokens_are_counted_by_the_endpoint_for_it() -> None:
    async with over([reply("ok")]) as lab:
        request = grown(3, "<state></state>")
        assert isinstance(lab.provider, CountsTokens)
        counted = await lab.provider.count(request)
        used = (await check_stream(lab.provider, request)).usage
        assert counted == used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
        assert (lab.server.counted, len(lab.server.requests)) == (1, 1)


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
        deadline = time.monotonic() + 60
        while not address.exists():
            assert process.poll() is None and time.monotonic() < deadline
        provider = AnthropicProvider("test-key", base_url=address.read_text())
        done = await check_stream(provider, ask())
        await provider.close()
        assert done.stop_reason == "tool_use"
    finally:
        process.kill()
        process.wait()
