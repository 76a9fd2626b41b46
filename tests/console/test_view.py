from __future__ import annotations

import asyncio
import io
import os
import signal
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from koda_ray.client import KodaClient
from koda_ray.console.ask import AskPerson, Nobody, Yes
from koda_ray.console.follow import LiveScreen, follow
from koda_ray.console.live import LiveView, phase_line
from koda_ray.console.plain import PlainLines
from koda_ray.console.text import clean, duration, one_line, size, slug, time_left
from koda_ray.console.view import CODE_KEPT_CHARS, View
from koda_ray.events import CHANNELS, Envelope
from koda_ray.types import (
    Budget,
    ErrorInfo,
    Execution,
    NodeState,
    Option,
    Output,
    Paused,
    PendingCall,
    Plan,
    Preview,
    Question,
    Scene,
    Todo,
    now,
)
from koda_ray.wire import ApprovalView

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = Plan(
    scenes=(
        Scene(number=1, title="Drop in", duration=2.0, description="The ball falls"),
        Scene(number=2, title="Bounce", duration=3.0, description="It comes to rest"),
    ),
    total_duration=5.0,
    style="playful",
)
QUESTION = Question(
    text="Which style?",
    options=(
        Option(id="playful", label="Playful"),
        Option(id="dark", label="Dark"),
        Option(id="other", label="Something else"),
    ),
)


def state(phase: str, owes: str | None = None, **more: Any) -> NodeState:
    given: dict[str, Any] = {"node_id": "nod_1", "user_id": "local", "project_id": "local", "session_id": "ses_1"}
    return NodeState.model_validate({**given, "phase": phase, "owes": owes, "prompt": "a ball", **more})


class Story:
    """Events one after another, a second apart."""

    def __init__(self) -> None:
        self.view = View("ses_1")
        self.lines: list[str] = []
        self._plain = PlainLines(self.lines.append, began=BEGAN)

    def tell(self, type: str, **data: Any) -> Story:
        seq = self.view.seq + 1
        event = Envelope.model_validate(
            {
                "stream_id": "ses_1",
                "seq": seq,
                "channel": CHANNELS.get(type, "progress"),
                "type": type,
                "data": data,
                "at": BEGAN + timedelta(seconds=seq),
            }
        )
        self.view.apply(event)
        self._plain.show(self.view, event)
        return self

    def reach(self, new: NodeState) -> Story:
        return self.tell("state_change", phase=new.phase, owes=new.owes, state=new.model_dump(mode="json"))


def drawn(view: View, *, width: int = 100, height: int = 40) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False, legacy_windows=False)
    shown = LiveView(view, prompt="a ball 球 " * 20, began=BEGAN)
    with console.capture() as captured:
        console.print(shown, height=height)
    return captured.get().rstrip("\n").split("\n")


def working() -> Story:
    story = Story().reach(state("plan", plan=PLAN))
    story.reach(state("executing", "execute", plan=PLAN, plan_accepted=True, execution=Execution()))
    for number in range(12):
        story.tell(
            "todo_update", todoId=f"t{number}", label=f"Step {number}", status="done" if number < 5 else "pending"
        )
    story.tell("todo_update", todoId="t5", status="active").tell("thinking", message="Writing src/App.tsx")
    code = "".join(f"const line{n} = {n};\n" for n in range(60))
    for offset in range(0, len(code), 50):
        story.tell("code_chunk", path="src/App.tsx", offset=offset, delta=code[offset : offset + 50])
    story.tell("render_start", jobId="job_1", quality="preview", frames=75, width=640, height=360, fps=15)
    return story.tell(
        "render_progress", jobId="job_1", quality="preview", percent=42.4, stage="capturing", secondsLeft=7
    )


# --- the view -------------------------------------------------------------------------------------------------------


def test_a_view_knows_what_is_going_on() -> None:
    view = working().view
    assert view.state is not None and view.state.phase == "executing"
    assert view.todos["t5"].status == "active" and view.todos["t5"].label == "Step 5"
    assert view.code is not None and view.code.text.endswith("const line59 = 59;\n")
    bar = view.bar("preview")
    assert bar is not None and (bar.percent, bar.size, bar.seconds_left) == (42.4, "640x360 15 fps", 7.0)
    assert [(span.phase, span.owes) for span in view.spans] == [("plan", None), ("executing", "execute")]


