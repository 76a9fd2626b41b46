"""The orchestrator's course through whole sessions, also interrupted and resumed at every turn."""

from __future__ import annotations

import copy

import pytest

from koda_ray.types import Plan
from tests.roles.offline.desk import Desk

BALL = "Create a bouncing ball animation"


async def test_an_open_style_is_asked_once_with_four_options() -> None:
    desk = Desk(BALL, answers=[{"status": "answered", "optionId": "playful"}])
    await desk.run()
    question, plan = desk.calls("request_approval")
    assert (question["type"], question["reason"]) == ("question", "style")
    assert [o["id"] for o in question["options"]] == ["playful", "smooth", "cinematic", "other"]
    assert plan["type"] == "plan"
    assert Plan.model_validate(plan["plan"]).style == "Playful & bouncy"


async def test_takes_ask_for_no_style_and_each_has_one_of_its_own() -> None:
    styles: list[str] = []
    for take in (1, 2, 3):
        desk = Desk(BALL, options={"take": take})
        await desk.run()
        assert [each["type"] for each in desk.calls("request_approval")] == ["plan"]
        styles.append(desk.plan.style)
    assert len(set(styles)) == 3
    named = Desk(f"{BALL}, playful", options={"take": 2})
    await named.run()
    assert named.plan.style == "Playful & bouncy"


@pytest.mark.parametrize(
    "prompt",
    [
        f"{BALL}, playful",
        "smooth minimal logo reveal for Acme, 6 seconds",
        "bar chart of 12, 30, 45, 70 growing, blue, 8s",
        "count down from 5",
        "the quarterly roadmap in three steps",
        "夜空に花火が上がる, スムーズに",
    ],
)
async def test_a_known_style_goes_straight_to_the_plan(prompt: str) -> None:
    desk = Desk(prompt)
    await desk.run()
    assert [a["type"] for a in desk.calls("request_approval")] == ["plan"]
    assert desk.node.preview
    assert set(desk.todos.values()) == {"done"}
    assert "src/App.tsx" in desk.files
    assert "offline director: fixed vocabulary, no model" in desk.said[-1]


async def test_todos_are_the_plan_and_each_is_done_once_in_order() -> None:
    desk = Desk(f"{BALL}, playful")
    await desk.run()
    (todos,) = desk.calls("set_todos")
    scenes = len(desk.plan.scenes)
    assert [t["id"] for t in todos["todos"]] == [
        "v0-setup", *(f"v0-scene-{n + 1}" for n in range(scenes)), "v0-finish", "v0-preview",
    ]  # fmt: skip
    tasks = [c["task"] for c in desk.calls("generate_code")]
    assert tasks == ["initial_setup", *["create_scene"] * scenes, "create_component"]
    moves = [(m["todo_id"], m["status"]) for m in desk.calls("update_todo")]
    assert len(moves) == len(set(moves)) == 2 * len(todos["todos"]) - 1  # a preview is done when it is shown


async def test_interrupted_anywhere_the_session_goes_on_the_same_way() -> None:
    """After every turn: forget the process, keep state and conversation, and finish from there."""
    whole = Desk(BALL, answers=[{"status": "answered", "text": "playful, in red"}])
    snapshots: list[Desk] = []
    while await whole.turn():
        snapshots.append(copy.deepcopy(whole))
    assert len(snapshots) > len(whole.todos) > 3
    for snapshot in snapshots:
        await snapshot.run()
        assert snapshot.log == whole.log
        assert snapshot.files == whole.files


async def test_a_call_whose_result_was_lost_is_made_again_and_nothing_else() -> None:
    """The process dies after the todo went active, before its tool ran: the conversation ends one turn earlier."""
    desk = Desk(f"{BALL}, playful")
    for _ in range(4):
        await desk.turn()
    lost = copy.deepcopy(desk)
    lost.messages = lost.messages[:-2]
    await lost.run()
    done = [m["todo_id"] for m in lost.calls("update_todo") if m["status"] == "done"]
    assert len(done) == len(set(done))
    assert set(lost.todos.values()) == {"done"}


async def test_a_change_touches_what_it_must_and_renders_again() -> None:
    desk = Desk(f"{BALL}, playful")
    await desk.run()
    before = dict(desk.files)
    desk.change("make the ball red")
    await desk.run()
    changed = {path for path, text in desk.files.items() if before.get(path) != text}
    assert changed == {"src/theme.ts", "src/scenes/BounceScene.tsx"}
    assert len(desk.calls("render_preview")) == 2
    assert desk.calls("generate_code")[-1]["task"] == "modify_existing"
    before = dict(desk.files)
    desk.change("twice as fast")
    await desk.run()
    assert {path for path, text in desk.files.items() if before[path] != text} == {"src/theatre/state.json"}


async def test_a_contradiction_is_explained_before_it_is_followed() -> None:
    desk = Desk(f"{BALL}, playful")
    await desk.run()
    desk.change("faster but also smoother")
    await desk.run()
    assert "opposite directions" in desk.calls("send_message")[-1]["content"]
    assert len(desk.calls("render_preview")) == 2


