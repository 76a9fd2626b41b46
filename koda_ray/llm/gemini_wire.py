"""Gemini's own shapes: our request as its contents and config, its chunks as our events. Pure, no network.

A part may carry a signature of the reasoning that led to it. It has to come back with that very part, so it is kept as
a thinking block that stands before it in the message. Calls arrive whole, already parsed: one that Gemini could not
parse itself comes as a reason to stop and a text.

Source: Gemini API reference (generateContent, streaming), "Function calling" and "Thought signatures".
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from koda_ray.errors import ModelError, ModelStreamBroken
from koda_ray.llm.base import (
    INVALID_INPUT,
    Block,
    Completed,
    Message,
    ModelEvent,
    ModelRequest,
    StopReason,
    TextDelta,
    ToolInputDelta,
    Usage,
)

if TYPE_CHECKING:
    from google.genai.types import (
        Content,
        FunctionCall,
        GenerateContentConfig,
        GenerateContentResponse,
        GenerateContentResponseUsageMetadata,
        Part,
    )

__all__ = ["PROVIDER", "GeminiAssembler", "config", "contents"]

PROVIDER = "gemini"

_UNSIGNED = b"skip_thought_signature_validator"
"""Stands where a call of another model would need a signature; models before the third generation want none."""

_STOP: dict[str, StopReason] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "IMAGE_SAFETY": "refusal",
    "IMAGE_PROHIBITED_CONTENT": "refusal",
    "IMAGE_RECITATION": "refusal",
    "ESCALATION": "refusal",
    "MODEL_ARMOR": "refusal",
}
_UNPARSED = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "OTHER"})
_UNUSABLE = frozenset({"MISSING_THOUGHT_SIGNATURE", "PUP_LIMITED_DISABLED"})


def config(request: ModelRequest) -> GenerateContentConfig:
    """Write what stands beside the contents: instructions, tools, limits; nothing that the SDK would do on its own."""
    from google.genai import types

    system = [types.Part(text=part) for part in request.system if part]
    functions = [
        types.FunctionDeclaration(
            name=tool.name, description=tool.description, parameters_json_schema=tool.input_schema
        )
        for tool in request.tools
    ]
    return types.GenerateContentConfig(
        system_instruction=types.Content(parts=system) if system else None,
        tools=[types.Tool(function_declarations=functions)] if functions else None,
        max_output_tokens=request.max_tokens,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        automatic_continuation=False,
    )


def contents(request: ModelRequest) -> list[Content]:
    """Write the conversation. Results stand in a content of their own: Gemini counts them against the calls before."""
    from google.genai import types

    names = {
        block["id"]: block["name"]
        for message in request.messages
        for block in message.content
        if block["type"] == "tool_use"
    }
    made: list[Content] = []
    for message in request.messages:
        if message.role == "assistant":
            parts = _said(message, unsigned=_wants_signatures(request.model))
            if parts:
                made.append(types.Content(role="model", parts=parts))
            continue
        results, words = _heard(message, names)
        made.extend(types.Content(role="user", parts=parts) for parts in (results, words) if parts)
    return made


def _wants_signatures(model: str) -> bool:
    generation = re.search(r"gemini-(\d+)", model)
    return generation is not None and int(generation[1]) >= 3


def _heard(message: Message, names: dict[str, str]) -> tuple[list[Part], list[Part]]:
    from google.genai import types

    results: list[Part] = []
    words: list[Part] = []
    for block in message.content:
        if block["type"] == "tool_result":
            key = "error" if block["is_error"] else "output"
            response = types.FunctionResponse(
                id=block["tool_use_id"], name=names.get(block["tool_use_id"], ""), response={key: block["content"]}
            )
            results.append(types.Part(function_response=response))
        elif block["type"] == "text":
            words.append(types.Part(text=block["text"]))
        elif block["type"] == "image":
            source = block["source"]
            blob = types.Blob(mime_type=source["media_type"], data=base64.b64decode(source["data"]))
            words.append(types.Part(inline_data=blob))
    return results, words


def _said(message: Message, *, unsigned: bool) -> list[Part]:
    """Write a model's message: each signature with the part that it stood before, or alone where that is gone."""
    from google.genai import types

    parts: list[Part] = []
    signature: bytes | None = None
    calls = 0
    for block in message.content:
        if block["type"] == "thinking":
            if block["provider"] != PROVIDER:
                continue
            if "thought" in block["data"]:
                parts.append(types.Part(text=str(block["data"]["thought"]), thought=True))
            else:
                signature = base64.b64decode(str(block["data"]["signature"]))
        elif block["type"] == "text":
            parts.append(types.Part(text=block["text"], thought_signature=signature))
            signature = None
        elif block["type"] == "tool_use":
            if signature is None and unsigned and calls == 0:
                signature = _UNSIGNED
            call = types.FunctionCall(id=block["id"], name=block["name"], args=block["input"])
            parts.append(types.Part(function_call=call, thought_signature=signature))
            signature = None
            calls += 1
    if signature is not None:
        parts.append(types.Part(text="", thought_signature=signature))
    return parts if any(not part.thought for part in parts) else []


