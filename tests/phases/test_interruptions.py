"""What comes between: stopped and failed work, calls that wait, agents that are stuck, a budget that is used up."""

from __future__ import annotations

import pytest

from koda_ray import commands
from koda_ray.commands import (
    Accept,
    Allow,
    Answer,
    Approve,
    Ask,
    AskAgreement,
    Cancel,
    Fail,
    Finished,
    Pause,
    Previewed,
    Propose,
    PutBack,
    Refuse,
    Render,
    RequestChanges,
    Retry,
    Say,
    Start,
)
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.phases import STOP, apply, check
from koda_ray.types import Budget, NodeState, Output, RenderOptions
from tests.phases.story import AT, CALL, MORE, PLAN, QUESTION, STUCK, fresh, preview, walk


def test_cancel_goes_back_to_what_a_person_can_act_on() -> None:
    working = walk(fresh(), Start("a ball"), Propose(PLAN), Accept())
    assert walk(working, Cancel()).phase == "plan"
    previewed = walk(working, Previewed(preview()))
    assert walk(previewed, Say("red"), Cancel()).phase == "preview"
    assert walk(previewed, Accept("job_f"), Cancel()).owes is None
    with pytest.raises(InvalidTransition, match="nothing is under way"):
        apply(previewed, Cancel(), AT)


def test_retry_takes_up_what_failed() -> None:
    failed = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Fail("no", "BUILD_FAILED"))
    assert failed.phase == "error" and failed.error is not None and failed.error.can_retry
    again = walk(failed, Retry())
    assert (again.phase, again.owes, again.error) == ("executing", "execute", None)


def test_what_was_stopped_is_known_until_there_is_work_again_and_going_back_stops_nothing() -> None:
    working = walk(fresh(), Start("a ball"), Propose(PLAN), Accept())
    stopped = walk(working, Cancel())
    assert (working.stopped, stopped.stopped, walk(stopped, Accept()).stopped) == (None, "execute", None)
    assert walk(walk(working, AskAgreement(CALL)), Cancel()).stopped == "execute"
    assert walk(fresh(), Start("a ball"), Cancel()).stopped == "analyze"
    shown = walk(working, Previewed(preview()))
    assert walk(shown, Accept("job_f"), Cancel()).stopped == "render_final"
    assert walk(shown, PutBack(working)).stopped is None
    for state, is_there in ((working, False), (stopped, True)):
        assert ("stopped" in state.model_dump(mode="json", by_alias=True)) is is_there


def test_cancelling_another_render_leaves_the_finished_video() -> None:
    url = Output(job_id="job_f", video_url="/video", duration=5)
    done = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Previewed(preview()), Accept("job_f"), Finished(url))
    again = walk(done, Render(RenderOptions(resolution="4k"), "job_4k"))
    assert (again.phase, again.owes) == ("preview", "render_final")
    kept = walk(again, Cancel())
    assert (kept.phase, kept.output) == ("complete", url)


def test_a_video_stays_what_it_is_when_another_format_is_not_made_after_all() -> None:
    shown = Output(job_id="job_f", video_url="/video", duration=5, format="mp4", transparent=False, fps=60)
    done = walk(
        fresh(), Start("a ball"), Propose(PLAN), Accept(), Previewed(preview()), Accept("job_f"), Finished(shown)
    )
    kept = walk(done, Render(RenderOptions(format="gif", transparent=True), "job_gif"), Cancel())
    assert (kept.phase, kept.output, kept.final_format) == ("complete", shown, "mp4")
    assert kept.render == RenderOptions(format="gif", transparent=True), "it is what was asked for last"
    before = kept.model_copy(update={"output": Output(job_id="job_f", video_url="/video"), "render": None})
    assert before.final_format == "mp4"
    asked = before.model_copy(update={"render": RenderOptions(format="webm")})
    assert asked.final_format == "webm", "made before a video said what it is"


def test_a_call_that_waits_for_agreement_holds_the_work_until_it_is_decided() -> None:
    working = walk(fresh(prompt="a ball"), Start(), Propose(PLAN), Accept(""))
    waits = walk(working, AskAgreement(CALL))
    assert waits.owes is None and waits.approval == CALL.model_copy(update={"owes": "execute"})
    for command in (Accept("job_1"), RequestChanges("red"), Retry()):
        with pytest.raises(InvalidTransition, match="generate_code waits for your agreement"):
            apply(waits, command, AT)
    with pytest.raises(InvalidTransition, match="the call that waits is apr_1"):
        apply(waits, Approve("apr_2"), AT)
    for decided in (walk(waits, Approve("apr_1")), walk(waits, Refuse("apr_1", "no"))):
        assert (decided.phase, decided.owes, decided.approval) == ("executing", "execute", None)
    said = walk(waits, Say("use blue", id="cmd_1"))
    assert [each.told for each in said.unread] == ["use blue"] and said.approval == waits.approval
    assert walk(waits, Cancel()).phase == "plan"
    with pytest.raises(InvalidTransition, match="no tool call waits"):
        apply(working, Approve("apr_1"), AT)


