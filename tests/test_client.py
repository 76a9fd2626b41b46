from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from koda_ray.client import Koda, KodaClient, Unreachable
from koda_ray.config import REPO_ROOT
from koda_ray.errors import InvalidInput, InvalidTransition, KodaError, NotFound
from koda_ray.events import Envelope
from koda_ray.sse import SseDecoder
from tests.serve.world import free_port, serving, world

PROMPT = "Create a bouncing ball animation"
Answer = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[KodaClient]:
    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])])
    async with serving(app) as url, KodaClient(url) as client:
        yield client


def problem(status: int, code: str, *, retryable: bool = False) -> JSONResponse:
    body = {"code": code, "detail": f"it is {code}", "retryable": retryable, "context": {"n": 1}, "status": status}
    return JSONResponse(body, status_code=status, media_type="application/problem+json")


# --- the decoder ----------------------------------------------------------------------------------------------------

_TEXTS = st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"))


@given(
    st.lists(st.tuples(st.integers(1, 10**6), _TEXTS.filter(lambda text: text.strip() != "")), max_size=6), st.data()
)
def test_events_survive_any_cut_of_the_bytes(events: list[tuple[int, str]], data: st.DataObject) -> None:
    ends = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    wire = "".join(
        f"id: {number}{ends}: a comment{ends}event: X{ends}data: {json.dumps(text, ensure_ascii=False)}{ends}{ends}"
        for number, text in events
    ).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    decoder, found = SseDecoder(), []
    for start, stop in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        found += decoder.feed(wire[start:stop])
    found += decoder.feed(b"\n")
    assert [(int(name), event, json.loads(text)) for name, event, text in found] == [(n, "X", t) for n, t in events]


def test_only_line_feeds_and_returns_end_a_line() -> None:
    text = "a\u2028b\u0085c\x0bd\x1ce"
    assert SseDecoder().feed(f"data: {text}\n\n".encode()) == [("", "message", text)]
    assert SseDecoder().feed(b"data: one\ndata: two\nid: 7\nretry: 5\n\n") == [("7", "message", "one\ntwo")]


# --- errors and retries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (404, "NOT_FOUND", NotFound),
        (404, "VIDEO_NOT_READY", NotFound),
        (409, "INVALID_TRANSITION", InvalidTransition),
        (422, "SOMETHING_NEWER", InvalidInput),
        (418, "TEAPOT", KodaError),
    ],
)
async def test_errors_come_back_as_what_they_were(status: int, code: str, expected: type[KodaError]) -> None:
    async def answer(_: Request) -> Response:
        return problem(status, code)

    async with server(answer) as client:
        with pytest.raises(expected) as error:
            await client.session("ses_1")
        assert type(error.value) is expected and error.value.code == code
        assert error.value.message == f"it is {code}" and error.value.context == {"status": status, "n": 1}


async def test_something_else_than_a_koda_server_is_said() -> None:
    async def answer(request: Request) -> Response:
        return PlainTextResponse("<h1>hello</h1>", status_code=200 if "health" in request.url.path else 500)

    async with server(answer) as client:
        with pytest.raises(KodaError, match="is it a koda server"):
            await client.health()
        with pytest.raises(KodaError, match="answered 500: <h1>hello"):
            await client.session("ses_1")


async def test_a_lost_response_is_asked_for_again_with_the_same_key() -> None:
    keys: list[str] = []

    async def answer(request: Request) -> Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) < 3:
            return problem(503, "STORAGE_FAILED", retryable=True)
        body = {"commandId": "cmd_1", "sessionId": "ses_1", "command": "accept", "result": {}, "new": "field"}
        return JSONResponse({**body, "createdAt": "2026-01-01T00:00:00Z"}, status_code=202)

    async with server(answer) as client:
        assert (await client.accept("ses_1")).command_id == "cmd_1"
    assert len(keys) == 3 and len(set(keys)) == 1


async def test_an_error_that_will_not_mend_is_not_repeated() -> None:
    calls = 0

    async def answer(_: Request) -> Response:
        nonlocal calls
        calls += 1
        return problem(503, "MISSING")

    async with server(answer) as client:
        with pytest.raises(KodaError):
            await client.session("ses_1")
    assert calls == 1


async def test_a_deletion_whose_answer_was_lost_is_done() -> None:
    gone: list[str] = []

    async def answer(request: Request) -> Response:
        if gone:
            return problem(404, "NOT_FOUND")
        gone.append(request.url.path)
        return problem(503, "UNAVAILABLE", retryable=True)  # as of a proxy whose server went away

    async with server(answer) as client:
        await client.delete("ses_1")
        with pytest.raises(NotFound):
            await client.delete("ses_1")


async def test_nobody_there() -> None:
    async with KodaClient(f"http://127.0.0.1:{free_port()}") as client:
        with pytest.raises(Unreachable, match="koda serve"):
            await client.health()
        with pytest.raises(Unreachable):
            await anext(client.follow("ses_1", give_up_s=0.2))


