"""What a person said stays said, in every order of questions, answers, rejections and changes."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.roles.offline import make_plan, parse_brief
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.conversation import read_state
from koda_ray.roles.offline.understand import Said, understand
from koda_ray.roles.orchestrator import session_block, state_block
from koda_ray.types import Answered, NodeState
from tests.roles.offline.desk import Desk, heard

BALL = "Create a bouncing ball animation"
GREEN = "#22A559"

How = Literal["answered", "rejected", "changes", "later"]

WISHES: dict[str, tuple[str, object]] = {
    "with confetti": ("particle_kind", "confetti"),
    "with snow": ("particle_kind", "snow"),
    "green please": ("accent", GREEN),
    "red please": ("accent", "#E5322D"),
    "make it 8 seconds": ("duration_s", 8.0),
    "make it 12 seconds": ("duration_s", 12.0),
    "a serif font": ("font", "serif"),
    "in monospace": ("font", "mono"),
    "three balls": ("count", 3),
    "no shadow": ("shadow", False),
    "make it cinematic": ("style", "cinematic"),
    "playful": ("style", "playful"),
    "make it vertical": ("height", 1920),
}
"""What is said, and what must be so until the next word about the same thing."""


def brief_of(desk: Desk) -> Brief:
    """Return what the director makes of all that the session tells it."""
    view = read_state([heard(state_block(desk.node))], ("", session_block(desk.node, [])))
    return understand(Said(prompt=view.prompt, answers=view.answers, feedback=view.feedback)).brief


def told(how: How, words: str) -> list[dict[str, Any]]:
    """Return what a person does at a plan, so that the words are said in that way."""
    if how == "answered":
        return [{"status": "rejected"}, {"status": "answered", "text": words}]
    if how == "rejected":
        return [
            {"status": "rejected", "feedback": words},
            {"status": "answered", "optionId": "other", "text": "as I said"},
        ]
    return [{"status": "changes", "feedback": words}]


async def test_an_earlier_answer_stays_when_a_plan_is_rejected_and_another_is_given() -> None:
    desk = Desk(
        BALL,
        answers=[
            {"status": "answered", "text": "with confetti"},
            {"status": "rejected"},
            {"status": "answered", "text": "green please"},
        ],
    )
    await desk.run()
    assert desk.plan.style.endswith("with confetti; green please")
    desk.change("make it 8 seconds")
    await desk.run()
    brief = brief_of(desk)
    assert (brief.particles, brief.particle_kind, brief.accent, brief.duration_s) == (True, "confetti", GREEN, 8.0)
    assert 'kind="confetti"' in desk.files["src/App.tsx"] + desk.files["src/scenes/MainScene.tsx"]
    assert GREEN in desk.files["src/theme.ts"]


async def test_the_later_word_counts_whichever_way_it_was_said() -> None:
    desk = Desk(BALL, answers=[
        {"status": "answered", "optionId": "playful"},
        {"status": "changes", "feedback": "red please"},
        {"status": "rejected"},
        {"status": "answered", "text": "green please"},
    ])  # fmt: skip
    await desk.run()
    assert GREEN in desk.files["src/theme.ts"]
    taken, said = desk.node.answers
    assert taken == Answered(option_id="playful", label="Playful & bouncy"), "its words, for who heard no question"
    assert said == Answered(text="green please", after_changes=1)


async def test_a_style_that_comes_with_the_request_is_not_asked_for_and_is_kept() -> None:
    desk = Desk(BALL, style="cinematic")
    await desk.run()
    assert [asked["type"] for asked in desk.calls("request_approval")] == ["plan"]
    assert brief_of(desk).style == "cinematic"


async def test_what_the_plan_is_called_is_read_by_nobody() -> None:
    desk = Desk(BALL, answers=[{"status": "answered", "text": "with confetti"}])
    await desk.run()
    files = dict(desk.files)
    desk.node = desk.node.model_copy(
        update={
            "style": "Cinematic & dramatic — with snow",
            "answer": "no shadow",
            "plan": desk.plan.model_copy(update={"style": "Cinematic & dramatic — red, with snow"}),
        }
    )
    desk.change("add another ball")
    await desk.run()
    assert brief_of(desk).particle_kind == "confetti"
    assert desk.files["src/theme.ts"] == files["src/theme.ts"]


def test_a_state_that_was_stored_without_answers_keeps_the_last_one() -> None:
    stored = {"nodeId": "nod_1", "userId": "usr_1", "projectId": "prj_1", "sessionId": "ses_1", "prompt": BALL}
    answered = NodeState.model_validate({**stored, "style": "cinematic", "answer": "Cinematic & dramatic: in green"})
    brief = understand(Said(prompt=BALL, answers=answered.answers)).brief
    assert (brief.style, brief.style_heard, brief.accent) == ("cinematic", "explicit", GREEN)
    plan = make_plan(parse_brief(BALL, feedback=["faster but also smoother"]))
    assert NodeState.model_validate({**stored, "style": plan.style, "plan": plan}).answers == ()


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(sorted(WISHES)),
    st.lists(
        st.tuples(st.sampled_from(["answered", "rejected", "changes", "later"]), st.sampled_from(sorted(WISHES))),
        max_size=6,
    ),
)
def test_nothing_said_is_lost_in_any_order(first: str, rest: list[tuple[How, str]]) -> None:
    before = [(how, words) for how, words in rest if how != "later"]
    after = [words for how, words in rest if how == "later"]
    answers = [{"status": "answered", "text": first}, *(step for how, words in before for step in told(how, words))]

    async def talk() -> Desk:
        desk = Desk(BALL, answers=answers)
        while not desk.node.plan_accepted:
            await desk.turn()
        for words in after:
            desk.change(words)
        return desk

    desk = asyncio.run(talk())
    last = dict(WISHES[words] for words in [first, *(words for _, words in before), *after])
    brief = brief_of(desk)
    assert {name: getattr(brief, name) for name in last} == last
