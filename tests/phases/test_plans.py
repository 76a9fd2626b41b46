"""Plans, and what a person makes of them, keep to the rules for scenes."""

from __future__ import annotations

import pytest

from koda_ray.commands import Accept, EditPlan, Propose, RequestChanges, Start
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.phases import apply, check
from koda_ray.types import MAX_DURATION_S, Plan, Scene, SceneEdit
from tests.phases.story import AT, PLAN, fresh, walk


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