def test_a_render_that_waits_for_a_machine_says_for_how_long() -> None:
    waiting = {"percent": 0.0, "stage": "waiting", "waitedS": 75.0}
    bar = working().tell("render_progress", jobId="job_1", quality="preview", **waiting).view.bar("preview")
    assert bar is not None and bar.stage == "waiting for a machine, 1:15"


def test_a_file_that_is_written_is_no_longer_being_written() -> None:
    story = working().tell("file_written", path="src/App.tsx", size=1400)
    assert story.view.code is None and story.view.files == {"src/App.tsx": 1400}


def test_a_writer_that_begins_again_does() -> None:
    story = (
        Story().tell("code_chunk", path="a", offset=0, delta="wrong").tell("code_chunk", path="a", offset=0, delta="ok")
    )
    assert story.view.code is not None and story.view.code.text == "ok"


def test_long_files_are_not_kept_whole() -> None:
    story, line = Story(), "x" * 99 + "\n"
    for number in range(2000):
        story.tell("code_chunk", path="a", offset=number * 100, delta=line)
    code = story.view.code
    assert code is not None and len(code.text) <= CODE_KEPT_CHARS and code.chars == 200_000
    assert code.cut_lines + code.text.count("\n") == 2000


def test_usage_is_added_up() -> None:
    story = Story().tell("usage", inputTokens=10, model="m").tell("usage", inputTokens=5, outputTokens=1)
    assert story.view.usage == {"inputTokens": 15, "outputTokens": 1}


@given(
    st.sampled_from(sorted({"state_change", "todo_update", "code_chunk", "render_progress", "error", "usage"})),
    st.data(),
)
def test_no_event_breaks_a_view(type: str, data: st.DataObject) -> None:
    values = (
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.lists(st.text())
    )
    names = [
        "phase",
        "state",
        "todoId",
        "status",
        "path",
        "offset",
        "delta",
        "percent",
        "jobId",
        "message",
        "secondsLeft",
    ]
    body = data.draw(st.dictionaries(st.sampled_from(names), values))
    story = working().tell(type, **body)
    assert drawn(story.view)


# --- how it looks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(100, 40), (100, 24), (80, 24), (60, 16), (200, 60), (40, 12)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    lines = drawn(working().view, width=width, height=height)
    assert len(lines) < height + 1
    assert max(cell_len(line) for line in lines) <= width
    text = "\n".join(lines)
    assert "Writing src/App.tsx" in text and "Step 5" in text


def test_everything_is_there_where_there_is_room() -> None:
    text = "\n".join(drawn(working().view, width=120, height=60))
    for part in (
        "koda",
        "ses_1",
        "making it",
        "Drop in",
        "✔ Step 4",
        "● Step 5",
        "○ Step 11",
        "const line59",
        "42 %",
        "7.0 s left",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (state("question", question=QUESTION), "Waiting for your answer"),
        (state("plan", plan=PLAN), "accept the plan"),
        (state("idle", "analyze"), "Reading the prompt"),
        (state("executing", approval=PendingCall(approval_id="a", call_id="c", agent="o", name="put")), "agree to put"),
        (
            state("error", error=ErrorInfo(message="the page threw", code="PAGE_ERROR", phase="executing")),
            "the page threw",
        ),
        (state("complete", output=Output(job_id="j", video_url="u")), "Done"),
    ],
)
def test_each_phase_says_what_it_waits_for(new: NodeState, says: str) -> None:
    assert says in "\n".join(drawn(Story().reach(new).view))


def test_the_steps_of_a_job() -> None:
    assert phase_line(None).plain == "  ○ question ── ○ plan ── ○ making it ── ○ preview ── ○ video"
    assert "● question" in phase_line(state("idle", "analyze")).plain
    assert "· question ── ● plan" in phase_line(state("plan", plan=PLAN)).plain
    assert "✔ question ── ● plan" in phase_line(state("plan", question=QUESTION, plan=PLAN)).plain
    failed = state("error", plan=PLAN, error=ErrorInfo(message="m", code="c", phase="executing"))
    assert "✔ plan ── ✖ making it" in phase_line(failed).plain
    preview = Preview(video_url="u", job_id="j", bundle="b", duration=5)
    rendering = state("preview", "render_final", plan=PLAN, preview=preview, output=Output(job_id="j"))
    assert "✔ preview ── ● video" in phase_line(rendering).plain


