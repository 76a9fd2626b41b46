"""One session from its first sentence to its video, and what people say to it on the way."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from koda_ray.budgets import Amounts
from koda_ray.commands import Fail
from koda_ray.errors import Conflict, EncodeFailed, InvalidInput, InvalidTransition, NotFound
from koda_ray.render.local import LocalExecutor
from koda_ray.roles.offline import OfflineDirector
from koda_ray.state import checkpoint
from koda_ray.state.keys import report_key
from koda_ray.state.records import AssetRecord, Batch
from koda_ray.state.storage import Storage
from koda_ray.types import new_id, now
from tests.actors.conftest import SessionWorld
from tests.actors.script import APP, GOOD_FILES, good_code, scripted_model
from tests.commands import submit
from tests.llm.server import Answer, Reply

pytestmark = [pytest.mark.sandbox, pytest.mark.browser]


@pytest.mark.full
async def test_a_prompt_becomes_a_video_by_way_of_question_plan_and_preview(world: SessionWorld) -> None:
    session = await world.open("a dot crosses", scripted_model(asks=True))
    asked = await world.until(session, "question")
    assert asked.question is not None and [o.id for o in asked.question.options] == ["playful", "smooth"]
    await world.say(session, "answer", optionId="smooth")
    planned = await world.until(session, "plan")
    assert planned.style == "smooth" and planned.plan is not None
    await world.say(session, "accept")
    previewed = await world.until(session, "preview")
    assert previewed.preview is not None and previewed.preview.duration == 2
    (stream,) = await world.events(session, "stream_ready")
    assert stream["url"] == previewed.preview.stream_url
    assert previewed.execution is not None
    assert {todo.status for todo in previewed.execution.todos} == {"done"}
    await world.say(session, "render", resolution="720p", fps=30)
    done = await world.until(session, "complete")
    assert done.output is not None and done.output.resolution == "1280x720"
    job = await world.store.get_job(done.output.job_id)
    assert job.result is not None and job.result["frames"] == 60
    assert await world.storage.size(str(job.result["videoKey"])) == done.output.file_size
    report = json.loads(await world.storage.get(report_key("local", job.id)))
    assert report["quality"]["preview"]["psnrDb"] > 20  # what was agreed to is what was made

    beads = await world.store.beads(session.session_id)
    assert [bead.status for bead in beads] == ["closed"] * 3
    kinds = {(a.kind, a.status) for a in await world.store.approvals(session.session_id)}
    assert kinds == {("question", "approved"), ("plan", "approved"), ("preview", "approved")}
    events = await world.store.events(session.session_id, limit=10_000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {"code_chunk", "file_written", "todo_update", "thinking", "render_progress", "preview_ready"} <= {
        event.type for event in events
    }
    chunks = [event.data for event in events if event.type == "code_chunk" and event.data["path"] == "src/App.tsx"]
    assert "".join(str(chunk["delta"]) for chunk in chunks) == APP
    assert [int(str(c["offset"])) for c in chunks] == sorted(int(str(c["offset"])) for c in chunks)


@pytest.mark.full
async def test_a_change_touches_only_its_file_and_always_renders_again(world: SessionWorld) -> None:
    def code(request: dict[str, Any]) -> dict[str, str]:
        """Change what is named, in each file that is named, as it is: what that touches is for the session to say."""
        if request["task"] != "modify_existing":
            return good_code(request)
        assert request["change"] == request["feedback"][-1] == "make it red"
        return {path: f"{request['files'][path]}// red\n" for path in request["targets"]}

    async def files() -> dict[str, bytes]:
        pointer = await world.store.latest_checkpoint(session.session_id)
        assert pointer is not None
        manifest = await checkpoint.load(world.storage, pointer.manifest_key)
        return {path: await checkpoint.read_file(world.storage, manifest, path) for path in manifest.files}

    session = await world.open("a dot", scripted_model(code))
    await world.to_preview(session)
    before, first = session.state.preview, await files()
    told = len(await world.events(session, "file_written"))
    await world.say(session, "message", text="make it red")
    after = (await world.until(session, "preview")).preview
    assert before is not None and after is not None and after.job_id != before.job_id
    assert [event["path"] for event in (await world.events(session, "file_written"))[told:]] == ["src/App.tsx"]
    assert await files() == {**first, "src/App.tsx": first["src/App.tsx"] + b"// red\n"}
    assert {"src/theatre/project.ts", "src/App.tsx"} < first.keys()


async def test_rejecting_a_plan_asks_and_changing_it_plans_again(world: SessionWorld) -> None:
    session = await world.open()
    await world.until(session, "plan")
    await world.say(session, "changes", feedback="slower please")
    replanned = await world.until(session, "plan")
    assert replanned.feedback == ("slower please",)
    await world.say(session, "reject", feedback="no, something else")
    again = await world.until(session, "plan", "question")
    assert again.feedback[-1] == "no, something else"


@pytest.mark.full
async def test_a_plan_that_a_person_edits_is_what_is_asked_about_heard_and_made(world: SessionWorld) -> None:
    session = await world.open()
    plan = (await world.until(session, "plan")).plan
    assert plan is not None
    (asked,) = await world.store.approvals(session.session_id, pending=True)
    edits = [{"scene": scene.number, "title": f"{scene.title}!"} for scene in plan.scenes]
    edits[0]["duration"] = plan.scenes[0].duration + 0.5
    await world.say(session, "plan", scenes=edits)
    (again,) = await world.store.approvals(session.session_id, pending=True)
    edited = session.state.plan
    assert edited is not None and edited.total_duration == plan.total_duration + 0.5
    assert (again.payload, again.call_id) == (edited.model_dump(mode="json", by_alias=True), asked.call_id)
    with pytest.raises(InvalidInput, match="there is no scene 99"):
        await world.say(session, "plan", scenes=[{"scene": 99}])
    await world.say(session, "accept")
    made = await world.until(session, "preview")
    assert made.plan == edited
    results = [json.dumps(message.content) for message in await world.store.messages(session.session_id)]
    assert any("accepted" in said and f"{plan.scenes[0].title}!" in said for said in results)
    statuses = [each.status for each in await world.store.approvals(session.session_id) if each.kind == "plan"]
    assert statuses == ["superseded", "approved"]


async def test_cancel_stops_the_work_and_accepting_again_takes_it_up(world: SessionWorld) -> None:
    usual, hung = scripted_model(), False

    def respond(request: dict[str, Any]) -> Answer:
        nonlocal hung
        answer = usual(request)
        if request.get("tools") or hung:
            return answer
        hung = True
        assert isinstance(answer, Reply)
        return replace(answer, break_after=5, hang=True)

    session = await world.open("a dot", respond)
    await world.until(session, "plan")
    await world.say(session, "accept")
    await world.event(session, "code_chunk")
    await world.say(session, "cancel")
    assert (session.state.phase, session.state.owes) == ("plan", None)
    await world.say(session, "accept")
    await world.until(session, "preview")
    calls = await world.store.tool_calls(session.session_id)
    statuses = [(c.name, c.status) for c in calls]
    assert ("generate_code", "interrupted") in statuses, statuses


@pytest.mark.full
async def test_words_during_the_work_are_taken_in_before_it_ends(world: SessionWorld) -> None:
    session = await world.open("a dot", scripted_model(pause_s=0.05))
    await world.until(session, "plan")
    await world.say(session, "accept")
    await world.event(session, "file_written")
    await world.say(session, "message", text="make it red")
    state = await world.until(session, "preview")
    assert state.feedback_seen == 1
    sandbox = await session.project.sandbox()
    assert b"#EF4444" in await sandbox.read_file("src/App.tsx")


async def test_a_command_is_recorded_once_whatever_how_often_it_is_sent(world: SessionWorld) -> None:
    session = await world.open()
    await world.until(session, "plan")
    first = await submit(session, "accept", {}, key="k1")
    again = await submit(session, "accept", {}, key="k1")
    assert first.id == again.id and first.result == {"phase": "executing", "owes": "execute"}
    with pytest.raises(Conflict, match="k1"):
        await submit(session, "cancel", {}, key="k1")
    with pytest.raises(InvalidTransition):
        await submit(session, "accept", {}, key="k2")
    with pytest.raises(InvalidInput, match="the commands are"):
        await submit(session, "dance", {}, key="k3")
    with pytest.raises(NotFound):
        await submit(session, "cancel", {}, key="k4", user_id="usr_other")


async def test_whoever_ends_a_session_waits_until_it_has_saved_and_may_leave_it_to_that(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await world.at_rest()
    began, goes_on, release = asyncio.Event(), asyncio.Event(), world.store.release

    async def slowly(session_id: str, epoch: int) -> None:
        began.set()
        await goes_on.wait()
        await release(session_id, epoch)

    monkeypatch.setattr(world.store, "release", slowly)
    first, second = (asyncio.create_task(session.close()) for _ in range(2))
    await began.wait()
    first.cancel()  # its client hung up
    await asyncio.wait({first})
    assert not (await asyncio.wait({second}, timeout=0.2))[0]
    goes_on.set()
    await second
    row = await world.store.get_session(session.session_id)
    assert (row.status, row.host, row.lease_until) == ("suspended", None, None)


async def test_an_idle_session_is_put_away_and_comes_back_with_its_files(world: SessionWorld) -> None:
    session = await world.open()
    await world.to_preview(session)
    sandbox_id = session.state.sandbox_id
    await session.close()
    assert await world.sandboxes.list() == []
    row = await world.store.get_session(session.session_id)
    assert (row.status, row.lease_until) == ("suspended", None)
    again = await world.activate(session.session_id, world.model(scripted_model()))
    await world.say(again, "message", text="make it red")
    await world.until(again, "preview")
    assert again.state.sandbox_id not in (None, sandbox_id)
    sandbox = await again.project.sandbox()
    assert b"duration: 2" in await sandbox.read_file("src/theatre/project.ts")
    assert b"#EF4444" in await sandbox.read_file("src/App.tsx")


@pytest.mark.full
async def test_a_sandbox_that_dies_during_the_work_is_replaced_with_nothing_lost(world: SessionWorld) -> None:
    session = await world.open("a dot", scripted_model(scenes=3, pause_s=0.03))
    await world.until(session, "plan")
    await world.say(session, "accept")
    await world.event(session, "file_written", 3)
    lost = session.state.sandbox_id
    assert lost is not None
    await world.sandboxes.destroy(lost)
    await world.until(session, "preview")
    assert session.state.sandbox_id != lost
    sandbox = await session.project.sandbox()
    assert await sandbox.read_file("src/App.tsx") == APP.encode()


async def test_generated_code_cannot_replace_the_template(world: SessionWorld) -> None:
    def code(request: dict[str, Any]) -> dict[str, str]:
        return {"src/koda/contract.ts": "export {}"} if request["task"] == "initial_setup" else good_code(request)

    session = await world.open("a dot", scripted_model(code))
    await world.until(session, "plan")
    await world.say(session, "accept")
    asked = await world.until(session, "question", "preview")  # the same file again and again: how to go on
    calls = await world.store.tool_calls(session.session_id)
    result = next(c.result for c in calls if c.name == "generate_code")
    assert isinstance(result, dict) and "belongs to the template" in str(result["content"]), asked


async def test_a_stream_that_breaks_half_way_is_asked_again(world: SessionWorld) -> None:
    usual, breaks = scripted_model(), {"orchestrator": 1, "code": 1}

    def respond(request: dict[str, Any]) -> Answer:
        answer = usual(request)
        who = "orchestrator" if request.get("tools") else "code"
        if breaks[who]:
            breaks[who] -= 1
            assert isinstance(answer, Reply)
            return replace(answer, delta_chars=20, break_after=3, broken="cut")
        return answer

    session = await world.open("a dot", respond)
    await world.until(session, "plan")
    await world.say(session, "accept")
    await world.event(session, "file_written", len(GOOD_FILES))
    assert breaks == {"orchestrator": 0, "code": 0}
    sandbox = await session.project.sandbox()
    assert await sandbox.read_file("src/App.tsx") == APP.encode()


async def test_a_missing_browser_is_named_with_its_package(world: SessionWorld) -> None:
    async with LocalExecutor(chromium_path=Path("/nowhere/chromium")) as executor:
        world.executor = executor
        session = await world.open()
        await world.until(session, "plan")
        await world.say(session, "accept")
        failed = await world.until(session, "error")
    assert failed.error is not None and failed.error.code == "MISSING" and failed.error.can_retry
    assert "chromium" in failed.error.message
    calls = await world.store.tool_calls(session.session_id)
    assert [call.name for call in calls].count("render_preview") == 1  # nothing that agents could mend


@pytest.mark.full
async def test_an_uploaded_picture_is_in_the_project_and_in_the_video(world: SessionWorld) -> None:
    session_id = await world.row()
    png = io.BytesIO()
    Image.new("RGB", (32, 18), (255, 0, 0)).save(png, "PNG")
    data = png.getvalue()
    asset = AssetRecord(
        id=new_id("ast"),
        user_id="local",
        project_id="local",
        session_id=session_id,
        name="logo.PNG",
        media_type="image/png",
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        key="users/local/projects/local/assets/x/logo.png",
        created_at=now(),
    )
    await world.storage.put(asset.key, data)
    await world.store.add_asset(asset)
    shown: list[str] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        if request["task"] != "initial_setup":
            return good_code(request)
        (given,) = request["assets"]
        shown.append(given["path"])
        source = given["path"].removeprefix("public/")
        picture = f'<img src="{source}" style={{{{ width: 1280, height: 720 }}}} />'
        app = APP.replace("<div style", picture + "\n        <div style")
        return {**GOOD_FILES, "src/App.tsx": app}

    session = await world.activate(session_id, world.model(scripted_model(code)))
    await world.to_preview(session)
    assert shown == [f"public/assets/{asset.id}.png"]
    sandbox = await session.project.sandbox()
    assert await sandbox.read_file(shown[0]) == data
    assert session.state.preview is not None
    job = await world.store.get_job(session.state.preview.job_id)
    assert job.result is not None
    thumbnail = await world.storage.get(str(job.result["thumbnailKey"]))
    with Image.open(io.BytesIO(thumbnail)) as picture:
        corner = picture.convert("RGB").getpixel((picture.width - 9, 8))
    assert isinstance(corner, tuple) and corner[0] > 200 and max(corner[1:]) < 60, corner


@pytest.mark.full
async def test_work_is_saved_at_each_of_its_triggers(world: SessionWorld) -> None:
    session = await world.activate(await world.row(), world.model(scripted_model()), heartbeat_s=0.2, lease_s=0.6)

    async def saved(trigger: str) -> dict[str, Any]:
        """Wait until a trigger has been told once more than before; its event says in which checkpoint all is."""
        async with asyncio.timeout(60):
            while len(told := [e for e in await world.events(session, "checkpoint") if e["trigger"] == trigger]) <= (
                counted.get(trigger, 0)
            ):
                await asyncio.sleep(0.02)
        counted[trigger] = len(told)
        return told[-1]

    async def newest() -> checkpoint.Manifest:
        pointer = await world.store.latest_checkpoint(session.session_id)
        assert pointer is not None
        return await checkpoint.load(world.storage, pointer.manifest_key)

    counted: dict[str, int] = {}
    await world.to_preview(session)
    # 1, as each file is written by the agents; 2; 4, before the preview is shown
    await saved("files")
    assert "unchanged" not in (await world.events(session, "checkpoint"))[0]
    await saved("todo")
    order = [
        str(event.data.get("trigger") or event.type)
        for event in await world.store.events(session.session_id, limit=10_000)
        if event.type in ("checkpoint", "preview_ready")
    ]
    assert "preview" in order[: order.index("preview_ready")], order
    await saved("preview")

    # 3: an edit in the live preview's editor changes the file behind the agents' back
    sandbox = await session.project.sandbox()
    edited = b'{"sheetsById": {"Main": {}}, "definitionVersion": "0.4.0", "revisionHistory": ["edited"]}'
    await sandbox.write_files({"src/theatre/state.json": edited})
    async with asyncio.timeout(60):
        while "edited" not in str((await newest()).state.theatre_state):  # one that was under way had not seen it
            await saved("heartbeat")
    pointer = await world.store.latest_checkpoint(session.session_id)
    assert pointer is not None and pointer.trigger == "heartbeat"

    # from here on, in a process that takes over, no heartbeat comes between a write and the trigger that is looked at
    session = await world.activate(session.session_id, world.model(scripted_model()))
    assert (await session.project.sandbox()).id == sandbox.id
    # 6
    await session.watch(1)
    await sandbox.write_files({"src/components/Gone.tsx": b"export {};"})
    await session.watch(0)
    assert (await saved("disconnect"))["checkpointId"] == (await newest()).id
    assert "src/components/Gone.tsx" in (await newest()).files
    # 6 with nothing new: told all the same
    await session.watch(1)
    await session.watch(0)
    again = await saved("disconnect")
    assert again["unchanged"] is True and again["checkpointId"] == (await newest()).id
    # 7
    await sandbox.write_files({"src/components/Last.tsx": b"export {};"})
    await session.core.commit(Batch(phase_commands=[Fail(message="on purpose", code="INTERNAL")]))
    await saved("destroy")
    assert "src/components/Last.tsx" in (await newest()).files
    async with asyncio.timeout(60):
        while await world.sandboxes.list():
            await asyncio.sleep(0.02)
    # 5
    sandbox = await session.project.sandbox()
    assert await sandbox.read_file("src/components/Last.tsx") == b"export {};"
    await sandbox.write_files({"src/components/Idle.tsx": b"export {};"})
    await session.close()
    await saved("idle")
    assert "src/components/Idle.tsx" in (await newest()).files and await world.sandboxes.list() == []


@pytest.mark.full
async def test_the_live_preview_is_offered_whoever_directs(world: SessionWorld) -> None:
    session = await world.activate(await world.row("a bouncing ball, playful"), OfflineDirector())
    if (await world.until(session, "question", "plan")).phase == "question":
        await world.say(session, "answer", text="playful")
        await world.until(session, "plan")
    await world.say(session, "accept")
    await world.event(session, "stream_ready")
    url = f"/v1/sessions/{session.session_id}/preview"
    assert await world.events(session, "stream_ready") == [{"url": url}]
    endpoint = await session.preview("local")
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=endpoint.socket_path), timeout=60) as client:
        page = await client.get(f"http://preview{endpoint.base}")
    assert page.status_code == 200 and "/src/main.tsx" in page.text
    assert await session.shown("local") == endpoint
    with pytest.raises(NotFound):
        await session.shown("mallory")
    await world.until(session, "preview")
    await session.project.release("destroy")
    assert await session.shown("local") is None and await world.sandboxes.list() == []  # looking makes none


class Weak(LocalExecutor):
    """The real executor on a machine that is too weak for the first so many sizes."""

    def __init__(self) -> None:
        super().__init__(workers=2)
        self.too_big = 0
        self.asked: list[tuple[int, int, int]] = []

    async def capture(self, task: Any, *rest: Any) -> Any:
        size = (task.spec.width, task.spec.height, int(task.spec.fps))
        if size not in self.asked:
            self.asked.append(size)
        if self.asked.index(size) < self.too_big:
            raise EncodeFailed(f"no memory for {size[0]}x{size[1]}", retryable=False)
        return await super().capture(task, *rest)


@pytest.mark.full
async def test_a_failed_render_is_tried_again_at_lower_quality(world: SessionWorld) -> None:
    async with Weak() as executor:
        world.executor = executor
        session = await world.open()
        await world.to_preview(session)
        executor.asked.clear()
        executor.too_big = 3
        await world.say(session, "render", resolution="720p", fps=60)
        failed = (await world.until(session, "error")).error
        assert failed is not None and failed.code == "ENCODE_FAILED" and failed.can_retry
        assert "no memory for 570x320" in failed.message
        paid = [charge for charge in await world.store.charges(session.session_id) if charge.kind == "render"]
        assert [(charge.status, charge.reason) for charge in paid] == [("settled", None), ("refunded", "ENCODE_FAILED")]
        (account,) = await world.store.accounts("local", [session.session_id])
        settled_ms = Amounts.of(paid[0].spent).render_ms
        assert Amounts.of(account.spent).render_ms == settled_ms > 0
        lower = [(1280, 720, 60), (854, 480, 30), (570, 320, 30)]
        assert executor.asked == lower
        said = [str(event["content"]) for event in await world.events(session, "message")]
        told = [words.partition("trying ")[2] for words in said if "ENCODE_FAILED" in words]
        assert told == ["854x480 at 30 fps.", "570x320 at 30 fps."]
        executor.too_big = 2
        await world.say(session, "retry")
        output = (await world.until(session, "complete")).output
        assert output is not None and output.resolution == "570x320"
        starts = [e for e in await world.events(session, "render_start") if e["quality"] == "final"]
        assert [(e["width"], e["height"]) for e in starts] == [size[:2] for size in (*lower, *lower)]
        job = await world.store.get_job(output.job_id)
        assert (job.status, job.spec["width"]) == ("succeeded", 570)
        assert job.result is not None and (job.result["width"], job.result["frames"]) == (570, 60)


@pytest.mark.full
async def test_a_preview_that_fails_at_its_size_is_tried_again_at_lower_quality(world: SessionWorld) -> None:
    async with Weak() as executor:
        world.executor, executor.too_big = executor, 1
        session = await world.open()
        await world.to_preview(session)
        full, lower = executor.asked
        assert lower[0] < full[0] and lower[1] < full[1]
        said = [str(event["content"]) for event in await world.events(session, "message")]
        assert f"The preview failed (ENCODE_FAILED); trying {lower[0]}x{lower[1]} at {lower[2]} fps." in said
        preview = session.state.preview
        assert preview is not None
        job = await world.store.get_job(preview.job_id)
        assert (job.status, job.spec["width"]) == ("succeeded", lower[0]) and session.state.error is None


async def test_a_session_that_nobody_uses_ends_by_itself(world: SessionWorld) -> None:
    session = await world.activate(await world.row(), world.model(scripted_model()), idle_timeout_s=0.3, lease_s=0.3)
    await session.watch(1)  # while it still owes work
    await world.until(session, "plan")
    # each heartbeat looks whether anybody needs the session, and writes a new lease first: these span the idle time
    leases = set[datetime | None]()
    async with asyncio.timeout(60):
        while len(leases) < 8:
            leases.add((await world.store.get_session(session.session_id)).lease_until)
            await asyncio.sleep(0.01)
    assert world.ended == 0
    await session.watch(0)
    async with asyncio.timeout(60):
        while world.ended == 0:
            await asyncio.sleep(0.02)


@pytest.mark.full
async def test_full_storage_ends_in_an_error_that_says_so_and_loses_nothing(
    world: SessionWorld, small_disk: Path
) -> None:
    session_id = await world.row()
    world.storage = Storage(str(small_disk))
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (3 << 20))
    session = await world.activate(session_id, world.model(scripted_model()))
    await world.until(session, "plan")
    await world.say(session, "accept")
    failed = await world.until(session, "error")
    assert failed.error is not None and failed.error.can_retry, failed.error
    assert (failed.error.code, "full" in failed.error.message.lower()) == ("DISK_FULL", True), failed.error
    filler.unlink()
    await world.say(session, "retry")
    await world.until(session, "preview")
