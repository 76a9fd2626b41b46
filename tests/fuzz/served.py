"""The API before clients that send whatever they like to takes, labels and plans: over HTTP, a real store behind it.

Whatever is sent, the answer is no 500; and what was taken can be read again, alone and in the list.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from hypothesis import strategies as st
from pydantic import ValidationError

from koda_ray.errors import KodaError
from koda_ray.types import MAX_TAKES, NodeState
from koda_ray.wire import SessionPage, SessionView, TakesCreated
from tests.fuzz.nearly import nearly, nearly_json
from tests.fuzz.targets import FuzzTarget
from tests.serve.world import World, world

__all__ = ["SERVED"]

_UNBOUND: dict[str, Any] = {"KODA_USER_SESSIONS": 10_000, "KODA_USER_CHANGES_PER_MIN": 0}
"""What lets one user do all that is tried: whatever is refused is refused for what it is, not for how much came."""
_PLANNED = {"prompt": "a ball bounces", "options": {"duration": 5}}
_KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
_JSON = {"content-type": "application/json"}
_HEADERS = st.one_of(
    st.just(_JSON),
    st.builds(lambda key: {**_JSON, "idempotency-key": key}, _KEYS),
    st.fixed_dictionaries(
        {},
        optional={
            "content-type": st.sampled_from(("application/json", "text/plain", "application/json; charset=utf-16", "")),
            "idempotency-key": st.one_of(_KEYS, st.sampled_from(("", "\x80", "k" * 500))),
        },
    ),
)


class _Api:
    """A server for as long as a target is fuzzed, and the client that asks it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._session_id = ""
        self._opened = 0

    def open(self) -> None:
        self._runner.run(self._open())

    def close(self) -> None:
        try:
            self._runner.run(self._stack.aclose())
        finally:
            self._runner.close()

    def do(self, work: Callable[[], Awaitable[None]]) -> None:
        async def once() -> None:
            try:
                await work()
            except (KodaError, ValidationError) as error:  # behind HTTP nobody is told of these: it is a 500
                raise AssertionError(repr(error)) from error

        try:
            self._runner.run(once())
        except BaseException:  # what is tried next begins with nothing that this one left
            self._runner.run(self._stack.aclose())
            self.open()
            raise

    async def _open(self) -> None:
        self._session_id, self._opened = "", self._opened + 1
        folder = self._folder / str(self._opened)
        folder.mkdir()
        koda: World = await self._stack.enter_async_context(world(folder, serve=False, **_UNBOUND))
        koda.directory.asks = False
        self._directory = koda.directory
        await self._stack.enter_async_context(koda.app.router.lifespan_context(koda.app))
        transport = httpx.ASGITransport(koda.app, raise_app_exceptions=True)
        self.http = await self._stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        )

    async def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        """Ask something, and look at what any answer has to be."""
        sent = [(name, value.encode("latin-1")) for name, value in headers.items()]
        answer = await self.http.request(method, path, content=body, headers=sent)
        assert answer.status_code < 500 and answer.status_code != 429, (answer.status_code, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["code"] and "Traceback" not in answer.text
        return answer

    async def listed(self) -> SessionPage:
        """Read the list, all of which has to be readable."""
        return SessionPage.model_validate_json((await self.send("GET", "/v1/sessions?limit=200", b"", {})).content)

    async def read(self, session_id: str) -> SessionView:
        """Read a session, as a client does and as another process would."""
        answer = await self.send("GET", f"/v1/sessions/{session_id}", b"", {})
        found = SessionView.model_validate_json(answer.content)
        assert NodeState.model_validate_json(found.state.model_dump_json()) == found.state
        return found

    async def planned(self) -> str:
        """Return a session whose plan waits for its person: the same until `used`."""
        if not self._session_id:
            body = json.dumps(_PLANNED).encode()
            made = await self.send("POST", "/v1/sessions", body, _JSON)
            self._session_id = str(made.json()["sessionId"])
            async with asyncio.timeout(60):
                while (await self.read(self._session_id)).state.phase != "plan":
                    await asyncio.sleep(0)
        return self._session_id

    async def delete(self, session_id: str) -> None:
        assert (await self.send("DELETE", f"/v1/sessions/{session_id}", b"", {})).status_code == 204
        if session_id == self._session_id:
            self._session_id = ""


_OPEN: list[_Api] = []


@contextmanager
def _serving() -> Generator[None]:
    with tempfile.TemporaryDirectory(prefix="koda-fuzz-") as folder:
        api = _Api(Path(folder))
        _OPEN.append(api)
        try:
            api.open()
            yield
        finally:
            _OPEN.remove(api)
            api.close()


def _takes(given: tuple[bytes, dict[str, str]]) -> None:
    body, headers = given
    (api,) = _OPEN

    async def work() -> None:
        answer = await api.send("POST", "/v1/takes", body, headers)
        if answer.status_code >= 400:
            assert (await api.listed()).sessions == (), "one that is refused makes none"
            return
        made = TakesCreated.model_validate_json(answer.content)
        again = await api.send("POST", "/v1/takes", body, headers)
        if headers.get("idempotency-key"):
            assert TakesCreated.model_validate_json(again.content) == made
        listed = (await api.listed()).sessions
        assert {each.session_id for each in made.sessions} <= {each.id for each in listed}
        assert 2 <= len(made.sessions) <= MAX_TAKES
        for each in listed:
            state = (await api.read(each.id)).state
            assert (state.group is not None, state.options.take) == (True, each.take)
            await api.delete(each.id)

    api.do(work)


def _labels(given: tuple[bytes, dict[str, str], str]) -> None:
    body, headers, searched = given
    (api,) = _OPEN

    async def work() -> None:
        session_id = await api.planned()
        before = await api.read(session_id)
        answer = await api.send("PATCH", f"/v1/sessions/{session_id}", body, headers)
        found = await api.read(session_id)
        assert found.state == before.state and found.seq == before.seq
        (listed,) = (await api.listed()).sessions
        assert (listed.title, listed.pinned) == (found.title, found.pinned)
        if answer.status_code >= 400:
            assert (found.title, found.pinned) == (before.title, before.pinned)
        else:
            assert SessionView.model_validate_json(answer.content).title == found.title
            assert found.title is None or (found.title and len(found.title) <= 200)
        answer = await api.http.get("/v1/sessions", params={"text": searched.encode(errors="surrogatepass")})
        assert answer.status_code < 500, answer.text

    api.do(work)


def _plans(given: tuple[bytes, dict[str, str]]) -> None:
    body, headers = given
    (api,) = _OPEN

    async def work() -> None:
        session_id = await api.planned()
        before = (await api.read(session_id)).state
        answer = await api.send("POST", f"/v1/sessions/{session_id}/plan", body, headers)
        state = (await api.read(session_id)).state
        (listed,) = (await api.listed()).sessions
        assert listed.id == session_id and state.phase == "plan" and state.owes is None
        if answer.status_code >= 400:
            assert state == before
            return
        assert state.plan is not None and before.plan is not None
        assert [scene.number for scene in state.plan.scenes] == list(range(1, len(state.plan.scenes) + 1))
        assert abs(state.plan.total_duration - sum(scene.duration for scene in state.plan.scenes)) < 0.01
        if state != before:
            await api.delete(session_id)  # the next edits a plan as it was

    api.do(work)


def _sent(seeds: tuple[object, ...], names: tuple[str, ...], values: st.SearchStrategy[object]) -> Any:
    return st.one_of(
        nearly([json.dumps(seed).encode() for seed in seeds]),
        st.one_of(values, nearly_json(names)).map(lambda value: json.dumps(value).encode()),
    )


_TEXTS = st.one_of(
    st.text(max_size=30), st.text(st.characters(codec=None), max_size=30), st.sampled_from(("", " ", "\0", "x" * 201))
)
_NUMBERS = st.one_of(
    st.integers(-1, 6), st.floats(), st.floats(0, 10), st.sampled_from((1e-9, 0.004, 0.2, 0.499, 299.9996, 300, 1e308))
)
_TAKE = st.fixed_dictionaries(
    {"prompt": _TEXTS, "takes": st.one_of(st.integers(2, MAX_TAKES), _NUMBERS)},
    optional={
        "style": _TEXTS,
        "projectId": _TEXTS,
        "options": st.fixed_dictionaries(
            {}, optional={"duration": st.floats(0, 300), "fps": st.integers(0, 121), "take": st.integers(0, 1)}
        ),
        "budget": st.fixed_dictionaries({}, optional={"tokens": _NUMBERS, "costUsd": _NUMBERS, "warnAt": _NUMBERS}),
        "assetIds": st.lists(_TEXTS, max_size=2),
    },
)
_LABEL = st.fixed_dictionaries(
    {}, optional={"title": _TEXTS, "pinned": st.one_of(st.booleans(), st.none(), _NUMBERS, _TEXTS)}
)
_EDIT = st.fixed_dictionaries(
    {"scene": st.one_of(st.integers(1, 4), _NUMBERS)},
    optional={"title": _TEXTS, "duration": _NUMBERS, "description": _TEXTS},
)
_LIKELY = st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True).flatmap(
    lambda numbers: st.tuples(
        *(
            st.fixed_dictionaries({"scene": st.just(number)}, optional={"title": _TEXTS, "duration": st.floats(0, 8)})
            for number in numbers
        )
    )
)
_PLAN = st.fixed_dictionaries({"scenes": st.one_of(_LIKELY, st.lists(_EDIT, max_size=4))})

SERVED: dict[str, FuzzTarget] = {
    "takes": FuzzTarget(
        st.tuples(
            _sent(
                ({"prompt": "a ball", "takes": 3, "options": {"duration": 5}, "budget": {"tokens": 5}},),
                ("prompt", "takes", "options", "duration", "budget", "projectId", "render"),
                _TAKE,
            ),
            _HEADERS,
        ),
        _takes,
        around=_serving,
    ),
    "labels": FuzzTarget(
        st.tuples(_sent(({"title": "Opening", "pinned": True},), ("title", "pinned"), _LABEL), _HEADERS, _TEXTS),
        _labels,
        around=_serving,
    ),
    "plans": FuzzTarget(
        st.tuples(
            _sent(
                ({"scenes": [{"scene": 3, "duration": 2.5}, {"scene": 1, "title": "Fall"}, {"scene": 2}]},),
                ("scenes", "scene", "title", "duration", "description"),
                _PLAN,
            ),
            _HEADERS,
        ),
        _plans,
        around=_serving,
    ),
}