def test_a_models_words_do_not_drive_the_terminal() -> None:
    story = working().tell("thinking", message="\x1b[2J\x1b[31mgotcha\x07 [red]markup[/red] \u202egnirts")
    text = "\n".join(drawn(story.view))
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "[red]markup[/red]" in text


# --- lines ----------------------------------------------------------------------------------------------------------


def test_one_line_for_each_thing_worth_one() -> None:
    story = working()
    story.tell("render_complete", jobId="job_1", quality="preview").tell(
        "message", role="assistant", content="one\ntwo"
    )
    story.reach(state("preview", preview=Preview(video_url="u", job_id="j", bundle="b", duration=5)))
    assert not any("\n" in line for line in story.lines)
    text = "\n".join(story.lines)
    for part in (
        "plan: 5 s, 2 scenes",
        "[>] Step 5",
        "agents    Writing",
        "preview 42 % capturing",
        "assistant one two",
    ):
        assert part in text, part
    assert "const line" not in text


def test_progress_is_told_in_steps() -> None:
    story = Story().tell("render_start", jobId="j", quality="final", frames=300)
    for percent in range(101):
        story.tell("render_progress", jobId="j", quality="final", percent=percent, stage="capturing")
    assert len([line for line in story.lines if " %" in line]) == 11


# --- who decides ----------------------------------------------------------------------------------------------------


def test_yes_takes_the_first_option_and_every_plan_and_preview() -> None:
    preview = Preview(video_url="u", job_id="j", bundle="b", duration=5)
    decided = [
        Yes().decide(found)
        for found in (state("question", question=QUESTION), state("plan", plan=PLAN), state("preview", preview=preview))
    ]
    assert [(one.action, one.option_id) for one in decided if one] == [
        ("answer", "playful"),
        ("accept", None),
        ("accept", None),
    ]
    assert Yes().decide(state("error", error=ErrorInfo(message="m", code="c"))) is None
    own = QUESTION.model_copy(update={"options": QUESTION.options[::-1]})
    assert (chosen := Yes().decide(state("question", question=own))) is not None and chosen.option_id == "dark"
    impossible = Question(text="Two hours?", reason="impossible")
    assert Yes().decide(state("question", question=impossible)) is not None
    assert Nobody().decide(state("plan", plan=PLAN)) is None


@pytest.mark.parametrize(
    ("typed", "action", "option_id", "text"),
    [
        (["2"], "answer", "dark", None),
        ([""], "answer", "playful", None),
        (["Dark"], "answer", "dark", None),
        (["9", "in pastel colours"], "answer", None, "in pastel colours"),
        (["3", "", "hand-drawn"], "answer", None, "hand-drawn"),
        (["other", "2"], "answer", None, "2"),
    ],
)
def test_a_question_is_answered_by_number_name_or_words(
    typed: list[str], action: str, option_id: str | None, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=io.StringIO())
    monkeypatch.setattr(console, "input", lambda *_: typed.pop(0))
    decision = AskPerson(console).decide(state("question", question=QUESTION))
    assert decision is not None
    assert (decision.action, decision.option_id, decision.text) == (action, option_id, text)


class _InterruptedConsole(Console):
    """Ctrl-C is pressed while a question is drawn."""

    pressed: bool | None = None

    def print(self, *objects: Any, **how: Any) -> None:
        if self.pressed is None and any("Which style?" in str(each) for each in objects):
            self.pressed = False
        super().print(*objects, **how)

    def __enter__(self) -> Console:
        entered = super().__enter__()
        if self.pressed is False:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)
        return entered


