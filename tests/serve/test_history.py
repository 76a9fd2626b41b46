"""Going back and going another way over HTTP, with the client."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from koda_ray.agent.memory import stream_of
from koda_ray.budgets import Amounts
from koda_ray.client import KodaClient
from koda_ray.commands import Think
from koda_ray.errors import Conflict, InvalidInput, NotFound
from koda_ray.state.charges import Bound, Settle
from koda_ray.state.records import Batch
from koda_ray.types import Budget
from tests.state.records import message

from .test_sessions import PROMPT, until
from .world import World, reached


async def at_preview(koda: World, client: KodaClient) -> str:
    """Make a session with a checkpoint before and after its first preview."""
    session_id = (await client.create(PROMPT, style="playful")).session_id
    await until(client, session_id, "plan")
    await koda.directory.checkpoint(session_id, {"src/App.tsx": b"before"})
    await client.accept(session_id)
    await until(client, session_id, "preview")
    await koda.directory.checkpoint(session_id, {"src/App.tsx": b"after", "src/Ball.tsx": b"ball"})
    return session_id


async def test_a_session_is_put_back_and_that_is_undone(koda: World, client: KodaClient) -> None:
    session_id = await at_preview(koda, client)
    before = (await client.session(session_id)).state
    last, *_, first = [point for point in (await client.history(session_id)).points if point.kind == "checkpoint"]
    seq = (await client.session(session_id)).seq
    done = await client.rewind(session_id, first.id, key="k")
    assert done.command == "rewind" and (done.result["phase"], done.result["owes"]) == ("plan", None)
    assert await client.rewind(session_id, first.id, key="k") == done
    assert await client.read_file(session_id, "src/App.tsx") == b"before"
    assert [file.path for file in (await client.files(session_id)).files] == ["src/App.tsx"]
    points = (await client.history(session_id)).points
    assert [point.id for point in points if point.kind == "checkpoint"] == [first.id]
    (head,) = [point for point in points if point.kind == "head"]
    assert head.id == done.result["headId"] and first.id in head.text and not head.undone

    told = [event async for event in _until(client, session_id, seq, "state_change")]
    assert [event.wire_name for event in told] == ["rewound", "approval_requested", "STATE_CHANGE"]
    assert told[0].data["history"] == [[1, told[0].data["history"][0][1]]]

    with pytest.raises(NotFound, match="undo that first") as caught:
        await client.rewind(session_id, last.id)
    assert caught.value.code == "POINT_NOT_FOUND"
    await client.rewind(session_id, undo=True)
    assert await client.read_file(session_id, "src/Ball.tsx") == b"ball"
    state = (await client.session(session_id)).state
    said = {"closing": False}  # whoever goes on takes no last words about the preview
    assert state.model_copy(update={"updated_at": before.updated_at}) == before.model_copy(update=said)
    with pytest.raises(NotFound) as caught:
        await client.rewind(session_id, undo=True)
    assert caught.value.code == "NOTHING_TO_UNDO"
    await client.rewind(session_id, (await client.history(session_id)).points[0].id)  # and that undone
    assert await client.read_file(session_id, "src/App.tsx") == b"before"


async def _until(client: KodaClient, session_id: str, after: int, kind: str):  # type: ignore[no-untyped-def]
    async with asyncio.timeout(60):
        async for event in client.follow(session_id, after=after):
            yield event
            if event.type == kind:
                return


async def test_a_fork_goes_its_own_way_and_outlives_its_source(koda: World, client: KodaClient) -> None:
    session_id = await at_preview(koda, client)
    activations, source = koda.directory.activations, await client.session(session_id)
    stored = await koda.storage.look_below("users/local")
    made = await client.fork(session_id, key="f")
    assert await koda.storage.look_below("users/local") == stored, "what a fork has is what its source has"
    assert await client.fork(session_id, key="f") == made
    assert koda.directory.activations == activations and await client.session(session_id) == source
    with pytest.raises(Conflict):
        await client.fork(session_id, at="ckp_other", key="f")

    view = await client.session(made.session_id)
    assert view.state.forked_from == session_id and view.state.phase == "preview"
    listed = {each.id: each for each in (await client.sessions()).sessions}
    assert (listed[made.session_id].forked_from, listed[session_id].forked_from) == (session_id, None)
    assert view.forked_title == listed[made.session_id].forked_title == source.state.prompt
    assert view.state.preview is not None and made.session_id in view.state.preview.video_url
    assert await client.read_file(made.session_id, "src/App.tsx") == b"after"
    said = [event async for event in _until(client, made.session_id, 0, "state_change")]
    assert [event.seq for event in said] == list(range(1, view.seq + 1))
    assert said[-1].type == "state_change" and "forked" in {event.type for event in said}

    await client.changes(made.session_id, "make the ball red")
    await until(client, made.session_id, "preview")
    assert (await client.session(session_id)).state == source.state

    await client.delete(session_id)
    assert (await client.session(made.session_id)).forked_title is None
    *_, second, _, first = [
        point for point in (await client.history(made.session_id)).points if point.kind == "checkpoint"
    ]
    await client.rewind(made.session_id, second.id)
    assert await client.read_file(made.session_id, "src/Ball.tsx") == b"ball"
    await client.rewind(made.session_id, first.id)
    assert await client.read_file(made.session_id, "src/App.tsx") == b"before"


async def test_a_fork_is_given_what_is_left_of_what_its_person_allowed(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    made = await client.create(PROMPT, budget=Budget(tokens=1000, cost_usd=2))
    await koda.directory.move(made.session_id, Think("hm"))
    row = await koda.store.get_session(made.session_id)
    spent = Settle(id="msg_1", spent=Amounts(tokens=300), bounds=(Bound(account=made.session_id),))
    await koda.store.commit(row.id, row.epoch, Batch(charges=[spent]))
    fork = await client.fork(made.session_id)
    assert (await client.session(fork.session_id)).state.budget == Budget(tokens=700, cost_usd=2)
    assert (await client.session(made.session_id)).state.budget == Budget(tokens=1000, cost_usd=2)
    plain = await client.create(PROMPT)
    await koda.directory.move(plain.session_id, Think("hm"))
    assert (await client.session((await client.fork(plain.session_id)).session_id)).state.budget is None


async def test_what_a_model_remembers_is_no_point_to_go_back_to(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"analyze"}
    made = await client.create(PROMPT)
    await koda.directory.move(made.session_id, Think("hm"))
    row = await koda.store.get_session(made.session_id)
    said = message(row, 1)
    summary = message(row, 1, stream_of("orchestrator"))
    await koda.store.commit(row.id, row.epoch, Batch(messages=[said, summary]))
    assert [point.id for point in (await client.history(row.id)).points] == [said.id]


async def test_working_sessions_are_forked_at_rest_and_stopped_by_going_back(koda: World, client: KodaClient) -> None:
    koda.directory.hold = {"execute"}
    session_id = (await client.create(PROMPT, style="playful")).session_id
    await until(client, session_id, "plan")
    await koda.directory.checkpoint(session_id, {"a": b"1"})
    await client.accept(session_id)
    await reached(lambda: koda.directory.works_on(session_id))
    made = await client.fork(session_id)
    assert (await client.session(made.session_id)).state.owes is None
    assert (await client.session(session_id)).state.owes == "execute"
    (point,) = (await client.history(session_id)).points
    done = await client.rewind(session_id, point.id)
    assert (done.result["phase"], done.result["owes"]) == ("plan", None)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [({}, "undo"), ({"to": "msg_1", "undo": True}, "undo"), ({"to": "../x"}, "to"), ({"at": "x"}, "at")],
)
async def test_a_way_back_that_is_none_is_refused(
    http: httpx.AsyncClient, client: KodaClient, body: dict[str, object], wrong: str
) -> None:
    session_id = (await client.create(PROMPT)).session_id
    answer = await http.post(f"/v1/sessions/{session_id}/rewind", json=body)
    assert answer.status_code == 422 and wrong in answer.text
    with pytest.raises(InvalidInput):
        await client.rewind(session_id)
    with pytest.raises(NotFound):
        await client.fork(session_id, at="msg_nonsense")
    with pytest.raises(NotFound):
        await client.fork("ses_nonsense")
