"""What a person's own images, sandboxes and processes may be refused with is what the API's description says.

Every operation is asked while each part below it fails in each way that its protocol knows: the database, the provider,
a sandbox that was found. What comes is compared with what is documented, in both directions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from inspect import getmembers, isfunction
from pathlib import Path
from typing import Any

import httpx
import pytest

from koda_ray.errors import (
    CommandTimeout,
    KodaError,
    Missing,
    QuotaExceeded,
    SandboxError,
    SandboxNotFound,
    ServerFailed,
    StorageError,
    TemplateNotFound,
)
from koda_ray.sandbox.base import SandboxProvider
from koda_ray.sandbox.deployment import Location
from koda_ray.sandbox.images import LocalImages, Source
from koda_ray.sandbox.providers import Providers
from koda_ray.serve.api import create_app
from koda_ray.state.boxes import BoxStore
from koda_ray.state.sql import SqlStore
from koda_ray.types import new_id
from tests.sandbox.conftest import write_packages, write_template

from .test_sandboxes import NOTES
from .world import free_port, world

pytestmark = [pytest.mark.sandbox, pytest.mark.needs("tmux")]

KEY = "a" * 32
BOX, PROCESS = "/v1/sandboxes/{sandbox_id}", "/v1/sandboxes/{sandbox_id}/processes/{name}"
OPERATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "createImage": ("post", "/v1/images?name=other&clean=true", {"content": NOTES}),
    "listImages": ("get", "/v1/images", {}),
    "removeImage": ("delete", "/v1/images/{image}", {}),
    "createSandbox": ("post", "/v1/sandboxes", {"json": {"image": "{image}"}}),
    "listSandboxes": ("get", "/v1/sandboxes", {}),
    "getSandbox": ("get", BOX, {}),
    "extendSandbox": ("post", f"{BOX}/extend", {"json": {"lifetimeS": 60}}),
    "watchSandbox": ("get", f"{BOX}/changes", {}),
    "openPort": ("post", f"{BOX}/ports/3000", {}),
    "openDesktop": ("post", f"{BOX}/desktop", {}),
    "terminateSandbox": ("delete", BOX, {}),
    "listSandboxFiles": ("get", f"{BOX}/files", {}),
    "readSandboxFile": ("get", f"{BOX}/files/start.sh", {}),
    "writeSandboxFile": ("put", f"{BOX}/files/other.txt", {"content": b"x"}),
    "removeSandboxFile": ("delete", f"{BOX}/files/other.txt", {}),
    "runCommand": ("post", f"{BOX}/commands", {"json": {"command": "true"}}),
    "snapshotSandbox": ("get", f"{BOX}/snapshot", {}),
    "restoreSandbox": ("put", f"{BOX}/snapshot", {"content": NOTES}),
    "buildSandbox": ("post", f"{BOX}/build", {}),
    "exportBundle": ("get", f"{BOX}/bundle", {}),
    "takePicture": ("post", f"{BOX}/screenshot", {"json": {"atS": 0}}),
    "previewSandbox": ("post", f"{BOX}/preview", {}),
    "launchProcess": ("post", f"{BOX}/processes", {"json": {"name": "other", "command": "true"}}),
    "listProcesses": ("get", f"{BOX}/processes", {}),
    "getProcess": ("get", PROCESS, {}),
    "readProcessOutput": ("get", f"{PROCESS}/output", {}),
    "followProcess": ("get", f"{PROCESS}/events", {}),
    "killProcess": ("delete", PROCESS, {}),
}
FAILURES: tuple[KodaError, ...] = (
    SandboxError("it failed"),
    SandboxNotFound("it is gone"),
    SandboxNotFound("it is paused", context={"reason": "paused"}),
    QuotaExceeded("a limit is reached"),
    QuotaExceeded("its files are larger", context={"sizeBytes": 1 << 40}),
    CommandTimeout("it took too long"),
    ServerFailed("nobody answers", code="PORT_UNAVAILABLE"),
    TemplateNotFound("the image is gone"),
    Missing("its package is not installed"),
)
NAMED = {*OPERATIONS} - {"createImage", "listImages", "listSandboxes"}
INSIDE = {name for name, (_, path, _) in OPERATIONS.items() if path.startswith(f"{BOX}/")}
DATABASE = (StorageError("it failed"), StorageError("the disk is full", code="DISK_FULL"))
EVERYWHERE = {401, 422}
"""Of keys, and of values that are none."""
STALLED = {408}
"""Of bodies that do not come, which the gate's own tests see."""


