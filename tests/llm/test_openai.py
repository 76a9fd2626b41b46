from __future__ import annotations

import subprocess
import sys
from typing import Any, ClassVar

import pytest

pytest.importorskip("openai", reason="the extra openai is not installed")

from openai.types.chat import ChatCompletionChunk

from koda_ray.errors import ModelAuth, ModelError, ModelStreamBroken
from koda_ray.llm.base import Message
from koda_ray.llm.openai import OpenAIProvider
from koda_ray.llm.openai_wire import OpenAIAssembler, body
from tests.llm.conformance import ProviderConformance, ask, check_stream, collect, lab_of, user
from tests.llm.openai_server import OpenAIWire
from tests.llm.server import ApiError, Call, ModelServer, Reply, ScriptedModel, Think, reply

over = lab_of(OpenAIProvider, OpenAIWire, path="/v1")


class TestOpenAI(ProviderConformance):
    too_long = ApiError(400, "context_length_exceeded", "Your input exceeds the context window of this model.")
    foreign: ClassVar = {
        "OPENAI_API_KEY": "shell-key",
        "OPENAI_ADMIN_KEY": "shell-admin",
        "OPENAI_ORG_ID": "shell-org",
        "OPENAI_PROJECT_ID": "shell-project",
        "OPENAI_WEBHOOK_SECRET": "shell-secret",
        "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer shell-token\nX-Team: shell-team",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/shell",
    }

    @staticmethod
    def thinks_of(request: Any) -> list[str]:
        said = [m.get("reasoning_content") for m in request["messages"]]
        return [each for each in said if each]

    @pytest.fixture
    def lab(self) -> Any:
        return over


@pytest.mark.full
class TestServerWithTheOtherNameForReasoning(TestOpenAI):
    @staticmethod
    def thinks_of(request: Any) -> list[str]:
        said = [m.get("reasoning") for m in request["messages"]]
        return [each for each in said if each]

    @pytest.fixture
    def lab(self) -> Any:
        return lab_of(OpenAIProvider, lambda: OpenAIWire(reasoning="reasoning"), path="/v1")


async def test_a_server_of_ones_own_needs_no_key_and_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "shell-key")
    with ModelServer(ScriptedModel([reply("Hello")]), api_key="none", wire=OpenAIWire()) as server:
        provider = OpenAIProvider(None, base_url=f"{server.base_url}/v1")
        await check_stream(provider, ask())
        await provider.close()
    assert server.requests[0].headers["authorization"] == "Bearer none"


async def test_a_model_of_ones_own_that_takes_no_pictures_is_told_that_there_was_one() -> None:
    png = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    asked = ask(Message(role="user", content=({"type": "text", "text": "This"}, {"type": "image", "source": png})))  # type: ignore[typeddict-item]
    script = [
        ApiError(400, "invalid_request_error"),
        reply("One"),
        reply("Two"),
        ApiError(400, "invalid_request_error"),
    ]
    with ModelServer(ScriptedModel(script), api_key="none", wire=OpenAIWire()) as server:
        provider = OpenAIProvider(None, base_url=f"{server.base_url}/v1")
        for _ in range(2):
            await check_stream(provider, asked)
        with pytest.raises(ModelError):  # it is something else
            await check_stream(provider, asked)
        await provider.close()
        told = [each.asked["messages"][-1]["content"] for each in server.requests]
    assert [[block["type"] for block in content] for content in told] == [["text", "image"]] + [["text"]] * 3
    assert "cannot see" in told[1][0]["text"]


@pytest.mark.parametrize("key", [None, "", "sk new\nline", "schlüssel"])
def test_openai_itself_is_not_asked_without_a_key_that_can_be_one(key: str | None) -> None:
    with pytest.raises(ModelAuth, match="OPENAI_API_KEY"):
        OpenAIProvider(key)


async def test_the_address_is_openais_unless_the_settings_name_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/shell")
    provider = OpenAIProvider("test-key")
    client = await provider._connected()
    assert str(client.base_url).rstrip("/") == "https://api.openai.com/v1"
    await provider.close()


def test_the_token_limit_has_the_name_that_its_reader_knows() -> None:
    own: Any = body(ask(max_tokens=900), original=True)
    others: Any = body(ask(max_tokens=900), original=False, max_tokens=500)
    assert (own["max_completion_tokens"], "max_tokens" in own) == (900, False)
    assert (others["max_tokens"], "max_completion_tokens" in others) == (500, False)


