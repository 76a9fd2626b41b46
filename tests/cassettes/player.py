"""Plays a cassette: does what the person does, over HTTP, and looks at everything there is to see after each step.

Most verbs are commands of the client. ``restart`` ends the session's process in good order, and the next command begins
another (on a cluster the process is killed); ``return`` goes on in the session of a mark, after a fork was looked at.

Also where a cassette says nothing of it: the state is one that the phase machine allows; the stored history has a
result for every call that does not wait, and no other; each answer of the model was paid for once, and accounts are
the sums of their charges; a reader of the event stream was given every event once, in order.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from koda_ray import phases
from koda_ray.client import KodaClient
from koda_ray.errors import KodaError, NotFound
from koda_ray.events import Envelope
from koda_ray.state.store import Store
from koda_ray.types import Budget, NodeState, RenderOptions, SessionOptions, SessionPermissions
from koda_ray.wire import SessionView
from tests.actors.test_timeline import valid
from tests.books import check_sums
from tests.cassettes.cassette import Absent, Cassette, CassetteStep, Holds, differences
from tests.cassettes.model import CassetteModel, ModelTranscript
from tests.llm.server import ModelServer
from tests.test_end_to_end import frames_of, hue_of

__all__ = ["Begin", "Openings", "Played", "play"]

REST_S = 120.0
_TIMES = {"updated_at", "last_checkpoint", "sandbox_id", "sandbox_status"}
_HUES = {"red": 0.0, "green": 120.0, "blue": 220.0}
_HUE_NEAR = 25.0


class Played(Protocol):
    """The product that a conversation is held with."""

    @property
    def client(self) -> KodaClient:
        """What the person uses."""
        ...

    @property
    def store(self) -> Store:
        """Its database."""
        ...

    async def put_away(self, session_id: str) -> None:
        """End the process of a session."""
        ...

    async def at_rest(self, session_id: str) -> bool:
        """Whether the session has nothing more to do of itself; its row says so some moments earlier."""
        ...


Begin = Callable[[Path, ModelServer, Mapping[str, Any]], AbstractAsyncContextManager[Played]]
"""Serves what lies in a folder, with a model and settings by name."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What there was at a mark; ``point`` is the newest message, by which the session finds it again."""

    point: str
    transcript: ModelTranscript
    state: dict[str, Any]
    files: dict[str, bytes]
    messages: tuple[str, ...]
    beads: tuple[Any, ...]
    bundle: str | None


@dataclass(kw_only=True)
class Talk:
    """How far a conversation has come; an opening's goes on in others."""

    session_id: str = ""
    transcript: ModelTranscript = ()
    answered: dict[str, int] = field(default_factory=dict)
    marks: dict[str, Moment] = field(default_factory=dict)
    bundles: set[str] = field(default_factory=set)