def test_an_interrupt_while_a_question_is_drawn_leaves_the_console_able_to_speak() -> None:
    console = _InterruptedConsole(file=io.StringIO())
    story = Story()
    story.view.seed(state("question", question=QUESTION), 1, BEGAN)
    shown = LiveScreen(console, LiveView(story.view, prompt="a ball", began=BEGAN))

    async def sit() -> None:
        async with KodaClient("http://127.0.0.1:9") as client:
            with shown:
                await follow(client, story.view, shown, AskPerson(console))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(sit())
    console.print("come back with koda watch")
    assert console.pressed and "come back" in cast("io.StringIO", console.file).getvalue()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ([""], ("accept", None)),
        (["c", "make it red"], ("changes", "make it red")),
        (["make it red"], ("changes", "make it red")),
        (["zz", "q"], ("leave", None)),
        (["r"], ("reject", None)),
    ],
)
def test_a_plan_is_accepted_changed_or_left(
    typed: list[str], expected: tuple[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=io.StringIO())
    monkeypatch.setattr(console, "input", lambda *_: typed.pop(0))
    decision = AskPerson(console).decide(state("plan", plan=PLAN))
    assert decision is not None and (decision.action, decision.text) == expected


CALL = ApprovalView(
    id="apr_1",
    kind="tool_call",
    status="pending",
    payload={"name": "put", "proposed": {"path": "a"}, "reason": "it changes something", "shown": "-old\n+new[b]"},
    call_id="cal_1",
    answer=None,
    created_at=now(),
    resolved_at=None,
)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ([""], ("approve", None, None)),
        (["e", "{", "[1]", '{"path": "b"}'], ("approve", None, {"path": "b"})),
        (["r", ""], ("refuse", None, None)),
        (["r", "not today"], ("refuse", "not today", None)),
        (["not today"], ("refuse", "not today", None)),
        (["zz", "q"], ("leave", None, None)),
    ],
)
def test_a_tool_call_is_shown_with_its_diff_and_let_run_changed_refused_or_left(
    typed: list[str], expected: tuple[str, str | None, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    console = Console(file=out)
    monkeypatch.setattr(console, "input", lambda *_: typed.pop(0))
    decision = AskPerson(console).agree(CALL)
    assert decision is not None and (decision.action, decision.text, decision.arguments) == expected
    for part in ("put", '"path": "a"', "-old", "+new[b]", "it changes something"):
        assert part in out.getvalue()


def test_yes_lets_a_call_run_and_leaves_what_is_stuck() -> None:
    yes, stuck = Yes(), Question(text="How shall I go on?", reason="stuck")
    assert (decision := yes.agree(CALL)) is not None and decision.action == "approve"
    assert (decision := yes.decide(state("question", question=stuck))) is not None and decision.option_id == "stop"
    assert Nobody().agree(CALL) is None


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("Create a bouncing ball animation, playful", "create-a-bouncing-ball-animation-playful"),
        ("ボールがはねる", "ボールがはねる"),
        ("../../etc/passwd", "etc-passwd"),
        ("?!", "video"),
        ("x" * 300, "x" * 48),
    ],
)
def test_folders_are_named_by_the_prompt(prompt: str, name: str) -> None:
    assert slug(prompt) == name


@given(st.text())
def test_a_slug_is_always_one_safe_name(prompt: str) -> None:
    name = slug(prompt)
    assert name and "/" not in name and name not in (".", "..") and len(name.encode()) <= 255


def test_numbers_as_people_say_them() -> None:
    assert [duration(value) for value in (0, 0.84, 9.9, 42.4, 65, 3661)] == [
        "0.0 s",
        "0.8 s",
        "9.9 s",
        "42 s",
        "1:05",
        "1:01:01",
    ]
    assert [time_left(*given) for given in ((7.0, 40.0), (0.04, 94.0), (None, 1.0), (3.0, 100.0))] == [
        "7.0 s left",
        "",
        "",
        "",
    ]
    assert [size(value) for value in (12, 3200, 14_000_000, 2e9)] == ["12 B", "3.2 kB", "14 MB", "2.0 GB"]
    assert one_line("a\n b\tc", 10) == "a b c" and one_line("abcdef", 4) == "abc…"
    assert clean("a\x1b[31mb\x9bc") == "abc"


