"""Processes are killed for real, in every phase; the job goes on, and nothing is done twice or lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any

import pytest

from koda_ray.state import checkpoint
from koda_ray.types import RenderOptions, SessionPermissions
from koda_ray.wire import ApprovalView
from tests.actors.script import scripted_model, state_of
from tests.faults.conftest import Rig
from tests.llm.server import Answer, ApiError, Call, reply

pytestmark = [
    pytest.mark.full,
    pytest.mark.alone,
    pytest.mark.ray, pytest.mark.sandbox, pytest.mark.browser, pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="package"),
]  # fmt: skip


async def test_the_session_is_killed_in_every_phase_and_the_job_goes_on(rig: Rig) -> None:
    rig.respond = scripted_model(asks=True, pause_s=0.1, scenes=2)
    session_id = (await rig.client.create("a dot crosses")).session_id
    await rig.event(session_id, lambda e: e.type == "activated")
    epochs = [await rig.kill_session(session_id)]  # idle, owing an analysis

    await rig.rests(session_id, "question")
    epochs.append(await rig.kill_session(session_id))  # a question waits
    await rig.client.answer(session_id, option_id="smooth")
    epochs.append(await rig.kill_session(session_id))  # planning

    await rig.rests(session_id, "plan")
    epochs.append(await rig.kill_session(session_id))  # a plan waits
    await rig.client.accept(session_id)
    await rig.event(session_id, lambda e: e.type == "code_chunk")
    epochs.append(await rig.kill_session(session_id))  # code is streaming

    await rig.event(session_id, lambda e: e.type == "tool_end" and e.data["name"] == "set_thinking")
    epochs.append(await rig.kill_session(session_id))  # between tools
    await rig.event(session_id, lambda e: e.type == "render_start")
    epochs.append(await rig.kill_session(session_id))  # the preview is being rendered

    await rig.rests(session_id, "preview")
    epochs.append(await rig.kill_session(session_id))  # a preview waits
    await rig.client.render(session_id, RenderOptions(resolution="720p", fps=30))
    await rig.event(session_id, lambda e: e.type == "render_start" and e.data["quality"] == "final")
    epochs.append(await rig.kill_session(session_id))  # the final video is being rendered

    state = await rig.rests(session_id, "complete")
    assert epochs == sorted(set(epochs)), "each kill met a newer activation"
    assert state.output is not None and state.output.resolution == "1280x720"
    await rig.nothing_twice_nothing_lost(session_id)
    await rig.kill_session(session_id)  # complete

    rig.respond = lambda _: ApiError(400, "invalid_request_error", "refused")
    await rig.client.say(session_id, "make it red")
    failed = await rig.rests(session_id, "error")
    epoch = await rig.kill_session(session_id)  # an error waits to be retried
    row = await rig.activated(session_id, after=epoch)
    assert (row.state.error, row.state.owes) == (failed.error, None)
    rig.respond = scripted_model()
    await rig.client.retry(session_id)
    state = await rig.rests(session_id, "preview")
    assert state.error is None and state.feedback == ("make it red",)
    pointer = await rig.store.latest_checkpoint(session_id)
    assert pointer is not None
    manifest = await checkpoint.load(rig.storage, pointer.manifest_key)
    assert b"#EF4444" in await checkpoint.read_file(rig.storage, manifest, "src/App.tsx")


async def test_killed_between_what_each_tool_did_and_its_outcome_it_is_done_once(rig: Rig) -> None:
    usual = scripted_model()
    looked = ("send_message", "sandbox_list_files", "sandbox_read_file", "sandbox_start_preview", "sandbox_screenshot")
    given: dict[str, dict[str, Any]] = {
        "sandbox_run_command": {"command": "echo once >> public/once.txt"},
        "send_message": {"content": "The dot is there."},
        "sandbox_read_file": {"path": "src/App.tsx"},
        "sandbox_screenshot": {"seek_to": 0.5, "width": 320, "height": 180},
    }

    left = ["sandbox_run_command", *looked]

    def respond(request: dict[str, Any]) -> Answer:
        if left and request.get("tools") and state_of(request)["files"]:
            name = left.pop(0)  # one after the other: what dies three times is given up
            return reply(Call(name, given.get(name, {})))
        return usual(request)

    rig.respond = respond
    again = {"set_todos", "update_todo", "set_thinking", "generate_code", "render_preview", *looked}
    for name in (*again, "sandbox_run_command"):
        (rig.deadly / name).touch()
    session_id = (await rig.client.create("a dot crosses, smooth")).session_id
    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    await rig.rests(session_id, "preview", limit_s=300)
    assert [*rig.deadly.iterdir()] == [], "these tools were never called"
    calls = await rig.store.tool_calls(session_id)
    assert {call.name for call in calls if call.attempt > 1} >= again
    assert {call.status for call in calls if call.name != "sandbox_run_command"} == {"succeeded"}
    (command,) = [call for call in calls if call.name == "sandbox_run_command"]
    assert (command.status, command.attempt) == ("interrupted", 1) and "INTERRUPTED" in str(command.result)
    events = await rig.store.events(session_id, limit=10_000)
    assert [e.data["content"] for e in events if e.type == "message"].count("The dot is there.") == 1
    assert [len([e for e in events if e.type == each]) for each in ("preview_ready", "picture_taken")] == [1, 1]
    paths = {entry.path for entry in (await rig.client.files(session_id)).files}
    assert "src/App.tsx" in paths and "public/once.txt" not in paths
    await rig.nothing_twice_nothing_lost(session_id)


async def test_killed_between_a_preview_and_the_words_to_it_the_words_are_said_once(rig: Rig) -> None:
    usual, asked, release = scripted_model(), threading.Event(), threading.Event()
    words = "Here is your preview."

    def respond(request: dict[str, Any]) -> Answer:
        if request.get("tools") and state_of(request)["phase"] == "preview" and not asked.is_set():
            asked.set()
            release.wait(60)  # what is answered then, nobody hears
        return usual(request)

    rig.respond = respond
    session_id = (await rig.client.create("a dot crosses, smooth")).session_id
    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    shown = await rig.rests(session_id, "preview")
    assert shown.closing and await asyncio.to_thread(asked.wait, 60)
    await rig.kill_session(session_id)
    release.set()
    state = await rig.until(session_id, lambda state: not state.closing)  # nobody asked for it
    assert (state.phase, state.owes, state.preview) == ("preview", None, shown.preview)
    events = await rig.store.events(session_id, limit=10_000)
    said = [event.data["content"] for event in events if event.type == "message" and event.data["role"] == "assistant"]
    assert said == [words]
    assert [event.type for event in events].count("preview_ready") == 1
    await rig.nothing_twice_nothing_lost(session_id)


async def test_a_killed_chunk_task_costs_only_its_own_unit(rig: Rig) -> None:
    rig.respond = scripted_model(duration=6.0)
    session_id = (await rig.client.create("a dot crosses, smooth")).session_id
    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    await rig.rests(session_id, "preview")
    await rig.client.render(session_id, RenderOptions(resolution="1080p", fps=60))
    await rig.event(
        session_id,
        lambda e: e.type == "render_progress" and e.data["quality"] == "final" and int(str(e.data["framesDone"])) > 5,
    )
    victims = rig.workers("_capture")
    assert victims
    os.kill(victims[0].pid, signal.SIGKILL)
    state = await rig.rests(session_id, "complete")
    assert state.output is not None
    chunks = await rig.store.chunks(state.output.job_id)
    attempts = sorted(chunk.attempts for chunk in chunks)
    assert attempts == [1] * (len(chunks) - 1) + [2] and len(chunks) > 2


async def test_a_server_that_is_killed_whole_takes_its_work_up_when_it_is_back(rig: Rig) -> None:
    rig.respond = scripted_model(pause_s=0.1)
    session_id = (await rig.client.create("a dot crosses, smooth")).session_id
    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    await rig.event(session_id, lambda e: e.type == "file_written")
    await rig.kill()
    await rig.start()
    await rig.rests(session_id, "preview")  # nobody asked for it
    await rig.nothing_twice_nothing_lost(session_id)


async def test_what_only_a_sandbox_has_is_saved_though_nothing_is_owed(rig: Rig) -> None:
    """Nobody takes such a session up after the power cut: the janitor finds its sandbox, and has it saved first."""
    rig.respond = scripted_model()
    session_id = (await rig.client.create("a dot crosses, smooth")).session_id
    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    await rig.rests(session_id, "preview")
    await rig.kill()
    sandbox_id = (await rig.store.get_session(session_id)).state.sandbox_id
    assert sandbox_id is not None
    box = rig.server.data / "sandboxes" / await rig.store.deployment() / sandbox_id
    edit = b'{"edited": "in the live preview, a moment before"}'  # which no process could save
    (box / "disk" / "project" / "src" / "theatre" / "state.json").write_bytes(edit)
    await rig.start()
    await rig.until(session_id, lambda state: state.sandbox_id is None)
    pointer = await rig.store.latest_checkpoint(session_id)
    assert pointer is not None
    manifest = await checkpoint.load(rig.storage, pointer.manifest_key)
    assert await checkpoint.read_file(rig.storage, manifest, "src/theatre/state.json") == edit
    assert not box.exists()
    await rig.nothing_twice_nothing_lost(session_id)


async def test_a_call_that_waits_for_a_person_outlives_the_process_that_asked(rig: Rig) -> None:
    rig.respond = scripted_model()
    made = await rig.client.create("a dot crosses, smooth", permissions=SessionPermissions(mode="ask"))
    session_id = made.session_id

    async def asked(tool: str) -> ApprovalView:
        await rig.until(session_id, lambda s: s.approval is not None and s.approval.name == tool)
        (found,) = (await rig.client.approvals(session_id, pending=True)).approvals
        return found

    await rig.rests(session_id, "plan")
    await rig.client.accept(session_id)
    first = await asked("generate_code")
    assert "+++ b/src/App.tsx" in str(first.payload["shown"])
    await rig.kill_session(session_id)  # while a person looks at the diff
    assert (await rig.client.approvals(session_id, pending=True)).approvals == (first,)
    approved = await rig.client.approve(session_id, first.id, key="once")
    assert approved.result == {"phase": "executing", "owes": "execute"}
    await rig.event(session_id, lambda e: e.type == "tool_start" and e.data["name"] == "generate_code")
    await rig.kill_session(session_id)  # while what was agreed to runs
    assert (await rig.client.approve(session_id, first.id, key="once")).command_id == approved.command_id
    assert await files_written(rig, session_id) == {"src/App.tsx", "src/theatre/project.ts"}

    second = await asked("generate_code")
    shown = await koda(rig, "approvals", session_id, "--pending")
    assert second.id in shown and "create_scene" in shown and "Note.tsx" in shown
    changed = {"task": "create_scene", "scene": 1, "description": "A dot with a shadow"}
    await koda(rig, "accept", session_id, "--arguments", json.dumps(changed))
    await rig.until(session_id, lambda s: s.approval is not None and s.approval.approval_id != second.id)
    again = await asked("generate_code")  # with what is written so
    assert (again.call_id, again.payload["name"]) == (second.call_id, "generate_code")
    assert "A dot with a shadow" in str(again.payload["shown"])
    await rig.kill_session(session_id)
    await koda(rig, "accept", session_id)
    third = await asked("render_preview")
    assert "A dot with a shadow" in (await rig.client.read_file(session_id, "src/components/Note.tsx")).decode()

    await koda(rig, "reject", session_id, "not before lunch")
    await rig.until(session_id, lambda s: s.approval is not None and s.approval.approval_id != third.id)
    await koda(rig, "permissions", session_id, "--mode", "auto")
    await koda(rig, "accept", session_id)
    state = await rig.rests(session_id, "preview")
    assert state.permissions.mode == "auto"
    story = {each.id: each for each in (await rig.client.approvals(session_id)).approvals}
    assert [story[each.id].status for each in (first, second, third)] == ["approved", "approved", "rejected"]
    assert story[second.id].answer == {"approved": changed, "edited": True}
    await rig.nothing_twice_nothing_lost(session_id)


async def files_written(rig: Rig, session_id: str) -> set[str]:
    await rig.until(session_id, lambda s: s.execution is not None and len(s.execution.files) > 1)
    state = (await rig.client.session(session_id)).state
    return set(state.execution.files) if state.execution is not None else set()


async def koda(rig: Rig, *words: str) -> str:
    """Run the command line against the server."""
    argv = [sys.executable, "-m", "koda_ray", *words, "--server", rig.server.url]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0, said
    return said.decode()
