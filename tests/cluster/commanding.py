"""What people ask of a server while something of a cluster is away: each kind of command, and whether it came true."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from koda_ray.cancellation import end_all
from koda_ray.errors import NotFound
from koda_ray.render.bundle import store_bundle
from koda_ray.serve.problem import PROBLEM_TYPE
from koda_ray.types import new_id
from tests.built import read_folder
from tests.cluster.work import PAGES, USER, World
from tests.state import records

__all__ = ["COMMANDS", "AskedServer", "Commanding", "answer_of"]

COMMANDS = ("plan", "create", "message", "render", "preview", "fork", "delete")
_AGAIN = 3
"""How often what is told to be asked again is."""
_PROMPT = {"prompt": "a bouncing ball, 2 seconds, playful"}
_SMALL = {"duration": 1, "fps": 15, "width": 320, "height": 180}


@dataclass
class AskedServer:
    """What was asked, and what of it was not answered as it should be."""

    counted: Counter[str] = field(default_factory=Counter[str])
    codes: Counter[str] = field(default_factory=Counter[str])
    why: list[str] = field(default_factory=list[str])
    longest_get_s: float = 0.0
    untrue: int = 0
    """How many sessions are not as was answered: made and not there, or deleted and there."""
    spoken_to: str = ""
    """The session that is spoken to all the time."""
    is_away: bool = False
    all_kinds: bool = False
    """Whether commands of all kinds are asked because something is away."""
    unanswered: int = 0
    """How many absences' commands of all kinds are not answered yet."""
    absences: asyncio.Queue[None] = field(default_factory=asyncio.Queue[None])
    took_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """How long the commands of each kind took that were asked while something was away."""

    @property
    def seen(self) -> dict[str, object]:
        """All of it, by name."""
        names = ("gets", "get_failures", "commands", "commands_refused", "asked_again")
        away = {
            kind: {"count": len(took), "median_s": statistics.median(took), "longest_s": max(took)}
            for kind, took in self.took_s.items()
        }
        return {
            **{name: self.counted[name] for name in names},
            "codes": dict(self.codes),
            "longest_get_s": self.longest_get_s,
            "commands_away": self.commands_away,
            "away": away,
            "untrue_answers": self.untrue,
            "why_refused": self.why[:5],
        }

    @property
    def commands_away(self) -> int:
        """How many commands were asked while something was away, and are answered."""
        return sum(map(len, self.took_s.values()))

    @contextmanager
    def away(self, *, all_kinds: bool = True) -> Generator[None]:
        """Note that something is away in the block; commands of all kinds are asked then, or none that make work."""
        self.is_away, self.all_kinds = True, all_kinds
        if all_kinds:
            self.unanswered += 1
            self.absences.put_nowait(None)
        try:
            yield
        finally:
            self.is_away = False

    def note(self, kind: Literal["gets", "commands"], answer: httpx.Response | httpx.HTTPError) -> None:
        """Count a request of a kind, and why it was not answered as it should be, if so."""
        self.counted[kind] += 1
        if isinstance(answer, httpx.Response) and answer.is_success:
            return
        self.counted["get_failures" if kind == "gets" else "commands_refused"] += 1
        is_told = isinstance(answer, httpx.Response) and answer.headers["content-type"] == PROBLEM_TYPE
        self.codes[answer.json()["code"] if is_told else type(answer).__name__] += 1
        self.why.append(answer.text if isinstance(answer, httpx.Response) else repr(answer))


async def answer_of(http: httpx.AsyncClient, method: str, path: str, **sent: Any) -> httpx.Response | httpx.HTTPError:
    """Ask a server; return its answer, or why there is none."""
    try:
        return await http.request(method, path, **sent)
    except httpx.HTTPError as error:
        return error


