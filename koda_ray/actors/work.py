"""Doing what a session owes: run the agents until a person is needed, or render the accepted animation.

What is owed stands in the state, so this can be cut off anywhere and begun again: the agents go on from their
history and ledger, a render from the units that are stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from pydantic import JsonValue

from koda_ray.actors.core import SessionCore
from koda_ray.actors.session_jobs import JobRequest, SessionJobs
from koda_ray.actors.spending import pause_for
from koda_ray.actors.unread import UnreadWords
from koda_ray.agent.lead import Lead
from koda_ray.agent.limits import LoopOutcome
from koda_ray.agent.own_words import reminder
from koda_ray.budgets import Exceeded
from koda_ray.commands import Ask, Closed, Fail, Finished
from koda_ray.errors import BudgetExceeded, DatabaseAway, Fenced, InvalidTransition, KodaError
from koda_ray.logs import get_logger
from koda_ray.phases import STOP, at_rest
from koda_ray.render.spec import Preset, RenderSpec
from koda_ray.roles.orchestrator import opening
from koda_ray.state.records import Batch
from koda_ray.tracing import span
from koda_ray.types import NodeState, Option, Output, Owes, Question, RenderOptions

__all__ = ["MAX_NUDGES", "Work", "final_spec"]

MAX_NUDGES = 2
"""How often agents that stop short are told what is still owed."""
_WHY_CHARS = 400
_log = get_logger()

_OWED = {
    "analyze": "Nobody has been asked anything yet: call request_approval with a question or a plan.",
    "plan": "The plan is still missing: call request_approval with type plan.",
    "execute": "The preview is still missing: finish the todos and call render_preview.",
}


class Work:
    """One session's work, a piece at a time."""

    def __init__(self, core: SessionCore, *, loop: Lead, jobs: SessionJobs, unread: UnreadWords) -> None:
        self._core = core
        self._loop = loop
        self._jobs = jobs
        self._unread = unread

    async def run(self) -> None:
        """Do what is owed until nothing is; what cannot be done becomes the error phase, or a question about money.

        Last words that a crash left unsaid are said first; what comes of them changes nothing.

        Raises:
            Fenced: A newer activation owns the session.
            DatabaseAway: What is owed still is: it is gone on with once there is a database.
        """
        while (owes := self._core.state.owes) is not None or self._core.state.closing:
            ids = {"koda.session": self._core.session_id, "koda.owes": owes or "last words"}
            with span("session work", ids, parent=self._core.trace):
                await self._do(owes)

    async def _do(self, owes: Owes | None) -> None:
        """Do one piece."""
        try:
            try:
                if owes is None:
                    await self._loop.run()
                    await self._close()
                elif owes == "render_final":
                    await self._render_final()
                else:
                    await self._run_agents()
            except BudgetExceeded as error:
                if at_rest(self._core.state):
                    await self._close()
                else:
                    await self._core.commit(Batch(phase_commands=[pause_for(Exceeded.by(error))]))
        except (Fenced, DatabaseAway):
            raise
        except InvalidTransition:
            # a person changed the phase while an outcome was on its way: look again at what is owed
            if self._core.state.owes == owes:
                raise
        except KodaError as error:
            await self._fail(error.message, error.code)
        except Exception as error:
            _log.exception("work failed", session_id=self._core.session_id, owes=owes)
            await self._fail(f"an internal error ended the work: {type(error).__name__}", "INTERNAL", str(error))

    async def _fail(self, message: str, code: str, details: str | None = None) -> None:
        """End in the error phase; what fails when all is done, such as the last words, takes nothing back."""
        state = self._core.state
        if at_rest(state):
            _log.warning("failed at rest", session_id=self._core.session_id, phase=state.phase, code=code)
            await self._close()
            return
        await self._core.commit(Batch(phase_commands=[Fail(message=message, code=code, details=details)]))

    async def _close(self) -> None:
        """Have no more last words said, where there were none."""
        if self._core.state.closing:
            await self._core.commit(Batch(phase_commands=[Closed()]))

    async def _run_agents(self) -> None:
        nudges = 0
        if not await self._core.store.messages(self._core.session_id, agent="orchestrator"):
            await self._loop.add_user(opening(self._core.state))
        while (owes := self._core.state.owes) in _OWED:
            outcome = await self._loop.run()
            if self._core.state.owes not in _OWED:
                await self._close()
                return
            if outcome.exceeded is not None:
                raise outcome.exceeded.error()
            if outcome.kind == "suspended":
                await self._carry_on(outcome)
            elif outcome.kind == "end_turn" and nudges < MAX_NUDGES:
                nudges += 1
                await self._loop.add_user(reminder(_OWED[owes or "execute"]))
            elif outcome.kind == "stopped":
                await self._fail(
                    f"the agents were stopped before they were done: {outcome.text[:500]}", "AGENT_STOPPED"
                )
                return
            else:
                await self._ask_how_to_go_on(outcome)
                return

    async def _ask_how_to_go_on(self, outcome: LoopOutcome) -> None:
        """Put it to the person: going on alone would only cost more."""
        why = outcome.text[:_WHY_CHARS] if outcome.kind != "end_turn" else "I stopped before I was done"
        question = Question(
            text=f"I do not get on by myself: {why}. How shall I go on? Say what to do differently, or choose.",
            options=(
                Option(id="go-on", label="Try another way", description="I look at it again from the start"),
                Option(id=STOP, label="Leave it as it is", description="Nothing that was made is lost"),
            ),
            reason="stuck",
        )
        await self._core.commit(Batch(phase_commands=[Ask(question)]))

    async def _carry_on(self, outcome: LoopOutcome) -> None:
        """Answer a call that waits for a person who has spoken already."""
        await self._unread.heed()
        said = list(self._core.state.feedback[self._core.state.feedback_seen :])
        content: dict[str, JsonValue] = {"status": "changes", "feedback": "\n".join(said)}
        await self._loop.resolve(outcome.suspended_call_id or "", json.dumps(content, ensure_ascii=False))

    async def _render_final(self) -> None:
        state = self._core.state
        if state.preview is None or state.output is None:
            raise InvalidTransition("a final render needs an accepted preview")
        job_id = state.output.job_id
        spec = await self._spec(state)
        result = await self._jobs.run_as_possible(JobRequest(spec=spec, id=job_id, kind="final"))
        base = f"/v1/sessions/{self._core.session_id}"
        output = Output(
            job_id=job_id,
            video_url=f"{base}/video?kind=final&job={job_id}",
            thumbnail_url=f"{base}/thumbnail?kind=final&job={job_id}",
            duration=result.duration_s,
            resolution=f"{result.width}x{result.height}",
            file_size=result.size_bytes,
            format=(state.render or RenderOptions()).format,
            transparent=spec.alpha,
            fps=round(result.frame_count / result.duration_s, 3),  # lower where it could not be made as asked
        )
        await self._core.commit(Batch(phase_commands=[Finished(output)]))

    async def _spec(self, state: NodeState) -> RenderSpec:
        preview = state.preview
        assert preview is not None
        job = await self._core.store.get_job(preview.job_id)
        return final_spec(state.render or RenderOptions(), preview.bundle, job.spec)


def final_spec(options: RenderOptions, bundle: str, preview_spec: Mapping[str, JsonValue]) -> RenderSpec:
    """Turn what a person asked for into a render spec, in the accepted preview's aspect and duration.

    Args:
        options: Resolution, frames per second, format and whether it is transparent.
        bundle: Content hash of the accepted bundle.
        preview_spec: The preview's spec as stored with its job.
    """
    shown = RenderSpec.from_json(dict(preview_spec))
    preset: Preset = options.resolution
    spec = RenderSpec.from_preset(
        preset,
        bundle=bundle,
        duration_s=shown.duration_s,
        size=(shown.width, shown.height),
        fps=options.fps,
        format=options.format,
    )
    return replace(spec, moves=shown.moves, alpha=options.transparent)
