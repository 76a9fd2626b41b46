"""The agent loop: ask the model, run what it calls, and again, until it has nothing more to do.

Killed at any instant, a new loop over the same journal goes on. It knows nothing but the history and the ledger:
calls whose outcome is recorded are answered with it, pure and idempotent ones run again under the same id, unsafe
ones are closed as interrupted, waiting ones wait on. There is no other state, so there is nothing to lose.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from pydantic import JsonValue

from koda_ray.agent.answer import Answer, LoopEvent, ModelRetry
from koda_ray.agent.breakpoints import Breakpoint, advance, derive
from koda_ray.agent.calls import Calls
from koda_ray.agent.context import prune, with_state
from koda_ray.agent.ledger import recorded_result, settled
from koda_ray.agent.limits import Limits, LoopOutcome
from koda_ray.agent.messages import from_records, open_calls, repair, text_of, tool_uses
from koda_ray.agent.stuck import CUT_OFF, repeated_failure
from koda_ray.agent.toolkit import Toolkit, ToolOutcome
from koda_ray.agent.transcript import Journal, Transcript, merged
from koda_ray.errors import InvalidInput, InvalidTransition, ModelOverloaded, ModelRefused, ModelStreamBroken, NotFound
from koda_ray.events import NewEvent
from koda_ray.llm.base import AgentName, Completed, ModelProvider, ModelRequest
from koda_ray.logs import get_logger
from koda_ray.state.store import Batch, MessageRecord, ToolCallRecord
from koda_ray.types import now

__all__ = ["AgentLoop", "Journal", "Limits", "LoopEvent", "LoopOutcome", "ModelRetry"]

_log = get_logger(__name__)


class AgentLoop:
    """One agent of one session; the only writer of that agent's messages.

    Args:
        agent: Who it is.
        provider: Answers requests.
        model: The provider's name of the model.
        system: The system prompt in parts, stable first.
        toolkit: What it can do.
        journal: Where history and ledger are kept.
        session_id: Written into every row.
        user_id: Written into every row.
        context: Called before each request; its text is appended to the last message as a block of its own (such as
            ``<state>...</state>``) and never stored. Empty for none.
        limits: Bounds of one run.
        on_event: Awaited with each delta as it streams.
    """

    def __init__(
        self,
        *,
        agent: AgentName,
        provider: ModelProvider,
        model: str,
        system: tuple[str, ...],
        toolkit: Toolkit,
        journal: Journal,
        session_id: str,
        user_id: str,
        context: Callable[[], str] | None = None,
        limits: Limits | None = None,
        on_event: Callable[[LoopEvent], Awaitable[None]] | None = None,
    ) -> None:
        self._agent: AgentName = agent
        self._provider = provider
        self._model = model
        self._system = system
        self._toolkit = toolkit
        self._session_id = session_id
        self._context = context
        self._limits = limits or Limits()
        self._on_event = on_event
        self._at = Breakpoint.READY
        self._running = False
        self._log = Transcript(journal, agent=agent, session_id=session_id, user_id=user_id)
        self._calls = Calls(
            self._log,
            toolkit,
            self._limits,
            agent=agent,
            session_id=session_id,
            user_id=user_id,
            move=self._move,
        )

    @property
    def breakpoint(self) -> Breakpoint:
        """Where the loop stands."""
        return self._at

    async def add_user(self, text: str, batch: Batch | None = None) -> MessageRecord:
        """Record what a person says, durably, together with ``batch``; also while the loop runs.

        Raises:
            InvalidInput: INVALID_INPUT, the text is blank.
            Fenced: FENCED, another activation owns the session.
        """
        if not text.strip():
            raise InvalidInput("the message is empty; say something")
        await self._log.refresh()
        record = self._log.record("user", [{"type": "text", "text": text}])
        await self._log.commit(merged(Batch(messages=[record]), batch))
        return record

    async def waiting(self) -> ToolCallRecord | None:
        """Find the call that waits for a person, if one does."""
        await self._log.refresh()
        for call in open_calls(self._log.history):
            record = self._log.calls.get(call.block["id"])
            if record is not None and record.status == "waiting":
                return record
        return None

    async def resolve(self, call_id: str, content: str, batch: Batch | None = None, *, is_error: bool = False) -> bool:
        """Answer a waiting call: its outcome, its result and ``batch`` become durable together.

        Args:
            call_id: The waiting call.
            content: The result for the model, JSON or text.
            batch: Changes that belong to the answer.
            is_error: The person refused.

        Returns:
            True when this answered it; False when it had an outcome already, and then nothing is written.

        Raises:
            NotFound: NOT_FOUND, no such call in this agent's history.
            InvalidTransition: INVALID_TRANSITION, the call does not wait for anybody.
        """
        await self._log.refresh()
        record = self._log.calls.get(call_id)
        found = next((m for m in self._log.history if record is not None and m.id == record.message_id), None)
        if record is None or found is None:
            raise NotFound(f"there is no call {call_id!r} of {self._agent}")
        if recorded_result(record) is not None:
            return False
        if record.status != "waiting":
            raise InvalidTransition(f"call {call_id} of {record.name} is {record.status}, it waits for nobody")
        outcome = ToolOutcome(content=content, is_error=is_error, batch=batch)
        await self._calls.settle(settled(record, outcome, at=now()), outcome)
        if not self._running:
            self._at = derive(self._log.history, self._log.calls)
        return True

    async def abandon(self, reason: str, batch: Batch | None = None) -> int:
        """Close every call that is open because a person stopped the work, so that the next run does none of it.

        Args:
            reason: Why, for the model: one sentence.
            batch: Committed with it, also when nothing is open.

        Returns:
            How many calls were closed.

        Raises:
            InvalidTransition: INVALID_TRANSITION, it is running; cancel and await the run first.
        """
        if self._running:
            raise InvalidTransition(f"the loop of {self._agent} runs; cancel it before its calls are abandoned")
        await self._log.load()
        open_ = open_calls(self._log.history)
        await self._calls.abandon(open_, reason, batch)
        self._at = derive(self._log.history, self._log.calls)
        return len(open_)

    async def run(self) -> LoopOutcome:
        """Go on from wherever the history stands until the model is done, a person is needed or a bound is reached.

        Raises:
            ModelError: The model cannot be reached, refused, or broke off too often; the history is whole.
            Fenced: FENCED, another activation owns the session; stop.
            InvalidInput: INVALID_INPUT, the history is empty.
            InvalidTransition: INVALID_TRANSITION, it is running already.
        """
        if self._running:
            raise InvalidTransition(f"the loop of {self._agent} runs already; add_user reaches it while it does")
        self._running = True
        try:
            await self._log.load()
            self._at = derive(self._log.history, self._log.calls)
            return await self._run()
        finally:
            self._running = False

    async def _run(self) -> LoopOutcome:
        turns, cut_off, self._calls.made = 0, 0, 0
        begun_at = len(self._log.history)
        while True:
            await self._log.refresh()
            history = self._log.history
            if open_ := open_calls(history):
                if self._at is not Breakpoint.TOOL_PENDING:
                    self._move(Breakpoint.TOOL_PENDING)
                if (outcome := await self._calls.answer(open_)) is not None:
                    return outcome
                continue
            if not history:
                raise InvalidInput(f"{self._agent} has nothing to answer; add_user first")
            if history[-1].role == "assistant":
                self._rest()
                return LoopOutcome(kind="end_turn", text=text_of(from_records(history[-1:])[0]))
            if self._at is not Breakpoint.PRE_MODEL:
                self._move(Breakpoint.PRE_MODEL)
            recent = from_records(history[max(0, begun_at - 1) :])
            if (circle := repeated_failure(recent, self._toolkit.effect, limit=self._limits.same_failures)) is not None:
                self._rest()
                return LoopOutcome(kind="stuck", text=circle)
            if turns >= self._limits.turns or cut_off >= self._limits.model_attempts:
                self._rest()
                what = f"{turns} answers of the model" if turns >= self._limits.turns else "answers cut off too often"
                return LoopOutcome(kind="limit", text=f"Stopped at the limit of one run: {what}.")
            turns += 1
            stop = await self._ask()
            cut_off = cut_off + 1 if stop == "max_tokens" else 0

    # --- the model ------------------------------------------------------------------------------------------------

    async def _ask(self) -> str:
        for attempt in range(1, self._limits.model_attempts + 1):
            request, position = self._request(), self._log.reserve()
            self._move(Breakpoint.STREAMING_MODEL)
            answer = Answer(self._provider, request)
            try:
                completed = await answer.read(self._on_event)
            except (ModelStreamBroken, ModelOverloaded) as error:
                # an overload before anything streamed was tried again by the provider already
                again = isinstance(error, ModelStreamBroken) or answer.began
                if not again or attempt == self._limits.model_attempts:
                    raise
                await self._again(attempt, error)
                self._move(Breakpoint.PRE_MODEL)
                await self._log.refresh()
            else:
                return await self._keep(request, position, completed)
        raise AssertionError("the last attempt returns or raises")

    def _request(self) -> ModelRequest:
        whole = repair(from_records(self._log.history), self._log.calls)
        messages = prune(whole, verbatim=self._toolkit.asking)
        state = self._context() if self._context is not None else ""
        return ModelRequest(
            agent=self._agent,
            model=self._model,
            system=self._system,
            messages=with_state(messages, state),
            tools=self._toolkit.specs,
            max_tokens=self._limits.max_tokens,
            volatile_blocks=1 if state else 0,
        )

    async def _again(self, attempt: int, error: ModelStreamBroken | ModelOverloaded) -> None:
        wait_s = self._limits.first_wait_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)
        _log.warning("model_retry", session_id=self._session_id, agent=self._agent, attempt=attempt, code=error.code)
        event = NewEvent(
            type="model_retry",
            data={"agent": self._agent, "attempt": attempt, "code": error.code, "waitS": round(wait_s, 3)},
        )
        await self._log.commit(Batch(events=[event]))
        if self._on_event is not None:
            await self._on_event(ModelRetry(attempt=attempt, code=error.code, wait_s=wait_s))
        await asyncio.sleep(wait_s)

    async def _keep(self, request: ModelRequest, position: int, completed: Completed) -> str:
        usage, record = completed.usage, self._log.record("assistant", list(completed.message.content), position)
        data: dict[str, JsonValue] = {
            "agent": self._agent,
            "model": request.model,
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cacheReadTokens": usage.cache_read_tokens,
            "cacheWriteTokens": usage.cache_write_tokens,
        }
        batch = Batch(events=[NewEvent(type="usage", data=data, cause_id=record.id)])
        if completed.stop_reason == "refusal":
            # a refused turn stays out of the history: with it, later requests would be refused too
            await self._log.commit(batch)
            self._rest()
            said = text_of(completed.message)
            raise ModelRefused(f"the model declined to answer{': ' + said if said else ''}; ask for something else")
        batch.messages.append(record)
        calls = tool_uses(completed.message)
        if completed.stop_reason == "max_tokens" and not calls:
            batch.messages.append(self._log.record("user", [{"type": "text", "text": CUT_OFF}]))
        await self._log.commit(batch)
        self._move(Breakpoint.TOOL_PENDING if calls else Breakpoint.READY)
        return completed.stop_reason

    # --- small parts ----------------------------------------------------------------------------------------------

    def _move(self, to: Breakpoint) -> None:
        self._at = advance(self._at, to)

    def _rest(self) -> None:
        if self._at is not Breakpoint.READY:
            self._move(Breakpoint.READY)
