"""Canvases over HTTP: kept for their user, changed by version, bounded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from koda_ray.client import KodaClient
from koda_ray.errors import Conflict, InvalidInput, LimitReached, NotFound
from koda_ray.wire import MAX_CANVAS_BYTES, CanvasEdge, CanvasNode, CanvasPlace, CanvasSight

from .world import World, world

KEY, OTHER = "k" * 32, "o" * 32


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, KODA_API_KEYS=f"ann={KEY},bob={OTHER}") as found:
        yield found


@pytest.fixture
async def ann(closed: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(closed.url, key=KEY) as client:
        yield client


@pytest.fixture
async def bob(closed: World) -> AsyncIterator[KodaClient]:
    async with KodaClient(closed.url, key=OTHER) as client:
        yield client


def node(node_id: str, x: float = 0, **data: str) -> CanvasNode:
    return CanvasNode(id=node_id, position=CanvasPlace(x=x, y=20.5), width=320, data={"plugin": "prompt", **data})


WORDS = node("a", text="A ball\nthat bounces: ✨")
FILM = node("b", 400, plugin="animation-generator", sessionId="ses_1")
JOINT = CanvasEdge(source="a", source_handle="text", target="b", target_handle="prompt")
SIGHT = CanvasSight(x=-3, y=4, zoom=0.5)


async def test_what_one_laid_out_is_there_from_anywhere_and_for_nobody_else(ann: KodaClient, bob: KodaClient) -> None:
    made = await ann.put_canvas("spring", name="Spring", nodes=[WORDS, FILM], edges=[JOINT], view=SIGHT)
    assert (made.version, made.name, made.node_count, made.session_ids) == (1, "Spring", 2, ("ses_1",))
    found = await ann.canvas("spring")
    assert (found.nodes, found.edges, found.view, found.version) == ((WORDS, FILM), (JOINT,), SIGHT, 1)
    assert (await ann.canvases()).canvases == (made,)
    assert (await bob.canvases()).canvases == ()
    with pytest.raises(NotFound, match="no canvas 'spring'"):
        await bob.canvas("spring")
    with pytest.raises(NotFound):
        await bob.delete_canvas("spring")
    assert (await bob.put_canvas("spring", name="Bob's")).version == 1, "ids are their user's"
    await ann.delete_canvas("spring")
    with pytest.raises(NotFound):
        await ann.canvas("spring")


async def test_two_who_change_one_do_not_write_over_each_other(ann: KodaClient) -> None:
    await ann.put_canvas("c", name="Canvas", nodes=[WORDS])
    second = await ann.put_canvas("c", name="Canvas", nodes=[WORDS, FILM], version=1)
    assert second.version == 2 and second.changed_at >= second.created_at
    with pytest.raises(Conflict, match="changed meanwhile: it is at version 2, and you changed 1") as refused:
        await ann.put_canvas("c", name="Mine", nodes=[], version=1)
    assert refused.value.context["version"] == 2
    with pytest.raises(Conflict, match="say which version you changed"):
        await ann.put_canvas("c", name="Mine")
    assert len((await ann.canvas("c")).nodes) == 2
    again = await ann.put_canvas("c", name="Canvas", nodes=[WORDS, FILM], version=1)
    assert again == second, "whose answer was lost"
    await ann.delete_canvas("c")
    with pytest.raises(NotFound, match="no canvas 'c'"):
        await ann.put_canvas("c", name="Canvas", version=2)


async def test_one_is_so_large_and_there_are_so_many(ann: KodaClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koda_ray.serve.routes.canvases.MAX_CANVASES", 3)
    with pytest.raises(InvalidInput, match=f"of {MAX_CANVAS_BYTES} that one may have") as refused:
        await ann.put_canvas("c", name="Canvas", nodes=[node("a", text="x" * MAX_CANVAS_BYTES)])
    assert refused.value.context["field"] == "nodes" and refused.value.context["limit"] == MAX_CANVAS_BYTES
    assert (await ann.canvases()).canvases == ()
    almost = node("a", text="é" * (MAX_CANVAS_BYTES // 6 - 100))
    await ann.put_canvas("c0", name="Canvas", nodes=[almost])
    assert (await ann.canvas("c0")).nodes == (almost,)
    for number in (1, 2):
        await ann.put_canvas(f"c{number}", name="Canvas")
    with pytest.raises(LimitReached, match="you have 3 canvases"):
        await ann.put_canvas("more", name="Canvas")
    await ann.put_canvas("c1", name="Canvas", nodes=[WORDS], version=1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"name": ""}', "name"),
        ('{"name": "C", "version": 0}', "version"),
        ('{"name": "C", "nodes": [{"id": "a", "position": {"x": NaN, "y": 0}, "data": {}}]}', "nodes.0.position.x"),
        ('{"name": "C", "nodes": [{"id": "a", "position": {"x": 1, "y": 0}, "data": {"n": [Infinity]}}]}', "nodes.0"),
        ('{"name": "C", "nodes": [{"id": "a", "position": {"x": 1, "y": 0}, "data": {"n": "\\ud800"}}]}', "nodes.0"),
        ('{"name": "C", "nodes": [{"id": "a", "data": {}}]}', "nodes.0.position"),
        ('{"name": "C", "zoom": 1}', "zoom"),
    ],
)
async def test_what_is_no_canvas_is_refused_by_name(closed: World, body: str, field: str) -> None:
    async with httpx.AsyncClient(base_url=closed.url, trust_env=False) as http:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        answer = await http.put("/v1/canvases/c", content=body, headers=headers)
        assert answer.status_code == 422, answer.text
        assert answer.json()["fields"][0]["field"].startswith(field)
        assert (await http.put("/v1/canvases/a%20b", content='{"name": "C"}', headers=headers)).status_code == 422
        assert (await http.get("/v1/canvases", headers=headers)).json() == {"canvases": []}


async def test_a_node_that_says_strange_things_of_its_session_shows_none(closed: World, ann: KodaClient) -> None:
    async with httpx.AsyncClient(base_url=closed.url, trust_env=False) as http:
        strange = [["ses_1"], {"a": 1}, "x" * 65, "../x", "", None, 7, "ses_1", "ses_1"]
        nodes = [
            {"id": str(at), "position": {"x": 0, "y": 0}, "data": {"sessionId": each}}
            for at, each in enumerate(strange)
        ]
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        body = json.dumps({"name": "C", "nodes": nodes})
        assert (await http.put("/v1/canvases/c", content=body, headers=headers)).json()["sessionIds"] == ["ses_1"]
    assert [each.data["sessionId"] for each in (await ann.canvas("c")).nodes] == strange
