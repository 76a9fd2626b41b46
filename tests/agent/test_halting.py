"""A cancel is stored: killed right after it, an agent is at rest; killed right before it, it goes on."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from koda_ray.agent import Agent, AgentPool
from koda_ray.agent.breakpoints import Breakpoint, derive
from koda_ray.agent.context import prune, words_in
from koda_ray.agent.halting import halted, place_of_halt, was_halted
from koda_ray.agent.own_words import HALTED, are_a_persons
from koda_ray.agent.runtime import Runtime
from koda_ray.llm.anthropic import AnthropicProvider
from koda_ray.llm.base import Message
from koda_ray.state.store import Store
from tests.agent.halt_victim import ENOUGH, store_of
from tests.agent.test_messages import record
from tests.agent.warm import Warm
from tests.llm.server import Answer, Call, ModelServer, ScriptedModel, reply, texts

Json = dict[str, Any]
CALLED = "Beside a call: there?"


class Model:
    """Answers what was said last; at first it calls the tool, or begins an answer."""

    def __init__(self, *, calls: bool) -> None:
        self.asked: list[list[str]] = []
        self.calls = calls

    def respond(self, request: Json) -> Answer:
        self.asked.append(texts(request))
        if any("there?" in words.lower() for words in self.asked[-1]):
            return reply("Yes.")
        return Call("wait") if self.calls and len(self.asked) == 1 else reply("I have waited.")


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    warm = Warm("tests.agent.halt_victim")
    yield warm
    warm.close()


async def told(store: Store) -> list[tuple[JsonValue, JsonValue]]:
    """List the moves from breakpoint to breakpoint."""
    (row,) = await store.list_sessions("local")
    events = await store.events(row.id, limit=1000)
    return [(each.data["from"], each.data["to"]) for each in events if each.type == "breakpoint_change"]


@asynccontextmanager
async def next_process(store: Store, base_url: str) -> AsyncGenerator[AgentPool]:
    """Open the pool that takes up what a killed process has left, and wait until it has nothing to do."""
    await store.open()
    provider = AnthropicProvider("test-key", base_url=base_url)
    runtime = Runtime(provider=provider, store=store)
    async with AgentPool(lambda name, runtime: Agent(name, runtime=runtime), runtime=runtime) as pool:
        await pool.rest()
        yield pool
    await provider.close()
    await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "json"])
async def test_cancelled_while_the_model_answers_and_killed_it_is_at_rest(
    warm: Warm, tmp_path: Path, kind: str
) -> None:
    model, url = Model(calls=False), f"{kind}:{tmp_path / 'agents'}"
    store = store_of(url)
    with ModelServer(ScriptedModel(model.respond)) as server:
        assert warm.live(url, server.base_url, "after", "") == -signal.SIGKILL
        async with next_process(store, server.base_url) as pool:
            assert len(model.asked) == 1, "nobody asks for what was cancelled"
            async with pool.use("ann") as ann:
                assert not await ann.owes()
            changes = await told(store)
            assert changes[-1] == ("STREAMING_MODEL", "READY"), "told in the transaction of the cancel"
            await pool.rest()
            assert len(model.asked) == 1
            assert (await pool.ask("ann", "There?")).text == "Yes."
        said = model.asked[-1]
        assert said[0] == "Wait." and said[1].startswith(f"{HALTED} {ENOUGH}") and said[2:] == ["There?"]


async def test_killed_before_a_cancel_is_stored_it_goes_on(warm: Warm, tmp_path: Path) -> None:
    model, url = Model(calls=False), f"sqlite:{tmp_path / 'agents'}"
    with ModelServer(ScriptedModel(model.respond)) as server:
        assert warm.live(url, server.base_url, "before", "") == -signal.SIGKILL
        async with next_process(store_of(url), server.base_url) as pool, pool.use("ann") as ann:
            assert model.asked == [["Wait."], ["Wait."]]
            assert (await ann.messages())[-1].content == [{"type": "text", "text": "I have waited."}]


@pytest.mark.parametrize("late", ["There?", CALLED])
async def test_what_is_said_while_a_cancel_is_under_way_is_answered_after_a_kill(
    warm: Warm, tmp_path: Path, late: str
) -> None:
    model, url = Model(calls=late == CALLED), f"sqlite:{tmp_path / 'agents'}"
    with ModelServer(ScriptedModel(model.respond)) as server:
        assert warm.live(url, server.base_url, "after", late) == -signal.SIGKILL
        async with next_process(store_of(url), server.base_url) as pool, pool.use("ann") as ann:
            assert (await ann.messages())[-1].content == [{"type": "text", "text": "Yes."}]
    assert len(model.asked) == 2 and model.asked[-1][-1] == late, "it comes after the cancel"


@pytest.mark.parametrize("kind", ["sqlite", "json"])
async def test_what_is_said_to_one_just_opened_after_its_cancel_was_begun_is_answered_after_a_kill(
    warm: Warm, tmp_path: Path, kind: str
) -> None:
    model, url = Model(calls=False), f"{kind}:{tmp_path / 'agents'}"
    with ModelServer(ScriptedModel(model.respond)) as server:
        assert warm.live(url, server.base_url, "opened", "There?") == -signal.SIGKILL
        async with next_process(store_of(url), server.base_url) as pool, pool.use("ann") as ann:
            assert (await ann.messages())[-1].content == [{"type": "text", "text": "Yes."}]
    (said,) = model.asked
    assert said[0] == "Wait." and said[1].startswith(f"{HALTED} {ENOUGH}") and said[2:] == ["There?"]


def test_a_history_that_ends_with_a_cancel_is_at_rest_until_something_is_said() -> None:
    go, no = record(1, "user", {"type": "text", "text": "Go"}), record(2, "user", dict(halted("The person cancelled.")))
    assert derive([go], {}) is Breakpoint.PRE_MODEL and not was_halted([go], {})
    assert derive([go, no], {}) is Breakpoint.READY and was_halted([go, no], {})
    again = record(3, "user", {"type": "text", "text": "Go on"})
    assert derive([go, no, again], {}) is Breakpoint.PRE_MODEL and not was_halted([go, no, again], {})


def test_a_cancel_stands_where_it_was_begun_unless_the_work_has_told_more() -> None:
    go, late = (record(n, "user", {"type": "text", "text": "Go"}) for n in (1, 3))
    assert place_of_halt([go], None) is None
    assert place_of_halt([go, late], 2) == 2
    assert place_of_halt([go, record(3, "assistant", {"type": "text", "text": "Done"})], 2) is None


def test_however_long_ago_words_and_their_cancel_stay_together() -> None:
    no = halted("The person cancelled.")
    said = [Message(role="user", content=({"type": "text", "text": "Delete it all."}, no))]
    for number in range(400):
        said.append(Message(role="assistant", content=({"type": "text", "text": f"{number}"},)))
        said.append(Message(role="user", content=({"type": "text", "text": "Go on."},)))
    assert not are_a_persons(no["text"])
    assert words_in(said, frozenset())[:2] == ["Delete it all.", no["text"]]
    first = prune(said).messages[0].content[0]
    assert first["type"] == "text" and no["text"] in first["text"]