class Openings:
    """Openings that were played, each once, for all cassettes that go on from it.

    Args:
        folder: Where they are kept; no session of them is active.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._played: dict[str, Talk] = {}

    async def copied(self, name: str, target: Path, begin: Begin) -> Talk:
        """Put what there was after an opening into a folder."""
        kept = self._folder / name
        if name not in self._played:
            kept.mkdir(exist_ok=True)  # left by one that failed, which fails again for the same reason
            kept.chmod(0o755)
            self._played[name] = await play(Cassette.read(f"openings/{name}"), kept, begin, Talk())
        await asyncio.to_thread(
            lambda: shutil.copytree(kept, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("sandboxes"))
        )
        played = self._played[name]
        return Talk(
            session_id=played.session_id,
            transcript=played.transcript,
            answered=dict(played.answered),
            marks=dict(played.marks),
            bundles=set(played.bundles),
        )


async def play(cassette: Cassette, folder: Path, begin: Begin, talk: Talk) -> Talk:
    """Play a cassette to its end; return how far the conversation came."""
    model = CassetteModel(talk.transcript)
    with ModelServer(model) as server:
        async with begin(folder, server, cassette.settings) as made:
            player = _Player(made, model, server, talk, folder)
            for number, step in enumerate(cassette.talk, 1):
                try:
                    await player.step(step)
                except (AssertionError, KodaError) as error:
                    error.add_note(f"in step {number} of {cassette.title!r}: {step.person}")
                    raise
            await player.ended()
    talk.transcript = model.transcript
    return talk


class _Player:
    def __init__(self, made: Played, model: CassetteModel, server: ModelServer, talk: Talk, folder: Path) -> None:
        self._product = made
        self._koda = made.client
        self._model = model
        self._server = server
        self._talk = talk
        self._folder = folder
        self._seen: dict[str, list[Envelope]] = {}

    @property
    def _id(self) -> str:
        return self._talk.session_id

    async def step(self, step: CassetteStep) -> None:
        before = (await self._koda.session(self._id)).seq if self._id else 0
        answered = self._model.answered
        self._model.expect(step.model)
        ((verb, given),) = step.person.items()
        if step.refused is not None:
            try:
                await getattr(self, f"_{verb}")(given)
            except KodaError as error:
                wrong = [*differences(step.refused, {"code": error.code, "message": error.message})]
                assert not wrong, wrong
                return
            raise AssertionError("the command was not refused")
        await getattr(self, f"_{verb}")(given)
        if step.until is not None:
            await self._until(lambda view: self._has_event(step.until or "", before))
        elif step.holds is not None:
            await self._rest(step.holds)
        self._talk.answered[self._id] = self._talk.answered.get(self._id, 0) + self._model.answered - answered
        view = await self._koda.session(self._id)
        if step.holds is not None:
            since = 0 if verb in ("create", "fork") else before
            wrong = [f"holds.{each}" async for each in self._look(step.holds, view, since)]
            assert not wrong, "\n".join(wrong)
            await self._always(view)
        if view.state.preview is not None:
            self._talk.bundles.add(view.state.preview.bundle)
        if step.mark is not None:
            self._talk.marks[step.mark] = await self._moment(view.state)

    async def ended(self) -> None:
        assert self._model.left == 0, f"nobody asked for the last {self._model.left} turns"

    # --- verbs --------------------------------------------------------------------------------------------------------

    async def _create(self, given: dict[str, Any]) -> None:
        made = await self._koda.create(
            given["prompt"],
            style=given.get("style"),
            options=SessionOptions.model_validate(given.get("options") or {}),
            render=RenderOptions.model_validate(given["render"]) if "render" in given else None,
            permissions=SessionPermissions.model_validate(given.get("permissions") or {}),
            budget=Budget.model_validate(given["budget"]) if "budget" in given else None,
        )
        self._talk.session_id = made.session_id

    async def _answer(self, given: dict[str, str]) -> None:
        await self._koda.answer(self._id, option_id=given.get("option"), text=given.get("text"))

    async def _accept(self, given: None) -> None:
        await self._koda.accept(self._id)

    async def _reject(self, given: str) -> None:
        await self._koda.reject(self._id, feedback=given)

    async def _changes(self, given: str) -> None:
        await self._koda.changes(self._id, given)

    async def _say(self, given: str) -> None:
        await self._koda.say(self._id, given)

    async def _cancel(self, given: None) -> None:
        await self._koda.cancel(self._id)

    async def _retry(self, given: None) -> None:
        await self._koda.retry(self._id)

    async def _render(self, given: dict[str, Any]) -> None:
        await self._koda.render(self._id, RenderOptions.model_validate(given))

    async def _approve(self, given: dict[str, Any] | None) -> None:
        await self._koda.approve(self._id, await self._waiting(), arguments=given)

    async def _refuse(self, given: str) -> None:
        await self._koda.refuse(self._id, await self._waiting(), reason=given)

    async def _permissions(self, given: dict[str, Any]) -> None:
        await self._koda.permissions(self._id, SessionPermissions.model_validate(given))

    async def _budget(self, given: dict[str, Any]) -> None:
        await self._koda.budget(self._id, Budget.model_validate(given))

    async def _rewind(self, given: str) -> None:
        """Go back to a mark; ``undo: MARK`` undoes the last time, which leads there."""
        moment = self._talk.marks[given.removeprefix("undo: ")]
        if given.startswith("undo: "):
            await self._koda.rewind(self._id, undo=True)
        else:
            await self._koda.rewind(self._id, moment.point)
        self._model.transcript = moment.transcript

    async def _fork(self, given: str) -> None:
        """Go on in another session, made of this one at a mark."""
        moment = self._talk.marks[given]
        made = await self._koda.fork(self._id, at=moment.point)
        self._talk.session_id = made.session_id
        self._model.transcript = moment.transcript

    async def _return(self, given: str) -> None:
        """Go on in the session that a mark was set in, which nothing has happened in meanwhile."""
        moment = self._talk.marks[given]
        self._talk.session_id = moment.state["session_id"]
        self._model.transcript = moment.transcript

    async def _restart(self, given: None) -> None:
        await self._product.put_away(self._id)

    async def _waiting(self) -> str:
        (found,) = (await self._koda.approvals(self._id, pending=True)).approvals
        return found.id

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def _rest(self, holds: Holds) -> None:
        async def rests(view: SessionView) -> bool:
            state = view.state
            there = state.phase == holds.phase and state.owes is None
            return there and self._model.left == 0 and await self._product.at_rest(self._id)

        await self._until(rests)

    async def _until(self, there: Any) -> None:
        deadline = time.monotonic() + REST_S
        while True:
            view = await self._koda.session(self._id)
            arrived = there(view)
            if await arrived if asyncio.iscoroutine(arrived) else arrived:
                return
            if self._server.failures:
                raise self._server.failures[0]
            at = f"{view.state.phase} owing {view.state.owes}, {self._model.left} turns left: {view.state.error}"
            assert view.state.error is None or self._model.left == 0 or view.state.owes is not None, at
            assert time.monotonic() < deadline, at
            await asyncio.sleep(0.02)

    async def _has_event(self, kind: str, since: int) -> bool:
        return any(
            event.type == kind for event in await self._product.store.events(self._id, after=since, limit=10_000)
        )

    # --- looking ------------------------------------------------------------------------------------------------------

    async def _look(self, holds: Holds, view: SessionView, since: int) -> AsyncGenerator[str]:
        koda, state = self._koda, view.state
        for each in differences(holds.state, state.model_dump(mode="json", by_alias=True), "state"):
            yield each
        events = [event for event in await self._events(view.seq) if event.seq > since]
        for each in _in_order(holds.events, events):
            yield each
        for kind in holds.never:
            if any(event.type == kind for event in events):
                yield f"never: {kind} came"
        for path, wanted in holds.files.items():
            try:
                text = (await koda.read_file(self._id, path)).decode()
            except NotFound:
                text = None
            if not (isinstance(wanted, Absent) and text is None):
                for each in differences(wanted, text, path):
                    yield each
        if holds.todos is not None:
            todos = {todo.id: todo.status for todo in state.execution.todos} if state.execution else {}
            if todos != holds.todos:
                yield f"todos: {todos}"
            beads = {bead.id.rpartition(":")[2]: bead.status for bead in await self._product.store.beads(self._id)}
            told = {"done": "closed", "active": "in_progress", "pending": "open"}
            if sorted(beads.values()) != sorted(told[status] for status in todos.values()):
                yield f"todos: the beads are {beads}"
        approvals = (await koda.approvals(self._id)).approvals
        dumped = [each.model_dump(mode="json", by_alias=True) for each in approvals]
        if holds.waits is not None:
            pending = [each for each in dumped if each["status"] == "pending"]
            for each in differences([holds.waits], pending, "waits"):
                yield each
        if holds.answered is not None:
            done = [each for each in dumped if each["resolvedAt"] is not None]
            newest = max(done, key=lambda each: each["resolvedAt"], default=None)
            for each in differences(holds.answered, newest, "answered"):
                yield each
        async for each in self._pictures(holds, state):
            yield each
        if holds.like is not None:
            async for each in self._like(self._talk.marks[holds.like], state):
                yield each
        charges = await self._product.store.charges(self._id)
        paid = Counter(f"{c.kind}" if c.kind != "model" else c.agent for c in charges if c.status == "settled")
        for kind, count in holds.charged.items():
            if paid[kind] != count:
                yield f"charged: {kind} {paid[kind]} times, wanted {count}"
        usage = (await koda.session_usage(self._id)).model_dump(mode="json", by_alias=True)
        for each in differences(holds.limits, usage["budget"], "limits"):
            yield each

    async def _pictures(self, holds: Holds, state: NodeState) -> AsyncGenerator[str]:
        bundle = state.preview.bundle if state.preview is not None else None
        if holds.video == "new":
            if bundle is None or bundle in self._talk.bundles:
                yield f"video: not a new one, {bundle}"
        elif holds.video is not None and bundle != self._talk.marks[holds.video].bundle:
            yield f"video: not that of {holds.video!r}"
        target = self._folder / "video.mp4"
        if holds.shows is not None:
            await self._koda.download(self._id, target, kind="preview")
            frames = await asyncio.to_thread(frames_of, target)
            hue = hue_of(frames[-1])
            apart = abs((hue - _HUES[holds.shows] + 180) % 360 - 180)
            if apart > _HUE_NEAR:
                yield f"shows: hue {hue:.0f}, not {holds.shows}"
            if not any((one != other).any() for one, other in pairwise(frames)):
                yield "shows: nothing moves"
        if holds.final is not None:
            await self._koda.download(self._id, target, kind="final")
            frames = await asyncio.to_thread(frames_of, target)
            height, width, _ = frames[0].shape
            got = {"frames": len(frames), "width": width, "height": height}
            for each in differences(holds.final, got, "final"):
                yield each

    async def _like(self, moment: Moment, state: NodeState) -> AsyncGenerator[str]:
        now = await self._moment(state)
        forked = state.forked_from is not None and state.session_id != moment.state["session_id"]
        ids = {"forked_from", "session_id", "node_id", "preview", "created_at"} if forked else {"created_at"}
        for name, value in moment.state.items():
            if name not in ids and now.state[name] != value:
                yield f"like: {name} was {value!r}, is {now.state[name]!r}"
        if now.files != moment.files:
            paths = now.files.keys() | moment.files.keys()
            changed = {path for path in paths if now.files.get(path) != moment.files.get(path)}
            yield f"like: other files: {sorted(changed)}"
        for name in ("messages", "beads", "bundle"):
            if getattr(now, name) != getattr(moment, name):
                yield f"like: {name} were {getattr(moment, name)}, are {getattr(now, name)}"

    async def _moment(self, state: NodeState) -> Moment:
        """Look at everything that moves together."""
        koda, store = self._koda, self._product.store
        listed = (await koda.files(self._id)).files
        messages = await store.messages(self._id)
        points = (await koda.history(self._id, limit=200)).points
        beads = sorted((bead.title, bead.status) for bead in await store.beads(self._id))
        return Moment(
            point=next(point.id for point in points if point.kind == "message"),
            transcript=self._model.transcript,
            state=state.model_dump(by_alias=False, exclude=_TIMES),
            files={entry.path: await koda.read_file(self._id, entry.path) for entry in listed},
            messages=tuple(message.id for message in messages),
            beads=tuple(beads),
            bundle=state.preview.bundle if state.preview is not None else None,
        )

    async def _always(self, view: SessionView) -> None:
        """Look at what holds of every session at rest."""
        store = self._product.store
        assert phases.check(view.state) == []
        calls = await store.tool_calls(self._id)
        if view.state.paused is not None:  # the call that was more than there is runs again once there is enough
            calls = [replace(c, status="waiting") if c.status == "approved" else c for c in calls]
        valid(await store.messages(self._id), calls)
        charges = await store.charges(self._id)
        paid = [charge.id for charge in charges if charge.kind == "model" and charge.status == "settled"]
        answered = self._talk.answered.get(self._id, 0)
        assert len(paid) == answered, f"{answered} answers of the model, paid for {len(paid)}"
        assert not [c.id for c in charges if c.kind == "model" and c.status == "reserved"], "held for nobody"
        sessions = (await self._koda.sessions()).sessions
        await check_sums(store, view.state.user_id, *(session.id for session in sessions))

    async def _events(self, upto: int) -> list[Envelope]:
        """Read on in the event stream from where we were; nothing is left out, comes twice or out of order."""
        seen = self._seen.setdefault(self._id, [])
        after = seen[-1].seq if seen else 0
        async with asyncio.timeout(60):
            while after < upto:
                async for event in self._koda.follow(self._id, after=after):
                    seen.append(event)
                    after = event.seq
                    if after >= upto:
                        break
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1)), "events were lost or repeated"
        return seen


def _in_order(wanted: list[Any], events: list[Envelope]) -> list[str]:
    """Say which of the wanted events did not come, in this order with others between them."""
    left = iter(events)
    for each in wanted:
        kind, data = next(iter(each.items())) if isinstance(each, dict) else (each, {})
        if not any(event.type == kind and not [*differences(data, dict(event.data))] for event in left):
            return [f"events: no {each!r} in its place among {[event.type for event in events]}"]
    return []
