"""Many sessions on one stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from koda_ray import commands
from koda_ray.client import KodaClient
from koda_ray.events import NewEvent
from koda_ray.metrics import EVENTS_LAG, Figure
from koda_ray.serve.routes.all_events import MOST_SESSIONS
from koda_ray.serve.streams import all_events
from koda_ray.sse import SseDecoder

from .test_events import take
from .test_sessions import PROMPT
from .world import World, free_port, reached, serving, world


async def some(koda: World, client: KodaClient, count: int) -> list[str]:
    koda.directory.hold = {"analyze"}
    return [(await client.create(PROMPT)).session_id for _ in range(count)]


def asked(ids: Mapping[str, int] | list[str], **more: str) -> str:
    places = [f"{each}:{ids[each]}" for each in ids] if isinstance(ids, Mapping) else ids
    return "/v1/events?" + str(httpx.QueryParams([*(("sessions", place) for place in places), *more.items()]))


def told(events: list[tuple[str, str, str]]) -> list[tuple[str, str, int]]:
    return [(name, (data := json.loads(text))["streamId"], data["seq"]) for name, _, text in events]


async def test_a_page_of_thirty_takes_one_stream(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    ids = await some(koda, client, 30)
    for session_id in ids:
        await koda.directory.move(session_id, commands.Think("looking"))
    events = told(await take(http, asked(ids), 60))
    assert {session_id: [seq for _, stream, seq in events if stream == session_id] for session_id in ids} == (
        {each: [1, 2] for each in ids}
    )
    assert events[-1][0] == ".".join(["2"] * 30)
    assert koda.directory.watchers == {}


async def test_what_a_stream_says_of_itself_is_no_event_that_came_late(koda: World, client: KodaClient) -> None:
    @dataclass
    class Noted:
        lags: list[float] = field(default_factory=list[float])

        def note(self, figure: Figure, value: float, **labels: str) -> None:
            if figure is EVENTS_LAG:
                self.lags.append(value)

    (session_id,) = await some(koda, client, 1)
    noted = Noted()
    came: list[str] = []
    events = all_events(replace(koda.deps, metrics=noted), {session_id: 1})
    async with asyncio.timeout(60), aclosing(events):
        await koda.directory.move(session_id, commands.Think("looking"))
        async for _, event in events:
            if event is not None:
                came.append(event.type)
            if came and came[-1] != "gone":
                await koda.directory.delete(session_id=session_id, user_id="local")
    ahead = all_events(replace(koda.deps, metrics=noted), {(await some(koda, client, 1))[0]: 1_000})
    async with asyncio.timeout(60), aclosing(ahead):
        came.append(await anext(event.type async for _, event in ahead if event is not None))
    assert (came[-2:], len(noted.lags)) == (["gone", "resync"], 0)


async def test_it_goes_on_after_each_number(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    one, two = await some(koda, client, 2)
    for _ in range(3):
        await koda.directory.move(one, commands.Think("one"))
    await koda.directory.move(two, commands.Think("two"))
    assert told(await take(http, asked({one: 3, two: 1}), 2)) == [("4.1", one, 4), ("4.2", two, 2)]
    # EventSource asks at the same address, with the last id
    path = asked([one, two])
    assert told(await take(http, path, 1, **{"Last-Event-ID": "4.1"})) == [("4.2", two, 2)]
    for bad in ("4", "4.1.1", "4.x", "4.", "."):
        response = await http.get(path, headers={"Last-Event-ID": bad})
        assert (response.status_code, response.json()["code"]) == (422, "INVALID_INPUT"), bad


async def test_it_loses_and_doubles_nothing_over_servers_that_end(tmp_path: Path) -> None:
    async with world(tmp_path, serve=False) as koda:
        port = free_port()
        seen: dict[str, list[int]] = {}
        ids: list[str] = []

        async def write() -> None:
            for count in range(120):
                await koda.directory.move(ids[count % 3], commands.Think(f"thought {count}"))

        writing: asyncio.Task[None] | None = None
        last = ""
        for _ in range(3):
            koda.deps.draining.clear()
            async with serving(koda.app, port) as url, KodaClient(url) as client:
                if writing is None:
                    ids = await some(koda, client, 3)
                    seen = {each: [] for each in ids}
                    writing = asyncio.create_task(write())
                async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
                    events = await take(http, asked(ids), 30, **{"Last-Event-ID": last})
                for _, stream, seq in told(events):
                    seen[stream].append(seq)
                last = events[-1][0]
        assert writing is not None
        await writing
        assert sum(map(len, seen.values())) == 90
        for numbers in seen.values():
            assert numbers == list(range(1, len(numbers) + 1))


async def test_of_those_that_are_gone_it_says_so(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    one, two = await some(koda, client, 2)
    decoder, events = SseDecoder(), list[tuple[str, str, str]]()
    async with asyncio.timeout(60), http.stream("GET", asked([one, "ses_none", two])) as response:
        async for block in response.aiter_raw():
            events += [event for event in decoder.feed(block) if event[1]]
            if len(events) == 3:
                await client.delete(one)
            if len(events) == 4:
                await client.delete(two)
    kinds = [(kind, json.loads(data)["streamId"]) for _, kind, data in events]
    assert kinds[0] == ("gone", "ses_none")
    assert sorted(kinds[1:3]) == sorted([("STATE_CHANGE", one), ("STATE_CHANGE", two)])
    assert kinds[3:] == [("gone", one), ("gone", two)]


async def test_other_peoples_sessions_are_gone(tmp_path: Path) -> None:
    keys = {"ann": "a" * 20, "bob": "b" * 20}
    async with world(tmp_path, KODA_API_KEYS=",".join(f"{user}={key}" for user, key in keys.items())) as koda:
        async with KodaClient(koda.url, key=keys["ann"]) as client:
            (hers,) = await some(koda, client, 1)
        async with httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:
            bob = {"Authorization": f"Bearer {keys['bob']}"}
            (answer,) = await take(http, asked([hers]), 1, **bob)
            assert (answer[1], json.loads(answer[2])["data"]) == ("gone", {})
            assert (await http.get(asked([hers]))).status_code == 401


async def test_types_and_channels_choose(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    one, two = await some(koda, client, 2)
    for session_id in (one, two):
        await koda.directory.move(session_id, events=(NewEvent(type="code_chunk", data={}),))
        await koda.directory.move(session_id, commands.Think("looking"))
    assert [seq for *_, seq in told(await take(http, asked([one, two], types="thinking"), 2))] == [3, 3]
    (only,) = await take(http, f"/v1/sessions/{one}/events?types=thinking&types=usage", 1)
    assert only[:2] == ("3", "THINKING")
    decoder = SseDecoder()
    async with asyncio.timeout(60), http.stream("GET", asked({one: 3, two: 1}, types="usage")) as response:
        async for block in response.aiter_raw():
            decoder.feed(block)
            if decoder.last_id == "3.3":  # nothing wanted happened, and the numbers have moved on
                break


async def test_who_watches_is_counted(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    ids = await some(koda, client, 2)
    async with http.stream("GET", asked(ids, watch="true")) as response:
        async for _ in response.aiter_raw():
            break
        await reached(lambda: koda.directory.watchers == dict.fromkeys(ids, 1))
    await reached(lambda: koda.directory.watchers == dict.fromkeys(ids, 0))
    assert koda.directory.activations == 2  # each by the request that made it


@pytest.mark.parametrize("path", ["/v1/events", asked(["ses_x"] * 2), asked(["a b"]), asked(["x:" + "9" * 16])])
async def test_what_is_asked_wrongly_is_refused(http: httpx.AsyncClient, path: str) -> None:
    response = await http.get(path)
    assert (response.status_code, response.json()["code"]) == (422, "INVALID_INPUT")


async def test_so_many_are_followed_and_no_more(http: httpx.AsyncClient) -> None:
    response = await http.get(asked([f"ses_{n}" for n in range(MOST_SESSIONS + 1)]))
    assert response.status_code == 422
    response = await http.get(asked([f"ses_{n}" for n in range(MOST_SESSIONS)]))
    assert response.text.count("event: gone") == MOST_SESSIONS
