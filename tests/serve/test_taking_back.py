"""Taking a message back over HTTP, while the agents work and before they have read it."""

from __future__ import annotations

import httpx
import pytest

from koda_ray import commands
from koda_ray.client import KodaClient
from koda_ray.errors import Conflict, NotFound

from .test_sessions import PROMPT
from .world import World


async def test_a_message_that_was_not_read_is_taken_back_and_history_says_so(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    koda.directory.hold = {"analyze"}
    session_id = (await client.create(PROMPT)).session_id
    kept = await client.say(session_id, "Make it round")
    message = await client.say(session_id, "Make it red")
    before = await client.messages(session_id)
    assert [(each.id, each.unread) for each in before.messages[:2]] == [
        (message.command_id, True), (kept.command_id, True)
    ]  # fmt: skip
    taken = await client.take_back(session_id, message.command_id, key="once")
    assert (await client.take_back(session_id, message.command_id, key="once")) == taken
    await client.take_back(session_id, message.command_id)  # it is so already
    state = (await client.session(session_id)).state
    assert (state.feedback, state.withdrawn) == (("Make it round",), (message.command_id,))
    after = await client.messages(session_id)
    assert [(each.content, each.unread, each.withdrawn) for each in after.messages[:2]] == [
        ("Make it red", False, True), ("Make it round", True, False)
    ]  # fmt: skip
    told = [event.data for event in await koda.store.events(session_id) if event.type == "message_withdrawn"]
    assert told == [{"id": message.command_id}]
    await koda.directory.move(session_id, commands.Deliver(1))
    with pytest.raises(Conflict, match="was read already") as refused:
        await client.take_back(session_id, kept.command_id)
    assert refused.value.code == "MESSAGE_READ"
    assert not (await client.messages(session_id)).messages[1].unread
    with pytest.raises(NotFound, match="no message 'cmd_other'"):
        await client.take_back(session_id, "cmd_other")
    refused_by = await http.delete(f"/v1/sessions/{session_id}/messages/{'x' * 65}")
    assert refused_by.status_code == 422


async def test_nobody_takes_back_what_another_said(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    mine, other = [(await client.create(PROMPT)).session_id for _ in range(2)]
    message = await client.say(mine, "Make it red")
    with pytest.raises(NotFound):
        await client.take_back(other, message.command_id)
    assert (await client.session(mine)).state.feedback == ("Make it red",)
