from __future__ import annotations

import asyncio
import io
import shutil
import sqlite3
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from PIL import Image
from pydantic import JsonValue

from koda_ray.client import KodaClient
from koda_ray.commands import Answer, Ask
from koda_ray.errors import Conflict, InvalidInput, InvalidTransition, NotFound
from koda_ray.state.records import SessionQuota, SessionRecord
from koda_ray.state.sql import SqlStore
from koda_ray.types import (
    NodeState,
    Option,
    PermissionRule,
    Question,
    RenderOptions,
    SceneEdit,
    SessionOptions,
    SessionPermissions,
    now,
)
from koda_ray.wire import Capabilities
from tests.state import records

from .world import World, reached, world

PROMPT = "Create a bouncing ball animation"


async def until(client: KodaClient, session_id: str, phase: str) -> NodeState:
    async with asyncio.timeout(60):
        while True:
            state = (await client.session(session_id)).state
            if state.phase == phase and state.owes is None:
                return state
            await asyncio.sleep(0.01)


async def test_a_prompt_becomes_a_finished_video(client: KodaClient) -> None:
    made = await client.create(PROMPT)
    question = (await until(client, made.session_id, "question")).question
    assert question is not None and question.options[0].id == "playful"
    await client.answer(made.session_id, option_id="playful")
    await until(client, made.session_id, "plan")
    await client.accept(made.session_id)
    await until(client, made.session_id, "preview")
    await client.changes(made.session_id, "make the ball red")
    await until(client, made.session_id, "preview")
    await client.accept(made.session_id)
    state = await until(client, made.session_id, "complete")
    assert state.output is not None and state.output.duration == 5.0


