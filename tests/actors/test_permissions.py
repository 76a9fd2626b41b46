"""What a session's agents may do by themselves: what waits for a person, what they see of it, and what then runs."""

from __future__ import annotations

from typing import Any

import pytest

from koda_ray.actors import workbench
from koda_ray.actors.permits import permissions_of
from koda_ray.agent.toolkit import BoundCall
from koda_ray.errors import InvalidInput, InvalidTransition
from koda_ray.state import checkpoint
from koda_ray.state.records import ApprovalRecord
from tests.actors.conftest import SessionWorld
from tests.actors.script import APP, GOOD_FILES, scripted_model, wanted_of
from tests.llm.server import Answer, reply, results
from tests.tools.conftest import Tools

pytestmark = [pytest.mark.sandbox, pytest.mark.browser]

ASK = {"mode": "ask", "rules": []}


async def executing(world: SessionWorld, respond: Any = None, permissions: Any = ASK) -> Any:
    session = await world.activate(await world.row(permissions=permissions), world.model(respond or scripted_model()))
    await world.until(session, "plan")
    await world.say(session, "accept")
    return session


async def pending(world: SessionWorld, session: Any) -> ApprovalRecord:
    """Wait until a tool call waits, and read its approval."""
    await world.until(session, "executing")
    waits = session.state.approval
    assert waits is not None
    (found,) = await world.store.approvals(session.session_id, pending=True)
    assert (found.id, found.call_id, found.kind) == (waits.approval_id, waits.call_id, "tool_call")
    return found


async def files(world: SessionWorld, session: Any) -> dict[str, bytes]:
    pointer = await world.store.latest_checkpoint(session.session_id)
    if pointer is None:
        return {}
    manifest = await checkpoint.load(world.storage, pointer.manifest_key)
    return dict(await checkpoint.read_files(world.storage, manifest))


@pytest.mark.full
async def test_a_write_waits_with_a_diff_survives_its_process_and_runs_as_it_was_shown(world: SessionWorld) -> None:
    generated: list[str] = []

    def respond(request: dict[str, Any]) -> Answer:
        if not request.get("tools"):
            generated.append(wanted_of(request)["task"])
        return scripted_model()(request)

    session = await executing(world, respond)
    asked = await pending(world, session)
    assert asked.payload["name"] == "generate_code" and asked.payload["proposed"] == {"task": "initial_setup"}
    shown = str(asked.payload["shown"])
    assert "+++ b/src/App.tsx" in shown
    assert "\n+      <Layer>" in shown and generated == ["initial_setup"]
    assert APP.encode() not in (await files(world, session)).values()
    events = await world.events(session, "approval_requested")
    assert [event.get("callId") for event in events].count(asked.call_id) == 1

    await session.close()  # nothing is owed meanwhile: nobody takes it up again
    assert (await world.store.get_session(session.session_id)).owes is None
    again = await world.activate(session.session_id, world.model(respond))
    assert await pending(world, again) == asked
    with pytest.raises(InvalidTransition, match="generate_code waits for your agreement"):
        await world.say(again, "changes", feedback="red")
    await world.say(again, "approve", approvalId=asked.id)
    await world.event(again, "file_written")
    assert generated == ["initial_setup"]  # what was shown is what was written
    assert (await files(world, again))["src/App.tsx"] == APP.encode()
    asked = await pending(world, again)  # the next one
    await world.say(again, "permissions", mode="auto")
    assert again.state.approval is not None  # what waits already waits on
    await world.say(again, "approve", approvalId=asked.id)
    state = await world.until(again, "preview")
    assert state.permissions.mode == "auto"
    calls = await world.store.tool_calls(session.session_id)
    assert {call.attempt for call in calls if call.name == "generate_code"} == {1}


