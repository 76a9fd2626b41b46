"""What waits for a person: across restarts, with changed arguments, refused; what is stored of it, and who hears."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, SecretStr

from koda_ray.agent import Agent, Runtime, tool
from koda_ray.agent.hooks import Hook, Stop
from koda_ray.agent.permissions import Permissions, Rule
from koda_ray.agent.spec import Policy
from koda_ray.agent.toolkit import Agreement, Tool, ToolCall, ToolOutcome
from koda_ray.errors import Cancelled, InvalidInput, InvalidTransition, NotFound
from koda_ray.llm.anthropic import AnthropicProvider
from tests.agent.test_permissions import push, read
from tests.llm.server import Call, ModelServer, ScriptedModel, call, reply, results


class World:
    """Files, and a tool that shows what it would change."""

    def __init__(self) -> None:
        self.files = {"a.txt": "old\n"}
        self.writes: list[tuple[str, str]] = []

    @property
    def tools(self) -> list[Tool]:
        async def shown(given: Any, call: ToolCall) -> str:
            before = self.files[given.path].splitlines(keepends=True)
            return "".join(unified_diff(before, given.text.splitlines(keepends=True), given.path, given.path))

        def put(path: str, text: str) -> str:
            """Write a file."""
            self.files[path] = text
            self.writes.append((path, text))
            return "written"

        made = tool(put)
        return [Tool(**{**{name: getattr(made, name) for name in made.__dataclass_fields__}, "preview": shown}), read]


@asynccontextmanager
async def agent(path: Path, world: World, *steps: Any, **policy: Any) -> AsyncIterator[Agent]:
    with ModelServer(ScriptedModel(steps)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        async with Agent(
            "ann", world.tools, runtime=Runtime(provider=provider, store=path), policy=Policy(**policy)
        ) as opened:
            yield opened
        await provider.close()


PUT = call("put", {"path": "a.txt", "text": "new\n"})
ASK = Permissions(mode="ask")


async def test_it_waits_with_a_diff_and_runs_what_was_approved_once(tmp_path: Path) -> None:
    world, path = World(), tmp_path / "a.db"
    async with agent(path, world, PUT, permissions=ASK) as ann:
        asked = await ann.run("Make it new.")
        assert asked.kind == "suspended" and asked.suspended_call_id is not None and world.writes == []
        (approval,) = await ann.approvals()
        assert approval.payload["proposed"] == {"path": "a.txt", "text": "new\n"}
        assert "-old\n+new\n" in str(approval.payload["shown"])
    async with agent(path, world, reply("Done."), permissions=ASK) as ann:  # another program, later
        again = await ann.run()
        assert (again.kind, again.suspended_call_id, world.writes) == ("suspended", asked.suspended_call_id, [])
        assert (await ann.approve(asked.suspended_call_id)).text == "Done."
        assert world.writes == [("a.txt", "new\n")]
        (row,) = await ann.calls()
        assert (row.status, row.attempt) == ("succeeded", 1)
        assert await ann.approvals() == []
        (approval,) = await ann.approvals(pending=False)
        assert approval.status == "approved" and approval.answer == {"approved": row.input, "edited": False}
        kinds = [event.type for event in await ann.runtime.store.events(ann.id)]
        assert kinds.index("approval_requested") < kinds.index("approval_resolved") < kinds.index("tool_start")


async def test_a_person_changes_what_runs_and_all_three_are_kept(tmp_path: Path) -> None:
    def told(request: Any) -> Any:
        assert "input of this call was changed" in results(request)[-1]["content"]
        return reply("As you wish.")

    world = World()
    async with agent(tmp_path / "a.db", world, PUT, told, permissions=ASK) as ann:
        asked = (await ann.run("Make it new.")).suspended_call_id or ""
        with pytest.raises(InvalidInput, match="text"):
            await ann.approve(asked, {"path": "a.txt"})
        assert (await ann.approve(asked, {"path": "a.txt", "text": "newer\n"})).text == "As you wish."
        assert world.writes == [("a.txt", "newer\n")]
        (row,), (approval,) = await ann.calls(), await ann.approvals(pending=False)
        message = (await ann.messages())[1]
        assert json.loads(json.dumps(message.content))[0]["input"]["text"] == "new\n"
        assert approval.payload["proposed"] == {"path": "a.txt", "text": "new\n"}
        assert approval.answer == {"approved": {"path": "a.txt", "text": "newer\n"}, "edited": True}
        assert row.input == {"path": "a.txt", "text": "newer\n"}


async def test_what_a_person_changes_it_to_is_held_to_the_rules_and_it_waits_on(tmp_path: Path) -> None:
    world = World()
    rules = Permissions(mode="ask", rules=[Rule(decision="deny", tool="put", path="*.env")])
    async with agent(tmp_path / "a.db", world, PUT, reply("Done."), permissions=rules) as ann:
        asked = (await ann.run("Make it new.")).suspended_call_id or ""
        with pytest.raises(InvalidInput, match=r"input of put .* \(deny tool='put' path='\*\.env'\); change it"):
            await ann.approve(asked, {"path": "a/../.env", "text": "new\n"})
        assert world.writes == []
        (row,), (approval,) = await ann.calls(), await ann.approvals()
        assert (row.status, approval.status) == ("waiting", "pending")
        assert (await ann.approve(asked, {"path": "b.txt", "text": "new\n"})).text == "Done."
        assert world.writes == [("b.txt", "new\n")]


async def test_what_was_forbidden_since_it_was_asked_for_does_not_begin(tmp_path: Path) -> None:
    world, path = World(), tmp_path / "a.db"
    forbidden = Permissions(mode="ask", rules=[Rule(decision="deny", tool="put")])
    async with agent(path, world, PUT, permissions=ASK) as ann:
        asked = (await ann.run("Make it new.")).suspended_call_id or ""
    async with agent(path, world, permissions=forbidden) as ann:
        with pytest.raises(InvalidInput, match=r"input of put is not allowed: a rule forbids it"):
            await ann.approve(asked)
        assert [row.status for row in await ann.calls()] == ["waiting"]
    async with agent(path, world, permissions=ASK) as ann:  # agreed to, and killed before it began
        await ann._now_open[1].approve(asked)
        assert [row.status for row in await ann.calls()] == ["approved"]

    def told(request: Any) -> Any:
        (found,) = results(request)
        assert found["is_error"] and "NOT_ALLOWED" in found["content"]
        return reply("Then not.")

    async with agent(path, world, told, permissions=forbidden) as ann:
        assert (await ann.run()).text == "Then not." and world.writes == []
        (row,) = await ann.calls()
        assert (row.status, row.effect, row.attempt) == ("failed", "unsafe", 0)


async def test_a_refusal_is_told_with_its_reason_and_runs_nothing(tmp_path: Path) -> None:
    def told(request: Any) -> Any:
        (found,) = results(request)
        assert found["is_error"] and "not today" in found["content"] and "REJECTED" in found["content"]
        return reply("Then not.")

    world = World()
    async with agent(tmp_path / "a.db", world, PUT, told, permissions=ASK) as ann:
        asked = (await ann.run("Make it new.")).suspended_call_id or ""
        assert (await ann.reject(asked, "not today")).text == "Then not."
        assert world.writes == []
        (approval,) = await ann.approvals(pending=False)
        assert (approval.status, approval.answer) == ("rejected", {"reason": "not today"})
        assert (await ann.approve(asked)).text == "Then not."  # decided already: nothing changes
        assert world.writes == []


async def test_what_is_not_allowed_is_answered_without_asking(tmp_path: Path) -> None:
    def told(request: Any) -> Any:
        looked, put = results(request)
        assert looked["content"] == "old\n" and "NOT_ALLOWED" in put["content"]
        return reply("I may not.")

    world = World()
    both = reply(Call("read", {"path": "a.txt"}), Call("put", {"path": "a.txt", "text": "new\n"}))
    async with agent(tmp_path / "a.db", world, both, told, permissions=Permissions(mode="readonly")) as ann:
        assert (await ann.run("Make it new.")).text == "I may not."
        assert world.writes == []


@tool(effect="idempotent")
async def tidy(call: ToolCall) -> ToolOutcome:
    """Tidy up, and ask before each thing that is thrown away."""
    kept.append((call.agreed, call.attempt))
    for thing in ("paper", "glass"):
        if thing in thrown:
            continue
        if call.agreed != thing:
            done = f"Gone: {thrown[0]}." if thrown else ""
            asks = Agreement(key=thing, reason="it is thrown away", shown=f"-{thing}", done=done)
            return ToolOutcome(content="", wants=asks)
        thrown.append(thing)
        if thing in fatal:
            fatal.remove(thing)
            raise asyncio.CancelledError
    return ToolOutcome(content="tidy")


kept: list[tuple[str, int]] = []
thrown: list[str] = []
fatal: list[str] = []


async def test_a_call_that_has_begun_asks_before_it_goes_on_and_is_told_what_was_agreed_to(tmp_path: Path) -> None:
    kept.clear(), thrown.clear()
    fatal[:] = ["glass"]
    with ModelServer(ScriptedModel([call("tidy", {}), reply("Done.")])) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        runtime = Runtime(provider=provider, store=tmp_path / "a.db")
        async with Agent("ann", [tidy], runtime=runtime) as ann:
            asked = await ann.run("Tidy up.")
            (first,) = await ann.approvals()
            assert asked.suspended_call_id == first.call_id and thrown == []
            assert (first.payload["key"], first.payload["shown"]) == ("paper", "-paper")
        async with Agent("ann", [tidy], runtime=runtime) as ann:  # another program, later
            assert (await ann.approve(first.call_id or "")).kind == "suspended"
            (second,) = await ann.approvals()
            assert second.call_id == first.call_id and thrown == ["paper"]
            with pytest.raises(Cancelled):
                await ann.approve(second.call_id or "")
        async with Agent(
            "ann", [tidy], runtime=runtime
        ) as ann:  # cut off when it had done it: what was agreed to is known
            assert (await ann.run()).text == "Done." and thrown == ["paper", "glass"]
            assert kept == [("", 1), ("paper", 1), ("glass", 1), ("glass", 2)]
            assert [row.status for row in await ann.approvals(pending=False)] == ["approved", "approved"]
        await provider.close()


async def test_a_call_that_has_begun_and_is_refused_goes_no_further(tmp_path: Path) -> None:
    def told(request: Any) -> Any:
        (found,) = results(request)
        assert found["is_error"] and "wanted to do next; that was not done. Keep it." in found["content"]
        return reply("Then not.")

    thrown.clear()
    with ModelServer(ScriptedModel([call("tidy", {}), told])) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        async with Agent("ann", [tidy], runtime=Runtime(provider=provider, store=tmp_path / "a.db")) as ann:
            asked = (await ann.run("Tidy up.")).suspended_call_id or ""
            assert (await ann.reject(asked, "Keep it.")).text == "Then not." and thrown == []
        await provider.close()


async def test_a_call_that_is_refused_in_its_middle_tells_what_it_had_done(tmp_path: Path) -> None:
    def told(request: Any) -> Any:
        found = results(request)[-1]
        assert found["is_error"] and "that was not done. Gone: paper. Keep it." in found["content"]
        return reply("Then not.")

    def stopped(request: Any) -> Any:
        assert "done part of its work. Gone: paper." in results(request)[-1]["content"]
        return reply("Then nothing.")

    with ModelServer(ScriptedModel([call("tidy", {}), told, call("tidy", {}), stopped])) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        async with Agent("ann", [tidy], runtime=Runtime(provider=provider, store=tmp_path / "a.db")) as ann:
            for answer in ("Keep it.", None):
                thrown.clear()
                first = (await ann.run("Tidy up.")).suspended_call_id or ""
                second = (await ann.approve(first)).suspended_call_id or ""
                (asked,) = await ann.approvals()
                assert second == first and asked.payload["done"] == "Gone: paper."
                if answer is not None:
                    assert (await ann.reject(second, answer)).text == "Then not."
                else:
                    await ann.cancel()
                    assert (await ann.run("Leave it.")).text == "Then nothing."
                assert thrown == ["paper"]
        await provider.close()


async def test_only_what_waits_for_agreement_can_be_agreed_to(tmp_path: Path) -> None:
    world = World()
    async with agent(tmp_path / "a.db", world, PUT, reply("Fine."), permissions=ASK) as ann:
        with pytest.raises(NotFound):
            await ann.approve("cal_none")
        asked = (await ann.run("Make it new.")).suspended_call_id or ""
        assert (await ann.answer(asked, "I wrote it myself.")).text == "Fine."
        assert world.writes == []
        assert [one.status for one in await ann.approvals(pending=False)] == ["superseded"]


async def test_a_question_is_answered_not_agreed_to(tmp_path: Path) -> None:
    @tool
    def ask(question: str) -> ToolOutcome:
        """Ask."""
        return ToolOutcome(content="", suspend=True)

    with ModelServer(ScriptedModel([call("ask", {"question": "Which?"})])) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        async with Agent("ann", [ask], runtime=Runtime(provider=provider, store=tmp_path / "a.db")) as ann:
            asked = (await ann.run("Go.")).suspended_call_id or ""
            with pytest.raises(InvalidTransition, match="waits for an answer"):
                await ann.approve(asked)
        await provider.close()


# --- what is stored, and what is heard ----------------------------------------------------------------------------


@asynccontextmanager
async def worker(path: Path, *steps: Any, tools: list[Tool], **policy: Any) -> AsyncIterator[Agent]:
    with ModelServer(ScriptedModel(steps)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        async with Agent(
            "ann", tools, runtime=Runtime(provider=provider, store=path), policy=Policy(**policy)
        ) as opened:
            yield opened
        await provider.close()


async def test_what_the_tool_gets_is_written_down_and_the_words_of_the_model_stay(tmp_path: Path) -> None:
    def told(request: Any) -> Any:
        assert [found["content"] for found in results(request)] == ["pushed"]  # nobody changed anything
        return reply("Done.")

    effective = {"branch": "main", "force": True, "amount": 0.0}
    sent = call("push", {"force": "yes"})
    async with worker(tmp_path / "a.db", sent, told, tools=[push], permissions=ASK) as ann:
        asked = (await ann.run("Push.")).suspended_call_id or ""
        (row,), (approval,) = await ann.calls(), await ann.approvals()
        assert (row.input, approval.payload["proposed"]) == (effective, {"force": "yes"})
        assert (await ann.approve(asked, {"branch": "main", "force": True})).text == "Done."  # says the same in full
        (row,), (approval,) = await ann.calls(), await ann.approvals(pending=False)
        assert row.input == effective
        assert approval.answer == {"approved": {"branch": "main", "force": True}, "edited": False}
        assert json.loads(json.dumps((await ann.messages())[1].content))[0]["input"] == {"force": "yes"}


async def test_what_a_person_leaves_out_is_held_to_the_rules_as_the_tool_gets_it(tmp_path: Path) -> None:
    rules = Permissions(mode="ask", rules=[Rule(decision="deny", arguments={"branch": "main"})])
    async with worker(tmp_path / "a.db", call("push", {"branch": "dev"}), tools=[push], permissions=rules) as ann:
        asked = (await ann.run("Push.")).suspended_call_id or ""
        with pytest.raises(InvalidInput, match="is not allowed: a rule forbids it"):
            await ann.approve(asked, {"force": True})
        assert [row.status for row in await ann.calls()] == ["waiting"]


async def test_an_input_that_cannot_be_written_and_read_back_is_kept_as_it_was_sent(tmp_path: Path) -> None:
    used: list[str] = []

    @tool
    def enter(password: SecretStr, door: Annotated[str, Field(alias="into")] = "front") -> str:
        """Enter."""
        used.append(password.get_secret_value())
        return "in"

    steps = (call("enter", {"password": "abc"}), reply("Done."))
    async with worker(tmp_path / "a.db", *steps, tools=[enter], permissions=ASK) as ann:
        asked = (await ann.run("Enter.")).suspended_call_id or ""
        assert (await ann.approve(asked)).text == "Done." and used == ["abc"]
        assert [row.input for row in await ann.calls()] == [{"password": "abc"}]


async def test_hooks_hear_the_input_as_the_tool_gets_it(tmp_path: Path) -> None:
    said: list[dict[str, Any]] = []

    async def look(call: ToolCall, given: dict[str, Any]) -> None:
        said.append(given)

    steps = (call("push", {"force": 1}), reply("Done."))
    async with worker(tmp_path / "a.db", *steps, tools=[push], hooks=[Hook(name="l", before_tool=look)]) as ann:
        assert (await ann.run("Push.")).text == "Done."
        assert said == [{"branch": "main", "force": True, "amount": 0.0}]


async def _guard(call: ToolCall, given: dict[str, Any]) -> ToolOutcome | Stop | dict[str, Any] | None:
    heard.append(given["path"])
    if given["path"].startswith("/stop"):
        return Stop("enough")
    if given["path"].startswith("/"):
        return ToolOutcome.failure("GUARD", "outside of the house", retryable=False)
    return {**given, "path": "b.txt"} if given["path"] == "B.TXT" else None


heard: list[str] = []
GUARD = Hook(name="guard", before_tool=_guard)


async def test_hooks_hear_what_a_person_changed_before_it_runs_and_it_waits_on(tmp_path: Path) -> None:
    heard.clear()
    world = World()
    async with agent(tmp_path / "a.db", world, PUT, reply("Done."), permissions=ASK, hooks=[GUARD]) as ann:
        asked = (await ann.run("Make it new.")).suspended_call_id or ""
        for bad, says in (("/etc", "outside of the house"), ("/stop", "enough")):
            with pytest.raises(InvalidInput, match=f"a hook does not let put run with this input: .*{says}"):
                await ann.approve(asked, {"path": bad, "text": "new\n"})
        assert world.writes == [] and [row.status for row in await ann.calls()] == ["waiting"]
        assert (await ann.approve(asked, {"path": "B.TXT", "text": "new\n"})).text == "Done."
        assert world.writes == [("b.txt", "new\n")]  # what the hook made of it
        assert heard == ["a.txt", "/etc", "/stop", "B.TXT"]  # each once


async def test_hooks_that_were_not_there_when_a_person_changed_it_hear_of_it_before_it_runs(tmp_path: Path) -> None:
    def told(request: Any) -> Any:
        (found,) = results(request)
        assert found["is_error"] and "outside of the house" in found["content"]
        return reply("Then not.")

    heard.clear()
    world, path = World(), tmp_path / "a.db"
    async with agent(path, world, PUT, permissions=ASK, hooks=[GUARD]) as ann:
        asked = (await ann.run("Make it new.")).suspended_call_id or ""
    async with agent(path, world, permissions=ASK) as ann:  # a program without them
        await ann._now_open[1].approve(asked, {"path": "/etc", "text": "new\n"})
    async with agent(path, world, told, permissions=ASK, hooks=[GUARD]) as ann:
        assert (await ann.run()).text == "Then not." and world.writes == []
        assert heard == ["a.txt", "/etc"]
        (row,) = await ann.calls()
        assert (row.status, row.input) == ("failed", {"path": "/etc", "text": "new\n"})


async def test_permissions_change_while_it_lives_and_that_is_kept(tmp_path: Path) -> None:
    def refused(request: Any) -> Any:
        assert "before the plan is agreed" in results(request)[-1]["content"]
        return reply("I would write a.txt.")

    world, path = World(), tmp_path / "a.db"
    plan = Permissions(mode="plan", rules=[Rule(decision="deny", path="*.env")])
    agreed = replace(plan, mode="auto")
    async with agent(path, world, PUT, refused, PUT, reply("Done."), permissions=plan) as ann:
        assert (await ann.run("Make it new.")).text == "I would write a.txt." and world.writes == []
        await ann.permit(ASK)
        await ann.permit(agreed)
        assert (await ann.run("Do it.")).text == "Done." and len(world.writes) == 1
    async with agent(path, world, PUT, reply("Done."), permissions=plan) as ann:  # another program, later
        assert (await ann.run("Again.")).text == "Done." and len(world.writes) == 2
    async with agent(path, world, PUT, permissions=ASK) as ann:  # a program that says something else by now
        assert (await ann.run("Again.")).kind == "suspended" and len(world.writes) == 2
