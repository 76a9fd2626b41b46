"""What was said and nobody has read: shown as that, and taken back."""

from __future__ import annotations

import httpx
from pydantic import JsonValue

from koda_ray.actors.intake import new_command, record_command
from koda_ray.client import KodaClient
from koda_ray.commands import Heed
from koda_ray.types import new_id
from tests.serve.test_sessions import PROMPT
from tests.serve.world import World


async def test_what_a_session_has_not_taken_is_shown_as_unread_until_it_is_taken_back(
    koda: World, client: KodaClient
) -> None:
    koda.directory.hold = {"analyze"}
    made = await client.create(PROMPT)
    red = await client.say(made.session_id, "make it red")

    async def waits(name: str, **body: JsonValue) -> str:
        """Record what the session's process does not take, as if there were no room for one."""
        key = new_id("cmd")
        asked = new_command(session_id=made.session_id, user_id="local", name=name, body=body, key=key)
        recorded, _ = await record_command(koda.store, asked)
        return recorded.id

    large = await waits("message", text=" larger ", notes=[{"text": "calmer", "time": 1.0}])
    await waits("permissions", mode="ask")
    round_ = await waits("message", text="rounder")
    unread = (await client.session(made.session_id)).state.unread
    assert [each.id for each in unread] == [red.command_id, large, round_]
    assert (unread[1].words, [note.text for note in unread[1].notes]) == ("larger", ["calmer"])
    assert unread[1].told.startswith("larger\n1. ") and not unread[1].binding
    await waits("takeback", id=large)
    assert [each.id for each in (await client.session(made.session_id)).state.unread] == [red.command_id, round_]
    assert [each.id for each in (await koda.store.get_session(made.session_id)).state.unread] == [red.command_id]


async def test_a_message_is_taken_back_while_the_agents_have_not_begun_to_heed_it(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    koda.directory.hold = {"analyze"}
    made = await client.create(PROMPT)
    red, large = [await client.say(made.session_id, words) for words in ("make it red", "make it large")]
    unread = (await client.session(made.session_id)).state.unread
    assert [(each.id, each.words) for each in unread] == [
        (red.command_id, "make it red"),
        (large.command_id, "make it large"),
    ]
    base = f"/v1/sessions/{made.session_id}/messages"
    taken = await client.take_back(made.session_id, red.command_id, key="k")
    assert (taken.command, taken.result) == ("takeback", {"phase": "idle", "owes": "analyze"})
    assert await client.take_back(made.session_id, red.command_id, key="k") == taken
    assert [each.id for each in (await client.session(made.session_id)).state.unread] == [large.command_id]
    assert (await client.messages(made.session_id)).messages == ()
    await koda.directory.move(made.session_id, Heed(large.command_id))
    assert [each.content for each in (await client.messages(made.session_id)).messages] == ["make it large"]
    for over in (red.command_id, large.command_id, "cmd_none"):
        refused = await http.delete(f"{base}/{over}")
        told = refused.json()
        assert (refused.status_code, told["code"]) == (409, "INVALID_TRANSITION")
        assert "cancel" in told["detail"] and "rewind" in told["detail"]
    assert (await http.delete(f"{base}/a%20b")).status_code == 422
    assert (await http.delete(f"/v1/sessions/ses_none/messages/{large.command_id}")).status_code == 404
