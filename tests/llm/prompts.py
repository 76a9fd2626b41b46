"""What the servers do with a prompt, in the Messages API's form: what is refused in it, what a cache has of it.

Source: Anthropic Messages API, prompt caching; OpenAI and Gemini, prompt caching without marks.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable

from tests.llm.script import Json

__all__ = ["PrefixCache", "PromptCache", "complaint_about", "tokens_in"]


def complaint_about(request: Json) -> str | None:
    """Say why the API would refuse a request; None when it would not."""
    for name in ("model", "max_tokens", "messages"):
        if not request.get(name):
            return f"{name}: Field required"
    messages: list[Json] = request["messages"]
    if messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    if messages[-1]["role"] != "user":
        return "messages: the last message must use the user role (no prefill)"
    marks = sum("cache_control" in part for part, _ in _prefix_parts(request))
    if marks > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    seen: set[str] = set()
    for index, message in enumerate(messages):
        blocks: list[Json] = message["content"]
        if index and message["role"] == messages[index - 1]["role"]:
            return f"messages.{index}: roles must alternate"
        if not blocks:
            return f"messages.{index}: content must not be empty"
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                return f"messages.{index}: text content blocks must be non-empty"
        asked = [b["id"] for b in messages[index - 1]["content"] if b["type"] == "tool_use"] if index else []
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if asked != answered:
            return (
                f"messages.{index}: `tool_use` ids {asked} without exactly their `tool_result` blocks; got {answered}"
            )
        if [b["type"] for b in blocks[: len(answered)]] != ["tool_result"] * len(answered):
            return f"messages.{index}: `tool_result` blocks must come first"
        uses = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if seen.intersection(uses) or len(uses) != len(set(uses)):
            return f"messages.{index}: `tool_use` ids must be unique"
        seen.update(uses)
        if not all(isinstance(b["input"], dict) for b in blocks if b["type"] == "tool_use"):
            return f"messages.{index}: input should be an object"
    return None


class PromptCache:
    """Counts what a request reads from and writes to the cache, from the prefixes received so far.

    An entry is made where a request has a mark, and only there; it is found by a later request that has the same
    prefix, at one of its marks or up to so many blocks before it, for five minutes from its last use.

    Args:
        clock: Tells the time, in seconds.
    """

    LOOKBACK = 20
    """Blocks, the marked one among them, in which an older entry is found."""
    LIFE_S = 300.0
    LEAST = ((r"opus-4-[567]|haiku-4-5", 4096), (r"haiku|sonnet-4-6", 2048))
    """Tokens below which a prefix is not kept, by model."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, float] = {}

    def count(self, request: Json) -> Json:
        parts = list(_prefix_parts(request))
        digest = hashlib.sha256(request["model"].encode())
        hashes: list[str] = []
        upto: list[int] = []
        for part, kind in parts:
            digest.update(f"{kind}\0{_plain(part)}\0".encode())
            hashes.append(digest.hexdigest())
            upto.append(_tokens(part) + (upto[-1] if upto else 0))
        least = next((n for pattern, n in self.LEAST if re.search(pattern, request["model"])), 1024)
        marks = [i for i, (part, _) in enumerate(parts) if "cache_control" in part and upto[i] >= least]
        now = self._clock()
        self._used = {key: at for key, at in self._used.items() if now - at <= self.LIFE_S}
        found = [next((i for i in _back_from(mark, self.LOOKBACK) if hashes[i] in self._used), -1) for mark in marks]
        read_to, write_to = max(found, default=-1), max(marks, default=-1)
        self._used.update((hashes[i], now) for i in (*marks, *found) if i >= 0)
        read = upto[read_to] if read_to >= 0 else 0
        marked = upto[write_to] if write_to >= 0 else 0
        return {
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": marked - read,
            "input_tokens": upto[-1] - marked,
        }


def _back_from(mark: int, count: int) -> range:
    return range(mark, max(-1, mark - count), -1)


def tokens_in(request: Json) -> int:
    """Count a prompt's tokens: four characters are one."""
    return sum(_tokens(part) for part, _ in _prefix_parts(request))


def _plain(part: Json) -> str:
    return json.dumps({k: v for k, v in part.items() if k != "cache_control"}, sort_keys=True)


def _tokens(part: Json) -> int:
    return max(1, len(_plain(part)) // 4)


class PrefixCache:
    """Counts what a request reads from a cache that needs no marks: the longest beginning it shares with one before.

    Args:
        least: Tokens below which nothing is cached.
        step: Tokens by which a beginning grows.
    """

    def __init__(self, *, least: int = 1024, step: int = 128) -> None:
        self._least = least
        self._step = step
        self._prompts: list[str] = []

    def count(self, prompt: str) -> Json:
        shared = max((_shared(prompt, each) for each in self._prompts), default=0) // 4
        read = shared // self._step * self._step if shared >= self._least else 0
        self._prompts.append(prompt)
        return {"prompt": max(1, len(prompt) // 4), "read": read}


def _shared(prompt: str, before: str) -> int:
    """Count the characters of a common beginning."""
    differ = (i for i, (a, b) in enumerate(zip(prompt, before, strict=False)) if a != b)
    return next(differ, min(len(prompt), len(before)))


def _prefix_parts(request: Json) -> Iterable[tuple[Json, str]]:
    for tool in request.get("tools", []):
        yield tool, "tool"
    system = request.get("system", [])
    for part in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield part, "system"
    for message in request["messages"]:
        for block in message["content"]:
            yield block, message["role"]
