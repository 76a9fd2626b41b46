"""Todos, thoughts, messages and questions: tools whose effect is a change of state, committed with their outcome."""

from __future__ import annotations

import pytest

from tests.actors.script import plan_of
from tests.tools.conftest import Tools

pytestmark = pytest.mark.sandbox


async def test_todos_are_set_and_moved_and_their_beads_with_them(tools: Tools) -> None:
    todos = [{"id": "setup", "label": "Set up"}, {"id": "preview", "label": "Render preview"}]
    await tools.json("set_todos", todos=todos)
    await tools.json("update_todo", todo_id="setup", status="done")
    execution = tools.session.state.execution
    assert execution is not None and [todo.status for todo in execution.todos] == ["done", "pending"]
    assert [bead.status for bead in await tools.world.store.beads(tools.session.session_id)] == ["closed", "open"]
    again = await tools.call("set_todos", todos=[*todos, {"id": "scene-1", "label": "Scene 1"}])
    execution = tools.session.state.execution
    assert not again.is_error and execution is not None
    assert [todo.status for todo in execution.todos] == ["done", "pending", "pending"]
    unknown = await tools.call("update_todo", todo_id="scene-9", status="done")
    assert unknown.is_error and unknown.retryable and "scene-9" in unknown.content


async def test_thoughts_and_messages_reach_the_person(tools: Tools) -> None:
    await tools.json("set_thinking", message="Shaping the bounce")
    await tools.json("send_message", content="Two requests were at odds; I did both.")
    assert tools.session.state.execution is not None
    assert tools.session.state.execution.thinking == "Shaping the bounce"
    (said,) = await tools.world.events(tools.session, "message")
    assert said == {"role": "assistant", "content": "Two requests were at odds; I did both."}


@pytest.mark.parametrize(
    "given",
    [
        {"type": "plan", "content": "The plan", "plan": plan_of()},
        {"type": "question", "content": "Which?", "options": [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]},
    ],
)
@pytest.mark.full
async def test_nothing_is_asked_once_the_plan_is_accepted(tools: Tools, given: dict[str, object]) -> None:
    asked = await tools.call("request_approval", **given)
    assert asked.is_error and not asked.suspend and "send_message" in asked.content
    assert await tools.world.store.approvals(tools.session.session_id) == []