async def test_a_broken_download_goes_on_where_it_broke(tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000
    ranges: list[str | None] = []

    async def answer(request: Request) -> Response:
        wanted = request.headers.get("range")
        ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        rest = data[start:]

        async def body() -> AsyncIterator[bytes]:
            yield rest[: len(rest) // 2]
            if len(ranges) < 3:
                raise ConnectionError("cut")
            yield rest[len(rest) // 2 :]

        headers = {"ETag": '"v1"', "Content-Length": str(len(rest))}
        return StreamingResponse(body(), status_code=206 if wanted else 200, headers=headers)

    logging.getLogger("uvicorn.error").disabled = True
    try:
        async with server(answer) as client:
            assert await client.download("ses_1", tmp_path / "video.mp4") == len(data)
    finally:
        logging.getLogger("uvicorn.error").disabled = False
    assert (tmp_path / "video.mp4").read_bytes() == data
    assert len(ranges) == 3 and ranges[0] is None and ranges[2] is not None
    assert os.listdir(tmp_path) == ["video.mp4"]


# --- without async --------------------------------------------------------------------------------------------------


async def test_the_plain_form_does_the_same(tmp_path: Path) -> None:
    def script(url: str) -> list[str]:
        phases: list[str] = []
        with Koda(url) as koda:
            assert koda.health().status == "ok"
            made = koda.create(PROMPT, style="playful")
            for event in koda.follow(made.session_id):
                if event.type != "state_change" or event.data["owes"] is not None:
                    continue
                phases.append(str(event.data["phase"]))
                if phases[-1] in ("plan", "preview"):
                    koda.accept(made.session_id)
                elif phases[-1] == "complete":
                    break
            koda.download(made.session_id, tmp_path / "video.mp4")
            assert koda.sessions().sessions[0].id == made.session_id
            assert koda.read_file(made.session_id, koda.files(made.session_id).files[0].path)
            koda.delete(made.session_id)
        return phases

    async with world(tmp_path) as koda:
        assert await asyncio.to_thread(script, koda.url) == ["plan", "preview", "complete"]
    assert (tmp_path / "video.mp4").stat().st_size > 0


def _methods(client: type) -> dict[str, Callable[..., object]]:
    return {
        name: member
        for name, member in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_") and name != "close"
    }


def test_the_plain_form_has_every_method_with_its_parameters_and_what_it_returns() -> None:
    asynchronous, plain = _methods(KodaClient), _methods(Koda)
    assert len(asynchronous) > 30 and asynchronous.keys() == plain.keys()
    for name, method in asynchronous.items():
        theirs, ours = (inspect.signature(each, eval_str=True) for each in (method, plain[name]))
        assert list(ours.parameters.values()) == list(theirs.parameters.values()), name
        if inspect.iscoroutinefunction(method):
            expected = theirs.return_annotation
        else:
            assert inspect.isasyncgenfunction(method) and inspect.isgeneratorfunction(plain[name]), name
            assert get_origin(theirs.return_annotation) is AsyncGenerator
            expected = Generator[get_args(theirs.return_annotation)]
        assert ours.return_annotation == expected, name
        assert not inspect.iscoroutinefunction(plain[name]) and inspect.getdoc(plain[name]) == inspect.getdoc(method)
    assert inspect.signature(Koda) == inspect.signature(KodaClient)
    with Koda("http://127.0.0.1:1/") as koda:
        assert koda.url == KodaClient("http://127.0.0.1:1/").url


@pytest.mark.full
def test_a_type_checker_sees_the_same_of_both(tmp_path: Path) -> None:
    names = sorted(_methods(KodaClient))
    lines = ["from koda_ray.client import Koda, KodaClient", "plain = Koda()", "other = KodaClient()"]
    lines += [f"reveal_type({client}.{name})" for name in names for client in ("plain", "other")]
    (tmp_path / "asked.py").write_text("\n".join(lines))
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(REPO_ROOT)], "include": ["asked.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    program = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    told = json.loads(done.stdout)["generalDiagnostics"]
    assert {each["severity"] for each in told} == {"information"}, told
    seen = [re.sub(r'^Type of ".*?" is ', "", each["message"]) for each in told]
    assert len(seen) == 2 * len(names) and not [ours for ours in seen[::2] if "Any" in ours or "Unknown" in ours]
    for name, ours, theirs in zip(names, seen[::2], seen[1::2], strict=True):
        awaited = re.sub(r"-> CoroutineType\[Any, Any, (.*)\]\"$", r'-> \1"', theirs)
        assert ours == re.sub(r"-> AsyncGenerator\[(.*), None\]\"$", r'-> Generator[\1, None, None]"', awaited), name


_FOLLOWING = """
import sys
from koda_ray.client import Koda

try:
    with Koda(sys.argv[1]) as koda:
        for event in koda.follow("ses_1"):
            print(event.seq, flush=True)
except KeyboardInterrupt:
    print("interrupted")
"""


async def test_an_interrupt_ends_the_plain_form_and_its_connection() -> None:
    gone = asyncio.Event()

    async def answer(_: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            told = Envelope(stream_id="ses_1", seq=1, channel="control", type="state_change")
            yield f"id: 1\ndata: {told.model_dump_json()}\n\n".encode()
            try:
                while True:
                    await asyncio.sleep(0.05)
                    yield b": still here\n\n"
            finally:
                gone.set()

        return StreamingResponse(body(), media_type="text/event-stream")

    async with server(answer) as client:
        follows = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-c", _FOLLOWING, client.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert follows.stdout is not None
        async with asyncio.timeout(60):
            assert await follows.stdout.readline() == b"1\n"
            follows.send_signal(signal.SIGINT)
            out, err = await follows.communicate()
            await gone.wait()
    assert (follows.returncode, out, err) == (0, b"interrupted\n", b"")


def test_closing_twice_is_fine() -> None:
    koda = Koda("http://127.0.0.1:1")
    koda.close()
    koda.close()
