"""Chat Completions for `tests.llm.server`: chunks made of the `openai` package's own types, requests held to them.

Source: OpenAI API reference, Chat Completions; error codes guide; prompt caching (from 1,024 tokens, in steps of 128).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from typing import Any, get_type_hints

from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam, ChatCompletionToolParam
from openai.types.chat.chat_completion_chunk import (
    Choice,
    ChoiceDelta,
    ChoiceDeltaToolCall,
    ChoiceDeltaToolCallFunction,
)
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.completion_usage import PromptTokensDetails
from pydantic import TypeAdapter, ValidationError

from tests.llm.prompts import PrefixCache, complaint_about
from tests.llm.script import ApiError, Call, Json, Reply, Say
from tests.llm.wire import Part, cut

__all__ = ["OpenAIWire"]

_MESSAGES: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])
_TOOLS: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionToolParam])
_KNOWN = frozenset(get_type_hints(CompletionCreateParamsStreaming))
_STOP = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
_CODES = {
    "rate_limit_error": ("requests", "rate_limit_exceeded"),
    "not_found_error": ("invalid_request_error", "model_not_found"),
    "context_length_exceeded": ("invalid_request_error", "context_length_exceeded"),
    "invalid_api_key": ("invalid_request_error", "invalid_api_key"),
}


class OpenAIWire:
    """OpenAI's API.

    Args:
        reasoning: The field in which a server tells a model's reasoning.
    """

    def __init__(self, *, reasoning: str = "reasoning_content") -> None:
        self._reasoning = reasoning
        self._cache = PrefixCache()

    def key(self, headers: dict[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def asked(self, path: str, request: Json) -> Json | None:
        if path != "/v1/chat/completions":
            return None
        messages: list[Json] = []
        system: list[Json] = []
        for message in request.get("messages", []):
            if message["role"] == "system":
                system.append({"type": "text", "text": message["content"]})
                continue
            role = "assistant" if message["role"] == "assistant" else "user"
            if not messages or messages[-1]["role"] != role:
                messages.append({"role": role, "content": []})
            messages[-1]["content"].extend(_blocks(message))
        return {
            "model": request.get("model"),
            "max_tokens": request.get("max_completion_tokens") or request.get("max_tokens"),
            "system": system,
            "tools": [
                {"name": f["name"], "description": f["description"], "input_schema": f["parameters"]}
                for f in (tool["function"] for tool in request.get("tools", []))
            ],
            "messages": messages,
        }

    def complaint(self, request: Json, asked: Json) -> str | None:
        if unknown := request.keys() - _KNOWN:
            return f"Unrecognized request argument supplied: {', '.join(sorted(unknown))}"
        try:
            _MESSAGES.validate_python(request["messages"])
            _TOOLS.validate_python(request.get("tools", []))
        except ValidationError as error:
            return str(error)
        for message in request["messages"]:
            for call in message.get("tool_calls", []):
                # the templates of open models render arguments as an object
                if not isinstance(json.loads(call["function"]["arguments"]), dict):
                    return "tool_calls: arguments should be an object"
        return complaint_about(asked)

    def count(self, request: Json, asked: Json) -> Json:
        return self._cache.count(json.dumps([request.get("tools", []), request["messages"]]))

    def counted(self, path: str, request: Json) -> Json | None:
        return None

    def too_long(self, tokens: int, most: int) -> ApiError:
        said = (
            f"This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens."
        )
        return ApiError(400, "context_length_exceeded", said)

    def wrong_key(self, key: str) -> ApiError:
        return ApiError(401, "invalid_api_key", f"Incorrect API key provided: {key}")

    def error(self, answer: ApiError) -> tuple[Json, dict[str, str]]:
        kind, code = _CODES.get(answer.type, (answer.type, None))
        headers = {"x-request-id": "req_scripted"}
        if answer.retry_after is not None:
            headers["retry-after"] = str(answer.retry_after)
        return {"error": {"message": answer.message, "type": kind, "param": None, "code": code}}, headers

    def stream(self, answer: Reply, asked: Json, usage: Json) -> Iterable[Part]:
        id_, calls, produced = f"chatcmpl-{uuid.uuid4().hex}", 0, 0

        def chunk(*choices: Choice, usage: CompletionUsage | None = None) -> bytes:
            made = ChatCompletionChunk(
                id=id_,
                choices=list(choices),
                created=int(time.time()),
                model=asked["model"],
                object="chat.completion.chunk",
                usage=usage,
            )
            return f"data: {made.model_dump_json(exclude_unset=True)}\n\n".encode()

        def delta(**fields: Any) -> bytes:
            return chunk(Choice(index=0, delta=ChoiceDelta(**fields), finish_reason=None))

        yield Part("other", delta(role="assistant", content=""))
        for block in answer.blocks:
            if isinstance(block, Call):
                text = json.dumps(block.input, ensure_ascii=False) if block.raw is None else block.raw
                begun = ChoiceDeltaToolCall(
                    index=calls,
                    id=block.id or f"call_{uuid.uuid4().hex[:24]}",
                    type="function",
                    function=ChoiceDeltaToolCallFunction(name=block.name, arguments=""),
                )
                yield Part("other", delta(tool_calls=[begun]))
                for piece in cut(text, answer.delta_chars):
                    more = ChoiceDeltaToolCall(index=calls, function=ChoiceDeltaToolCallFunction(arguments=piece))
                    produced += 1
                    yield Part("delta", delta(tool_calls=[more]))
                calls += 1
                continue
            name = "content" if isinstance(block, Say) else self._reasoning
            for piece in cut(block.text, answer.delta_chars):
                produced += 1
                yield Part("delta", delta(**{name: piece}))
        stop = answer.stop_reason or ("tool_use" if calls else "end_turn")
        reason: Any = _STOP[stop]
        yield Part("end", chunk(Choice(index=0, delta=ChoiceDelta(), finish_reason=reason)))
        used = CompletionUsage(
            prompt_tokens=usage["prompt"],
            completion_tokens=produced,
            total_tokens=usage["prompt"] + produced,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=usage["read"]),
        )
        yield Part("other", chunk(usage=used))
        yield Part("other", b"data: [DONE]\n\n")

    def idle(self) -> bytes:
        return b": still here\n\n"

    def failure(self, kind: str) -> bytes:
        # as vLLM says it: the status that would have been
        code = 503 if kind == "overloaded_error" else 500
        error = {"error": {"message": "scripted", "type": kind, "param": None, "code": code}}
        return f"data: {json.dumps(error)}\n\n".encode()


def _blocks(message: Json) -> Iterable[Json]:
    if message["role"] == "tool":
        yield {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return
    content = message.get("content") or []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            yield part
        else:
            head, _, data = part["image_url"]["url"].partition(",")
            media_type = head.removeprefix("data:").removesuffix(";base64")
            yield {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    for call in message.get("tool_calls", []):
        given = json.loads(call["function"]["arguments"])
        yield {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given}
