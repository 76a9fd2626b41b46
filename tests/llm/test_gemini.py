from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from typing import Any, ClassVar

import pytest

pytest.importorskip("google.genai", reason="the extra gemini is not installed")

from google.genai import types

from koda_ray.errors import ModelAuth, ModelError, ModelStreamBroken
from koda_ray.llm.base import Message
from koda_ray.llm.gemini import GeminiProvider
from koda_ray.llm.gemini_wire import GeminiAssembler
from tests.llm.conformance import ProviderConformance, ask, check_stream, collect, lab_of, user
from tests.llm.gemini_server import GeminiWire
from tests.llm.server import ApiError, Call, Think, reply

over = lab_of(GeminiProvider, GeminiWire)


class TestGemini(ProviderConformance):
    too_long = ApiError(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
    )
    foreign: ClassVar = {
        "GOOGLE_API_KEY": "shell-key",
        "GEMINI_API_KEY": "shell-key",
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_GENAI_USE_ENTERPRISE": "true",
        "GOOGLE_CLOUD_PROJECT": "shell-project",
        "GOOGLE_CLOUD_LOCATION": "shell-location",
        "GOOGLE_GENAI_API_VERSION": "shell-version",
        "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9/shell",
        "GOOGLE_VERTEX_BASE_URL": "http://127.0.0.1:9/shell",
        "GOOGLE_GENAI_CLIENT_MODE": "replay",
        "GOOGLE_GENAI_REPLAYS_DIRECTORY": "shell-folder",
    }

    @staticmethod
    def thinks_of(request: Any) -> list[str]:
        parts = [part for content in request["contents"] for part in content["parts"]]
        return [b64decode(part["thoughtSignature"]).decode() for part in parts if "thoughtSignature" in part]

    @pytest.fixture
    def lab(self) -> Any:
        return over


@pytest.mark.parametrize("key", ["", "new\nline", "schlüssel"])
def test_a_key_that_cannot_be_one_is_refused_before_any_request(key: str) -> None:
    with pytest.raises(ModelAuth, match="GEMINI_API_KEY"):
        GeminiProvider(key)


async def test_the_address_is_googles_unless_the_settings_name_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9/shell")
    provider = GeminiProvider("test-key")
    client = await provider._connected()
    assert client._api_client._http_options.base_url == "https://generativelanguage.googleapis.com"
    await provider.close()


def _result(id_: str) -> Message:
    return Message(
        role="user", content=({"type": "tool_result", "tool_use_id": id_, "content": "1", "is_error": False},)
    )


async def test_a_call_of_another_model_passes_where_signatures_are_wanted() -> None:
    async with over([reply("ok"), reply(Think("hm", "s1"), Call("read", {"path": "a"}), Call("write"))]) as lab:
        call = Message(role="assistant", content=({"type": "tool_use", "id": "c1", "name": "read", "input": {}},))
        await check_stream(lab.provider, ask(user("a"), call, _result("c1"), model="gemini-3-pro"))
        done = await check_stream(lab.provider, ask(model="gemini-3-pro"))
    assert [block["type"] for block in done.message.content] == ["thinking", "thinking", "tool_use", "tool_use"]


async def test_a_lost_signature_is_refused_by_the_server_that_these_tests_trust() -> None:
    # the check that the one above relies on can fail
    async with over([]) as lab:
        forged: Any = {"type": "thinking", "provider": "gemini", "data": {"signature": "Zm9yZ2Vk"}}
        call: Any = {"type": "tool_use", "id": "c1", "name": "read", "input": {}}
        message = Message(role="assistant", content=(forged, call))
        with pytest.raises(ModelError, match="thought_signature"):
            await collect(lab.provider, ask(user("a"), message, _result("c1"), model="gemini-3-pro"))


async def test_a_signature_after_the_words_goes_back_after_them() -> None:
    async with over([reply(Think("hm", "s1"), "Hello"), reply("again")]) as lab:
        first = await check_stream(lab.provider, ask())
        await check_stream(lab.provider, ask(user("Hello"), first.message, user("and now")))
        (sent,) = [c["parts"] for c in lab.server.requests[1].json["contents"] if c["role"] == "model"]
    assert [(part.get("text"), "thoughtSignature" in part) for part in sent] == [
        ("hm", False),
        ("Hello", False),
        ("", True),
    ]


async def test_words_beside_results_stand_in_a_content_of_their_own() -> None:
    async with over([reply("ok")]) as lab:
        call = Message(role="assistant", content=({"type": "tool_use", "id": "c1", "name": "read", "input": {}},))
        result = Message(role="user", content=(*_result("c1").content, {"type": "text", "text": "and hurry"}))
        await check_stream(lab.provider, ask(user("a"), call, result))
        contents = lab.server.requests[0].json["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "user"]
    assert contents[2]["parts"][0]["functionResponse"] == {"id": "c1", "name": "read", "response": {"output": "1"}}


def _ended(tools: tuple[str, ...] = ("read",), said: str = "", **candidate: Any) -> Any:
    assembler = GeminiAssembler(tools, lambda: said)
    assembler.feed(types.GenerateContentResponse(candidates=[types.Candidate(**candidate)]))
    return assembler.completed()


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII"])
def test_what_gemini_withholds_is_a_refusal(reason: str) -> None:
    assert _ended(finish_reason=types.FinishReason(reason)).stop_reason == "refusal"


def test_a_blocked_prompt_is_a_refusal() -> None:
    assembler = GeminiAssembler((), str)
    feedback = types.GenerateContentResponsePromptFeedback(block_reason=types.BlockedReason.SAFETY)
    assembler.feed(types.GenerateContentResponse(prompt_feedback=feedback))
    assert assembler.completed().stop_reason == "refusal"


def test_an_unreadable_call_that_names_no_tool_is_asked_for_again() -> None:
    malformed = types.FinishReason.MALFORMED_FUNCTION_CALL
    with pytest.raises(ModelStreamBroken) as raised:
        _ended(finish_reason=malformed, said="Malformed function call: print(")
    assert raised.value.retryable
    said = "Malformed function call: print(default_api.read_all(path='a'"
    done = _ended(("read", "read_all"), finish_reason=malformed, said=said)
    assert [block["name"] for block in done.message.content] == ["read_all"]


async def test_calls_without_an_id_get_one() -> None:
    calls = [types.Part(function_call=types.FunctionCall(name="read", args={"path": path})) for path in "ab"]
    done = _ended(content=types.Content(parts=calls), finish_reason=types.FinishReason.STOP)
    ids = [block["id"] for block in done.message.content]
    assert len(set(ids)) == 2 and all(ids)
    assert json.dumps([block["input"] for block in done.message.content]) == '[{"path": "a"}, {"path": "b"}]'


def test_the_sdk_is_not_imported_before_the_first_call() -> None:
    code = (
        "import sys; from koda_ray.llm.gemini import GeminiProvider; GeminiProvider('k'); "
        "assert 'google.genai' not in sys.modules and 'tenacity' not in sys.modules and 'httpx2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
