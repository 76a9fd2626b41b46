"""A session whose agents work while a cluster loses something: what it wrote, what it made, and what it leaves.

The model is scripted, behind HTTP and the real SDK; the sandbox is its machine's. The agents plan, a person accepts,
and files are written, one scene after the other, until the page is built and tried and its preview is rendered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psutil
import ray
from ray.exceptions import RayError

from koda_ray.actors.directory import RayDirectory
from koda_ray.actors.host import NAMESPACE, session_name
from koda_ray.config import SANDBOX_IMAGE_FOLDER, Settings
from koda_ray.errors import NotFound
from koda_ray.events import Envelope
from koda_ray.state import checkpoint
from koda_ray.state.storage import Storage
from koda_ray.state.store import Store
from koda_ray.types import NodeState, new_id
from tests.actors.script import good_code, plan_of, scripted_model
from tests.cluster.machines import HERE, SANDBOXES, Door
from tests.cluster.told import all_events
from tests.cluster.waiting import NotInTimeError, comes_true
from tests.faults.story import nothing_twice_nothing_lost, unbalanced, unpaid, unsound
from tests.llm.server import ModelServer, ScriptedModel
from tests.state import records

__all__ = ["MODEL", "WorkingSession", "model_door", "reach_model", "serve_model"]

MODEL = 8433
"""Where the model answers, at the address of who loses something."""
_KEY = "test-key"
_SCENES, _DURATION_S = 6, 2.0
_PAUSE_S = 0.15
"""Before each piece of an answer, so that the agents are at work for half a minute at least."""
_ONCE = ("set_todos", "generate_code", "render_preview")
"""What the script asks for once with the same words, once it has worked."""


def serve_model(*, longer: float = 1.0) -> ModelServer:
    """Return the model; its block is its life.

    Args:
        longer: How many times as long as usual its agents are at work, at least.
    """
    script = scripted_model(scenes=_SCENES, duration=_DURATION_S, pause_s=_PAUSE_S * longer)
    return ModelServer(ScriptedModel(script), api_key=_KEY)


def model_door(model: ModelServer) -> Door:
    """Return what lets the network in to it."""
    port = urlsplit(model.base_url).port
    return Door(MODEL, lambda: asyncio.open_connection("127.0.0.1", port))


def reach_model() -> dict[str, str]:
    """Return the settings with which each machine finds the model, and what its sandboxes start from."""
    return {
        "KODA_DIRECTOR": "anthropic",
        "ANTHROPIC_API_KEY": _KEY,
        "ANTHROPIC_BASE_URL": f"http://{HERE}:{MODEL}",
        "SANDBOX_PROVIDER": "local",
        "KODA_PAGE_READY_TIMEOUT_S": "60",
        # of this tree, whichever is at work: another version's has no packages
        "KODA_TEMPLATE_PATH": str(SANDBOX_IMAGE_FOLDER / "template"),
        "KODA_NODE_MODULES_PATH": str(Settings.model_fields["node_modules_path"].default),
    }


class WorkingSession:
    """A session with agents at work, from `begin` until `account` says what became of all that they did.

    Args:
        store: The database.
        storage: Where its files and videos are.
        model: What its agents are answered by.
        session_id: Which.
        user_id: Whose.
    """

    def __init__(self, store: Store, storage: Storage, model: ModelServer, *, session_id: str, user_id: str) -> None:
        self._store = store
        self._storage = storage
        self._model = model
        self._id = session_id
        self._user_id = user_id

    @classmethod
    async def begin(
        cls, store: Store, storage: Storage, model: ModelServer, *, directory: RayDirectory, user_id: str
    ) -> WorkingSession:
        """Make one whose plan is accepted, and whose first files are written."""
        made = await records.new_session(store, user_id, prompt="a dot crosses, smooth", owes="analyze")
        session = cls(store, storage, model, session_id=made.id, user_id=user_id)
        await directory.wake(made.id)
        await comes_true(lambda: session.rests("plan"), "the agents propose a plan")
        await directory.submit(session_id=made.id, user_id=user_id, name="accept", body={}, key=new_id("cmd"))
        await comes_true(session.writes, "the agents write files")
        return session

    async def account(self) -> dict[str, Any]:
        """See the work to its end, have the session sleep, and say what is wrong with what there is then.

        ``wrong`` is that, in words, and best empty; ``epochs`` how often the session was taken, ``taken_at_work``
        whether that was while files were being written, ``again`` which calls were begun more than once.
        """
        await comes_true(lambda: self.rests("preview"), "the agents show a preview")
        await self._sleep()
        left: list[str] = []

        async def is_cleared() -> bool:
            left[:] = await asyncio.to_thread(_left_of_sandboxes)
            left.extend(row.id for row in await self._store.sandboxes(session_id=self._id))
            return not left

        with suppress(NotInTimeError):
            await comes_true(is_cleared, "nothing is left of sandboxes")
        events = await all_events(self._store, self._id)
        calls = {call.id: call for call in await self._store.tool_calls(self._id)}
        wrong = [f"left: {each}" for each in left]
        wrong += unsound(await self._store.messages(self._id), calls)
        wrong += await unbalanced(self._store, self._id, user_id=self._user_id)
        wrong += await unpaid(self._store, self._id)
        asked = Counter(
            (c.name, json.dumps(c.input, sort_keys=True)) for c in calls.values() if c.status == "succeeded"
        )
        wrong += [
            f"{count} times {name}: {given}" for (name, given), count in asked.items() if name in _ONCE and count > 1
        ]
        wrong += await self._wrong_files()
        wrong += await self._wrong_preview(events)
        wrong += [repr(failure) for failure in self._model.failures]
        try:
            await nothing_twice_nothing_lost(self._store, self._storage, self._id)
        except AssertionError as error:
            wrong.append(f"the story: {error}")
        return {
            "wrong": wrong,
            "epochs": (await self._store.get_session(self._id)).epoch,
            "taken_at_work": _taken_at_work(events),
            "calls": len(calls),
            "again": sorted(call.name for call in calls.values() if call.attempt > 1),
            "sandboxes": len(await self._store.sandboxes(session_id=self._id, live=False)),
        }

    async def _state(self) -> NodeState:
        state = (await self._store.get_session(self._id)).state
        if state.phase == "error":
            raise NotInTimeError(f"the agents' work failed: {state.error}")
        return state

    async def rests(self, phase: str) -> bool:
        """Whether its agents are done for now, in a phase."""
        state = await self._state()
        return state.phase == phase and state.owes is None and not state.closing

    async def writes(self) -> bool:
        """Whether they have written a file."""
        await self._state()
        return any(event.type == "file_written" for event in await all_events(self._store, self._id))

    async def _sleep(self) -> None:
        """Have it save what it has, and end: as when nobody has looked at it for long."""
        row = await self._store.get_session(self._id)
        with suppress(ValueError, RayError):  # it sleeps, or is ending
            handle: Any = cast("Any", ray).get_actor(session_name(self._id, row.activation), namespace=NAMESPACE)
            await handle.close.remote()

        async def asleep() -> bool:
            return (await self._store.get_session(self._id)).host is None

        await comes_true(asleep, "the session sleeps")

    async def _wrong_files(self) -> list[str]:
        """Compare the newest checkpoint with what the model wrote."""
        pointer = await self._store.latest_checkpoint(self._id)
        if pointer is None:
            return ["no checkpoint"]
        manifest = await checkpoint.load(self._storage, pointer.manifest_key)
        last = {"task": "create_scene", "description": f"Scene {_SCENES}", "feedback": []}
        setup = {"task": "initial_setup", "plan": plan_of(_DURATION_S), "feedback": []}
        wanted = {
            path: hashlib.sha256(text.encode()).hexdigest()
            for path, text in {**good_code(setup), **good_code(last)}.items()
        }
        found = {path: stored.sha256 for path, stored in manifest.files.items() if path in wanted}
        await checkpoint.read_files(self._storage, manifest)  # all that it names is there, and is what it says
        return [] if found == wanted else [f"files {found}, written {wanted}"]

    async def _wrong_preview(self, events: Sequence[Envelope]) -> list[str]:
        told = Counter(event.type for event in events)
        wrong = [f"{told[kind]} times {kind}" for kind in ("preview_ready", "render_complete") if told[kind] != 1]
        preview = (await self._state()).preview
        if preview is None:
            return [*wrong, "no preview"]
        job = await self._store.get_job(preview.job_id)
        made: dict[str, Any] = dict(job.result or {})
        try:
            video = await self._storage.get(str(made.get("videoKey")))
        except NotFound:
            return [*wrong, f"no video of {job}"]
        if job.status != "succeeded" or made["frames"] != round(_DURATION_S * made["fps"]) or not video:
            wrong.append(f"the preview is {job}")
        return [*wrong, *([] if len(video) == made["fileSize"] else [f"a video of {len(video)} bytes: {made}"])]


def _taken_at_work(events: Sequence[Envelope]) -> bool:
    """Whether somebody else took the session after its first file, and before its preview."""
    since = next(event.seq for event in events if event.type == "file_written")
    until = next(event.seq for event in events if event.type == "preview_ready")
    return any(event.type == "activated" and since < event.seq < until for event in events)


def _left_of_sandboxes() -> list[str]:
    """Name what there is of sandboxes on any machine: their folders, and what runs in them."""
    found: list[str] = []
    seen: set[str] = set()
    for process in psutil.process_iter(["cmdline"]):
        with suppress(psutil.Error, OSError):
            if f"{SANDBOXES}/" in (words := " ".join(process.info["cmdline"] or [])):
                found.append(f"process {process.pid}: {words[:200]}")
            if (space := os.readlink(f"/proc/{process.pid}/ns/mnt")) not in seen:
                seen.add(space)
                found += map(str, Path(f"/proc/{process.pid}/root{SANDBOXES}").glob("*/sbx_*"))
    return found
