"""The plan's arithmetic, for any length and subject."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from koda_ray.roles.offline import make_plan, parse_brief
from koda_ray.roles.offline.plan import describe_plan, scene_limits, split_seconds
from koda_ray.types import MIN_SCENE_S, Plan

PROMPTS = (
    "bouncing ball",
    "shapes",
    "fireworks",
    "snow",
    "logo for Acme",
    "title 'X'",
    "steps: one, two, three, four, five, six",
    "bar chart 1, 2",
    "line chart",
    "pie chart",
    "count down from 9",
    "product card",
    "planets",
    "a rocket rising",
    "Just some words that are said.",
)


@settings(deadline=None)
@given(st.sampled_from(PROMPTS), st.floats(1.5, 300), st.sampled_from(("playful", "smooth", "cinematic")))
def test_scenes_fill_the_length_exactly_within_the_rules(prompt: str, seconds: float, style: str) -> None:
    plan = make_plan(parse_brief(prompt, answers=[style], options={"duration": seconds}))
    low, high = scene_limits(plan.total_duration)
    assert low <= len(plan.scenes) <= high
    assert all(scene.duration >= MIN_SCENE_S for scene in plan.scenes)
    assert round(sum(round(scene.duration * 1000) for scene in plan.scenes)) == round(plan.total_duration * 1000)
    assert [scene.number for scene in plan.scenes] == list(range(1, len(plan.scenes) + 1))
    assert all(scene.title and scene.description and scene.animation_notes for scene in plan.scenes)
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    assert len(describe_plan(plan)) < 8000


@settings(deadline=None)
@given(st.integers(1, 15).flatmap(lambda n: st.tuples(st.just(n), st.floats(n * 1.5 + 0.01, 300))))
def test_parts_add_up(case: tuple[int, float]) -> None:
    count, total = case
    parts = split_seconds(total, [1.0 + i % 3 for i in range(count)])
    assert len(parts) == count
    assert min(parts) >= MIN_SCENE_S
    assert math.isclose(sum(parts), total, abs_tol=0.0051)


def test_limits_are_the_rules() -> None:
    assert scene_limits(1.5) == (1, 1)
    assert scene_limits(4.9) == (1, 3)
    assert scene_limits(5) == (3, 3)
    assert scene_limits(10) == (3, 6)
    assert scene_limits(30) == (5, 12)


def test_the_plan_names_the_curves_that_the_film_uses() -> None:
    notes = {
        style: " ".join(s.animation_notes for s in make_plan(parse_brief("logo for Acme", answers=[style])).scenes)
        for style in ("playful", "smooth", "cinematic")
    }
    assert "easeOutBack" in notes["playful"]
    assert "easeOutQuint" in notes["smooth"]
    assert "easeInOutQuart" in notes["cinematic"]