async def test_what_changed_arguments_write_is_shown_first_and_a_refusal_is_read(world: SessionWorld) -> None:
    heard: list[str] = []
    described: list[str | None] = []

    def respond(request: dict[str, Any]) -> Answer:
        if not request.get("tools"):
            described.append(wanted_of(request).get("description"))
        else:
            heard[:] = [result["content"] for result in results(request, "generate_code")]
            if any("REJECTED" in text for text in heard):
                return reply("They do not want it.")
        return scripted_model()(request)

    session = await executing(world, respond)
    first = await pending(world, session)
    with pytest.raises(InvalidInput, match="task"):
        await world.say(session, "approve", approvalId=first.id, arguments={"task": "paint"})
    assert session.state.approval is not None
    changed = {"task": "initial_setup", "description": "with a shadow"}
    await world.say(session, "approve", approvalId=first.id, arguments=changed)
    again = await pending(world, session)  # nobody has seen what is written with these
    assert again.call_id == first.call_id and again.id != first.id and heard == []
    assert "this is what would be written now" in str(again.payload["reason"])
    assert "+++ b/src/App.tsx" in str(again.payload["shown"]) and await files(world, session) == {}
    assert described == [None, "with a shadow"]
    await session.close()
    session = await world.activate(session.session_id, world.model(respond))
    await world.say(session, "approve", approvalId=again.id)
    second = await pending(world, session)
    assert "input of this call was changed" in heard[0] and len(described) == 3  # that of the next call
    approval = next(a for a in await world.store.approvals(session.session_id) if a.id == first.id)
    assert approval.payload["proposed"] == {"task": "initial_setup"}
    assert approval.answer == {"approved": changed, "edited": True}
    (call,) = [c for c in await world.store.tool_calls(session.session_id) if c.id == first.call_id]
    assert call.attempt == 1, "to ask is no attempt"
    assert call.input == {"name": None, "scene": None, "files": [], "change": None, **changed}  # what the tool got

    before = await files(world, session)
    await world.say(session, "refuse", approvalId=second.id, reason="no second scene")
    asked = await world.until(session, "question")  # the agents stop, and the person is asked how to go on
    assert asked.question is not None and asked.question.reason == "stuck"
    assert "no second scene" in heard[1] and await files(world, session) == before
    with pytest.raises(InvalidTransition, match="no tool call waits"):
        await world.say(session, "approve", approvalId=second.id)
    await world.say(session, "answer", optionId="stop")
    assert (session.state.phase, session.state.owes) == ("plan", None)


async def test_cancel_gives_a_waiting_call_up(world: SessionWorld) -> None:
    session = await executing(world)
    asked = await pending(world, session)
    await world.say(session, "cancel")
    assert (session.state.phase, session.state.approval) == ("plan", None)
    approval = next(a for a in await world.store.approvals(session.session_id) if a.id == asked.id)
    assert approval.status == "superseded"
    told = [e for e in await world.events(session, "approval_resolved") if e["approvalId"] == asked.id]
    assert len(told) == 1
    await world.say(session, "accept")
    assert (await pending(world, session)).id != asked.id


async def test_rules_forbid_and_readonly_changes_nothing(world: SessionWorld) -> None:
    heard: list[str] = []

    def respond(request: dict[str, Any]) -> Answer:
        if request.get("tools") and (told := results(request, "generate_code")):
            heard.append(told[-1]["content"])
            return reply("I may not.")
        return scripted_model()(request)

    for given in ({"mode": "readonly"}, {"rules": [{"decision": "deny", "tool": "generate_*"}]}):
        session = await executing(world, respond, given)
        asked = await world.until(session, "question")
        assert asked.question is not None and asked.question.owes == "execute"
        assert "NOT_ALLOWED" in heard[-1] and "src/App.tsx" not in await files(world, session)
        assert asked.execution is not None and asked.execution.todos  # the list is no change of the project


SECRET = {"src/components/Note.tsx": "export {};\n", "src/secret.ts": "export {};\n"}