class Failing:
    """A provider, its images, or a sandbox, of which every call fails; but where it is can be told."""

    def __init__(self, error: KodaError, *, location: Location | None = None) -> None:
        self.name, self.unused_s = "local", None
        self._error, self._location = error, location

    async def location(self) -> Location:
        if self._location is None:
            raise self._error
        return self._location

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def fail(*_: object, **__: object) -> None:
            raise self._error

        return fail


@dataclass
class Town:
    """A server with one image, one sandbox and one process, and who asks it."""

    http: httpx.AsyncClient
    providers: Providers
    store: SqlStore
    described: dict[str, Any]
    image: str
    box: str
    seen: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    async def ask(self, operation: str, **other: str) -> int:
        """Ask for one operation and note what it is refused with."""
        method, path, more = OPERATIONS[operation]
        names = {"image": self.image, "sandbox_id": self.box, "name": "main", **other}
        if "json" in more:
            values = {
                key: value.format(**names) if isinstance(value, str) else value for key, value in more["json"].items()
            }
            more = {**more, "json": values}
        async with self.http.stream(method, path.format(**names), **more) as answer:
            if answer.status_code >= 400:
                self.seen[operation].add(answer.status_code)
                problem = (await answer.aread()).decode()
                assert answer.headers["content-type"] == "application/problem+json", problem
                assert problem.count('"detail":""') == 0, problem
            return answer.status_code

    def documented(self, wanted: str) -> set[int]:
        """Return the errors that the description has of an operation."""
        for operations in self.described["paths"].values():
            for operation in operations.values():
                if operation["operationId"] == wanted:
                    return {int(status) for status in operation["responses"] if int(status) >= 400}
        raise AssertionError(wanted)


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    settings = {
        "SANDBOX_PATH": tmp_path / "boxes", "SANDBOX_PROVIDER": "local", "KODA_API_KEYS": f"ada={KEY}",
        "KODA_TEMPLATE_PATH": write_template(tmp_path / "template"),
        "KODA_NODE_MODULES_PATH": write_packages(tmp_path / "node_modules"), "SANDBOX_EGRESS_HOSTS": "",
        "KODA_MAX_BODY_MB": 1,
    }  # fmt: skip
    async with world(tmp_path, KODA_PREVIEW_PORT=free_port(), **settings) as found:
        described = create_app(found.deps).openapi()
        headers = {"Authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(base_url=found.url, headers=headers, trust_env=False, timeout=60) as http:
            image = (await http.post("/v1/images", params={"name": "notes"}, content=NOTES)).json()["id"]
            box = (await http.post("/v1/sandboxes", json={"image": image})).json()["id"]
            launched = {"name": "main", "command": "sleep 600"}
            assert (await http.post(f"/v1/sandboxes/{box}/processes", json=launched)).status_code == 201
            own = Providers(found.settings, found.deps.store)
            store = found.deps.store
            assert isinstance(store, SqlStore)
            yield Town(http, own, store, described, image, box)
            assert (await http.delete(f"/v1/sandboxes/{box}")).status_code == 204
            await own.close()


@pytest.mark.full
async def test_what_can_come_is_what_is_documented(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*OPERATIONS} == {
        operation["operationId"]
        for path, operations in town.described["paths"].items()
        for operation in operations.values()
        if path.startswith(("/v1/images", "/v1/sandboxes"))
    }
    await _of_the_asker(town)
    await _of_the_rows(town, monkeypatch)
    provider = await town.providers.get("local")
    location = await provider.location()
    for error in FAILURES:
        for failing in (Failing(error), Failing(error, location=location)):
            await _while(town, monkeypatch, provider=failing)
        await _while(town, monkeypatch, provider=_Finding(provider, Failing(error)))
    for error in DATABASE:
        await _while(town, monkeypatch, database=error)
    other = EVERYWHERE | STALLED
    wrong = {
        name: {"comes": town.seen[name] - documented, "never came": documented - town.seen[name] - other}
        for name in OPERATIONS
        if town.seen[name] - (documented := town.documented(name)) or documented - town.seen[name] - other
    }
    assert wrong == {}
    assert all(town.documented(name) >= EVERYWHERE for name in OPERATIONS)


async def _of_the_asker(town: Town) -> None:
    """Without a key, and of what is not there."""
    key = town.http.headers.pop("Authorization")
    for name in OPERATIONS:
        assert await town.ask(name) == 401
    town.http.headers["Authorization"] = key
    for name in NAMED:
        assert await town.ask(name, sandbox_id="sbx_none", image="none", name="none") == 404
        if "{name}" in OPERATIONS[name][1]:
            assert await town.ask(name, name="none") == 404
    for name in (
        "createImage", "createSandbox", "extendSandbox", "launchProcess", "restoreSandbox", "runCommand", "takePicture",
        "writeSandboxFile",
    ):  # fmt: skip
        method, path, _ = OPERATIONS[name]
        answer = await town.http.request(method, path.format(sandbox_id=town.box), content=b" " * (3 << 20))
        assert answer.status_code == 413
        town.seen[name].add(413)


async def _of_the_rows(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is elsewhere, what is not finished, what a process's name is taken by, and limits."""
    boxes = await town.store.own_sandboxes()
    away = replace(boxes[0], id=new_id("sbx"), place="elsewhere", host="build7:/srv")
    await town.store.put_sandbox(away)
    (image,) = await town.store.images()
    moved = replace(image, id=new_id("img"), place="elsewhere", host="build7:/srv")
    await town.store.put_image(moved)
    for name in NAMED:
        await town.ask(name, sandbox_id=away.id, image=moved.id)
    await town.store.sandbox_destroyed(away.id)
    await town.store.put_image(replace(moved, status="removed"))
    make = LocalImages.make

    async def slow(self: LocalImages, image_id: str, source: Source, *, clean: bool) -> str:
        assert (await town.http.delete(f"/v1/images/{image_id}")).status_code == 204
        return await make(self, image_id, source, clean=clean)

    with monkeypatch.context() as patched:
        patched.setattr(LocalImages, "make", slow)
        assert await town.ask("createImage") == 409
    await town.http.post(f"/v1/sandboxes/{town.box}/processes", json={"name": "other", "command": "sleep 600"})
    assert await town.ask("launchProcess") == 409
    with monkeypatch.context() as patched:
        for limit in ("max_sandboxes", "max_images"):
            patched.setattr(Providers, limit, 1)
        assert await town.ask("createSandbox") == await town.ask("createImage") == 429


class _Finding:
    """A provider that finds a sandbox, which then fails."""

    def __init__(self, real: SandboxProvider, box: Failing) -> None:
        self._real, self._box = real, box

    async def connect(self, sandbox_id: str) -> object:
        return self._box

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


async def _while(
    town: Town, monkeypatch: pytest.MonkeyPatch, *, provider: object = None, database: KodaError | None = None
) -> None:
    """Ask for everything while something fails."""
    with monkeypatch.context() as patched:
        if database is not None:
            for name, _ in [*getmembers(BoxStore, isfunction), ("sandbox_destroyed", None)]:
                if not name.startswith("_"):
                    patched.setattr(SqlStore, name, Failing(database).any)
        else:

            async def get(_: Providers, __: str | None = None) -> object:
                return provider

            patched.setattr(Providers, "get", get)
            if isinstance(provider, Failing):

                async def images(_: Providers, __: str) -> object:
                    return provider

                patched.setattr(Providers, "images", images)
        for name in OPERATIONS:
            if isinstance(provider, _Finding) and name not in INSIDE:
                continue  # nothing is asked of it
            await town.ask(name)