def test_going_back_shows_what_was_then_and_undoing_it_shows_the_rest_again() -> None:
    story = Story()
    story.tell("message", role="user", content="a ball")  # 1
    story.tell("message", role="assistant", content="Here it is.")  # 2
    story.tell("message", role="user", content="red")  # 3
    story.tell("todo_update", todoId="t", label="Paint", status="active")
    story.tell("render_start", jobId="job_1", quality="preview", frames=60)
    then = state("plan", execution=Execution(todos=(Todo(id="s", label="Set up"),)).model_dump()).model_dump(
        mode="json"
    )
    story.tell("rewound", point="msg_1", headId="hed_1", history=[[1, 3]])
    story.tell("state_change", phase="plan", owes=None, state=then)
    assert story.view.messages == [("user", "a ball"), ("assistant", "Here it is.")]
    assert list(story.view.todos) == ["s"] and story.view.bars == {}
    assert any("back to msg_1" in line and "--undo" in line for line in story.lines)
    story.tell("message", role="user", content="green")  # 8
    story.tell("rewound", point="hed_1", headId="hed_2", history=[[1, 6]])
    assert [words for _, words in story.view.messages] == ["a ball", "Here it is.", "red"]
    story.tell("forked", sessionId="ses_0", point=None, seq=3)
    assert "forked" in story.lines[-1]
    story.tell("command_refused", command="accept", code="INVALID_TRANSITION", message="cannot accept in phase idle")
    assert "accept: cannot accept in phase idle" in story.lines[-1]
    story.tell("command_delayed", command="rewind", code="DISK_FULL", message="the disk is full")
    assert "rewind, and is tried again: the disk is full" in story.lines[-1]


# --- what it costs ----------------------------------------------------------------------------------------------------

MORE = Question(
    text="The budget of $1.00 does not cover what comes next. Go on?",
    options=(Option(id="more", label="Go on with $1.00 more"), Option(id="stop", label="Stop here")),
    custom_input=False,
    reason="budget",
)
PAUSED = Paused(phase="executing", owes="execute", resource="cost", account="ses_1", limit=10**6, raise_to=2 * 10**6)


def test_what_it_costs_is_shown_and_a_warning_until_there_is_more() -> None:
    story = Story()
    story.tell(
        "state_change",
        state=state("executing", "execute", execution=Execution()).model_dump(by_alias=True, mode="json"),
    )
    story.tell("usage", inputTokens=10, costUsd=0.5).tell("usage", inputTokens=5, costUsd=None)
    story.tell("budget_warning", message="81 % of $1.00 are used")
    assert (story.view.cost_usd, story.view.usage["inputTokens"]) == (0.5, 15)
    assert any("budget" in line and "81 %" in line for line in story.lines)
    drawn = io.StringIO()
    console = Console(file=drawn, width=100, force_terminal=True, color_system=None)
    console.print(LiveView(story.view, prompt="a ball", began=BEGAN))
    assert "$0.50" in drawn.getvalue() and "81 % of $1.00" in drawn.getvalue()
    more = state("executing", "execute", execution=Execution(), budget=Budget(cost_usd=2))
    story.tell("state_change", state=more.model_dump(by_alias=True, mode="json"))
    assert story.view.warning == ""


def test_agreeing_to_everything_is_not_agreeing_to_a_bill() -> None:
    paused = state("question", question=MORE, paused=PAUSED, execution=Execution())
    decided = Yes().decide(paused)
    assert decided is not None and decided.action == "leave"
    assert phase_line(paused).plain == phase_line(state("executing", "execute", execution=Execution())).plain
    console = Console(file=io.StringIO(), force_terminal=True)
    console.input = lambda *_, **__: "2"  # type: ignore[method-assign, assignment]
    asked = AskPerson(console).decide(paused)
    assert asked is not None and asked.option_id == "stop"


def test_half_a_file_is_not_shown_once_a_part_of_it_is_left_out() -> None:
    story = Story().tell("code_chunk", path="src/App.tsx", offset=0, delta="export ")
    story.tell("resync", reason="slow", after=1, wholeFrom=900, leftOut=700)
    assert story.view.code is None
    assert story.lines[-1].endswith("700 events of progress are left out: what reads this is too slow")