async def test_what_the_generator_writes_is_held_to_the_rules_whatever_the_call_named(world: SessionWorld) -> None:
    session = await world.at_rest(scripted_model(lambda _: SECRET))
    tools = Tools.of(session, world)
    await world.say(session, "permissions", rules=[{"decision": "deny", "path": "src/secret*"}])
    refused = await tools.call("generate_code", task="create_scene", scene=1)
    assert refused.is_error and refused.content.startswith("NOT_ALLOWED: src/secret.ts ") and refused.wants is None
    assert "(deny path='src/secret*')" in refused.content and "leave this file" in refused.content
    assert await files(world, session) == {}
    assert session.state.execution is not None and session.state.execution.files == ()
    costs = [charge for charge in await world.store.charges(session.session_id) if charge.kind == "model"]
    assert [charge.status for charge in costs] == ["settled"]  # it was made, and is paid


@pytest.mark.parametrize(
    "given",
    [
        {"task": "create_scene", "scene": 1},
        {"task": "modify_existing", "files": ["/home/user/project/src/secret.ts"], "change": "a key"},
    ],
)
async def test_a_rule_that_asks_about_a_file_shows_it_whether_or_not_the_call_named_it(
    world: SessionWorld, given: dict[str, Any]
) -> None:
    session = await world.at_rest(scripted_model(lambda _: SECRET))
    tools = Tools.of(session, world)
    await world.say(session, "permissions", rules=[{"decision": "ask", "path": "src/secret*"}])
    generate = tools.toolkit.bind("generate_code", given)
    assert isinstance(generate, BoundCall)
    assert permissions_of(session.state).decide(generate, given).decision == ("ask" if "files" in given else "allow")
    wanted = (await tools.call("generate_code", **given)).wants
    assert wanted is not None and "(ask path='src/secret*')" in wanted.reason
    assert "+++ b/src/secret.ts" in wanted.shown and "+++ b/src/components/Note.tsx" in wanted.shown
    assert await files(world, session) == {}
    with pytest.raises(InvalidInput, match=r"src/secret\.ts may not be written: .*the person is asked"):
        await session.workbench.keep(SECRET, task=given)


async def test_mode_ask_covers_files_beside_those_that_a_rule_allows(world: SessionWorld) -> None:
    session = await world.at_rest(scripted_model(lambda _: SECRET))
    tools = Tools.of(session, world)
    await world.say(session, "permissions", mode="ask", rules=[{"decision": "allow", "path": "src/components/*"}])
    given = {"task": "modify_existing", "files": ["src/components/Note.tsx"], "change": "a word"}
    wanted = (await tools.call("generate_code", **given)).wants
    assert wanted is not None and "it changes something" in wanted.reason and await files(world, session) == {}


async def test_a_file_that_the_generator_chose_waits_through_a_restart_and_is_written_once(
    world: SessionWorld,
) -> None:
    generated: list[str] = []

    def respond(request: dict[str, Any]) -> Answer:
        if not request.get("tools"):
            generated.append(wanted_of(request)["task"])
        first_files = scripted_model(lambda asked: {**GOOD_FILES, **SECRET} if asked["task"] == "initial_setup" else {})
        return first_files(request)

    rules = [{"decision": "ask", "tool": "generate_code", "path": "src/secret*"}]
    session = await executing(world, respond, {"mode": "auto", "rules": rules})
    asked = await pending(world, session)
    assert asked.payload["proposed"] == {"task": "initial_setup"} and generated == ["initial_setup"]
    assert "+++ b/src/secret.ts" in str(asked.payload["shown"]) and "src/secret*" in str(asked.payload["reason"])
    assert await files(world, session) == {}

    await session.close()
    again = await world.activate(session.session_id, world.model(respond))
    assert await pending(world, again) == asked
    await world.say(again, "approve", approvalId=asked.id)
    await world.event(again, "file_written", count=len(GOOD_FILES) + len(SECRET))
    assert (await files(world, again))["src/secret.ts"] == SECRET["src/secret.ts"].encode()
    assert generated.count("initial_setup") == 1  # what was shown is what was written
    written = [event["path"] for event in await world.events(again, "file_written")]
    assert written.count("src/secret.ts") == 1
    (call,) = [c for c in await world.store.tool_calls(session.session_id) if c.id == asked.call_id]
    assert (call.status, call.attempt) == ("succeeded", 1), "to ask is no attempt"


