"""Agents that do not get on by themselves ask the person, and go on from the answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model, state_of
from tests.llm.server import Answer, call, texts

pytestmark = [pytest.mark.sandbox, pytest.mark.browser]


@pytest.mark.full
async def test_agents_in_a_circle_ask_and_go_on_from_what_the_person_says(world: SessionWorld) -> None:
    asked = 0

    def respond(request: dict[str, Any]) -> Answer:
        nonlocal asked
        stuck = request.get("tools") and state_of(request)["planAccepted"]
        if stuck and not any("leave the notes" in words for words in texts(request)):
            asked += 1
            return call("sandbox_read_file", {"path": "src/notes.md"})
        return scripted_model()(request)

    session = await world.open(respond=respond)
    await world.until(session, "plan")
    await world.say(session, "accept")
    question = (await world.until(session, "question")).question
    assert question is not None and (question.reason, question.phase, question.owes) == (
        "stuck",
        "executing",
        "execute",
    )
    assert "sandbox_read_file failed 3 times" in question.text and asked == 3
    (approval,) = await world.store.approvals(session.session_id, pending=True)
    assert approval.kind == "question" and approval.payload["options"]

    await session.close()  # whoever answers may take their time
    again = await world.activate(session.session_id, world.model(respond))
    await world.say(again, "message", text="leave the notes, there are none")
    state = await world.until(again, "preview")
    assert asked == 3 and state.plan_accepted and state.question is None
    assert [a.kind for a in await world.store.approvals(session.session_id, pending=True)] == ["preview"]
