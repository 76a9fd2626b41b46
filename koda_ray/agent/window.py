"""What an agent's model is shown of its history, and how that is compressed before it is too long.

Old turns are shortened by rule all the time (`koda_ray.agent.context`); where that is not enough, the model sums them
up (`koda_ray.agent.memory`). Nothing that is stored is changed by either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from pydantic import JsonValue

from koda_ray.agent.answer import ModelAttempt
from koda_ray.agent.context import KEEP_LAST, Pruning, Shown
from koda_ray.agent.gauge import Gauge
from koda_ray.agent.hooks import Hooks, Stop
from koda_ray.agent.memory import WORDS_CHARS, Summary, boundary, content_of, read_summary, remembered, summary_request
from koda_ray.agent.messages import Repaired, text_of
from koda_ray.agent.spec import ModelAccess
from koda_ray.agent.toolkit import Toolkit
from koda_ray.agent.transcript import Transcript
from koda_ray.errors import KodaError, ModelError
from koda_ray.events import NewEvent
from koda_ray.llm.base import Completed, ModelRequest, TextBlock, substitutes_of
from koda_ray.logs import get_logger
from koda_ray.state.records import Batch
from koda_ray.types import new_id

__all__ = ["CallMarks", "Window", "usage_event"]

_LEAST_NEW, _MANY_NEW = 10, 30
"""Messages since the last summary below which another one gains nothing, and little."""
_FAR_TOO_LONG = 1.25
_TIGHT_KEEP = 2
_LEAST_PROMPT_TOKENS = 2_000
_log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class CallMarks:
    """What marks the time in which a model is asked.

    Args:
        begin: Stores that it is, with what is reserved for that, before it is.
        end: Called once it was.
    """

    begin: Callable[[Batch | None], Awaitable[None]]
    end: Callable[[], None]


class Window:
    """One agent's view of its history.

    Args:
        log: The history.
        toolkit: Says which results are a person's words, and which calls show files.
        access: What sums up, counts tokens, and pays for summaries.
        hooks: Heard before and after the summary's model call as with any other.
        limit_tokens: Length of a prompt from which on old turns are summed up.
        marks: What marks the time in which the model is asked for a summary.
    """

    def __init__(
        self,
        log: Transcript,
        toolkit: Toolkit,
        access: ModelAccess,
        hooks: Hooks,
        *,
        limit_tokens: int,
        marks: CallMarks,
    ) -> None:
        self._log = log
        self._toolkit = toolkit
        self._access = access
        self._purse = access.purse
        self._hooks = hooks
        self._limit = limit_tokens
        self._marks = marks
        self.gauge = Gauge(access.provider)
        self._repaired = Repaired()
        self._pruning = Pruning(verbatim=toolkit.answered_by_people, files_of=toolkit.files_of)
        self._seen: tuple[int, Shown] | None = None
        self._summary: tuple[int, Summary | None, tuple[TextBlock, ...]] = (-1, None, ())

    def shown(self) -> Shown:
        """Shorten the history as it is now."""
        version = self._log.version
        if self._seen is None or self._seen[0] != version:
            summary, before = self._remembered()
            rest = self._log.history[summary.covers if summary else 0 :]
            self._seen = version, self._pruning.shown(self._repaired.of(rest, self._log.calls), before)
        return self._seen[1]

    async def compress(self, request: Callable[[], ModelRequest]) -> bool | Stop:
        """Sum old turns up if the next prompt would be too long. What cannot be summed up now is tried again later.

        Args:
            request: Makes the next request.

        Returns:
            Whether it did, or why a hook ends the run here.
        """
        summary, _ = self._remembered()
        new = len(self._log.history) - (summary.covers if summary else 0)
        if new < KEEP_LAST + _LEAST_NEW:
            return False
        limit = self._limit if new >= _MANY_NEW else round(self._limit * _FAR_TOO_LONG)
        if await self.gauge.tokens(request(), limit=limit) <= limit:
            return False
        try:
            return await self._sum_up(summary, boundary(self._log.history, KEEP_LAST))
        except ModelError as error:
            _log.warning("not_summed_up", agent=self._log.agent, code=error.code)
            return False

    async def squeeze(self, refused: ModelRequest) -> bool | Stop:
        """Sum up all but the very last turn, because a provider refused a prompt for its length.

        Args:
            refused: The request.

        Returns:
            Whether the next prompt is shorter, or why a hook ends the run here.

        Raises:
            ModelError: The summary could not be made.
        """
        tokens = await self.gauge.tokens(refused, limit=2**31)
        self._limit = min(self._limit, max(_LEAST_PROMPT_TOKENS, tokens * 7 // 10))
        summary, _ = self._remembered()
        history = self._log.history
        tail = sum(len(str(block)) for record in history[-_TIGHT_KEEP:] for block in record.content)
        # where the last turn is what is too long, it is summed up as well
        covers = boundary(history, _TIGHT_KEEP if tail < 2 * self._limit else 0)
        return await self._sum_up(summary, covers)

    async def _sum_up(self, before: Summary | None, covers: int) -> bool | Stop:
        """Have the model write a summary, and store it; False where there is nothing new to cover.

        A hook that ends the run after it ends it with the summary stored.
        """
        if covers <= (before.covers if before else 0):
            return False
        history = self._log.history[:covers]
        while True:
            request = await self._hooks.before_model(
                summary_request(
                    history,
                    before,
                    agent=self._log.agent,
                    model=self._access.model,
                    verbatim=self._toolkit.answered_by_people,
                    most_tokens=self._limit,
                )
            )
            if isinstance(request, Stop):
                return request
            call_id = new_id("msg")
            if self._purse is not None:
                request = await self._purse.begin(
                    call_id, request, self._marks.begin, substitutes=substitutes_of(self._access.provider)
                )
            await self._marks.begin(None)
            answer = ModelAttempt(self._access.provider, request)
            try:
                completed = await answer.read()
                break
            except (Exception, asyncio.CancelledError) as error:
                if self._purse is not None and (
                    entries := self._purse.unanswered(call_id, request, error, chars=answer.chars)
                ):
                    with suppress(KodaError):  # the next call does it
                        await self._log.commit(Batch(charges=entries))
                if not isinstance(error, ModelError):
                    raise
                if error.code != "MODEL_CONTEXT_OVERFLOW" or self._limit // 2 < _LEAST_PROMPT_TOKENS:
                    raise
                self._limit //= 2
            finally:
                self._marks.end()
        batch, cost_usd = Batch(), None
        if self._purse is not None:
            settle, cost_usd = self._purse.settle(call_id, request, completed)
            batch.charges.append(settle)
        completed, stop = await self._hooks.after_model(request, completed)
        text = text_of(completed.message).strip()
        batch.events.append(usage_event(request, completed, purpose="summary", cost_usd=cost_usd))
        if not text or completed.stop_reason == "refusal":
            await self._log.commit(batch)
            return stop or False
        summary = Summary(covers=covers, text=text, words_chars=min(WORDS_CHARS, self._limit))
        record = self._log.summary(content_of(summary, self._log.history), call_id)
        data: dict[str, JsonValue] = {
            "agent": self._log.agent,
            "messages": covers,
            "outputTokens": completed.usage.output_tokens,
        }
        batch.messages.append(record)
        batch.events.append(NewEvent(type="summarized", data=data, cause_id=record.id))
        await self._log.commit(batch)
        return stop or True

    def _remembered(self) -> tuple[Summary | None, tuple[TextBlock, ...]]:
        version = self._log.loaded
        if self._summary[0] != version:
            summary = read_summary(self._log.summaries, self._log.history)
            verbatim, files_of = self._toolkit.answered_by_people, self._toolkit.files_of
            before = remembered(summary, self._log.history, verbatim=verbatim, files_of=files_of) if summary else ()
            self._summary = version, summary, before
        return self._summary[1], self._summary[2]


def usage_event(
    request: ModelRequest,
    completed: Completed,
    *,
    purpose: str = "",
    cost_usd: float | None = None,
    cause_id: str | None = None,
) -> NewEvent:
    """Tell what a model call used, and cost where that is known.

    ``purpose`` says what for where that is not the agent's own answer.
    """
    usage = completed.usage
    data: dict[str, JsonValue] = {
        "agent": request.agent,
        "model": completed.model or request.model,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        "costUsd": cost_usd,
    }
    if purpose:
        data["purpose"] = purpose
    return NewEvent(type="usage", data=data, cause_id=cause_id)