async def test_a_file_that_the_generator_chose_may_be_changed_by_other_arguments_or_refused(
    world: SessionWorld,
) -> None:
    heard: list[str] = []

    def respond(request: dict[str, Any]) -> Answer:
        if request.get("tools") and (told := results(request, "generate_code")):
            heard.append(told[-1]["content"])
            return reply("They do not want it.")
        return scripted_model(lambda asked: {"src/secret.ts": f"// {asked.get('description')}\n"})(request)

    rules = [{"decision": "ask", "path": "src/secret*"}]
    session = await executing(world, respond, {"mode": "auto", "rules": rules})
    first = await pending(world, session)
    assert "+// None" in str(first.payload["shown"])
    changed = {"task": "initial_setup", "description": "shorter"}
    await world.say(session, "approve", approvalId=first.id, arguments=changed)
    second = await pending(world, session)
    assert second.call_id == first.call_id and second.id != first.id and not heard
    assert "+// shorter" in str(second.payload["shown"]) and await files(world, session) == {}
    await world.say(session, "refuse", approvalId=second.id, reason="keep that file as it is")
    await world.until(session, "question")
    assert "REJECTED" in heard[0] and "keep that file as it is" in heard[0]
    assert await files(world, session) == {}


async def test_files_that_changed_while_they_waited_are_shown_anew(world: SessionWorld) -> None:
    session = await executing(world)
    first = await pending(world, session)
    await session.project.use(lambda sandbox: sandbox.write_files({"src/App.tsx": b"// written by hand\n"}))
    await world.say(session, "approve", approvalId=first.id)
    again = await pending(world, session)
    assert again.call_id == first.call_id and again.id != first.id
    assert "files are others by now" in str(again.payload["reason"])
    assert "-// written by hand" in str(again.payload["shown"])
    await world.say(session, "approve", approvalId=again.id)
    await world.event(session, "file_written")
    assert (await files(world, session))["src/App.tsx"] == APP.encode()


async def test_nobody_agrees_to_what_is_too_long_to_be_shown(
    world: SessionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbench, "MAX_SHOWN_CHARS", 100)
    heard: list[str] = []

    def respond(request: dict[str, Any]) -> Answer:
        if request.get("tools") and (told := results(request, "generate_code")):
            heard.append(told[-1]["content"])
            return reply("I will write less.")
        return scripted_model()(request)

    session = await executing(world, respond)
    asked = await pending(world, session)
    assert "cannot be shown" in str(asked.payload["shown"])
    await world.say(session, "approve", approvalId=asked.id)
    await world.until(session, "question")
    assert heard[0].startswith("TOO_LONG: ") and "ask for less at once" in heard[0]
    assert "src/App.tsx" not in await files(world, session)


async def test_files_that_a_person_saw_are_written_whatever_the_call_named(world: SessionWorld) -> None:
    session = await world.at_rest(scripted_model(lambda _: SECRET))
    await world.say(session, "permissions", rules=[{"decision": "ask", "path": "src/secret*"}])
    task = {"task": "create_scene", "scene": 1}
    assert "+++ b/src/secret.ts" in await session.workbench.propose(task, cause_id="call_1")
    made = await session.workbench.generate(task, cause_id="call_1")
    assert made.shown
    await session.core.commit(await session.workbench.keep(made.files, task=task, shown=made.shown))
    assert "src/secret.ts" in await files(world, session)


