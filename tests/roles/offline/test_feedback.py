"""Change requests: what each does to a brief, and that none is dropped in silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from koda_ray.roles import offline
from koda_ray.roles.offline import parse_brief
from koda_ray.roles.offline.answer import apply_answer
from koda_ray.roles.offline.brief import Brief
from koda_ray.roles.offline.charting import Figures
from koda_ray.roles.offline.conflict import conflicts_in_change
from koda_ray.roles.offline.feedback import apply_feedback
from koda_ray.roles.offline.subject import own_brief
from koda_ray.roles.offline.understand import Said, understand
from koda_ray.types import Answered
from tests.roles.offline.prompts import PROMPTS

BALL = "Create a bouncing ball animation, playful"


def after(words: str, prompt: str = BALL) -> Brief:
    return apply_feedback(parse_brief(prompt), words)[0]


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("make the ball red", "accent", "#E5322D"),
        ("blue background", "background", "#2563EB"),
        ("put it on black", "background", "#111216"),
        ("twice as fast", "speed", 2.0),
        ("half the speed", "speed", 0.5),
        ("3x as fast", "speed", 3.0),
        ("make it 10 seconds", "duration_s", 10.0),
        ("2 seconds longer", "duration_s", 7.0),
        ("twice as long", "duration_s", 10.0),
        ("five balls", "count", 5),
        ("add another ball", "count", 2),
        ("add two more balls", "count", 3),
        ("no shadow", "shadow", False),
        ("make it cinematic", "style", "cinematic"),
        ("add snow", "particle_kind", "snow"),
        ("serif font please", "font", "serif"),
        ("say 'Hello' instead", "heading", "Hello"),
        ("change the title to Goodbye", "heading", "Goodbye"),
        ("make it vertical", "height", 1920),
        ("move from right to left", "direction", "left"),
        ("赤くして、赤", "accent", "#E5322D"),
    ],
)
def test_a_request_changes_its_one_property(words: str, field: str, value: object) -> None:
    assert getattr(after(words), field) == value


@pytest.mark.parametrize("name", PROMPTS)
def test_the_colours_of_another_version_are_taken_and_nothing_else_is_changed(name: str) -> None:
    words = "Take the colours of version 12: #FF4D6D #4361EE #06B48F #48BCD0 on a #FFD05D background."
    brief = parse_brief(PROMPTS[name])
    changed, said = apply_feedback(brief, words)
    assert (changed.background, changed.colours) == ("#FFD05D", ("#FF4D6D", "#4361EE", "#06B48F", "#48BCD0"))
    assert len(said) == 1, said
    kept = replace(
        changed, background=brief.background, colours=brief.colours, accent=brief.accent, repaint=brief.repaint
    )
    assert kept == brief


def test_amounts_follow_the_words() -> None:
    plain = parse_brief(BALL)
    assert after("a bit faster").speed < after("faster").speed < after("much faster").speed
    assert after("slower").speed < plain.speed
    assert after("add more bounce").bounce > plain.bounce > after("less bouncy").bounce
    assert after("bigger").scale > plain.scale > after("smaller").scale
    assert after("shorter").duration_s < plain.duration_s


def test_the_pace_leaves_the_length_alone() -> None:
    assert after("twice as fast").duration_s == parse_brief(BALL).duration_s


def test_new_figures_keep_the_labels() -> None:
    changed = after("use 5, 6, 7", "bar chart A 1, B 2, C 3")
    assert [(d.label, d.value) for d in own_brief(changed, Figures).data] == [("A", 5), ("B", 6), ("C", 7)]


def test_an_unknown_request_composes_anew_and_says_nothing_was_understood() -> None:
    brief, said = apply_feedback(parse_brief(BALL), "flurble the gnarf")
    assert said == ()
    assert brief.variant == 1


@pytest.mark.parametrize("words", ["faster but also smoother", "longer and shorter", "faster, and longer"])
def test_a_contradiction_is_named_and_read(words: str) -> None:
    assert conflicts_in_change(words)
    assert after(words) != parse_brief(BALL)


@pytest.mark.parametrize("words", ["bigger but smaller", "faster and slower", "brighter, darker", "big and small"])
def test_what_cancels_out_changes_nothing(words: str) -> None:
    (conflict,) = conflicts_in_change(words)
    assert "cancel each other" in conflict.reading
    assert after(words) == parse_brief(BALL)
    assert after(f"{words}, red") == after("red")


def test_faster_but_smoother_is_less_time_on_softer_curves() -> None:
    changed = after("faster but also smoother")
    assert changed.speed > 1
    assert changed.easing == "smooth"
    assert changed.style == "playful"


@pytest.mark.parametrize(
    ("answer", "style"),
    [
        ("playful", "playful"),
        ("Smooth & minimal", "smooth"),
        ("cinematic", "cinematic"),
        ("something dark and dramatic", "cinematic"),
        ("Playful & bouncy — in red", "playful"),
    ],
)
def test_an_answer_settles_the_style(answer: str, style: str) -> None:
    brief = apply_answer(parse_brief("Create a bouncing ball animation"), Answered(text=answer))
    assert brief.style == style
    assert brief.style_heard != "unknown"


def test_an_answer_in_own_words_brings_its_wishes_along() -> None:
    brief = parse_brief("Create a bouncing ball animation", answers=["elegant, red, on white background"])
    assert (brief.style, brief.accent, brief.background) == ("smooth", "#E5322D", "#FFFFFF")


def test_an_alternative_to_the_impossible_is_possible() -> None:
    brief = apply_answer(parse_brief("a two-hour film about the sea"), Answered(option_id="length-60"))
    assert (brief.duration_s, brief.impossible) == (60.0, None)


def test_a_length_beyond_the_limit_changes_nothing() -> None:
    brief = parse_brief("a bouncing ball, playful")
    after = parse_brief("a bouncing ball, playful", feedback=("make it a two-hour film",))
    assert after.duration_s == brief.duration_s


def test_changes_are_applied_in_one_place() -> None:
    """Answers in own words and notes bring changes along; all else asks `understand`, which applies each once."""
    root = Path(str(offline.__file__)).parent
    users = {path.name for path in root.rglob("*.py") if "apply_feedback(" in path.read_text(encoding="utf-8")}
    users.remove("feedback.py")
    assert users == {"answer.py", "pointed.py", "understand.py"}
    course = understand(Said(prompt=BALL, feedback=("add another ball", "xyzzy", "add another ball")))
    assert [change.brief.count for change in course.changes] == [2, 2, 3]
    assert [change.done for change in course.changes] == [("2 of them",), (), ("3 of them",)]
    assert course.until(1).brief == course.changes[0].brief
    assert course.until(0).brief == course.opening == parse_brief(BALL)
