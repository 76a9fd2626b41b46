"""One session from its first sentence to its video, and what people say to it on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koda_ray.errors import Conflict, InvalidInput, InvalidTransition, NotFound
from koda_ray.render.local import LocalExecutor
from koda_ray.state import checkpoint
from koda_ray.state.storage import Storage
from koda_ray.state.store import AssetRecord
from koda_ray.types import new_id, now
from tests.actors.conftest import Studio
from tests.actors.script import APP, GOOD_FILES, good_code, studio_model
from tests.llm.server import Answer, Reply

pytestmark = [pytest.mark.sandbox, pytest.mark.browser]


async def to_preview(studio: Studio, session: Any) -> None:
    await studio.until(session, "plan")
    await studio.say(session, "accept")
    await studio.until(session, "preview")


async def test_a_prompt_becomes_a_video_by_way_of_question_plan_and_preview(studio: Studio) -> None:
    session = await studio.open("a dot crosses", studio_model(asks=True))
    asked = await studio.until(session, "question")
    assert asked.question is not None and [o.id for o in asked.question.options] == ["playful", "smooth"]
    await studio.say(session, "answer", optionId="smooth")
    planned = await studio.until(session, "plan")
    assert planned.style == "smooth" and planned.plan is not None
    await studio.say(session, "accept")
    previewed = await studio.until(session, "preview")
    assert previewed.preview is not None and previewed.preview.duration == 2
    assert previewed.execution is not None
    assert {todo.status for todo in previewed.execution.todos} == {"done"}
    await studio.say(session, "render", resolution="720p", fps=30)
    done = await studio.until(session, "complete")
    assert done.output is not None and done.output.resolution == "1280x720"
    job = await studio.store.get_job(done.output.job_id)
    assert job.result is not None and job.result["frames"] == 60
    assert await studio.storage.size(str(job.result["videoKey"])) == done.output.file_size

    beads = await studio.store.beads(session.session_id)
    assert [bead.status for bead in beads] == ["closed"] * 3
    kinds = {(a.kind, a.status) for a in await studio.store.approvals(session.session_id)}
    assert kinds == {("question", "approved"), ("plan", "approved"), ("preview", "approved")}
    events = await studio.store.events(session.session_id, limit=10_000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {"code_chunk", "file_written", "todo_update", "thinking", "render_progress", "preview_ready"} <= {
        event.type for event in events
    }
    chunks = [event.data for event in events if event.type == "code_chunk" and event.data["path"] == "src/App.tsx"]
    assert "".join(str(chunk["delta"]) for chunk in chunks) == APP
    assert [int(str(c["offset"])) for c in chunks] == sorted(int(str(c["offset"])) for c in chunks)


async def test_a_change_touches_only_its_file_and_always_renders_again(studio: Studio) -> None:
    session = await studio.open()
    await to_preview(studio, session)
    before = session.state.preview
    await studio.say(session, "message", text="make it red")
    after = (await studio.until(session, "preview")).preview
    assert before is not None and after is not None and after.job_id != before.job_id
    written = [event["path"] for event in await studio.events(session, "file_written")]
    assert written.count("src/theatre/project.ts") == 1 and written.count("src/App.tsx") == 2
    pointer = await studio.store.latest_checkpoint(session.session_id)
    assert pointer is not None
    manifest = await checkpoint.load(studio.storage, pointer.manifest_key)
    assert b"#EF4444" in await checkpoint.read_file(studio.storage, manifest, "src/App.tsx")


async def test_a_build_error_is_corrected_from_its_file_line_and_message(studio: Studio) -> None:
    broken = APP.replace("const time = useCurrentTime();", "const time = useCurrentTime(;")
    line = next(n for n, text in enumerate(broken.splitlines(), 1) if "useCurrentTime(;" in text)
    seen: list[dict[str, Any]] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        errors = request.get("errors") or []
        if errors and errors[0]["file"] == "src/App.tsx" and errors[0]["line"] == line and errors[0]["message"]:
            seen.extend(errors)
            return {"src/App.tsx": APP}
        return {**GOOD_FILES, "src/App.tsx": broken} if request["task"] == "initial_setup" else good_code(request)

    session = await studio.open("a dot", studio_model(code))
    await to_preview(studio, session)
    assert seen and seen[0]["stage"] == "build"


async def test_a_page_that_throws_is_corrected_from_the_place_in_its_source(studio: Studio) -> None:
    throwing = APP.replace("  return (", "  if (time > 0.5) throw new Error('the dot is lost');\n  return (", 1)
    line = next(n for n, text in enumerate(throwing.splitlines(), 1) if "the dot is lost" in text)

    def code(request: dict[str, Any]) -> dict[str, str]:
        for error in request.get("errors") or []:
            if error["file"] == "src/App.tsx" and error["line"] == line and "the dot is lost" in error["message"]:
                return {"src/App.tsx": APP}
        return {**GOOD_FILES, "src/App.tsx": throwing} if request["task"] == "initial_setup" else good_code(request)

    session = await studio.open("a dot", studio_model(code))
    await to_preview(studio, session)


async def test_code_that_never_compiles_ends_in_an_error_that_can_be_retried(studio: Studio) -> None:
    mended = False

    def code(request: dict[str, Any]) -> dict[str, str]:
        if mended:
            return GOOD_FILES
        return {**GOOD_FILES, "src/App.tsx": "export default function App( {"}

    session = await studio.open("a dot", studio_model(code))
    await studio.until(session, "plan")
    await studio.say(session, "accept")
    failed = await studio.until(session, "error")
    assert failed.error is not None and failed.error.code == "BUILD_FAILED" and failed.error.can_retry
    assert "src/App.tsx" in failed.error.message and "3 corrections" in failed.error.message
    mended = True
    await studio.say(session, "retry")
    await studio.until(session, "preview")


async def test_a_page_that_never_becomes_ready_is_named(studio: Studio) -> None:
    stuck = APP.replace(
        "export default function App() {",
        "const never = new Promise<void>(() => undefined);\nexport default function App() {\n  throw never;",
    )

    def code(request: dict[str, Any]) -> dict[str, str]:
        return {**GOOD_FILES, "src/App.tsx": stuck}

    session = await studio.activate(await studio.row(), studio.model(studio_model(code)), page_ready_timeout_s=2.0)
    await studio.until(session, "plan")
    await studio.say(session, "accept")
    failed = await studio.until(session, "error")
    assert failed.error is not None and failed.error.code == "PAGE_NOT_READY", failed.error


async def test_rejecting_a_plan_asks_and_changing_it_plans_again(studio: Studio) -> None:
    session = await studio.open()
    await studio.until(session, "plan")
    await studio.say(session, "changes", feedback="slower please")
    replanned = await studio.until(session, "plan")
    assert replanned.feedback == ("slower please",)
    await studio.say(session, "reject", feedback="no, something else")
    again = await studio.until(session, "plan", "question")
    assert again.feedback[-1] == "no, something else"


async def test_cancel_stops_the_work_and_accepting_again_takes_it_up(studio: Studio) -> None:
    usual, hung = studio_model(), False

    def respond(request: dict[str, Any]) -> Answer:
        nonlocal hung
        answer = usual(request)
        if request.get("tools") or hung:
            return answer
        hung = True
        assert isinstance(answer, Reply)
        return replace(answer, break_after=5, hang=True)

    session = await studio.open("a dot", respond)
    await studio.until(session, "plan")
    await studio.say(session, "accept")
    await studio.event(session, "code_chunk")
    await studio.say(session, "cancel")
    assert (session.state.phase, session.state.owes) == ("plan", None)
    await studio.say(session, "accept")
    await studio.until(session, "preview")
    calls = await studio.store.tool_calls(session.session_id)
    statuses = [(c.name, c.status) for c in calls]
    assert ("generate_code", "interrupted") in statuses, statuses


async def test_words_during_the_work_are_taken_in_before_it_ends(studio: Studio) -> None:
    session = await studio.open("a dot", studio_model(pause_s=0.05))
    await studio.until(session, "plan")
    await studio.say(session, "accept")
    await studio.event(session, "file_written")
    await studio.say(session, "message", text="make it red")
    state = await studio.until(session, "preview")
    assert state.feedback_seen == 1
    sandbox = await session._project.sandbox()
    assert b"#EF4444" in await sandbox.read_file("src/App.tsx")


async def test_a_command_is_recorded_once_whatever_how_often_it_is_sent(studio: Studio) -> None:
    session = await studio.open()
    await studio.until(session, "plan")
    first = await session.submit(name="accept", body={}, key="k1", user_id="local")
    again = await session.submit(name="accept", body={}, key="k1", user_id="local")
    assert first.id == again.id and first.result == {"phase": "executing", "owes": "execute"}
    with pytest.raises(Conflict, match="k1"):
        await session.submit(name="cancel", body={}, key="k1", user_id="local")
    with pytest.raises(InvalidTransition):
        await session.submit(name="accept", body={}, key="k2", user_id="local")
    with pytest.raises(InvalidInput, match="the commands are"):
        await session.submit(name="dance", body={}, key="k3", user_id="local")
    with pytest.raises(NotFound):
        await session.submit(name="cancel", body={}, key="k4", user_id="usr_other")


async def test_an_idle_session_is_put_away_and_comes_back_with_its_files(studio: Studio) -> None:
    session = await studio.open()
    await to_preview(studio, session)
    sandbox_id = session.state.sandbox_id
    await session.close()
    assert await studio.sandboxes.list() == []
    row = await studio.store.get_session(session.session_id)
    assert (row.status, row.lease_until) == ("suspended", None)
    again = await studio.activate(session.session_id, studio.model(studio_model()))
    await studio.say(again, "message", text="make it red")
    await studio.until(again, "preview")
    assert again.state.sandbox_id not in (None, sandbox_id)
    sandbox = await again._project.sandbox()
    assert b"duration: 2" in await sandbox.read_file("src/theatre/project.ts")
    assert b"#EF4444" in await sandbox.read_file("src/App.tsx")


async def test_a_sandbox_that_dies_during_the_work_is_replaced_with_nothing_lost(studio: Studio) -> None:
    session = await studio.open("a dot", studio_model(scenes=3, pause_s=0.03))
    await studio.until(session, "plan")
    await studio.say(session, "accept")
    await studio.event(session, "file_written", 3)
    lost = session.state.sandbox_id
    assert lost is not None
    await studio.sandboxes.destroy(lost)
    await studio.until(session, "preview")
    assert session.state.sandbox_id != lost
    sandbox = await session._project.sandbox()
    assert await sandbox.read_file("src/App.tsx") == APP.encode()


async def test_generated_code_cannot_replace_the_template(studio: Studio) -> None:
    def code(request: dict[str, Any]) -> dict[str, str]:
        return {"src/koda/contract.ts": "export {}"} if request["task"] == "initial_setup" else good_code(request)

    session = await studio.open("a dot", studio_model(code))
    await studio.until(session, "plan")
    await studio.say(session, "accept")
    failed = await studio.until(session, "error", "preview")
    calls = await studio.store.tool_calls(session.session_id)
    result = next(c.result for c in calls if c.name == "generate_code")
    assert isinstance(result, dict) and "belongs to the template" in str(result["content"]), failed


async def test_a_stream_that_breaks_half_way_is_asked_again(studio: Studio) -> None:
    usual, breaks = studio_model(), {"orchestrator": 1, "code": 1}

    def respond(request: dict[str, Any]) -> Answer:
        answer = usual(request)
        who = "orchestrator" if request.get("tools") else "code"
        if breaks[who]:
            breaks[who] -= 1
            assert isinstance(answer, Reply)
            return replace(answer, delta_chars=20, break_after=3, broken="cut")
        return answer

    session = await studio.open("a dot", respond)
    await to_preview(studio, session)
    assert breaks == {"orchestrator": 0, "code": 0}


async def test_a_missing_browser_is_named_with_its_package(studio: Studio) -> None:
    async with LocalExecutor(chromium_path=Path("/nowhere/chromium")) as executor:
        studio.executor = executor
        session = await studio.open()
        await studio.until(session, "plan")
        await studio.say(session, "accept")
        failed = await studio.until(session, "error")
    assert failed.error is not None and "chromium" in failed.error.message and failed.error.can_retry


async def test_an_uploaded_picture_is_in_the_project(studio: Studio) -> None:
    session_id = await studio.row()
    asset = AssetRecord(
        id=new_id("ast"),
        user_id="local",
        project_id="local",
        session_id=session_id,
        name="logo.PNG",
        media_type="image/png",
        size_bytes=4,
        sha256="0" * 64,
        key="users/local/projects/local/assets/x/logo.png",
        created_at=now(),
    )
    await studio.storage.put(asset.key, b"\x89PNG")
    await studio.store.add_asset(asset)
    seen: list[Any] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        seen.extend(request["assets"])
        return good_code(request)

    session = await studio.activate(session_id, studio.model(studio_model(code)))
    await to_preview(studio, session)
    assert seen[0]["path"] == f"public/assets/{asset.id}.png"
    sandbox = await session._project.sandbox()
    assert await sandbox.read_file(seen[0]["path"]) == b"\x89PNG"


async def test_work_is_saved_at_every_trigger(studio: Studio) -> None:
    session = await studio.activate(
        await studio.row(), studio.model(studio_model()), heartbeat_s=0.5, debounce_s=0.2, lease_s=3
    )
    await to_preview(studio, session)
    triggers = {str(event["trigger"]) for event in await studio.events(session, "checkpoint")}
    assert {"files", "todo"} <= triggers, triggers

    async def taken() -> list[object]:
        return [event["trigger"] for event in await studio.events(session, "checkpoint")]

    async def saved(trigger: str, before: int) -> None:
        async with asyncio.timeout(10):
            while trigger not in (await taken())[before:]:
                await asyncio.sleep(0.02)

    # an edit in the live preview's Studio changes the file behind the agents' back
    sandbox = await session._project.sandbox()
    before = len(await taken())
    edited = b'{"sheetsById": {"Main": {}}, "definitionVersion": "0.4.0", "revisionHistory": ["edited"]}'
    await sandbox.write_files({"src/theatre/state.json": edited})
    await saved("heartbeat", before)
    pointer = await studio.store.latest_checkpoint(session.session_id)
    assert pointer is not None
    manifest = await checkpoint.load(studio.storage, pointer.manifest_key)
    assert manifest.state.theatre_state is not None and manifest.state.theatre_state["revisionHistory"] == ["edited"]

    await session._project.write({"src/components/Late.tsx": b"export {};"})
    await saved("writes", before)
    await session.watch(1)
    await sandbox.write_files({"src/components/Gone.tsx": b"export {};"})
    await session.watch(0)
    await saved("disconnect", before)
    await sandbox.write_files({"src/components/Last.tsx": b"export {};"})
    await session.close()
    await saved("idle", before)


async def test_a_session_that_nobody_uses_ends_by_itself(studio: Studio) -> None:
    session = await studio.activate(await studio.row(), studio.model(studio_model()), idle_timeout_s=0.3, lease_s=0.3)
    await studio.until(session, "plan")
    await session.watch(1)
    await asyncio.sleep(1.0)  # the one thing that can only be seen by waiting: nothing happens while somebody watches
    assert studio.ended == 0
    await session.watch(0)
    async with asyncio.timeout(10):
        while studio.ended == 0:
            await asyncio.sleep(0.02)


async def test_full_storage_ends_in_an_error_that_says_so_and_loses_nothing(studio: Studio, small_disk: Path) -> None:
    session_id = await studio.row()
    studio.storage = Storage(str(small_disk))
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (3 << 20))
    session = await studio.activate(session_id, studio.model(studio_model()))
    await studio.until(session, "plan")
    await studio.say(session, "accept")
    failed = await studio.until(session, "error")
    assert failed.error is not None and "full" in failed.error.message.lower(), failed.error
    filler.unlink()
    await studio.say(session, "retry")
    await studio.until(session, "preview")
