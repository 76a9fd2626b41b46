"""The agent loop: ask the model, run what it calls, and again, until it has nothing more to do.

Killed at any instant, a new loop over the same journal goes on. It knows nothing but the history and the ledger:
calls whose outcome is recorded are answered with it, pure and idempotent ones run again under the same id, unsafe
ones are closed as interrupted, waiting ones wait on. There is no other state, so there is nothing to lose.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence

from pydantic import JsonValue

from koda_ray.agent.answer import LoopEvent, ModelAttempt, ModelRetry
from koda_ray.agent.approvals import is_approval, resolved
from koda_ray.agent.breakpoints import Breakpoint, advance, derive
from koda_ray.agent.calls import Calls
from koda_ray.agent.context import with_state
from koda_ray.agent.halting import halted, place_of_halt
from koda_ray.agent.hooks import Hooks, Stop
from koda_ray.agent.identity import AgentIdentity
from koda_ray.agent.ledger import done_so_far, part_done, recorded_result, settled, wanted
from koda_ray.agent.limits import Limits, LoopOutcome
from koda_ray.agent.messages import from_records, text_of, tool_uses
from koda_ray.agent.own_words import CUT_OFF, EMPTY
from koda_ray.agent.spec import ModelAccess, Observers, Policy
from koda_ray.agent.stuck import going_in_circles, last_said
from koda_ray.agent.toolkit import Toolkit, ToolOutcome
from koda_ray.agent.transcript import Journal, Transcript, merged
from koda_ray.agent.window import CallMarks, Window, usage_event
from koda_ray.budgets import Exceeded
from koda_ray.errors import (
    BudgetExceeded,
    InvalidInput,
    InvalidTransition,
    KodaError,
    ModelError,
    ModelOverloaded,
    ModelRefused,
    ModelStreamBroken,
    NotFound,
)
from koda_ray.events import NewEvent
from koda_ray.llm.base import Completed, ImageBlock, ModelRequest, substitutes_of
from koda_ray.logs import get_logger
from koda_ray.state.records import Batch, MessageRecord, ToolCallRecord
from koda_ray.types import new_id, now

__all__ = ["AgentLoop", "Journal", "Limits", "LoopEvent", "LoopOutcome", "ModelRetry"]

_log = get_logger(__name__)


class AgentLoop:
    """One agent of one session; the only writer of that agent's messages.

    Args:
        identity: Who it is.
        access: What answers its requests, and what that is told around the conversation.
        toolkit: What it can do.
        journal: Where history and ledger are kept.
        policy: What bounds it.
        observers: Who follows it.
    """

    def __init__(
        self,
        identity: AgentIdentity,
        *,
        access: ModelAccess,
        toolkit: Toolkit,
        journal: Journal,
        policy: Policy | None = None,
        observers: Observers | None = None,
    ) -> None:
        self._identity = identity
        self._agent = identity.agent
        self._access = access
        self._purse = access.purse
        self._prompt = access.prompt
        self._toolkit = toolkit
        self._policy = policy or Policy()
        self._limits = self._policy.limits
        self._observers = observers or Observers()
        self._voice = self._observers.voice
        self._at = Breakpoint.READY
        self._running = False
        self._over = False  # whether the end of this run was told
        self._since = 0  # circles are looked for from there on; a process that takes over looks at all of it
        self._log = Transcript(journal, identity)
        self._hooks = Hooks(self._policy.hooks, lambda event: self._log.commit(Batch(events=[event])))
        self._window = Window(
            self._log,
            toolkit,
            access,
            self._hooks,
            limit_tokens=self._limits.context_tokens,
            marks=CallMarks(begin=self._streaming, end=self._summed_up),
        )
        self._calls = Calls(self._log, toolkit, self._policy, hooks=self._hooks, move=self._move, told=self.told)

    @property
    def breakpoint(self) -> Breakpoint:
        """Where the loop stands, for whoever has it in hand; others read it in the log, as ``breakpoint_change``."""
        return self._at

    def told(self, outcome: LoopOutcome) -> list[NewEvent]:
        """Make the events that tell of a run's end, for whoever stores why; none where nobody is told.

        The loop itself stores those of an end that nothing else is stored of: see `run`.
        """
        if self._voice is None:
            return []
        return self._voice.done(outcome.kind, outcome.text, outcome.suspended_call_id)

    async def add_user(
        self, text: str | Sequence[str], batch: Batch | None = None, *, pictures: Sequence[ImageBlock] = ()
    ) -> MessageRecord:
        """Record what a person says, durably, together with ``batch``; also while the loop runs.

        Args:
            text: The words; several where not all of them are a person's (`koda_ray.agent.own_words`).
            batch: Committed with them.
            pictures: What they are about, for the model to look at.

        Raises:
            InvalidInput: INVALID_INPUT, the text is blank.
            Fenced: FENCED, another activation owns the session.
        """
        texts = [text] if isinstance(text, str) else text
        if not texts or not all(each.strip() for each in texts):
            raise InvalidInput("the message is empty; say something")
        await self._log.refresh()
        record = self._log.record("user", [*({"type": "text", "text": each} for each in texts), *pictures])
        await self._log.commit(merged(Batch(messages=[record]), batch))
        return record

    async def waiting(self) -> ToolCallRecord | None:
        """Find the call that waits for a person, if one does."""
        await self._log.refresh()
        for call in self._log.open_calls():
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
        record = await self._waiting(call_id)
        if record is None:
            return False
        more = merged(resolved(record, "superseded", {}, at=now()), batch)
        outcome = ToolOutcome(content=content, is_error=is_error, batch=more)
        await self._calls.settle(settled(record, outcome, at=now()), outcome)
        self._look_again()
        return True

    async def approve(
        self, call_id: str, arguments: dict[str, JsonValue] | None = None, batch: Batch | None = None
    ) -> bool:
        """Let a call run that waits for a person's agreement; the next `run` does it.

        Args:
            call_id: The waiting call.
            arguments: What it runs with, where the person changed what was proposed.
            batch: Changes that belong to the answer.

        Returns:
            True when this decided it; False when it was decided already, and then nothing is written.

        Raises:
            InvalidInput: INVALID_INPUT, what it would run with does not fit the tool, is not allowed, or is changed and
                a hook is against it; it waits on.
            NotFound: NOT_FOUND, no such call in this agent's history.
            InvalidTransition: INVALID_TRANSITION, the call does not wait for agreement.
        """
        record = await self._waiting(call_id, agreement=True)
        if record is None:
            return False
        made = await self._calls.granted(record, arguments)
        if await self._waiting(call_id, agreement=True) is None:  # decided while hooks were heard
            return False
        await self._log.commit(merged(made, batch))
        self._look_again()
        return True

    async def reject(self, call_id: str, reason: str, batch: Batch | None = None) -> bool:
        """Refuse a call that waits for a person's agreement: it never runs, and the model reads why.

        Args:
            call_id: The waiting call.
            reason: Why, for the model.
            batch: Changes that belong to the answer.

        Returns:
            True when this decided it; False when it was decided already, and then nothing is written.

        Raises:
            NotFound: NOT_FOUND, no such call in this agent's history.
            InvalidTransition: INVALID_TRANSITION, the call does not wait for agreement.
        """
        record = await self._waiting(call_id, agreement=True)
        if record is None:
            return False
        known = "A person refused this call; nothing was run."
        if wanted(record):
            known = "A person refused what this call wanted to do next; that was not done."
        elif part_done(record):
            known = "A person does not want this call run again. It had begun and may have done part of its work."
        message = " ".join(each for each in (known, done_so_far(record), reason or "They gave no reason.") if each)
        outcome = ToolOutcome.failure("REJECTED", message, retryable=False)
        outcome.batch = merged(resolved(record, "rejected", {"reason": reason}, at=now()), batch)
        await self._calls.settle(settled(record, outcome, at=now()), outcome)
        self._look_again()
        return True

    async def _waiting(self, call_id: str, *, agreement: bool = False) -> ToolCallRecord | None:
        """Find a waiting call; None where it was decided before."""
        await self._log.refresh()
        record = self._log.calls.get(call_id)
        found = next((m for m in self._log.history if record is not None and m.id == record.message_id), None)
        if record is None or found is None:
            raise NotFound(f"there is no call {call_id!r} of {self._agent}")
        if recorded_result(record) is not None or (agreement and record.status in ("approved", "started")):
            return None
        if record.status != "waiting":
            raise InvalidTransition(f"call {call_id} of {record.name} is {record.status}, it waits for nobody")
        if agreement and not is_approval(record):
            raise InvalidTransition(f"call {call_id} of {record.name} waits for an answer, not for agreement")
        return record

    def _look_again(self) -> None:
        self._since = len(self._log.history)  # a person has looked at it
        if not self._running:
            self._at = derive(self._log.history, self._log.calls)

    async def reload(self) -> None:
        """Read history and ledger again: somebody else changed them.

        Raises:
            InvalidTransition: INVALID_TRANSITION, it is running; cancel and await the run first.
        """
        if self._running:
            raise InvalidTransition(f"the loop of {self._agent} runs; cancel it before its history is changed")
        await self._log.load()
        self._since = 0
        self._at = derive(self._log.history, self._log.calls)

    async def place(self) -> int:
        """Take a place in the history, for `abandon`: what is said from now on follows it."""
        if not self._log.loaded:  # else at once: whoever speaks after this was asked for comes after it
            await self._log.refresh()
        return self._log.reserve()

    async def abandon(self, reason: str, batch: Batch | None = None, *, place: int | None = None) -> int:
        """Store that a person stopped the work: it is at rest, whoever has it next, until something is said to it.

        Every call that is open is closed, so that the next run does none of it.

        Args:
            reason: Why, for the model: one sentence.
            batch: Committed with it, also when nothing is open.
            place: Where it was stopped, by `place`; after all that was said by now when None.

        Returns:
            How many calls were closed.

        Raises:
            InvalidTransition: INVALID_TRANSITION, it is running; cancel and await the run first.
        """
        own, count = await self.abandoning(reason, place)
        said = sorted([*self._log.history, *own.messages], key=lambda each: each.position)
        at = derive(said, self._log.calls | {row.id: row for row in own.tool_calls})
        if at != self._log.entered and (own.messages or self._log.entered is not None):
            own.events.append(self._log.entry(at))
        await self._log.commit(merged(own, batch))
        self._at = at
        return count

    async def abandoning(self, reason: str, place: int | None = None) -> tuple[Batch, int]:
        """Make the changes of an `abandon`, to be committed by somebody else; and count the calls that it closes.

        Raises:
            InvalidTransition: INVALID_TRANSITION, it is running; cancel and await the run first.
        """
        if self._running:
            raise InvalidTransition(f"the loop of {self._agent} runs; cancel it before its calls are abandoned")
        await self._log.load()
        history, open_ = self._log.history, self._log.open_calls()
        place = place_of_halt(history, place)
        own = self._calls.abandoning(open_, reason, place)
        stopped = [each for each in history if place is None or each.position < place]
        if derive(stopped, self._log.calls) is Breakpoint.PRE_MODEL:
            own.messages.append(self._log.record("user", [halted(reason)], place))
        return own, len(open_)

    async def run(self) -> LoopOutcome:
        """Go on from wherever the history stands until the model is done, a person is needed or a bound is reached.

        That it ``stopped`` or reached a ``limit`` is told here, the last word and a call that waits with their rows;
        whoever asks a person what to do about a run that is ``stuck`` or ``paused`` tells of that with the question.

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
            self._at, self._over = derive(self._log.history, self._log.calls), False
            if self._log.entered is None and self._at is Breakpoint.READY:
                self._log.entered = self._at  # nothing is told of a run that finds nothing to do
            self._note()
            outcome = await self._run()
            tells = outcome.kind in ("limit", "stopped") and not self._over
            await self._log.keep_notes(self.told(outcome) if tells else ())
            return outcome
        finally:
            self._running = False

    async def _run(self) -> LoopOutcome:
        turns, cut_off, self._calls.made = 0, 0, 0
        while True:
            await self._look()
            history = self._log.history
            if open_ := self._log.open_calls():
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
            if (circle := self._circle(history[max(0, self._since - 1) :])) is not None:
                self._since = len(history)
                self._rest()
                return LoopOutcome(kind="stuck", text=circle)
            if turns >= self._limits.turns or cut_off >= self._limits.model_attempts:
                self._rest()
                what = f"{turns} answers of the model" if turns >= self._limits.turns else "answers cut off too often"
                return LoopOutcome(kind="limit", text=f"Stopped at the limit of one run: {what}.")
            turns += 1
            try:
                stop = await self._ask_compressed()
            except BudgetExceeded as error:
                self._rest()
                return LoopOutcome(kind="paused", text=error.message, exceeded=Exceeded.by(error))
            if isinstance(stop, Stop):
                self._rest()
                return LoopOutcome(kind="stopped", text=stop.reason)
            cut_off = cut_off + 1 if stop == "max_tokens" else 0

    async def _look(self) -> None:
        """Have what waits to be heard put into the history, and then look at that."""
        await self._prompt.ready()
        await self._log.refresh()

    def _circle(self, recent: Sequence[MessageRecord]) -> str | None:
        kit = self._toolkit
        since = from_records(recent[last_said(recent) :])
        return going_in_circles(since, kit.changes, self._limits.stuck, tracks=kit.tracks, todo=self._prompt.todo())

    # --- the model ------------------------------------------------------------------------------------------------

    async def _ask_compressed(self) -> str | Stop:
        """Ask, with old turns summed up first where they take too much room; once more where the provider says so."""
        if isinstance(made := await self._window.compress(self._request), Stop):
            return made
        try:
            return await self._ask()
        except ModelError as error:
            if error.code != "MODEL_CONTEXT_OVERFLOW":
                raise
            self._move(Breakpoint.PRE_MODEL)
            await self._log.refresh()
            if isinstance(squeezed := await self._window.squeeze(self._request()), Stop):
                return squeezed
            if not squeezed:
                raise
        return await self._ask()

    async def _ask(self) -> str | Stop:
        for attempt in range(1, self._limits.model_attempts + 1):
            request, position = self._request(), self._log.reserve()
            request = await self._hooks.before_model(request)
            if isinstance(request, Stop):
                return request
            call_id = new_id("msg")
            if self._purse is not None:
                request = await self._purse.begin(
                    call_id, request, self._streaming, substitutes=substitutes_of(self._access.provider)
                )
            await self._streaming()
            answer = ModelAttempt(self._access.provider, request)
            if self._voice is not None:
                self._voice.begin(call_id)
            try:
                completed = await answer.read(self._observers.on_event if self._voice is None else self._heard)
            except (ModelStreamBroken, ModelOverloaded) as error:
                # an overload before anything streamed was tried again by the provider already
                again = isinstance(error, ModelStreamBroken) or answer.began
                await self._unanswered(call_id, request, error, answer)
                if not again or attempt == self._limits.model_attempts:
                    raise
                await self._again(attempt, error)
                self._move(Breakpoint.PRE_MODEL)
                await self._look()
            except (Exception, asyncio.CancelledError) as error:
                await self._unanswered(call_id, request, error, answer)
                raise
            else:
                return await self._keep(request, position, completed, call_id)
        raise AssertionError("the last attempt returns or raises")

    async def _streaming(self, reserved: Batch | None = None) -> None:
        """Store that the model is asked, with what is reserved for that; only then is it so.

        Nothing is stored where it is so already, and nothing more was reserved.
        """
        to = Breakpoint.STREAMING_MODEL
        if self._at is to and reserved is None:
            return
        await self._log.commit(merged(Batch(events=[self._log.entry(to)]), reserved))
        self._move(to)

    def _summed_up(self) -> None:
        if self._at is Breakpoint.STREAMING_MODEL:
            self._move(Breakpoint.PRE_MODEL)

    async def _heard(self, event: LoopEvent) -> None:
        if self._observers.on_event is not None:
            await self._observers.on_event(event)
        if self._voice is not None and (pieces := self._voice.heard(event)):
            await self._log.commit(Batch(events=pieces))

    async def _unanswered(
        self, call_id: str, request: ModelRequest, error: BaseException, answer: ModelAttempt
    ) -> None:
        """Close the account of a call that gave no answer; where that cannot be stored, the next call does it."""
        entries = self._purse.unanswered(call_id, request, error, chars=answer.chars) if self._purse is not None else []
        if entries:
            with contextlib.suppress(KodaError):
                await self._log.commit(Batch(charges=entries))

    def _request(self) -> ModelRequest:
        shown = self._window.shown()
        state, briefing, system = self._prompt.context(), self._prompt.briefing(), self._prompt.system
        return ModelRequest(
            agent=self._agent,
            model=self._access.model,
            system=(*system, briefing) if briefing else system,
            messages=with_state(shown.messages, state),
            tools=self._toolkit.specs,
            max_tokens=self._limits.max_tokens,
            volatile_blocks=1 if state else 0,
            settled_blocks=shown.settled,
            discards=True,
        )

    async def _again(self, attempt: int, error: ModelStreamBroken | ModelOverloaded) -> None:
        wait_s = self._limits.first_wait_s * 2 ** (attempt - 1) * random.uniform(0.5, 1.0)
        _log.warning(
            "model_retry", session_id=self._identity.session_id, agent=self._agent, attempt=attempt, code=error.code
        )
        event = NewEvent(
            type="model_retry",
            data={"agent": self._agent, "attempt": attempt, "code": error.code, "waitS": round(wait_s, 3)},
        )
        await self._log.commit(Batch(events=[event]))
        if self._observers.on_event is not None:
            await self._observers.on_event(ModelRetry(attempt=attempt, code=error.code, wait_s=wait_s))
        await asyncio.sleep(wait_s)

    async def _keep(self, request: ModelRequest, position: int, completed: Completed, call_id: str) -> str | Stop:
        used = completed
        completed, stop = await self._hooks.after_model(request, completed)
        record = self._log.record("assistant", list(completed.message.content), position, call_id)
        self._window.gauge.learn(request, completed.usage)
        batch, cost_usd = Batch(), None
        if self._purse is not None:
            settle, cost_usd = self._purse.settle(call_id, request, used)
            batch.charges.append(settle)
        batch.events.append(usage_event(request, completed, cost_usd=cost_usd, cause_id=record.id))
        if completed.stop_reason == "refusal":
            # a refused turn stays out of the history: with it, later requests would be refused too
            await self._log.commit(batch)
            self._rest()
            said = text_of(completed.message)
            raise ModelRefused(f"the model declined to answer{': ' + said if said else ''}; ask for something else")
        batch.messages.append(record)
        calls = tool_uses(completed.message)
        cut_off = completed.stop_reason == "max_tokens"
        if not calls and (cut_off or not text_of(completed.message).strip()):
            note = CUT_OFF if cut_off else EMPTY
            batch.messages.append(self._log.record("user", [{"type": "text", "text": note}]))
        if self._voice is not None:
            batch.events.extend(self._voice.said(record))
        if stop is not None:
            batch.events.extend(self.told(LoopOutcome(kind="stopped", text=stop.reason)))
        elif not calls and len(batch.messages) == 1 and not self._is_answered_again(position):
            batch.events.extend(self.told(LoopOutcome(kind="end_turn", text=text_of(completed.message))))
        self._over = stop is not None
        self._move(Breakpoint.TOOL_PENDING if calls else Breakpoint.READY)  # before: it is stored with the answer
        await self._log.commit(batch)
        return stop or completed.stop_reason

    def _is_answered_again(self, position: int) -> bool:
        """Whether the run goes on after the last word at this place: somebody spoke meanwhile, or will report."""
        history = self._log.history
        return (bool(history) and history[-1].position > position) or self._observers.goes_on()

    # --- small parts ----------------------------------------------------------------------------------------------

    def _move(self, to: Breakpoint) -> None:
        self._at = advance(self._at, to)
        self._note()

    def _note(self) -> None:
        """Have the next commit tell where it is; there is one before a model is asked or a tool runs."""
        if self._at != self._log.entered:
            self._log.note(self._at)

    def _rest(self) -> None:
        if self._at is not Breakpoint.READY:
            self._move(Breakpoint.READY)