class Commanding:
    """Commands a server.

    Args:
        world: Where its sessions are.
        http: Asks it.
        found: What it answered.
    """

    def __init__(self, world: World, http: httpx.AsyncClient, found: AskedServer) -> None:
        self._world = world
        self._http = http
        self._found = found
        self._spoken_to = self._other = self._bundle = ""
        self._made: list[str] = []
        self._deleted: list[str] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._hearing: asyncio.Task[None] | None = None

    async def begin(self, *, each: bool) -> None:
        """Make what is commanded; with ``each``, ask each kind of command once for every absence from now on."""
        # awake, or each of its commands would wait for a head that is away
        self._spoken_to = self._found.spoken_to = await self._world.session()
        if each:
            self._other = (await records.new_session(self._world.store, USER)).id
            self._bundle = await store_bundle(self._world.storage, USER, read_folder(PAGES / "plain"))
            made = await self._http.post("/v1/sessions", json=_PROMPT, headers={"Idempotency-Key": new_id("cmd")})
            self._made.append(made.raise_for_status().json()["sessionId"])
            self._hearing = asyncio.create_task(self._hear())

    async def end(self) -> None:
        """Wait for all answers, and see whether they are true; may be called twice."""
        if self._hearing is not None:
            await end_all((self._hearing,))
        await asyncio.gather(*self._asking)
        there = [await self._is_there(each) for each in self._made]
        gone = [not await self._is_there(each) for each in self._deleted]
        self._found.untrue = [*there, *gone].count(False)

    async def say(self) -> None:
        """Say something to a session that is awake."""
        key = new_id("cmd")
        path = f"/v1/sessions/{self._spoken_to}/plan"
        if await self._ask("plan", "POST", path, key=key, json=self._world.words(self._spoken_to, key)) is not None:
            self._world.answered(self._spoken_to, key)

    async def render(self) -> None:
        """Have a page rendered, always the same, where something is away."""
        if not (self._found.is_away and self._found.all_kinds):
            return
        await self._ask("render", "POST", "/v1/renders", json={"bundle": self._bundle, "options": _SMALL})

    async def _hear(self) -> None:
        while True:
            await self._found.absences.get()
            task = asyncio.create_task(self._ask_each())
            self._asking.add(task)

    async def _ask_each(self) -> None:
        old, self._made = self._made, []
        asleep = (await records.new_session(self._world.store, USER)).id
        created, forked, *_ = await asyncio.gather(
            self._ask("create", "POST", "/v1/sessions", json=_PROMPT),
            self._ask("fork", "POST", f"/v1/sessions/{self._other}/fork"),
            self._ask("message", "POST", f"/v1/sessions/{asleep}/messages", json={"text": "slower, please"}),
            self._ask("preview", "POST", f"/v1/sessions/{self._other}/preview"),
            *(self._ask("delete", "DELETE", f"/v1/sessions/{each}") for each in old),
        )
        self._deleted += old
        self._made += [asleep, *(answer["sessionId"] for answer in (created, forked) if answer)]
        self._found.unanswered -= 1

    async def _ask(self, kind: str, method: str, path: str, *, key: str = "", **sent: Any) -> dict[str, Any] | None:
        is_away, began = self._found.is_away, time.monotonic()
        headers = {"Idempotency-Key": key or new_id("cmd")}
        answer = await answer_of(self._http, method, path, headers=headers, **sent)
        for _ in range(_AGAIN):
            if isinstance(answer, httpx.HTTPError) or "Retry-After" not in answer.headers:
                break
            self._found.counted["asked_again"] += 1  # as the client that people have does
            await asyncio.sleep(int(answer.headers["Retry-After"]))
            answer = await answer_of(self._http, method, path, headers=headers, **sent)
        self._found.note("commands", answer)
        if is_away:
            self._found.took_s.setdefault(kind, []).append(round(time.monotonic() - began, 3))
        if isinstance(answer, httpx.HTTPError) or not answer.is_success:
            return None
        return answer.json() if answer.content else {}

    async def _is_there(self, session_id: str) -> bool:
        try:
            await self._world.store.get_session(session_id, user_id=USER)
        except NotFound:
            return False
        return True
