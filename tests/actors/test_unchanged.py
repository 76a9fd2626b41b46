"""Work that changed no file: the person has the preview that they had, and no version that looks like it."""

from __future__ import annotations

import pytest

from koda_ray.actors.session import Session
from koda_ray.roles.offline import OfflineDirector
from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model
from tests.actors.test_timeline import last_said

pytestmark = [pytest.mark.full, pytest.mark.sandbox, pytest.mark.browser]


async def numbers(world: SessionWorld, session: Session) -> list[int]:
    """Return the numbers of a session's versions."""
    return [each.number for each in await world.store.versions(session.session_id, limit=9)]


async def video_of(world: SessionWorld, job_id: str) -> str:
    """Return where a preview's video lies."""
    result = (await world.store.get_job(job_id)).result
    assert result is not None
    return str(result["videoKey"])


async def test_a_note_that_is_not_understood_is_answered_in_words_alone(world: SessionWorld) -> None:
    session = await world.activate(await world.row("a red ball bounces, 2 seconds", style="playful"), OfflineDirector())
    await world.to_preview(session)
    await last_said(world, session)
    first = session.state.preview
    assert first is not None and await numbers(world, session) == [1]
    gnarf = {"text": "flurble the gnarf", "time": 0.5, "component": "Ball"}
    await world.say(session, "message", text="", notes=[gnarf])
    again = await world.until(session, "preview")
    await last_said(world, session)
    assert again.preview == first and await numbers(world, session) == [1]
    assert len(await world.events(session, "preview_ready")) == 1
    told = [str(each["content"]) for each in await world.events(session, "message") if each["role"] == "assistant"]
    assert any("“flurble the gnarf”" in words and "another colour" in words for words in told)
    assert "no new version" in told[-1]
    assert [each.kind for each in await world.store.approvals(session.session_id, pending=True)] == ["preview"]

    # where one of several is understood, there is something new to see
    await world.say(session, "message", text="", notes=[gnarf, {**gnarf, "text": "blue"}])
    changed = await world.until(session, "preview")
    assert changed.preview != first and await numbers(world, session) == [2, 1]
    await last_said(world, session)

    # and where its video is gone, it is made anew
    assert changed.preview is not None
    await world.storage.delete(await video_of(world, changed.preview.job_id))
    await world.say(session, "message", text="", notes=[gnarf])
    anew = await world.until(session, "preview")
    assert anew.preview is not None and anew.preview.job_id != changed.preview.job_id
    assert await world.storage.exists(await video_of(world, anew.preview.job_id))


async def test_a_model_that_changes_nothing_hears_that_there_is_no_new_version(world: SessionWorld) -> None:
    session = await world.open(respond=scripted_model())
    await world.to_preview(session)
    await world.say(session, "message", text="make it red")
    red = (await world.until(session, "preview")).preview
    await world.say(session, "message", text="make it red, I said")
    again = (await world.until(session, "preview")).preview
    assert again == red and await numbers(world, session) == [2, 1]
    calls = await world.store.tool_calls(session.session_id)
    results = [str(each.result) for each in calls if each.name == "render_preview"]
    assert ["unchanged" in each for each in results] == [False, False, True]