async def test_create_answers_202_with_a_location(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/sessions", json={"prompt": PROMPT, "options": {"duration": 5, "aspect": "16:9"}})
    assert response.status_code == 202
    body = response.json()
    assert response.headers["location"] == body["stateUrl"] == f"/v1/sessions/{body['sessionId']}"
    state = (await http.get(body["stateUrl"])).json()["state"]
    assert state["prompt"] == PROMPT
    assert state["options"] == {"duration": 5.0, "aspect": "16:9", "fps": None, "take": None}
    assert state["userId"] == state["projectId"] == "local"


async def test_options_of_session_and_render_are_kept(client: KodaClient) -> None:
    made = await client.create(
        PROMPT, style="minimal", options=SessionOptions(fps=30), render=RenderOptions(resolution="720p", format="webm")
    )
    state = (await client.session(made.session_id)).state
    assert (state.style, state.options.fps) == ("minimal", 30)
    assert state.render == RenderOptions(resolution="720p", format="webm")


async def test_the_same_key_makes_one_session(http: httpx.AsyncClient) -> None:
    answers = [
        await http.post("/v1/sessions", json={"prompt": PROMPT}, headers={"Idempotency-Key": "k1"}) for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    other = await http.post("/v1/sessions", json={"prompt": "a logo"}, headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (409, "CONFLICT")
    assert len((await http.get("/v1/sessions")).json()["sessions"]) == 1


async def test_whoever_finds_the_new_session_finds_its_picture(
    koda: World, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    koda.directory.hold = {"analyze"}
    png = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(png, "PNG")
    upload = await http.post("/v1/assets", files={"file": ("dot.png", png.getvalue(), "image/png")})
    asset_id = upload.json()["id"]
    usual, found = koda.store.create_session, dict[str, list[str]]()

    async def seen_at_once(
        state: NodeState,
        *,
        key: str,
        body: dict[str, JsonValue],
        quota: SessionQuota | None = None,
        copies: Mapping[str, str] | None = None,
    ) -> tuple[SessionRecord, bool]:
        """What a janitor finds in the moment in which the row is there."""
        made = await usual(state, key=key, body=body, quota=quota, copies=copies)
        janitor = SqlStore(koda.settings.database_path)
        await janitor.open()
        for work in await janitor.owed(now(), limit=10):
            assets = await janitor.assets(user_id="local", session_id=work.id)
            found[work.id] = [asset.id for asset in assets]
        await janitor.close()
        return made

    monkeypatch.setattr(koda.store, "create_session", seen_at_once)
    made = await http.post("/v1/sessions", json={"prompt": PROMPT, "assetIds": [asset_id]})
    assert found == {made.json()["sessionId"]: [asset_id]}
    again = await http.post("/v1/sessions", json={"prompt": PROMPT, "assetIds": [asset_id]})
    assert again.status_code == 409
    assert len(found) == 1, "a session whose picture is another's was there to be found"


async def test_a_repeated_command_gets_the_same_answer_and_does_nothing_again(
    koda: World, http: httpx.AsyncClient, client: KodaClient
) -> None:
    made = await client.create(PROMPT)
    await until(client, made.session_id, "question")
    path, headers = f"/v1/sessions/{made.session_id}/answer", {"Idempotency-Key": "once"}
    first = await http.post(path, json={"optionId": "playful"}, headers=headers)
    await until(client, made.session_id, "plan")
    submits = koda.directory.submits
    again = await http.post(path, json={"optionId": "playful"}, headers=headers)
    assert first.status_code == again.status_code == 202
    assert first.json() == again.json()
    assert koda.directory.submits == submits
    other = await http.post(path, json={"optionId": "minimal"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "CONFLICT")
    elsewhere = await http.post(f"/v1/sessions/{made.session_id}/accept", headers=headers)
    assert elsewhere.status_code == 409


async def test_reads_never_activate(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    made = await client.create(PROMPT)
    await reached(lambda: koda.directory.activations > 0)
    koda.directory.activations = 0
    koda.directory.forget(made.session_id)
    await client.session(made.session_id)
    await client.sessions()
    await client.files(made.session_id)
    await client.jobs(made.session_id)
    async for _ in client.follow(made.session_id):
        break
    with pytest.raises(NotFound) as error:
        await client.download(made.session_id, koda.settings.storage_path / "never.mp4")
    assert error.value.code == "VIDEO_NOT_READY"
    assert koda.directory.activations == 0


async def test_a_list_comes_in_pages_newest_first(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    made = [(await client.create(f"{PROMPT} {n}")).session_id for n in range(5)]
    seen: list[str] = []
    before = None
    while True:
        page = await client.sessions(limit=2, before=before)
        assert len(page.sessions) <= 2
        seen += [summary.id for summary in page.sessions]
        before = page.next
        if before is None:
            break
    assert seen == made[::-1]


async def test_a_command_that_the_phase_does_not_take_says_what_it_does_take(client: KodaClient) -> None:
    made = await client.create(PROMPT)
    await until(client, made.session_id, "question")
    with pytest.raises(InvalidTransition) as error:
        await client.accept(made.session_id)
    assert "question" in error.value.message
    assert error.value.context["phase"] == "question"
    with pytest.raises(InvalidInput, match="playful, minimal"):
        await client.answer(made.session_id, option_id="loud")


async def test_cancel_retry_and_error(koda: World, client: KodaClient) -> None:
    koda.directory.fails = {"plan": "the page never became ready"}
    made = await client.create(PROMPT)
    await until(client, made.session_id, "question")
    await client.answer(made.session_id, text="something else")
    error = (await until(client, made.session_id, "error")).error
    assert error is not None and error.message == "the page never became ready" and error.can_retry
    await client.retry(made.session_id)
    await until(client, made.session_id, "plan")
    koda.directory.hold = {"execute"}
    await client.accept(made.session_id)
    await client.cancel(made.session_id)
    await until(client, made.session_id, "plan")


async def test_delete_is_final(client: KodaClient) -> None:
    made = await client.create(PROMPT)
    await client.delete(made.session_id)
    with pytest.raises(NotFound):
        await client.session(made.session_id)
    for gone in (made.session_id, "ses_unknown"):  # nothing says that there was one
        with pytest.raises(NotFound):
            await client.delete(gone)


async def test_a_deletion_is_undone_as_long_as_was_asked_for(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    koda.directory.hold = {"analyze"}
    made = await client.create(PROMPT)
    await reached(lambda: koda.directory.works_on(made.session_id))
    for _ in range(2):
        await client.delete(made.session_id, undo_s=600)
    await reached(lambda: not koda.directory.works_on(made.session_id))
    with pytest.raises(NotFound):
        await client.session(made.session_id)
    with pytest.raises(NotFound):
        await client.cancel(made.session_id)
    assert (await client.sessions()).sessions == ()
    koda.directory.hold = set()
    back = await client.restore(made.session_id)
    assert (back.id, back.state.owes, back.state.prompt) == (made.session_id, "analyze", PROMPT)
    await until(client, made.session_id, "question")  # it goes on with what it owed
    assert await client.restore(made.session_id) == await client.session(made.session_id)
    for bad in ("-1", "3601", "soon"):
        assert (await http.delete(f"/v1/sessions/{made.session_id}", params={"undoS": bad})).status_code == 422
    await client.delete(made.session_id, undo_s=600)
    await client.delete(made.session_id)  # for good, after all
    for session_id in (made.session_id, "ses_unknown"):
        with pytest.raises(NotFound):
            await client.restore(session_id)
        with pytest.raises(NotFound):
            await client.delete(session_id, undo_s=600)


async def test_what_waited_for_a_session_is_taken_when_it_is_had_back(koda: World, client: KodaClient) -> None:
    session_id = (await client.create(PROMPT)).session_id
    await until(client, session_id, "question")
    await koda.store.receive(records.command(await koda.store.get_session(session_id)), lambda row, waiting: {})
    await client.delete(session_id, undo_s=600)
    await reached(lambda: not koda.directory.works_on(session_id))
    before = koda.directory.activations
    assert (await client.restore(session_id)).state.owes is None
    await reached(lambda: koda.directory.activations > before)


async def test_what_follows_a_session_ends_when_it_is_deleted_and_may_be_had_back(
    koda: World, client: KodaClient
) -> None:
    session_id = (await client.create(PROMPT)).session_id
    await until(client, session_id, "question")

    async def told() -> int:
        return max([event.seq async for event in client.follow(session_id)])

    following = asyncio.create_task(told())
    await reached(lambda: koda.app.state.streams.count("local") == 1)
    await client.delete(session_id, undo_s=600)
    assert await following == (await koda.store.get_session(session_id)).seq
    assert koda.directory.activations == 1


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        ({"prompt": ""}, "prompt", "empty"),
        ({"prompt": " \n\t "}, "prompt", "empty"),
        ({"prompt": "x" * 20_001}, "prompt", "20,001"),
        ({}, "prompt", "required"),
        ({"prompt": "a ball", "optoins": {}}, "optoins", "no such field"),
        ({"prompt": "a ball", "options": {"duration": -1}}, "options.duration", "at least 0.5, not -1"),
        ({"prompt": "a ball", "options": {"duration": 7200}}, "options.duration", "300"),
        ({"prompt": "a ball", "options": {"aspect": "wide"}}, "options.aspect", "16:9"),
        ({"prompt": "a ball", "projectId": "../other"}, "projectId", "only letters from A to Z"),
    ],
)
async def test_a_bad_value_is_named(http: httpx.AsyncClient, body: dict[str, object], field: str, problem: str) -> None:
    response = await http.post("/v1/sessions", json=body)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["code"] == "INVALID_INPUT" and document["retryable"] is False
    assert document["instance"] == "/v1/sessions"
    assert [entry["field"] for entry in document["fields"]] == [field]
    assert problem in document["detail"]
    assert len(document["detail"]) < 400


async def test_what_a_session_refuses_names_its_field_too(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id = (await client.create(PROMPT)).session_id
    await until(client, session_id, "question")

    async def refused(name: str, body: dict[str, object]) -> tuple[str, str]:
        (named,) = (await http.post(f"/v1/sessions/{session_id}/{name}", json=body)).json()["fields"]
        return named["field"], named["problem"]

    assert await refused("answer", {"text": " "}) == (
        "text",
        "the answer is empty; say something like 'playful, with soft colours' (it is ' ')",
    )
    field, problem = await refused("answer", {"optionId": "none"})
    assert field == "optionId" and problem.startswith("no option 'none'; the options are: ")
    assert (await refused("budget", {"tokens": -5}))[0] == "tokens"
    own = Question(text="Which?", reason="impossible", options=(Option(id="other", label="Something else"),))
    await koda.directory.move(session_id, Answer(text="calm"), Ask(own))
    field, problem = await refused("answer", {"optionId": "other"})
    assert (field, problem) == (
        "text",
        "option 'other' stands for your own words, and there are none; say in text what you want",
    )
    assert (await refused("permissions", {"rules": [{"decision": "deny", "tool": "x" * 201}]}))[0] == "rules.0.tool"
    assert await refused("plan", {"scenes": [{"scene": 1, "title": ""}]}) == (
        "scenes.0.title",
        "at least 1 character, not 0",
    )
    response = await http.post(f"/v1/sessions/{session_id}/accept")
    assert response.status_code == 409 and response.json()["fields"] == []


async def test_twenty_thousand_characters_are_taken(client: KodaClient) -> None:
    prompt = "球がはねる" * 4000
    made = await client.create(prompt)
    assert (await client.session(made.session_id)).state.prompt == prompt
    assert len((await client.sessions()).sessions[0].prompt) == 200


@pytest.mark.parametrize("session_id", ["ses_unknown", "nope", "x" * 64])
async def test_an_unknown_id_is_not_found_anywhere(http: httpx.AsyncClient, session_id: str) -> None:
    base = f"/v1/sessions/{session_id}"
    calls = [
        http.get(base + path)
        for path in ("", "/events", "/files", "/files/a", "/source.zip", "/video", "/thumbnail", "/assets")
    ]
    calls += [http.post(base + path) for path in ("/accept", "/reject", "/cancel", "/retry", "/render", "/preview")]
    calls += [
        http.post(base + "/answer", json={"text": "x"}),
        http.post(base + "/changes", json={"feedback": "x"}),
        http.post(base + "/messages", json={"text": "x"}),
        http.get("/v1/jobs/job_unknown"),
        http.get(f"/api/nodes/{session_id}/events"),
    ]
    for response in await asyncio.gather(*calls):
        assert (response.status_code, response.json()["code"]) == (404, "NOT_FOUND"), response.request.url


async def test_a_path_that_does_not_exist_is_a_problem_too(http: httpx.AsyncClient) -> None:
    for response in (await http.get("/v2/sessions"), await http.put("/v1/sessions")):
        assert response.headers["content-type"] == "application/problem+json"
        assert response.status_code in (404, 405)


async def test_a_body_that_is_not_json(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/sessions", content=b"{", headers={"Content-Type": "application/json"})
    assert response.status_code == 422 and response.json()["code"] == "INVALID_INPUT"


async def test_bodies_over_the_limit_are_refused_before_they_are_read(koda: World, http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/sessions", content=b"x" * (1024 * 1024 + 1))
    assert (response.status_code, response.json()["code"]) == (413, "BODY_TOO_LARGE")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65536

    try:
        response = await http.post("/v1/sessions", content=endless())
        assert response.status_code == 413
    except httpx.TransportError:
        pass  # the server hung up while we were still sending: also a refusal
    reader, writer = await asyncio.open_connection(*koda.url.removeprefix("http://").split(":"))
    writer.write(b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
    await writer.drain()
    status = await asyncio.wait_for(reader.readline(), 60)
    assert b" 413 " in status
    writer.close()
    await writer.wait_closed()


async def test_an_idempotency_key_must_be_sendable(http: httpx.AsyncClient) -> None:
    for key in ("", "x" * 256):
        response = await http.post("/v1/sessions", json={"prompt": PROMPT}, headers={"Idempotency-Key": key})
        assert response.status_code == 422, key


async def test_a_repeat_with_another_session_is_independent(client: KodaClient) -> None:
    first, second = await client.create(PROMPT), await client.create(PROMPT)
    assert first.session_id != second.session_id
    for made in (first, second):
        await until(client, made.session_id, "question")
        await client.answer(made.session_id, option_id="playful", key="same")


async def test_a_conflict_survives_the_client(client: KodaClient) -> None:
    await client.create(PROMPT, key="k")
    with pytest.raises(Conflict):
        await client.create("another", key="k")


async def test_the_projects_files_are_taken_away_as_a_zip(koda: World, client: KodaClient, tmp_path: Path) -> None:
    koda.directory.asks = False
    session_id = (await client.create(PROMPT)).session_id
    await until(client, session_id, "plan")
    with pytest.raises(NotFound, match="no files yet"):
        await client.download_source(session_id, tmp_path / "source.zip")
    await client.accept(session_id)
    await until(client, session_id, "preview")
    size = await client.download_source(session_id, tmp_path / "source.zip")
    assert size == (tmp_path / "source.zip").stat().st_size
    with zipfile.ZipFile(tmp_path / "source.zip") as found:
        inside = {name: found.read(name) for name in found.namelist()}
    listed = (await client.files(session_id)).files
    assert inside == {file.path: await client.read_file(session_id, file.path) for file in listed} != {}
    assert koda.app.state.unpacking.held_bytes == 0


async def test_a_plan_is_edited_before_it_is_accepted(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    koda.directory.asks = False
    session_id = (await client.create(PROMPT)).session_id
    await until(client, session_id, "plan")
    edits = [SceneEdit(scene=3), SceneEdit(scene=1, title="Fall", duration=2.5), SceneEdit(scene=2)]
    for _ in range(2):
        await client.edit_plan(session_id, edits, key="once")
    plan = (await client.session(session_id)).state.plan
    assert plan is not None and [scene.title for scene in plan.scenes] == ["Rest", "Fall", "Bounce"]
    assert plan.total_duration == sum(scene.duration for scene in plan.scenes) == 6.0
    with pytest.raises(InvalidInput, match="scene 1 is named twice"):
        await client.edit_plan(session_id, [SceneEdit(scene=1), SceneEdit(scene=1)])
    for bad in ([], [{"scene": 0}], [{"scene": 1, "duration": -1}], [{"scene": 1, "title": ""}], [{"number": 1}]):
        sent = await http.post(f"/v1/sessions/{session_id}/plan", json={"scenes": bad})
        assert sent.status_code == 422, bad
    await client.accept(session_id)
    with pytest.raises(InvalidTransition, match="only a plan that waits"):
        await client.edit_plan(session_id, edits)


@pytest.mark.parametrize("director", ["offline", "anthropic"])
async def test_who_the_agents_are_is_told(tmp_path: Path, director: str) -> None:
    keys = {} if director == "offline" else {"ANTHROPIC_API_KEY": "sk-ant-test", "KODA_FALLBACK_MODELS": "claude-x"}
    async with world(tmp_path, KODA_DIRECTOR=director, **keys) as koda, KodaClient(koda.url) as client:
        found = await client.capabilities()
    if director == "offline":
        assert found == Capabilities(director="offline")
    else:
        assert found.director == "models" and found.models[-1] == "claude-x"
        assert len(set(found.models)) == len(found.models)


async def _answers(http: httpx.AsyncClient, path: str, status: int) -> None:
    """Wait for what was seen before to be looked at anew."""
    async with asyncio.timeout(30):
        while (await http.get(path)).status_code != status:
            await asyncio.sleep(0.1)


async def test_ready_says_what_is_wrong(koda: World, http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/ready")).json() == {"ready": True, "parts": {"database": "ok", "storage": "ok"}}
    koda.deps.draining.set()
    response = await http.get("/v1/ready")
    assert response.status_code == 503 and response.json()["parts"]["draining"] == "stopping"


async def test_ready_tries_to_write(koda: World, http: httpx.AsyncClient) -> None:
    with closing(sqlite3.connect(koda.settings.database_path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        response = await http.get("/v1/ready")
        assert response.status_code == 503 and response.json()["parts"]["database"].endswith("no answer within 5 s")
    await _answers(http, "/v1/ready", 200)


async def test_ready_looks_once_for_all_who_ask(koda: World, http: httpx.AsyncClient) -> None:
    before = (await koda.store.metrics()).writes
    answers = await asyncio.gather(*(http.get("/v1/ready") for _ in range(40)))
    assert {answer.status_code for answer in answers} == {200}
    assert (await koda.store.metrics()).writes - before < 10


async def test_ready_tells_what_is_wrong_to_who_has_a_key(tmp_path: Path) -> None:
    key = "a" * 32
    async with (
        world(tmp_path, KODA_API_KEYS=f"ada={key}") as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        assert (await http.get("/v1/ready")).json() == {"ready": True, "parts": {"database": "ok", "storage": "ok"}}
        shutil.rmtree(tmp_path / "storage", ignore_errors=True)
        (tmp_path / "storage").write_text("a file where a folder was")
        await _answers(http, "/v1/ready", 503)
        for headers in ({}, {"Authorization": f"Bearer {'x' * 32}"}, {"Authorization": f"Basic {key}"}):
            response = await http.get("/v1/ready", headers=headers)
            assert response.status_code == 503 and str(tmp_path) not in response.text
            assert "directory" not in response.text and "the server's log" in response.json()["parts"]["storage"]
            assert set(response.json()["parts"]) == {"database", "storage"}
        response = await http.get("/v1/ready", headers={"Authorization": f"Bearer {key}"})
        assert response.status_code == 503 and "Not a directory" in response.json()["parts"]["storage"]


async def test_wrong_keys_are_counted_where_one_only_tells_more_too(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=f"ada={'a' * 32}") as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        (tmp_path / "storage").write_text("a file where a folder was")
        for n in range(20):
            assert (await http.get("/v1/ready", headers={"Authorization": f"Bearer {n:032}"})).status_code == 503
        right = {"Authorization": f"Bearer {'a' * 32}"}
        response = await http.get("/v1/ready", headers=right)
        assert (response.status_code, "Not a directory" in response.text) == (503, False)
        assert (await http.get("/v1/sessions", headers=right)).status_code == 429


async def test_nobody_takes_another_users_projects_or_learns_of_them(tmp_path: Path) -> None:
    keys = "ada=" + "a" * 32 + ",bob=" + "b" * 32
    async with (
        world(tmp_path, KODA_API_KEYS=keys) as koda,
        httpx.AsyncClient(base_url=koda.url, headers={"Authorization": f"Bearer {'a' * 32}"}, timeout=60) as ada,
        httpx.AsyncClient(base_url=koda.url, headers={"Authorization": f"Bearer {'b' * 32}"}, timeout=60) as bob,
    ):
        koda.directory.hold = {"analyze"}
        body = {"prompt": PROMPT, "projectId": "bob"}  # which is what Bob's own is called where he names none
        assert (await ada.post("/v1/sessions", json=body)).status_code == 202
        assert (await bob.post("/v1/sessions", json={"prompt": PROMPT})).status_code == 202
        png = io.BytesIO()
        Image.new("RGB", (8, 8), "red").save(png, "PNG")
        files = {"file": ("a.png", png.getvalue(), "image/png")}
        for whose in ("bob", "ada", "nobody"):  # taken or not, the answer is the same
            for asks in (ada, bob):
                made = await asks.post("/v1/sessions", json={**body, "projectId": whose})
                assert made.status_code == 202 and made.json()["projectId"] == whose
                sent = await asks.post("/v1/assets", files=files, data={"projectId": whose})
                assert sent.status_code == 201, sent.text
        listed = (await bob.get("/v1/sessions")).json()["sessions"]
        assert {each["projectId"] for each in listed} == {"ada", "bob", "nobody"}


async def test_other_users_see_nothing_of_it(tmp_path: Path) -> None:
    keys = "ada=" + "a" * 32 + ",bob=" + "b" * 32
    async with (
        world(tmp_path, KODA_API_KEYS=keys) as koda,
        KodaClient(koda.url, key="a" * 32) as ada,
        KodaClient(koda.url, key="b" * 32) as bob,
    ):
        made = await ada.create(PROMPT)
        await until(ada, made.session_id, "question")
        asset_calls = [
            bob.session(made.session_id),
            bob.accept(made.session_id),
            bob.answer(made.session_id, option_id="playful"),
            bob.files(made.session_id),
            bob.read_file(made.session_id, "src/App.tsx"),
            bob.assets(made.session_id),
            bob.jobs(made.session_id),
            bob.preview(made.session_id),
            bob.delete(made.session_id),
            anext(bob.follow(made.session_id)),
        ]
        for call in asset_calls:
            with pytest.raises(NotFound):
                await call
        assert (await bob.sessions()).sessions == ()
        assert len((await ada.sessions()).sessions) == 1
        assert (await ada.session(made.session_id)).state.user_id == "ada"


async def test_permissions_are_checked_kept_and_changed(client: KodaClient, http: httpx.AsyncClient) -> None:
    rule = PermissionRule(decision="ask", tool="sandbox_*", arguments={"command": "rm *"})
    given = SessionPermissions(mode="plan", rules=(rule,))
    made = await client.create(PROMPT, permissions=given)
    assert (await client.session(made.session_id)).state.permissions == given
    await client.permissions(made.session_id, SessionPermissions(mode="ask"), key="k")
    await client.permissions(made.session_id, SessionPermissions(mode="ask"), key="k")
    assert (await client.session(made.session_id)).state.permissions == SessionPermissions(mode="ask")
    path = f"/v1/sessions/{made.session_id}"
    for body, field in (({"mode": "loud"}, "mode"), ({"rules": [{"decision": "maybe"}]}, "decision")):
        refused = await http.post(f"{path}/permissions", json=body)
        assert refused.status_code == 422 and field in refused.text


async def test_what_waits_can_be_read_and_nothing_else_agreed_to(client: KodaClient) -> None:
    made = await client.create(PROMPT)
    await until(client, made.session_id, "question")
    assert (await client.approvals(made.session_id, pending=True)).approvals == ()  # the script writes no rows
    for decide in (client.approve, client.refuse):
        with pytest.raises(InvalidTransition, match="no tool call waits"):
            await decide(made.session_id, "apr_1")
    with pytest.raises(NotFound):
        await client.approvals("ses_none")