async def test_a_contradiction_in_the_first_words_stands_in_the_plan() -> None:
    desk = Desk("a bouncing ball, playful, fast and slow")
    await desk.run()
    (plan,) = desk.calls("request_approval")
    assert "“Fast” and “slow” cancel each other" in plan["content"]
    assert "“Fast” and “slow” cancel each other" in plan["plan"]["notes"]
    desk.change("bigger and smaller")
    await desk.run()
    assert "“Big” and “small” cancel each other" in desk.calls("send_message")[-1]["content"]
    assert len(desk.calls("render_preview")) == 2


async def test_an_unknown_change_says_what_is_understood_and_changes_something() -> None:
    desk = Desk(f"{BALL}, playful")
    await desk.run()
    before = dict(desk.files)
    desk.change("flurble the gnarf")
    await desk.run()
    assert "fixed vocabulary" in desk.calls("send_message")[-1]["content"]
    assert desk.files != before


async def test_a_change_during_the_work_joins_it() -> None:
    desk = Desk(f"{BALL}, playful")
    while len(desk.calls("generate_code")) < 2:
        await desk.turn()
    desk.change("make the ball red")
    await desk.run()
    assert len(desk.calls("render_preview")) == 1
    assert "#E5322D" in desk.files["src/theme.ts"]
    fresh = Desk(f"{BALL}, playful")
    await fresh.run()
    fresh.change("make the ball red")
    await fresh.run()
    assert desk.files == fresh.files


async def test_a_change_that_is_impossible_is_refused_with_the_same_words_and_no_question() -> None:
    desk = Desk(f"{BALL}, playful")
    await desk.run()
    desk.change("make it a two-hour film")
    await desk.run()
    told = desk.calls("send_message")[-1]["content"]
    assert "5 minutes" in told and "I leave the rest as it is" in told and "?" not in told


async def test_the_impossible_is_answered_with_why_and_alternatives() -> None:
    desk = Desk("a two-hour film about the sea", answers=[{"status": "answered", "optionId": "length-30"}])
    await desk.run()
    question, plan = desk.calls("request_approval")
    assert question["reason"] == "impossible"
    assert "5 minutes" in question["content"]
    assert plan["plan"]["totalDuration"] == 30


async def test_changes_make_a_new_plan_and_a_rejection_asks() -> None:
    desk = Desk(
        f"{BALL}, playful",
        answers=[
            {"status": "changes", "feedback": "make it 12 seconds"},
            {"status": "rejected", "feedback": "no"},
            {"status": "answered", "optionId": "cinematic"},
        ],
    )
    await desk.run()
    first, second, question, third = desk.calls("request_approval")
    assert first["plan"]["totalDuration"] == 5
    assert second["plan"]["totalDuration"] == 12
    assert question["reason"] == "rejected"
    assert third["plan"]["style"] == "Cinematic & dramatic"


async def test_an_error_is_tried_again_then_told() -> None:
    desk = Desk(f"{BALL}, playful", failing={"create_scene": 1})
    await desk.run()
    assert desk.node.preview
    broken = Desk(f"{BALL}, playful", failing={"create_scene": 99})
    await broken.run()
    assert not broken.node.preview
    assert "the disk is full" in broken.said[-1]
    broken.failing.clear()
    broken.messages.append(copy.deepcopy(broken.messages[0]))
    await broken.run()
    assert broken.node.preview


async def test_free_words_of_an_answer_reach_the_code() -> None:
    desk = Desk(BALL, answers=[{"status": "answered", "text": "elegant, red, on white background"}])
    await desk.run()
    assert "red" in desk.plan.style
    assert "#E5322D" in desk.files["src/theme.ts"]


async def test_an_answer_nobody_can_read_changes_neither_plan_nor_picture() -> None:
    plain = Desk(BALL, answers=[{"status": "answered", "optionId": "playful"}])
    odd = Desk(BALL, answers=[{"status": "answered", "text": "whatever you like"}])
    await plain.run()
    await odd.run()
    assert odd.files == plain.files


async def test_the_same_change_again_is_said_to_do_what_it_does_then() -> None:
    desk = Desk(f"{BALL}, playful")
    await desk.run()
    desk.change("add another ball")
    await desk.run()
    desk.change("add another ball")
    await desk.run()
    assert [m["content"] for m in desk.calls("send_message")] == ["Changing: 2 of them.", "Changing: 3 of them."]


async def test_own_words_of_an_earlier_answer_stay_when_the_style_is_chosen_anew() -> None:
    desk = Desk(
        BALL,
        answers=[
            {"status": "answered", "text": "elegant, red, on white background"},
            {"status": "rejected"},
            {"status": "answered", "optionId": "cinematic"},
        ],
    )
    await desk.run()
    assert desk.plan.style.startswith("Cinematic & dramatic")
    assert "#E5322D" in desk.files["src/theme.ts"]
    assert "mood={'cinematic'}" in desk.files["src/scenes/BounceScene.tsx"]
