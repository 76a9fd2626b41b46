"""A plan that is proposed: the rules for its scenes, and what a person makes of them before the work begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from koda_ray.commands import ApprovalChange, EditPlan
from koda_ray.errors import InvalidInput
from koda_ray.phases.parts import Transition, refuse
from koda_ray.types import MAX_DURATION_S, MIN_DURATION_S, MIN_SCENE_S, NodeState, Plan, Scene, SceneEdit

__all__ = ["check_scenes", "edit_plan", "scene_bounds"]


def scene_bounds(duration: float) -> tuple[int, int]:
    """Return how few and how many scenes a film of ``duration`` seconds may have."""
    if duration < 5:
        return 1, max(1, int(duration / MIN_SCENE_S))
    if duration < 15:
        return 3, min(7, int(duration / MIN_SCENE_S))
    return 5, 12 if duration <= 60 else max(12, int(duration / 5))


def check_scenes(plan: Plan) -> None:
    """Hold a plan against the rules for scenes; what it breaks is said with the way out."""
    duration = plan.total_duration
    least, most = scene_bounds(duration)
    if not least <= len(plan.scenes) <= most:
        raise InvalidInput(
            f"{len(plan.scenes)} scenes in {duration:g} s; a film of that length has {least} to {most}",
            context={"field": "scenes"},
        )
    short = next((s for s in plan.scenes if s.duration < min(MIN_SCENE_S, duration) - 1e-6), None)
    if short is not None:
        raise InvalidInput(
            f"scene {short.number} lasts {short.duration:g} s; a scene needs at least {MIN_SCENE_S:g} s to be seen",
            context={"field": f"scenes.{plan.scenes.index(short)}.duration"},
        )


def edit_plan(state: NodeState, command: EditPlan, at: datetime) -> Transition:
    """Change the scenes of the plan that waits for a person, who is asked about it as it is then."""
    plan = state.plan
    if state.phase != "plan" or state.owes is not None or plan is None:
        raise refuse(
            state, "edit the plan", "only a plan that waits for you can be edited; say what should be different"
        )
    scenes = _edited(plan, command.scenes)
    total = round(sum(scene.duration for scene in scenes), 3)
    if total > MAX_DURATION_S:
        raise InvalidInput(
            f"the scenes last {total:g} s together; a film lasts {MAX_DURATION_S:g} s at most",
            context={"field": "scenes"},
        )
    if total < MIN_DURATION_S:
        raise InvalidInput(
            f"the scenes last {total:g} s together; a film lasts {MIN_DURATION_S:g} s at least",
            context={"field": "scenes"},
        )
    edited = plan.model_copy(update={"scenes": scenes, "total_duration": total})
    if edited == plan:
        return state, ()
    check_scenes(edited)
    update: dict[str, object] = {"plan": edited, "plan_edited": True}
    if state.options.duration is not None:
        update["options"] = state.options.model_copy(update={"duration": total})
    return state.model_copy(update=update), (ApprovalChange("plan", "pending"),)


def _edited(plan: Plan, edits: Sequence[SceneEdit]) -> tuple[Scene, ...]:
    known = {scene.number: scene for scene in plan.scenes}
    named = [edit.scene for edit in edits]
    wrong = next((number for number in named if number not in known or named.count(number) > 1), None)
    if wrong is not None or not named:
        why = f"scene {wrong} is named twice" if wrong in known else f"there is no scene {wrong}"
        raise InvalidInput(
            f"{'no scene is left' if wrong is None else why}; the plan has scenes {', '.join(map(str, known))}: "
            "name each that is to stay, once",
            context={"field": "scenes"},
        )
    changed = [edit.model_dump(exclude={"scene"}, exclude_none=True) for edit in edits]
    return tuple(
        known[number].model_copy(update={**changes, "number": place})
        for place, (number, changes) in enumerate(zip(named, changed, strict=True), 1)
    )
