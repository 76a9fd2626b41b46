"""Who renders is made ready while code is still being written, where a preview comes soon after."""

from __future__ import annotations

import pytest

from koda_ray.actors.warmup import NEAR_S, is_preview_near
from koda_ray.types import NodeState, TodoStatus
from tests.actors.conftest import SessionWorld
from tests.actors.script import GOOD_FILES, plan_of, scripted_model

AHEAD: tuple[TodoStatus, ...] = ("active", "pending", "pending", "pending")


def execution(*status: TodoStatus) -> dict[str, object]:
    return {"todos": [{"id": str(number), "label": "a step", "status": each} for number, each in enumerate(status)]}


def state(*status: TodoStatus) -> NodeState:
    ids = {"node_id": "nod_1", "user_id": "local", "project_id": "local", "session_id": "ses_1"}
    return NodeState.model_validate({**ids, "phase": "executing", "execution": execution(*status)})


def test_a_preview_is_near_once_its_last_files_are_there_however_long_they_took() -> None:
    assert is_preview_near(state("done", "done", "active", "pending"), answer_s=300)
    assert is_preview_near(state("done", "done", "active", "pending"), answer_s=None)
    assert is_preview_near(state("done", "done"), answer_s=300)  # a change of one that was shown


def test_a_preview_is_near_from_its_first_files_on_where_the_others_are_written_quickly() -> None:
    assert is_preview_near(state(*AHEAD), answer_s=NEAR_S / 2)
    assert not is_preview_near(state(*AHEAD), answer_s=NEAR_S)
    assert not is_preview_near(state(*AHEAD), answer_s=None)


@pytest.mark.sandbox
@pytest.mark.parametrize(("status", "made_ready"), [(("active", "pending"), 1), (AHEAD, 0)])
async def test_who_renders_is_made_ready_as_soon_as_the_last_files_are_written(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch, status: tuple[TodoStatus, ...], made_ready: int
) -> None:
    asked: list[str] = []

    async def prepare() -> None:
        (session,) = world.sessions
        asked.extend(str(event) for event in await world.events(session, "file_written"))
        asked.append("made ready")

    monkeypatch.setattr(world.executor, "prepare", prepare)
    work = execution(*status)
    row = await world.row(phase="executing", owes=None, execution=work, plan_accepted=True, plan=plan_of())
    session = await world.activate(row, world.model(scripted_model()))
    batch = await session.workbench.keep(GOOD_FILES)
    assert asked == ["made ready"] * made_ready  # before they were told of
    await session.core.commit(batch)


@pytest.mark.sandbox
@pytest.mark.browser
async def test_a_quick_code_generator_finds_those_who_render_ready(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[int] = []

    async def prepare() -> None:
        (session,) = world.sessions
        calls = await world.store.tool_calls(session.session_id)
        began.append(sum(call.name == "render_preview" for call in calls))

    monkeypatch.setattr(world.executor, "prepare", prepare)
    row = await world.row(phase="executing", owes="execute", execution={}, plan_accepted=True, plan=plan_of())
    session = await world.activate(row, world.model(scripted_model()))
    await world.until(session, "preview")
    assert began[0] == 0