class GeminiAssembler:
    """Puts one message together from its chunks.

    Args:
        tools: Names of the tools that were offered, to find the one in a call that Gemini could not parse.
        finish_message: Finds what Gemini said of how it stopped.
    """

    def __init__(self, tools: Iterable[str], finish_message: Callable[[], str]) -> None:
        self._tools = sorted(tools, key=len, reverse=True)
        self._finish_message = finish_message
        self._blocks: list[Block] = []
        self._open = False
        self._usage = Usage()
        self._reason = ""

    def feed(self, event: GenerateContentResponse) -> tuple[ModelEvent, ...]:
        """Take one chunk and return what a reader should see of it."""
        if event.usage_metadata is not None:
            self._usage = _usage(event.usage_metadata)
        feedback = event.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            self._reason = "SAFETY"
        seen: list[ModelEvent] = []
        for candidate in (event.candidates or [])[:1]:
            for part in (candidate.content.parts if candidate.content is not None else None) or []:
                seen.extend(self._part(part))
            if candidate.finish_reason is not None:
                self._reason = candidate.finish_reason.value
        return tuple(seen)

    def completed(self) -> Completed:
        """Return the whole message.

        Raises:
            ModelStreamBroken: MODEL_STREAM_BROKEN, the stream ended before the message did, or with a call that
                names no tool.
            ModelError: MODEL_ERROR, Gemini gave up for a reason that asking again does not mend.
        """
        reason = self._reason
        if not reason:
            raise ModelStreamBroken("the stream ended inside the message; nothing of it is kept")
        if reason in _UNUSABLE:
            raise ModelError(f"Gemini stopped: {reason} {self._finish_message()}".rstrip(), context={"reason": reason})
        if reason in _UNPARSED:
            self._blocks.append(self._unparsed())
        stop = _STOP.get(reason, "end_turn")
        if stop == "end_turn" and any(block["type"] == "tool_use" for block in self._blocks):
            stop = "tool_use"
        return Completed(
            message=Message(role="assistant", content=tuple(self._blocks)), stop_reason=stop, usage=self._usage
        )

    def _part(self, part: Part) -> list[ModelEvent]:
        if part.thought:
            self._think(part.text or "")
            return []
        if part.thought_signature:
            signature = base64.b64encode(part.thought_signature).decode()
            self._blocks.append({"type": "thinking", "provider": PROVIDER, "data": {"signature": signature}})
            self._open = False
        if part.text:
            last = self._blocks[-1] if self._open else None
            if last is not None and last["type"] == "text":
                last["text"] += part.text
            else:
                self._blocks.append({"type": "text", "text": part.text})
                self._open = True
            return [TextDelta(text=part.text)]
        if part.function_call is not None:
            return [self._call(part.function_call)]
        return []

    def _think(self, text: str) -> None:
        last = self._blocks[-1] if self._open else None
        if last is not None and last["type"] == "thinking":
            last["data"]["thought"] = f"{last['data']['thought']}{text}"
        else:
            self._blocks.append({"type": "thinking", "provider": PROVIDER, "data": {"thought": text}})
            self._open = True

    def _call(self, call: FunctionCall) -> ToolInputDelta:
        given = cast("dict[str, JsonValue]", call.args or {})
        taken = {block["id"] for block in self._blocks if block["type"] == "tool_use"}
        name = call.name or ""
        id_ = call.id if call.id and call.id not in taken else f"call_{uuid.uuid4().hex[:24]}"
        self._blocks.append({"type": "tool_use", "id": id_, "name": name, "input": given})
        self._open = False
        return ToolInputDelta(id=id_, name=name, partial_json=json.dumps(given, ensure_ascii=False))

    def _unparsed(self) -> Block:
        """Make a call of what Gemini could not parse, so that the model hears what was wrong with it."""
        said = self._finish_message()
        for name in self._tools:
            if re.search(rf"(?<![\w.-])(?:default_api\.)?{re.escape(name)}(?![\w-])", said):
                id_ = f"call_{uuid.uuid4().hex[:24]}"
                return {"type": "tool_use", "id": id_, "name": name, "input": {INVALID_INPUT: said}}
        raise ModelStreamBroken(
            f"Gemini could not read the model's answer ({self._reason}); nothing of it is kept",
            context={"reason": self._reason},
        )


def _usage(usage: GenerateContentResponseUsageMetadata) -> Usage:
    """Split the prompt's tokens, which the API counts together, and count reasoning as the output that it is."""
    read = usage.cached_content_token_count or 0
    prompt = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    return Usage(
        input_tokens=max(0, prompt - read),
        output_tokens=(usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
        cache_read_tokens=read,
    )
