"""A room of agents: who answers whom, in which order, when it stops, and what a crash leaves of it."""

from __future__ import annotations

import asyncio
import re
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koda_ray.agent import Member, Room, Runtime, tool
from koda_ray.agent.context import LineLengths, story, words_in
from koda_ray.agent.limits import Limits
from koda_ray.agent.messages import from_records
from koda_ray.agent.own_words import OTHERS
from koda_ray.agent.permissions import Permissions
from koda_ray.agent.room import RoomMessage, RoomOutcome
from koda_ray.errors import Conflict, InvalidInput, InvalidTransition, ModelError, NotFound
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import Block
from koda_ray.state.json_store import JSONStore
from koda_ray.state.records import Batch
from koda_ray.state.store import Store
from tests import tiers
from tests.agent.everywhere import everywhere
from tests.agent.room_victim import NAMES, talker
from tests.agent.scripted import Given, Provider, says
from tests.agent.warm import Warm
from tests.llm.server import Answer, ApiError, Call, ModelServer, ScriptedModel, reply, results, system_of

Json = dict[str, Any]
ANN, BOB, CID = Member(name="ann", about="plans"), Member(name="bob", about="draws"), Member(name="cid")


@asynccontextmanager
async def room_of(
    store: Store, model: Callable[[str, Json], Answer], members: Sequence[Member] = (ANN, BOB, CID), **options: Any
) -> AsyncIterator[Room]:
    """A room whose members' models are one function of the member's name and the request."""

    def respond(request: Json) -> Answer:
        return model(me(request), request)

    with ModelServer(ScriptedModel(respond)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        async with Room("desk", members, runtime=Runtime(provider=provider, store=store), **options) as room:
            yield room
        await provider.close()


def me(request: Json) -> str:
    found = re.search(r"You are (\S+), in a room", system_of(request))
    assert found is not None
    return found[1]


def heard(request: Json) -> list[str]:
    """List what a member was told last."""
    told = [
        [b["text"] for b in m["content"] if b["type"] == "text"] for m in request["messages"] if m["role"] == "user"
    ]
    return next(texts for texts in reversed(told) if texts)


def lines(messages: Sequence[RoomMessage]) -> list[str]:
    return [f"{each.author}: {each.text}" for each in messages]


@everywhere
async def test_members_answer_whom_they_are_asked_by_and_nobody_else_does(store: Store) -> None:
    def model(name: str, request: Json) -> Answer:
        told = heard(request)
        if name == "ann":
            return reply("@bob draw a ball." if "bob:" not in told[0] else "It is done.")
        assert name == "bob" and "- ann: plans" in system_of(request)
        assert told == ["[1] person: @ann, a ball.", f"{OTHERS}\n[2] ann: @bob draw a ball."]
        return reply("@ann here it is.")

    async with room_of(store, model) as room:
        outcome = await room.run("@ann, a ball.")
        assert (outcome.kind, outcome.text) == ("quiet", "It is done.")
        expected = ["person: @ann, a ball.", "ann: @bob draw a ball.", "bob: @ann here it is.", "ann: It is done."]
        assert lines(outcome.said) == lines(room.transcript) == expected
        assert [each.position for each in room.transcript] == [1, 2, 3, 4]
        events = [event for event in await store.events(room.id) if event.type == "room_message"]
        assert [event.data["text"] for event in events] == [each.text for each in room.transcript]
        assert {event.channel for event in events} == {"progress"}
        assert await room.messages("cid") == []
        assert (await room.run()).said == ()


@everywhere
async def test_whoever_comes_late_hears_what_was_said_before_and_goes_on_after_it_is_opened_again(store: Store) -> None:
    def model(name: str, request: Json) -> Answer:
        return reply(f"I heard {str(heard(request)).count(': ')}.")

    async with room_of(store, model) as room:
        await room.run("@ann one")
        await room.run("@bob two")
    async with room_of(store, model) as room:
        outcome = await room.run("three")
        assert lines(outcome.said)[1:] == ["ann: I heard 3.", "bob: I heard 2.", "cid: I heard 7."]
        assert len(room.transcript) == 8


async def test_all_are_woken_where_that_was_said_until_they_have_nothing_to_add(store: Store) -> None:
    def model(name: str, request: Json) -> Answer:
        return reply(f"{name} is here." if f"{name} is here." not in str(request) else "(silent)")

    async with room_of(store, model, wakes="all") as room:
        outcome = await room.run("Who is here?")
        assert outcome.kind == "quiet"
        assert lines(outcome.said)[1:] == [f"{name}: {name} is here." for name in NAMES]


async def test_two_who_answer_each_other_for_ever_stop_and_a_person_is_asked(store: Store) -> None:
    def model(name: str, request: Json) -> Answer:
        return reply(f"@{'bob' if name == 'ann' else 'ann'} thank you!")

    async with room_of(store, model, messages=6) as room:
        outcome = await room.run("@ann hello")
        assert outcome.kind == "stopped" and len(outcome.said) == 7
        assert "6 messages" in outcome.text and "Should ann go on?" in outcome.text
        (question,) = await room.approvals()
        assert (question.kind, question.payload["waiting"]) == ("question", ["ann"])
        stopped = [
            event for event in await store.events(room.id) if event.type in ("room_stopped", "approval_requested")
        ]
        assert [event.channel for event in stopped] == ["control", "control"]
        assert (await room.run()).kind == "stopped" and len(room.transcript) == 7
    async with room_of(store, model, messages=2) as room:
        assert (await room.run()).kind == "stopped" and len(room.transcript) == 7
        outcome = await room.run("Yes, a little.")
        assert outcome.kind == "stopped"
        assert outcome.said[0].author == "person"
        assert 2 <= len(outcome.said) - 1 <= 2 + len(NAMES)
        answered, again = await room.approvals(pending=False)
        assert (answered.status, answered.answer) == ("approved", {"text": "Yes, a little.", "author": "person"})
        assert again.status == "pending"


async def test_a_person_may_speak_while_members_have_their_turns(store: Store) -> None:
    inside = asyncio.Event()
    go_on = asyncio.Event()

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        inside.set()
        await go_on.wait()
        return "seen"

    def model(name: str, request: Json) -> Answer:
        if name == "bob":
            return reply("Bob here.")
        return reply(f"I saw. I heard {heard(request)[0][:3]}") if results(request) else Call("look")

    members = (Member(name="ann", tools=(look,)), BOB)
    async with room_of(store, model, members, at_once=2) as room:
        running = asyncio.create_task(room.run("@ann look"))
        await asyncio.wait_for(inside.wait(), 60)
        with pytest.raises(InvalidTransition, match="runs already"):
            await room.run()
        await room.post("@bob and you?")
        async with asyncio.timeout(60):
            while len(room.transcript) < 3:
                await asyncio.sleep(0.01)
        await room.post("@ann also this", author="Dana")
        go_on.set()
        outcome = await running
        assert lines(outcome.said) == [
            "person: @ann look",
            "person: @bob and you?",
            "bob: Bob here.",
            "Dana: @ann also this",
            "ann: I saw. I heard [1]",
            "ann: I saw. I heard [2]",
        ]


async def test_what_a_member_asks_a_person_is_answered_in_the_room(store: Store) -> None:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    paid: list[int] = []

    def model(name: str, request: Json) -> Answer:
        if name == "bob":
            return reply("I am not asked to pay.")
        return reply("Paid.") if results(request) else Call("pay", {"amount": 4})

    members = (Member(name="ann", tools=(pay,), permissions=Permissions(mode="ask")), BOB)
    async with room_of(store, model, members) as room:
        outcome = await room.run("Pay.")
        assert outcome.kind == "suspended" and lines(outcome.said)[1:] == ["bob: I am not asked to pay."]
    async with room_of(store, model, members) as room:
        again = await room.run()
        assert again.suspended_call_id == outcome.suspended_call_id and paid == []
        assert lines((await room.approve(again.suspended_call_id or "")).said) == ["ann: Paid."]
        assert paid == [4]


async def test_a_member_that_cannot_end_its_turn_is_told_of_and_one_whose_model_fails_has_it_again(
    store: Store,
) -> None:
    broken = True

    @tool(effect="idempotent")
    def step(number: int) -> str:
        """Step."""
        return str(number)

    def model(name: str, request: Json) -> Answer:
        if name == "ann":
            return Call("step", {"number": len(results(request))})
        return ApiError(400, "invalid_request_error", "no such thing") if broken else reply("Mended.")

    members = (Member(name="ann", tools=(step,), limits=Limits(turns=2)), BOB)
    async with room_of(store, model, members) as room:
        with pytest.raises(ModelError, match="no such thing"):
            await room.run("Go.")
        assert lines(room.transcript)[1].startswith("room: ann stopped before its turn was over: Stopped at the limit")
        broken = False
        assert lines((await room.run()).said) == ["bob: Mended."]


@everywhere
async def test_a_member_that_is_stuck_asks_once_and_is_heard_again_when_a_person_has_spoken_to_it(store: Store) -> None:
    asked: list[str] = []

    @tool(effect="idempotent")
    async def knock() -> str:
        """Knock."""
        raise NotFound("no door")

    def model(name: str, request: Json) -> Answer:
        asked.append(name)
        if name == "bob":
            return reply("@ann hello?")
        return reply("I leave it.") if "Leave it" in str(heard(request)) else Call("knock")

    members = (Member(name="ann", tools=(knock,)), BOB)
    async with room_of(store, model, members) as room:
        outcome = await room.run("@ann knock")
        assert outcome.kind == "stopped" and "ann is stuck" in outcome.text and "knock failed 3 times" in outcome.text
        (question,) = await room.approvals()
        assert question.kind == "question" and question.payload == {
            "reason": "stuck", "text": outcome.text, "waiting": ["ann"]
        }  # fmt: skip
    asked.clear()
    async with room_of(store, model, members) as room:
        again = await room.run("@bob and you?")
        assert (again.kind, again.text) == ("stopped", outcome.text)
        assert lines(again.said) == ["person: @bob and you?", "bob: @ann hello?"] and asked == ["bob"]
        assert await room.approvals() == [question]
        outcome = await room.run("@ann Leave it.")
        assert (outcome.kind, lines(outcome.said)[1:]) == ("quiet", ["ann: I leave it."])
        (answered,) = await room.approvals(pending=False)
        assert (answered.id, answered.status) == (question.id, "approved")
        assert answered.answer == {"text": "@ann Leave it.", "author": "person"}
        told = [event for event in await store.events(room.id) if event.type.startswith("approval")]
        assert [event.type for event in told] == ["approval_requested", "approval_resolved"]


async def test_what_other_members_say_ends_no_circle_and_is_no_wish_of_a_persons(store: Store) -> None:
    @tool(effect="idempotent")
    async def knock() -> str:
        """Knock."""
        raise NotFound("no door")

    def model(name: str, request: Json) -> Answer:
        if name == "bob":
            return reply("@ann try again; I love green.")
        knocked = any(block["type"] == "tool_result" for block in request["messages"][-1]["content"])
        return reply("@bob it does not open.") if knocked else Call("knock")

    ann = Member(name="ann", tools=(knock,))
    async with room_of(store, model, (ann, BOB)) as room:
        outcome = await room.run("@ann knock, and never green.")
        assert outcome.kind == "stopped" and "ann is stuck: knock failed 3 times" in outcome.text.replace(
            " and waits until somebody tells it how to go on", ""
        )
        assert [each.author for each in room.transcript] == ["person", *["ann", "bob"] * 2, "room"]
    async with room_of(store, model, (ann, CID)) as room:  # one that has left is no person either
        with pytest.raises(InvalidInput, match="cannot speak as 'bob'"):
            await room.post("@ann hello", author="bob")
        assert (await room.run("@cid well?")).kind == "stopped"
        await room.run("@ann and now?")
        history = from_records(await room.messages("ann"))
        said = words_in(history, frozenset())
        assert "never green" in said[0] and "@ann and now?" in said[-1] and "love green" not in str(said)
        assert "love green" in story(history, frozenset(), LineLengths(said=400, told=400))


async def test_words_said_to_a_member_while_it_finds_out_that_it_is_stuck_are_the_answer(store: Store) -> None:
    knocks = 0

    @tool(effect="idempotent")
    async def knock() -> str:
        """Knock."""
        nonlocal knocks
        knocks += 1
        if knocks == 3:
            await room.post("@bob @ann Leave it.")
        raise NotFound("no door")

    def model(name: str, request: Json) -> Answer:
        return reply("I leave it.") if name == "bob" or "Leave it" in str(heard(request)) else Call("knock")

    async with room_of(store, model, (Member(name="ann", tools=(knock,)), BOB)) as room:
        outcome = await room.run("@ann knock")
        assert outcome.kind == "quiet" and await room.approvals(pending=False) == []
        assert {"ann: I leave it.", "bob: I leave it."} <= set(lines(outcome.said))


async def test_it_runs_until_the_turns_that_were_cancelled_have_ended(store: Store) -> None:
    inside, leaving, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool(effect="idempotent")
    async def look() -> str:
        """Look."""
        inside.set()
        try:
            await gate.wait()
        finally:
            leaving.set()
            await gate.wait()
        return "seen"

    def model(name: str, request: Json) -> Answer:
        return reply("I saw.") if results(request) else Call("look")

    async with room_of(store, model, (Member(name="ann", tools=(look,)),)) as room:
        running = asyncio.create_task(room.run("Look."))
        await asyncio.wait_for(inside.wait(), 60)
        running.cancel()
        await asyncio.wait_for(leaving.wait(), 60)
        with pytest.raises(InvalidTransition, match="the room 'desk' runs already"):
            await room.run()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert lines((await room.run()).said) == ["ann: I saw."]


@everywhere
async def test_one_key_is_one_message_and_what_is_wrong_is_said(store: Store) -> None:
    async with room_of(store, lambda name, request: reply("Yes."), (ANN,)) as room:
        first = await room.run("There?", key="k")
        assert (await room.run("There?", key="k")).said == ()
        assert (await room.post("There?", key="k")) == first.said[0]
        with pytest.raises(Conflict):
            await room.post("Here?", key="k")
        with pytest.raises(InvalidInput, match="empty"):
            await room.post(" ")
        for author in ("ann", "room", "", "a\nb"):
            with pytest.raises(InvalidInput, match="cannot speak as"):
                await room.post("I am not.", author=author)
    with pytest.raises(InvalidInput, match="one name"):
        Room("x", [ANN, Member(name="Ann")], runtime=Runtime(store=store))
    with pytest.raises(InvalidInput, match="messages=0"):
        Room("x", [ANN], runtime=Runtime(store=store), messages=0)
    with pytest.raises(InvalidTransition, match="async with"):
        await Room("x", [ANN], runtime=Runtime(store=store)).post("Hello?")


# --- order --------------------------------------------------------------------------------------------------------


class Dying(JSONStore):
    """A store that fails before or after a commit, at chosen ones, without saying which."""

    def __init__(self, folder: Path, failing: set[int]) -> None:
        super().__init__(folder)
        self.failing = failing
        self.commits = 0

    async def commit(self, session_id: str, epoch: int, batch: Batch) -> Any:
        self.commits += 1
        at = 2 * self.commits
        if at in self.failing:
            raise OSError("before")
        made = await super().commit(session_id, epoch, batch)
        if at + 1 in self.failing:
            raise OSError("after")
        return made


def sound(room: Room, outcome: RoomOutcome, histories: dict[str, list[Any]]) -> None:
    """What holds of every room at rest."""
    transcript = room.transcript
    assert [each.position for each in transcript] == list(range(1, len(transcript) + 1))
    for name, history in histories.items():
        heard: list[int] = []
        spoken = [each.position for each in transcript if each.author == name]
        words = 0
        for message in history:
            text = "\n".join(block["text"] for block in message.content)
            if message.role == "user":
                heard += [int(number) for number in re.findall(r"^\[(\d+)\]", text, re.MULTILINE)]
            elif text != "(silent)":
                assert spoken[words] > heard[-1], "an answer stands before what it answers"
                assert transcript[spoken[words] - 1].text == text
                words += 1
        assert words == len(spoken), "a turn was said twice or never"
        others = [each.position for each in transcript if each.author != name]
        assert heard == others[: len(heard)], f"{name} heard {heard} of {others}"
        woken = [each.position for each in transcript if name in each.to]
        assert not woken or heard[-1] >= woken[-1] or outcome.kind == "stopped", f"{name} was woken and had no turn"


@settings(max_examples=tiers.examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    said=st.lists(st.lists(st.sampled_from(["", "@ann", "@bob", "@cid", "@all"]), max_size=6), min_size=3, max_size=3),
    asked=st.lists(st.sampled_from(["hello", "@ann", "@bob @cid"]), min_size=1, max_size=3),
    at_once=st.integers(1, 3),
    failing=st.sets(st.integers(2, 40), max_size=4),
    reopens=st.booleans(),
)
def test_whatever_is_said_by_whom_everybody_hears_it_once_and_in_order(
    said: list[list[str]], asked: list[str], at_once: int, failing: set[int], reopens: bool
) -> None:
    left = {name: list(words) for name, words in zip(NAMES, said, strict=True)}

    def model(request: Given) -> Sequence[Block]:
        words = left[me(request)]
        mention = words.pop(0) if words else ""
        return [says(f"word {len(words)} {mention}".strip() if mention or words else "(silent)")]

    async def live() -> None:
        with tempfile.TemporaryDirectory() as name:
            store = Dying(Path(name), failing)
            await store.open()
            members = [Member(name=each) for each in NAMES]
            for number, words in enumerate(asked):
                done = False
                while not done:  # a failure each time, until there are no more
                    async with Room(
                        "desk",
                        members,
                        runtime=Runtime(provider=Provider(model), store=store),
                        at_once=at_once,
                        messages=8,
                    ) as room:
                        while not done:
                            try:
                                outcome = await room.run(words, key=str(number))
                                sound(room, outcome, {each: await room.messages(each) for each in NAMES})
                                done = True
                            except OSError:
                                if reopens:
                                    break
            await store.close()

    asyncio.run(live())


# --- killed -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    warm = Warm("tests.agent.room_victim")
    yield warm
    warm.close()


@pytest.mark.parametrize("kind", ["sqlite", "json"])
@pytest.mark.full
async def test_killed_at_every_commit_nothing_is_said_twice_or_lost(warm: Warm, tmp_path: Path, kind: str) -> None:
    with ModelServer(ScriptedModel(lambda request: talker(me(request), request))) as server:
        report = tmp_path / "report"

        def live(folder: str, dies_at: int) -> int:
            return warm.live(f"{kind}:{tmp_path / folder}", server.base_url, dies_at, str(report))

        assert live("whole", 0) == 0
        instants, _, whole = report.read_text().partition("\n")
        assert whole.count("\n") == 5
        for instant in range(1 if kind == "sqlite" else 2, int(instants) + 1, 2):
            assert live(str(instant), instant) == -signal.SIGKILL
            assert live(str(instant), 0) == 0
            assert report.read_text().partition("\n")[2] == whole, f"killed at instant {instant}"
