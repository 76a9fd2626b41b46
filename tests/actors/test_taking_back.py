"""A message that was sent during the work is taken back, as long as no agent was given it to read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from koda_ray.actors.intake import new_command, record_command
from koda_ray.actors.session import Session
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.types import new_id
from tests.actors.conftest import SessionWorld
from tests.actors.script import studio_model
from tests.commands import submit
from tests.llm.server import Answer

WORDS = "make it red, and round"


class Gate:
    """A model that thinks about each request until it is let go on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._usual = studio_model()
        self._open = threading.Semaphore(0)

    def __call__(self, request: dict[str, Any]) -> Answer:
        self.asked.append(str(request["messages"]) + str(request.get("system")))
        assert self._open.acquire(timeout=60)
        return self._usual(request)

    def go_on(self, times: int = 1) -> None:
        """Answer so many requests."""
        self._open.release(times)

    async def requests(self, count: int) -> None:
        """Wait until it was asked so often."""
        async with asyncio.timeout(60):
            while len(self.asked) < count:
                await asyncio.sleep(0.01)


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def said(session: Session, name: str = "message", **body: Any) -> str:
    """Say something to a session; return the command's id."""
    return (await submit(session, name, body or {"text": WORDS}, key=new_id("cmd"))).id


def says(session: Session) -> Callable[[str], Any]:
    """Return what takes a message back."""
    return lambda message: said(session, "withdraw", message=message)


async def test_a_message_that_is_taken_back_while_a_model_answers_is_never_read(
    world: SessionWorld, gate: Gate
) -> None:
    session = await world.open("a dot", gate)
    await gate.requests(1)
    message = await said(session)
    assert [each.id for each in session.state.unread] == [message]
    await says(session)(message)
    await says(session)(message)  # it is so already
    gate.go_on(3)
    state = await world.until(session, "plan")
    assert (state.feedback, state.unread, state.withdrawn) == ((), (), (message,))
    assert not [each for each in gate.asked if WORDS in each] and gate.asked
    assert WORDS not in str(await world.store.messages(session.session_id))
    assert await world.events(session, "message_withdrawn") == [{"id": message}]
    assert WORDS in [each["content"] for each in await world.events(session, "message")]  # it was said
    with pytest.raises(InvalidInput, match="withdraw: message"):
        await said(session, "withdraw", text=message)


async def test_a_message_that_a_model_was_given_is_not_taken_back(world: SessionWorld, gate: Gate) -> None:
    row = await world.row("a dot")
    asked = new_command(session_id=row, user_id="local", name="message", body={"text": WORDS}, key="m")
    message, _ = await record_command(world.store, asked)
    session = await world.activate(row, world.model(gate))
    await gate.requests(1)
    assert WORDS in gate.asked[0]
    with pytest.raises(InvalidTransition, match="was read already") as refused:
        await says(session)(message.id)
    assert refused.value.code == "MESSAGE_READ"
    gate.go_on(3)
    state = await world.until(session, "plan")
    assert (state.feedback, state.feedback_seen, state.withdrawn) == ((WORDS,), 1, ())
    with pytest.raises(InvalidTransition, match="was read already"):
        await says(session)(message.id)


async def test_what_a_killed_process_had_given_a_model_is_taken_back_by_the_next(
    world: SessionWorld, gate: Gate
) -> None:
    row = await world.row("a dot")
    asked = new_command(session_id=row, user_id="local", name="message", body={"text": WORDS}, key="m")
    message, _ = await record_command(world.store, asked)
    await world.activate(row, world.model(gate))
    await gate.requests(1)  # its answer will be nobody's
    body = {"message": message.id}
    await record_command(world.store, new_command(session_id=row, user_id="local", name="withdraw", body=body, key="w"))
    after = Gate()
    after.go_on(3)
    session = await world.activate(row, world.model(after))
    gate.go_on(3)
    state = await world.until(session, "plan")
    assert (state.feedback, state.withdrawn) == ((), (message.id,))
    assert after.asked and not [each for each in after.asked if WORDS in each]
    assert (await session.intake.take("w")).name == "withdraw"


async def test_words_and_their_taking_back_race_and_one_of_them_wins(world: SessionWorld) -> None:
    gate = Gate()
    gate.go_on(1_000)
    session = await world.open("a dot", gate)
    taken: list[str] = []
    for number in range(12):
        words = f"{WORDS}: {number}."
        message = await said(session, text=words)
        for _ in range(number):  # each a little later in what the agents do
            await asyncio.sleep(0)
        with suppress(InvalidTransition):
            await says(session)(message)
            taken.append(words)
    state = await world.until(session, "plan")
    assert len(state.withdrawn) == len(taken)
    for words in taken:
        assert words not in state.feedback and not [each for each in gate.asked if words in each]
    for words in state.feedback:
        assert [each for each in gate.asked if words in each]
