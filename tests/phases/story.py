"""A session in tests of its phases: what is asked and proposed, every command, and how it goes on by some."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

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
from koda_ray.phases import STOP, apply, check
from koda_ray.types import (
    Budget,
    NodeState,
    Option,
    Output,
    PendingCall,
    Plan,
    Preview,
    Question,
    RenderOptions,
    Scene,
    SceneEdit,
    SessionPermissions,
    Todo,
)

__all__ = ["AT", "CALL", "COMMANDS", "MORE", "PLAN", "QUESTION", "SCENES", "STUCK", "WORDS", "fresh", "preview", "walk"]

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