async def test_no_credit_is_not_tried_again() -> None:
    said = "You exceeded your current quota, please check your plan and billing details."
    async with over([ApiError(429, "insufficient_quota", said)]) as lab:
        with pytest.raises(ModelAuth, match="quota"):
            await collect(lab.provider, ask())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.", "CONTEXT_OVERFLOW"),
        ("request (9000 tokens) exceeds the available context size (8192 tokens)", "CONTEXT_OVERFLOW"),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 "
            "tokens and your request has 40 input tokens",
            "ERROR",
        ),
    ],
)
async def test_other_servers_words_for_a_conversation_that_does_not_fit(said: str, code: str) -> None:
    async with over([ApiError(400, "BadRequestError", said)]) as lab:
        with pytest.raises(ModelError) as raised:
            await collect(lab.provider, ask())
    assert raised.value.code == f"MODEL_{code}"


async def test_reasoning_of_an_earlier_turn_and_of_another_model_stays_here() -> None:
    async with over([reply(Think("hm"), "Hello"), reply("again"), reply("other")]) as lab:
        first = await check_stream(lab.provider, ask())
        await check_stream(lab.provider, ask(user("Hello"), first.message, user("and now")))
        called = Message(
            role="assistant",
            content=(*first.message.content[:1], {"type": "tool_use", "id": "c1", "name": "read", "input": {}}),
        )
        result = Message(
            role="user", content=({"type": "tool_result", "tool_use_id": "c1", "content": "1", "is_error": False},)
        )
        await check_stream(lab.provider, ask(user("Hello"), called, result, model="another"))
    assert [TestOpenAI.thinks_of(sent.json) for sent in lab.server.requests] == [[], [], []]


def _fed(*deltas: dict[str, Any], finish: str = "stop") -> Any:
    assembler = OpenAIAssembler("m")
    choices = [{"delta": delta, "finish_reason": None} for delta in deltas] + [{"delta": {}, "finish_reason": finish}]
    events = [
        event
        for choice in choices
        for event in assembler.feed(ChatCompletionChunk.construct(choices=[_lenient(choice)], usage=None))
    ]
    return events, assembler.completed()


def _lenient(choice: dict[str, Any]) -> Any:
    from openai._models import construct_type
    from openai.types.chat.chat_completion_chunk import Choice

    return construct_type(type_=Choice, value=choice)


@pytest.mark.parametrize("index", [0, None])
def test_calls_that_share_an_index_or_have_none_are_told_apart_by_id(index: int | None) -> None:
    place = {} if index is None else {"index": index}
    deltas = [
        {"tool_calls": [{**place, "id": id_, "function": {"name": "read", "arguments": text}}]}
        for id_, text in (("a", '{"path": "1"}'), ("b", '{"path": "2"}'))
    ]
    events, done = _fed(*deltas)
    assert [(b["id"], b["input"]) for b in done.message.content] == [("a", {"path": "1"}), ("b", {"path": "2"})]
    assert [event.id for event in events] == ["a", "b"]
    assert done.stop_reason == "tool_use"


def test_a_message_of_calls_that_stopped_is_one_of_calls_and_a_refusal_is_one() -> None:
    _, called = _fed({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "write", "arguments": ""}}]})
    assert (called.stop_reason, called.message.content[0]["input"]) == ("tool_use", {})
    events, refused = _fed({"refusal": "I won't."})
    assert (refused.stop_reason, [event.text for event in events]) == ("refusal", ["I won't."])


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_half_a_message_of_a_server_that_gave_up_is_no_message(reason: str) -> None:
    with pytest.raises(ModelStreamBroken, match=reason):
        _fed({"content": "Half a"}, finish=reason)
    assert _fed({"content": "All of it."}, finish="eos_token")[1].stop_reason == "end_turn"


async def test_a_server_that_counts_nothing_still_answers() -> None:
    class Uncounting(OpenAIWire):
        def stream(self, answer: Reply, asked: Any, usage: Any) -> Any:
            return [part for part in super().stream(answer, asked, usage) if b'"usage":{' not in part.data]

    async with lab_of(OpenAIProvider, Uncounting, path="/v1")([reply(Call("read", {"path": "a"}))]) as lab:
        done = await check_stream(lab.provider, ask())
    assert done.usage.input_tokens == 0


def test_the_sdk_is_not_imported_before_the_first_call() -> None:
    code = (
        "import sys; from koda_ray.llm.openai import OpenAIProvider; OpenAIProvider('k'); "
        "assert 'openai' not in sys.modules and 'tenacity' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
