"""Numbers that no column holds and no clock knows: refused at the door, by every operation that takes one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray.budgets import limits_of
from koda_ray.client import KodaClient
from koda_ray.serve.api import create_app
from koda_ray.types import Budget

from .test_sessions import PROMPT
from .world import World

HUGE = 10**30


def taking_integers(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name each operation's parameters that are whole numbers, as (method, path, parameter)."""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", ()):
                if '"integer"' in json.dumps(parameter["schema"]):
                    yield method, path, parameter


async def test_a_number_that_no_database_holds_is_refused(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    koda.directory.hold = {"analyze"}
    session_id = (await client.create(PROMPT)).session_id
    asked: set[str] = set()
    for method, path, parameter in taking_integers(create_app(koda.deps).openapi()):
        filled = path.replace("{session_id}", session_id).replace("{node_id}", session_id)
        query = {}
        if parameter["in"] == "path":
            filled = filled.replace(f"{{{parameter['name']}}}", str(HUGE))
        else:
            query = {parameter["name"]: str(HUGE)}
        answer = await http.request(method, filled, params=query)
        # what asks for another's job or sandbox says first that there is none
        assert answer.status_code in (404, 409, 422), (method, path, parameter["name"], answer.text)
        if answer.status_code == 422:
            asked.add(f"{path} {parameter['name']}")
    followed = {"/v1/sessions/{session_id}/events after", "/api/nodes/{node_id}/events after"}
    assert followed | {"/v1/sessions limit"} <= asked
    for header in (str(HUGE), "9" * 19, "-1"):
        refused = await http.get(f"/v1/sessions/{session_id}/events", headers={"Last-Event-ID": header})
        assert refused.status_code in (400, 422), refused.text
    with pytest.raises(InvalidStatus) as denied:
        async with connect(f"{koda.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws?after={HUGE}"):
            pass
    assert denied.value.response.status_code < 500


@pytest.mark.parametrize("limit", [HUGE, 1e308, float("inf")])
async def test_a_limit_beyond_all_use_is_one_that_the_ledger_holds(
    koda: World, http: httpx.AsyncClient, limit: float
) -> None:
    koda.directory.hold = {"analyze"}
    budget = {"cost_usd": limit, "sandbox_minutes": limit, "render_minutes": limit}
    body = json.dumps({"prompt": PROMPT, "budget": {**budget, **({"tokens": limit} if limit == HUGE else {})}})
    made = await http.post("/v1/sessions", content=body, headers={"content-type": "application/json"})
    assert made.status_code == 202, made.text
    row = await koda.store.get_session(made.json()["sessionId"])
    assert all(0 < each < 2**63 for each in limits_of(row.state.budget or Budget()).values())
    assert (await http.get(f"{made.json()['stateUrl']}/usage")).status_code == 200