def test_calls_that_wait_are_decided_in_any_order_and_the_work_goes_on_after_the_last() -> None:
    working = walk(fresh(prompt="a ball"), Start(), Propose(PLAN), Accept(""))
    other = CALL.model_copy(update={"approval_id": "apr_2", "agent": "helper"})
    both = walk(working, AskAgreement(CALL), AskAgreement(other))
    assert both.approval is not None and [call.approval_id for call in both.approvals_next] == ["apr_2"]
    for first, second in (("apr_1", "apr_2"), ("apr_2", "apr_1")):
        one = walk(both, Approve(first))
        assert one.owes is None and one.approval is not None and one.approval.approval_id == second
        assert walk(one, Refuse(second)).owes == "execute"
    assert walk(both, Cancel()).approvals_next == ()


def test_a_preview_made_while_another_agents_call_waits_is_shown_and_does_not_end_the_work() -> None:
    working = walk(fresh(prompt="a ball"), Start(), Propose(PLAN), Accept(""))
    waits = walk(working, AskAgreement(CALL.model_copy(update={"agent": "helper"})))
    shown, effects = apply(waits, Previewed(preview()), AT)
    assert check(shown) == [] and shown.phase == "executing"
    assert (shown.preview, shown.approval) == (preview(), waits.approval)
    assert [effect.type for effect in effects if isinstance(effect, commands.Emit)] == ["preview_ready"]
    decided = walk(shown, Approve("apr_1"))
    assert (decided.phase, decided.owes) == ("executing", "execute")
    assert walk(decided, Previewed(preview())).phase == "preview"
    assert walk(shown, Cancel()).phase == "preview"


def test_agents_that_are_stuck_ask_and_go_on_where_they_were_or_stop() -> None:
    working = walk(fresh(prompt="a ball"), Start(), Propose(PLAN), Accept(""))
    stuck = walk(working, Ask(STUCK))
    assert (stuck.phase, stuck.owes) == ("question", None)
    again = walk(stuck, Answer("go-on"))
    assert (again.phase, again.owes, again.plan_accepted, again.style) == ("executing", "execute", True, working.style)
    assert walk(stuck, Say("leave the shadow out")).phase == "executing"
    for stop in (Answer(STOP), Cancel()):
        left = walk(stuck, stop)
        assert (left.phase, left.owes, left.question) == ("plan", None, None)
    seen = walk(working, Previewed(preview()), RequestChanges("red"), Ask(STUCK), Answer(STOP))
    assert (seen.phase, seen.owes) == ("preview", None)


@pytest.mark.parametrize("owes", ["analyze", "plan", "execute", "render_final"])
def test_a_pause_asks_and_an_answer_goes_back_to_where_it_was(owes: str) -> None:
    asked = walk(fresh(prompt="a ball"), Start(), Ask(QUESTION))
    at: dict[str, NodeState] = {"analyze": walk(fresh(prompt="a ball"), Start())}
    at["plan"] = walk(asked, Answer("playful"))
    at["execute"] = walk(at["plan"], Propose(PLAN), Accept(""))
    at["render_final"] = walk(at["execute"], Previewed(preview()), Accept("job_1"))
    before = at[owes]
    paused = walk(before, Pause(MORE, "cost", "ses_1", 1_000_000, 2_000_000))
    assert (paused.phase, paused.owes, paused.question) == ("question", None, MORE)
    for no in (Answer(text="yes please"), Answer("playful"), Say("go on"), Accept("job_2"), Retry()):
        with pytest.raises((InvalidInput, InvalidTransition)):
            apply(paused, no, AT)
    on = walk(paused, Answer("more"))
    assert on.budget is not None and on.budget.cost_usd == 2
    assert on.model_copy(update={"budget": None}) == before
    (_, effects) = apply(paused, Answer("stop"), AT)
    stopped = walk(paused, Answer("stop"))
    assert stopped == walk(paused, Cancel()) == walk(before, Cancel())
    assert any(isinstance(effect, commands.StopWork) for effect in effects)
    monthly = walk(before, Pause(MORE, "cost", "month:2026-11", 1_000_000))
    assert walk(monthly, Answer("more")) == before, "nobody raises a limit that is not theirs"
    for too_little in (Budget(cost_usd=1), Budget(tokens=10**9)):
        assert walk(paused, Allow(too_little)).paused is not None
    allowed = walk(paused, Allow(Budget(cost_usd=7, tokens=9)))
    assert allowed.model_copy(update={"budget": None}) == before
    assert (
        allowed.budget == Budget(cost_usd=7, tokens=9) and walk(monthly, Allow(Budget(cost_usd=9))).paused is not None
    )
    without = walk(allowed, Allow(Budget(tokens=None)))
    assert without.budget == Budget(cost_usd=7), "a limit that is said to be none is taken away"
    assert walk(paused, Allow(Budget(tokens=None))).paused is not None
    unlimited = walk(paused, Allow(Budget(cost_usd=None)))
    assert unlimited.budget == Budget() and unlimited.model_copy(update={"budget": None}) == before
    failed = walk(paused, Fail(message="gone", code="X"))
    assert failed.error is not None and failed.error.owes == owes and walk(failed, Retry()) == before
