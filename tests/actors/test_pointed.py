"""What a session's agents get of what a person points at."""

from __future__ import annotations

import base64
from dataclasses import replace

from koda_ray.state.keys import asset_key
from koda_ray.types import new_id
from tests.actors.conftest import SessionWorld
from tests.state import records

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


async def test_agents_hear_where_and_what_and_see_the_picture(world: SessionWorld) -> None:
    session = await world.at_rest()
    user, project = session.core.user_id, session.core.project_id
    id_ = new_id("ast")
    key = asset_key(user, project, id_, "crop.png")
    await world.storage.put(key, PNG)
    crop = replace(records.asset(user), id=id_, project_id=project, key=key, purpose="note")
    await world.store.add_asset(crop)
    ball = {"text": "red", "time": 1.5, "component": "Ball", "picture": id_}
    gone = {"text": "slower", "time": 2, "picture": "ast_gone"}
    await world.say(session, "message", text="Nearly", notes=[ball, gone])
    (said,) = [each for each in await world.store.messages(session.session_id) if each.role == "user"][:1]
    words = "Nearly\n1. At 1.50 s, Ball: red\n2. At 2.00 s, the whole picture: slower"
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert said.content == [{"type": "text", "text": words}, {"type": "image", "source": source}]
    assert session.state.pointed[0].words == "Nearly" and session.state.feedback == (words,)
    assert (await world.store.get_asset(id_, user_id=user)).session_id == session.session_id
    assert await session.project.place_assets() == [], "it is nothing that a film is made with"
