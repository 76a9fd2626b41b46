"""A client that a generator makes of the served description, and nothing else, runs the whole job and a render."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import os
import pkgutil
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from koda_ray.render.local import LocalExecutor

from .scripted import VIDEO
from .world import World, reached, world

KEY = "a" * 32
PACKAGE = "koda_made_by_a_generator"
PAGE = """<!doctype html><style>body{margin:0;background:#123} div{width:40px;height:40px;background:orange;
animation:go 1s linear infinite} @keyframes go{to{transform:translateX(100px)}}</style><div></div>"""
# the generator takes files of these kinds for files when it is told so
CONFIG = {"content_type_overrides": dict.fromkeys(("image/jpeg", "image/png", "video/mp4"), "application/octet-stream")}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The generated package's name, importable."""
    folder = tmp_path_factory.mktemp("generated")

    async def described() -> str:
        async with world(folder) as koda, httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http:
            return (await http.get("/v1/openapi.json")).text

    (folder / "openapi.json").write_text(asyncio.run(described()))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning"]
    command += ["--path", "openapi.json", "--config", "config.json", "--output-path", PACKAGE]
    # it ends by having ruff tidy up
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    try:
        yield PACKAGE
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


class Api:
    """The generated operations and models by their names."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.models = importlib.import_module(f"{PACKAGE}.models")
        self.file = importlib.import_module(f"{PACKAGE}.types").File

    async def __call__(self, operation: str, *path: str, expect: int = 200, **given: Any) -> Any:
        """Call an operation (``tag.name``); return what its answer was read as."""
        module = importlib.import_module(f"{PACKAGE}.api.{operation}")
        answer = await module.asyncio_detailed(*path, client=self.client, **given)
        assert answer.status_code == expect, answer.content
        return answer.parsed


@pytest.fixture
async def koda(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path, KODA_API_KEYS=f"ann={KEY}") as found:
        yield found


class Heard(httpx.AsyncBaseTransport):
    """The network, and what came so far of each stream of events: who reads an answer whole sees it only at its end."""

    def __init__(self) -> None:
        self.bodies: list[bytearray] = []
        self._network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._network.handle_async_request(request)
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            self.bodies.append(bytearray())
            answer.stream = Overheard(answer.stream, self.bodies[-1])
        return answer

    async def aclose(self) -> None:
        await self._network.aclose()


class Overheard(httpx.AsyncByteStream):
    """A stream whose bytes are written down as they pass."""

    def __init__(self, stream: Any, passed: bytearray) -> None:
        self._stream = stream
        self._passed = passed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in self._stream:
            self._passed.extend(block)
            yield block

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def api(koda: World, generated: str, heard: Heard) -> AsyncIterator[Api]:
    made = importlib.import_module(generated).AuthenticatedClient(
        base_url=koda.url, token=KEY, timeout=httpx.Timeout(60), httpx_args={"trust_env": False, "transport": heard}
    )
    async with made as client:
        yield Api(client)


@pytest.mark.full
def test_every_module_of_it_can_be_imported(generated: str) -> None:
    package = importlib.import_module(generated)
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{generated}.")]
    assert len(names) > 100
    for name in names:
        importlib.import_module(name)


def events_of(api: Api, text: str) -> list[Any]:
    """Read a stream of server-sent events with the generated model."""
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    return [api.models.Envelope.from_dict(json.loads(line)) for line in lines]


@pytest.mark.full
async def test_a_session_from_the_prompt_to_the_video(api: Api, koda: World, heard: Heard) -> None:
    models = api.models

    async def reaches(phase: str) -> Any:
        async with asyncio.timeout(60):
            while True:
                view = await api("sessions.get_session", made.session_id)
                if view.state.phase == models.NodeStatePhase(phase) and view.state.owes is None:
                    return view
                await asyncio.sleep(0.02)

    picture = api.file(payload=io.BytesIO(b"\x89PNG\r\n\x1a\n" + bytes(64)), file_name="a.png", mime_type="image/png")
    asset = await api("assets.upload_asset", expect=201, body=models.BodyUploadAsset(file=picture))
    body = models.CreateSession(prompt="Create a bouncing ball animation", asset_ids=[asset.id])
    made = await api("sessions.create_session", expect=202, body=body, idempotency_key="once")
    again = await api("sessions.create_session", expect=202, body=body, idempotency_key="once")
    assert again.session_id == made.session_id
    assert [one.id for one in (await api("assets.list_assets", made.session_id)).assets] == [asset.id]

    question = (await reaches("question")).state.question
    answer = models.Answer(option_id=question.options[1].id)
    taken = await api("commands.answer", made.session_id, expect=202, body=answer)
    assert taken.command == models.CommandAcceptedCommand.ANSWER
    assert (await reaches("plan")).state.plan.scenes[0].title == "Drop in"
    wrong = await api("commands.answer", made.session_id, expect=409, body=answer)
    assert isinstance(wrong, models.Problem) and wrong.code == "INVALID_TRANSITION" and not wrong.retryable
    await api("commands.accept", made.session_id, expect=202)
    await reaches("preview")
    await api(
        "commands.request_changes", made.session_id, expect=202, body=models.Changes(feedback="make the ball red")
    )
    assert (await reaches("preview")).state.feedback == ["make the ball red"]
    await api("commands.accept", made.session_id, expect=202)
    assert (await reaches("complete")).state.output.resolution == "1080p"

    files = (await api("files.list_files", made.session_id)).files
    text = (await api("files.read_file", made.session_id, files[0].path)).payload.read()
    assert b"export function" in text and len(text) == files[0].size_bytes
    video = await api("media.get_video", made.session_id)
    assert video.payload.read() == VIDEO["final"]
    part = await api("media.get_video", made.session_id, expect=206, range_="bytes=0-9")
    assert part.payload.read() == VIDEO["final"][:10]
    assert (await api("media.get_thumbnail", made.session_id)).payload.read()[:2] == b"\xff\xd8"
    jobs = (await api("jobs.list_jobs", made.session_id)).jobs
    assert {job.kind for job in jobs} == {models.JobViewKind.PREVIEW, models.JobViewKind.FINAL}

    following = asyncio.create_task(api("events.follow_events", made.session_id, after=0))
    page = await api("sessions.list_sessions", limit=1)
    assert [one.id for one in page.sessions] == [made.session_id] and page.next_ is None
    newest = (await koda.store.get_session(made.session_id)).seq
    await reached(lambda: bool(heard.bodies) and f"id: {newest}\n".encode() in heard.bodies[0].replace(b"\r", b""))
    await api("sessions.delete_session", made.session_id, expect=204)
    events = events_of(api, await following)
    assert [event.seq for event in events] == list(range(1, newest + 1))
    assert models.EnvelopeType.RENDER_COMPLETE in {event.type_ for event in events}
    gone = await api("sessions.get_session", made.session_id, expect=404)
    assert isinstance(gone, models.Problem) and gone.code == "NOT_FOUND"


@pytest.mark.full
async def test_what_is_refused_is_read_as_a_problem(api: Api, koda: World, generated: str) -> None:
    models = api.models
    empty = await api("sessions.create_session", expect=422, body=models.CreateSession(prompt=" "))
    assert isinstance(empty, models.Problem) and [field.field for field in empty.fields] == ["prompt"]
    unknown = await api("renders.get_render", "job_unknown", expect=404)
    assert isinstance(unknown, models.Problem) and "job_unknown" in unknown.detail
    assert (await api("health.health")).status == "ok"
    stranger = importlib.import_module(generated).Client(base_url=koda.url, httpx_args={"trust_env": False})
    async with stranger as client:
        refused = await Api(client)("renders.list_renders", expect=401)
    assert isinstance(refused, models.Problem) and refused.code == "UNAUTHORIZED"


@pytest.mark.browser
@pytest.mark.full
async def test_a_page_to_a_video(api: Api, koda: World) -> None:
    models = api.models
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("index.html", PAGE)
    buffer.seek(0)
    options = models.PageOptions(width=160, height=90, fps=10, duration=1.0, props={"name": "Ada"})
    body = models.CreateRenderFilesBody(
        file=api.file(payload=buffer, file_name="page.zip", mime_type="application/zip"), options=options
    )
    async with LocalExecutor(workers=1) as koda.directory.executor:
        made = await api("renders.create_render", expect=202, body=body, idempotency_key="mine")
        events = events_of(api, await api("renders.follow_render", made.id))
        assert events[-1].data.additional_properties == {"status": "succeeded"}
        view = await api("renders.get_render", made.id)
        assert view.status == models.RenderViewStatus.SUCCEEDED and view.result["frames"] == 10
        assert view.request["props"] == '{"name": "Ada"}'
        video = await api("renders.get_render_video", made.id, expect=206, range_="bytes=4-7")
        assert video.payload.read() == b"ftyp"
        assert (await api("renders.get_render_report", made.id))["frames"] == 10
        assert (await api("renders.get_render_sheet", made.id)).payload.read()[:2] == b"\xff\xd8"

        named = models.CreateRender(bundle=made.bundle, options=models.PageOptions(duration=300.0))
        other = await api("renders.create_render", expect=202, body=named)
        assert (await api("renders.cancel_render", other.id)).status == models.RenderViewStatus.CANCELLED
        state = models.ListRendersStatusType0Item.SUCCEEDED
        listed = await api("renders.list_renders", status=[state])
        assert [one.id for one in listed.renders] == [made.id]
        await api("renders.delete_render", made.id, expect=204)
        await api("renders.delete_render", other.id, expect=204)
        rows = [models.RowsItem.from_dict({"name": name}) for name in ("Ada", "Bob")]
        both = models.CreateBatch(bundle=made.bundle, rows=rows, options=models.PageOptions(duration=300.0))
        batch = await api("renders.create_batch", expect=202, body=both)
        for render_id in batch.render_ids:
            await api("renders.cancel_render", render_id)
        listed = await api("renders.list_renders", batch=batch.id)
        assert [one.id for one in listed.renders] == batch.render_ids and listed.renders[1].row == 2
        await koda.directory.close()