@pytest.mark.parametrize(
    ("permissions", "asked_for"),
    [
        ({"mode": "auto", "rules": [{"decision": "deny", "tool": "generate_*", "path": "src/App.tsx"}]}, 0),
        ({"mode": "auto", "rules": [{"decision": "deny", "path": "src/secret*"}]}, 1),
    ],
)
@pytest.mark.full
async def test_a_preview_rewrites_nothing_that_a_person_is_to_be_asked_about(
    world: SessionWorld, permissions: dict[str, Any], asked_for: int
) -> None:
    requests: list[dict[str, Any]] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        requests.append(request)
        return {"src/App.tsx": APP, "src/secret.ts": "export {};\n"}

    session = await world.at_rest(scripted_model(code))
    tools = Tools.of(session, world)
    await tools.keep({**GOOD_FILES, "src/App.tsx": "import './nowhere';\n"})
    before = await files(world, session)
    await world.say(session, "permissions", **permissions)
    failed = await tools.call("render_preview")
    assert failed.is_error and failed.content.startswith("BUILD_FAILED: ") and "not allowed" in failed.content
    assert "src/App.tsx" in failed.content and "nowhere" in failed.content and "Call generate_code" in failed.content
    assert await files(world, session) == before and len(requests) == asked_for
    assert session.state.phase == "executing"  # the agents go on, and ask


@pytest.mark.full
async def test_a_correction_waits_with_its_diff_and_is_written_as_it_was_shown(world: SessionWorld) -> None:
    corrections: list[dict[str, Any]] = []
    broken = {**GOOD_FILES, "src/App.tsx": "import './nowhere';\n"}

    def code(request: dict[str, Any]) -> dict[str, str]:
        if not request.get("errors"):
            return broken
        corrections.append(request)
        if len(corrections) == 1:
            return {"src/App.tsx": "import './elsewhere';\n"}
        return {"src/App.tsx": APP}

    rules = [
        {"decision": "ask", "tool": "generate_code", "arguments": {"task": "modify_existing"}},
    ]
    session = await executing(world, scripted_model(code), {"mode": "auto", "rules": rules})
    first = await pending(world, session)
    assert first.payload["name"] == "render_preview" and "src/App.tsx" in str(first.payload["reason"])
    assert "-import './nowhere';\n+import './elsewhere';" in str(first.payload["shown"])
    assert (await files(world, session))["src/App.tsx"] == broken["src/App.tsx"].encode() and len(corrections) == 1

    await session.close()
    again = await world.activate(session.session_id, world.model(scripted_model(code)))
    assert await pending(world, again) == first
    await world.say(again, "approve", approvalId=first.id)
    second = await pending(world, again)
    assert second.call_id == first.call_id and second.id != first.id
    assert "-import './elsewhere';" in str(second.payload["shown"]) and len(corrections) == 2
    assert (await files(world, again))["src/App.tsx"] == b"import './elsewhere';\n"
    await world.say(again, "approve", approvalId=second.id)
    await world.until(again, "preview")
    assert (await files(world, again))["src/App.tsx"] == APP.encode() and len(corrections) == 2
    (call,) = [c for c in await world.store.tool_calls(session.session_id) if c.name == "render_preview"]
    assert (call.status, call.attempt) == ("succeeded", 1), "to ask is no attempt"


@pytest.mark.full
async def test_a_correction_in_a_file_that_nobody_named_waits_with_its_diff(world: SessionWorld) -> None:
    corrections: list[dict[str, Any]] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        if not request.get("errors"):
            return {**GOOD_FILES, "src/App.tsx": "import './nowhere';\n"}
        corrections.append(request)
        return {"src/App.tsx": APP, "src/secret.ts": "export {};\n"}

    rules = [{"decision": "ask", "path": "src/secret*"}]
    session = await executing(world, scripted_model(code), {"mode": "auto", "rules": rules})
    asked = await pending(world, session)
    assert asked.payload["name"] == "render_preview" and "+++ b/src/secret.ts" in str(asked.payload["shown"])
    assert "src/secret.ts" not in await files(world, session) and corrections[0]["targets"] == ["src/App.tsx"]
    await world.say(session, "approve", approvalId=asked.id)
    await world.until(session, "preview")
    assert "src/secret.ts" in await files(world, session) and len(corrections) == 1


