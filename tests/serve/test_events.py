from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import cast

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from koda_ray import commands
from koda_ray.client import KodaClient, transport
from koda_ray.errors import InvalidInput, LimitReached
from koda_ray.events import Envelope, NewEvent
from koda_ray.serve.api import create_app
from koda_ray.serve.quotas import Streams
from koda_ray.serve.streams import Watchers
from koda_ray.sse import SseDecoder
from koda_ray.state.records import LogRest
from koda_ray.types import now

from .scripted import ScriptedDirectory
from .test_sessions import PROMPT, until
from .world import World, free_port, reached, serving, world


async def take(http: httpx.AsyncClient, path: str, count: int, **headers: str) -> list[tuple[str, str, str]]:
    """Read raw server-sent events until there are enough."""
    decoder, found = SseDecoder(), []
    async with http.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        async for block in response.aiter_raw():
            found += decoder.feed(block)
            if len(found) >= count:
                return found[:count]
    return found


async def held(koda: World, client: KodaClient) -> str:
    """Make a session whose agents wait, so that a test says everything that happens."""
    koda.directory.hold = {"analyze"}
    return (await client.create(PROMPT)).session_id


async def test_events_carry_number_name_and_envelope(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    session_id = await held(koda, client)
    await koda.directory.move(session_id, commands.Think("Looking at \u2028 lines\nand more"))
    events = await take(http, f"/v1/sessions/{session_id}/events", 2)
    assert [(name, event) for name, event, _ in events] == [("1", "STATE_CHANGE"), ("2", "THINKING")]
    envelope = Envelope.model_validate_json(events[1][2])
    assert envelope.seq == 2 and envelope.stream_id == session_id
    assert envelope.data["message"] == "Looking at \u2028 lines\nand more"
    assert json.loads(events[1][2])["streamId"] == session_id


async def test_a_stream_goes_on_after_the_number_it_is_given(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id = await held(koda, client)
    for n in range(5):
        await koda.directory.move(session_id, commands.Think(f"thought {n}"))
    path = f"/v1/sessions/{session_id}/events"
    assert [e[0] for e in await take(http, path, 2, **{"Last-Event-ID": "4"})] == ["5", "6"]
    assert [e[0] for e in await take(http, f"{path}?after=5", 1)] == ["6"]
    assert [e[0] for e in await take(http, f"{path}?after=1", 1, **{"Last-Event-ID": "5"})] == ["6"]
    for bad in ("x", "-1", "9" * 30):
        response = await http.get(path, headers={"Last-Event-ID": bad})
        assert (response.status_code, response.json()["code"]) == (422, "INVALID_INPUT")


async def test_new_events_come_as_they_happen(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    events = client.follow(session_id)
    assert (await anext(events)).type == "state_change"
    for n in range(3):
        coming = asyncio.ensure_future(anext(events))
        await koda.directory.move(session_id, commands.Think(f"thought {n}"))
        assert (await asyncio.wait_for(coming, 60)).data["message"] == f"thought {n}"
    await events.aclose()


async def test_the_log_has_no_gap_over_a_whole_job(koda: World, client: KodaClient) -> None:
    koda.directory.asks = False
    made = await client.create(PROMPT)
    await until(client, made.session_id, "plan")
    await client.accept(made.session_id)
    state = await until(client, made.session_id, "preview")
    newest = (await client.session(made.session_id)).seq
    seen: list[int] = []
    async for envelope in client.follow(made.session_id):
        seen.append(envelope.seq)
        if envelope.seq == newest:
            break
    assert seen == list(range(1, newest + 1))
    assert state.preview is not None


async def test_many_may_follow_and_are_counted(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    streams = [client.follow(session_id) for _ in range(3)]
    for stream in streams:
        await anext(stream)
    assert koda.directory.watchers[session_id] == 3
    for stream in streams:
        await stream.aclose()
    await reached(lambda: koda.directory.watchers[session_id] == 0)


class Telling:
    """A directory that loses some numbers and is slow with others."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.lost = 0
        self.slow = asyncio.Event()

    async def watch(self, session_id: str, watchers: int) -> None:
        if self.lost:
            self.lost -= 1
            raise OSError("not there yet")
        if watchers == 1:
            await self.slow.wait()
        self.heard.append(watchers)


async def test_numbers_of_followers_keep_their_order_and_are_repeated(koda: World) -> None:
    directory = Telling()
    watchers = Watchers(cast("ScriptedDirectory", directory), every_s=0.02)
    directory.lost = 3
    with watchers.joined("ses_1"):
        await reached(lambda: directory.lost == 0)
        with watchers.joined("ses_1"):
            directory.slow.set()
            await reached(lambda: directory.heard[-2:] == [2, 2])
        await reached(lambda: directory.heard[-1] == 1)
    await reached(lambda: directory.heard[-1] == 0)
    await watchers.close()
    assert [count for count, _ in groupby(directory.heard)] in ([1, 2, 1, 0], [2, 1, 0])


async def test_a_client_that_hangs_up_cancels_nothing(koda: World, client: KodaClient) -> None:
    koda.directory.pace_s = 0.01
    koda.directory.asks = False
    made = await client.create(PROMPT)
    async for _ in client.follow(made.session_id):
        break
    await until(client, made.session_id, "plan")
    path = f"{koda.url}/v1/sessions/{made.session_id}/accept"
    koda.directory.slow_s = 1.0
    async with httpx.AsyncClient(trust_env=False, timeout=60) as hasty:
        with pytest.raises(httpx.ReadTimeout):
            await hasty.post(path, timeout=httpx.Timeout(60, read=0.05))
    await until(client, made.session_id, "preview")


@pytest.mark.full
async def test_hanging_up_in_a_burst_leaves_no_traceback(
    koda: World, client: KodaClient, caplog: pytest.LogCaptureFixture
) -> None:
    session_id = await held(koda, client)
    for n in range(200):
        await koda.directory.move(session_id, commands.Think(f"thought {n} " + "x" * 2000))
    for _ in range(5):
        async with httpx.AsyncClient(base_url=client.url, trust_env=False, timeout=60) as impatient:
            await take(impatient, f"/v1/sessions/{session_id}/events", 3)
    assert (await client.session(session_id)).state.phase == "idle"  # it serves on
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_who_hangs_up_in_a_burst_follows_no_more(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    for n in range(100):
        await koda.directory.move(session_id, commands.Think(f"thought {n} " + "x" * 20_000))
    gc.collect()
    gc.disable()  # which would find what was left open, some time
    try:
        for _ in range(10):
            async with httpx.AsyncClient(base_url=client.url, trust_env=False, timeout=60) as impatient:
                await take(impatient, f"/v1/sessions/{session_id}/events", 3)
        await reached(lambda: koda.directory.watchers[session_id] == 0)
    finally:
        gc.enable()


async def test_a_stream_ends_after_delete(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    events = client.follow(session_id)
    await anext(events)
    await client.delete(session_id)
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(events), 60)


async def test_following_survives_a_server_that_comes_back(tmp_path: Path) -> None:
    port = free_port()
    async with world(tmp_path, serve=False) as koda, KodaClient(f"http://127.0.0.1:{port}") as client:
        app = create_app(koda.deps)
        async with serving(app, port):
            session_id = await held(koda, client)
            events = client.follow(session_id)
            assert (await anext(events)).seq == 1
        koda.deps.draining.clear()
        coming = asyncio.ensure_future(anext(events))
        await koda.directory.move(session_id, commands.Think("while nobody listened"))
        async with serving(create_app(koda.deps), port):
            envelope = await asyncio.wait_for(coming, 60)
            assert (envelope.seq, envelope.data["message"]) == (2, "while nobody listened")
            await events.aclose()


async def test_open_streams_do_not_hold_up_a_shutdown(tmp_path: Path) -> None:
    async with (
        world(tmp_path, serve=False) as koda,
        httpx.AsyncClient(trust_env=False, timeout=120) as http,
        AsyncExitStack() as open_still,
    ):
        # one that the server had to wait for would be cut off after a minute
        async with serving(create_app(koda.deps), graceful_s=60) as url, KodaClient(url) as client:
            session_id = await held(koda, client)
            stream = http.stream("GET", f"{url}/v1/sessions/{session_id}/events")
            blocks = (await open_still.enter_async_context(stream)).aiter_raw()
            assert await anext(blocks)
        async for _ in blocks:  # it came to its end
            pass


async def test_a_user_has_so_many_streams_open_and_no_more(tmp_path: Path) -> None:
    keys = f"ada={'a' * 32},bob={'b' * 32}"
    async with (
        world(tmp_path, KODA_API_KEYS=keys, KODA_USER_STREAMS=3) as koda,
        KodaClient(koda.url, key="a" * 32) as ada,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        made = await ada.create("a red ball", style="minimal")
        head, address = {"Authorization": f"Bearer {'a' * 32}"}, f"/v1/sessions/{made.session_id}"
        paths = (f"{address}/events", f"/api/nodes/{made.node_id}/events")
        streams = koda.app.state.streams
        async with AsyncExitStack() as opened:
            for path in (*paths, paths[0]):
                response = await opened.enter_async_context(http.stream("GET", path, headers=head))
                assert response.status_code == 200
            for path in paths:
                refused = await http.get(path, headers=head)
                assert (refused.status_code, refused.json()["code"]) == (429, "LIMIT_REACHED")
                assert refused.headers["Retry-After"] == "10" and "3 streams of yours" in refused.json()["detail"]
            with pytest.raises(InvalidStatus) as caught:
                await opened.enter_async_context(connect(f"ws{koda.url[4:]}{address}/ws", additional_headers=head))
            assert caught.value.response.status_code == 429
            other = {"Authorization": f"Bearer {'b' * 32}"}
            assert (await http.get(paths[0], headers=other)).status_code == 404, "others are not kept out"
        await reached(lambda: streams.count("ada") == 0)
        async with connect(f"ws{koda.url[4:]}{address}/ws", additional_headers=head):
            assert streams.count("ada") == 1
        await reached(lambda: streams.count("ada") == 0)


def test_all_together_leave_room_for_requests() -> None:
    streams = Streams(3, total=4)
    with ExitStack() as opened:
        for user in ("ada", "ada", "ada", "bob"):
            opened.enter_context(streams.joined(user))
        with pytest.raises(LimitReached, match="4 streams are open on this server"):
            opened.enter_context(streams.joined("bob"))
    assert streams.count("ada") == 0


async def test_a_node_id_is_an_alias(koda: World, client: KodaClient, http: httpx.AsyncClient) -> None:
    session_id = await held(koda, client)
    node_id = (await client.session(session_id)).node_id
    assert node_id != session_id
    assert (await take(http, f"/api/nodes/{node_id}/events", 1))[0][:2] == ("1", "STATE_CHANGE")


async def frames(url: str, count: int) -> list[dict[str, object]]:
    async with connect(url, proxy=None) as socket:
        return [json.loads(await asyncio.wait_for(socket.recv(), 60)) for _ in range(count)]


async def test_the_same_over_a_websocket(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    await koda.directory.move(session_id, commands.Think("one"))
    base = f"{koda.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws"
    first, second = await frames(base, 2)
    assert (first["type"], first["seq"]) == ("STATE_CHANGE", 1)
    assert Envelope.model_validate(second["payload"]).data == {"message": "one"}
    assert (await frames(f"{base}?after=1", 1))[0]["seq"] == 2
    await reached(lambda: koda.directory.watchers[session_id] == 0)


async def test_what_a_websocket_client_says_changes_nothing(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    async with connect(f"{koda.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws") as socket:
        await socket.recv()
        await socket.send(b"\x00\xff")
        await socket.send("words")
        await koda.directory.move(session_id, commands.Think("still here"))
        assert json.loads(await asyncio.wait_for(socket.recv(), 60))["payload"]["data"] == {"message": "still here"}
    await reached(lambda: koda.directory.watchers[session_id] == 0)


async def test_a_websocket_is_refused_like_a_request(koda: World, client: KodaClient) -> None:
    base = koda.url.replace("http", "ws")
    with pytest.raises(InvalidStatus) as refused:
        await frames(f"{base}/v1/sessions/ses_unknown/ws", 1)
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body or b"{}")["code"] == "NOT_FOUND"


@pytest.mark.full
async def test_a_websocket_ends_after_delete(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    url = f"{koda.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws"
    async with connect(url, proxy=None) as socket:
        await socket.recv()
        await client.delete(session_id)
        async with asyncio.timeout(60):
            await socket.wait_closed()
        assert socket.close_code == 1000


async def test_events_of_kinds_that_a_client_does_not_know_are_skipped(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    await koda.directory.move(session_id, events=(NewEvent(type="usage", data={"new": {"fields": [1]}}),))
    seen: list[int] = []

    async def numbers() -> AsyncIterator[int]:
        async for envelope in client.follow(session_id):
            yield envelope.seq

    async for seq in numbers():
        seen.append(seq)
        if seq == 2:
            break
    assert seen == [1, 2]


@pytest.mark.full
async def test_a_client_that_does_not_read_is_told_what_it_is_spared(koda: World, client: KodaClient) -> None:
    """Over a real socket with a small buffer: the server waits, keeps a page, and leaves out progress only."""
    session_id = await held(koda, client)
    loop = asyncio.get_running_loop()
    quiet = socket.socket()
    quiet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    quiet.setblocking(False)
    port = httpx.URL(koda.url).port
    await loop.sock_connect(quiet, ("127.0.0.1", port))
    request = f"GET /v1/sessions/{session_id}/events HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    await loop.sock_sendall(quiet, request.encode())
    await reached(lambda: koda.directory.watchers.get(session_id) == 1)
    chunk = NewEvent(type="code_chunk", data={"path": "src/App.tsx", "offset": 0, "delta": "x" * 8000})
    important = NewEvent(type="budget_warning", data={"message": "nearly used up"})
    for _ in range(12):
        await koda.directory.move(session_id, events=(*[chunk] * 249, important))
    newest = (await koda.store.get_session(session_id)).seq
    decoder, got = SseDecoder(), list[Envelope]()
    reader, writer = await asyncio.open_connection(sock=quiet)
    async with asyncio.timeout(60):
        await reader.readuntil(b"\r\n\r\n")
        while not got or got[-1].seq < newest:
            block = await reader.read(65536)
            got += [Envelope.model_validate_json(data) for _, _, data in decoder.feed(block) if data]
    writer.close()
    await writer.wait_closed()
    (told,) = [event for event in got if event.type == "resync"]
    numbers = [event.seq for event in got if event.type != "resync"]
    assert told.data["reason"] == "slow" and told.data["wholeFrom"] == newest + 1
    assert newest - len(numbers) == told.data["leftOut"] and len(numbers) < 2000
    assert numbers == sorted(set(numbers))
    assert [event.type for event in got].count("budget_warning") == 12
    # who comes back with the number that it was told under gets everything
    again = client.follow(session_id, after=told.seq)
    assert [(await anext(again)).seq for _ in range(300)] == [*range(told.seq + 1, told.seq + 301)]
    await again.aclose()


async def test_swept_progress_is_told_over_both_kinds_of_stream(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    chunk = NewEvent(type="code_chunk", data={"path": "a", "offset": 0, "delta": "x"})
    await koda.directory.move(session_id, events=(chunk, NewEvent(type="thinking", data={})))
    await koda.store.prune_events(now() + timedelta(minutes=1))
    events = client.follow(session_id, after=1)
    told, after = await anext(events), await anext(events)
    await events.aclose()
    assert (told.type, told.seq, after.seq) == ("resync", 1, 3)
    assert told.data == {"reason": "swept", "after": 1, "wholeFrom": 3, "leftOut": 1}
    over_socket = await frames(f"{koda.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws?after=1", 2)
    assert [(each["type"], each["seq"]) for each in over_socket] == [("resync", 1), ("THINKING", 3)]


NOTE = NewEvent(type="usage", data={})


@pytest.mark.full
async def test_who_follows_some_channels_is_told_where_to_come_back_to(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id = await held(koda, client)
    await koda.directory.move(session_id, commands.Think("one"))
    path = f"/v1/sessions/{session_id}/events"
    assert [name for name, *_ in await take(http, f"{path}?channels=progress", 1)] == ["2"]
    both = await take(http, f"{path}?channels=progress&channels=control", 2)
    assert [event for _, event, _ in both] == ["STATE_CHANGE", "THINKING"]
    await koda.directory.move(session_id, events=(NOTE,) * 40)
    decoder, got = SseDecoder(), list[str]()
    async with asyncio.timeout(60), http.stream("GET", f"{path}?channels=progress&after=1") as response:
        async for block in response.aiter_raw():  # an id alone comes: EventSource keeps it, and calls nobody
            got += [name for name, _, _ in decoder.feed(block)]
            if decoder.last_id == "42":
                break
    assert got == ["2"]


@pytest.mark.full
async def test_the_client_comes_back_behind_what_it_does_not_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    async with world(tmp_path, serve=False) as koda, KodaClient(f"http://127.0.0.1:{port}") as client:
        asked: list[int] = []
        decoders: list[SseDecoder] = []
        read = koda.deps.store.log_rest

        def decoder() -> SseDecoder:
            decoders.append(SseDecoder())
            return decoders[-1]

        async def log_rest(stream_id: str, after: int) -> LogRest:
            asked.append(after)
            return await read(stream_id, after)

        koda.deps.store.log_rest = log_rest  # type: ignore[method-assign]
        monkeypatch.setattr(transport, "SseDecoder", decoder)
        async with serving(create_app(koda.deps), port):
            session_id = await held(koda, client)
            await koda.directory.move(session_id, commands.Think("one"))
            await koda.directory.move(session_id, events=(NOTE,) * 40)
            events = client.follow(session_id, channels="progress")
            assert (await anext(events)).data["message"] == "one"
            coming = asyncio.ensure_future(anext(events))
            await reached(lambda: decoders[-1].last_id == "42")  # a quiet stream says once a second how far it is
        koda.deps.draining.clear()
        async with serving(create_app(koda.deps), port):
            await reached(lambda: asked[-1] == 42)
            await koda.directory.move(session_id, commands.Think("two"))
            assert (await asyncio.wait_for(coming, 60)).data["message"] == "two"
            await events.aclose()


@pytest.mark.full
async def test_a_websocket_follows_some_channels_too(koda: World, client: KodaClient) -> None:
    session_id = await held(koda, client)
    await koda.directory.move(session_id, commands.Think("one"))
    await koda.directory.move(session_id, events=(NOTE,) * 40)
    base = f"{koda.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws"
    one, place = await frames(f"{base}?channels=progress", 2)
    assert (one["type"], one["seq"]) == ("THINKING", 2)
    assert place == {"type": "cursor", "seq": 42, "payload": None}


async def test_a_channel_that_is_none_is_refused_with_those_that_are(
    koda: World, client: KodaClient, http: httpx.AsyncClient
) -> None:
    session_id = await held(koda, client)
    for path in (f"/v1/sessions/{session_id}", f"/api/nodes/{(await client.session(session_id)).node_id}"):
        response = await http.get(f"{path}/events?channels=progress&channels=news")
        assert response.status_code == 422
        assert all(name in response.text for name in ("progress", "control", "monitor")), response.text
    with pytest.raises(InvalidStatus) as refused:
        await frames(f"{koda.url.replace('http', 'ws')}/v1/sessions/{session_id}/ws?channels=news", 1)
    assert refused.value.response.status_code == 422
    body = json.loads(refused.value.response.body or b"{}")
    assert body["detail"] == "there is no channel 'news'; the channels are progress, control, monitor"
    with pytest.raises(InvalidInput, match="'news'"):
        await anext(client.follow(session_id, channels="news"))  # type: ignore[arg-type]
    described = (await http.get("/v1/openapi.json")).json()["paths"]["/v1/sessions/{session_id}/events"]["get"]
    (channels,) = [each for each in described["parameters"] if each["name"] == "channels"]
    assert all(name in json.dumps(channels) for name in ("progress", "control", "monitor"))
