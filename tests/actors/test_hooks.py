"""Hooks that settings name, heard by all agents of a real session: in order, in time, by their policy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from koda_ray.agent.named_hooks import HookedSession, NamedHooks
from koda_ray.errors import InvalidInput
from tests.actors.conftest import SessionWorld
from tests.actors.script import scripted_model
from tests.actors.test_permissions import pending
from tests.actors.test_subagents import lists, reviewing, subagents

HOUSE = """
import asyncio, json
from koda_ray.agent import Hook, Stop, ToolOutcome

def watching(name, session):
    def heard(*what):
        with open({log!r}, "a") as log:
            log.write(json.dumps([name, session.session_id, session.user_id, *what]) + "\\n")

    async def before_model(request):
        heard("before_model", request.agent)

    async def after_model(request, completed):
        heard("after_model", request.agent)

    async def before_tool(call, given):
        heard("before_tool", call.agent, call.name)

    return Hook(name=name, before_model=before_model, after_model=after_model, before_tool=before_tool)

def both(session):
    return [watching("first", session), watching("second", session)]

async def broken(call, outcome):
    raise RuntimeError("out of order")

async def slow(request, completed):
    await asyncio.sleep(60)

async def no_renders(call, given):
    return Stop("no renders today") if call.name == "render_preview" else None

lame = (
    Hook(name="broken", after_tool=broken),
    Hook(name="slow", after_model=slow, timeout_s=0.01),
)
async def no_shadows(call, given):
    if "shadow" in str(given.get("description")):
        return ToolOutcome.failure("HOUSE", "no shadows in this house", retryable=False)

async def no_code(request, completed=None):
    return Stop("no code today") if request.agent == "code_generator" else None

before = Hook(name="before", before_model=no_code)
after = Hook(name="after", after_model=no_code)
guard = Hook(name="guard", before_tool=no_renders)
shades = Hook(name="shades", before_tool=no_shadows)
nothing = 7

def fails(session):
    raise KeyError(session.user_id)

def forgets(session):
    pass
"""


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of hooks on the path; where it writes what it hears."""
    log = tmp_path / "heard.jsonl"
    (tmp_path / "house_hooks.py").write_text(HOUSE.replace("{log!r}", repr(str(log))))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "house_hooks", raising=False)
    return log


@pytest.mark.sandbox
@pytest.mark.full
async def test_every_agent_of_a_session_is_hooked_by_setting(world: SessionWorld, heard: Path) -> None:
    names = "house_hooks:both, house_hooks:lame,house_hooks:guard"
    session = await world.activate(await world.row(), world.model(reviewing(lists)), hooks=names)
    await world.until(session, "plan")
    await world.say(session, "accept")
    failed = await world.until(session, "error")
    assert failed.error is not None and failed.error.code == "AGENT_STOPPED"
    assert "no renders today" in failed.error.message
    calls = await world.store.tool_calls(session.session_id)
    assert "render_preview" not in {call.name for call in calls}, "what a hook stops has not begun"

    said = [json.loads(line) for line in heard.read_text().splitlines()]
    assert {tuple(each[1:3]) for each in said} == {(session.session_id, "local")}
    (reviewer,) = await subagents(world, session)
    assert {each[4] for each in said if each[3] == "before_model"} == {"orchestrator", "code_generator", reviewer.id}
    for agent in ("orchestrator", "code_generator", reviewer.id):
        own = [each for each in said if each[4] == agent]
        assert [each[0] for each in own] == ["first", "second"] * (len(own) // 2)
        assert [each[3:] for each in own[::2]] == [each[3:] for each in own[1::2]]
    called = {each[5] for each in said if each[3] == "before_tool"}
    assert {"generate_code", "set_todos", "sandbox_list_files"} <= called

    troubles = await world.events(session, "hook_failed")
    assert {(each["hook"], each["place"], each["then"]) for each in troubles} == {
        ("broken", "after_tool", "ignore"),
        ("slow", "after_model", "ignore"),
    }
    assert any("RuntimeError: out of order" in str(each["message"]) for each in troubles)
    assert any("longer than 0.01 s" in str(each["message"]) for each in troubles)


@pytest.mark.sandbox
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.full
async def test_a_stop_at_the_code_generator_ends_the_run_and_what_was_answered_is_paid_for(
    world: SessionWorld, heard: Path, place: str
) -> None:
    session = await world.activate(await world.row(), world.model(scripted_model()), hooks=f"house_hooks:{place}")
    await world.until(session, "plan")
    await world.say(session, "accept")
    failed = await world.until(session, "error")
    assert failed.error is not None and failed.error.code == "AGENT_STOPPED"
    assert "no code today" in failed.error.message
    (call,) = [each for each in await world.store.tool_calls(session.session_id) if each.name == "generate_code"]
    assert call.status == "failed" and "HOOK_STOPPED" in json.dumps(call.result)
    paid = [each for each in await world.store.charges(session.session_id) if each.agent == "code_generator"]
    assert [each.status for each in paid] == (["settled"] if place == "after" else [])


@pytest.mark.sandbox
async def test_what_a_person_changes_does_not_get_around_the_hooks_of_a_deployment(
    world: SessionWorld, heard: Path
) -> None:
    row = await world.row(permissions={"mode": "ask", "rules": []})
    session = await world.activate(row, world.model(scripted_model()), hooks="house_hooks:shades")
    await world.until(session, "plan")
    await world.say(session, "accept")
    asked = await pending(world, session)
    changed = {"task": "initial_setup", "description": "with a shadow"}
    with pytest.raises(InvalidInput, match="no shadows in this house"):
        await world.say(session, "approve", approvalId=asked.id, arguments=changed)
    assert session.state.approval is not None
    await world.say(session, "approve", approvalId=asked.id, arguments={**changed, "description": "plain"})
    await world.say(session, "approve", approvalId=(await pending(world, session)).id)
    await world.event(session, "file_written")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("house_hooks", "package.module:name"),
        ("no_such_module:hooks", "cannot be imported .ModuleNotFoundError"),
        ("house_hooks:missing", "cannot be imported .AttributeError"),
        ("house_hooks:nothing", "gives 7"),
    ],
)
def test_a_name_that_stands_for_no_hook_is_refused_at_start(heard: Path, name: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        NamedHooks([name])


@pytest.mark.parametrize(("name", "why"), [("fails", "failed with KeyError: 'ann'"), ("forgets", "gives None")])
def test_a_function_that_makes_no_hook_says_so(heard: Path, name: str, why: str) -> None:
    found = NamedHooks([f"house_hooks:{name}"])
    with pytest.raises(InvalidInput, match=why):
        found.of(HookedSession(session_id="ses_1", user_id="ann", project_id="prj_1"))
