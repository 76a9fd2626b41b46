"""Lists of sessions, by what somebody looks for, and what was said in one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import JsonValue

from koda_ray import commands
from koda_ray.client import KodaClient
from koda_ray.errors import Conflict, NotFound
from koda_ray.events import NewEvent
from koda_ray.serve import listing
from koda_ray.types import now
from koda_ray.wire import CreateTakes, PageOptions, RenderKind

from .test_jobs import previewed
from .test_sessions import PROMPT, until
from .world import World

DAY = timedelta(days=1)


async def ids(http: httpx.AsyncClient, **asked: str) -> list[str]:
    """Read all pages of what is sought."""
    found: list[str] = []
    place: dict[str, str] = {}
    while True:
        page = (await http.get("/v1/sessions", params={**asked, **place})).json()
        found += [each["id"] for each in page["sessions"]]
        if page["next"] is None:
            return found
        place = {"before": page["next"]}


async def test_sessions_are_found_by_what_one_looks_for(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    koda.directory.asks = False
    ball = (await client.create("Create a BOUNCING ball", project_id="toys")).session_id
    await until(client, ball, "plan")
    koda.directory.hold = {"analyze"}
    street = (await client.create("Eine Straße bei Nacht", project_id="films")).session_id
    assert await ids(http) == [street, ball]
    for asked, wanted in (
        ({"text": "ball bouncing"}, [ball]),
        ({"text": "STRASSE"}, [street]),
        ({"text": "drop in"}, [ball]),  # a scene's title
        ({"text": "bouncing nacht"}, []),
        ({"phase": "plan"}, [ball]),
        ({"phase": "idle"}, [street]),
        ({"turn": "person"}, [ball]),
        ({"turn": "agents"}, [street]),
        ({"project": "films"}, [street]),
        ({"status": "active"}, [street, ball]),
        ({"status": "suspended"}, []),
        ({"since": (now() - timedelta(hours=1)).isoformat()}, [street, ball]),
        ({"until": (now() - timedelta(hours=1)).isoformat()}, []),
    ):
        assert await ids(http, **asked) == wanted, asked
    for bad in ({"phase": "dance"}, {"status": "closed"}, {"since": "yesterday"}, {"since": "2026-01-01T00:00:00"}):
        assert (await http.get("/v1/sessions", params=bad)).status_code == 422
    assert [each.id for each in (await client.sessions(text="ball", phases=["plan"])).sessions] == [ball]
    assert [each.id for each in (await client.sessions(project="toys", since=now() - DAY)).sessions] == [ball]
    assert (await client.sessions(until=now() - DAY)).sessions == ()


async def test_projects_are_those_that_work_was_made_in(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    assert (await client.projects()).projects == ()
    for project in ("toys", None, "films", "toys"):
        await client.create(PROMPT, project_id=project)
    assert [each.id for each in (await client.projects()).projects] == ["films", "local", "toys"]
    first = await client.projects(limit=2)
    assert first.next == "local"
    last = await client.projects(limit=2, after=first.next)
    assert ([each.id for each in last.projects], last.next) == (["toys"], None)


async def test_a_call_that_waits_for_agreement_is_a_persons_turn(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    session_id = (await client.create(PROMPT)).session_id
    await koda.directory.ask_agreement(session_id, {"name": "sandbox_exec", "proposed": {"command": "ls"}})
    (found,) = (await client.sessions(turn="person")).sessions
    assert (found.phase, found.owes, found.approval) == ("idle", None, "sandbox_exec")
    (asked,) = (await client.approvals(session_id, pending=True)).approvals
    await client.approve(session_id, asked.id)
    assert (await client.sessions(turn="person")).sessions == ()
    (found,) = (await client.sessions(turn="agents")).sessions
    assert (found.owes, found.approval) == ("analyze", None)


async def test_a_session_is_called_and_pinned_as_its_user_likes_and_sleeps_on(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    koda.directory.hold = {"analyze"}
    ball, cube = [(await client.create(f"A {name}")).session_id for name in ("ball", "cube")]
    awake, before = koda.directory.activations, await client.session(ball)
    view = await client.label(ball, title="  Our\nround   thing ", pinned=True)
    assert (view.title, view.pinned) == ("Our round thing", True)
    assert (view.seq, view.updated_at) == (before.seq, before.updated_at)
    assert await ids(http, pinned="true") == [ball] and await ids(http, pinned="false") == [cube]
    assert await ids(http, text="round thing") == [ball] == await ids(http, text="a ball")
    listed = (await client.sessions()).sessions
    assert [(one.title, one.pinned) for one in listed] == [(None, False), (view.title, True)]
    view = await client.label(ball, title="")
    assert (view.title, view.pinned) == (None, True)
    assert not (await client.label(ball, pinned=False)).pinned
    for bad in ({"title": "x" * 201}, {"pinned": "perhaps"}, {"name": "x"}):
        assert (await http.patch(f"/v1/sessions/{ball}", json=bad)).status_code == 422
    with pytest.raises(NotFound):
        await client.label("ses_unknown", pinned=True)
    assert koda.directory.activations == awake


async def test_takes_are_made_together_once_and_listed_by_their_group(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    koda.directory.hold = {"analyze"}
    other = (await client.create("A ball")).session_id
    made = await client.create_takes(CreateTakes(prompt="A ball", takes=3), key="once")
    assert made.group == "grp_72bb75f1bc104124e7070f9f6ec25f4e"  # as every version before made it of the key
    assert await client.create_takes(CreateTakes(prompt="A ball", takes=3), key="once") == made
    ids_of = [each.session_id for each in made.sessions]
    assert await ids(http, group=made.group) == ids_of[::-1] and await ids(http) == [*ids_of[::-1], other]
    listed = (await client.sessions()).sessions
    assert [(one.take, one.group) for one in listed] == [(take, made.group) for take in (3, 2, 1)] + [(None, None)]
    more = await client.create_takes(CreateTakes(prompt="A ball", takes=2), key="another")
    assert more.group != made.group
    await client.fork(ids_of[0])  # which is no take of them
    assert await ids(http, group=made.group) == ids_of[::-1]
    for bad in ({"takes": 5}, {"takes": 1}, {"takes": 2, "options": {"take": 1}}):
        assert (await http.post("/v1/takes", json={"prompt": "A ball", **bad})).status_code == 422, bad
    with pytest.raises(Conflict, match="once"):
        await client.create_takes(CreateTakes(prompt="A cube", takes=3), key="once")


async def test_takes_are_all_found_however_much_was_made_since(
    koda: World, client: KodaClient, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MOST_ROWS", 2)
    monkeypatch.setattr(listing, "SCANNED", 2)
    koda.directory.hold = {"analyze"}
    made = await client.create_takes(CreateTakes(prompt="A ball", takes=3))
    for number in range(4):
        await client.create(f"A cube, {number}")
    found = (await http.get("/v1/sessions", params={"group": made.group, "limit": 10})).json()
    assert [each["take"] for each in found["sessions"]] == [3, 2, 1] and found["next"] is None
    found = (await http.get("/v1/sessions", params={"group": made.group, "text": "ball", "limit": 10})).json()
    assert next(each["take"] for each in found["sessions"]) == 3  # of those that were looked at none is another's


async def test_what_is_found_comes_in_pages_and_nothing_twice(
    koda: World, client: KodaClient, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    koda.directory.hold = {"analyze"}
    made = [(await client.create(f"a ball, {'red' if number % 3 else 'blue'}")).session_id for number in range(7)]
    blue = [made[6], made[3], made[0]]
    for limit in ("1", "2", "3", "50"):
        assert await ids(http, text="blue", limit=limit) == blue
        assert await ids(http, limit=limit) == made[::-1]
    monkeypatch.setattr(listing, "_MOST_ROWS", 2)
    monkeypatch.setattr(listing, "SCANNED", 2)
    first = (await http.get("/v1/sessions", params={"text": "blue"})).json()
    assert [each["id"] for each in first["sessions"]] == [made[6]] and first["next"] is not None
    assert await ids(http, text="blue") == blue


async def test_the_last_changed_comes_first_where_that_is_asked_for(
    koda: World, client: KodaClient, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    koda.directory.hold = {"analyze"}
    made = [(await client.create(f"a ball, {'red' if number % 3 else 'blue'}")).session_id for number in range(5)]
    for number in (1, 3, 0):
        await koda.directory.move(made[number], commands.Think("round"))
        await client.cancel(made[number])
    wanted = [made[number] for number in (0, 3, 1, 4, 2)]
    for limit in ("1", "2", "50"):
        assert await ids(http, order="changed", limit=limit) == wanted
    monkeypatch.setattr(listing, "_MOST_ROWS", 2)
    monkeypatch.setattr(listing, "SCANNED", 2)
    assert await ids(http, order="changed", text="blue") == [made[0], made[3]]
    await client.label(made[2], pinned=True)
    assert await ids(http, order="changed", pinned="false") == wanted[:-1]
    assert [each.id for each in (await client.sessions(order="changed", limit=2)).sessions] == wanted[:2]
    for bad in ({"order": "best"}, {"order": "changed", "before": made[0]}):
        assert (await http.get("/v1/sessions", params=bad)).status_code == 422


async def test_a_summary_says_how_far_it_is_and_what_there_is_to_see(koda: World, client: KodaClient) -> None:
    koda.directory.asks = False
    session_id = (await client.create(PROMPT)).session_id
    await until(client, session_id, "plan")
    (one,) = (await client.sessions()).sessions
    assert (one.todos, one.duration, one.video_url, one.thumbnail_url) == (0, 5.0, None, None)
    await client.accept(session_id)
    state = await until(client, session_id, "preview")
    (one,) = (await client.sessions()).sessions
    assert state.preview is not None and (one.todos_done, one.todos) == (2, 2)
    assert one.seq == (await client.session(session_id)).seq
    async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:
        for url in (one.video_url, one.thumbnail_url):
            assert url is not None and state.preview.job_id in url and (await http.get(url)).status_code == 200


async def test_what_was_said_is_read_without_what_happened(koda: World, client: KodaClient) -> None:
    session_id = (await client.create(PROMPT)).session_id
    await until(client, session_id, "question")
    await client.answer(session_id, text="playful")
    await until(client, session_id, "plan")
    await client.changes(session_id, "Make it shorter")
    await until(client, session_id, "plan")
    await koda.directory.move(session_id, commands.Think("thinking is not said"))
    page = await client.messages(session_id)
    said = [(message.role, message.content) for message in page.messages]
    assert ("user", "Make it shorter") in said and "thinking is not said" not in str(said)
    assert [message.seq for message in page.messages] == sorted((m.seq for m in page.messages), reverse=True)
    found, place = [], None
    while True:
        part = await client.messages(session_id, limit=1, before=place)
        found += part.messages
        if (place := part.next) is None:
            break
    assert tuple(found) == page.messages
    assert koda.directory.activations == 1


async def test_pictures_are_listed_where_they_stand_among_what_was_said(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    session_id = (await client.create(PROMPT)).session_id
    assert (await client.pictures(session_id)).pictures == ()

    def taken(at_s: float) -> NewEvent:
        url = f"/v1/sessions/{session_id}/pictures/{'a' * 64}"
        data: dict[str, JsonValue] = {"url": url, "atS": at_s, "widthPx": 320, "heightPx": 180, "agent": "orchestrator"}
        return NewEvent(type="picture_taken", data=data)

    await koda.directory.move(session_id, events=(taken(0.5),))
    said = NewEvent(type="message", data={"role": "assistant", "content": "It is round."})
    await koda.directory.move(session_id, events=(said,))
    await koda.directory.move(session_id, events=(taken(1.5),))
    page = await client.pictures(session_id)
    assert [each.at_s for each in page.pictures] == [1.5, 0.5] and page.next is None
    (message,) = (await client.messages(session_id)).messages
    assert page.pictures[0].seq > message.seq > page.pictures[1].seq
    first = await client.pictures(session_id, limit=1)
    assert first.next is not None and first.pictures == page.pictures[:1]
    assert (await client.pictures(session_id, before=first.next)).pictures == page.pictures[1:]
    assert koda.directory.activations == 1
    with pytest.raises(NotFound):
        await client.pictures("ses_none")


async def test_renders_are_found_by_what_they_are_called(
    koda: World, client: KodaClient, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    street = await previewed(koda, client, "Eine Straße bei Nacht")
    ball = await previewed(koda, client, "A ball")
    await client.label(ball, title="The round one")
    (tmp_path / "film.html").write_text("<p>A page</p>")
    batch = await client.render_batch(tmp_path, [{"name": "Zoë"}, {"name": "Grace"}], PageOptions(entry="film.html"))
    kinds: list[RenderKind] = ["preview", "render"]

    async def found(text: str, limit: int = 50) -> list[str]:
        names: list[str] = []
        before: str | None = None
        while True:
            page = await client.page_renders(text=text, kinds=kinds, limit=limit, before=before)
            names += [each.title or f"row {each.row}" for each in page.renders]
            if (before := page.next) is None:
                return names

    for text, wanted in (
        ("STRASSE", ["Eine Straße bei Nacht"]),
        ("one round", ["The round one"]),
        ("ball", []),  # it is called otherwise since
        ("FILM.html", ["row 1", "row 2"]),
        (batch.id, ["row 1", "row 2"]),
        ("row 2", ["row 2"]),
        ("film grace", ["row 2"]),
        ("zoë", ["row 1"]),
        (batch.bundle[:8], ["row 1", "row 2"]),
        (batch.render_ids[0], ["row 1"]),
        ("nowhere", []),
        ("  ", ["row 1", "row 2", "The round one", "Eine Straße bei Nacht"]),
    ):
        assert await found(text) == wanted, text
        assert await found(text, limit=1) == wanted, text
    assert [each.session_id for each in (await client.page_renders(text="nacht", kinds=kinds)).renders] == [street]
    assert (await http.get("/v1/renders", params={"text": "a" * 201})).status_code == 422
    monkeypatch.setattr(listing, "_MOST_ROWS", 2)
    monkeypatch.setattr(listing, "SCANNED", 2)
    first = await client.page_renders(text="nacht", kinds=kinds)
    assert first.renders == () and first.next is not None  # of those that were looked at by now
    assert await found("nacht") == ["Eine Straße bei Nacht"]
