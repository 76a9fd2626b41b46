"""The phase machine under random commands: never an invalid state, never a dead end, work owed always visible."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray import commands
from koda_ray.commands import (
    Accept,
    Allow,
    Answer,
    Approve,
    Ask,
    AskAgreement,
    Cancel,
    Closed,
    Command,
    Deliver,
    EditPlan,
    Fail,
    Finished,
    Heed,
    Pause,
    Previewed,
    Propose,
    PutBack,
    Refuse,
    Reject,
    Render,
    RequestChanges,
    Retry,
    Say,
    SetPermissions,
    SetTodos,
    SetTodoStatus,
    Start,
    TakeBack,
    Think,
    Wrote,
)
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.phases import STOP, apply, check
from koda_ray.types import (
    MAX_DURATION_S,
    Budget,
    NodeState,
    Note,
    Option,
    Output,
    PendingCall,
    Plan,
    Pointed,
    Preview,
    Question,
    RenderOptions,
    Scene,
    SceneEdit,
    SessionPermissions,
    Todo,
)
from tests import tiers

AT = datetime(2026, 1, 1, tzinfo=UTC)
SCENES = tuple(
    Scene(number=n, title=title, duration=d, description=f"The ball: {title}")
    for n, (title, d) in enumerate([("Drop", 1.5), ("Bounce", 2.0), ("Rest", 1.5)], 1)
)
PLAN = Plan(scenes=SCENES, total_duration=5, style="playful")
QUESTION = Question(
    text="Which style?", options=(Option(id="playful", label="Playful"), Option(id="smooth", label="Smooth"))
)

STUCK = Question(
    text="I am going in circles. How should I go on?",
    options=(Option(id="go-on", label="Try another way"), Option(id=STOP, label="Leave it")),
    reason="stuck",
)
CALL = PendingCall(approval_id="apr_1", call_id="cal_1", agent="orchestrator", name="generate_code")


MORE = Question(
    text="The budget is used up. Go on?",
    options=(Option(id="more", label="Go on with more"), Option(id="stop", label="Stop")),
    custom_input=False,
    reason="budget",
)


def fresh(**fields: object) -> NodeState:
    ids = {"node_id": "nod_1", "user_id": "local", "project_id": "prj_1", "session_id": "ses_1"}
    return NodeState.model_validate({"created_at": AT, "updated_at": AT, **ids, **fields})


def preview(job: str = "job_p") -> Preview:
    return Preview(video_url="/v", job_id=job, bundle="b" * 64, duration=5)


def walk(state: NodeState, *commands: Command) -> NodeState:
    for command in commands:
        state, _ = apply(state, command, AT)
        assert check(state) == []
    return state


WORDS = st.sampled_from(["make it red", "twice as fast", "", "   ", "赤く", "x" * 20_001])
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(Start, st.one_of(st.none(), WORDS)),
    st.builds(
        Answer, st.sampled_from([None, "playful", "nonsense", "go-on", "more", STOP]), st.one_of(st.none(), WORDS)
    ),
    st.builds(Accept, st.sampled_from(["job_1", "job_2", ""])),
    st.builds(Reject, WORDS),
    st.builds(RequestChanges, WORDS),
    st.builds(Say, WORDS, id=st.sampled_from(["cmd_1", "cmd_2"])),
    st.builds(TakeBack, st.sampled_from(["cmd_1", "cmd_2"])),
    st.builds(Heed, st.sampled_from(["cmd_1", "cmd_2"])),
    st.sampled_from(
        [
            EditPlan(tuple(SceneEdit(scene=n) for n in (3, 1, 2))),
            EditPlan(tuple(SceneEdit(scene=n, duration=2.5) for n in (1, 2, 3))),
            EditPlan((SceneEdit(scene=1, duration=2.0),)),
            EditPlan((SceneEdit(scene=4),)),
        ]
    ),
    st.just(Cancel()),
    st.just(Retry()),
    st.builds(Render, st.just(RenderOptions(resolution="720p", fps=30)), st.sampled_from(["job_1", "job_2"])),
    st.sampled_from([Ask(QUESTION), Ask(STUCK)]),
    st.just(AskAgreement(CALL)),
    st.just(AskAgreement(CALL.model_copy(update={"approval_id": "apr_2"}))),
    st.builds(Approve, st.sampled_from(["apr_1", "apr_2"])),
    st.builds(Refuse, st.just("apr_1"), WORDS),
    st.builds(SetPermissions, st.builds(SessionPermissions, mode=st.sampled_from(["auto", "ask"]))),
    st.sampled_from([Propose(PLAN), Propose(PLAN.model_copy(update={"total_duration": 9.0}))]),
    st.just(SetTodos((Todo(id="t1", label="Set up"), Todo(id="t2", label="Scene 1")))),
    st.builds(SetTodoStatus, st.sampled_from(["t1", "t2", "t9"]), st.sampled_from(["pending", "active", "done"])),
    st.just(Think("Writing App.tsx")),
    st.just(Wrote((("src/App.tsx", 12),))),
    st.builds(Deliver, st.integers(0, 4)),
    st.just(Previewed(preview())),
    st.just(Closed()),
    st.builds(
        lambda job, url: Finished(Output(job_id=job, video_url=url, duration=5)),
        st.sampled_from(["job_1", "job_2"]),
        st.sampled_from(["/video", None]),
    ),
    st.builds(
        Pause, st.just(MORE), st.just("cost"), st.just("ses_1"), st.just(1_000_000), st.sampled_from([2_000_000, None])
    ),
    st.builds(Allow, st.sampled_from([Budget(cost_usd=1), Budget(cost_usd=5), Budget(tokens=9)])),
    st.builds(Fail, st.just("it broke"), st.just("BUILD_FAILED"), st.booleans()),
)
A_WAY_OUT: list[Command] = [
    Answer("more"),
    Say("other"),
    Approve("apr_1"),
    Start("ball"),
    Accept("job_9"),
    Cancel(),
    Retry(),
    RequestChanges("x"),
]


@settings(max_examples=tiers.examples(400), deadline=None)
@given(st.lists(COMMANDS, max_size=30))
def test_no_sequence_of_commands_reaches_an_invalid_state(said: list[Command]) -> None:
    state = fresh(prompt="a bouncing ball")
    for command in said:
        try:
            new, effects = apply(state, command, AT)
        except (InvalidTransition, InvalidInput) as refused:
            assert refused.message
            continue
        assert check(new) == [], command
        if new.owes is not None and new.owes != state.owes:
            assert any(isinstance(e, commands.Emit) and e.type == "state_change" for e in effects)
        if state.owes == "render_final" and new.owes != "render_final" and not isinstance(command, Finished | Pause):
            assert any(isinstance(e, commands.CancelJob) for e in effects), "a render nobody waits for must be ended"
        state = new


@settings(max_examples=tiers.examples(300), deadline=None)
@given(st.lists(COMMANDS, max_size=30))
def test_every_reachable_state_can_be_left(said: list[Command]) -> None:
    state = fresh(prompt="a bouncing ball")
    for command in said:
        try:
            state, _ = apply(state, command, AT)
        except (InvalidTransition, InvalidInput):
            continue
    taken = []
    for command in A_WAY_OUT:
        try:
            new, _ = apply(state, command, AT)
        except (InvalidTransition, InvalidInput):
            continue
        # words that only wait to be heard are no way out
        if (new.phase, new.owes, new.approval) != (state.phase, state.owes, state.approval):
            taken.append(command)
    assert taken, f"no way out of {state.phase} owing {state.owes}"
    if state.owes is not None:
        assert apply(state, Cancel(), AT)[0].owes is None


@settings(max_examples=tiers.examples(200), deadline=None)
@given(st.lists(COMMANDS, max_size=25), st.data())
def test_a_session_that_is_put_back_is_what_it_was_at_rest(said: list[Command], data: st.DataObject) -> None:
    states = [fresh(prompt="a bouncing ball", owes="analyze", sandbox_id=None)]
    for command in said:
        try:
            states.append(apply(states[-1], command, AT)[0])
        except (InvalidTransition, InvalidInput):
            continue
    now, past = states[-1].model_copy(update={"sandbox_id": "sbx_1"}), data.draw(st.sampled_from(states))
    new, effects = apply(now, PutBack(past), AT)
    assert check(new) == [] and new.owes is None and new.sandbox_id == "sbx_1"
    assert (commands.StopWork() in effects) == (now.owes is not None)
    assert any(isinstance(e, commands.CancelJob) for e in effects) == (now.owes == "render_final")
    if past.owes is None and past.approval is None and past.paused is None:
        kept: dict[str, object] = {
            "sandbox_id": "sbx_1",
            "updated_at": AT,
            "permissions": now.permissions,
            "budget": now.budget,
        }
        kept["unread"] = tuple(each.model_copy(update={"binding": False}) for each in past.unread)
        assert new == past.model_copy(update={**kept, "closing": False})
    if new != now or effects:
        assert isinstance(told := effects[-1], commands.Emit) and told.type == "state_change"


def test_the_usual_way_ends_complete() -> None:
    state = walk(
        fresh(),
        Start("a bouncing ball"),
        Ask(QUESTION),
        Answer("playful"),
        Propose(PLAN),
        Accept(),
        SetTodos((Todo(id="t1", label="Set up"),)),
        SetTodoStatus("t1", "done"),
        Previewed(preview()),
        Accept("job_f"),
    )
    assert (state.phase, state.owes) == ("preview", "render_final")
    assert state.output is not None and state.output.job_id == "job_f"
    state = walk(state, Finished(Output(job_id="job_f", video_url="/video", duration=5)))
    assert (state.phase, state.owes, state.style) == ("complete", None, "playful")


def test_since_when_work_is_owed_stays_while_it_goes_on() -> None:
    def later(state: NodeState, command: Command, s: float) -> NodeState:
        return apply(state, command, AT + timedelta(seconds=s))[0]

    state = later(fresh(), Start("A ball"), 1)
    assert (state.owes, state.owed_since) == ("analyze", AT + timedelta(seconds=1))
    state = later(state, Propose(PLAN), 2)
    assert (state.owes, state.owed_since) == (None, None)
    state = later(state, Accept(), 5)
    working = later(state, Think("A ball is round"), 9)
    assert working.owed_since == state.owed_since == AT + timedelta(seconds=5)
    assert later(working, Cancel(), 10).owed_since is None


def test_a_clear_style_goes_straight_to_the_plan() -> None:
    assert walk(fresh(), Start("a ball, playful"), Propose(PLAN)).phase == "plan"


def test_rejecting_the_plan_asks_again_and_changing_it_plans_again() -> None:
    planned = walk(fresh(), Start("a ball"), Propose(PLAN))
    rejected = walk(planned, Reject("not a ball at all"))
    assert (rejected.phase, rejected.owes, rejected.plan) == ("question", "analyze", None)
    changed = walk(planned, RequestChanges("shorter"))
    assert (changed.phase, changed.owes, changed.feedback) == ("plan", "plan", ("shorter",))


def test_feedback_given_during_work_keeps_the_preview_from_ending_it() -> None:
    working = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Say("make it red", id="cmd_1"))
    assert walk(working, Previewed(preview())).phase == "executing"
    heard = walk(working, Heed("cmd_1"))
    assert (heard.feedback, heard.unread) == (("make it red",), ())
    assert walk(heard, Previewed(preview())).phase == "executing"
    assert walk(heard, Deliver(1), Previewed(preview())).phase == "preview"


def test_what_was_not_heeded_is_taken_back_and_nothing_of_it_is_left() -> None:
    note = Note(text="larger", time=1.0)
    working = walk(fresh(), Start("a ball"), Propose(PLAN), Accept())
    said = walk(working, Say("make it red", (note,), "cmd_1"), Say("and round", id="cmd_2"))
    assert [each.id for each in said.unread] == ["cmd_1", "cmd_2"] and said.feedback == said.pointed == ()
    left = walk(said, TakeBack("cmd_1"))
    assert [each.id for each in left.unread] == ["cmd_2"]
    assert walk(left, TakeBack("cmd_2"), Previewed(preview())).phase == "preview", "nothing keeps it from resting"
    heard = walk(said, Heed("cmd_1"))
    assert heard.pointed == (Pointed(change=1, words="make it red", notes=(note,)),)
    for state, command in ((heard, TakeBack("cmd_1")), (said, TakeBack("cmd_9")), (left, Heed("cmd_1"))):
        with pytest.raises(InvalidTransition, match="cmd_"):
            apply(state, command, AT)


def test_what_work_that_failed_is_taken_up_for_is_not_taken_back() -> None:
    said = walk(fresh(), Start("a ball"), Say("red", id="cmd_1"))
    again = walk(said, Fail("it broke", "X", can_retry=False), Say("round", id="cmd_2"))
    assert (again.phase, again.owes) == ("idle", "analyze")
    assert [(each.id, each.binding) for each in again.unread] == [("cmd_1", False), ("cmd_2", True)]
    with pytest.raises(InvalidTransition, match=r"stop the work .cancel."):
        apply(again, TakeBack("cmd_2"), AT)
    assert walk(again, TakeBack("cmd_1")).unread == again.unread[1:]
    assert walk(said, Fail("it broke", "X"), TakeBack("cmd_1")).unread == ()


def test_what_becomes_of_what_was_said_is_announced_once() -> None:
    working = walk(fresh(), Start("a ball"))
    said = walk(working, Say("red", id="cmd_1"))
    failed = walk(working, Fail("it broke", "X"))
    moves: list[tuple[NodeState, Command]] = [(working, Say("red", id="cmd_1")), (said, TakeBack("cmd_1"))]
    moves += [(said, Heed("cmd_1")), (said, Ask(QUESTION)), (said, Propose(PLAN)), (failed, Say("red", id="cmd_1"))]
    for state, command in moves:
        new, effects = apply(state, command, AT)
        told = [dict(each.data) for each in effects if isinstance(each, commands.Emit) and each.type == "state_change"]
        assert new.unread != state.unread
        assert [each["state"] for each in told] == [new.model_dump(mode="json", by_alias=True)], command


def test_what_was_not_heeded_is_written_only_where_there_is_any() -> None:
    working = walk(fresh(), Start("a ball"))
    said = walk(working, Say("red", id="cmd_1"))
    for state, is_there in ((working, False), (said, True), (walk(said, TakeBack("cmd_1")), False)):
        assert ("unread" in state.model_dump(mode="json", by_alias=True)) is is_there
        assert ('"unread"' in (written := state.model_dump_json())) is is_there
        assert NodeState.model_validate_json(written) == state


def test_a_message_is_stored_as_what_it_was_judged_to_be_or_not_at_all() -> None:
    working = walk(fresh(), Start("a ball"))
    planned, failed = walk(working, Propose(PLAN)), walk(working, Fail("it broke", "X"))
    for state, waits in ((working, True), (planned, False), (failed, True)):
        said = apply(state, Say("red", id="cmd_1", waits=waits), AT)[0]
        assert bool(said.unread) == waits and (said.feedback == ("red",)) != waits
    paused, idle = walk(working, Pause(MORE, "cost", "ses_1", 1_000_000, 2_000_000)), walk(working, Cancel())
    for state, waits in ((working, False), (planned, True), (paused, True), (idle, True)):
        with pytest.raises(InvalidTransition, match="say it again"):
            apply(state, Say("more", waits=waits), AT)
    assert walk(paused, Say("more", waits=False)).owes == walk(idle, Say("red", waits=False)).owes == "analyze"


@pytest.mark.parametrize("shown", [Ask(QUESTION), Propose(PLAN), Previewed(preview())])
def test_what_agents_go_on_for_is_not_taken_back(shown: Command) -> None:
    before = (Start("a ball"), *((Propose(PLAN), Accept()) if isinstance(shown, Previewed) else ()))
    said = walk(fresh(), *before, Say("make it red", id="cmd_1"))
    assert said.owes is not None and walk(said, TakeBack("cmd_1"), shown).owes is None
    bound = walk(said, shown)
    assert bound.owes is not None
    with pytest.raises(InvalidTransition, match=r"stop the work .cancel."):
        apply(bound, TakeBack("cmd_1"), AT)
    assert not walk(fresh(), PutBack(bound)).unread[0].binding, "nobody works any more"


def test_last_words_are_to_come_until_they_are_said_or_a_person_goes_on() -> None:
    shown = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Previewed(preview()))
    assert shown.closing and shown.owes is None
    for said in (Closed(), Accept("job_f"), Say("red"), Reject("not red"), PutBack(shown)):
        assert not walk(shown, said).closing


def test_a_change_during_the_final_render_gives_that_render_up() -> None:
    rendering = walk(fresh(), Start("a ball"), Propose(PLAN), Accept(), Previewed(preview()), Accept("job_f"))
    state, effects = apply(rendering, Say("make it red"), AT)
    assert commands.CancelJob("job_f") in effects
    assert (state.phase, state.owes, state.output) == ("executing", "execute", None)


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


def test_an_unknown_option_names_the_options() -> None:
    asked = walk(fresh(), Start("a ball"), Ask(QUESTION))
    with pytest.raises(InvalidInput, match="playful, smooth"):
        apply(asked, Answer("loud"), AT)


def test_todos_that_are_done_stay_done_when_the_list_is_set_again() -> None:
    todos = (Todo(id="t1", label="Set up"), Todo(id="t2", label="Scene"))
    working = walk(
        fresh(), Start("a ball"), Propose(PLAN), Accept(), SetTodos(todos), SetTodoStatus("t1", "done"), SetTodos(todos)
    )
    assert working.execution is not None
    assert [t.status for t in working.execution.todos] == ["done", "pending"]


@pytest.mark.parametrize(
    ("durations", "wrong"),
    [
        ((2.0,), None),
        ((1.5, 1.5, 1.5), None),
        ((1.0, 1.0), "has 1 to 1"),
        ((2.5, 2.5), "has 3 to"),
        ((1.0, 2.0, 2.0), "at least 1.5 s"),
        ((2.0,) * 8, None),
        ((4.0,) * 4, "has 5 to 12"),
    ],
)
def test_plans_keep_to_the_rules_for_scenes(durations: tuple[float, ...], wrong: str | None) -> None:
    scenes = tuple(Scene(number=n, title="s", duration=d, description="d") for n, d in enumerate(durations, 1))
    plan = Plan(scenes=scenes, total_duration=sum(durations), style="smooth")
    started = walk(fresh(), Start("a ball"))
    if wrong is None:
        assert walk(started, Propose(plan)).phase == "plan"
    else:
        with pytest.raises(InvalidInput, match=wrong):
            apply(started, Propose(plan), AT)


def test_a_person_renames_retimes_reorders_and_leaves_out_scenes() -> None:
    state = walk(fresh(options={"duration": 5}), Start("A ball"), Propose(PLAN))
    edits = (SceneEdit(scene=3, title="Still"), SceneEdit(scene=1, duration=2.5))
    edited, effects = apply(state, EditPlan(edits), AT)
    assert edited.plan is not None and check(edited) == []
    assert [(s.number, s.title, s.duration) for s in edited.plan.scenes] == [(1, "Still", 1.5), (2, "Drop", 2.5)]
    assert (edited.plan.total_duration, edited.options.duration, edited.plan_edited) == (4.0, 4.0, True)
    assert [type(each).__name__ for each in effects] == ["ApprovalChange", "Emit"]
    same = tuple(SceneEdit(scene=number) for number in (1, 2))
    assert apply(edited, EditPlan(same), AT) == (edited, ())
    again = walk(edited, RequestChanges("red"), Propose(PLAN))
    assert (again.plan, again.plan_edited) == (PLAN, False)


@pytest.mark.parametrize(
    ("edits", "wrong"),
    [
        ((SceneEdit(scene=4),), "there is no scene 4; the plan has scenes 1, 2, 3"),
        ((SceneEdit(scene=1), SceneEdit(scene=1)), "scene 1 is named twice"),
        ((), "no scene is left"),
        ((SceneEdit(scene=1, duration=0.5), SceneEdit(scene=2, duration=3.0)), "scene 1 lasts 0.5 s"),
        ((SceneEdit(scene=1, duration=9.0),), "1 scenes in 9 s"),
        (tuple(SceneEdit(scene=n, duration=MAX_DURATION_S) for n in (1, 2, 3)), "s at most"),
    ],
)
def test_an_edit_keeps_to_the_rules_for_scenes(edits: tuple[SceneEdit, ...], wrong: str) -> None:
    state = walk(fresh(), Start("A ball"), Propose(PLAN))
    with pytest.raises(InvalidInput, match=wrong):
        apply(state, EditPlan(edits), AT)
    for elsewhere in (walk(state, Accept()), walk(fresh(), Start("A ball"))):
        with pytest.raises(InvalidTransition, match="only a plan that waits"):
            apply(elsewhere, EditPlan((SceneEdit(scene=1),)), AT)


def test_a_scene_that_is_too_short_is_named_by_its_place_among_the_edits() -> None:
    state = walk(fresh(), Start("A ball"), Propose(PLAN))
    edits = (SceneEdit(scene=3), SceneEdit(scene=1, duration=0.5), SceneEdit(scene=2, duration=3.0))
    with pytest.raises(InvalidInput) as refused:
        apply(state, EditPlan(edits), AT)
    assert refused.value.context == {"field": "scenes.1.duration"}


def test_a_second_style_question_is_refused() -> None:
    answered = walk(fresh(), Start("a ball"), Ask(QUESTION), Answer("playful"))
    with pytest.raises(InvalidInput, match="propose a plan"):
        apply(answered, Ask(QUESTION), AT)
    assert walk(answered, Ask(QUESTION.model_copy(update={"reason": "impossible"}))).phase == "question"


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


def test_an_option_that_stands_for_ones_own_words_needs_some() -> None:
    own = Option(id="other", label="Something else")
    asking = walk(fresh(), Start("a ball"), Ask(QUESTION.model_copy(update={"options": (*QUESTION.options, own)})))
    for nothing in (None, " "):
        with pytest.raises(InvalidInput, match="'other' stands for your own words") as refused:
            apply(asking, Answer("other", nothing), AT)
        assert refused.value.context["field"] == "text"
    assert walk(asking, Answer("other", "hand-drawn")).answers[-1].text == "hand-drawn"
    choosing = walk(fresh(), Start("a ball"), Ask(Question(text="Which?", options=(own,), custom_input=False)))
    assert walk(choosing, Answer("other")).answers[-1].option_id == "other"


def test_an_answer_is_told_with_the_question_that_it_answers() -> None:
    asking = walk(fresh(), Start("a ball"), Ask(QUESTION))
    for answer in (Answer("playful"), Say("hand-drawn")):
        told = [dict(each.data) for each in apply(asking, answer, AT)[1] if isinstance(each, commands.Emit)]
        (said,) = [each for each in told if each.get("role") == "user"]
        assert said["asked"] == QUESTION.text
    (started,) = [each for each in apply(fresh(), Start("a ball"), AT)[1] if isinstance(each, commands.Emit)][:1]
    assert (started.type, "asked" in dict(started.data)) == ("message", False)


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
