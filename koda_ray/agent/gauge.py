"""How many tokens a prompt has: from the usage of the answer before it, or counted by the provider where that matters.

The usage of each answer says how many tokens its prompt had; what was added since is estimated at the same rate. Only
where no usage is known yet, or the estimate reaches the limit, is the provider asked to count.
"""

from __future__ import annotations

import json

from koda_ray.errors import ModelError
from koda_ray.llm.base import Block, CountsTokens, ModelProvider, ModelRequest, Usage
from koda_ray.logs import get_logger

__all__ = ["Gauge"]

_TOKENS_PER_CHAR = 1 / 3
"""Where nothing is known: a little more than English prose has, less than Chinese."""
_IMAGE_CHARS = 4800
_log = get_logger(__name__)


class Gauge:
    """Measures the prompts of one agent.

    Args:
        provider: Answers them, and may be able to count.
    """

    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider
        self._chars = 0
        self._tokens = 0

    def learn(self, request: ModelRequest, usage: Usage) -> None:
        """Note what a prompt came to; a provider that tells no usage teaches nothing."""
        tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if tokens:
            self._chars, self._tokens = _chars(request), tokens

    async def tokens(self, request: ModelRequest, *, limit: int) -> int:
        """Say how many tokens a prompt has; exact where the provider counts and the limit is near.

        Args:
            request: The request.
            limit: The number that matters: well below it an estimate will do.
        """
        chars = _chars(request)
        rate = self._tokens / self._chars if self._tokens else _TOKENS_PER_CHAR
        estimate = self._tokens + (chars - self._chars) * rate
        if estimate < (limit if self._tokens else limit / 2) or not isinstance(self._provider, CountsTokens):
            return round(estimate)
        try:
            counted = await self._provider.count(request)
        except ModelError as error:
            _log.warning("tokens_not_counted", agent=request.agent, code=error.code)
            return round(estimate)
        if counted is None:
            return round(estimate)
        self._chars, self._tokens = chars, counted
        return counted


def _chars(request: ModelRequest) -> int:
    tools = sum(len(tool.description) + len(json.dumps(tool.input_schema)) for tool in request.tools)
    words = sum(_block_chars(block) for message in request.messages for block in message.content)
    return sum(map(len, request.system)) + tools + words


def _block_chars(block: Block) -> int:
    match block["type"]:
        case "text":
            return len(block["text"])
        case "tool_result":
            return len(block["content"])
        case "image":
            return _IMAGE_CHARS
        case "tool_use":
            return len(block["name"]) + len(json.dumps(block["input"]))
        case "thinking":
            return len(json.dumps(block["data"]))