@pytest.mark.full
async def test_what_was_agreed_to_is_written_though_the_fault_is_told_in_other_words_by_then(
    world: SessionWorld,
) -> None:
    corrections: list[dict[str, Any]] = []

    def code(request: dict[str, Any]) -> dict[str, str]:
        if not request.get("errors"):
            return {**GOOD_FILES, "src/App.tsx": "import './nowhere';\n"}
        corrections.append(request)
        return {"src/App.tsx": APP}

    rules = [{"decision": "ask", "tool": "generate_code", "arguments": {"task": "modify_existing"}}]
    session = await executing(world, scripted_model(code), {"mode": "auto", "rules": rules})
    asked = await pending(world, session)
    await session.project.use(lambda sandbox: sandbox.write_files({"src/App.tsx": b"\n\nimport './nobody';\n"}))
    await world.say(session, "approve", approvalId=asked.id)
    await world.until(session, "preview")
    assert (await files(world, session))["src/App.tsx"] == APP.encode() and len(corrections) == 1


async def test_a_correction_that_is_refused_is_not_written_and_the_agents_read_why(world: SessionWorld) -> None:
    heard: list[str] = []
    broken = {**GOOD_FILES, "src/App.tsx": "import './nowhere';\n"}

    def respond(request: dict[str, Any]) -> Answer:
        if request.get("tools") and (told := results(request, "render_preview")):
            heard.append(told[-1]["content"])
            return reply("They do not want it.")
        return scripted_model(lambda asked: {"src/App.tsx": APP} if asked.get("errors") else broken)(request)

    rules = [{"decision": "ask", "tool": "generate_code", "arguments": {"task": "modify_existing"}}]
    session = await executing(world, respond, {"mode": "auto", "rules": rules})
    asked = await pending(world, session)
    await world.say(session, "refuse", approvalId=asked.id, reason="I do it by hand")
    await world.until(session, "question")
    assert "REJECTED" in heard[0] and "wanted to do next; that was not done. I do it by hand" in heard[0]
    assert (await files(world, session))["src/App.tsx"] == broken["src/App.tsx"].encode()


@pytest.mark.full
async def test_a_later_correction_that_is_refused_names_what_an_earlier_one_changed(world: SessionWorld) -> None:
    heard: list[str] = []
    corrections = 0

    def code(request: dict[str, Any]) -> dict[str, str]:
        nonlocal corrections
        if not request.get("errors"):
            return {**GOOD_FILES, "src/App.tsx": "import './nowhere';\n"}
        corrections += 1
        return {"src/App.tsx": "import './elsewhere';\n"} if corrections == 1 else {"src/secret.ts": "export {};\n"}

    def respond(request: dict[str, Any]) -> Answer:
        if request.get("tools") and (told := results(request, "render_preview")):
            heard.append(told[-1]["content"])
            return reply("They do not want it.")
        return scripted_model(code)(request)

    session = await executing(world, respond, {"mode": "auto", "rules": [{"decision": "ask", "path": "src/secret*"}]})
    asked = await pending(world, session)
    assert "src/secret.ts" in str(asked.payload["shown"]) and "src/App.tsx" in str(asked.payload["done"])
    await world.say(session, "refuse", approvalId=asked.id, reason="I do it by hand")
    await world.until(session, "question")
    changed = "Changed meanwhile: src/App.tsx; read them before you go on."
    assert f"that was not done. {changed} I do it by hand" in heard[0]
    assert (await files(world, session))["src/App.tsx"] == b"import './elsewhere';\n"
