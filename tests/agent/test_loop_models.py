from __future__ import annotations

import pytest

from koda_ray.agent.answer import ModelRetry
from koda_ray.agent.stuck import EMPTY
from koda_ray.errors import (
    InvalidTransition,
    ModelAuth,
    ModelOverloaded,
    ModelRefused,
    ModelStreamBroken,
)
from koda_ray.state.records import Batch
from tests.agent.desk import Desk
from tests.agent.journals import Disk, MemoryJournal
from tests.agent.scripted import Break, calls, says

CUT = ModelStreamBroken("cut")


async def test_a_broken_stream_is_asked_again_and_nothing_half_is_kept() -> None:
    desk = Desk([Break(CUT, says("Hal")), [says("Whole.")]])
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Whole."
    assert [message.role for message in desk.disk.history()] == ["user", "assistant"]
    assert desk.types() == ["model_retry", "usage"]
    assert isinstance(desk.seen[1], ModelRetry) and desk.seen[1].code == "MODEL_STREAM_BROKEN"
    assert desk.provider.requests[0] == desk.provider.requests[1]


async def test_what_waits_to_be_heard_is_in_the_history_before_each_request() -> None:
    desk = Desk([[calls("echo", {"path": "a"})], Break(CUT, says("Hal")), [says("Whole.")], [says("Over.")]])
    desk.waiting = ["Go"]

    def asked() -> list[list[str]]:
        return [[words for words in ("Go", "one", "two") if words in str(each)] for each in desk.provider.requests]

    assert (await desk.loop.run()).text == "Whole."
    assert asked() == [["Go"]] * 3
    desk.waiting = ["one", "two"]
    assert (await desk.loop.run()).text == "Over."
    assert asked()[3:] == [["Go", "one", "two"]]
    assert (await desk.loop.run()).text == "Over.", "nothing waits, and nobody is asked"
    assert len(desk.provider.requests) == 4


async def test_where_what_waits_is_taken_back_as_it_is_heard_each_move_is_told() -> None:
    class Taken(MemoryJournal):
        async def commit(self, batch: Batch) -> None:
            if any("red" in str(each.content) for each in batch.messages):
                raise InvalidTransition("it was taken back")
            await super().commit(batch)

    desk = Desk([Break(CUT, says("Hal")), [says("Whole.")]], journal=Taken(Disk()))
    await desk.loop.add_user("Go")
    desk.waiting = ["make it red"]
    assert (await desk.loop.run()).text == "Whole." and desk.waiting == []
    moves = [each.data for each in desk.disk.events if each.type == "breakpoint_change"]
    assert [each["to"] for each in moves[:3]] == ["PRE_MODEL", "STREAMING_MODEL", "PRE_MODEL"]
    assert [each["from"] for each in moves] == [None, *(each["to"] for each in moves[:-1])]


async def test_a_stream_that_always_breaks_ends_in_the_error_and_can_go_on_later() -> None:
    desk = Desk([Break(CUT, calls("echo", {"path": "a"}))] * 3 + [[says("Back.")]], model_attempts=3)
    await desk.loop.add_user("Go")
    with pytest.raises(ModelStreamBroken):
        await desk.loop.run()
    assert not desk.disk.calls
    assert (await desk.loop.run()).text == "Back."


async def test_an_overload_in_the_middle_is_asked_again_one_at_the_start_is_not() -> None:
    overloaded = ModelOverloaded("busy")
    desk = Desk([Break(overloaded, says("Hal")), [says("Whole.")]])
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Whole."
    desk = Desk([Break(overloaded)])
    await desk.loop.add_user("Go")
    with pytest.raises(ModelOverloaded):
        await desk.loop.run()
    assert len(desk.provider.requests) == 1


async def test_a_wrong_key_is_not_tried_again() -> None:
    desk = Desk([Break(ModelAuth("no"))])
    await desk.loop.add_user("Go")
    with pytest.raises(ModelAuth):
        await desk.loop.run()
    assert len(desk.provider.requests) == 1


async def test_a_refusal_is_an_error_and_stays_out_of_the_history() -> None:
    desk = Desk([[says("I can't help with that.")]], stop="refusal")
    await desk.loop.add_user("Go")
    with pytest.raises(ModelRefused, match="can't help"):
        await desk.loop.run()
    assert [message.role for message in desk.disk.history()] == ["user"]
    assert desk.types() == ["usage"]


async def test_an_answer_cut_at_the_token_limit_is_continued_a_few_times() -> None:
    desk = Desk([[says("word " * 5)]] * 3, model_attempts=3, stop="max_tokens")
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).kind == "limit"
    assert len(desk.provider.requests) == 3
    assert "cut off" in desk.provider.requests[1]["messages"][-1]["content"][-1]["text"]


async def test_an_empty_answer_is_asked_about_and_the_history_stays_valid() -> None:
    desk = Desk([[says(" ")], [says("Here.")]])
    await desk.loop.add_user("Go")
    assert (await desk.loop.run()).text == "Here."
    (message,) = desk.provider.requests[1]["messages"]
    assert [block["text"] for block in message["content"]] == ["Go", EMPTY]
