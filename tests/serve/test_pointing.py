"""What a person points at, over HTTP: notes become a change, with their pictures."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from koda_ray.actors.pointed import pictures_of
from koda_ray.client import KodaClient
from koda_ray.commands import Heed, RequestChanges
from koda_ray.errors import Conflict, InvalidInput, NotFound
from koda_ray.serve.routes.commands import MAX_PICTURE_BYTES
from koda_ray.types import Box, Note, Pointed

from .test_sessions import PROMPT, until
from .world import World

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
NOTE = Note(text="red", time=2.35, frame=141, box=Box(x=10, y=20, width=30, height=40), component="Ball")


@pytest.fixture
async def shown(koda: World, client: KodaClient) -> str:
    """A session with its preview."""
    koda.directory.asks = False
    session_id = (await client.create(PROMPT)).session_id
    await until(client, session_id, "plan")
    await client.accept(session_id)
    await until(client, session_id, "preview")
    return session_id


async def test_notes_are_a_change_that_is_said_in_words_and_kept_as_it_was_meant(
    koda: World, client: KodaClient, shown: str
) -> None:
    koda.directory.hold = {"execute"}
    await client.changes(shown, notes=[NOTE], key="once")
    await client.changes(shown, notes=[NOTE], key="once")
    said = await client.say(shown, "and calmer", notes=[NOTE])
    (unread,) = (await koda.store.get_session(shown)).state.unread
    assert (unread.id, unread.words, unread.notes) == (said.command_id, "and calmer", (NOTE,))
    await koda.directory.move(shown, Heed(unread.id))
    state = (await koda.store.get_session(shown)).state
    first, second = state.feedback
    assert first == "1. At 2.35 s, frame 141, scene 2 Bounce, Ball (x 10, y 20, 30 x 40 of 1920 x 1080 pixels): red"
    assert second == f"and calmer\n{first}"
    assert state.pointed == (
        Pointed(change=1, notes=(NOTE,)),
        Pointed(change=2, words="and calmer", notes=(NOTE,)),
    )
    talk = [each.content for each in (await client.messages(shown)).messages if each.role == "user"]
    assert talk == [second, first]


async def test_a_version_is_named_by_what_its_person_wrote(client: KodaClient, shown: str) -> None:
    await client.changes(shown, notes=[NOTE, NOTE.model_copy(update={"text": " larger\n"})])
    await until(client, shown, "preview")
    await client.changes(shown, "calmer", notes=[NOTE])
    await until(client, shown, "preview")
    await client.changes(shown, "make the ball red")
    await until(client, shown, "preview")
    named = [each.asked for each in (await client.versions(shown)).versions]
    assert named == ["make the ball red", "calmer; red", "red; larger", PROMPT]


async def test_what_is_said_is_words_or_something_that_is_pointed_at(
    koda: World, client: KodaClient, http: httpx.AsyncClient, shown: str
) -> None:
    for path, name in (("changes", "feedback"), ("messages", "text")):
        for body in ({}, {name: " "}, {name: "", "notes": []}, {"notes": [{"text": "red"}]}, {"notes": [{"time": 1}]}):
            answer = await http.post(f"/v1/sessions/{shown}/{path}", json=body)
            assert answer.status_code == 422, (path, body)
    assert name in (await http.post(f"/v1/sessions/{shown}/messages", json={})).json()["fields"][0]["field"]
    many = [NOTE.model_dump(mode="json")] * 13
    assert (await http.post(f"/v1/sessions/{shown}/changes", json={"notes": many})).status_code == 422
    assert (await koda.store.get_session(shown)).state.feedback == ()


async def test_a_notes_picture_is_one_of_the_persons_own_and_the_agents_see_it(
    koda: World, client: KodaClient, http: httpx.AsyncClient, shown: str, tmp_path: Path
) -> None:
    (tmp_path / "crop.png").write_bytes(PNG)
    (tmp_path / "large.png").write_bytes(PNG + bytes(MAX_PICTURE_BYTES))
    crop, large = [await client.upload(tmp_path / name, purpose="note") for name in ("crop.png", "large.png")]
    with pytest.raises(InvalidInput, match="picture of note 2"):
        await client.changes(shown, notes=[NOTE, NOTE.model_copy(update={"picture": large.id})])
    with pytest.raises(NotFound):
        await client.changes(shown, notes=[NOTE.model_copy(update={"picture": "ast_none"})])
    koda.directory.hold = {"execute"}
    seen = NOTE.model_copy(update={"picture": crop.id})
    await client.changes(shown, notes=[NOTE, seen])
    given = {"user_id": "local", "store": koda.store, "storage": koda.storage}
    (picture,) = await pictures_of(RequestChanges("", (NOTE, seen)), **given)  # type: ignore[arg-type]
    assert (picture["type"], picture["source"]["media_type"]) == ("image", "image/png")
    assert (await http.delete(f"/v1/assets/{crop.id}")).status_code == 409
    await koda.storage.delete((await koda.store.get_asset(crop.id, user_id="local")).key)
    assert await pictures_of(RequestChanges("", (seen,)), **given) == []  # type: ignore[arg-type]


async def test_a_notes_picture_is_its_sessions_and_none_of_the_files_that_are_listed(
    koda: World, client: KodaClient, http: httpx.AsyncClient, shown: str, tmp_path: Path
) -> None:
    (tmp_path / "crop.png").write_bytes(PNG)
    crop = await client.upload(tmp_path / "crop.png", purpose="note", key="once")
    assert (crop.purpose, crop.session_id) == ("note", None)
    with pytest.raises(Conflict, match="'once' was used for another file"):
        await client.upload(tmp_path / "crop.png", key="once")
    with pytest.raises(InvalidInput, match="picture of a note") as refused:
        await client.create(PROMPT, asset_ids=(crop.id,))
    assert refused.value.context["field"] == "assetIds"
    with pytest.raises(InvalidInput, match="leave sessionId out"):
        await client.upload(tmp_path / "crop.png", purpose="note", session_id=shown)
    koda.directory.hold = {"execute"}
    note = NOTE.model_copy(update={"picture": crop.id})
    await client.changes(shown, notes=[note])
    assert (await client.asset(crop.id)).session_id == shown
    assert (await client.uploads()).assets == () and (await client.assets(shown)).assets == ()
    other = (await client.create(PROMPT)).session_id
    with pytest.raises(Conflict, match="belongs to another session"):
        await client.say(other, notes=[note])
    answer = await http.post("/v1/assets", files={"file": ("a.png", PNG)}, data={"purpose": "x"})
    assert (answer.status_code, answer.json()["fields"][0]["field"]) == (422, "purpose")


async def test_a_fork_has_the_pictures_of_the_notes_that_it_has_and_keeps_them(
    koda: World, client: KodaClient, shown: str, tmp_path: Path
) -> None:
    (tmp_path / "crop.png").write_bytes(PNG)
    first, second = [await client.upload(tmp_path / "crop.png", purpose="note") for _ in range(2)]
    await client.changes(shown, notes=[NOTE.model_copy(update={"picture": first.id})])
    await until(client, shown, "preview")
    versions = (await client.versions(shown)).versions
    koda.directory.hold = {"execute"}
    await client.changes(shown, notes=[NOTE.model_copy(update={"picture": second.id})])
    fork = (await client.fork(shown, at=versions[0].id)).session_id
    (change,) = (await client.session(fork)).state.pointed
    (picture,) = [note.picture for note in change.notes]
    assert picture is not None and (await client.asset(picture)).session_id == fork
    keys = [(await koda.store.get_asset(each, user_id="local")).key for each in (first.id, second.id)]

    async def shared() -> dict[str, bool]:
        return {key: is_shared for key, is_shared in (await koda.store.named_keys(fork)).items() if "/assets/" in key}

    assert await shared() == {keys[0]: True}, "what was said later is not the fork's"
    await client.delete(shown)
    assert await shared() == {keys[0]: False}
    assert await client.download_asset(picture, tmp_path / "back.png") == len(PNG)
