from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from koda_ray.agent.toolkit import Tool, ToolCall, ToolOutcome
from koda_ray.errors import (
    BudgetExceeded,
)
from koda_ray.state.records import SideEffect
from tests.agent.desk import Desk, Path, tool
from tests.agent.journals import Disk
from tests.agent.scripted import calls, says


async def test_pure_calls_run_beside_each_other_within_the_bound_and_are_recorded_in_order() -> None:
    running = most = 0
    gate = asyncio.Event()

    async def look(given: Path, call: ToolCall) -> ToolOutcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            gate.set()
        await asyncio.wait_for(gate.wait(), 60)
        running -= 1
        return ToolOutcome(content=given.path)

    script = [[calls("look", {"path": str(n)}) for n in range(7)], [says("Seen.")]]
    desk = Desk(script, tool("look", look, effect="pure"), parallel=3)
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Seen."
    assert most == 3
    assert [r["content"] for r in desk.results] == [str(n) for n in range(7)]
    ends = [event.data["callId"] for event in desk.disk.events if event.type == "tool_end"]
    assert ends == list(desk.disk.calls)


async def test_idempotent_calls_run_beside_each_other_where_no_two_touch_the_same() -> None:
    order: list[str] = []
    together: set[str] = set()
    inside: set[str] = set()

    async def put(given: Path, call: ToolCall) -> ToolOutcome:
        order.append(given.path)
        inside.add(call.id)
        await asyncio.sleep(0)  # the ones beside it begin
        together.add("+".join(sorted(calls_of[each] for each in inside)))
        inside.discard(call.id)
        return ToolOutcome(content=given.path)

    def made(
        name: str, effect: SideEffect, keys: Callable[[Path], list[str]] | None = lambda given: [given.path]
    ) -> Tool:
        return Tool(name=name, description=name, input_model=Path, effect=effect, run=put, keys=keys)

    asked = [
        *(("put", path) for path in "aba"),  # the second a waits for the first
        ("look", "c"),
        ("anything", "d"),  # which says nothing of what it touches
        *(("put", path) for path in "ef"),
        ("charge", "g"),
        ("put", "h"),
    ]
    script = [[calls(name, {"path": path}) for name, path in asked], [says("Done.")]]
    desk = Desk(
        script, made("put", "idempotent"), made("look", "pure"), made("anything", "idempotent", None),
        made("charge", "unsafe"), parallel=3,
    )  # fmt: skip
    await desk.loop.add_user("Go")
    calls_of = _Named(desk.disk)
    assert (await desk.loop.run()).text == "Done."
    assert order == list("abacdefgh") == [result["content"] for result in desk.results]
    assert together == {"a+b", "b", "a+c", "c", "d", "e+f", "f", "g", "h"}


class _Named:
    """What calls are about, by their ids."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getitem__(self, call_id: str) -> str:
        return str(self._disk.calls[call_id].input["path"])


async def test_killed_beside_each_other_both_run_again_under_their_own_ids() -> None:
    class Crash(BaseException):
        pass

    disk, acted = Disk(), list[tuple[str, str]]()

    def kit(*, dies: bool) -> Tool:
        async def put(given: Path, call: ToolCall) -> ToolOutcome:
            acted.append((given.path, call.id))
            await asyncio.sleep(0)
            if dies:
                raise Crash
            return ToolOutcome(content=given.path)

        return Tool(
            name="put",
            description="p",
            input_model=Path,
            effect="idempotent",
            run=put,
            keys=lambda given: [given.path],
        )

    desk = Desk([[calls("put", {"path": "a"}), calls("put", {"path": "b"})]], kit(dies=True), disk=disk)
    await desk.loop.add_user("Go")
    with pytest.raises(Crash):
        await desk.loop.run()
    assert [row.status for row in disk.calls.values()] == ["started", "started"]
    again = Desk([[says("Done.")]], kit(dies=False), disk=disk)
    assert (await again.loop.run()).text == "Done."
    assert [path for path, _ in acted] == ["a", "b", "a", "b"] and len({id for _, id in acted}) == 2
    assert [(row.status, row.attempt) for row in disk.calls.values()] == [("succeeded", 2)] * 2


async def test_all_that_wait_for_more_to_spend_are_put_back_and_what_was_done_beside_them_is_kept() -> None:
    allowed, ran = False, list[str]()

    async def look(given: Path, call: ToolCall) -> ToolOutcome:
        await asyncio.sleep(0)
        if given.path != "b" and not allowed:
            about = {"account": "x", "resource": "render", "limit": 1, "spent": 1, "held": 0, "wanted": 1}
            raise BudgetExceeded(given.path, context=about)
        ran.append(given.path)
        return ToolOutcome(content=given.path)

    script = [[calls("look", {"path": path}) for path in "abc"], [says("Seen.")]]
    desk = Desk(script, tool("look", look, effect="pure"))
    await desk.loop.add_user("Go")
    for _ in range(4):  # more often than a call that brings its process down is begun
        outcome = await desk.loop.run()
        assert (outcome.kind, outcome.text) == ("paused", "a") and ran == ["b"]
        rows = [(row.status, row.attempt) for row in desk.disk.calls.values()]
        assert rows == [("approved", 0), ("succeeded", 1), ("approved", 0)], "a pause is no attempt"
    allowed = True
    assert (await desk.loop.run()).text == "Seen." and ran == ["b", "a", "c"]
    assert [result["content"] for result in desk.results] == ["a", "b", "c"]
