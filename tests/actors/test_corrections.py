"""What is wrong with a page is corrected, and what corrections do not mend."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from koda_ray.state import checkpoint
from tests.actors.conftest import SessionWorld
from tests.actors.script import APP, GOOD_FILES, good_code, scripted_model
from tests.llm.server import Answer, ApiError, results

pytestmark = [pytest.mark.sandbox, pytest.mark.browser]

BROKEN = APP.replace("const time = useCurrentTime();", "const time = useCurrentTime(;")
THROWING = APP.replace("  return (", "  if (time > 0.5) throw new Error('the dot is lost');\n  return (", 1)
STUCK = APP.replace(
    "export default function App() {",
    "const never = new Promise<void>(() => undefined);\nexport default function App() {\n  throw never;",
)


ONCE = APP.replace("  return (", "  if (time > 0.9 && time < 0.96) throw new Error('the dot slipped');\n  return (", 1)


def line_of(words: str, source: str) -> int:
    return next(number for number, text in enumerate(source.splitlines(), 1) if words in text)


@pytest.mark.parametrize(
    ("bad", "stage", "line", "words"),
    [
        pytest.param(BROKEN, "build", line_of("useCurrentTime(;", BROKEN), "Unexpected token", id="does not compile"),
        pytest.param(THROWING, "page", line_of("the dot is lost", THROWING), "Error: the dot is lost", id="throws"),
        # at one frame of the preview, which no try of the page comes to
        pytest.param(ONCE, "page", line_of("the dot slipped", ONCE), "Error: the dot slipped", id="throws once"),
    ],
)
@pytest.mark.full
async def test_an_error_is_corrected_from_its_file_its_line_and_its_words(
    world: SessionWorld, bad: str, stage: str, line: int, words: str
) -> None:
    def code(request: dict[str, Any]) -> dict[str, str]:
        for error in request.get("errors") or []:
            told = (error["stage"], error["file"], error["line"]) == (stage, "src/App.tsx", line)
            if told and words in error["message"] and request["files"]["src/App.tsx"] == bad:
                return {"src/App.tsx": APP}
        return {**GOOD_FILES, "src/App.tsx": bad} if request["task"] == "initial_setup" else good_code(request)

    session = await world.open("a dot", scripted_model(code))
    await world.to_preview(session)


@pytest.mark.parametrize(
    ("bad", "kind", "said"),
    [
        pytest.param(
            BROKEN,
            "BUILD_FAILED",
            (f"src/App.tsx:{line_of('useCurrentTime(;', BROKEN)}:", "Unexpected token"),
            id="never compiles",
        ),
        pytest.param(
            THROWING,
            "PAGE_ERROR",
            (f"src/App.tsx:{line_of('the dot is lost', THROWING)}:", "Error: the dot is lost"),
            id="always throws",
        ),
        pytest.param(STUCK, "PAGE_NOT_READY", ("was not ready after 1 s",), id="never ready"),
    ],
)
@pytest.mark.full
async def test_what_three_corrections_do_not_mend_is_an_error_that_can_be_retried(
    world: SessionWorld, bad: str, kind: str, said: tuple[str, ...]
) -> None:
    mended, corrections = False, 0

    def code(request: dict[str, Any]) -> dict[str, str]:
        nonlocal corrections
        corrections += bool(request.get("errors"))
        if not mended:
            return {**GOOD_FILES, "src/App.tsx": bad}
        session.workbench.trial = replace(
            session.workbench.trial, ready_timeout_s=60.0
        )  # a good page on a busy machine
        return GOOD_FILES

    stuck_s = 1.0 if kind == "PAGE_NOT_READY" else 60.0
    provider = world.model(scripted_model(code))
    session = await world.activate(await world.row(), provider, page_ready_timeout_s=stuck_s)
    await world.until(session, "plan")
    await world.say(session, "accept")
    failed = (await world.until(session, "error")).error
    assert failed is not None and failed.code == kind and failed.can_retry
    assert all(words in failed.message for words in (*said, "after 3 corrections")), failed.message
    assert corrections == 3
    (told,) = await world.events(session, "error")
    assert told == {"code": kind, "message": failed.message, "canRetry": True}
    mended = True
    await world.say(session, "retry")
    assert (await world.until(session, "preview")).error is None


@pytest.mark.full
async def test_what_corrections_do_not_mend_goes_back_to_the_preview_that_worked(world: SessionWorld) -> None:
    asked: list[dict[str, Any]] = []
    mended = False

    def code(request: dict[str, Any]) -> dict[str, str]:
        asked.append(request)
        if request["task"] != "modify_existing" or mended:
            return good_code(request)
        return {"src/App.tsx": f"// {len(asked)}\n{BROKEN}", "src/components/New.tsx": "export {};\n"}

    session = await world.open(respond=scripted_model(code))
    await world.to_preview(session)
    before, shown = await session.project.look(dict), session.state.preview
    await world.say(session, "message", text="make it red")
    failed = await world.until(session, "error")
    assert failed.error is not None and failed.error.code == "BUILD_FAILED" and failed.preview == shown
    assert "after 3 corrections" in failed.error.message and len([each for each in asked if each.get("errors")]) == 3
    assert "again those of the last preview that worked" in failed.error.message
    assert await session.project.look(dict) == before
    pointer = await world.store.latest_checkpoint(session.session_id)
    assert pointer is not None
    manifest = await checkpoint.load(world.storage, pointer.manifest_key)
    assert dict(await checkpoint.read_files(world.storage, manifest)) == before
    assert failed.execution is not None and "src/components/New.tsx" not in failed.execution.files

    await session.close()  # and it goes on from there
    mended = True
    session = await world.activate(session.session_id, world.model(scripted_model(code)))
    await world.say(session, "message", text="red, but another way")
    state = await world.until(session, "preview")
    assert state.error is None and asked[-1]["files"] == {path: before[path].decode() for path in state.execution.files}
    assert b"#EF4444" in (await session.project.look(dict))["src/App.tsx"]


@pytest.mark.full
async def test_a_model_that_fails_at_its_last_words_takes_no_preview_back(world: SessionWorld) -> None:
    usual, refused = scripted_model(), asyncio.Event()

    def respond(request: dict[str, Any]) -> Answer:
        if request.get("tools") and not refused.is_set() and results(request, "render_preview"):
            loop.call_soon_threadsafe(refused.set)
            return ApiError(400, "invalid_request_error", "no words left")
        return usual(request)

    loop = asyncio.get_running_loop()
    session = await world.open("a dot", respond)
    await world.to_preview(session)
    async with asyncio.timeout(60):
        await refused.wait()
        while session.working:
            await asyncio.sleep(0.02)
    await world.say(session, "message", text="make it red")
    state = await world.until(session, "preview")
    assert state.error is None and await world.events(session, "error") == []
    assert b"#EF4444" in (await session.project.look(dict))["src/App.tsx"]
