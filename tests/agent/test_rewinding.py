"""Back into the middle of a conversation: its history is valid wherever that is, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koda_ray.agent import Agent, Policy, Runtime, tool
from koda_ray.agent.approvals import ApprovalRequest, request
from koda_ray.agent.delegation import Subagent, subagents_among
from koda_ray.agent.ledger import OpenCall, recorded_result, started
from koda_ray.agent.messages import from_records, repair, tool_results, tool_uses
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.rewinding import open_at, settled_at
from koda_ray.agent.toolkit import ToolCall
from koda_ray.agent.transcript import merged
from koda_ray.errors import Conflict, InvalidTransition, NotFound
from koda_ray.llm.base import Message
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import Batch, MessageRecord, ToolCallRecord
from koda_ray.state.store import Store
from koda_ray.types import new_id, now
from tests.agent.histories import pairs_hold, valid
from tests.agent.test_alone import served
from tests.llm.server import Call, Say, call, reply, results

# --- any history, any point ---------------------------------------------------------------------------------------


def rows_of(history: Iterable[Message]) -> list[MessageRecord]:
    return [
        MessageRecord(
            id=f"msg_{place}",
            session_id="ses_1",
            user_id="ann",
            agent="a",
            position=place,
            role=message.role,
            content=cast("list[Any]", list(message.content)),
            created_at=now(),
        )
        for place, message in enumerate(history, 1)
    ]


STATUSES = st.sampled_from([None, "waiting", "approved", "started", "succeeded", "failed", "interrupted"])


@given(valid(), st.data())
def test_cut_at_any_message_every_call_has_one_result_or_waits(
    history: tuple[Message, ...], data: st.DataObject
) -> None:
    rows = rows_of(history)
    kept = rows[: data.draw(st.integers(1, len(rows)))]
    ledger: list[ToolCallRecord] = []
    for row, message in zip(kept, from_records(kept), strict=True):
        for block in tool_uses(message):
            status = data.draw(STATUSES)
            if status is not None:
                ended = status in ("succeeded", "failed", "interrupted")
                ledger.append(
                    ToolCallRecord(
                        id=block["id"],
                        session_id="ses_1",
                        user_id="ann",
                        message_id=row.id,
                        name=block["name"],
                        input={},
                        effect="unsafe",
                        status=status,
                        attempt=1,
                        result={"content": "x", "isError": False} if ended else None,
                        started_at=now(),
                    )
                )
    open_ = {each.block["id"] for each in open_at(kept)}
    waits = {each for each in open_ if data.draw(st.booleans())}
    settled = settled_at(kept, ledger, waits=waits, reason="Back.", effects="Gone.", at=now())
    whole = [*kept, *settled.closing]
    made = [block["id"] for message in from_records(whole) for block in tool_uses(message)]
    answered = [block["tool_use_id"] for message in from_records(whole) for block in tool_results(message)]
    after = {row.id: row for row in settled.tool_calls}
    still = open_ & waits & {row.id for row in ledger}
    assert sorted(answered) == sorted(set(made) - still), "each call has one result, or waits for a person"
    assert all(after[each].status == "waiting" for each in still)
    assert not {row.id for row in settled.tool_calls if row.status in ("started", "approved")} & open_
    for before in ledger:  # what happened is not taken back by going back
        if recorded_result(before) is not None and before.id not in waits:
            assert after[before.id] == before
    pairs_hold(repair(from_records(whole), after))
    assert len(settled.closing) <= 1 and all(row.position > kept[-1].position for row in settled.closing)


# --- an agent that stands alone -----------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "json"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        yield tmp_path / "agents.db"
        return
    made = JSONStore(tmp_path / "agents")
    await made.open()
    yield made
    await made.close()


async def test_an_agent_goes_back_and_forward_and_does_nothing_twice(store: Store | Path) -> None:
    charged: list[int] = []

    def charge(amount: int) -> str:
        """Charge somebody."""
        charged.append(amount)
        return f"charged {amount}"

    def again(request: Any) -> object:
        (told,) = results(request)
        assert "REWOUND" in str(told["content"]) and told["is_error"]
        assert "What it did is not undone." in str(told["content"])
        return reply("It was charged already.")

    steps = (call("charge", {"amount": 5}), reply("Done."), again, reply("Another thing."))
    async with (
        served(*steps) as provider,
        Agent("ann", [charge], runtime=Runtime(provider=provider, store=store)) as agent,
    ):
        await agent.run("Charge five.")
        before, ledger = await agent.messages(), await agent.calls()
        assert [message.role for message in before] == ["user", "assistant", "user", "assistant"]

        await agent.rewind(before[1].id)  # to the call: it was made, and its result was not there yet
        assert charged == [5] and await agent.calls() == ledger
        cut = await agent.messages()
        assert cut[:2] == before[:2] and len(cut) == 3
        assert (await agent.run()).text == "It was charged already."
        assert charged == [5]

        await agent.undo()
        assert await agent.messages() == before and await agent.calls() == ledger
        with pytest.raises(NotFound) as caught:
            await agent.undo()
        assert caught.value.code == "NOTHING_TO_UNDO"
        left = (await agent.heads())[-1]
        await agent.rewind(left.id)
        assert [message.role for message in await agent.messages()] == ["user", "assistant", "user", "assistant"]
        await agent.rewind(before[0].id)
        assert await agent.messages() == before[:1] and await agent.calls() == []
        assert (await agent.run()).text == "Another thing."  # it is asked again, from the first words
        told = [event.data["point"] async for event in _now(agent) if event.type == "rewound"]
        assert told == [before[1].id, (await agent.heads())[0].id, left.id, before[0].id]


async def _now(agent: Agent) -> Any:
    row = await agent.runtime.store.get_session(agent.id)
    async for event in agent.events():
        yield event
        if event.seq == row.seq:
            return


async def test_a_fork_shares_the_past_and_nothing_else(store: Store | Path) -> None:
    def first(request: Any) -> object:
        assert "Hello?" in str(request) and "Again?" not in str(request)
        return reply("I am the other one.")

    steps = (reply("Hello."), reply("Again."), first)
    async with served(*steps) as provider, Agent("ann", runtime=Runtime(provider=provider, store=store)) as agent:
        await agent.run("Hello?")
        point = (await agent.messages())[-1]
        await agent.run("Again?")
        whole = await agent.messages()
        other = await agent.fork("bob", at=point.id)
        async with other:
            assert other.id != agent.id
            assert [(m.agent, m.content) for m in await other.messages()] == [("bob", m.content) for m in whole[:2]]
            assert (await other.run("Who are you?")).text == "I am the other one."
            assert await agent.messages() == whole
            await other.rewind(whole[0].id)
            assert len(await other.messages()) == 1
        with pytest.raises(Conflict, match="'bob' already"):
            await agent.fork("bob")
        with pytest.raises(NotFound):
            await agent.fork("eve", at="msg_nonsense")


async def test_a_fork_has_its_summaries_and_subagents_under_its_own_name(store: Store | Path) -> None:
    at = now()
    fields: dict[str, Any] = {"task": "Look.", "tools": (), "model": "m", "depth": 1, "created_at": at}
    done = Subagent(id="sub_1", parent="ann", name="eye", place=0, status="done", result="Red.", ended_at=at, **fields)
    busy = Subagent(id="sub_2", parent="ann", name="ear", place=1, **fields)
    async with (
        served(reply("Hello.")) as provider,
        Agent("ann", runtime=Runtime(provider=provider, store=store)) as agent,
    ):
        await agent.run("Hello?")
        row = await agent.runtime.store.get_session(agent.id)
        said = (await agent.messages())[-1]
        streams = {name: new_id("msg") for name in ("ann/summary", "sub_1", "sub_2")}
        rows = [replace(said, id=id, agent=name, position=1, created_at=now()) for name, id in streams.items()]
        beads = [each.bead(row.id, row.user_id) for each in (done, busy)]
        await agent.runtime.store.commit(row.id, row.epoch, Batch(messages=rows, beads=beads))
        async with await agent.fork("bob") as other:
            assert [m.content for m in await other.messages()] == [m.content for m in await agent.messages()]
            kept = {
                name: await other.runtime.store.messages(other.id, agent=name) for name in ("bob/summary", *streams)
            }
            assert {name: len(found) for name, found in kept.items()} == {
                "bob/summary": 1, "ann/summary": 0, "sub_1": 1, "sub_2": 1,
            }  # fmt: skip
            found = subagents_among(await other.runtime.store.beads(other.id))
            assert {each.parent for each in found.values()} == {"bob"}
            assert (found["sub_1"].status, found["sub_1"].result, found["sub_1"].told) == ("done", "Red.", False)
            assert found["sub_2"].status == "cancelled" and "made of another one" in found["sub_2"].result


async def test_a_call_that_waits_in_a_fork_is_one_of_its_own(store: Store | Path) -> None:
    letters: dict[str, str] = {}

    @tool(effect="idempotent")
    def send(to: str, call: ToolCall) -> str:
        """Send a letter, once for each key."""
        return letters.setdefault(call.id, to)

    ask = Permissions(mode="ask")
    steps = (call("send", {"to": "eve"}), reply("Sent one."), reply("Sent another."))
    async with (
        served(*steps) as provider,
        Agent("ann", [send], runtime=Runtime(provider=provider, store=store), policy=Policy(permissions=ask)) as agent,
    ):
        mine = str((await agent.run("Write to eve.")).suspended_call_id)
        async with await agent.fork("bob") as other:
            (pending,) = await other.approvals()
            assert pending.call_id is not None and pending.call_id != mine
            assert (await other.run()).suspended_call_id == pending.call_id
            assert (await agent.approve(mine)).text == "Sent one."
            assert (await other.approve(pending.call_id)).text == "Sent another."
            assert letters == {mine: "eve", pending.call_id: "eve"}, "each was sent, under a key of its own"
            (row,) = await other.calls()
            assert (row.id, row.status) == (pending.call_id, "succeeded") and await other.approvals() == []
            with pytest.raises(NotFound):
                await other.approve(mine)


async def test_what_a_subagent_waited_for_waits_for_nobody_where_it_never_ends(store: Store | Path) -> None:
    at = now()
    fields: dict[str, Any] = {"task": "Write.", "tools": (), "model": "m", "depth": 1, "created_at": at}
    busy = Subagent(id="sub_1", parent="ann", name="pen", place=0, **fields)
    async with (
        served(reply("Hello.")) as provider,
        Agent("ann", runtime=Runtime(provider=provider, store=store)) as agent,
    ):
        await agent.run("Hello?")
        row = await agent.runtime.store.get_session(agent.id)
        said = (await agent.messages())[-1]
        block: Any = {"type": "tool_use", "id": "cal_1", "name": "send", "input": {}}
        wants = replace(said, id=new_id("msg"), agent="sub_1", position=1, content=[block], created_at=now())
        made = started(OpenCall(message=wants, block=block), name="send", effect="unsafe", attempt=0, at=at)
        waits = request(made, ApprovalRequest(agent="sub_1", proposed={}, reason=""), at=at)
        batch = merged(Batch(messages=[wants], beads=[busy.bead(row.id, row.user_id)]), waits)
        await agent.runtime.store.commit(row.id, row.epoch, batch)
        assert len(await agent.approvals()) == 1
        async with await agent.fork("bob") as other:
            assert await other.approvals() == []
            assert [(call.id, call.status) for call in await other.calls()] == [("cal_1", "interrupted")]
        await agent.rewind(wants.id)
        assert await agent.approvals() == [] and [call.status for call in await agent.calls()] == ["interrupted"]


async def test_what_waited_for_agreement_waits_again_where_that_is_undone(store: Store | Path) -> None:
    sent: list[str] = []

    @tool(effect="unsafe")
    def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return "sent"

    ask = Permissions(mode="ask")
    async with (
        served(call("send", {"to": "ann"}), reply("Sent.")) as provider,
        Agent("ann", [send], runtime=Runtime(provider=provider, store=store), policy=Policy(permissions=ask)) as agent,
    ):
        asked = await agent.run("Write to ann.")
        (pending,) = await agent.approvals()
        start = (await agent.messages())[0]
        await agent.rewind(start.id)
        assert await agent.approvals() == [] and await agent.calls() == []
        await agent.undo()
        assert [each.id for each in await agent.approvals()] == [pending.id]
        assert (await agent.approve(str(asked.suspended_call_id))).text == "Sent." and sent == ["ann"]

    running = []

    async def while_it_runs() -> str:
        """Try to go back."""
        with pytest.raises(InvalidTransition, match="runs"):
            await agent.rewind(start.id)
        running.append(1)
        return "no"

    async with (
        served(reply(Call("while_it_runs", {}), Say("")), reply("Well.")) as provider,
        Agent("eve", [while_it_runs], runtime=Runtime(provider=provider, store=store)) as agent,
    ):
        assert (await agent.run("Go.")).text == "Well." and running
