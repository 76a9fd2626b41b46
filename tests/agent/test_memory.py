"""Histories that grow too long: what is summed up, what never is, and what a crash or a provider's limit does to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koda_ray.agent import Agent, Runtime, tool
from koda_ray.agent.gauge import Gauge
from koda_ray.agent.hooks import Hook, Stop
from koda_ray.agent.loop import AgentLoop, Limits
from koda_ray.agent.memory import Summary, boundary, content_of, read_summary, remembered, stream_of, summary_request
from koda_ray.agent.spec import ModelAccess, Policy, Prompt
from koda_ray.agent.toolkit import Toolkit
from koda_ray.errors import ModelError
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import Block, Message, ModelRequest, Usage
from koda_ray.model_names import Vendor
from koda_ray.state.records import MessageRecord
from koda_ray.types import now
from tests.agent.journals import ME, Crash, Disk, MemoryJournal
from tests.agent.long_session import DECISION, FILES, WISH, LongSession, cached_share, is_summary, sent
from tests.agent.scripted import Provider, calls, says
from tests.agent.test_vendors import APIS, loop_over, provider_of
from tests.llm.server import ModelServer, ScriptedModel, reply, system_of


def record(position: int, role: str, *blocks: Block, agent: str = "orchestrator") -> MessageRecord:
    return MessageRecord(
        id=f"msg_{agent}_{position}",
        session_id="ses_1",
        user_id="local",
        agent=agent,
        position=position,
        role=role,  # type: ignore[arg-type]
        content=list(blocks),  # type: ignore[arg-type]
        created_at=now(),
    )


def talk(turns: int, words: str = "some words that take room ") -> list[MessageRecord]:
    """Make a history of so many turns, which ends with the person."""
    made: list[MessageRecord] = []
    for turn in range(turns):
        made.append(record(2 * turn + 1, "user", says(f"wish {turn}: {words * 5}")))
        made.append(record(2 * turn + 2, "assistant", says(f"answer {turn}: {words * 5}")))
    made.append(record(2 * turns + 1, "user", says("and now?")))
    return made


# --- a long session -----------------------------------------------------------------------------------------------


@pytest.mark.full
async def test_a_long_session_reads_nine_tenths_from_the_cache_and_forgets_nothing_that_matters(tmp_path: Path) -> None:
    session, turns = LongSession(), 60
    with ModelServer(ScriptedModel(session.respond)) as server:
        provider = AnthropicProvider("test-key", base_url=server.base_url)
        for begin in (0, turns // 2):  # another process goes on in the middle
            async with session.agent(provider, tmp_path / "a.db", context_tokens=14_000) as ann:
                for turn in range(begin, begin + turns // 2):
                    assert (await session.say(ann, turn)).kind == "end_turn"
                stored, events = await ann.messages(), await ann.runtime.store.events(ann.id, limit=10_000)
        await provider.close()
        requests = [each for each in server.requests if not is_summary(each.asked)]
        share = cached_share(server.requests)  # the summaries' own requests count, and nothing of them is cached
    assert len(requests) == turns * 4 and session.summaries >= 2
    assert share >= 0.9, f"{share:.3f}"
    told = [event.data for event in events if event.type == "usage"]
    read = sum(int(str(usage["cacheReadTokens"])) for usage in told)
    assert read == sum(each.usage["cache_read_input_tokens"] for each in server.requests)
    assert len([usage for usage in told if usage.get("purpose") == "summary"]) == session.summaries

    last = requests[-1].asked
    said = sent(last)
    assert "<summary>" in said and "never green" in said  # in the model's words
    assert WISH in said  # and in the person's
    assert f"Decisions: {DECISION}" in said
    assert len(session.files) == FILES
    assert all(text in said for text in session.files.values())  # files as they are, whole
    assert "move20_0" not in said  # and no longer as they were
    assert len(stored) == turns * 9 and WISH in str(stored[18].content)  # what was said is all in the store


# --- crashes ------------------------------------------------------------------------------------------------------


def lived(*crashes: int) -> tuple[Disk, int, int]:
    """Go through a run that has to sum up first, in as many processes as it takes; count instants and summaries."""
    disk, instants, summed = Disk(), 0, 0
    disk.messages = {each.id: each for each in talk(20)}

    def tick(what: str) -> None:
        nonlocal instants
        instants += 1
        if instants in crashes:
            raise Crash(what)

    def model(request: Any) -> list[Block]:
        nonlocal summed
        summed += is_summary(request)
        return [says("They like blue.")] if is_summary(request) else [says("Done.")]

    async def live() -> str:
        loop = AgentLoop(
            ME,
            access=ModelAccess(provider=Provider(model, tick=tick), model="m", prompt=Prompt(system=("Talk.",))),
            toolkit=Toolkit([]),
            journal=MemoryJournal(disk, tick),
            policy=Policy(limits=Limits(context_tokens=1000)),
        )
        return (await loop.run()).text

    for _ in range(len(crashes) + 1):
        try:
            assert asyncio.run(live()) == "Done."
            break
        except Crash:
            continue
    return disk, instants, summed


def test_a_crash_while_it_sums_up_leaves_one_summary_and_every_message() -> None:
    whole, instants, summed = lived()
    assert summed == 1 and instants >= 6
    for instant in range(1, instants + 1):
        disk, _, again = lived(instant)
        assert again in (1, 2)  # asked again where it was not stored
        assert len(disk.history(stream_of("orchestrator"))) == 1
        assert [m.content for m in disk.history()] == [m.content for m in whole.history()]
        paid = [event for event in disk.events if event.data.get("purpose") == "summary"]
        assert len(paid) == 1 and [event.type for event in disk.events].count("summarized") == 1


def test_a_summary_that_fails_is_left_for_later() -> None:
    disk = Disk()
    disk.messages = {each.id: each for each in talk(20)}

    def model(request: Any) -> list[Block]:
        if is_summary(request):
            raise ModelError("not now")
        return [says("Done.")]

    loop = AgentLoop(
        ME,
        access=ModelAccess(provider=Provider(model), model="m", prompt=Prompt()),
        toolkit=Toolkit([]),
        journal=MemoryJournal(disk),
        policy=Policy(limits=Limits(context_tokens=1000)),
    )
    assert asyncio.run(loop.run()).text == "Done."
    assert disk.history(stream_of("orchestrator")) == []


@pytest.mark.parametrize("limit_tokens", [1_000, 100_000], ids=["long", "refused"])
@pytest.mark.parametrize("place", ["before_model", "after_model"])
async def test_a_hook_that_stops_at_a_summary_ends_the_run(place: str, limit_tokens: int) -> None:
    disk, stops = Disk(), [Stop("enough for today")]
    disk.messages = {each.id: each for each in talk(100)}

    async def once(request: ModelRequest, *_: object) -> Stop | None:
        return stops.pop() if stops and "to remember" in request.system[0] else None

    def model(request: Any) -> Any:
        return reply("They like blue.") if is_summary(request) else reply("Here it is.")

    with ModelServer(ScriptedModel(model), context_tokens=3_000) as server:
        provider = provider_of("anthropic", server)
        loop = AgentLoop(
            ME,
            access=ModelAccess(provider=provider, model="m", prompt=Prompt(system=("Talk.",))),
            toolkit=Toolkit([]),
            journal=MemoryJournal(disk),
            policy=Policy(
                limits=Limits(context_tokens=limit_tokens),
                hooks=[Hook(name="brake", **{place: once})],  # type: ignore[arg-type]
            ),
        )
        outcome = await loop.run()
        assert (outcome.kind, outcome.text) == ("stopped", "enough for today")
        assert len(disk.history(stream_of("orchestrator"))) == (place == "after_model")  # it was paid for, and is kept
        assert not any(record.status == 200 and not is_summary(record.asked) for record in server.requests)
        assert (await loop.run()).text == "Here it is."
        assert len(disk.history(stream_of("orchestrator"))) == 1
        await provider.close()


# --- which summary counts -----------------------------------------------------------------------------------------


def test_a_summary_counts_for_the_history_that_it_was_made_of() -> None:
    history = talk(10)
    stored = record(1, "assistant", *content_of(Summary(covers=8, text="sum"), history))
    assert read_summary([stored], history) == Summary(covers=8, text="sum")
    copied = [replace(each, id=f"copy_{each.id}", session_id="ses_2") for each in history]
    assert read_summary([stored], copied) == Summary(covers=8, text="sum")
    assert read_summary([stored], history[:6]) is None  # taken back to before its end
    other = [*history[:6], record(7, "user", says("something else")), *history[7:]]
    assert read_summary([stored], other) is None  # went another way since
    older = record(0, "assistant", *content_of(Summary(covers=4, text="old"), history))
    assert read_summary([older, stored], other) == Summary(covers=4, text="old")


def test_no_call_is_parted_from_its_result() -> None:
    call: Block = {"type": "tool_use", "id": "c", "name": "do", "input": {}}
    result: Block = {"type": "tool_result", "tool_use_id": "c", "content": "ok", "is_error": False}
    history = [record(1, "user", says("go")), record(2, "assistant", call), record(3, "user", says("wait"))]
    history += [record(4, "user", result), record(5, "assistant", says("done"))]
    assert [boundary(history, keep) for keep in range(6)] == [5, 4, 1, 1, 1, 0]


def test_the_persons_words_stay_word_for_word_the_first_and_the_newest() -> None:
    history = talk(400)
    (block,) = remembered(Summary(covers=800, text="sum"), history, verbatim=frozenset(), files_of=None)
    lines = [json.loads(line) for line in block["text"].splitlines() if line.startswith("{")]
    said = [line["person"].split(":")[0] for line in lines]
    assert said[0] == "wish 0" and said[-1] == "wish 399" and 50 < len(said) < 200
    assert len(block["text"]) < 20_000


def test_a_preference_far_into_long_words_stays_and_is_summed_up() -> None:
    long = f"{'I saw a film. ' * 120}Never use green, and call the ball Otto. {'It was late. ' * 60}"
    history = talk(8)
    history[4] = record(5, "user", says(long))
    (block,) = remembered(Summary(covers=16, text="sum"), history, verbatim=frozenset(), files_of=None)
    assert json.dumps(long) in block["text"], "there is room for all of it"
    many = [record(2 * n + 1, "user", says(f"{n} {long}")) for n in range(20)]
    (block,) = remembered(Summary(covers=20, text="sum"), many, verbatim=frozenset(), files_of=None)
    assert len(block["text"]) < 20_000 and '"19 I saw' in block["text"] and '"0 I saw' in block["text"]
    for most_tokens in (100_000, 3_000):
        request = summary_request(
            [*talk(60), *history], None, agent="a", model="m", verbatim=frozenset(), most_tokens=most_tokens
        )
        (told,) = request.messages[0].content
        assert told["type"] == "text" and "Never use green" in told["text"] and "Otto" in told["text"]
        assert all(json.loads(line) for line in told["text"].splitlines()), "whole lines"


async def test_the_files_of_an_agent_of_functions_stay_whole_through_a_long_talk(tmp_path: Path) -> None:
    @tool(effect="idempotent", files=lambda given, _: {str(given["path"]): str(given["text"])})
    def write(path: str, text: str) -> str:
        """Write a file."""
        return "written"

    poem = "A line of a long poem. " * 100
    provider = Provider([[calls("write", {"path": "poem.txt", "text": poem})], *[[says("ok")] for _ in range(60)]])
    async with Agent("ann", [write], runtime=Runtime(provider=provider, store=tmp_path / "a.db")) as ann:
        for turn in range(50):
            await ann.run(f"turn {turn}")
    messages = provider.requests[-1]["messages"]
    assert len(messages) < 40 and json.dumps(poem) in str([block["text"] for block in messages[0]["content"]])


# --- what a provider takes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", list(APIS))
async def test_a_conversation_that_is_too_long_is_summed_up_and_asked_once_more(vendor: Vendor) -> None:
    disk = Disk()
    disk.messages = {each.id: each for each in talk(100)}

    def model(request: Any) -> Any:
        return reply("They like blue.") if is_summary(request) else reply("Here it is.")

    with ModelServer(ScriptedModel(model), wire=APIS[vendor][1](), context_tokens=3_000) as server:
        provider = provider_of(vendor, server)
        loop = loop_over(provider, APIS[vendor][3], disk)
        assert (await loop.run()).text == "Here it is."
        await loop.add_user("And more of it")
        assert (await loop.run()).text == "Here it is."
        await provider.close()
        asked = [(record.status, is_summary(record.asked)) for record in server.requests]
    assert asked[0] == (400, False) and asked[-3:] == [(200, True), (200, False), (200, False)]
    assert all(summary for _, summary in asked[1:-2])  # its own request had to become shorter first
    assert len(disk.history()) == 201 + 3 and len(disk.history(stream_of("orchestrator"))) == 1


async def test_what_stays_too_long_is_an_error_and_is_not_tried_for_ever() -> None:
    disk = Disk()
    disk.messages = {each.id: each for each in [*talk(3), record(8, "user", says("endless " * 5000))]}
    refused: list[bool] = []

    def model(request: Any) -> Any:
        return reply("They like blue.")

    with ModelServer(ScriptedModel(model), context_tokens=3_000) as server:
        provider = provider_of("anthropic", server)
        system = tuple("Rules. " * 3000 for _ in range(1))
        loop = AgentLoop(
            ME,
            access=ModelAccess(provider=provider, model="m", prompt=Prompt(system=system)),
            toolkit=Toolkit([]),
            journal=MemoryJournal(disk),
        )
        with pytest.raises(ModelError) as raised:
            await loop.run()
        await provider.close()
        refused = [record.status == 400 for record in server.requests if "Rules" in system_of(record.asked)]
    assert raised.value.code == "MODEL_CONTEXT_OVERFLOW"
    assert refused == [True, True]
    assert disk.history()[-1].position == 8


# --- how long a prompt is -----------------------------------------------------------------------------------------


def asked(words: int) -> ModelRequest:
    message = Message(role="user", content=({"type": "text", "text": "word " * words},))
    return ModelRequest(agent="a", model="m", system=(), messages=(message,))


class Counting(Provider):
    """Can count, and notes that it was asked to."""

    def __init__(self, answer: Callable[[], int | None]) -> None:
        super().__init__([])
        self.counted = 0
        self._answer = answer

    async def count(self, request: ModelRequest) -> int | None:
        self.counted += 1
        return self._answer()


async def test_tokens_are_those_of_the_last_usage_and_counted_only_near_the_limit() -> None:
    provider = Counting(lambda: 990)
    gauge = Gauge(provider)
    assert await gauge.tokens(asked(100), limit=1000) < 200 and provider.counted == 0  # far below: an estimate
    gauge.learn(asked(100), Usage(input_tokens=10, cache_read_tokens=80, cache_write_tokens=10))
    assert await gauge.tokens(asked(150), limit=1000) == 150 and provider.counted == 0  # at the rate that was seen
    assert await gauge.tokens(asked(1100), limit=1000) == 990 and provider.counted == 1
    assert await gauge.tokens(asked(1105), limit=1000) == pytest.approx(994, abs=2) and provider.counted == 1


@pytest.mark.parametrize("answer", [None, ModelError("no")])
async def test_a_provider_that_cannot_count_leaves_the_estimate(answer: Exception | None) -> None:
    def count() -> None:
        if answer is not None:
            raise answer

    assert await Gauge(Counting(count)).tokens(asked(1000), limit=1000) > 1000
    assert await Gauge(Provider([])).tokens(asked(1000), limit=1000) > 1000
