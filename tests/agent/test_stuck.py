"""Circles that an agent goes in, and what only looks like one."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from koda_ray.agent import Agent, Runtime
from koda_ray.agent.ledger import interrupted_content
from koda_ray.agent.limits import Limits, LoopOutcome
from koda_ray.agent.loop import AgentLoop
from koda_ray.agent.own_words import CUT_OFF, EMPTY, REPORTS, reminder
from koda_ray.agent.spec import ModelAccess, Policy, Prompt
from koda_ray.agent.stuck import StuckLimits, going_in_circles, last_said
from koda_ray.agent.toolkit import Tool, ToolCall, Toolkit, ToolOutcome
from koda_ray.events import Envelope
from koda_ray.llm.base import Message
from koda_ray.state.records import MessageRecord, SideEffect
from koda_ray.types import now
from tests.agent.children import run_module
from tests.agent.journals import ME, Disk, MemoryJournal
from tests.agent.lives import store_at
from tests.agent.scripted import Provider, calls, says
from tests.agent.stuck_victim import ANSWER

_EFFECTS: dict[str, SideEffect] = {"look": "pure", "write": "idempotent", "run": "unsafe"}
_NUMBERS = itertools.count()


def changes(name: str, given: object) -> bool:
    return _EFFECTS.get(name, "pure") != "pure"


def step(name: str, what: str = "a", result: str = "ok", *, fails: bool = False) -> list[Message]:
    call_id = f"c{next(_NUMBERS)}"
    used: Any = {"type": "tool_use", "id": call_id, "name": name, "input": {"what": what}}
    given: Any = {"type": "tool_result", "tool_use_id": call_id, "content": result, "is_error": fails}
    return [Message(role="assistant", content=(used,)), Message(role="user", content=(given,))]


def said(text: str) -> list[Message]:
    return [Message(role="user", content=({"type": "text", "text": text},))]


def circle(*parts: list[Message]) -> str | None:
    return going_in_circles([message for part in parts for message in part], changes)


def test_a_call_whose_process_was_killed_did_not_fail_but_not_for_ever() -> None:
    def killed() -> list[Message]:
        return step("run", result=interrupted_content("run", None), fails=True)

    assert circle(*(killed() for _ in range(7))) is None
    assert "run failed 3 times" in str(circle(killed(), *(step("run", fails=True) for _ in range(3))))
    looks = [step("look", str(n), "bad", fails=True) for n in range(9)]
    assert "the last 10 calls all failed" in str(circle(*looks, killed()))
    assert circle(*(killed() for _ in range(8))) is not None


def test_one_call_with_one_result_again_and_again() -> None:
    looks = [step("look") for _ in range(8)]
    assert circle(*looks[:7]) is None
    found = circle(*looks)
    assert found is not None and "look was called 8 times" in found
    assert "write was called 8 times" in str(circle(*(step("write") for _ in range(8))))


def test_waiting_for_something_that_moves_is_none() -> None:
    assert circle(*(step("look", result=f"{done} %") for done in range(30))) is None
    assert circle(*(step("look", what=str(page)) for page in range(30))) is None


def test_to_and_fro_is_a_circle_also_where_each_step_says_something_new() -> None:
    steps = [step(name, result=f"step {n}") for n in range(20) for name in ("look", "run")]
    assert circle(*steps[1:]) is None
    assert "look, run were made 20 times in a row" in str(circle(*steps))
    assert circle(*steps[:20], step("look", "b"), *steps[20:]) is None


@pytest.mark.parametrize("length", [2, 3, 4])
def test_rounds_of_calls_that_change_nothing_any_more(length: int) -> None:
    round_ = [("write", "a"), ("look", "b"), ("run", "c"), ("look", "d")][:length]
    steps = [step(name, what) for _ in range(4) for name, what in round_]
    assert circle(*steps[:-1]) is None
    found = circle(*steps)
    assert found is not None and "4 times in a row" in found and "write, look" in found
    assert circle(*steps[:-1], step("look", "new")) is None


def test_one_error_after_another_whatever_the_calls() -> None:
    errors = [step("run", what=str(number), result=f"error {number}", fails=True) for number in range(10)]
    assert circle(*errors[:9]) is None
    found = circle(*errors)
    assert found is not None and "last 10 calls all failed" in found and "error 9" in found
    assert circle(*errors[:9], step("look"), *errors[:9]) is None


def test_the_same_failure_unless_something_changed_in_between() -> None:
    fails = step("run", fails=True, result="no disk")
    assert "run failed 3 times" in str(circle(fails, fails, fails))
    assert circle(fails, fails, step("write"), fails, fails) is None
    assert "no disk" in str(circle(fails, step("look"), fails, step("look"), fails))


def test_what_a_person_says_begins_anew_and_the_loops_own_words_do_not() -> None:
    fails = step("run", fails=True)
    assert circle(fails, fails, said("try again"), fails, fails) is None
    for words in (CUT_OFF, EMPTY, f"{REPORTS}\n\nIt is done.", reminder("The preview is still missing.")):
        assert "run failed 3 times" in str(circle(fails, fails, said(words), fails)), words


def test_answers_without_words_and_calls() -> None:
    empty = [Message(role="assistant", content=()), *said(EMPTY)]
    assert circle(empty, empty) is None
    assert circle(empty, empty, empty) == "3 answers in a row were empty"
    assert circle(empty, empty, step("look"), empty) is None
    assert circle(empty, empty, said("hello?"), empty) is None
    fails = step("run", fails=True)
    assert "run failed 3 times" in str(circle(fails, empty, fails, empty, fails)), "an empty answer changes nothing"


@given(st.lists(st.sampled_from(["look", "write", "run"]), max_size=60))
def test_new_input_each_time_is_never_a_circle(names: list[str]) -> None:
    steps = [step(name, what=str(number)) for number, name in enumerate(names)]
    history = [message for part in steps for message in part]
    assert going_in_circles(history, changes, StuckLimits(same=2, rounds=2)) is None


@given(st.lists(st.sampled_from(["look", "fails", "said", "empty", "between"]), max_size=40))
def test_what_came_before_a_persons_last_words_makes_no_circle(kinds: list[str]) -> None:
    parts = {
        "look": lambda: step("look"),
        "fails": lambda: step("run", fails=True),
        "said": lambda: said("hello?"),
        "empty": lambda: [Message(role="assistant", content=()), *said(EMPTY)],
        "between": lambda: [(one := step("run", fails=True))[0], *said("now"), one[1]],
    }
    history = [message for kind in kinds for message in parts[kind]()]
    rows = [
        MessageRecord(
            id=f"m{n}", session_id="s", user_id="u", agent="a", position=n, role=message.role,
            content=cast("Any", list(message.content)), created_at=now(),
        )
        for n, message in enumerate(history)
    ]  # fmt: skip
    since = history[last_said(rows) :]
    few = StuckLimits(failures=2, same=3, rounds=2, errors=3, empty=2, todos=5)
    for todo in ("", "Scene 2"):
        assert going_in_circles(since, changes, few, todo=todo) == going_in_circles(history, changes, few, todo=todo)


def test_calls_that_bring_nothing_on_the_list_forward() -> None:
    def idle(*parts: list[Message], todo: str = "Scene 2") -> str | None:
        history = [message for part in parts for message in part]
        return going_in_circles(history, changes, StuckLimits(todos=12), tracks=lambda name: name == "todo", todo=todo)

    looks = [step("look", what=str(page)) for page in range(12)]
    assert idle(*looks[:11]) is None
    found = idle(*looks)
    assert found == "12 calls brought no progress on 'Scene 2'"
    assert idle(*looks, todo="") is None  # nothing is open, or there is no list
    assert idle(*looks, step("todo", "scene-1 done")) is None
    assert idle(step("todo", "scene-1 done"), *looks) is not None
    assert idle(step("todo", "scene-1 done"), *looks, step("todo", "scene-1 done")) is not None  # it was there before
    assert idle(*looks, step("todo", "scene-9 done", fails=True)) is not None
    assert idle(*looks, said("go on")) is None


async def test_an_agent_whose_list_does_not_move_stops_and_says_what_is_open() -> None:
    class Page(BaseModel):
        what: str

    async def look(given: Page, call: ToolCall) -> ToolOutcome:
        return ToolOutcome(content=f"page {given.what}")

    pages = itertools.count()
    provider = Provider(lambda _: [calls("look", {"what": str(next(pages))})])
    loop = AgentLoop(
        ME,
        access=ModelAccess(provider=provider, model="m", prompt=Prompt(todo=lambda: "Scene 2")),
        toolkit=Toolkit([Tool(name="look", description="Look.", input_model=Page, effect="pure", run=look)]),
        journal=MemoryJournal(Disk()),
        policy=Policy(limits=Limits(stuck=StuckLimits(todos=6))),
    )
    await loop.add_user("Go")
    outcome = await loop.run()
    assert (outcome.kind, outcome.text) == ("stuck", "6 calls brought no progress on 'Scene 2'")
    assert len(provider.requests) == 6


class Door(BaseModel):
    what: str


async def shut(given: Door, call: ToolCall) -> ToolOutcome:
    return ToolOutcome.failure("SHUT", f"nobody opens {given.what}")


KNOCK = Tool(name="knock", description="Knock.", input_model=Door, effect="pure", run=shut)


def door(model: Any, path: Path, tools: Sequence[Tool] = (KNOCK,)) -> tuple[Agent, Provider]:
    provider = Provider(model)
    return Agent("ann", tools, runtime=Runtime(provider=provider, store=path), model="m"), provider


async def test_an_agent_that_is_stuck_asks_once_and_waits_through_restarts_for_words(tmp_path: Path) -> None:
    again, provider = door(lambda _: [calls("knock", {"what": "a"})], tmp_path / "agents.db")
    async with again as ann:
        stuck = await ann.run("Go.")
        assert stuck.kind == "stuck" and "knock failed 3 times" in stuck.text
        (asked,) = await ann.approvals()
        assert (asked.kind, asked.payload) == ("question", {"reason": "stuck", "text": stuck.text})
    for _ in range(3):
        again, provider = door([], tmp_path / "agents.db")
        async with again as ann:
            assert not await ann.owes()
            assert await ann.run() == stuck
            assert await ann.approvals() == [asked] and provider.requests == []
    again, provider = door([[calls("knock", {"what": "a"})], [says("Done.")]], tmp_path / "agents.db")
    async with again as ann:
        assert (await ann.run("Knock once more.")).text == "Done."
        (answered,) = await ann.approvals(pending=False)
        assert (answered.id, answered.status, answered.answer) == (asked.id, "approved", {"text": "Knock once more."})
        events = [event async for event in _events(ann) if event.type.startswith("approval")]
        assert [event.type for event in events] == ["approval_requested", "approval_resolved"]
        assert {event.data["approvalId"] for event in events} == {asked.id}


async def test_an_agent_at_the_limit_of_a_run_asks_too_and_owes_nothing(tmp_path: Path) -> None:
    numbers = itertools.count()
    provider = Provider(lambda _: [calls("knock", {"what": str(next(numbers))})])
    limits = Limits(turns=3)
    async with Agent(
        "ann",
        (KNOCK,),
        runtime=Runtime(provider=provider, store=tmp_path / "a.db"),
        model="m",
        policy=Policy(limits=limits),
    ) as ann:
        over = await ann.run("Go.")
        assert over.kind == "limit" and len(provider.requests) == 3
        (asked,) = await ann.approvals()
        assert asked.payload == {"reason": "stuck", "text": over.text} and not await ann.owes()
        assert (await ann.run()).text == over.text and len(provider.requests) == 3
        assert (await ann.run("Go on.")).kind == "limit" and len(provider.requests) == 6


async def _events(agent: Agent) -> AsyncIterator[Envelope]:
    newest = (await agent.runtime.store.get_session(agent.id)).seq
    async for event in agent.events():
        yield event
        if event.seq == newest:
            break


async def test_empty_answers_end_in_a_question_too(tmp_path: Path) -> None:
    silent, provider = door(lambda _: [], tmp_path / "agents.db", [])
    async with silent as ann:
        outcome = await ann.run("Go.")
        assert (outcome.kind, outcome.text) == ("stuck", "3 answers in a row were empty")
        assert len(provider.requests) == 3 and len(await ann.approvals()) == 1
        await ann.cancel()
        assert await ann.approvals() == [], "whoever cancels is not asked any more"


async def test_words_said_while_it_finds_out_that_it_is_stuck_are_the_answer(tmp_path: Path) -> None:
    spoken = False

    def model(request: Any) -> Any:
        return [says("Done.")] if spoken else [calls("knock", {"what": "a"})]

    agent, _ = door(model, tmp_path / "agents.db")
    async with agent as ann:
        run = ann._run

        async def interrupted() -> LoopOutcome:
            nonlocal spoken
            outcome = await run()
            if not spoken:
                spoken = True
                await ann.say("Leave it.")
            return outcome

        ann._run = interrupted  # type: ignore[method-assign]
        assert (await ann.run("Go.")).text == "Done."
        assert await ann.approvals(pending=False) == []


@pytest.mark.full
async def test_killed_at_every_instant_it_asks_once_and_pays_for_no_second_round(tmp_path: Path) -> None:
    url = str(tmp_path / "agents.db")
    instants = int((await run_module("tests.agent.stuck_victim", url)).split()[-1])
    assert instants > 20
    store = store_at(url)
    await store.open()
    sessions = await store.list_sessions("local", limit=200)
    assert len(sessions) == instants
    for session in sessions:
        answers = [message for message in await store.messages(session.id) if message.role == "assistant"]
        assert len(answers) == 3 + 1, "three knocks, and the last word"
        (asked,) = await store.approvals(session.id)
        assert (asked.status, asked.answer) == ("approved", {"text": ANSWER})
    await store.close()
