"""Gemini's streamGenerateContent for `tests.llm.server`: chunks made of the `google-genai` package's own types.

Requests are read by those types too, which take no field that they do not know. From the third generation on, a call
of the present turn that comes back without the signature it was given is refused, as the API does.

Source: Gemini API reference (generateContent), "Thought signatures", "Context caching" (implicit, from 1,024 tokens).
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import uuid
from collections.abc import Iterable
from typing import Any

from google.genai import types
from pydantic import ValidationError

from tests.llm.prompts import PrefixCache, complaint_about, tokens_in
from tests.llm.script import ApiError, Call, Json, Reply, Say, Think
from tests.llm.wire import Part, cut

__all__ = ["GeminiWire"]

_COUNT = re.compile(r"/v1beta/models/([\w.-]+):countTokens")
_PATH = re.compile(r"/v1beta/models/([\w.-]+):streamGenerateContent\?alt=sse")
_STOP = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
_STATUS = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
_UNSIGNED = b"skip_thought_signature_validator"


class GeminiWire:
    """Gemini's API."""

    def __init__(self) -> None:
        self._cache = PrefixCache(step=1)
        self._signed: set[bytes] = {_UNSIGNED}

    def key(self, headers: dict[str, str]) -> str:
        return headers.get("x-goog-api-key", "")

    def asked(self, path: str, request: Json) -> Json | None:
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        messages: list[Json] = []
        for content in _contents(request):
            role = "assistant" if content.role == "model" else "user"
            if not messages or messages[-1]["role"] != role:
                messages.append({"role": role, "content": []})
            messages[-1]["content"].extend(_blocks(content))
        system = types.Content.model_validate_json(json.dumps(request.get("systemInstruction", {"parts": []})))
        tools = [types.Tool.model_validate_json(json.dumps(tool)) for tool in request.get("tools", [])]
        functions = [f for tool in tools for f in tool.function_declarations or []]
        return {
            "model": found[1],
            "max_tokens": request.get("generationConfig", {}).get("maxOutputTokens"),
            "system": [{"type": "text", "text": part.text} for part in system.parts or []],
            "tools": [
                {"name": f.name, "description": f.description, "input_schema": f.parameters_json_schema}
                for f in functions
            ],
            "messages": messages,
        }

    def complaint(self, request: Json, asked: Json) -> str | None:
        if unknown := request.keys() - {"contents", "systemInstruction", "tools", "generationConfig"}:
            return f"Invalid JSON payload received. Unknown name {sorted(unknown)}"
        try:
            for tool in request.get("tools", []):
                types.Tool.model_validate_json(json.dumps(tool))
            contents = _contents(request)
        except ValidationError as error:
            return str(error)
        answered = any(part.function_response for content in contents for part in content.parts or [])
        if answered and "gemini-3" in asked["model"] and (unsigned := self._unsigned(contents)) is not None:
            return f"Function call is missing a thought_signature in functionCall parts: {unsigned}"
        for before, content in itertools.pairwise(contents):
            calls = [part for part in before.parts or [] if part.function_call]
            answers = [part for part in content.parts or [] if part.function_response]
            if len(calls) != len(answers) or (answers and len(answers) != len(content.parts or [])):
                return (
                    "Please ensure that the number of function response parts is equal to the number of function call "
                    "parts of the function call turn."
                )
        return complaint_about(asked)

    def _unsigned(self, contents: list[types.Content]) -> str | None:
        """Name a first call of the present turn whose signature is not one of ours."""
        turn = 0
        for index, content in enumerate(contents):
            if content.role == "user" and any(part.text for part in content.parts or []):
                turn = index
        for content in contents[turn:]:
            calls = [part for part in content.parts or [] if part.function_call]
            if calls and calls[0].thought_signature not in self._signed:
                return str(calls[0].function_call)
        return None

    def count(self, request: Json, asked: Json) -> Json:
        stable = [request.get("systemInstruction"), request.get("tools"), request["contents"]]
        return self._cache.count(json.dumps(stable))

    def counted(self, path: str, request: Json) -> Json | None:
        if (found := _COUNT.fullmatch(path)) is None:
            return None
        # what the SDK's generateContentRequest holds is the request as it is sent to be answered
        whole = request.get("generateContentRequest", request)
        asked = self.asked(f"/v1beta/models/{found[1]}:streamGenerateContent?alt=sse", whole)
        return {"totalTokens": tokens_in(asked or {})}

    def too_long(self, tokens: int, most: int) -> ApiError:
        said = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({most})."
        return ApiError(400, "INVALID_ARGUMENT", said)

    def wrong_key(self, key: str) -> ApiError:
        return ApiError(400, "API_KEY_INVALID", f"API key not valid. Please pass a valid API key. ({key})")

    def error(self, answer: ApiError) -> tuple[Json, dict[str, str]]:
        details: list[Json] = []
        headers: dict[str, str] = {}
        if answer.type == "API_KEY_INVALID":
            info = "type.googleapis.com/google.rpc.ErrorInfo"
            details.append({"@type": info, "reason": answer.type, "domain": "googleapis.com"})
        if isinstance(answer.retry_after, str):
            headers["retry-after"] = answer.retry_after
        elif answer.retry_after is not None:
            info = "type.googleapis.com/google.rpc.RetryInfo"
            details.append({"@type": info, "retryDelay": f"{answer.retry_after}s"})
        status = _STATUS.get(answer.status, "UNKNOWN")
        error = {"code": answer.status, "message": answer.message, "status": status, "details": details}
        return {"error": error}, headers

    def stream(self, answer: Reply, asked: Json, usage: Json) -> Iterable[Part]:
        produced = thought = 0
        reason = _STOP[answer.stop_reason or "end_turn"]
        id_, said = uuid.uuid4().hex, None

        def chunk(*parts: types.Part, finish: str | None = None) -> bytes:
            made = types.GenerateContentResponse(
                response_id=id_,
                model_version=asked["model"],
                candidates=[
                    types.Candidate(
                        index=0,
                        content=types.Content(role="model", parts=list(parts)) if parts else None,
                        finish_reason=types.FinishReason(finish) if finish else None,
                        finish_message=said,
                    )
                ],
                usage_metadata=types.GenerateContentResponseUsageMetadata(
                    prompt_token_count=usage["prompt"],
                    cached_content_token_count=usage["read"] or None,
                    candidates_token_count=produced or None,
                    thoughts_token_count=thought or None,
                ),
            )
            return f"data: {made.model_dump_json(by_alias=True, exclude_none=True)}\r\n\r\n".encode()

        signature: bytes | None = None
        for block in answer.blocks:
            if isinstance(block, Think):
                signature = block.signature.encode()
                self._signed.add(signature)
                for piece in cut(block.text, answer.delta_chars):
                    thought += 1
                    yield Part("delta", chunk(types.Part(text=piece, thought=True)))
            elif isinstance(block, Say):
                for piece in cut(block.text, answer.delta_chars):
                    produced += 1
                    yield Part("delta", chunk(types.Part(text=piece)))
            elif (given := _object(block)) is None:
                reason, said = (
                    "MALFORMED_FUNCTION_CALL",
                    f"Malformed function call: default_api.{block.name}({block.raw})",
                )
            else:
                produced += 1
                call = types.FunctionCall(id=block.id or uuid.uuid4().hex[:8], name=block.name, args=given)
                whole = chunk(types.Part(function_call=call, thought_signature=signature))
                signature = None
                # a call comes in one event, an event in as many packets as the network likes
                for at in range(0, len(whole), 64):
                    yield Part("delta", whole[at : at + 64])
        if signature is not None:
            yield Part("other", chunk(types.Part(text="", thought_signature=signature)))
        yield Part("end", chunk(finish=reason))

    def idle(self) -> bytes:
        return b""

    def failure(self, kind: str) -> bytes:
        error = self.error(ApiError(503 if kind == "overloaded_error" else 500, kind))[0]
        return f"data: {json.dumps(error)}\r\n\r\n".encode()


def _contents(request: Json) -> list[types.Content]:
    return [types.Content.model_validate_json(json.dumps(content)) for content in request.get("contents", [])]


def _object(block: Call) -> Json | None:
    if block.raw is None:
        return block.input
    try:
        value: Any = json.loads(block.raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _blocks(content: types.Content) -> Iterable[Json]:
    for part in content.parts or []:
        if part.thought:
            continue
        if part.function_response is not None:
            response = part.function_response
            content_ = (response.response or {}).get("output", (response.response or {}).get("error"))
            yield {"type": "tool_result", "tool_use_id": response.id, "content": content_}
        elif part.function_call is not None:
            call = part.function_call
            yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args or {}}
        elif part.inline_data is not None:
            data = base64.b64encode(part.inline_data.data or b"").decode()
            source = {"type": "base64", "media_type": part.inline_data.mime_type, "data": data}
            yield {"type": "image", "source": source}
        elif part.text:
            yield {"type": "text", "text": part.text}
