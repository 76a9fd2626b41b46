from __future__ import annotations

import io
from typing import Any

import httpx
import pytest
from PIL import Image

from koda_ray.actors.removal import Removal
from koda_ray.actors.timeline import fork_session
from koda_ray.state.keys import picture_key
from koda_ray.state.storage import sha256
from koda_ray.tools.workbench import Failure
from koda_ray.types import new_id
from tests.actors.conftest import SessionWorld
from tests.actors.script import APP, GOOD_FILES, scripted_model
from tests.tools.conftest import Tools

pytestmark = pytest.mark.sandbox


async def test_the_live_page_is_started_once_and_shows_the_project(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    url = f"/v1/sessions/{tools.session.session_id}/preview"
    assert await tools.json("sandbox_start_preview") == {"streamUrl": url}
    assert await tools.json("sandbox_start_preview") == {"streamUrl": url}
    assert {event["url"] for event in await tools.world.events(tools.session, "stream_ready")} == {url}
    assert [process.name for process in await (await tools.sandbox()).processes()] == ["preview"]
    endpoint = await tools.session.preview("local")
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=endpoint.socket_path), timeout=60) as client:
        page = await client.get(f"http://preview{endpoint.base}src/App.tsx")
    assert page.status_code == 200 and "useCurrentTime" in page.text


@pytest.mark.browser
async def test_a_picture_of_one_time_is_stored_and_can_be_got(tools: Tools) -> None:
    await tools.keep(GOOD_FILES)
    before = await tools.world.store.stored_bytes("local")
    made = await tools.json("sandbox_screenshot", seek_to=0.5, width=320, height=180)
    assert made["timestamp"] == 0.5 and made["duration"] > 0
    digest = made["imageUrl"].rpartition("/")[2]
    assert made["imageUrl"] == f"/v1/sessions/{tools.session.session_id}/pictures/{digest}"
    core = tools.session.core
    stored = await tools.world.storage.get(picture_key(core.user_id, core.project_id, core.session_id, digest))
    assert sha256(stored) == digest
    assert await tools.world.store.stored_bytes("local") == before + len(stored)
    assert Image.open(io.BytesIO(stored)).size == (320, 180)
    (told,) = await tools.world.events(tools.session, "picture_taken")
    size = {"widthPx": 320, "heightPx": 180}
    assert told == {"url": made["imageUrl"], "atS": 0.5, **size, "agent": "orchestrator"}


@pytest.mark.browser
@pytest.mark.full
async def test_what_a_preview_corrected_stands_whole_in_its_result(world: SessionWorld) -> None:
    answers = ["import './elsewhere';\n", APP]
    tools = Tools.of(await world.at_rest(scripted_model(lambda _: {"src/App.tsx": answers.pop(0)})), world)
    await tools.keep({**GOOD_FILES, "src/App.tsx": "import './nowhere';\n"})
    made = await tools.json("render_preview")
    assert made["status"] == "ready" and not answers
    assert made["files"] == [{"path": "src/App.tsx", "bytes": len(APP), "content": APP}]


async def test_a_preview_that_fails_names_the_files_that_corrections_changed(world: SessionWorld) -> None:
    tried: list[Any] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        tried.append(request)
        return {"src/App.tsx": f"import './nowhere{len(tried)}';\n"}

    tools = Tools.of(await world.at_rest(scripted_model(code)), world)
    await tools.keep({**GOOD_FILES, "src/App.tsx": "import './nowhere';\n"})
    failed = await tools.call("render_preview")
    assert failed.is_error and len(tried) == 3
    assert "Changed meanwhile: src/App.tsx; read them before you go on." in failed.content


async def test_a_call_that_was_given_up_stays_so_though_its_files_work_when_it_runs_again(world: SessionWorld) -> None:
    session = await world.at_rest(scripted_model(lambda _: {"src/App.tsx": "import './nowhere';"}))
    tools = Tools.of(session, world)
    await tools.keep(GOOD_FILES)
    await tools.shown()
    await tools.keep({"src/App.tsx": "import './nobody';\n", "src/components/New.tsx": "export {};\n"})
    failed = await session.workbench.preview(cause_id="call_1")
    assert isinstance(failed, Failure) and failed.code == "BUILD_FAILED" and "that worked" in failed.message
    present = await session.project.look(dict)
    assert present["src/App.tsx"] == APP.encode() and "src/components/New.tsx" not in present
    assert session.state.execution is not None and set(session.state.execution.files) == GOOD_FILES.keys()
    assert await session.workbench.preview(cause_id="call_1") == failed  # its process ended before that was stored


async def test_a_session_made_of_another_one_goes_back_to_what_worked_there(world: SessionWorld) -> None:
    source = await world.at_rest()
    tools = Tools.of(source, world)
    await tools.keep(GOOD_FILES)
    good = await tools.shown()
    point = await source.agents.add_user("another way from here")
    await source.agents.add_user("and on")
    await tools.keep({"src/App.tsx": APP.replace("#3B82F6", "#EF4444")})
    await tools.shown()  # what worked later is not that session's
    fork_id = await fork_session(world.store, source.session_id, user_id="local", point=point.id, key=new_id("cmd"))
    await source.close()
    removal = Removal(store=world.store, storage=world.storage, sandboxes=world.sandboxes)
    await removal.finish(await world.store.close_session(source.session_id, user_id="local"))

    model = world.model(scripted_model(lambda _: {"src/App.tsx": "import './nowhere';"}))
    fork = await world.activate(fork_id, model)
    assert fork.state.preview is not None and fork.state.preview.checkpoint_id == good.checkpoint_id
    blobs = {stored.key for stored in await world.storage.look_below("users/local/blobs")}
    before = await fork.project.look(dict)
    await Tools.of(fork, world).keep({"src/App.tsx": "import './nobody';\n", "src/components/New.tsx": "export {};\n"})
    failed = await fork.workbench.preview(cause_id="call_1")
    assert isinstance(failed, Failure) and "that worked" in failed.message
    assert await fork.project.look(dict) == before and before["src/App.tsx"] == APP.encode()
    assert blobs <= {stored.key for stored in await world.storage.look_below("users/local/blobs")}
